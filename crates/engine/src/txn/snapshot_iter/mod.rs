//! The iterator of a snapshot: for each key in a range its newest visible version, if that is a value, over a cursor
//! that shows all versions.
//!
//! # Invariants
//! 1. Of the entries of one key, the first in the cursor's order with a seqnum up to the snapshot's decides: a put is
//!    shown, a tombstone is not, a merge operand is folded with what follows it, down to the first that is none. Zero
//!    is up to every snapshot. A value in a value file is not read before [`SnapshotIter::fetch`].
//! 2. At most one entry beyond the range is looked at, in either direction.

mod backward;
mod iter;

pub use iter::{ReadContext, SnapshotIter};
