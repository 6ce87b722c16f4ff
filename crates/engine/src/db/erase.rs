//! The erasure of a range: how it comes into what readers see, and how it goes when it is applied.
//!
//! ```text
//! commit    under the commit latch, with its seqnum: into the version, where nobody sees it before it is published
//! flush     into the manifest, with the memtable that was active then; the flush applies it to what it writes
//! then      runs that it covers as a whole are dropped unread, the others it is applied to as they are compacted
//! retired   when no tree has anything left that it hides, and every snapshot sees it
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{FileId, Reached, Result, SeqNum};
use crate::table::Trees;
use crate::table::edit::Edit;
use crate::table::files::FileKind;
use crate::table::version::Place;
use crate::tree::erasure::{Erasure, Erasures};
use crate::txn::batch::Changes;

use super::core::{Core, Ledger, TableState};
use super::table::Table;
use super::write::position;

/// So many erasures of a table wait in memory before its memtable is flushed: each later one copies them.
const IN_MEMORY_MAX: usize = 256;

impl Core {
    /// Shows readers the erasures among changes, the first of which has seqnum `first`. The commit latch says that nobody else does.
    pub(super) fn show_erasures(&self, changes: &Changes, tables: &[Table], first: SeqNum) {
        let mut seqnum = first;
        for change in changes.iter() {
            if let Some(range) = change.range() {
                let table = tables[position(tables, change.table)].state();
                table.erase(&Erasure { range, seqnum });
            }
            seqnum.0 += 1;
        }
    }

    /// Freezes the memtables of tables that have many erasures in memory.
    pub(super) fn rotate_erased(&self, tables: &[Table]) {
        for table in tables.iter().filter(|table| table.state().has_many_erasures()) {
            self.rotate(&mut self.commit.lock(), table.state());
            self.wake_flush();
        }
    }

    /// Drops the runs of which nobody sees anything, without reading them; says whether there were any. The caller holds the table's
    /// compaction latch.
    pub(super) fn drop_erased(&self, table: &TableState) -> Result<bool> {
        if table.version.load().trees.erasures.is_empty() {
            return Ok(false);
        }
        let mut ledger = self.ledger.lock();
        if table.check().is_err() {
            return Ok(false);
        }
        let removed = table.version.load().trees.erased_runs(self.oldest_snapshot());
        if !removed.is_empty() {
            let edit = Edit::Compact { table: table.id, removed: removed.clone(), added: Vec::new() };
            self.or_poison(self.record(&mut ledger, &edit))?;
        }
        self.or_poison(self.show_replaced(ledger, table, &removed, Place::L0, &[]))?;
        removed.iter().for_each(|id: &FileId| self.remove(&FileKind::Run.path(&self.dir, *id)));
        Ok(!removed.is_empty())
    }

    /// Leaves out the erasures that nobody needs any more beside `trees`, which are about to be shown.
    pub(super) fn retire(&self, ledger: &mut Ledger, table: &TableState, trees: &mut Trees) -> Result<()> {
        if trees.erasures.is_empty() {
            return Ok(());
        }
        let (mut snapshots, published) = self.snapshots.live();
        snapshots.push(published);
        snapshots.sort_unstable();
        // An erasure of what has expired covers memtables too.
        let needed = match &table.expiry {
            Some(_) => Erasures::clone(&trees.erasures),
            None => trees.erasures.needed(&snapshots, &trees.held()),
        };
        if snapshots.first().is_some_and(|oldest| *oldest < needed.newest()) {
            self.erasures_wait.store(true, Ordering::Relaxed);
        }
        if needed == *trees.erasures {
            return Ok(());
        }
        let erasures = Arc::new(needed);
        self.record(ledger, &Edit::Erase { table: table.id, erasures: Arc::clone(&erasures) })?;
        trees.erasures = erasures;
        Reached::ErasureRetired.mark();
        Ok(())
    }

    /// Nobody sees any more what the oldest snapshot saw: an erasure may have waited for that.
    pub(crate) fn released_oldest(&self) {
        if self.erasures_wait.load(Ordering::Relaxed) && self.erasures_wait.swap(false, Ordering::Relaxed) {
            self.wake_compact();
        }
    }

    /// What every snapshot sees, now or to come.
    pub(super) fn oldest_snapshot(&self) -> SeqNum {
        let (snapshots, published) = self.snapshots.live();
        snapshots.first().map_or(published, |oldest| published.min(*oldest))
    }
}

impl TableState {
    /// Shows readers one more erasure, which nobody sees before it is published.
    pub(crate) fn erase(&self, erasure: &Erasure) {
        self.version.rcu(|version| version.erasing(erasure));
    }

    /// Whether so many erasures are in memory that they should be flushed.
    pub(super) fn has_many_erasures(&self) -> bool {
        let version = self.version.load();
        version.erasures.len() > version.trees.erasures.len() + IN_MEMORY_MAX
    }
}
