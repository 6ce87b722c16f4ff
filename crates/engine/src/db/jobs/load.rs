//! The end of a bulk load: runs that were written beside the table become part of it, all at once.
//!
//! ```text
//! push    (`api/bulk_load.rs`) writes runs of the size that a compaction would write: entries of seqnum zero, nothing
//!         refers to the files
//! finish  flush what is in memory, so that little is left to be flushed under the flush gate
//!         commit latch ┌ seal the memtable ── a seqnum, in the order of commits ┐
//!                      └──────────────────────────────────────────────────────────┘
//!         flush what was sealed ── force the log ── name the runs in the manifest ── show them ── publish
//!         B-tree: merge the runs into it, as a flush does
//! ```
//!
//! A load below writes gets no place in the order of commits: its entries have the seqnum of a snapshot that is older
//! than the table, and its runs lie below all that flushes have laid down. From its beginning on nothing but L0 is
//! written, and no tombstone is dropped.
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

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{Error, Lsn, Result, SeqNum};
use crate::db::commit::order::PendingLoad;
use crate::db::commit::pipeline::CommitPipeline;
use crate::db::state::State;
use crate::db::state::table::TableState;
use crate::db::throttle::Throttle;
use crate::table::LevelId;
use crate::table::edit::Edit;
use crate::table::record::RunRecord;
use crate::table::{RunHandle, Trees, policy};
use crate::txn::publish::Seqnums;

use super::compaction::Compactor;
use super::flusher::Flusher;
use super::job::is_lack;
use super::load_conflicts::{OnWritten, check_written};

/// Takes bulk loads into tables.
#[derive(Debug)]
pub(crate) struct Loader {
    state: Arc<State>,
    throttle: Arc<Throttle>,
    commits: Arc<CommitPipeline>,
    flusher: Arc<Flusher>,
    compactor: Arc<Compactor>,
}

impl Loader {
    pub(crate) fn new(
        state: Arc<State>,
        throttle: Arc<Throttle>,
        commits: Arc<CommitPipeline>,
        flusher: Arc<Flusher>,
        compactor: Arc<Compactor>,
    ) -> Self {
        Self { state, throttle, commits, flusher, compactor }
    }

    /// Makes runs whose names are durable part of the table.
    pub(crate) fn load(&self, table: &Arc<TableState>, runs: &[RunHandle]) -> Result<()> {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(()) };
        let range = (&*first.run.meta().smallest, &*last.run.meta().largest);
        // What these do need not be waited for later, by the commits behind the load.
        let prepared = self.flusher.flush_all(table);
        if !is_compacted_apart(table, range) {
            drop(table.compaction.latch.lock());
        }
        let gate = self.flusher.lock_gate();
        // While none is under way, the trees are all that there is.
        let idle = table.compaction.latch.try_lock();
        let ticket = match prepared.and_then(|()| self.order(table, range)) {
            Ok(ticket) => ticket,
            Err(error) => {
                self.discard(runs);
                return Err(error);
            }
        };
        let flushed = self.flusher.flush_gated(table, ticket.seqnum, &gate);
        let shown = flushed.and_then(|_| self.state.or_poison(self.show(table, runs, &ticket, idle.is_some())));
        self.commits.order.lock().loads.retain(|load| load.seqnum != ticket.seqnum);
        drop(idle);
        let shown = match shown {
            // The flush met a full disk, or the manifest did. Nothing refers to the load yet, which is as a commit of
            // nothing.
            Err(error) if is_lack(&error) && self.state.health.check_poison().is_ok() => Err(error),
            Err(error) => {
                // Commits that are ordered behind the load would wait forever.
                self.state.publisher.poison();
                return Err(self.state.poison(error));
            }
            shown => shown,
        };
        let published = self.commits.publish(Seqnums::one(ticket.seqnum));
        drop(gate);
        published?;
        if let Err(error) = shown {
            self.discard(runs);
            return Err(error);
        }
        self.end_pending(runs);
        self.throttle.trees_changed();
        self.state.wakers.wake_compaction();
        if table.btree().is_none() {
            return Ok(());
        }
        // The load is there: the background takes it in when there is room, or the tree can be read.
        if let Err(error) = self.compactor.merge_into_btree(table, false)
            && error.is_of_read()
        {
            self.state.counters.btree_merge_failed(&error);
        }
        self.state.health.check_poison()
    }

    /// Begins a load below all writes of a table that was created after a snapshot with seqnum `at`.
    pub(crate) fn begin_below(&self, table: &Arc<TableState>, at: SeqNum) -> Result<LoadBelow> {
        self.state.health.check_writable()?;
        table.check()?;
        let refused = |why: &str| {
            let what = "cannot be loaded below its writes";
            Err(Error::invalid(format!("table '{}' {what}: {why}", table.name)))
        };
        if at >= table.created_at {
            return refused("the snapshot was taken after the table was created");
        }
        let gate = self.flusher.lock_gate();
        if table.compaction.loads_below.swap(true, Ordering::AcqRel) {
            return refused("another such load is under way");
        }
        let begun = LoadBelow { table: Arc::clone(table), state: Arc::clone(&self.state), at };
        drop(gate);
        // A compaction that takes the latch after this sees the mark.
        drop(table.compaction.latch.lock());
        let trees = table.trees();
        if table.compaction.was_flushed.load(Ordering::Relaxed) || trees.count() > 0 {
            return refused("it was flushed or loaded already: begin the load when the table is new");
        }
        Ok(begun)
    }

    /// Makes runs whose names are durable part of the table, below all that it holds.
    pub(crate) fn load_below(&self, below: LoadBelow, runs: &[RunHandle], check: Option<OnWritten<'_>>) -> Result<()> {
        let table = &below.table;
        let mut checked = Ok(());
        if !runs.is_empty() {
            // The load is durable from here on: so must be the commits that it was made from, and those over it.
            let over = if table.options.logged { Ok(()) } else { self.flusher.flush_now(table) };
            let logged = over.and_then(|()| self.commits.force_log(self.commits.log.tail()));
            let shown = logged.and_then(|()| self.show_below(&below, runs));
            if let Err(error) = shown {
                if is_lack(&error) || self.state.health.check_poison().is_ok() {
                    self.discard(runs);
                }
                return Err(error);
            }
            self.end_pending(runs);
            // Writers after the snapshot see the load.
            let seen = self.state.snapshots.take();
            checked = check.map_or(Ok(()), |check| check_written(table, runs, seen, check));
            if self.state.snapshots.release(seen) {
                self.state.wakers.released_oldest();
            }
        }
        let table = Arc::clone(table);
        drop(below);
        self.throttle.trees_changed();
        if table.btree().is_some()
            && let Err(error) = self.compactor.merge_into_btree(&table, false)
            && error.is_of_read()
        {
            self.state.counters.btree_merge_failed(&error);
        }
        self.state.health.check_poison().and(checked)
    }

    /// Shows readers the runs, as the oldest trees.
    fn show_below(&self, below: &LoadBelow, runs: &[RunHandle]) -> Result<()> {
        let LoadBelow { table, at, .. } = below;
        let mut manifest = self.state.manifest.lock();
        self.state.health.check_writable()?;
        table.check()?;
        let trees = table.trees();
        // Only flushes have come since, and they lay runs down in L0.
        let places = policy::places_of_load(&Trees { l0: Vec::new(), ..Trees::clone(&trees) }, runs, None);
        assert!(!places.contains(&LevelId::L0), "no tree has come to where the load belongs");
        runs.iter().for_each(|handle| handle.run.appear_at(*at));
        let records = places.iter().zip(runs).map(|(place, handle)| (*place, RunRecord::of(handle))).collect();
        let replay_from = manifest.replay_from(table.id);
        self.state.or_poison(manifest.record(&Edit::Load { table: table.id, replay_from, runs: records }))?;
        let placed: Vec<_> = places.into_iter().zip(runs.iter().cloned()).collect();
        table.show(trees.with_newest(&placed));
        Ok(())
    }

    /// Gives the load its place in the order of commits.
    pub(crate) fn order(&self, table: &TableState, range: (&[u8], &[u8])) -> Result<LoadTicket> {
        let mut order = self.commits.order.lock();
        self.state.health.check_writable()?;
        table.check()?;
        self.commits.seal(&mut order, table);
        let seqnum = order.take_seqnum();
        let (smallest, largest) = (range.0.to_vec(), range.1.to_vec());
        order.loads.push(PendingLoad { table: table.id, seqnum, smallest, largest });
        Ok(LoadTicket { seqnum, log_end: self.commits.log.tail() })
    }

    /// Shows readers the runs, above all that is older and was flushed. They may go below L0 when no compaction is
    /// under way.
    pub(crate) fn show(
        &self,
        table: &TableState,
        runs: &[RunHandle],
        ticket: &LoadTicket,
        is_idle: bool,
    ) -> Result<()> {
        // Held until the runs are shown: a compaction that ends meanwhile does not make room for one that knows nothing
        // of them.
        let compacting = table.compaction.target_range.lock();
        // The load is durable from here on: so must be the commits before it.
        self.commits.log.sync(ticket.log_end)?;
        let mut manifest = self.state.manifest.lock();
        // A compaction may store the seqnum, of which the log does not tell.
        manifest.raise_seqnum_floor(SeqNum(ticket.seqnum.0 + 1))?;
        let trees = table.trees();
        let busy = compacting.as_ref().map(|(low, high)| (&**low, &**high));
        let places = match (is_idle || busy.is_some()) && !table.is_loading_below() {
            true => policy::places_of_load(&trees, runs, busy),
            false => vec![LevelId::L0; runs.len()],
        };
        runs.iter().for_each(|handle| handle.run.appear_at(ticket.seqnum));
        let records = places.iter().zip(runs).map(|(place, handle)| (*place, RunRecord::of(handle))).collect();
        manifest.record(&Edit::Load { table: table.id, replay_from: ticket.log_end, runs: records })?;
        let placed: Vec<_> = places.into_iter().zip(runs.iter().cloned()).collect();
        table.show(trees.with_newest(&placed));
        Ok(())
    }

    /// Removes runs that never became part of a table.
    fn discard(&self, runs: &[RunHandle]) {
        self.state.files.remove_output(runs);
        self.end_pending(runs);
    }

    /// A verification need not know the files any more.
    pub(crate) fn end_pending(&self, runs: &[RunHandle]) {
        let is_of = |handle: &RunHandle, id| handle.id == id || handle.run.values().find(id).is_some();
        self.state.files.end_pending(|id| runs.iter().any(|handle| is_of(handle, id)));
    }
}

/// A load below all writes of a table, which keeps compactions of the table from beginning.
#[derive(Debug)]
pub(crate) struct LoadBelow {
    table: Arc<TableState>,
    state: Arc<State>,
    /// The seqnum that its entries get: that of a snapshot which is older than the table.
    at: SeqNum,
}

impl Drop for LoadBelow {
    fn drop(&mut self) {
        self.table.compaction.loads_below.store(false, Ordering::Release);
        self.state.wakers.wake_compaction();
    }
}

/// A load that has its place in the order of commits.
pub(crate) struct LoadTicket {
    pub(crate) seqnum: SeqNum,
    /// Where the log of the commits before ends.
    log_end: Lsn,
}

/// Whether a compaction is under way that keeps apart from a range of keys.
fn is_compacted_apart(table: &TableState, (low, high): (&[u8], &[u8])) -> bool {
    table.compaction.target_range.lock().as_ref().is_some_and(|(first, last)| **last < *low || *high < **first)
}
