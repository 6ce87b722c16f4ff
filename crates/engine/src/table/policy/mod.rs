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
mod read_credit;
mod read_triggered;
mod runs;
mod slices;
#[cfg(test)]
mod tests;
mod tiered;
mod tuning;
mod values;

pub use compaction::Compaction;
pub use dead::{has_unseen_tombstones, pick_dead};
pub use delta_runs::{
    btree_merge_bytes, btree_merge_needs, is_btree_merge_due, leaves_worth, rewrite_needs, slices_of_tree,
};
pub use filters::{bits_of_compaction, bits_of_flush};
pub use load::places_of_load;
pub use pick::{cuts, pick, pick_all, pick_level, pick_range_deleted, pick_within_l0, targets};
pub use pressure::pressure;
pub use read_credit::{JobCost, ReadCredit, credit_key, extra_ns};
pub use read_triggered::{Job, MemtableLoad, ReadTriggered, pick_read_triggered, pick_view};
pub use slices::Slice;
pub use tuning::{FILTER_NS, FULL, KEPT_PART, L0_TRIGGER, LIVE_PERCENT, PACKED_PERCENT, RANGE_TOMBSTONES_MANY};
pub use values::{ValueBytes, emptied, moved_bytes, pick_values};
