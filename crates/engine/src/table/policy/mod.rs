//! Layout policies: pure functions from the trees of a table to the next compaction that its layout wants, if any.

mod compaction;
mod dead;
mod delta_runs;
mod filters;
mod l0;
mod leveled;
mod load;
mod pick;
mod pressure;
mod read_triggered;
mod runs;
mod slices;
#[cfg(test)]
mod tests;
mod tiered;
mod values;

pub use compaction::Compaction;
pub use dead::{RANGE_TOMBSTONES_MANY, has_unseen_tombstones, pick_dead};
pub use delta_runs::{
    KEPT_PART, btree_merge_bytes, btree_merge_needs, is_btree_merge_due, leaves_worth, rewrite_needs, slices_of_tree,
};
pub use filters::{bits_of_compaction, bits_of_flush};
pub use l0::L0_TRIGGER;
pub use load::places_of_load;
pub use pick::{cuts, pick, pick_all, pick_level, pick_range_deleted, pick_within_l0, targets};
pub use pressure::{FULL, pressure};
pub use read_triggered::{
    FILTER_NS, Job, JobCost, MemtableLoad, ReadCredit, ReadTriggered, credit_key, extra_ns, pick_read_triggered,
    pick_view,
};
pub use slices::Slice;
pub use values::{LIVE_PERCENT, PACKED_PERCENT, ValueBytes, emptied, moved_bytes, pick_values};
