//! RangeTombstones: ranges of keys that were deleted at once, and which of them cover a key.
//!
//! A range tombstone is no entry of a tree. It is in the redo log, and from its commit on in what readers of the table
//! see; it hides every entry in its range with a smaller seqnum, from snapshots that see it. A flush or compaction
//! drops what a range tombstone hides from all snapshots; what it wrote is then *clean* up to that range tombstone,
//! which need not be looked at again there.
//!
//! # Invariants
//! 1. A tree that is clean up to a seqnum holds no entry that a range tombstone up to there hides. Its entries count as
//!    having at least that seqnum: so the seqnum zero, which means "seen by all", is never taken for one before an
//!    range tombstone.
//! 2. Every live snapshot sees all that any tree is clean up to.

mod builder;
mod cursor;
mod keys;
mod layers;
mod masks;
mod range;
mod set;
#[cfg(test)]
pub(super) mod tests;

pub use builder::TreeExtent;
pub use cursor::RangeDelCursor;
pub use layers::TombstoneLayers;
pub use masks::Masks;
pub use range::{RangeEnds, RangeTombstone};
pub use set::RangeTombstones;
