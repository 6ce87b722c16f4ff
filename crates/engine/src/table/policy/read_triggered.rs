//! Jobs that reads make due: a merge, a B-tree merge, a flush or a sorted view that removes extra trees or dead entries
//! is due once it costs no more than the reads of the table have spent on them ([`super::read_credit`]).
//!
//! A small memtable does not count as an extra tree: behind a writer the next one would follow at once. It is flushed
//! together with the merge that is due, or for a merge of all trees once the reads since the last write have spent the
//! cost of that.

use super::compaction::Compaction;
use super::delta_runs::{btree_merge_needs, rewrite_needs};
use super::leveled;
use super::read_credit::{CreditSource, DeadRange, JobCost, ReadCredit};
use super::runs::{is_settled, occupied, overlapping, span};
use super::tuning::{BYTE_NS, ENTRY_NS, HOT_RUNS_MAX, JOB_NS, VIEW_ENTRY_NS, VIEW_NS};
use crate::base::SeqNum;
use crate::base::num::u64_of;
use crate::table::level::{LEVELS, RunHandle};
use crate::table::memtable_handle::SMALL_BYTES;
use crate::table::options::TableOptions;
use crate::table::trees::Trees;
use crate::table::view::{TableView, ViewCandidate};
use crate::tree::run::Run;
use crate::tree::run::level::run_of;
use crate::tree::run::view::{ENTRY_BYTES, can_be_viewed};
use std::cmp::Reverse;
use std::sync::Arc;

/// What a table has in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemtableLoad {
    /// Entries of its memtables.
    pub entries: u64,
    /// They lie in the cache of the processor.
    pub is_small: bool,
}

impl MemtableLoad {
    /// Nanoseconds that its flush costs.
    pub(super) fn flush_cost(self) -> u64 {
        if self.entries == 0 { 0 } else { JOB_NS + self.entries.saturating_mul(ENTRY_NS) }
    }

    /// Nanoseconds that a merge costs more when it takes the run of that flush as well; a lower bound for a large
    /// memtable.
    pub(super) fn merged_cost(self) -> u64 {
        if self.entries == 0 { 0 } else { self.entries.saturating_mul(ENTRY_NS) + SMALL_BYTES * BYTE_NS }
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Job {
    /// Flush the memtables, and pick the next job at once.
    Flush,
    /// Merge runs.
    Merge(Compaction),
    /// Merge all runs into the B-tree, or rewrite it.
    BTreeMerge {
        /// The whole tree is rewritten.
        rewrite: bool,
    },
    /// Forget the dead entries that scans met: no merge removes them.
    Forget,
    /// Build a sorted view of trees.
    View(ViewCandidate),
}

/// A job, and what it takes from the credit.
#[derive(Clone, Debug)]
pub struct ReadTriggered {
    /// What is to be done.
    pub job: Job,
    /// What it takes from the credit.
    pub cost: JobCost,
}

impl ReadTriggered {
    pub(super) const fn new(job: Job, cost_ns: u64, source: CreditSource) -> Self {
        Self { job, cost: JobCost { cost_ns, source } }
    }
}

/// The next job whose cost the credit covers, among those that need at most `room` bytes of free space. No snapshot is
/// older than `oldest`.
#[must_use]
pub fn pick_read_triggered(
    trees: &Trees,
    options: &TableOptions,
    (room, oldest): (u64, SeqNum),
    memory: MemtableLoad,
    credit: &ReadCredit,
) -> Option<ReadTriggered> {
    let of_span = |span| pick_dead_range(trees, options, (room, oldest), memory, span);
    if let Some(paid) = credit.dead_ranges.iter().find_map(of_span) {
        return Some(paid);
    }
    let is_large = memory.entries > 0 && !memory.is_small;
    let extra = u64_of((trees.count() + usize::from(is_large)).saturating_sub(1));
    // A job may spend the share of the credit that belongs to the extra trees that it removes.
    let pays = |trees: u64, cost: u64| extra > 0 && credit.balance_ns.saturating_mul(trees) / extra >= cost;
    let flush = memory.flush_cost();
    let with_flush = |cost: u64| cost + flush + memory.merged_cost();
    let mut wanted = btree_merge(trees, options, room)
        .filter(|(saved, cost)| pays(*saved, with_flush(*cost)))
        .map(|(_, cost)| ReadTriggered::new(Job::BTreeMerge { rewrite: false }, cost, CreditSource::All));
    if wanted.is_none() {
        let fitting = merges(trees, options).into_iter().rev().filter(|(_, merge)| merge.needs(options) <= room);
        wanted = fitting.map(|(saved, merge)| (saved, merge_cost(&merge, options), merge)).find_map(
            |(saved, cost, merge)| {
                pays(saved, with_flush(cost)).then(|| ReadTriggered::new(Job::Merge(merge), cost, CreditSource::All))
            },
        );
    }
    let whole = || trees.count() == 1 && credit.since_write_ns >= with_flush(whole_cost(trees));
    if memory.entries > 0 && (wanted.is_some() || is_large && pays(1, flush) || whole()) {
        return Some(ReadTriggered::new(Job::Flush, flush, CreditSource::All));
    }
    wanted.or_else(|| pick_between(trees, options, room, is_large, credit))
}

/// The merge of what lies over a run of the last level into it, where the credit of the reads of these keys alone
/// covers the cost, and covers at least twice the share that the credit of all reads covers of the merge of all trees:
/// else that merge is due soon, together with the memtable.
fn pick_between(
    trees: &Trees,
    options: &TableOptions,
    room: u64,
    is_large: bool,
    credit: &ReadCredit,
) -> Option<ReadTriggered> {
    let last = occupied(trees).last().filter(|_| trees.btree.is_none())?;
    let mut hot: Vec<(u64, &Arc<Run>)> = Vec::new();
    for near in &credit.near {
        let Some(run) = run_of(&trees.levels[last].runs, &near.key) else { continue };
        match hot.last_mut() {
            Some((saved, before)) if Arc::ptr_eq(before, run) => *saved += near.credit_ns,
            _ => hot.push((near.credit_ns, run)),
        }
    }
    let whole = u128::from(whole_cost(trees));
    hot.sort_unstable_by_key(|(saved, _)| Reverse(*saved));
    let merges = hot.into_iter().filter_map(|(_, run)| {
        let (l0, levels) = down_to(trees, last, (&run.meta().smallest, &run.meta().largest));
        let spared = u64_of(l0.len() + levels.len()).checked_sub(1).filter(|spared| *spared > 0)?;
        Some((spared, Compaction::onto_target(trees, l0, levels, last)))
    });
    merges.take(HOT_RUNS_MAX).find_map(|(spared, merge)| {
        let (low, high) = merge.range().map(|(low, high)| (low.to_vec(), high.to_vec()))?;
        let cost = merge_cost(&merge, options);
        // A large memtable remains a tree, so its share of the credit is not spent.
        let saved = credit.between(&low, &high).saturating_mul(spared) / (spared + u64::from(is_large));
        let is_hot = u128::from(saved) * whole >= 2 * u128::from(credit.balance_ns) * u128::from(cost);
        let is_paid = saved >= cost && is_hot && merge.needs(options) <= room;
        is_paid.then(|| ReadTriggered::new(Job::Merge(merge), cost, CreditSource::Between { low, high }))
    })
}

/// The sorted view whose cost the credit covers, if it covers more trees than the current view `viewed` and takes at
/// most `room` bytes of memory.
#[must_use]
pub fn pick_view(trees: &Trees, viewed: Option<&TableView>, room: u64, credit: &ReadCredit) -> Option<ReadTriggered> {
    let viewable = trees.view_candidate();
    let more = viewable.trees.len().checked_sub(viewed.map_or(1, TableView::count)).filter(|more| *more > 0)?;
    let entries: u64 = viewable.trees.iter().flat_map(|tree| &**tree).map(|run| run.meta().entries).sum();
    let cost_ns = VIEW_NS + entries.saturating_mul(VIEW_ENTRY_NS);
    let extra = u64_of(trees.count()).saturating_sub(1).max(1);
    let fits = can_be_viewed(&viewable.trees) && entries.saturating_mul(ENTRY_BYTES) <= room;
    let pays = credit.balance_ns.saturating_mul(u64_of(more).min(extra)) / extra >= cost_ns;
    (fits && pays).then(|| ReadTriggered::new(Job::View(viewable), cost_ns, CreditSource::All))
}

pub(super) fn merge_cost(merge: &Compaction, options: &TableOptions) -> u64 {
    let entries: u64 = merge.inputs().map(|handle| handle.run.meta().entries).sum();
    let moved = merge.is_trivial_move(options);
    JOB_NS + if moved { 0 } else { entries.saturating_mul(ENTRY_NS).saturating_add(merge.bytes() * BYTE_NS) }
}

/// Nanoseconds that it costs to merge all trees into one.
pub(super) fn whole_cost(trees: &Trees) -> u64 {
    let root = trees.btree.as_ref().map_or((0, 0), |root| (root.meta().entries, root.meta().live_bytes()));
    let runs = trees.runs().map(|handle| (handle.run.meta().entries, handle.run.meta().bytes));
    let (entries, bytes) = runs.fold(root, |sum, run| (sum.0 + run.0, sum.1 + run.1));
    JOB_NS + entries.saturating_mul(ENTRY_NS) + bytes * BYTE_NS
}

/// The count of trees that a merge of all runs into the B-tree removes, and its cost; `None` without runs or B-tree.
fn btree_merge(trees: &Trees, options: &TableOptions, room: u64) -> Option<(u64, u64)> {
    let runs = u64_of(trees.l0.len() + occupied(trees).count());
    (trees.btree.is_some() && runs > 0 && btree_merge_needs(trees, options) <= room).then(|| (runs, whole_cost(trees)))
}

/// The merges of all trees from the newest down to each of the levels, with the count of trees that each removes; the
/// deepest last.
fn merges(trees: &Trees, options: &TableOptions) -> Vec<(u64, Compaction)> {
    let occupied: Vec<_> = occupied(trees).collect();
    if occupied.is_empty() && trees.l0.len() > 1 {
        let target = leveled::Targets::of(trees, options).base;
        return vec![(
            u64_of(trees.l0.len() - 1),
            Compaction::onto_target(trees, trees.l0.clone(), Vec::new(), target),
        )];
    }
    let down_to = |above: usize| {
        let levels = occupied[..above].iter().map(|level| (*level, trees.levels[*level].handles().collect())).collect();
        let saved = u64_of(trees.l0.len() + above);
        (saved > 0).then(|| Some((saved, Compaction::new(trees, trees.l0.clone(), levels, occupied[above])?))).flatten()
    };
    (0..occupied.len()).filter_map(down_to).collect()
}

/// The job that removes a row of dead entries.
fn pick_dead_range(
    trees: &Trees,
    options: &TableOptions,
    (room, oldest): (u64, SeqNum),
    memory: MemtableLoad,
    found: &DeadRange,
) -> Option<ReadTriggered> {
    let row = || CreditSource::Row { low: found.low.clone(), high: found.high.clone() };
    let job = if trees.btree.is_some() {
        dead_range_in_btree(trees, oldest)
    } else {
        dead_range_to_the_bottom(trees, found, oldest)
    };
    let (cost, needs) = match &job {
        Some(Job::Merge(merge)) => (merge_cost(merge, options), merge.needs(options)),
        Some(Job::BTreeMerge { rewrite: true }) => (whole_cost(trees), rewrite_needs(trees)),
        Some(_) => (whole_cost(trees), btree_merge_needs(trees, options)),
        None => (0, 0),
    };
    if found.in_memory {
        let flush = memory.flush_cost();
        // The merge that follows takes its cost.
        return (found.credit_ns >= flush + cost && needs <= room)
            .then(|| ReadTriggered::new(Job::Flush, 0, CreditSource::All));
    }
    match job {
        None => Some(ReadTriggered::new(Job::Forget, 0, row())),
        Some(job) => (found.credit_ns >= cost && needs <= room).then(|| ReadTriggered::new(job, cost, row())),
    }
}

/// The job that removes dead entries from a B-tree: the merge of its delta runs, or else a rewrite if it may hold
/// entries that no snapshot sees.
fn dead_range_in_btree(trees: &Trees, oldest: SeqNum) -> Option<Job> {
    if trees.runs().next().is_some() {
        return Some(Job::BTreeMerge { rewrite: false });
    }
    let newest = trees.btree.as_ref()?.meta().seqnum_max;
    (newest > SeqNum::ZERO && newest <= oldest).then_some(Job::BTreeMerge { rewrite: true })
}

/// The merge of the runs that overlap a key range, and of all runs between them and the last level, into that level; or
/// else a rewrite of the runs of the last level that may hold entries that no snapshot sees.
fn dead_range_to_the_bottom(trees: &Trees, found: &DeadRange, oldest: SeqNum) -> Option<Job> {
    let target = occupied(trees).last().unwrap_or(LEVELS - 1);
    let (l0, mut levels) = down_to(trees, target, (&found.low, &found.high));
    let goes_down = !l0.is_empty() || levels.iter().any(|(level, _)| *level < target);
    if !goes_down {
        let gains = |handle: &RunHandle| !is_settled(handle.run.meta()) && handle.run.seqnum_bounds().largest <= oldest;
        // Runs between two of them as well: the result must not span a run that stays.
        for (_, runs) in &mut levels {
            let last = runs.iter().rposition(gains).map_or(0, |last| last + 1);
            runs.truncate(last);
            runs.drain(..runs.iter().position(gains).unwrap_or(0));
        }
        levels.retain(|(_, runs)| !runs.is_empty());
    }
    let something = !l0.is_empty() || !levels.is_empty();
    something.then(|| Job::Merge(Compaction::onto_target(trees, l0, levels, target)))
}

/// The runs that overlap a key range, and all runs between them and level `target`: those of L0, and those of each
/// level that has some.
fn down_to(
    trees: &Trees,
    target: usize,
    (low, high): (&[u8], &[u8]),
) -> (Vec<RunHandle>, Vec<(usize, Vec<RunHandle>)>) {
    let mut range = (low.to_vec(), high.to_vec());
    let touches = |handle: &RunHandle| handle.run.meta().overlaps(low, high);
    // What is older than a run of L0 must not stay above it.
    let from = trees.l0.iter().position(touches).unwrap_or(trees.l0.len());
    let l0 = trees.l0[from..].to_vec();
    widen(&mut range, &l0);
    let mut levels = Vec::new();
    for level in 0..=target {
        let runs = overlapping(trees, level, (&range.0, &range.1));
        widen(&mut range, &runs);
        if !runs.is_empty() {
            levels.push((level, runs));
        }
    }
    (l0, levels)
}

fn widen(range: &mut (Vec<u8>, Vec<u8>), runs: &[RunHandle]) {
    if let Some((low, high)) = span(runs.iter()) {
        *range = (low.min(&*range.0).to_vec(), high.max(&*range.1).to_vec());
    }
}
