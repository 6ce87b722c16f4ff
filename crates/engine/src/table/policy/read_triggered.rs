//! Merges that reads have paid for: what extra trees and dead entries cost the reads of a table is saved up, and spent
//! on the merge that does away with them when it costs no more.
//!
//! The currency is nanoseconds of one core, by the constants below; `docs/decisions/0014` has the rule and where they
//! come from. What is written takes from what is saved, so a table that is written much is left to its layout.
//!
//! Where reads paid is known by samples: the key of each read with which some milliseconds more were paid. So reads of
//! a part of the keys pay for the merge of the runs that hold these, while writes elsewhere take nothing from them.
//!
//! A small memtable is no tree to do away with: beside a writer the next one would come right behind it. It is flushed
//! before a merge, of which it is part then, or for a merge of all there is, once reads have paid for that since the
//! last write.

use super::compaction::Compaction;
use super::delta_runs::{btree_merge_needs, rewrite_needs};
use super::leveled;
use super::runs::{is_settled, occupied, overlapping, span};
use crate::base::SeqNum;
use crate::base::num::u64_of;
use crate::table::level::{LEVELS, RunHandle};
use crate::table::memtable_handle::SMALL_BYTES;
use crate::table::options::TableOptions;
use crate::table::trees::Trees;
use crate::table::view::{TableView, ViewCandidate};
use crate::tree::Costs;
use crate::tree::run::Run;
use crate::tree::run::level::run_of;
use crate::tree::run::view::{ENTRY_BYTES, can_be_viewed};
use std::cmp::Reverse;
use std::sync::Arc;

/// A tree passed by a get or a scan whose filter says no.
pub const FILTER_NS: u64 = 25;
/// A memtable searched that lies in the processor's cache.
pub(super) const SMALL_NS: u64 = 100;
/// A sorted view searched by a get.
pub(super) const VIEW_SEARCH_NS: u64 = 200;
/// A tree searched in vain, or a further tree in a scan; also an entry that a scan steps over in a long row of dead
/// ones.
pub(super) const SEARCH_NS: u64 = 1_200;
/// A block of such a tree that was not in memory.
pub(super) const READ_NS: u64 = 60_000;
/// What an entry written costs until it has come to the last level: so much takes it from what reads saved.
pub(super) const WRITE_NS: u64 = 1_000;
/// An entry merged.
const ENTRY_NS: u64 = 150;
/// An entry brought into a view.
const VIEW_ENTRY_NS: u64 = 100;
/// What every view costs.
const VIEW_NS: u64 = 10_000;
/// A byte read and written again.
const BYTE_NS: u64 = 1;
/// What every flush and merge costs: files made durable, and blocks that must come to the cache anew.
const JOB_NS: u64 = 5_000_000;
/// At so many keys it is remembered what reads saved near them.
const KEYS_MAX: usize = 512;
/// Of each of these keys so many bytes.
const KEY_BYTES_KEPT: usize = 256;
/// Of so many runs of the last level, in which the most was saved, it is looked whether that pays for a merge.
const HOT_RUNS_MAX: usize = 8;
/// So many key ranges are remembered in which scans met dead entries.
const DEAD_RANGES_MAX: usize = 8;

/// What lookups of so many keys, or a walk, paid for more than one tree each, and for views: the dearest tree is the
/// one that a merge would leave.
#[inline]
#[must_use]
pub fn extra_ns(keys: u64, costs: &Costs) -> u64 {
    let mut free = keys;
    let mut extra = |searched: u64| {
        let extra = searched.saturating_sub(free);
        free -= searched - extra;
        extra
    };
    let trees = extra(costs.trees.saturating_sub(costs.small));
    let (small, stops) = (extra(costs.small), extra(costs.filter_stops));
    let read = trees.min(costs.blocks_read.saturating_sub(keys));
    trees * SEARCH_NS + read * READ_NS + costs.views * VIEW_SEARCH_NS + small * SMALL_NS + stops * FILTER_NS
}

/// What is kept of a key to remember what reads near it paid.
#[must_use]
pub fn credit_key(key: &[u8]) -> &[u8] {
    &key[..key.len().min(KEY_BYTES_KEPT)]
}

/// What a table has in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemtableLoad {
    /// Entries of its memtables.
    pub entries: u64,
    /// They lie in the processor's cache.
    pub is_small: bool,
}

impl MemtableLoad {
    /// What its flush costs.
    pub(super) fn flush_cost(self) -> u64 {
        if self.entries == 0 { 0 } else { JOB_NS + self.entries.saturating_mul(ENTRY_NS) }
    }

    /// What a merge costs more that takes in what a flush lays down; of a large memtable at least.
    pub(super) fn merged_cost(self) -> u64 {
        if self.entries == 0 { 0 } else { self.entries.saturating_mul(ENTRY_NS) + SMALL_BYTES * BYTE_NS }
    }
}

/// What the reads of a table have saved up since it was last written.
#[derive(Clone, Debug, Default)]
pub struct ReadCredit {
    balance_ns: u64,
    /// How much of it since the last write.
    rested_ns: u64,
    /// The same by key, as far as it is known where reads paid: ascending, each key once. Only writes near a key take
    /// from what is saved there.
    near: Vec<KeyCredit>,
    /// Apart, disjoint key ranges in which scans stepped over long rows of dead entries.
    spans: Vec<DeadRange>,
}

/// What reads near a key have saved.
#[derive(Clone, Debug)]
struct KeyCredit {
    key: Vec<u8>,
    saved_ns: u64,
}

#[derive(Clone, Debug)]
struct DeadRange {
    low: Vec<u8>,
    high: Vec<u8>,
    saved_ns: u64,
    /// The table has keys of it in memory.
    in_memory: bool,
}

impl ReadCredit {
    /// Whether nothing is saved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.balance_ns == 0 && self.near.is_empty() && self.spans.is_empty()
    }

    /// Reads paid for extra trees.
    pub fn add(&mut self, ns: u64) {
        self.balance_ns = self.balance_ns.saturating_add(ns);
        self.rested_ns = self.rested_ns.saturating_add(ns);
    }

    /// Of what reads paid, so much was paid near a key.
    pub fn add_near(&mut self, key: &[u8], ns: u64) {
        let key = credit_key(key);
        match self.near.binary_search_by(|near| near.key.as_slice().cmp(key)) {
            Ok(at) => self.near[at].saved_ns = self.near[at].saved_ns.saturating_add(ns),
            Err(at) => self.near.insert(at, KeyCredit { key: key.to_vec(), saved_ns: ns }),
        }
        if self.near.len() > KEYS_MAX {
            let pairs = self.near.chunks(2).map(|pair| {
                let dearer = pair.iter().max_by_key(|near| near.saved_ns).unwrap_or(&pair[0]);
                KeyCredit { key: dearer.key.clone(), saved_ns: pair.iter().map(|near| near.saved_ns).sum() }
            });
            self.near = pairs.collect();
        }
    }

    /// What reads between two keys have saved.
    fn saved_between(&self, low: &[u8], high: &[u8]) -> u64 {
        let from = self.near.partition_point(|near| near.key.as_slice() < low);
        self.near[from..].iter().take_while(|near| near.key.as_slice() <= high).map(|near| near.saved_ns).sum()
    }

    /// A scan stepped over a row of so many dead entries from `low` to `high`.
    pub fn add_dead_range(&mut self, mut low: Vec<u8>, mut high: Vec<u8>, entries: u64) {
        let mut saved_ns = entries.saturating_mul(SEARCH_NS);
        self.spans.retain(|span| {
            let apart = span.high < low || high < span.low;
            if !apart {
                low = low.clone().min(span.low.clone());
                high = high.clone().max(span.high.clone());
                saved_ns = saved_ns.saturating_add(span.saved_ns);
            }
            apart
        });
        self.spans.push(DeadRange { low, high, saved_ns, in_memory: false });
        if self.spans.len() > DEAD_RANGES_MAX {
            self.spans.sort_unstable_by_key(|span| Reverse(span.saved_ns));
            self.spans.truncate(DEAD_RANGES_MAX);
        }
    }

    /// Looks which of the key ranges the table has keys of in memory.
    pub fn look_in_memory(&mut self, holds: impl Fn(&[u8], &[u8]) -> bool) {
        self.spans.iter_mut().for_each(|span| span.in_memory = holds(&span.low, &span.high));
    }

    /// So many entries were written, to key ranges that `is_written` tells, both ends included, the last one without an
    /// end.
    pub fn decay(&mut self, entries: u64, is_written: impl Fn(&[u8], Option<&[u8]>) -> bool) {
        if entries == 0 {
            return;
        }
        let cost = entries.saturating_mul(WRITE_NS);
        self.rested_ns = 0;
        self.balance_ns = self.balance_ns.saturating_sub(cost);
        self.spans.iter_mut().for_each(|span| span.saved_ns = span.saved_ns.saturating_sub(cost));
        self.spans.retain(|span| span.saved_ns > 0);
        self.take_near(cost, is_written);
    }

    /// Takes so much from what was saved near the keys whose surroundings, up to the next ones, are among `which`.
    fn take_near(&mut self, ns: u64, which: impl Fn(&[u8], Option<&[u8]>) -> bool) {
        let of = |at: usize| {
            let low = at.checked_sub(1).map_or(&[][..], |before| &self.near[before].key);
            which(low, self.near.get(at + 1).map(|near| near.key.as_slice()))
        };
        let of: Vec<bool> = (0..self.near.len()).map(of).collect();
        let there = || self.near.iter().zip(&of).filter(|(_, of)| **of);
        let saved: u128 = there().map(|(near, _)| u128::from(near.saved_ns)).sum();
        let left = saved.saturating_sub(ns.into());
        for (near, _) in self.near.iter_mut().zip(&of).filter(|(_, of)| **of) {
            near.saved_ns = u64::try_from(u128::from(near.saved_ns) * left / saved.max(1)).unwrap_or(u64::MAX);
        }
        self.near.retain(|near| near.saved_ns > 0);
    }

    /// What was paid for is done.
    pub fn spend(&mut self, price: &JobCost) {
        match &price.payer {
            CreditSource::Row { low, high } => self.spans.retain(|span| span.low < *low || *high < span.high),
            CreditSource::All => {
                self.take(price.cost_ns);
                self.take_near(price.cost_ns, |_, _| true);
            }
            CreditSource::Between { low, high } => {
                self.take(price.cost_ns);
                self.near.retain(|near| near.key < *low || *high < near.key);
            }
        }
    }

    fn take(&mut self, ns: u64) {
        self.balance_ns = self.balance_ns.saturating_sub(ns);
        self.rested_ns = self.rested_ns.min(self.balance_ns);
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Job {
    /// Flush what the table has in memory, and look at once for what is paid for then.
    Flush,
    /// Merge runs.
    Merge(Compaction),
    /// Merge all runs into the B-tree, or write it anew.
    BTreeMerge {
        /// The whole tree is written anew.
        rewrite: bool,
    },
    /// Forget that scans met dead entries: these are where no merge does away with them.
    Forget,
    /// Make a sorted view of trees.
    View(ViewCandidate),
}

/// A job, and what it takes from the account.
#[derive(Clone, Debug)]
pub struct ReadTriggered {
    /// What is to be done.
    pub job: Job,
    /// What it takes.
    pub cost: JobCost,
}

/// What a job takes from the account.
#[derive(Clone, Debug)]
pub struct JobCost {
    cost_ns: u64,
    payer: CreditSource,
}

/// Which reads have paid.
#[derive(Clone, Debug)]
pub(super) enum CreditSource {
    /// All of the table.
    All,
    /// Those between two keys.
    Between { low: Vec<u8>, high: Vec<u8> },
    /// Scans that stepped over a row of dead entries.
    Row { low: Vec<u8>, high: Vec<u8> },
}

impl JobCost {
    /// The keys of the row of dead entries, if that is what was paid for.
    #[must_use]
    pub const fn row(&self) -> Option<(&Vec<u8>, &Vec<u8>)> {
        match &self.payer {
            CreditSource::Row { low, high } => Some((low, high)),
            CreditSource::All | CreditSource::Between { .. } => None,
        }
    }

    /// Whether the reads of a key have paid, and not those of others.
    #[must_use]
    pub fn is_of(&self, key: &[u8]) -> bool {
        matches!(&self.payer, CreditSource::Between { low, high } if **low <= *key && *key <= **high)
    }
}

impl ReadTriggered {
    pub(super) const fn new(job: Job, cost_ns: u64, payer: CreditSource) -> Self {
        Self { job, cost: JobCost { cost_ns, payer } }
    }
}

/// The next job that reads have paid for, of those that need no more than `room` bytes of free space. All snapshots are
/// from `oldest` on.
#[must_use]
pub fn pick_read_triggered(
    trees: &Trees,
    options: &TableOptions,
    (room, oldest): (u64, SeqNum),
    memory: MemtableLoad,
    account: &ReadCredit,
) -> Option<ReadTriggered> {
    let of_span = |span| pick_dead_range(trees, options, (room, oldest), memory, span);
    if let Some(paid) = account.spans.iter().find_map(of_span) {
        return Some(paid);
    }
    let is_large = memory.entries > 0 && !memory.is_small;
    let extra = u64_of((trees.count() + usize::from(is_large)).saturating_sub(1));
    // Of what extra trees cost, a job may spend the share of those that it does away with.
    let pays = |trees: u64, cost: u64| extra > 0 && account.balance_ns.saturating_mul(trees) / extra >= cost;
    let flush = memory.flush_cost();
    let with_flush = |cost: u64| cost + flush + memory.merged_cost();
    let mut wanted = absorption(trees, options, room)
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
    let whole = || trees.count() == 1 && account.rested_ns >= with_flush(whole_cost(trees));
    if memory.entries > 0 && (wanted.is_some() || is_large && pays(1, flush) || whole()) {
        return Some(ReadTriggered::new(Job::Flush, flush, CreditSource::All));
    }
    wanted.or_else(|| pick_between(trees, options, room, is_large, account))
}

/// The merge of what lies over a run of the last level into it, where reads of these keys alone have paid for that, and
/// at least twice as much of what it costs as is saved for the merge of all: else that comes soon, with what is in
/// memory.
fn pick_between(
    trees: &Trees,
    options: &TableOptions,
    room: u64,
    is_large: bool,
    account: &ReadCredit,
) -> Option<ReadTriggered> {
    let last = occupied(trees).last().filter(|_| trees.btree.is_none())?;
    let mut hot: Vec<(u64, &Arc<Run>)> = Vec::new();
    for near in &account.near {
        let Some(run) = run_of(&trees.levels[last].runs, &near.key) else { continue };
        match hot.last_mut() {
            Some((saved, before)) if Arc::ptr_eq(before, run) => *saved += near.saved_ns,
            _ => hot.push((near.saved_ns, run)),
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
        // A large memtable stays, and its share is not theirs to spend.
        let saved = account.saved_between(&low, &high).saturating_mul(spared) / (spared + u64::from(is_large));
        let is_hot = u128::from(saved) * whole >= 2 * u128::from(account.balance_ns) * u128::from(cost);
        let is_paid = saved >= cost && is_hot && merge.needs(options) <= room;
        is_paid.then(|| ReadTriggered::new(Job::Merge(merge), cost, CreditSource::Between { low, high }))
    })
}

/// The sorted view that reads have paid for, of a table with these trees, if it is of more trees than `viewed`, the one
/// that there is, and takes no more than `room` bytes of memory.
#[must_use]
pub fn pick_view(trees: &Trees, viewed: Option<&TableView>, room: u64, account: &ReadCredit) -> Option<ReadTriggered> {
    let viewable = trees.view_candidate();
    let more = viewable.trees.len().checked_sub(viewed.map_or(1, TableView::count)).filter(|more| *more > 0)?;
    let entries: u64 = viewable.trees.iter().flat_map(|tree| &**tree).map(|run| run.meta().entries).sum();
    let cost_ns = VIEW_NS + entries.saturating_mul(VIEW_ENTRY_NS);
    let extra = u64_of(trees.count()).saturating_sub(1).max(1);
    let fits = can_be_viewed(&viewable.trees) && entries.saturating_mul(ENTRY_BYTES) <= room;
    let pays = account.balance_ns.saturating_mul(u64_of(more).min(extra)) / extra >= cost_ns;
    (fits && pays).then(|| ReadTriggered::new(Job::View(viewable), cost_ns, CreditSource::All))
}

pub(super) fn merge_cost(merge: &Compaction, options: &TableOptions) -> u64 {
    let entries: u64 = merge.inputs().map(|handle| handle.run.meta().entries).sum();
    let moved = merge.is_trivial_move(options);
    JOB_NS + if moved { 0 } else { entries.saturating_mul(ENTRY_NS).saturating_add(merge.bytes() * BYTE_NS) }
}

/// What it costs to merge all trees into one.
pub(super) fn whole_cost(trees: &Trees) -> u64 {
    let root = trees.btree.as_ref().map_or((0, 0), |root| (root.meta().entries, root.meta().live_bytes()));
    let runs = trees.runs().map(|handle| (handle.run.meta().entries, handle.run.meta().bytes));
    let (entries, bytes) = runs.fold(root, |sum, run| (sum.0 + run.0, sum.1 + run.1));
    JOB_NS + entries.saturating_mul(ENTRY_NS) + bytes * BYTE_NS
}

/// How many trees the merge of all runs into the B-tree does away with, and what it costs; `None` without runs or
/// B-tree.
fn absorption(trees: &Trees, options: &TableOptions, room: u64) -> Option<(u64, u64)> {
    let runs = u64_of(trees.l0.len() + occupied(trees).count());
    (trees.btree.is_some() && runs > 0 && btree_merge_needs(trees, options) <= room).then(|| (runs, whole_cost(trees)))
}

/// The merges of all trees from the newest down to each of the levels, with how many trees each does away with; the
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

/// The job that does away with a row of dead entries.
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
        // What it costs is taken with the merge that comes of it.
        return (found.saved_ns >= flush + cost && needs <= room)
            .then(|| ReadTriggered::new(Job::Flush, 0, CreditSource::All));
    }
    match job {
        None => Some(ReadTriggered::new(Job::Forget, 0, row())),
        Some(job) => (found.saved_ns >= cost && needs <= room).then(|| ReadTriggered::new(job, cost, row())),
    }
}

/// What brings dead entries out of a B-tree: the merge of the runs over it, or else to write it anew, if it may have
/// some that nobody sees.
fn dead_range_in_btree(trees: &Trees, oldest: SeqNum) -> Option<Job> {
    if trees.runs().next().is_some() {
        return Some(Job::BTreeMerge { rewrite: false });
    }
    let newest = trees.btree.as_ref()?.meta().seqnum_max;
    (newest > SeqNum::ZERO && newest <= oldest).then_some(Job::BTreeMerge { rewrite: true })
}

/// The runs that touch a key range, and whatever lies between them and the last level, merged into it; or else those of
/// the last level that may have dead entries which nobody sees, written anew.
fn dead_range_to_the_bottom(trees: &Trees, found: &DeadRange, oldest: SeqNum) -> Option<Job> {
    let target = occupied(trees).last().unwrap_or(LEVELS - 1);
    let (l0, mut levels) = down_to(trees, target, (&found.low, &found.high));
    let goes_down = !l0.is_empty() || levels.iter().any(|(level, _)| *level < target);
    if !goes_down {
        let gains = |handle: &RunHandle| !is_settled(handle.run.meta()) && handle.run.seqnum_bounds().largest <= oldest;
        // And what lies between two of them: the result must not reach over a run that stays.
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

/// The runs that touch a key range, and whatever lies between them and level `target`: those of L0, and those of each
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Earn(u64),
        KeyCredit(u8, u64),
        Row(u8, u8, u64),
        Look(u8),
        Write(u64, u8, u8),
        Spend(u64),
        SpendBetween(u64, u8, u8),
        SpendRow(u8, u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = || 0..8u8;
        let pair = || (key(), key()).prop_map(|(a, b)| (a.min(b), a.max(b)));
        let step = prop_oneof![
            (0..9_000u64).prop_map(Step::Earn),
            (key(), 0..9_000u64).prop_map(|(key, ns)| Step::KeyCredit(key, ns)),
            (key(), 0..9_000u64).prop_map(|(key, ns)| Step::KeyCredit(key, ns)),
            (pair(), 1..6u64).prop_map(|((low, high), entries)| Step::Row(low, high, entries)),
            key().prop_map(Step::Look),
            (0..5u64, pair()).prop_map(|(entries, (low, high))| Step::Write(entries, low, high)),
            (0..9_000u64).prop_map(Step::Spend),
            (0..9_000u64, pair()).prop_map(|(ns, (low, high))| Step::SpendBetween(ns, low, high)),
            pair().prop_map(|(low, high)| Step::SpendRow(low, high)),
        ];
        prop::collection::vec(step, 1..40)
    }

    /// What an account must have, told by the rules alone.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Book {
        balance: u64,
        rested: u64,
        near: BTreeMap<u8, u64>,
        /// Of each row its ends, what is saved, and whether it is in memory.
        rows: Vec<(u8, u8, u64, bool)>,
    }

    impl Book {
        fn of(account: &ReadCredit) -> Self {
            let near = account.near.iter().map(|near| (near.key[0], near.saved_ns));
            let rows = account.spans.iter().map(|span| (span.low[0], span.high[0], span.saved_ns, span.in_memory));
            let mut rows: Vec<_> = rows.collect();
            rows.sort_unstable();
            Self { balance: account.balance_ns, rested: account.rested_ns, near: near.collect(), rows }
        }

        fn take_near(&mut self, ns: u64, is_taken: impl Fn(Option<u8>, Option<u8>) -> bool) {
            let keys: Vec<u8> = self.near.keys().copied().collect();
            let before = |at: usize| at.checked_sub(1).map(|at| keys[at]);
            let taken = (0..keys.len()).filter(|at| is_taken(before(*at), keys.get(at + 1).copied()));
            let taken: Vec<u8> = taken.map(|at| keys[at]).collect();
            let saved: u64 = taken.iter().map(|key| self.near[key]).sum();
            for key in taken {
                let near = self.near.get_mut(&key).unwrap();
                *near = *near * saved.saturating_sub(ns) / saved.max(1);
            }
            self.near.retain(|_, ns| *ns > 0);
        }

        fn apply(&mut self, step: &Step) {
            match *step {
                Step::Earn(ns) => {
                    self.balance += ns;
                    self.rested += ns;
                }
                Step::KeyCredit(key, ns) => *self.near.entry(key).or_default() += ns,
                Step::Row(mut low, mut high, entries) => {
                    let mut saved = entries * SEARCH_NS;
                    while let Some(at) = self.rows.iter().position(|row| row.0 <= high && low <= row.1) {
                        let row = self.rows.remove(at);
                        (low, high, saved) = (low.min(row.0), high.max(row.1), saved + row.2);
                    }
                    self.rows.push((low, high, saved, false));
                    self.rows.sort_unstable();
                }
                Step::Look(key) => self.rows.iter_mut().for_each(|row| row.3 = row.0 <= key && key <= row.1),
                Step::Write(0, ..) => {}
                Step::Write(entries, low, high) => {
                    let cost = entries * WRITE_NS;
                    (self.balance, self.rested) = (self.balance.saturating_sub(cost), 0);
                    self.rows.iter_mut().for_each(|row| row.2 = row.2.saturating_sub(cost));
                    self.rows.retain(|row| row.2 > 0);
                    self.take_near(cost, |from, to| {
                        from.is_none_or(|from| from <= high) && to.is_none_or(|to| low <= to)
                    });
                }
                Step::Spend(ns) => {
                    self.take(ns);
                    self.take_near(ns, |_, _| true);
                }
                Step::SpendBetween(ns, low, high) => {
                    self.take(ns);
                    self.near.retain(|key, _| !(low..=high).contains(key));
                }
                Step::SpendRow(low, high) => self.rows.retain(|row| !(low <= row.0 && row.1 <= high)),
            }
        }

        fn take(&mut self, ns: u64) {
            self.balance = self.balance.saturating_sub(ns);
            self.rested = self.rested.min(self.balance);
        }
    }

    fn apply(account: &mut ReadCredit, step: &Step) {
        match *step {
            Step::Earn(ns) => account.add(ns),
            Step::KeyCredit(key, ns) => account.add_near(&[key], ns),
            Step::Row(low, high, entries) => account.add_dead_range(vec![low], vec![high], entries),
            Step::Look(key) => account.look_in_memory(|low, high| *low <= [key][..] && [key][..] <= *high),
            Step::Write(entries, low, high) => {
                account.decay(entries, |from, to| *from <= [high][..] && to.is_none_or(|to| [low][..] <= *to))
            }
            Step::Spend(cost_ns) => account.spend(&JobCost { cost_ns, payer: CreditSource::All }),
            Step::SpendBetween(cost_ns, low, high) => {
                account.spend(&JobCost { cost_ns, payer: CreditSource::Between { low: vec![low], high: vec![high] } });
            }
            Step::SpendRow(low, high) => {
                account.spend(&JobCost { cost_ns: 1, payer: CreditSource::Row { low: vec![low], high: vec![high] } });
            }
        }
    }

    proptest! {
        #[test]
        fn an_account_has_what_reads_paid_less_what_was_written_and_spent(steps in steps()) {
            let (mut account, mut book) = (ReadCredit::default(), Book::default());
            for step in &steps {
                apply(&mut account, step);
                book.apply(step);
                prop_assert_eq!(Book::of(&account), Book { near: book.near.clone(), rows: book.rows.clone(), ..book });
                let is_empty = book.balance == 0 && book.near.is_empty() && book.rows.is_empty();
                prop_assert_eq!(account.is_empty(), is_empty);
                for (low, high) in [(0, 7), (2, 5), (3, 3)] {
                    let between: u64 = book.near.range(low..=high).map(|(_, ns)| ns).sum();
                    prop_assert_eq!(account.saved_between(&[low], &[high]), between);
                }
            }
        }
    }

    #[test]
    fn of_too_many_keys_two_become_one_and_of_too_many_rows_the_least_goes() {
        let mut account = ReadCredit::default();
        for number in 0..=u32::try_from(KEYS_MAX).unwrap() {
            assert_eq!(account.near.len(), usize::try_from(number).unwrap());
            account.add_near(&number.to_be_bytes(), 1 + u64::from(number % 2));
        }
        assert_eq!(account.near.len(), KEYS_MAX / 2 + 1);
        assert_eq!((account.near[0].key.clone(), account.near[0].saved_ns), (1u32.to_be_bytes().to_vec(), 3));
        assert_eq!(account.saved_between(&[], &[0xff]), 3 * u64_of(KEYS_MAX) / 2 + 1);
        for number in 0..=u8::try_from(DEAD_RANGES_MAX).unwrap() {
            account.add_dead_range(vec![2 * number], vec![2 * number], 10 - u64::from(number));
        }
        let rows = Book::of(&account).rows;
        let kept = 0..u8::try_from(DEAD_RANGES_MAX).unwrap();
        assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), kept.map(|number| 2 * number).collect::<Vec<_>>());
    }
}
