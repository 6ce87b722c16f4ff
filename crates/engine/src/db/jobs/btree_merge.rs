//! How changes come into a B-tree: with the flush where they are dense in it, else by way of delta runs over it.
//!
//! A merge rewrites each leaf that it reaches, be it for one change. So a flush of few changes a leaf lays down a run,
//! as an LSM table's does, and the runs are merged into the tree together when [`policy::is_btree_merge_due`] says that
//! they are dense enough. Runs lie over the tree or a flush merges into it, never both: else what the flush brings
//! would lie under older changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::trace::span;
use crate::base::{CoveragePoint, Error, ErrorKind, FileId, Result};
use crate::db::state::State;
use crate::db::state::counters::Work;
use crate::db::state::events::Event;
use crate::db::state::table::TableState;
use crate::table::{RunHandle, Trees, policy};
use crate::tree::bounded_cursor::BoundedCursor;
use crate::tree::btree::{BTree, MergePermit, PendingRoot, reach};
use crate::tree::gc::GcRule;
use crate::tree::merge::MergeCursor;
use crate::tree::{Cursor, Limits};

use super::install::{TreeChange, install};
use super::job::{Job, JobContext, Needs, Step, settle};
use super::run_merge::relieve_l0;

/// The merge of all delta runs of a table into its B-tree.
pub(super) struct BTreeMerge<'a> {
    table: &'a TableState,
    btree: Arc<BTree>,
    permit: MergePermit,
    needs: Needs,
    /// Whether the tree comes out packed.
    rewrite: bool,
}

impl<'a> BTreeMerge<'a> {
    /// `None` when the table has no B-tree any more, and while another thread merges into it.
    pub(super) fn plan(table: &'a TableState, rewrite: bool) -> Option<Self> {
        let btree = table.btree()?;
        let permit = btree.merge_permit()?;
        let trees = table.trees();
        let free = match rewrite {
            true => policy::rewrite_needs(&trees),
            false => policy::btree_merge_needs(&trees, &table.options),
        };
        let needs = Needs { free, inputs: policy::btree_merge_bytes(&trees) };
        Some(Self { table, btree, permit, needs, rewrite })
    }
}

impl Job for BTreeMerge<'_> {
    fn needs(&self) -> Needs {
        self.needs
    }

    fn run(self, context: JobContext<'_>) -> Result<Step> {
        let JobContext { state, throttle } = context;
        let Self { table, btree, permit, rewrite, .. } = self;
        span!("merge", table = &*table.name);
        let start = state.env.clock.now();
        let trees = table.trees();
        let runs: Vec<RunHandle> = trees.runs().collect();
        let ids: Vec<FileId> = runs.iter().map(|handle| handle.id).collect();
        let read: u64 = runs.iter().map(|handle| handle.run.meta().bytes).sum();
        let entries: u64 = runs.iter().map(|handle| handle.run.meta().entries).sum();
        let mut sources = Vec::new();
        trees.merge_sources(&mut sources);
        let (snapshots, published) = state.snapshots.live();
        let mut gc =
            table.gc_rule(snapshots, published, true).with_range_tombstones(Arc::clone(&trees.range_tombstones));
        // A holder of the old root keeps the space of its leaves from being given back.
        drop((trees, runs));
        let mut pause = || {
            state.health.check_writable()?;
            table.check()?;
            relieve_l0(context, table, &ids)
        };
        let mut changes = MergeCursor::new(sources);
        let merged = match rewrite {
            true => btree.merge(permit, &mut changes, &mut gc, true, &mut pause).map(Merged::of),
            false => merge_in_slices(state, permit, (table, &btree), (&mut changes, read), &mut gc, &mut pause),
        };
        let merged = merged.and_then(|merged| merged.check(table, entries));
        if merged.is_err() && table.check().is_err() {
            return Ok(Step::Dropped);
        }
        let merged = settle(state, merged)?;
        let written_bytes = merged.written;
        state.counters.compactions.written_bytes.fetch_add(written_bytes, Ordering::Relaxed);
        let change = TreeChange { removed: ids.clone(), root: Some(merged.last), ..TreeChange::none() };
        let Some(installed) = state.or_poison(install(state, table, change))? else { return Ok(Step::Dropped) };
        let progress = installed.progress;
        // The right to merge is asked for once more below.
        drop(installed);
        table.compaction.merge_retry.succeeded();
        state.counters.compactions.count.fetch_add(1, Ordering::Relaxed);
        let duration = state.env.clock.now().saturating_sub(start);
        let work = Work { jobs: 1, read_bytes: read, written_bytes, duration, ..Work::default() };
        state.counters.work.btree().add(work);
        let told = Event::Merged { table: &table.name, read_bytes: read, written_bytes, duration };
        state.counters.events.tell(&told);
        if !ids.is_empty() {
            CoveragePoint::BTreeMerged.mark();
        }
        state.counters.compactions.read_bytes.fetch_add(read, Ordering::Relaxed);
        state.files.remove_runs(ids);
        throttle.trees_changed();
        // What the next merge will need again soon stays.
        let keep = if rewrite { 0 } else { btree.root().meta().live_bytes() / policy::KEPT_PART };
        btree.merge_permit().map_or(Ok(()), |permit| give_back(state, &btree, &permit, keep))?;
        Ok(Step::Done(progress))
    }
}

/// Merges the delta runs of a table into its B-tree if they are dense enough. The caller holds the table's compaction
/// latch.
pub(super) fn merge_step(context: JobContext<'_>, table: &TableState) -> Result<Step> {
    let JobContext { state, .. } = context;
    let trees = table.trees();
    let retry = &table.compaction.merge_retry;
    if trees.btree.is_none() || !policy::is_btree_merge_due(&trees, &table.options, state.oldest_snapshot()) {
        retry.succeeded();
        return Ok(Step::Nothing);
    }
    drop(trees);
    if retry.rest(state.env.clock.now()).is_some() {
        return Ok(Step::Nothing);
    }
    let Some(merge) = BTreeMerge::plan(table, false) else { return Ok(Step::Nothing) };
    match context.perform(merge) {
        // The runs stay over the tree, where reads search them, and are merged with each other meanwhile.
        Err(error) if error.is_of_read() => {
            state.counters.btree_merge_failed(&error);
            retry.failed(&error, state.env.clock.now());
            Ok(Step::Nothing)
        }
        merged => merged,
    }
}

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

/// The right to merge changes of this many bytes into the tree right away, if they are dense enough. The caller holds
/// the flush gate, without which no run comes to lie over the tree.
pub(super) fn merges_now(
    state: &State,
    table: &TableState,
    trees: &Trees,
    (changes, bytes): (&mut MergeCursor, u64),
) -> Result<Option<(Arc<BTree>, MergePermit)>> {
    if trees.runs().next().is_some() || table.is_loading_below() {
        return Ok(None);
    }
    let Some(btree) = table.btree() else { return Ok(None) };
    let Some(permit) = btree.merge_permit() else { return Ok(None) };
    let root = btree.root();
    let worth = policy::leaves_worth(root.meta(), &table.options, bytes);
    match reach::leaves_reached(&root, changes, worth) {
        Err(error) if error.is_of_read() => {
            state.counters.btree_merge_failed(&error);
            Ok(None)
        }
        reach => Ok((reach? <= worth).then_some((btree, permit))),
    }
}

/// Merges changes into a B-tree. All slices of its keys but the last are in place then; the root of the last is
/// pending. The changes, of this many bytes, stay where readers find them, so that it does not matter that they are in
/// the tree too.
pub(super) fn merge_in_slices(
    state: &State,
    mut permit: MergePermit,
    (table, btree): (&TableState, &BTree),
    (changes, bytes): (&mut MergeCursor, u64),
    gc: &mut GcRule,
    pause: &mut dyn FnMut() -> Result<()>,
) -> Result<Merged> {
    let slices = policy::slices_of_tree(&table.trees(), &table.options, bytes);
    let ends = reach::split_keys(&btree.root(), slices)?;
    let (mut low, mut written, mut changed) = (Vec::new(), 0, 0);
    for end in ends {
        let mut part = BoundedCursor::new(changes, Limits::new(std::mem::take(&mut low), Some(end.clone()), None));
        part.first()?;
        if part.entry().is_some() {
            let pending = btree.merge(permit, &mut part, gc, false, pause)?;
            written += pending.written_bytes();
            changed += pending.changes();
            let change = TreeChange { root: Some(pending), ..TreeChange::none() };
            let installed = state.or_poison(install(state, table, change))?;
            let permitted = installed.and_then(|installed| installed.permit);
            permit = permitted.ok_or_else(|| Error::dropped(&table.name))?;
            CoveragePoint::TreeSlice.mark();
        }
        low = end;
    }
    let mut part = BoundedCursor::new(changes, Limits::new(low, None, None));
    let last = btree.merge(permit, &mut part, gc, false, pause)?;
    Ok(Merged { written: written + last.written_bytes(), changes: changed + last.changes(), last })
}

/// Gives the file system the space of a B-tree's free blocks back, but for `keep` bytes.
pub(super) fn give_back(state: &State, btree: &BTree, permit: &MergePermit, keep: u64) -> Result<()> {
    match btree.punch_free(permit, keep) {
        // A file system may need space to note a hole; the next merge tries again.
        Err(error) if error.kind() == ErrorKind::Full => Ok(()),
        given => state.or_poison(given),
    }
}
