//! How much a range of a table holds, without a look at its entries: as the branches of its trees, the numbers of its
//! runs and its memtables tell.

use crate::base::num::whole;
use crate::base::{Result, SeqNum};
use crate::tree::range_tombstone::RangeTombstone;
use crate::tree::{Limits, btree, run};

use super::version::Version;

/// Range tombstones that are taken into account; more are taken for none.
const RANGE_TOMBSTONES_MAX: usize = 64;

/// About how much a range holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// Keys that have a value.
    pub entries: u64,
    /// Bytes that they take on disk, compressed, and in memory.
    pub bytes: u64,
}

/// What one tree, or all, have of a range.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    entries: f64,
    bytes: f64,
}

impl Part {
    fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

/// About how much of a range a snapshot sees.
///
/// Keys that were written again lie in several trees: the truth is between what the tree that has most of the range
/// tells, where the others only write its keys again, and the sum of all, where none does; the estimate is the
/// geometric mean of these two.
///
/// # Errors
/// When a branch cannot be read or is corrupt.
pub fn estimate(version: &Version, range: &Limits, snapshot: SeqNum) -> Result<Estimate> {
    let all = version.range_tombstones.all();
    let hides = |tombstone: &RangeTombstone| tombstone.seqnum <= snapshot && meet(&tombstone.range, range).is_some();
    let mut hidden: Vec<_> = all.iter().filter(hides).take(RANGE_TOMBSTONES_MAX + 1).collect();
    if hidden.len() > RANGE_TOMBSTONES_MAX {
        hidden.clear();
    }
    let (mut sum, mut most) = (Part::default(), 0.0_f64);
    let mut add = |largest: SeqNum, part: &dyn Fn(&Limits) -> Result<Part>| -> Result<()> {
        let mut shown = part(range)?;
        for tombstone in hidden.iter().filter(|tombstone| tombstone.seqnum >= largest) {
            if let Some(common) = meet(&tombstone.range, range) {
                let less = part(&common)?;
                shown.add(Part { entries: -less.entries, bytes: -less.bytes });
            }
        }
        let shown = Part { entries: shown.entries.max(0.0), bytes: shown.bytes.max(0.0) };
        most = most.max(shown.entries);
        sum.add(shown);
        Ok(())
    };
    for mem in version.memtables() {
        let newest = mem.sealed_at().map_or(SeqNum::MAX, |at| SeqNum(at.next_seqnum.0.saturating_sub(1)));
        add(newest, &|range| {
            let entries = mem.entries.entries_between(&range.low, range.high.as_deref()) as f64;
            let each = mem.entries.bytes() as f64 / (mem.entries.entries() as f64).max(1.0);
            Ok(Part { entries, bytes: entries * each })
        })?;
    }
    for handle in version.trees.runs().filter(|handle| handle.run.visible_from() <= snapshot) {
        let meta = handle.run.meta();
        // Each tombstone stands for an entry of an older tree that is not there any more.
        let live = meta.entries.saturating_sub(2 * meta.tombstones) as f64;
        add(handle.run.seqnum_bounds().largest, &|range| {
            let share = run::estimate::share_between(&handle.run, &range.low, range.high.as_deref())?;
            Ok(Part { entries: live * share, bytes: meta.bytes as f64 * share })
        })?;
    }
    if let Some(root) = &version.trees.btree {
        let meta = root.meta();
        add(root.seqnum_bounds().largest, &|range| {
            let share = btree::estimate::share_between(root, &range.low, range.high.as_deref())?;
            let bytes = meta.file_bytes.saturating_sub(meta.free_bytes) as f64;
            Ok(Part { entries: meta.entries as f64 * share, bytes: bytes * share })
        })?;
    }
    Ok(Estimate { entries: whole((sum.entries * most).sqrt().round()), bytes: whole(sum.bytes.round()) })
}

/// The keys that lie in both ranges, if there can be any.
fn meet(one: &Limits, other: &Limits) -> Option<Limits> {
    let low = (&one.low).max(&other.low).clone();
    let high = match (&one.high, &other.high) {
        (Some(one), Some(other)) => Some(one.min(other).clone()),
        (one, other) => one.as_ref().or(other.as_ref()).cloned(),
    };
    let both = Limits::new(low, high, None);
    (!both.is_empty()).then_some(both)
}
