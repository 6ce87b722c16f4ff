//! The leaves of a damaged tree, as salvage asks for them.

use std::fmt;
use std::path::Path;

use super::losses::LostRange;
use crate::block::{Block, BlockPointer};

/// What comes next in a row of leaves.
#[derive(Debug)]
pub enum Step {
    /// A leaf, and where it is.
    Leaf(BlockPointer, Block),
    /// Damage where leaves should be.
    Lost(LostRange),
    /// Damage that hid no entry: all were found without what is damaged.
    Harmless(LostRange),
}

/// The leaves of a tree in key order, as far as they can be found.
pub trait Leaves: fmt::Debug + Send {
    /// The next step; `None` at the end.
    fn step(&mut self) -> Option<Step>;
    /// The file that they are in.
    fn path(&self) -> &Path;
}
