//! Point lookups of several keys in several runs, with each step taken by all of them before the next.
//!
//! Filters that often say no are asked first. Then each key looks into the newest of the runs that may hold it, and
//! those that find nothing there into their next one, and so on: filters let few pass in vain, so one round is enough
//! as a rule, and all leaves that are not in memory are read together. The other filters are asked about those leaves,
//! before they are read.

use super::filter::prefetch_line;
use super::leaf::{Look, check, look};
use super::open_filter;
use super::reader::Run;
use crate::base::num::u64_of;
use crate::base::{Result, SeqNum};
use crate::block::{Block, BlockKind, Bound};
use crate::cache::{Fill, Wanted};
use crate::tree::branch::{Branch, Trace};
use crate::tree::cost::Costs;
use crate::tree::multi_get::{GetRequest, GetResults, nothing};

/// A key, by its number, and a run that may hold it.
#[derive(Clone, Copy)]
struct Probe<'r> {
    request: usize,
    run: &'r Run,
    filter: FilterProbe,
}

/// What a filter said to a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FilterProbe {
    /// It was not asked yet.
    NotProbed,
    /// The key may be there; or there is no filter.
    Passed,
    /// The key is not there.
    Refused,
}

impl Probe<'_> {
    /// Adds what it cost, once it is known whether the run has the key.
    fn count(&self, is_found: bool, costs: &mut Costs) {
        // Not asked is as good as asked: where the leaf was in memory, the search took about as long.
        let is_stopped = !is_found && self.filter == FilterProbe::NotProbed;
        costs.trees += u64::from(!is_stopped);
        costs.filter_stops += u64::from(is_stopped);
        costs.filter_misses += u64::from(!is_found && !is_stopped && self.run.filter().is_some());
    }
}

/// The newest versions of keys, which ascend, that `snapshot` sees. `runs_of` names the runs that may hold a key,
/// newest first.
///
/// # Errors
/// As [`Run::get`].
pub fn get_many<'r, 'k, I: Iterator<Item = &'r Run>>(
    requests: &[GetRequest<'k>],
    snapshot: SeqNum,
    costs: &mut Costs,
    runs_of: impl Fn(&'k [u8]) -> I,
) -> Result<GetResults> {
    let mut results = nothing(requests.len());
    let mut tries = Vec::with_capacity(requests.len());
    for (number, request) in requests.iter().enumerate() {
        for run in runs_of(request.key).filter(|run| run.may_span(request.key)) {
            run.open_ends()?;
            let filter = if run.filter().is_some() { FilterProbe::NotProbed } else { FilterProbe::Passed };
            tries.push(Probe { request: number, run, filter });
        }
    }
    let is_worth_asking = |this: &Probe<'_>| {
        let hash = requests[this.request].hash;
        this.run.filter().is_some_and(|filter| filter.stats.should_probe(hash))
    };
    probe_filters(requests, &mut tries, costs, is_worth_asking)?;
    tries.retain(|this| this.filter != FilterProbe::Refused);
    while !tries.is_empty() {
        // The first of each key; the others wait.
        let mut last = None;
        let round = tries.extract_if(.., |this| last.replace(this.request) != Some(this.request)).collect();
        search(requests, round, snapshot, &mut results, costs)?;
        tries.retain(|this| results[this.request].is_none());
    }
    Ok(results)
}

/// Asks the filters of some of the tries that were not asked yet.
fn probe_filters(
    requests: &[GetRequest<'_>],
    tries: &mut [Probe<'_>],
    costs: &mut Costs,
    is_asked: impl Fn(&Probe<'_>) -> bool,
) -> Result<()> {
    let (mut asked, mut wanted) = (Vec::new(), Vec::new());
    for this in tries.iter_mut().filter(|this| this.filter == FilterProbe::NotProbed && is_asked(this)) {
        let run = this.run;
        let Some(filter) = run.filter() else { continue };
        let (part, line) = filter.layout.place(requests[this.request].hash);
        let (kept, pointer) = (filter.pinned(part), filter.parts[part]);
        match kept {
            Some(block) => prefetch_line(block, line),
            None => wanted.push(Wanted { file: run.file(), pointer, swip: None }),
        }
        asked.push((this, filter, kept, pointer, line));
    }
    let Some((first, ..)) = asked.first() else { return Ok(()) };
    let blocks = first.run.cache.get_many(&wanted, Fill::Keep)?;
    let mut fetched = blocks.iter();
    for (.., part, _, line) in &mut asked {
        if part.is_none() {
            *part = fetched.next();
            part.inspect(|block| prefetch_line(block, *line));
        }
    }
    for (this, filter, part, pointer, line) in asked {
        let (run, hash) = (this.run, requests[this.request].hash);
        let part = part.expect("a part was fetched for each that is not kept");
        let passes = filter.layout.may_contain(open_filter::line(run.file(), part, line, pointer)?, hash);
        filter.stats.record(hash, !passes);
        this.filter = if passes { FilterProbe::Passed } else { FilterProbe::Refused };
        costs.filters += 1;
        costs.filter_stops += u64::from(!passes);
    }
    Ok(())
}

/// Looks for keys in a run each.
fn search(
    requests: &[GetRequest<'_>],
    round: Vec<Probe<'_>>,
    snapshot: SeqNum,
    results: &mut GetResults,
    costs: &mut Costs,
) -> Result<()> {
    let mut ways = ways_to_parts(requests, round, costs)?;
    for way in &mut ways {
        let key = requests[way.this.request].key;
        way.bound = way.index().bound(key);
        if !way.bound.sure {
            way.index().prefetch_bound(way.bound);
        }
        way.trace(way.bound.at).inspect(|trace| trace.prefetch());
    }
    for way in &mut ways {
        way.slot = way.index().lower_bound_from(way.bound, requests[way.this.request].key);
    }
    // The last separator of a part is that of the top, unless the file is malformed: then a get says so.
    for Descent { this, .. } in ways.extract_if(.., |way| way.slot == way.index().count()) {
        results[this.request] = this.run.search(requests[this.request].key, None, &mut None, snapshot, costs)?;
        this.count(results[this.request].is_some(), costs);
    }
    go_to_leaves(requests, &mut ways, costs)?;
    for way in &mut ways {
        way.bound = way.leaf().bound(requests[way.this.request].key);
        way.leaf().prefetch_bound(way.bound);
    }
    for Descent { this, bound, leaf, .. } in ways {
        let (key, leaf) = (requests[this.request].key, leaf.expect(LEAF_IS_THERE));
        results[this.request] = match look(leaf, bound, key, snapshot, this.run.visible_from()) {
            Look::Found(found) => Some(found),
            Look::Absent => None,
            Look::TooNew => this.run.search(key, None, &mut None, snapshot, costs)?,
        };
        this.count(results[this.request].is_some(), costs);
    }
    Ok(())
}

const LEAF_IS_THERE: &str = "ways that do not come to their leaves have ended";

/// The progress of a lookup in a run.
struct Descent<'r> {
    this: Probe<'r>,
    part: usize,
    /// The part of the index, if its run keeps it; or else it was fetched.
    kept: Option<&'r Branch>,
    fetched: Option<Block>,
    /// As far as heads tell: in the part of the index, then in the leaf.
    bound: Bound,
    slot: usize,
    leaf: Option<Block>,
}

impl<'r> Descent<'r> {
    #[inline]
    fn index(&self) -> &Block {
        self.kept.map(Branch::block).or(self.fetched.as_ref()).expect("it is kept or was fetched")
    }

    #[inline]
    fn leaf(&self) -> &Block {
        self.leaf.as_ref().expect(LEAF_IS_THERE)
    }

    #[inline]
    fn trace(&self, slot: usize) -> Option<Trace<'r>> {
        self.kept?.trace(slot)
    }

    /// Comes to its leaf, if that was found.
    #[inline]
    fn resolve(&mut self, leaf: Option<Block>, wanted: &Wanted<'_>) -> Result<()> {
        if let Some(leaf) = &leaf {
            check(wanted.file, wanted.pointer, leaf, BlockKind::Leaf)?;
            leaf.prefetch_search();
        }
        self.leaf = leaf;
        Ok(())
    }

    /// What it leads to in the part of the index.
    fn wanted(&self) -> Result<Wanted<'r>> {
        let run = self.this.run;
        let (pointer, swip) = run.leaf_of(self.trace(self.slot), self.index(), self.slot)?;
        Ok(Wanted { file: run.file(), pointer, swip })
    }
}

/// The ways of tries to their parts of the index, without those whose key is above all of the run.
fn ways_to_parts<'r>(
    requests: &[GetRequest<'_>],
    round: Vec<Probe<'r>>,
    costs: &mut Costs,
) -> Result<Vec<Descent<'r>>> {
    let mut ways = Vec::with_capacity(round.len());
    for this in round {
        let part = this.run.top().lower_bound(requests[this.request].key);
        if part == this.run.top().count() {
            this.count(false, costs);
            continue;
        }
        let kept = this.run.kept_branch(part);
        kept.inspect(|kept| kept.block().prefetch_search());
        let bound = Bound { at: 0, sure: false };
        ways.push(Descent { this, part, kept, fetched: None, bound, slot: 0, leaf: None });
    }
    let mut missing: Vec<_> = ways.iter_mut().filter(|way| way.kept.is_none()).collect();
    let Some(first) = missing.first() else { return Ok(ways) };
    let cache = &first.this.run.cache;
    let wanted = missing.iter().map(|Descent { this, part, .. }| {
        let pointer = this.run.pointer(this.run.top(), *part)?;
        Ok(Wanted { file: this.run.file(), pointer, swip: None })
    });
    let wanted = wanted.collect::<Result<Vec<_>>>()?;
    for ((way, index), wanted) in missing.iter_mut().zip(cache.get_many(&wanted, Fill::Keep)?).zip(&wanted) {
        check(wanted.file, wanted.pointer, &index, BlockKind::Branch)?;
        index.prefetch_search();
        way.kept = way.this.run.keep(way.part, &index);
        way.fetched = Some(index);
    }
    Ok(ways)
}

/// Goes on to the leaves. Ways to leaves that are not in memory end where a filter that was not asked yet says that it
/// is in vain.
fn go_to_leaves(requests: &[GetRequest<'_>], ways: &mut Vec<Descent<'_>>, costs: &mut Costs) -> Result<()> {
    let Some(first) = ways.first() else { return Ok(()) };
    let cache = &first.this.run.cache;
    let wanted = ways.iter().map(Descent::wanted).collect::<Result<Vec<_>>>()?;
    let leaves = cache.lookup_many(&wanted, Fill::Keep);
    for ((way, leaf), wanted) in ways.iter_mut().zip(leaves).zip(&wanted) {
        way.resolve(leaf, wanted)?;
    }
    if ways.iter().any(|way| way.leaf.is_none()) {
        let mut tries: Vec<_> = ways.iter().filter(|way| way.leaf.is_none()).map(|way| way.this).collect();
        probe_filters(requests, &mut tries, costs, |_| true)?;
        let missing = ways.iter_mut().filter(|way| way.leaf.is_none());
        missing.zip(tries).for_each(|(way, this)| way.this = this);
        ways.retain(|way| way.this.filter != FilterProbe::Refused);
        let mut missing: Vec<_> = ways.iter_mut().filter(|way| way.leaf.is_none()).collect();
        let wanted = missing.iter().map(|way| way.wanted()).collect::<Result<Vec<_>>>()?;
        let leaves = cache.read_many(&wanted, Fill::Keep)?;
        for ((way, leaf), wanted) in missing.iter_mut().zip(leaves).zip(&wanted) {
            way.resolve(Some(leaf), wanted)?;
        }
    }
    costs.blocks += 2 * u64_of(ways.len());
    Ok(())
}
