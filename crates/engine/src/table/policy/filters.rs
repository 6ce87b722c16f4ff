//! How many bits of filter the keys of a run get: the more, the smaller the tree is to which it belongs.
//!
//! A filter spares a lookup the search of a tree that does not hold the key. One more bit per key leaves 0.62 of a
//! tree's false positives, and takes as many bits as the tree has keys. So false positives of all trees together are
//! fewest, for the bits of all together, when those of each tree are in proportion to its keys: 1.44 bits more per key
//! for half as many keys. The bits that small trees get more, the largest gets fewer.
//!
//! After Dayan, Athanassoulis and Idreos, "Monkey: Optimal Navigable Key-Value Store" (2017).

use super::tuning::MORE_MAX;
use std::f64::consts::LOG2_E;

use crate::base::{FileId, Result};
use crate::table::level::{LevelId, RunHandle};
use crate::table::options::TableOptions;
use crate::table::trees::Trees;
use crate::tree::Cursor;
use crate::tree::merge::MergeCursor;

use super::compaction::Compaction;
use super::runs::span;

/// Entries that are about to be written.
struct Output<'a> {
    /// How many, at most.
    entries: u64,
    /// The first and the last key.
    range: (&'a [u8], &'a [u8]),
    /// Where they go.
    place: LevelId,
    /// The runs that they replace.
    removed: &'a [FileId],
}

/// Bits per key for the flush of `entries` entries, over which `changes` walks.
///
/// # Errors
/// As the cursor.
pub fn bits_of_flush(trees: &Trees, options: &TableOptions, entries: u64, changes: &mut MergeCursor) -> Result<f64> {
    let mut end = |last: bool| -> Result<Vec<u8>> {
        if last {
            changes.last()?
        } else {
            changes.first()?
        }
        Ok(changes.entry().map_or_else(Vec::new, |entry| entry.key.to_vec()))
    };
    let (low, high) = (end(false)?, end(true)?);
    let output = Output { entries, range: (&low, &high), place: LevelId::L0, removed: &[] };
    Ok(bits(trees, options, &output))
}

/// Bits per key for the result of a compaction.
#[must_use]
pub fn bits_of_compaction(trees: &Trees, options: &TableOptions, compaction: &Compaction) -> f64 {
    let Some(range) = span(compaction.inputs()) else { return 0.0 };
    let entries = compaction.inputs().map(|handle| handle.run.meta().entries).sum();
    bits(trees, options, &Output { entries, range, place: compaction.target, removed: &compaction.removed() })
}

fn bits(trees: &Trees, options: &TableOptions, output: &Output<'_>) -> f64 {
    let average = f64::from(options.filter_bits_per_key);
    let stays = |handle: &RunHandle| !output.removed.contains(&handle.id);
    let (mut own, mut others, mut touches) = (output.entries, Vec::new(), false);
    let l0 = trees.l0.iter().map(|handle| (LevelId::L0, vec![handle.clone()]));
    let levels = (0..).zip(&trees.levels).map(|(index, level)| (LevelId::Level(index), level.handles().collect()));
    for (place, mut runs) in l0.chain(levels) {
        runs.retain(stays);
        let entries: u64 = runs.iter().map(|handle| handle.run.meta().entries).sum();
        if place == output.place && place != LevelId::L0 {
            own += entries;
        } else {
            others.push(entries);
            touches |= runs.iter().any(|handle| handle.run.meta().overlaps(output.range.0, output.range.1));
        }
    }
    if touches { share(own, &others, average) } else { average }
}

/// Bits per key for a tree of `own` entries besides `others`, so that all have `average` bits on average.
fn share(own: u64, others: &[u64], average: f64) -> f64 {
    if average == 0.0 {
        return 0.0;
    }
    let most = others.iter().copied().max().unwrap_or(0).max(own);
    let more = |entries: u64| LOG2_E * (most as f64 / entries.max(1) as f64).log2();
    let (total, spent) = others.iter().chain([&own]).fold((0.0, 0.0), |(total, spent), entries| {
        (total + *entries as f64, spent + *entries as f64 * more(*entries))
    });
    let bits = average - spent / total + more(own);
    // A filter of less than a bit per key lets nearly all pass.
    if bits < 1.0 { 0.0 } else { bits.min(average + MORE_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// False positives of a filter, by the formula for an ideal one.
    fn false_positives(bits: f64) -> f64 {
        0.6185_f64.powf(bits)
    }

    /// The bits of each tree.
    fn shares(trees: &[u64], average: f64) -> Vec<f64> {
        let others =
            |own: usize| trees.iter().enumerate().filter(|(i, _)| *i != own).map(|(_, n)| *n).collect::<Vec<_>>();
        trees.iter().enumerate().map(|(own, entries)| share(*entries, &others(own), average)).collect()
    }

    #[test]
    fn small_trees_get_more_bits_the_largest_fewer_and_all_together_no_more() {
        let shapes: [&[u64]; 6] = [
            &[1000],
            &[1000, 1000, 1000],
            &[400_000, 400_000, 400_000, 400_000, 1_250_000, 10_000_000],
            &[10, 10, 1_000_000_000],
            &[1, 2, 4, 8, 16, 32, 64, 128],
            &[0, 7, 70_000],
        ];
        for (trees, average) in shapes.into_iter().flat_map(|trees| [2.0, 5.0, 10.0, 20.0].map(|bits| (trees, bits))) {
            let bits = shares(trees, average);
            let sum =
                |of: &dyn Fn(u64, f64) -> f64| trees.iter().zip(&bits).map(|(n, bits)| of(*n, *bits)).sum::<f64>();
            let (all, given) = (sum(&|n, _| n as f64), sum(&|n, bits| n as f64 * bits));
            assert!(given <= average * all * 1.0001, "{trees:?}: {bits:?} of {average}");
            let (before, after) =
                (false_positives(average) * trees.len() as f64, sum(&|_, bits| false_positives(bits)));
            assert!(after <= before * 1.0001, "{trees:?}: {bits:?}, {after} false positives instead of {before}");
            let ranks = |a: usize, b: usize| trees[a] > trees[b] || bits[a] >= bits[b];
            assert!((0..trees.len()).all(|a| (0..trees.len()).all(|b| ranks(a, b))));
        }
    }

    #[test]
    fn ten_million_entries_with_four_runs_above_have_a_third_of_the_false_positives() {
        let trees = [200_000, 200_000, 200_000, 200_000, 1_250_000, 10_000_000];
        let bits = shares(&trees, 10.0);
        let rounded: Vec<_> = bits.iter().map(|bits| (bits * 10.0).round() / 10.0).collect();
        assert_eq!(rounded, [16.0, 16.0, 16.0, 16.0, 13.3, 9.0]);
        let misses: f64 = bits.iter().map(|bits| false_positives(*bits)).sum();
        assert!((misses - 0.0167).abs() < 0.0002, "{misses}, and 0.049 with ten bits everywhere");
    }

    #[test]
    fn trees_of_one_size_get_the_average_and_none_less_than_a_bit() {
        assert_eq!(shares(&[500, 500], 10.0), [10.0, 10.0]);
        assert_eq!(share(1 << 20, &[1 << 19; 4], 1.0), 0.0);
        assert_eq!(share(1, &[1 << 40], 10.0), 16.0);
        assert_eq!(share(1, &[1 << 40], 0.0), 0.0);
    }
}
