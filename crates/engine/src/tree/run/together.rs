//! Point lookups of several keys in several runs, with each step taken by all of them before the next.
//!
//! All filters are asked first. Then each key looks into the newest of the runs that may hold it, and those that find nothing there
//! into their next one, and so on: filters let few pass in vain, so one round is enough as a rule, and all leaves that are not in
//! memory are read together.

use super::Run;
use super::filter::prefetch_line;
use super::reader::{Look, check, look};
use crate::base::num::u64_of;
use crate::base::{Result, SeqNum};
use crate::block::{Block, BlockKind, BlockPointer};
use crate::cache::{Fill, SwipOf, Wanted};
use crate::tree::Costs;
use crate::tree::lookup::{Answers, Ask, nothing};

/// As many runs may hold a key as a rule: only room is taken for them.
const RUNS_USUAL: usize = 8;

/// A key, by its number, and a run that may hold it.
type Try<'r> = (usize, &'r Run);

/// The newest versions of keys, which ascend, that `snapshot` sees. `runs_of` names the runs that may hold a key, newest first.
///
/// # Errors
/// As [`Run::get`].
pub fn get_many<'r, 'k, I: Iterator<Item = &'r Run>>(
    asks: &[Ask<'k>],
    snapshot: SeqNum,
    costs: &mut Costs,
    runs_of: impl Fn(&'k [u8]) -> I,
) -> Result<Answers> {
    let mut answers = nothing(asks.len());
    let tries = asks.iter().enumerate().flat_map(|(i, ask)| runs_of(ask.key).map(move |run| (i, run)));
    let mut near: Vec<Try<'_>> = Vec::with_capacity(asks.len() * RUNS_USUAL);
    near.extend(tries.filter(|(i, run)| run.may_span(asks[*i].key)));
    let mut tries = near;
    pass_filters(asks, &mut tries, costs)?;
    while !tries.is_empty() {
        // The first of each key; the others wait.
        let mut last = None;
        let round: Vec<_> = tries.extract_if(.., |(i, _)| last.replace(*i) != Some(*i)).collect();
        costs.trees += u64_of(round.len());
        search(asks, &round, snapshot, &mut answers, costs)?;
        let in_vain = round.iter().filter(|(i, run)| answers[*i].is_none() && run.filter().is_some());
        costs.filter_misses += u64_of(in_vain.count());
        tries.retain(|(i, _)| answers[*i].is_none());
    }
    Ok(answers)
}

/// Drops the tries that a filter rules out.
fn pass_filters(asks: &[Ask<'_>], tries: &mut Vec<Try<'_>>, costs: &mut Costs) -> Result<()> {
    let Some((_, first)) = tries.first() else { return Ok(()) };
    let cache = first.cache();
    let room = tries.len();
    let (mut filtered, mut wanted) = (Vec::with_capacity(room), Vec::with_capacity(room));
    for (at, (i, run)) in tries.iter().enumerate() {
        if let Some((layout, parts)) = run.filter() {
            let (part, line) = layout.place(asks[*i].hash);
            let kept = run.kept_filter(part);
            kept.inspect(|block| prefetch_line(block, line));
            if kept.is_none() {
                wanted.push(Wanted { file: run.file(), pointer: parts[part], swip: None });
            }
            filtered.push((at, layout, kept, parts[part], line));
        }
    }
    costs.filters += u64_of(filtered.len());
    let blocks = cache.get_many(&wanted, Fill::Keep)?;
    let mut fetched = blocks.iter();
    for (.., kept, _, line) in &mut filtered {
        if kept.is_none() {
            *kept = fetched.next();
            kept.inspect(|block| prefetch_line(block, *line));
        }
    }
    let mut passes = vec![true; tries.len()];
    for (at, layout, block, pointer, line) in filtered {
        let (i, run) = tries[at];
        if let Some(block) = block {
            passes[at] = layout.may_contain(run.line(block, line, pointer)?, asks[i].hash);
        }
    }
    costs.filter_stops += u64_of(passes.iter().filter(|passes| !**passes).count());
    let mut passes = passes.into_iter();
    tries.retain(|_| passes.next().unwrap_or(true));
    Ok(())
}

/// Looks for keys in a run each.
fn search(
    asks: &[Ask<'_>],
    round: &[Try<'_>],
    snapshot: SeqNum,
    answers: &mut Answers,
    costs: &mut Costs,
) -> Result<()> {
    let parts = round.iter().map(|(i, run)| ((*i, *run), run.top().lower_bound(asks[*i].key)));
    let (round, parts): (Vec<_>, Vec<_>) = parts.filter(|((_, run), part)| *part < run.top().count()).unzip();
    let indexes = index_parts(&round, &parts)?;
    indexes.iter().zip(&round).for_each(|(index, (i, _))| index.prefetch_entry(asks[*i].key));
    let slots: Vec<_> = indexes.iter().zip(&round).map(|(index, (i, _))| index.lower_bound(asks[*i].key)).collect();
    // A key between the last separator of a part and that of the top is looked for by itself: it is hardly ever there.
    let (mut here, mut at_slots) = (Vec::with_capacity(round.len()), Vec::with_capacity(round.len()));
    for (at, (i, run)) in round.iter().enumerate() {
        if slots[at] < indexes[at].count() {
            here.push((*i, *run));
            at_slots.push(at);
        } else {
            answers[*i] = run.search(asks[*i].key, None, &mut None, snapshot, costs)?;
        }
    }
    let leaves = blocks(&here, BlockKind::Leaf, |n, (_, run)| {
        let at = at_slots[n];
        run.leaf_at(&indexes[at], parts[at], slots[at])
    })?;
    costs.blocks += u64_of(indexes.len() + leaves.len());
    leaves.iter().zip(&here).for_each(|(leaf, (i, _))| leaf.prefetch_entry(asks[*i].key));
    for ((i, run), leaf) in here.into_iter().zip(leaves) {
        answers[i] = match look(leaf, asks[i].key, snapshot, run.visible_from()) {
            Look::Found(found) => Some(found),
            Look::Absent => None,
            Look::TooNew => run.search(asks[i].key, None, &mut None, snapshot, costs)?,
        };
    }
    Ok(())
}

/// The index part with this number for each of the tries, on its way into the nearest cache.
fn index_parts(tries: &[Try<'_>], parts: &[usize]) -> Result<Vec<Block>> {
    let mut indexes: Vec<_> = tries.iter().zip(parts).map(|((_, run), part)| run.kept_part(*part).cloned()).collect();
    indexes.iter().flatten().for_each(|index| index.prefetch_search());
    let missing: Vec<_> = (0..tries.len()).filter(|at| indexes[*at].is_none()).collect();
    let wanted: Vec<_> = missing.iter().map(|at| tries[*at]).collect();
    let fetched =
        blocks(&wanted, BlockKind::Branch, |n, (_, run)| Ok((run.pointer(run.top(), parts[missing[n]])?, None)))?;
    for (at, index) in missing.into_iter().zip(fetched) {
        tries[at].1.keep(parts[at], &index);
        indexes[at] = Some(index);
    }
    Ok(indexes.into_iter().flatten().collect())
}

/// A block of a kind for each of the tries, on their way into the nearest cache.
fn blocks<'r>(
    tries: &[Try<'r>],
    kind: BlockKind,
    place: impl Fn(usize, Try<'r>) -> Result<(BlockPointer, Option<SwipOf<'r>>)>,
) -> Result<Vec<Block>> {
    let Some((_, first)) = tries.first() else { return Ok(Vec::new()) };
    let wanted = tries.iter().enumerate().map(|(at, (i, run))| {
        let (pointer, swip) = place(at, (*i, *run))?;
        Ok(Wanted { file: run.file(), pointer, swip })
    });
    let wanted = wanted.collect::<Result<Vec<_>>>()?;
    let blocks = first.cache().get_many(&wanted, Fill::Keep)?;
    blocks.iter().for_each(|block| block.prefetch_search());
    for (Wanted { file, pointer, .. }, block) in wanted.iter().zip(&blocks) {
        check(file, *pointer, block, kind)?;
    }
    Ok(blocks)
}
