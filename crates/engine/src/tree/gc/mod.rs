//! The one rule for what may be dropped: which versions and tombstones a flush or compaction must still write, and
//! which merge operands it writes folded.
//!
//! Two versions lie in one *stripe* when every snapshot sees both or neither. The newest version of a stripe represents
//! it; a merge operand does so together with what follows it, down to the first version that is none.
//!
//! # Invariants
//! 1. For every live snapshot, the version of a key that it sees is kept, unless it is a tombstone that hides nothing.
//! 2. A version that no snapshot sees, now or later, and that no kept operand needs, is dropped.
//! 3. A tombstone is dropped only when nothing older than it can lie below (`bottom`) and every snapshot sees it.
//! 4. A kept version that every snapshot sees gets seqnum zero: no reader needs to compare it again. An operand keeps
//!    its seqnum: older versions of its stripe may lie behind it, here or below. In a table whose entries are `dated`
//!    all keep theirs, which tells their age.
//! 5. Operands of one stripe are folded with the version that they change when that is in the stripe too, or when there
//!    is none: with a tombstone, and at the end of the key at the bottom. Otherwise they become one operand where the
//!    operator can. When the operator is not registered or fails, all of them are kept as they are, with what they
//!    change.
//! 6. A put and the single-delete in front of it go together; `single.rs` says when.
//! 7. The table's compaction filter is asked about a put that every snapshot sees and that has no newer version here.
//!    What it removes becomes a tombstone above the bottom.
//! 8. A separated value is read only to fold operands into it and to ask the filter; else its entry is kept or dropped
//!    as any put.
//! 9. The stream may have a version twice, in different trees: a compaction or a merge into a B-tree that was given up
//!    has left slices of its result while its inputs, or the log, still hold the same versions. It is kept once. It may
//!    also be in a tree outside of the stream (`below`).
//! 10. A range tombstone is a tombstone of every key that it covers, between the versions before and after it. Nothing
//!     that lies behind it is changed by operands, here or below.
//! 11. Entries that nothing of this can drop or change may pass many at once: puts with seqnum zero, each of which is
//!     the only version of its key, where there is no filter, no range tombstone and no date.

mod context;
mod covering;
mod filtering;
mod operand_chain;
mod other_trees;
mod pending_single_delete;
mod rule;
mod single;
#[cfg(test)]
mod tests;

pub use other_trees::OtherTrees;
pub use rule::GcRule;
