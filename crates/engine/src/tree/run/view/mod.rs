//! A sorted view of several trees of runs: the order of all their entries. A walk over all of them searches once, and
//! reads only the entries that it shows, whichever tree they are in.
//!
//! Source: Zhong, Chen, Wu and Jiang: "REMIX: Efficient Range Query for LSM-trees", FAST 2021. Theirs is stored, of all
//! trees, and compares keys by looking at entries; this one is in memory, of the small trees over a large one, and has
//! the heads of keys, so that a merge with the large tree looks at those entries only that come first.
//!
//! # Layout
//! The top leads to *parts* and a part to *groups*, by separators, as the index of a run leads to its leaves. A group
//! is 320 bytes long:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 2 | number of entries, 1 to 24 |
//! | 2 | 2 | `p`, the length of a prefix that all keys share |
//! | 4 | 4 | where the prefix begins behind the groups of the part, if it does not fit here |
//! | 8 | 24 | the prefix, if `p` is at most 24 |
//! | 32 | 4 n | heads: the next four bytes of each key as a big-endian number, padded with zeros |
//! | 128 | 8 n | where each entry lies: tree, run, part of its index, leaf, place in that |
//!
//! A search looks at two cache lines of it. All numbers are little-endian; nothing of this is ever stored.
//!
//! # Invariants
//! 1. The entries are those of the trees; keys ascend, and for one key the entries of newer trees come first, each in
//!    the order of its tree.
//! 2. The trees never change.

mod builder;
mod cursor;
mod layout;
mod reader;
mod run_cursors;
#[cfg(test)]
mod tests;

pub use builder::ViewBuilder;
pub use cursor::ViewCursor;
pub use layout::ENTRY_BYTES;
pub use reader::{SlotPos, Tree, View, can_be_viewed};
