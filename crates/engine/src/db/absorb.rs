//! How changes come into a B-tree: with the flush where they are dense in it, else by way of runs that are parked over
//! it.
//!
//! A merge rewrites each leaf that it reaches, be it for one change. So a flush of few changes a leaf lays down a run,
//! as an LSM table's does, and the runs are merged into the tree together when [`policy::is_btree_merge_due`] says that
//! they are dense enough. Runs lie over the tree or a flush merges into it, never both: else what the flush brings
//! would lie under older changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{Error, ErrorKind, FileId, Reached, Result};
use crate::table::edit::Edit;
use crate::table::{LevelId, RunHandle, Trees, policy};
use crate::tree::bounded_cursor::BoundedCursor;
use crate::tree::btree::{BTree, MergePermit, PendingRoot};
use crate::tree::gc::GcRule;
use crate::tree::merge::MergeCursor;
use crate::tree::{Cursor, Limits};

use super::compact::Step;
use super::core::{Core, TableState};
use super::merge::goes_by;

/// What came of a merge into a B-tree.
#[derive(Debug)]
pub(super) struct Merged {
    /// The root that is pending.
    pub(super) last: PendingRoot,
    /// Bytes of the tree's file that were written, for all slices.
    pub(super) written: u64,
    /// Changes that went in, into all slices.
    changes: u64,
}

impl Merged {
    /// What came of a merge in one piece.
    pub(super) fn of(last: PendingRoot) -> Self {
        Self { written: last.written_bytes(), changes: last.changes(), last }
    }

    /// Checks that no change was left out, before what has them goes.
    fn check(self, table: &TableState, changes: u64) -> Result<Self> {
        if self.changes == changes {
            return Ok(self);
        }
        let message = format!(
            "table '{}': a merge into its B-tree met {} of {changes} changes, which does not add up: run verify",
            table.name, self.changes
        );
        Err(Error::new(ErrorKind::Corruption, message))
    }
}

impl Core {
    /// The right to merge changes of so many bytes into the tree right away, if they are dense enough. The caller holds
    /// the flush gate, without which no run comes to lie over the tree.
    pub(super) fn merges_now(
        &self,
        table: &TableState,
        trees: &Trees,
        btree: &BTree,
        changes: &mut MergeCursor,
        bytes: u64,
    ) -> Result<Option<MergePermit>> {
        if trees.runs().next().is_some() {
            return Ok(None);
        }
        let Some(turn) = btree.merge_permit() else { return Ok(None) };
        let root = btree.root();
        let worth = policy::leaves_worth(root.meta(), &table.options, bytes);
        match root.reach(changes, worth) {
            Err(error) if error.is_of_read() => {
                self.counters.failed_merge(&error);
                Ok(None)
            }
            reach => Ok((reach? <= worth).then_some(turn)),
        }
    }

    /// Merges the parked runs into the tree if they are dense enough. The caller holds the table's compaction latch.
    pub(super) fn absorb_step(&self, table: &TableState) -> Result<Step> {
        let trees = Arc::clone(&table.version.load().trees);
        if trees.btree.is_none() || !policy::is_btree_merge_due(&trees, &table.options, self.oldest_snapshot()) {
            table.merge_retry.succeeded();
            return Ok(Step::Nothing);
        }
        if table.merge_retry.rest(self.env.clock.now()).is_some() {
            return Ok(Step::Nothing);
        }
        let needs = policy::btree_merge_needs(&trees, &table.options);
        let room = self.room_for(needs, policy::btree_merge_bytes(&trees))?;
        // A holder of the old root keeps the space of its leaves from being given back.
        drop(trees);
        if needs > room {
            return Ok(Step::NoRoom(needs - room));
        }
        match self.absorb(table, false) {
            // The runs stay over the tree, where reads search them, and are merged with each other meanwhile.
            Err(error) if error.is_of_read() => {
                self.counters.failed_merge(&error);
                table.merge_retry.failed(&error, self.env.clock.now());
                Ok(Step::Nothing)
            }
            absorbed => Ok(if absorbed? { Step::Done } else { Step::Nothing }),
        }
    }

    /// Merges all parked runs into the table's B-tree; false when it has none any more, and while somebody else merges
    /// into it. With `rewrite` it comes out packed. The caller holds the table's compaction latch.
    pub(super) fn absorb(&self, table: &TableState, rewrite: bool) -> Result<bool> {
        let Some(btree) = table.btree() else { return Ok(false) };
        let Some(turn) = btree.merge_permit() else { return Ok(false) };
        self.absorb_in(turn, table, &btree, rewrite).map(|()| true)
    }

    /// Merges all runs that there are into the table's B-tree; with `rewrite` it comes out packed.
    pub(super) fn absorb_all(&self, table: &TableState, btree: &BTree, rewrite: bool) -> Result<()> {
        loop {
            let compacting = table.compaction.lock();
            self.health.check_writable()?;
            table.check()?;
            let trees = Arc::clone(&table.version.load().trees);
            if !rewrite && trees.runs().next().is_none() {
                return Ok(());
            }
            let needs = match rewrite {
                true => policy::rewrite_needs(&trees),
                false => policy::btree_merge_needs(&trees, &table.options),
            };
            let inputs = policy::btree_merge_bytes(&trees);
            drop(trees);
            self.check_room(table, (needs, inputs), "")?;
            if let Some(turn) = btree.merge_permit() {
                return self.absorb_in(turn, table, btree, rewrite);
            }
            // The flush under way has the turn, and may want the latch.
            drop(compacting);
            drop(self.flush_gate.lock());
        }
    }

    fn absorb_in(&self, turn: MergePermit, table: &TableState, btree: &BTree, rewrite: bool) -> Result<()> {
        let trees = Arc::clone(&table.version.load().trees);
        let runs: Vec<RunHandle> = trees.runs().collect();
        let ids: Vec<FileId> = runs.iter().map(|handle| handle.id).collect();
        let read: u64 = runs.iter().map(|handle| handle.run.meta().bytes).sum();
        let entries: u64 = runs.iter().map(|handle| handle.run.meta().entries).sum();
        let mut sources = Vec::new();
        trees.merge_sources(&mut sources);
        let (snapshots, published) = self.snapshots.live();
        let mut gc =
            table.retain(snapshots, published, true).with_range_tombstones(Arc::clone(&trees.range_tombstones));
        drop(trees);
        let mut pause = || {
            self.health.check_writable()?;
            table.check()?;
            self.relieve(table, &ids)
        };
        let mut changes = MergeCursor::new(sources);
        let merged = match rewrite {
            true => btree.merge(turn, &mut changes, &mut gc, true, &mut pause).map(Merged::of),
            false => self.merge_in_slices(turn, (table, btree), (&mut changes, read), &mut gc, &mut pause),
        };
        let merged = match merged.and_then(|merged| merged.check(table, entries)) {
            // It has left nothing behind but slices that are in place, and nothing depends on it.
            Err(error) if goes_by(&error) => return Err(error),
            Err(_) if table.check().is_err() => return Ok(()),
            merged => self.or_poison(merged)?,
        };
        self.counters.compaction_write_bytes.fetch_add(merged.written, Ordering::Relaxed);
        self.or_poison(self.install_absorbed(table, btree, &ids, merged.last))?;
        table.merge_retry.succeeded();
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        if !ids.is_empty() {
            Reached::BTreeMerged.mark();
        }
        self.counters.compaction_read_bytes.fetch_add(read, Ordering::Relaxed);
        self.remove_runs(ids);
        self.rebalance();
        // What the next merge will need again soon stays.
        let keep = if rewrite { 0 } else { btree.root().meta().live_bytes() / policy::KEPT_PART };
        match btree.merge_permit() {
            Some(turn) => self.give_back(btree, &turn, keep),
            None => Ok(()),
        }
    }

    /// Gives the file system the space of free blocks back, but for so many bytes.
    pub(super) fn give_back(&self, btree: &BTree, turn: &MergePermit, keep: u64) -> Result<()> {
        match btree.punch_free(turn, keep) {
            // A file system may need space to note a hole; the next merge tries again.
            Err(error) if error.kind() == ErrorKind::Full => Ok(()),
            given => self.or_poison(given),
        }
    }

    /// Merges changes into a B-tree. All slices of its keys but the last are in place then; the root of the last is
    /// pending. The changes, of so many bytes, stay where readers find them, so that it does not matter that they are
    /// in the tree too.
    pub(super) fn merge_in_slices(
        &self,
        mut turn: MergePermit,
        (table, btree): (&TableState, &BTree),
        (changes, bytes): (&mut MergeCursor, u64),
        gc: &mut GcRule,
        pause: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Merged> {
        let slices = policy::slices_of_tree(&table.version.load().trees, &table.options, bytes);
        let ends = btree.root().parts(slices)?;
        let (mut low, mut written, mut changed) = (Vec::new(), 0, 0);
        for end in ends {
            let mut part = BoundedCursor::new(changes, Limits::new(std::mem::take(&mut low), Some(end.clone()), None));
            part.first()?;
            if part.entry().is_some() {
                let pending = btree.merge(turn, &mut part, gc, false, pause)?;
                written += pending.written_bytes();
                changed += pending.changes();
                let installed = self.or_poison(self.install_absorbed(table, btree, &[], pending))?;
                turn = installed.ok_or_else(|| Error::invalid(format!("table '{}' was dropped", table.name)))?;
                Reached::TreeSlice.mark();
            }
            low = end;
        }
        let mut part = BoundedCursor::new(changes, Limits::new(low, None, None));
        let last = btree.merge(turn, &mut part, gc, false, pause)?;
        Ok(Merged { written: written + last.written_bytes(), changes: changed + last.changes(), last })
    }

    /// Records the new root in the manifest, then shows it to readers instead of the runs that went into it. `None`
    /// when the table was dropped.
    fn install_absorbed(
        &self,
        table: &TableState,
        btree: &BTree,
        runs: &[FileId],
        pending: PendingRoot,
    ) -> Result<Option<MergePermit>> {
        let next_seqnum = self.commit.lock().next_seqnum;
        let mut ledger = self.ledger.lock();
        if table.check().is_err() {
            return Ok(None);
        }
        self.raise_seqnum_floor(&mut ledger, next_seqnum)?;
        let edit = Edit::BTreeMerge {
            table: table.id,
            replay_from: ledger.catalog.tables[&table.id].replay_from,
            log_from: ledger.catalog.log_from,
            removed: runs.to_vec(),
            tree: *pending.meta(),
            range_tombstones: Arc::default(),
        };
        self.record(&mut ledger, &edit)?;
        let turn = btree.install(pending)?;
        let mut trees = table.version.load().trees.replaced(runs, LevelId::L0, &[]);
        trees.btree = Some(btree.root());
        let retired = self.retire(&mut ledger, table, &mut trees);
        table.show(trees);
        retired.map(|()| Some(turn))
    }
}
