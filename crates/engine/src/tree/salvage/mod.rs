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
mod scan;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::Error;
use crate::block::{Block, BlockPointer};

pub use cursor::{Piece, SalvageCursor};
pub use scan::{FrameScan, RunLeaves};

/// Keys that something unreadable may have held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The first of the keys; empty when they begin with the first of all.
    pub from: Vec<u8>,
    /// The last of the keys; `None` when they go on to the last of all.
    pub to: Option<Vec<u8>>,
    /// The damaged file.
    pub file: PathBuf,
    /// Where in it the damage begins, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub damage: String,
}

impl LostRange {
    /// A range of keys, and what is wrong at `offset` of `file` or where the error says.
    pub(crate) fn new(from: &[u8], to: Option<&[u8]>, (file, offset): (&Path, u64), error: &Error) -> Self {
        let (file, offset) = error.place().unwrap_or((file, offset));
        let (from, to) = (from.to_vec(), to.map(<[u8]>::to_vec));
        Self { from, to, file: file.to_owned(), offset, damage: error.to_string() }
    }

    /// Whether `key` is one of the keys.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.from <= *key && self.to.as_deref().is_none_or(|to| key <= to)
    }
}

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

/// The losses of one tree, which its cursor notes while others hold it.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    lost: Arc<Mutex<Vec<LostRange>>>,
    harmless: Arc<Mutex<Vec<LostRange>>>,
}

impl Losses {
    /// Notes a loss. One that `follows` another of the same file, with nothing read in between, makes that longer.
    fn add(&self, lost: LostRange, follows: bool) {
        let mut losses = self.lost.lock();
        match losses.last_mut() {
            Some(last) if follows && last.file == lost.file && last.from <= lost.from => {
                let end = last.to.take().zip(lost.to);
                last.to = end.map(|(last, lost)| last.max(lost));
            }
            _ => losses.push(lost),
        }
    }

    /// What was noted so far.
    #[must_use]
    pub fn take(&self) -> Vec<LostRange> {
        std::mem::take(&mut self.lost.lock())
    }

    /// Damage noted so far that hides no entry.
    #[must_use]
    pub fn take_harmless(&self) -> Vec<LostRange> {
        std::mem::take(&mut self.harmless.lock())
    }
}
