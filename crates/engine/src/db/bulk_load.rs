//! The bulk load: sorted entries go straight into runs, and become part of the table all at once.
//!
//! ```text
//! push    write runs of the size that a compaction would write: entries of seqnum zero, nothing refers to the files
//! finish  flush what is in memory, so that little is left to be flushed under the flush gate
//!         commit latch ┌ freeze the memtable ── a seqnum, in the order of commits ┐
//!                      └──────────────────────────────────────────────────────────┘
//!         flush what was frozen ── force the log ── name the runs in the manifest ── show them ── publish
//!         B-tree: merge the runs into it, as a flush does
//! ```
//!
//! # Invariants
//! 1. When the runs are shown, all older changes of the table lie in trees, and all newer ones in memtables: so they
//!    are the newest trees, and each may sink to the lowest level above which nothing has keys in its range. A
//!    compaction under way that meets the range keeps a run in L0: its results come to levels as if the run were not
//!    there.
//! 2. The runs are shown before their seqnum is published, and only snapshots from there on see them
//!    ([`Run::visible_from`]).
//!
//! [`Run::visible_from`]: crate::tree::run::Run::visible_from

use std::fmt;
use std::mem;
use std::sync::Arc;

use crate::base::key::{check_key, check_value};
use crate::base::{Entry, Error, FileId, Kind, Lsn, Result, SeqNum};
use crate::table::LevelId;
use crate::table::edit::Edit;
use crate::table::record::RunRecord;
use crate::table::{RunHandle, policy};
use crate::txn::publish::Seqnums;

use super::core::{Core, PendingLoad, TableState};
use super::flush::lacks;
use super::merge::goes_by;
use super::run_writer::RunWriter;

/// So many bytes of a key are shown in a message.
const SHOWN_BYTES: usize = 64;

/// A load of sorted entries into a table, without redo log and memtable: the fastest way to write many at once. Made by
/// [`Table::bulk_load`](crate::Table::bulk_load).
///
/// Nothing of it is visible before [`BulkLoad::finish`], which adds all entries as one commit: it has one place in the
/// order of commits, so that it overwrites what was committed before and is overwritten by what comes after, and a
/// snapshot sees all of it or nothing. Transactions that began before and wrote a key of the load conflict with it. It
/// does not appear in the redo log, nor in [`Database::changes`](crate::Database::changes). A crash, or dropping the
/// load unfinished, leaves nothing of it.
///
/// ```
/// # use spinney::{Database, Options, TableOptions};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// let table = db.create_table("numbers", TableOptions::default())?;
/// let mut load = table.bulk_load()?;
/// for number in 0..1000u64 {
///     load.push(&number.to_be_bytes(), b"value")?;
/// }
/// load.finish()?;
/// assert_eq!(db.snapshot().range(&table, ..).count(), 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a load that is not finished leaves nothing"]
pub struct BulkLoad<'a> {
    core: &'a Core,
    table: &'a Arc<TableState>,
    /// `None` after a failure, and when the load is finished.
    writer: Option<RunWriter<'a>>,
    last_key: Vec<u8>,
    entries: u64,
}

impl<'a> BulkLoad<'a> {
    pub(crate) fn new(core: &'a Core, table: &'a Arc<TableState>) -> Result<Self> {
        core.check_writable()?;
        // Only the end of the load will tell where it goes.
        let filter_bits = f64::from(table.options.filter_bits_per_key);
        let writer = Some(RunWriter::of_load(core, &table.options, filter_bits));
        Ok(Self { core, table, writer, last_key: Vec::new(), entries: 0 })
    }

    /// Adds an entry. Its key must be above the one before.
    ///
    /// # Errors
    /// `Invalid` for a key that is not above the one before, naming both, for a key or value of a length that cannot be
    /// stored, and for a value that the table's merge operator refuses; `Io` and `Full` when a run cannot be written,
    /// which does no harm to the database; `Closed`. After an error the load is given up: its files are gone, and every
    /// further call is refused.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let pushed = self.try_push(key, value);
        if pushed.is_err() {
            self.give_up();
        }
        pushed
    }

    fn try_push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.core.health.check_open()?;
        check_key(key)?;
        check_value(value)?;
        self.table.check_value(value)?;
        let writer = self.writer.as_mut().ok_or_else(given_up)?;
        if *key <= *self.last_key {
            let (last, key) = (shown(&self.last_key), shown(key));
            let message = format!("a bulk load needs ascending keys: '{key}' came after '{last}'");
            return Err(Error::invalid(message));
        }
        writer.push(&Entry { key, seqnum: SeqNum::ZERO, kind: Kind::Put, value })?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.entries += 1;
        Ok(())
    }

    /// How many entries were added.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Makes all entries visible, at once and durably; and with them everything that was committed before.
    ///
    /// Commits go on meanwhile; those that are ordered after the load, of any table, return when it is visible, which
    /// is soon: it takes the flush of what was written to the table during the last moments, and one record in the
    /// manifest. A B-tree takes the entries in by one merge afterwards; until then they are read beside it.
    ///
    /// # Errors
    /// `Invalid` when the load was given up or the table dropped; `Io`, `Full`, `Poisoned`, `Closed`. Unless the
    /// database is poisoned (then the next open shows whether the load is durable), nothing was added.
    pub fn finish(mut self) -> Result<()> {
        self.writer.as_mut().ok_or_else(given_up)?.complete()?;
        self.core.health.check_writable()?;
        self.table.check()?;
        let writer = self.writer.take().ok_or_else(given_up)?;
        let runs = writer.finish()?;
        self.core.finish_load(self.table, &runs)
    }

    fn give_up(&mut self) {
        if self.core.health.is_forked() {
            // Its files are the other process's, and what writes them waits for threads that are not here.
            mem::forget(self.writer.take());
        }
        if let Some(writer) = self.writer.take() {
            writer.discard();
        }
    }
}

impl Drop for BulkLoad<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for BulkLoad<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkLoad")
            .field("table", &self.table.name)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

fn given_up() -> Error {
    Error::invalid("the bulk load failed before and was given up: begin a new one")
}

/// A key in a message.
fn shown(key: &[u8]) -> String {
    let rest = if key.len() > SHOWN_BYTES { "..." } else { "" };
    format!("{}{rest}", key[..key.len().min(SHOWN_BYTES)].escape_ascii())
}

/// A load that has its place in the order of commits.
struct LoadTicket {
    seqnum: SeqNum,
    /// Where the log of the commits before ends.
    log_end: Lsn,
}

impl Core {
    /// Makes runs whose names are durable part of the table.
    fn finish_load(&self, table: &Arc<TableState>, runs: &[RunHandle]) -> Result<()> {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(()) };
        let range = (&*first.run.meta().smallest, &*last.run.meta().largest);
        // What these do need not be waited for later, by the commits behind the load.
        let prepared = self.flush_all(table);
        if !table.is_compacted_apart(range) {
            drop(table.compaction.lock());
        }
        let gate = self.flush_gate.lock();
        // While none is under way, the trees are all that there is.
        let idle = table.compaction.try_lock();
        let ticket = match prepared.and_then(|()| self.order_load(table, range)) {
            Ok(ticket) => ticket,
            Err(error) => {
                self.discard_load(runs);
                return Err(error);
            }
        };
        let flushed = self.flush_gated(table, ticket.seqnum);
        let shown = flushed.and_then(|()| self.or_poison(self.show_load(table, runs, &ticket, idle.is_some())));
        self.commit.lock().loads.retain(|load| load.seqnum != ticket.seqnum);
        drop(idle);
        let shown = match shown {
            // The flush met a full disk, or the manifest did. Nothing refers to the load yet, which is as a commit of
            // nothing.
            Err(error) if lacks(&error) && self.health.check_poison().is_ok() => Err(error),
            Err(error) => {
                // Commits that are ordered behind the load would wait forever.
                self.publisher.poison();
                return Err(self.poison(error));
            }
            shown => shown,
        };
        let published = self.publisher.complete(Seqnums::one(ticket.seqnum), self.log().durable(), &self.snapshots);
        drop(gate);
        if !published {
            self.health.check_writable()?;
        }
        if let Err(error) = shown {
            self.discard_load(runs);
            return Err(error);
        }
        self.end_loading(runs);
        self.rebalance();
        self.wake_compact();
        let Some(btree) = table.btree() else { return Ok(()) };
        match self.absorb_all(table, &btree, false) {
            // The load is there, and the background takes it in when there is room, or the tree can be read.
            Err(error) if goes_by(&error) => {
                if error.is_of_read() {
                    self.counters.failed_merge(&error);
                }
                self.health.check_poison()
            }
            absorbed => absorbed,
        }
    }

    /// Gives the load its place in the order of commits.
    fn order_load(&self, table: &TableState, range: (&[u8], &[u8])) -> Result<LoadTicket> {
        let mut guard = self.commit.lock();
        let state = &mut *guard;
        self.health.check_writable()?;
        table.check()?;
        self.rotate(state, table);
        let seqnum = self.take_place(state);
        let (smallest, largest) = (range.0.to_vec(), range.1.to_vec());
        state.loads.push(PendingLoad { table: table.id, seqnum, smallest, largest });
        Ok(LoadTicket { seqnum, log_end: self.log().tail() })
    }

    /// Shows readers the runs, above all that is older and was flushed. They may go below L0 when no compaction is
    /// under way.
    fn show_load(&self, table: &Arc<TableState>, runs: &[RunHandle], ticket: &LoadTicket, idle: bool) -> Result<()> {
        // Held until the runs are shown: a compaction that ends meanwhile does not make room for one that knows nothing
        // of them.
        let compacting = table.compacting.lock();
        // The load is durable from here on: so must be the commits before it.
        self.log().sync(ticket.log_end)?;
        let mut ledger = self.ledger.lock();
        // A compaction may store the seqnum, of which the log does not tell.
        self.raise_seqnum_floor(&mut ledger, SeqNum(ticket.seqnum.0 + 1))?;
        let trees = Arc::clone(&table.version.load().trees);
        let busy = compacting.as_ref().map(|(low, high)| (&**low, &**high));
        let places = match idle || busy.is_some() {
            true => policy::places_of_load(&trees, runs, busy),
            false => vec![LevelId::L0; runs.len()],
        };
        runs.iter().for_each(|handle| handle.run.appear_at(ticket.seqnum));
        let records = places.iter().zip(runs).map(|(place, handle)| (*place, RunRecord::of(handle))).collect();
        self.record(&mut ledger, &Edit::Load { table: table.id, replay_from: ticket.log_end, runs: records })?;
        let placed: Vec<_> = places.into_iter().zip(runs.iter().cloned()).collect();
        table.show(trees.with_newest(&placed));
        Ok(())
    }

    /// Removes runs that never became part of a table.
    fn discard_load(&self, runs: &[RunHandle]) {
        self.remove_output(runs);
        self.end_loading(runs);
    }

    /// A verification need not know the files any more.
    fn end_loading(&self, runs: &[RunHandle]) {
        let is_of = |handle: &RunHandle, id: FileId| handle.id == id || handle.run.values().find(id).is_some();
        self.loading.lock().retain(|id| !runs.iter().any(|handle| is_of(handle, *id)));
    }
}

impl TableState {
    /// Whether a compaction is under way that keeps apart from a range of keys.
    fn is_compacted_apart(&self, (low, high): (&[u8], &[u8])) -> bool {
        self.compacting.lock().as_ref().is_some_and(|(first, last)| **last < *low || *high < **first)
    }
}

#[cfg(test)]
mod tests {
    use crate::env::sim::SimEnv;
    use crate::{Database, TableOptions};

    use super::*;
    use crate::base::ErrorKind;

    #[test]
    fn between_its_place_in_the_order_and_its_publication_a_load_conflicts_and_is_not_seen() {
        let sim = SimEnv::new(1);
        let db = Database::builder("/db").env(sim.env()).open().unwrap();
        let table = db.create_table("t", TableOptions::default()).unwrap();
        let (core, state) = (db.core(), table.state());
        let mut writer = RunWriter::of_load(core, &state.options, 10.0);
        for key in [b"k2", b"k4", b"k6"] {
            writer.push(&Entry { key, seqnum: SeqNum::ZERO, kind: Kind::Put, value: b"loaded" }).unwrap();
        }
        let runs = writer.finish().unwrap();
        let mut batch = crate::Batch::new();
        batch.put(&table, b"k2", b"written while the load ends");
        db.write_with(&batch, crate::Durability::Sync).unwrap();
        let mut txn = db.begin();
        txn.put(&table, b"k4", b"mine").unwrap();
        let ticket = core.order_load(state, (b"k2", b"k6")).unwrap();
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
        core.flush_gated(state, ticket.seqnum).unwrap();
        core.show_load(state, &runs, &ticket, true).unwrap();
        let before = db.snapshot();
        let seen = |snapshot: &crate::Snapshot| {
            let got = snapshot.get(&table, b"k4").unwrap().is_some();
            let values: Vec<_> = snapshot.range(&table, ..).map(|entry| entry.unwrap().1.to_vec()).collect();
            let before = vec![b"written while the load ends".to_vec()];
            assert_eq!(values, if got { vec![b"loaded".to_vec(); 3] } else { before });
            got
        };
        assert!(!seen(&before));
        core.commit.lock().loads.clear();
        assert!(core.publisher.complete(Seqnums::one(ticket.seqnum), core.log().durable(), &core.snapshots));
        core.end_loading(&runs);
        assert!(seen(&db.snapshot()) && !seen(&before));
        table.compact().unwrap();
        assert!(seen(&db.snapshot()) && !seen(&before));
    }

    /// Results of a compaction come to levels as if a load that came meanwhile were not there.
    #[test]
    fn runs_that_a_compaction_under_way_may_meet_stay_in_l0() {
        let sim = SimEnv::new(1);
        let db = Database::builder("/db").env(sim.env()).open().unwrap();
        let table = db.create_table("t", TableOptions::default()).unwrap();
        let (core, state) = (db.core(), table.state());
        let shown = |key: &[u8], compacted: Option<(&[u8], &[u8])>| {
            let mut writer = RunWriter::of_load(core, &state.options, 10.0);
            writer.push(&Entry { key, seqnum: SeqNum::ZERO, kind: Kind::Put, value: b"loaded" }).unwrap();
            let runs = writer.finish().unwrap();
            let ticket = core.order_load(state, (key, key)).unwrap();
            *state.compacting.lock() = compacted.map(|(low, high)| (low.to_vec(), high.to_vec()));
            core.show_load(state, &runs, &ticket, false).unwrap();
            *state.compacting.lock() = None;
            core.commit.lock().loads.clear();
            assert!(core.publisher.complete(Seqnums::one(ticket.seqnum), core.log().durable(), &core.snapshots));
            core.end_loading(&runs);
            let shape = table.shape().unwrap();
            (shape.l0.len(), shape.levels.first().map_or(0, |level| level.runs))
        };
        assert_eq!(shown(b"a", None), (1, 0), "nobody knows of which keys it is");
        assert_eq!(shown(b"e", Some((b"d", b"g"))), (2, 0), "within its range, though of none of its keys");
        assert_eq!(shown(b"c", Some((b"d", b"g"))), (2, 1));
        assert_eq!(shown(b"h", Some((b"d", b"g"))), (2, 2));
        assert_eq!(db.snapshot().range(&table, ..).count(), 4);
    }
}
