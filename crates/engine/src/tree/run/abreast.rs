//! A point lookup in several runs.
//!
//! They are searched newest first. Those that no filter can rule out have the same way to a leaf each, and one after the other would wait for memory
//! at each step of it. So each step is made in all of them before the next is made in any; but only as far as the cache leads, so that no run is read from
//! disk before it is that run's turn.

use std::array;

use super::Run;
use super::reader::{Look, check, look};
use crate::base::{Result, SeqNum};
use crate::block::{Block, BlockKind, BlockPointer};
use crate::cache::{Fill, Hint};
use crate::tree::{Costs, Found};

/// So many runs go abreast at most.
const ABREAST_MAX: usize = 8;

/// Neighbours among the runs without filters.
type Row<'r> = [Option<&'r Run>; ABREAST_MAX];

/// The newest version of `key` in `runs` that `snapshot` sees. They come newest first; `hash` is the key's.
///
/// # Errors
/// As [`Run::get`].
#[inline]
pub fn get_newest<'r>(
    runs: impl Iterator<Item = &'r Run>,
    key: &[u8],
    hash: u64,
    snapshot: SeqNum,
    costs: &mut Costs,
) -> Result<Option<Found>> {
    let (mut row, mut len): (Row<'_>, _) = ([None; ABREAST_MAX], 0);
    for run in runs.filter(|run| run.may_span(key)) {
        if run.filter().is_none() && len < ABREAST_MAX {
            row[len] = Some(run);
            len += 1;
            continue;
        }
        let found = get_abreast(&row, key, snapshot, costs)?;
        (row, len) = ([None; ABREAST_MAX], 0);
        let found = if found.is_some() { found } else { run.get_at_cost(key, hash, snapshot, costs)? };
        if found.is_some() {
            return Ok(found);
        }
    }
    get_abreast(&row, key, snapshot, costs)
}

fn get_abreast(row: &Row<'_>, key: &[u8], snapshot: SeqNum, costs: &mut Costs) -> Result<Option<Found>> {
    let mut leaves = if row[1].is_some() { leaves_of(row, key) } else { array::from_fn(|_| None) };
    for (run, leaf) in row.iter().flatten().zip(&mut leaves) {
        costs.trees += 1;
        let leaf = leaf.take().inspect(|_| costs.blocks += 2);
        let found = match leaf.map(|leaf| look(leaf, key, snapshot, run.visible_from())) {
            Some(Look::Absent) => None,
            Some(Look::Found(found)) => Some(found),
            Some(Look::TooNew) | None => run.search(key, snapshot, costs)?,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The leaf of each run that holds `key`, if any does, as far as the cache leads there. What is wrong with one is left to the search.
fn leaves_of(row: &Row<'_>, key: &[u8]) -> [Option<Block>; ABREAST_MAX] {
    row.iter().flatten().for_each(|run| run.top().prefetch_search());
    let indexes = step(row, BlockKind::Branch, |run, _| locate(run, run.top(), key));
    let leaves = step(row, BlockKind::Leaf, |run, i| locate(run, indexes[i].as_ref()?, key));
    leaves.iter().flatten().for_each(|leaf| leaf.prefetch_entries(key));
    leaves
}

/// Goes to a block of each run, by where the cache knows of it.
fn step(
    row: &Row<'_>,
    kind: BlockKind,
    locate: impl Fn(&Run, usize) -> Option<(BlockPointer, Hint)>,
) -> [Option<Block>; ABREAST_MAX] {
    let places: [_; ABREAST_MAX] = array::from_fn(|i| locate(row[i]?, i));
    for (run, place) in row.iter().flatten().zip(&places) {
        if let Some((pointer, hint)) = place {
            run.cache().approach(run.file().instance(), *pointer, *hint);
        }
    }
    array::from_fn(|i| {
        let (run, (pointer, hint)) = (row[i]?, places[i]?);
        let block = run.cache().lookup_at(run.file().instance(), pointer, Fill::Keep, hint)?;
        check(run.file(), pointer, &block, kind).ok()?;
        block.prefetch_search();
        Some(block)
    })
}

/// Where the cache knows of the block to which `branch` leads for `key`.
fn locate(run: &Run, branch: &Block, key: &[u8]) -> Option<(BlockPointer, Hint)> {
    let at = branch.lower_bound(key);
    if at == branch.count() {
        return None;
    }
    let pointer = run.pointer(branch, at).ok()?;
    Some((pointer, run.cache().locate(run.file().instance(), pointer)?))
}
