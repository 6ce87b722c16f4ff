//! Reading trees that are damaged: what can be read is shown, and of what cannot be it is told which keys it may have
//! held.
//!
//! A tree is a row of leaves here ([`Leaves`]): those of a run are found by their frames, without the index, so that
//! damage to anything but a leaf loses nothing; those of a B-tree by its branches, and where a branch is damaged by
//! their frames. [`SalvageCursor`] walks over the entries of either, so that the same merge and the same rule of what
//! is kept serve as in a compaction.
//!
//! # Invariants
//! 1. An entry of the tree is shown, or its key lies in a range that is told. (The range may be larger; it never is
//!    smaller.)
//! 2. Nothing is shown that the tree does not hold: a block counts only with its checksum, at its place in its file.
//! 3. Files are only read.

mod cursor;
mod leaves;
mod losses;
mod scan;

pub use cursor::{Piece, SalvageCursor};
pub use leaves::{Leaves, Step};
pub use losses::{Losses, LostRange};
pub use scan::{FrameScan, RunLeaves};
