//! Merges that reads have paid for: what extra trees and dead entries cost the reads of a table is saved up, and spent on the merge that
//! does away with them when it costs no more.
//!
//! The currency is nanoseconds of one core, by the constants below; `docs/decisions/0014` has the rule and where they come from. What
//! is written takes from what is saved, so a table that is written much is left to its layout.
//!
//! A small memtable is no tree to do away with: beside a writer the next one would come right behind it. It is flushed before a merge, of which
//! it is part then, or for a merge of all there is, once reads have paid for that since the last write.

use super::{
    Compaction, TableOptions, Trees, absorption_needs, is_settled, leveled, occupied, overlapping, rewrite_needs, span,
};
use crate::base::SeqNum;
use crate::base::num::u64_of;
use crate::table::version::{LEVELS, RunHandle, SMALL_BYTES, Viewable, Viewed};
use crate::tree::Costs;
use crate::tree::run::view::{ENTRY_BYTES, can_be_viewed};

/// A tree passed by a get or a scan whose filter says no.
pub const FILTER_NS: u64 = 25;
/// A memtable searched that lies in the processor's cache.
pub(super) const SMALL_NS: u64 = 100;
/// A sorted view searched by a get.
pub(super) const VIEW_SEARCH_NS: u64 = 200;
/// A tree searched in vain, or a further tree in a scan; also an entry that a scan steps over in a long row of dead ones.
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
/// So many key ranges are remembered in which scans met dead entries.
const SPANS_MAX: usize = 8;

/// What lookups of so many keys, or a walk, paid for more than one tree each, and for views: the dearest tree is the one that a merge would leave.
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

/// What a table has in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct InMemory {
    /// Entries of its memtables.
    pub entries: u64,
    /// They lie in the processor's cache.
    pub is_small: bool,
}

impl InMemory {
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
pub struct Account {
    balance_ns: u64,
    /// How much of it since the last write.
    rested_ns: u64,
    /// Apart, disjoint key ranges in which scans stepped over long rows of dead entries.
    spans: Vec<Span>,
}

#[derive(Clone, Debug)]
struct Span {
    low: Vec<u8>,
    high: Vec<u8>,
    saved_ns: u64,
    /// The table has keys of it in memory.
    in_memory: bool,
}

impl Account {
    /// Whether nothing is saved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.balance_ns == 0 && self.spans.is_empty()
    }

    /// Reads paid for extra trees.
    pub fn earn(&mut self, ns: u64) {
        self.balance_ns = self.balance_ns.saturating_add(ns);
        self.rested_ns = self.rested_ns.saturating_add(ns);
    }

    /// A scan stepped over a row of so many dead entries from `low` to `high`.
    pub fn earn_in(&mut self, mut low: Vec<u8>, mut high: Vec<u8>, entries: u64) {
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
        self.spans.push(Span { low, high, saved_ns, in_memory: false });
        if self.spans.len() > SPANS_MAX {
            self.spans.sort_unstable_by_key(|span| std::cmp::Reverse(span.saved_ns));
            self.spans.truncate(SPANS_MAX);
        }
    }

    /// Looks which of the key ranges the table has keys of in memory.
    pub fn look_in_memory(&mut self, holds: impl Fn(&[u8], &[u8]) -> bool) {
        self.spans.iter_mut().for_each(|span| span.in_memory = holds(&span.low, &span.high));
    }

    /// So many entries were written.
    pub fn decay(&mut self, entries: u64) {
        if entries > 0 {
            self.rested_ns = 0;
        }
        let cost = entries.saturating_mul(WRITE_NS);
        self.balance_ns = self.balance_ns.saturating_sub(cost);
        self.spans.iter_mut().for_each(|span| span.saved_ns = span.saved_ns.saturating_sub(cost));
        self.spans.retain(|span| span.saved_ns > 0);
    }

    /// What was paid for is done.
    pub fn spend(&mut self, price: &Price) {
        match &price.span {
            Some((low, high)) => self.spans.retain(|span| span.low < *low || *high < span.high),
            None => {
                self.balance_ns = self.balance_ns.saturating_sub(price.cost_ns);
                self.rested_ns = self.rested_ns.min(self.balance_ns);
            }
        }
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
    Absorb {
        /// The whole tree is written anew.
        rewrite: bool,
    },
    /// Forget that scans met dead entries: these are where no merge does away with them.
    Forget,
    /// Make a sorted view of trees.
    View(Viewable),
}

/// A job, and what it takes from the account.
#[derive(Clone, Debug)]
pub struct Paid {
    /// What is to be done.
    pub job: Job,
    /// What it takes.
    pub price: Price,
}

/// What a job takes from the account.
#[derive(Clone, Debug)]
pub struct Price {
    cost_ns: u64,
    /// Only reads of these keys have paid.
    span: Option<(Vec<u8>, Vec<u8>)>,
}

impl Price {
    /// The keys whose reads have paid, unless all have.
    #[must_use]
    pub const fn span(&self) -> Option<&(Vec<u8>, Vec<u8>)> {
        self.span.as_ref()
    }
}

impl Paid {
    pub(super) const fn new(job: Job, cost_ns: u64, span: Option<(Vec<u8>, Vec<u8>)>) -> Self {
        Self { job, price: Price { cost_ns, span } }
    }
}

/// The next job that reads have paid for, of those that need no more than `room` bytes of free space. All snapshots are from `oldest` on.
#[must_use]
pub fn pick_paid(
    trees: &Trees,
    options: &TableOptions,
    (room, oldest): (u64, SeqNum),
    memory: InMemory,
    account: &Account,
) -> Option<Paid> {
    let of_span = |span| pick_span(trees, options, (room, oldest), memory, span);
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
        .map(|(_, cost)| Paid::new(Job::Absorb { rewrite: false }, cost, None));
    if wanted.is_none() {
        let fitting = merges(trees, options).into_iter().rev().filter(|(_, merge)| merge.needs(options) <= room);
        wanted = fitting.map(|(saved, merge)| (saved, merge_cost(&merge, options), merge)).find_map(
            |(saved, cost, merge)| pays(saved, with_flush(cost)).then(|| Paid::new(Job::Merge(merge), cost, None)),
        );
    }
    let whole = || trees.count() == 1 && account.rested_ns >= with_flush(whole_cost(trees));
    if memory.entries > 0 && (wanted.is_some() || is_large && pays(1, flush) || whole()) {
        return Some(Paid::new(Job::Flush, flush, None));
    }
    wanted
}

/// The sorted view that reads have paid for, of a table with these trees, if it is of more trees than `viewed`, the one that there is, and takes no
/// more than `room` bytes of memory.
#[must_use]
pub fn pick_view(trees: &Trees, viewed: Option<&Viewed>, room: u64, account: &Account) -> Option<Paid> {
    let viewable = trees.over_the_last();
    let more = viewable.trees.len().checked_sub(viewed.map_or(1, Viewed::count)).filter(|more| *more > 0)?;
    let entries: u64 = viewable.trees.iter().flat_map(|tree| &**tree).map(|run| run.meta().entries).sum();
    let cost_ns = VIEW_NS + entries.saturating_mul(VIEW_ENTRY_NS);
    let extra = u64_of(trees.count()).saturating_sub(1).max(1);
    let fits = can_be_viewed(&viewable.trees) && entries.saturating_mul(ENTRY_BYTES) <= room;
    let pays = account.balance_ns.saturating_mul(u64_of(more).min(extra)) / extra >= cost_ns;
    (fits && pays).then(|| Paid::new(Job::View(viewable), cost_ns, None))
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

/// How many trees the merge of all runs into the B-tree does away with, and what it costs; `None` without runs or B-tree.
fn absorption(trees: &Trees, options: &TableOptions, room: u64) -> Option<(u64, u64)> {
    let runs = u64_of(trees.l0.len() + occupied(trees).count());
    (trees.btree.is_some() && runs > 0 && absorption_needs(trees, options) <= room).then(|| (runs, whole_cost(trees)))
}

/// The merges of all trees from the newest down to each of the levels, with how many trees each does away with; the deepest last.
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
fn pick_span(
    trees: &Trees,
    options: &TableOptions,
    (room, oldest): (u64, SeqNum),
    memory: InMemory,
    found: &Span,
) -> Option<Paid> {
    let span = || Some((found.low.clone(), found.high.clone()));
    let job =
        if trees.btree.is_some() { span_in_btree(trees, oldest) } else { span_to_the_bottom(trees, found, oldest) };
    let (cost, needs) = match &job {
        Some(Job::Merge(merge)) => (merge_cost(merge, options), merge.needs(options)),
        Some(Job::Absorb { rewrite: true }) => (whole_cost(trees), rewrite_needs(trees)),
        Some(_) => (whole_cost(trees), absorption_needs(trees, options)),
        None => (0, 0),
    };
    if found.in_memory {
        let flush = memory.flush_cost();
        // What it costs is taken with the merge that comes of it.
        return (found.saved_ns >= flush + cost && needs <= room).then(|| Paid::new(Job::Flush, 0, None));
    }
    match job {
        None => Some(Paid::new(Job::Forget, 0, span())),
        Some(job) => (found.saved_ns >= cost && needs <= room).then(|| Paid::new(job, cost, span())),
    }
}

/// What brings dead entries out of a B-tree: the merge of the runs over it, or else to write it anew, if it may have some that nobody sees.
fn span_in_btree(trees: &Trees, oldest: SeqNum) -> Option<Job> {
    if trees.runs().next().is_some() {
        return Some(Job::Absorb { rewrite: false });
    }
    let newest = trees.btree.as_ref()?.meta().seqnum_max;
    (newest > SeqNum::ZERO && newest <= oldest).then_some(Job::Absorb { rewrite: true })
}

/// The runs that touch a key range, and whatever lies between them and the last level, merged into it; or else those of the last level that may
/// have dead entries which nobody sees, written anew.
fn span_to_the_bottom(trees: &Trees, found: &Span, oldest: SeqNum) -> Option<Job> {
    let mut range = (found.low.clone(), found.high.clone());
    let target = occupied(trees).last().unwrap_or(LEVELS - 1);
    let touches = |handle: &RunHandle| handle.run.meta().overlaps(&found.low, &found.high);
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
    let goes_down = !l0.is_empty() || levels.iter().any(|(level, _)| *level < target);
    if !goes_down {
        let gains = |handle: &RunHandle| !is_settled(handle.run.meta()) && handle.run.ages().most <= oldest;
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

fn widen(range: &mut (Vec<u8>, Vec<u8>), runs: &[RunHandle]) {
    if let Some((low, high)) = span(runs.iter()) {
        *range = (low.min(&*range.0).to_vec(), high.max(&*range.1).to_vec());
    }
}
