//! How changes come into a B-tree: with the flush where they are dense in it, else by way of runs that are parked over it.
//!
//! A merge rewrites each leaf that it reaches, be it for one change. So a flush of few changes a leaf lays down a run, as an LSM table's does,
//! and the runs are merged into the tree together when [`policy::is_absorption_due`] says that they are dense enough. Runs lie over the tree or
//! a flush merges into it, never both: else what the flush brings would lie under older changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{FileId, Reached, Result};
use crate::table::edit::Edit;
use crate::table::{Place, RunHandle, Trees, policy};
use crate::tree::btree::{BTree, PendingRoot, Turn};
use crate::tree::merge::MergeCursor;

use super::compact::Step;
use super::core::{Core, TableState};
use super::merge::goes_by;

/// After a merge of the whole tree half of its file is free. As much as this part of the tree is kept for what comes next.
const KEPT_PART: u64 = 4;

impl Core {
    /// The right to merge changes of so many bytes into the tree right away, if they are dense enough. The caller holds the flush gate,
    /// without which no run comes to lie over the tree.
    pub(super) fn merges_now(
        &self,
        table: &TableState,
        trees: &Trees,
        btree: &BTree,
        changes: &mut MergeCursor,
        bytes: u64,
    ) -> Result<Option<Turn>> {
        if trees.runs().next().is_some() {
            return Ok(None);
        }
        let Some(turn) = btree.turn() else { return Ok(None) };
        let root = btree.root();
        let worth = policy::leaves_worth(root.meta(), &table.options, bytes);
        match root.reach(changes, worth) {
            Err(error) if error.is_of_read() => Ok(None),
            reach => Ok((reach? <= worth).then_some(turn)),
        }
    }

    /// Merges the parked runs into the tree if they are dense enough. The caller holds the table's compaction latch.
    pub(super) fn absorb_step(&self, table: &TableState, trees: &Trees) -> Result<Step> {
        if trees.btree.is_none() || !policy::is_absorption_due(trees, &table.options, self.oldest_snapshot()) {
            return Ok(Step::Nothing);
        }
        let (needs, room) = (policy::absorption_needs(trees), self.room_on_disk()?);
        if needs > room {
            return Ok(Step::NoRoom(needs - room));
        }
        Ok(if self.absorb(table)? { Step::Done } else { Step::Nothing })
    }

    /// Merges all parked runs into the table's B-tree; false when it has none any more, and while somebody else merges into it. The caller holds
    /// the table's compaction latch.
    pub(super) fn absorb(&self, table: &TableState) -> Result<bool> {
        let Some(btree) = table.btree() else { return Ok(false) };
        let Some(turn) = btree.turn() else { return Ok(false) };
        self.absorb_in(turn, table, &btree, false).map(|()| true)
    }

    /// Merges all runs that there are into the table's B-tree; with `rewrite` it comes out packed.
    pub(super) fn absorb_all(&self, table: &TableState, btree: &BTree, rewrite: bool) -> Result<()> {
        loop {
            let compacting = table.compaction.lock();
            self.health.check_writable()?;
            table.check()?;
            if !rewrite && table.version.load().trees.runs().next().is_none() {
                return Ok(());
            }
            if let Some(turn) = btree.turn() {
                return self.absorb_in(turn, table, btree, rewrite);
            }
            // The flush under way has the turn, and may want the latch.
            drop(compacting);
            drop(self.flush_gate.lock());
        }
    }

    fn absorb_in(&self, turn: Turn, table: &TableState, btree: &BTree, rewrite: bool) -> Result<()> {
        let trees = Arc::clone(&table.version.load().trees);
        let runs: Vec<RunHandle> = trees.runs().collect();
        let ids: Vec<FileId> = runs.iter().map(|handle| handle.id).collect();
        let mut sources = Vec::new();
        trees.merge_sources(&mut sources);
        let (snapshots, published) = self.snapshots.live();
        let mut retain = table.retain(snapshots, published, true).erasing(Arc::clone(&trees.erasures));
        drop(trees);
        let mut pause = || {
            self.health.check_writable()?;
            table.check()?;
            self.relieve(table, &ids)
        };
        let pending = match btree.merge(turn, &mut MergeCursor::new(sources), &mut retain, rewrite, &mut pause) {
            // It has left nothing behind, and nothing depends on it.
            Err(error) if goes_by(&error) => return Err(error),
            Err(_) if table.check().is_err() => return Ok(()),
            merged => self.or_poison(merged)?,
        };
        self.or_poison(self.install_absorbed(table, btree, &ids, pending))?;
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        if !runs.is_empty() {
            Reached::Absorbed.mark();
        }
        let read: u64 = runs.iter().map(|handle| handle.run.meta().bytes).sum();
        self.counters.compaction_read_bytes.fetch_add(read, Ordering::Relaxed);
        self.remove_runs(runs.iter().map(|handle| handle.id));
        self.rebalance();
        // What the next merge will need again soon stays.
        let keep = if rewrite { 0 } else { btree.root().meta().live_bytes() / KEPT_PART };
        match btree.turn() {
            Some(turn) => self.or_poison(btree.give_back(&turn, keep)),
            None => Ok(()),
        }
    }

    /// Records the new root in the manifest, then shows it to readers instead of the runs that went into it.
    fn install_absorbed(&self, table: &TableState, btree: &BTree, runs: &[FileId], pending: PendingRoot) -> Result<()> {
        let mut ledger = self.ledger.lock();
        if table.check().is_err() {
            return Ok(());
        }
        let edit = Edit::Absorb {
            table: table.id,
            replay_from: ledger.catalog.tables[&table.id].replay_from,
            log_from: ledger.catalog.log_from,
            removed: runs.to_vec(),
            tree: *pending.meta(),
            erasures: Arc::default(),
        };
        self.record(&mut ledger, &edit)?;
        self.counters.compaction_write_bytes.fetch_add(pending.written_bytes(), Ordering::Relaxed);
        btree.install(pending)?;
        let mut trees = table.version.load().trees.replaced(runs, Place::L0, &[]);
        trees.btree = Some(btree.root());
        let retired = self.retire(&mut ledger, table, &mut trees);
        table.show(trees);
        retired
    }
}
