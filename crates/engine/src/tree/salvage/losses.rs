//! What damage took from a tree: the keys that it may have held, and where the damage is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::Error;

/// Keys that something unreadable may have held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

/// The losses of one tree, which its cursor notes while others hold it.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    pub(super) lost: Arc<Mutex<Vec<LostRange>>>,
    pub(super) harmless: Arc<Mutex<Vec<LostRange>>>,
}

impl Losses {
    /// Notes a loss. One that `follows` another of the same file, with nothing read in between, makes that longer.
    pub(super) fn add(&self, lost: LostRange, follows: bool) {
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
