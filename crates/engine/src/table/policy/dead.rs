//! What tombstones hide: merges that are due because they give space back.
//!
//! A run does not know which entries its tombstones hide. Each is taken to hide one entry of the sources below it, of
//! their average size. (LevelDB and RocksDB weigh files the same way: the compensated size of a file counts its
//! deletions as values.) The estimate may be too high, when keys are deleted that are not there; then the merge is done
//! in vain, but only once: its tombstones go one level down each time, and nowhere from the last.

use super::compaction::Compaction;
use super::runs::{occupied, overlapping, span};
use super::tuning::{DEAD_MIN_PART, DEAD_PERCENT, TOMBSTONE_BYTES};
use super::{leveled, tiered};
use crate::base::SeqNum;
use crate::base::num::u64_of;
use crate::table::level::{LEVELS, RunHandle};
use crate::table::options::{Layout, TableOptions};
use crate::table::trees::Trees;
use crate::tree::run::RunMeta;

/// The merge that gives the largest part of its inputs' bytes back, if that is enough. Tombstones that a snapshot older
/// than `oldest` does not see count for nothing: what they hide must stay. Delta runs go into their B-tree by
/// a rule of its own.
#[must_use]
pub fn pick_dead(trees: &Trees, options: &TableOptions, oldest: SeqNum) -> Option<Compaction> {
    if trees.btree.is_some() || !trees.runs().any(|handle| seen_tombstones(&handle, oldest) > 0) {
        return None;
    }
    let mut found = in_last_level(trees, oldest);
    match options.layout {
        Layout::Lsm => found.extend(into_levels_below(trees, options, oldest)),
        Layout::BTree | Layout::LsmTiered => found.extend(tiered::merges(trees)),
    }
    let weighed = found.into_iter().map(|merge| (dead_bytes_of(&merge, oldest), merge));
    let is_due = |(dead, merge): &(u64, Compaction)| {
        *dead >= options.run_bytes_max / DEAD_MIN_PART && *dead * 100 >= merge.bytes() * DEAD_PERCENT
    };
    weighed.filter(is_due).max_by_key(|(dead, merge)| dead * 1000 / merge.bytes().max(1)).map(|(_, merge)| merge)
}

/// Whether there are tombstones that count for nothing until a snapshot is gone.
#[must_use]
pub fn has_unseen_tombstones(trees: &Trees, oldest: SeqNum) -> bool {
    trees.runs().any(|handle| handle.run.meta().tombstones > 0 && seen_tombstones(&handle, oldest) == 0)
}

/// The rewriting of each run of the last level that kept tombstones, and what they hide, for a snapshot.
fn in_last_level(trees: &Trees, oldest: SeqNum) -> Vec<Compaction> {
    let last = LEVELS - 1;
    let runs = trees.levels[last].handles().filter(|handle| seen_tombstones(handle, oldest) > 0);
    runs.map(|run| Compaction::onto_target(trees, Vec::new(), vec![(last, vec![run])], last)).collect()
}

/// The merges of L0, and of each run of a level, with what they overlap in the first level below that has any of it.
fn into_levels_below(trees: &Trees, options: &TableOptions, oldest: SeqNum) -> Vec<Compaction> {
    let first_below = |from: usize, runs: &[RunHandle]| {
        let range = span(runs.iter())?;
        (from..LEVELS).find(|level| !overlapping(trees, *level, range).is_empty())
    };
    let mut found = Vec::new();
    if trees.l0.iter().any(|handle| seen_tombstones(handle, oldest) > 0) {
        let base = leveled::Targets::of(trees, options).base;
        let target = first_below(base, &trees.l0).unwrap_or(base);
        found.extend(leveled::l0_into(trees, target, options));
    }
    for level in occupied(trees).filter(|level| *level < LEVELS - 1) {
        for run in trees.levels[level].handles().filter(|handle| seen_tombstones(handle, oldest) > 0) {
            let Some(target) = first_below(level + 1, std::slice::from_ref(&run)) else { continue };
            found.extend(Compaction::new(trees, Vec::new(), vec![(level, vec![run])], target));
        }
    }
    found
}

/// The tombstones of a run, if every snapshot sees all of it.
pub(super) fn seen_tombstones(handle: &RunHandle, oldest: SeqNum) -> u64 {
    if handle.run.seqnum_bounds().largest <= oldest { handle.run.meta().tombstones } else { 0 }
}

/// The entries of a run that are no tombstones.
fn puts(meta: &RunMeta) -> u64 {
    meta.entries - meta.tombstones
}

/// About how many bytes the tombstones of a run take: their keys, and the same share of all else as any other entry.
pub(super) fn tombstone_bytes(meta: &RunMeta) -> u64 {
    let overhead = meta.bytes.saturating_sub(meta.raw_bytes) / meta.entries.max(1);
    (meta.tombstones * (u64_of(meta.smallest.len()) + overhead.max(TOMBSTONE_BYTES))).min(meta.bytes)
}

/// The share of `bytes` that `part` is of `all`, and all of them when `part` is more.
pub(super) fn part_of(bytes: u64, (part, all): (u64, u64)) -> u64 {
    let share = u128::from(bytes) * u128::from(part.min(all)) / u128::from(all.max(1));
    u64::try_from(share).unwrap_or(bytes)
}

/// About how many bytes of the inputs the result lacks, because tombstones that every snapshot from `oldest` on
/// sees hide them, or because these go themselves.
pub(super) fn dead_bytes_of(merge: &Compaction, oldest: SeqNum) -> u64 {
    if is_of_last_level(merge) {
        // Nothing lies below, so what is hidden lies in the same run.
        let runs = merge.inputs().filter(|handle| seen_tombstones(handle, oldest) > 0).map(|handle| handle.run.meta());
        let of_puts = |meta: &RunMeta, own| part_of(meta.bytes - own, (meta.tombstones, puts(meta)));
        return runs.map(|meta| (meta, tombstone_bytes(meta))).map(|(meta, own)| own + of_puts(meta, own)).sum();
    }
    let l0 = merge.l0.iter().map(std::slice::from_ref);
    let sources: Vec<_> = l0.chain(merge.levels.iter().map(|(_, runs)| &**runs)).collect();
    let (mut dead, mut bytes, mut rows) = (0, 0, 0);
    for runs in sources.iter().rev() {
        let tombstones: u64 = runs.iter().map(|handle| seen_tombstones(handle, oldest)).sum();
        let metas = || runs.iter().map(|handle| handle.run.meta());
        let own: u64 = metas().map(tombstone_bytes).sum();
        let of_puts = metas().map(|meta| meta.bytes).sum::<u64>() - own;
        let hidden = part_of(bytes, (tombstones, rows));
        dead += hidden + if merge.bottom && tombstones > 0 { own } else { 0 };
        bytes = bytes - hidden + of_puts;
        rows = rows - tombstones.min(rows) + metas().map(puts).sum::<u64>();
    }
    dead
}

/// Whether runs of the last level are rewritten by themselves: their tombstones were kept with what they hide, for a
/// snapshot.
fn is_of_last_level(merge: &Compaction) -> bool {
    merge.l0.is_empty() && matches!(&*merge.levels, [(level, _)] if *level == LEVELS - 1)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::pick;
    use super::super::tests::Forge;
    use super::*;
    use crate::base::Kind;
    use crate::table::level::{Level, LevelId};

    const SEEN: SeqNum = SeqNum(1 << 20);

    fn options(layout: Layout) -> TableOptions {
        TableOptions { layout, run_bytes_max: 16 << 10, ..TableOptions::default() }
    }

    fn run(forge: &mut Forge, keys: Range<u32>, seqnum: u64, kind: Kind) -> RunHandle {
        forge.run_of(&keys.map(|key| (key, seqnum)).collect::<Vec<_>>(), kind)
    }

    /// A thousand rows, in the last level or in L0, under the tombstones of as many of them.
    fn trees(forge: &mut Forge, layout: Layout, tombstones: u32) -> Trees {
        let rows = run(forge, 0..1000, 1, Kind::Put);
        let dead = run(forge, 0..tombstones, 2, Kind::Delete);
        let mut trees = Trees::default();
        match layout {
            Layout::LsmTiered => trees.l0 = vec![dead, rows],
            _ => {
                trees.l0 = vec![dead];
                trees.levels[LEVELS - 1] = Level::new(vec![rows]);
            }
        }
        trees
    }

    #[test]
    fn a_merge_is_due_when_tombstones_hide_a_quarter_of_what_it_reads() {
        let mut forge = Forge::new(1);
        for layout in [Layout::Lsm, Layout::LsmTiered] {
            let options = options(layout);
            for (tombstones, is_due) in [(100, false), (400, true), (1000, true)] {
                let trees = trees(&mut forge, layout, tombstones);
                assert!(pick(&trees, &options, u64::MAX).is_none());
                let merge = pick_dead(&trees, &options, SEEN);
                assert_eq!(merge.is_some(), is_due, "{layout:?}, {tombstones}");
                let Some(merge) = merge else { continue };
                assert!(merge.bottom && merge.inputs().count() == 2 && !merge.is_trivial_move(&options));
                let (dead, all) = (dead_bytes_of(&merge, SEEN), merge.bytes());
                // Rows in proportion, and all tombstones.
                let of_rows = merge.inputs().map(|handle| handle.run.meta()).find(|meta| meta.tombstones == 0).unwrap();
                let kept = of_rows.bytes * u64::from(1000 - tombstones) / 1000;
                assert!(dead.abs_diff(all - kept) <= all / 16, "{dead} of {all}, {tombstones}");
                assert!(merge.needs(&options).abs_diff(all - dead) <= 1);
            }
        }
    }

    #[test]
    fn what_a_snapshot_sees_still_is_not_dead() {
        let mut forge = Forge::new(2);
        for layout in [Layout::Lsm, Layout::LsmTiered] {
            let trees = trees(&mut forge, layout, 1000);
            assert!(pick_dead(&trees, &options(layout), SeqNum(1)).is_none());
            assert!(has_unseen_tombstones(&trees, SeqNum(1)) && !has_unseen_tombstones(&trees, SeqNum(2)));
            assert!(pick_dead(&trees, &options(layout), SeqNum(2)).is_some());
        }
    }

    #[test]
    fn tombstones_go_to_the_first_level_that_has_what_they_hide() {
        let (mut forge, options) = (Forge::new(3), options(Layout::Lsm));
        let mut trees = Trees::default();
        let rows = run(&mut forge, 0..1000, 1, Kind::Put);
        trees.levels[LEVELS - 1] = Level::new(vec![rows]);
        trees.levels[2] =
            Level::new(vec![run(&mut forge, 0..900, 2, Kind::Delete), run(&mut forge, 2000..2010, 3, Kind::Put)]);
        let merge = pick_dead(&trees, &options, SEEN).unwrap();
        assert_eq!((merge.target, merge.inputs().count(), merge.bottom), (LevelId::Level(LEVELS - 1), 2, true));
    }

    #[test]
    fn runs_of_the_last_level_that_kept_tombstones_for_a_snapshot_are_written_anew() {
        for layout in [Layout::Lsm, Layout::LsmTiered] {
            let (mut forge, options, mut trees) = (Forge::new(4), options(layout), Trees::default());
            trees.levels[LEVELS - 1] = Level::new(vec![run(&mut forge, 0..1000, 1, Kind::Delete)]);
            let merge = pick_dead(&trees, &options, SEEN).unwrap();
            assert_eq!((merge.target, merge.inputs().count()), (LevelId::Level(LEVELS - 1), 1));
            trees.levels[LEVELS - 1] = Level::new(vec![run(&mut forge, 0..1000, 1, Kind::Put)]);
            assert!(pick_dead(&trees, &options, SEEN).is_none());
        }
    }
}
