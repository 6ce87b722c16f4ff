//! Merges that reads have paid for: what extra trees and dead entries cost the reads of a table is saved up, and spent on the merge that
//! does away with them when it costs no more.
//!
//! The currency is nanoseconds of one core, by the constants below; `docs/decisions/0014` has the rule and where they come from. What
//! is written takes from what is saved, so a table that is written much is left to its layout.

use super::parked::parked_bytes;
use super::{Compaction, TableOptions, Trees, absorption_needs, leveled, occupied, overlapping, span};
use crate::base::num::u64_of;
use crate::table::version::{LEVELS, RunHandle, Viewable, Viewed};
use crate::tree::Costs;
use crate::tree::run::view::{ENTRY_BYTES, can_be_viewed};

/// A tree passed by a get or a scan whose filter says no, or that lies in the processor's cache.
pub const FILTER_NS: u64 = 25;
/// A sorted view searched.
const VIEW_SEARCH_NS: u64 = 200;
/// A tree searched in vain, or a further tree in a scan; also an entry that a scan steps over in a long row of dead ones.
pub const SEARCH_NS: u64 = 1_200;
/// What an entry written costs until it has come to the last level: so much takes it from what reads saved.
const WRITE_NS: u64 = 1_000;
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

/// What lookups of so many keys paid for more than one tree each.
#[inline]
#[must_use]
pub const fn extra_ns(keys: u64, costs: &Costs) -> u64 {
    let searched = costs.trees.saturating_sub(keys);
    let extra = (costs.trees + costs.filter_stops).saturating_sub(keys);
    searched * SEARCH_NS + (extra - searched) * FILTER_NS + costs.views * VIEW_SEARCH_NS
}

/// What the reads of a table have saved up since it was last written.
#[derive(Clone, Debug, Default)]
pub struct Account {
    balance_ns: u64,
    /// Apart, disjoint key ranges in which scans stepped over long rows of dead entries.
    spans: Vec<Span>,
}

#[derive(Clone, Debug)]
struct Span {
    low: Vec<u8>,
    high: Vec<u8>,
    saved_ns: u64,
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
        self.spans.push(Span { low, high, saved_ns });
        if self.spans.len() > SPANS_MAX {
            self.spans.sort_unstable_by_key(|span| std::cmp::Reverse(span.saved_ns));
            self.spans.truncate(SPANS_MAX);
        }
    }

    /// So many entries were written.
    pub fn decay(&mut self, entries: u64) {
        let cost = entries.saturating_mul(WRITE_NS);
        self.balance_ns = self.balance_ns.saturating_sub(cost);
        self.spans.iter_mut().for_each(|span| span.saved_ns = span.saved_ns.saturating_sub(cost));
        self.spans.retain(|span| span.saved_ns > 0);
    }

    /// What was paid for is done.
    pub fn spend(&mut self, price: &Price) {
        match &price.span {
            Some((low, high)) => self.spans.retain(|span| span.low < *low || *high < span.high),
            None => self.balance_ns = self.balance_ns.saturating_sub(price.cost_ns),
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Job {
    /// Flush what the table has in memory.
    Flush,
    /// Merge runs.
    Merge(Compaction),
    /// Merge all runs into the B-tree.
    Absorb,
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

impl Paid {
    const fn new(job: Job, cost_ns: u64, span: Option<(Vec<u8>, Vec<u8>)>) -> Self {
        Self { job, price: Price { cost_ns, span } }
    }
}

/// The next job that reads have paid for, of those that need no more than `room` bytes of free space. `in_memory` is how many entries the
/// table's memtables hold.
#[must_use]
pub fn pick_paid(trees: &Trees, options: &TableOptions, room: u64, in_memory: u64, account: &Account) -> Option<Paid> {
    if let Some(paid) = account.spans.iter().find_map(|span| pick_span(trees, options, room, in_memory, span)) {
        return Some(paid);
    }
    let searched = trees.count() + usize::from(in_memory > 0);
    let extra = u64_of(searched).checked_sub(1).filter(|extra| *extra > 0)?;
    // Of what extra trees cost, a merge may spend the share of those that it does away with.
    let pays = |trees: u64, cost: u64| account.balance_ns.saturating_mul(trees) / extra >= cost;
    let flush = flush_cost(in_memory);
    // Before any merge: what is flushed is then merged with the rest.
    if in_memory > 0 && pays(1, flush) {
        return Some(Paid::new(Job::Flush, flush, None));
    }
    if let Some((saved, cost_ns)) = absorption(trees, options, room)
        && pays(saved, cost_ns)
    {
        return Some(Paid::new(Job::Absorb, cost_ns, None));
    }
    let mut merges = merges(trees, options);
    merges.reverse();
    merges.into_iter().filter(|(_, merge)| merge.needs(options) <= room).find_map(|(saved, merge)| {
        let cost_ns = merge_cost(&merge, options);
        pays(saved, cost_ns).then_some(Paid::new(Job::Merge(merge), cost_ns, None))
    })
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

fn flush_cost(entries: u64) -> u64 {
    JOB_NS + entries.saturating_mul(ENTRY_NS)
}

fn merge_cost(merge: &Compaction, options: &TableOptions) -> u64 {
    let entries: u64 = merge.inputs().map(|handle| handle.run.meta().entries).sum();
    let moved = merge.is_trivial_move(options);
    JOB_NS + if moved { 0 } else { entries.saturating_mul(ENTRY_NS).saturating_add(merge.bytes() * BYTE_NS) }
}

/// How many trees the merge of all runs into the B-tree does away with, and what it costs; `None` without runs or B-tree.
fn absorption(trees: &Trees, options: &TableOptions, room: u64) -> Option<(u64, u64)> {
    let root = trees.btree.as_ref()?;
    let runs = u64_of(trees.l0.len() + occupied(trees).count());
    let parked: u64 = trees.runs().map(|handle| handle.run.meta().entries).sum();
    let merged = root.meta().entries + parked;
    let bytes = root.meta().live_bytes() + parked_bytes(trees);
    let cost = JOB_NS + merged.saturating_mul(ENTRY_NS) + bytes * BYTE_NS;
    (runs > 0 && absorption_needs(trees, options) <= room).then_some((runs, cost))
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
fn pick_span(trees: &Trees, options: &TableOptions, room: u64, in_memory: u64, found: &Span) -> Option<Paid> {
    let flush = flush_cost(in_memory);
    if in_memory > 0 && found.saved_ns >= flush {
        return Some(Paid::new(Job::Flush, flush, None));
    }
    if trees.btree.is_some() {
        let (_, cost_ns) = absorption(trees, options, room).filter(|(_, cost)| found.saved_ns >= *cost)?;
        return Some(Paid::new(Job::Absorb, cost_ns, Some((found.low.clone(), found.high.clone()))));
    }
    let merge = span_to_the_bottom(trees, found).filter(|merge| merge.needs(options) <= room)?;
    let cost_ns = merge_cost(&merge, options);
    let span = Some((found.low.clone(), found.high.clone()));
    (found.saved_ns >= cost_ns).then_some(Paid::new(Job::Merge(merge), cost_ns, span))
}

/// The runs that touch a key range, and whatever lies between them and the last level, merged into it. `None` when they are there.
fn span_to_the_bottom(trees: &Trees, found: &Span) -> Option<Compaction> {
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
    goes_down.then(|| Compaction::onto_target(trees, l0, levels, target))
}

fn widen(range: &mut (Vec<u8>, Vec<u8>), runs: &[RunHandle]) {
    if let Some((low, high)) = span(runs.iter()) {
        *range = (low.min(&*range.0).to_vec(), high.max(&*range.1).to_vec());
    }
}
