//! The merge of several cursors into one, which keeps them in the order of their entries.
//!
//! Sources come newest tree first. The merge shows every entry of every source: keys ascending; for one key, the
//! entries of the first source that has it, then those of the second, and so on; within a source in its own order. So
//! rank decides between versions of a key, not the seqnum, which a compaction may have set to zero.
//!
//! # Invariants
//! 1. Going forward, each source but the winner is at its first entry after the winner's, in the order above, or past
//!    its end; going backward, at its last entry before it, or before its start. So a change of direction moves each of
//!    them past the winner's entry, which is one step, or more if a live memtable grew in between.
//! 2. The source order (`order`) has all sources in the order in which their entries come in the direction of travel,
//!    or may come at the earliest (4), where there are several; `winner` is the first.
//! 3. While `here` is somewhere, it is the position of the winner, or one that the merge came to since; the winner
//!    itself is then positioned nowhere.
//! 4. After a seek, a source may have left its entry unread
//!    ([`LazySeek::lazy_seek_ge`](super::cursor::LazySeek::lazy_seek_ge)). When it comes first it reads the entry, and
//!    is put in its place again: a source that never comes first reads none. Going backward, no source is lazy.

mod cursor;
mod order;

pub use cursor::MergeCursor;
