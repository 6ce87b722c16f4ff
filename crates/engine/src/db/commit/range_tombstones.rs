//! The range tombstones of a commit: its ranges are sorted before the commit latch is taken, enter the versions of
//! their tables under it, with their seqnums and seen by no reader before they are published, and after it neighbouring
//! sets are merged, so that each tombstone is merged a logarithmic number of times.

use std::cell::Cell;
use std::sync::Arc;

use crate::base::SeqNum;
use crate::base::num::u64_of;
use crate::db::state::table::{TableFinder, TableState};
use crate::tree::range_tombstone::{RangeEnds, RangeTombstones};
use crate::txn::batch::Changes;
use crate::txn::snapshots::Snapshots;

/// With more sets of range tombstones in memory a commit waits until they are merged: each reader looks in all of them.
const SETS_MAX: usize = 48;
/// Memory that a range tombstone takes beside the keys at its ends.
const OVERHEAD_BYTES: usize = 64;

/// The range tombstones among the changes of a table in a commit.
pub(crate) struct NewTombstones {
    /// As if the commit's first change had seqnum zero, until they are shown.
    set: Cell<RangeTombstones>,
    /// What they take of memory.
    pub(super) bytes: u64,
}

impl NewTombstones {
    /// The range tombstones of each of the tables; none at all when there are none.
    pub(super) fn of(changes: &Changes, tables: &[Arc<TableState>]) -> Vec<Self> {
        if !changes.has_range_deletes() {
            return Vec::new();
        }
        let (mut ranges, mut finder) = (vec![Vec::new(); tables.len()], TableFinder::new(tables));
        for (number, change) in (0..).zip(changes.iter()) {
            if let Some((low, high)) = change.ends() {
                ranges[finder.find(change.table)].push((low, high, SeqNum(number)));
            }
        }
        ranges.into_iter().map(Self::of_ranges).collect()
    }

    fn of_ranges(ranges: Vec<RangeEnds<'_>>) -> Self {
        let bytes = ranges.iter().map(|(low, high, _)| bytes_of(low, *high)).sum();
        // Of a commit a snapshot sees all or nothing.
        Self { set: Cell::new(RangeTombstones::newest_of(ranges.into_iter())), bytes }
    }

    /// Adds them to the table's version; the commit's first change has seqnum `first`. The caller holds the commit
    /// latch.
    pub(super) fn add_to(&self, table: &TableState, first: SeqNum) {
        table.add_range_tombstones(self.set.take().later(first.0));
    }
}

/// Bytes of memory that a range tombstone is counted as.
pub(crate) fn bytes_of(low: &[u8], high: Option<&[u8]>) -> u64 {
    u64_of(low.len() + high.map_or(0, <[u8]>::len) + OVERHEAD_BYTES)
}

/// Merges the sets of a table's range tombstones, where commits left many.
pub(super) fn merge_sets(table: &TableState, snapshots: &Snapshots) {
    let sets = table.version.load().range_tombstones.in_memory();
    let merging = if sets > SETS_MAX { Some(table.tombstone_merge.lock()) } else { table.tombstone_merge.try_lock() };
    // Another commit does it.
    let Some(_merging) = merging else { return };
    while let Some(pair) = table.version.load().range_tombstones_to_join() {
        let (mut snapshots, published) = snapshots.live();
        snapshots.push(published);
        let as_one = Arc::new(pair[0].and_told(&pair[1], &snapshots));
        table.version.rcu(|version| match version.range_tombstones.joined(&pair, &as_one) {
            Some(range_tombstones) => Arc::new(version.with_range_tombstones(range_tombstones)),
            None => Arc::clone(version),
        });
    }
}
