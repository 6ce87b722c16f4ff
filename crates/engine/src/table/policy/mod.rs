//! Layout policies: pure functions from the trees of a table to the next compaction that its layout wants, if any.

mod compaction;
mod dead;
mod filters;
mod l0;
mod leveled;
mod load;
mod paid;
mod parked;
mod pick;
mod pressure;
mod runs;
mod slices;
#[cfg(test)]
mod tests;
mod tiered;
mod values;

pub use compaction::Compaction;
pub use dead::{ERASURES_MANY, has_unseen_tombstones, pick_dead};
pub use filters::{bits_of_compaction, bits_of_flush};
pub use l0::L0_TRIGGER;
pub use load::places_of_load;
pub use paid::{Account, FILTER_NS, InMemory, Job, Paid, Price, extra_ns, near_key, pick_paid, pick_view};
pub use parked::{
    KEPT_PART, absorption_needs, bytes_of_absorption, is_absorption_due, leaves_worth, rewrite_needs, slices_of_tree,
};
pub use pick::{cuts, pick, pick_all, pick_erased, pick_level, pick_within_l0, targets};
pub use pressure::{FULL, pressure};
pub use slices::Slice;
pub use values::{LIVE_PERCENT, PACKED_PERCENT, ValueBytes, emptied, moved_bytes, pick_values};
