//! The memtable: the newest entries of a table, in memory, in order, fed and read by many threads at once.
//!
//! Records lie in an arena in order of arrival; a B-link tree of their places keeps the order. Nothing is removed or changed: a
//! memtable grows until it is flushed, and its memory goes back to the system with the last handle, cursor and pinned value.
//!
//! # Concurrency
//! Writers hold one node of the tree at a time, for as long as it takes to put one slot into it. Readers hold nothing and
//! make nobody wait.

mod arena;
mod cursor;
mod node;
mod pin;
mod record;
mod tree;

#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use cursor::MemtableCursor;

use crate::base::{Entry, SeqNum};
use crate::tree::lookup::{Answers, Ask};
use crate::tree::{Cursor, Found};
use tree::Tree;

/// A handle of a memtable; clones are the same memtable.
#[derive(Clone)]
pub struct Memtable(Arc<Tree>);

impl Memtable {
    /// An empty memtable.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Tree::new()))
    }

    /// Adds a version of a key. Any number of threads may do so at once; no two entries may have the same key and seqnum.
    ///
    /// # Panics
    /// When the key is empty or longer than 64 KiB, the value longer than 4 GiB, or the seqnum above [`SeqNum::MAX`].
    pub fn insert(&self, entry: &Entry<'_>) {
        self.0.insert(entry);
    }

    /// [`Self::insert`] of entries into memtables, faster than one after the other.
    ///
    /// # Panics
    /// As [`Self::insert`].
    pub fn insert_many<'e>(entries: impl Iterator<Item = (&'e Self, Entry<'e>)>) {
        let mut entries = entries.map(|(memtable, entry)| (&*memtable.0, entry));
        let Some(first) = entries.next() else { return };
        // Most commits have one.
        let Some(second) = entries.next() else { return first.0.insert(&first.1) };
        let mut together = [first; tree::TOGETHER];
        let mut more = [first, second].into_iter().chain(entries).peekable();
        while more.peek().is_some() {
            let count = together.iter_mut().zip(&mut more).map(|(place, entry)| *place = entry).count();
            Tree::insert_together(&together[..count]);
        }
    }

    /// The newest version of `key` that a snapshot at `seqnum` sees. The value is a view that keeps the memtable's memory alive.
    #[must_use]
    pub fn get(&self, key: &[u8], snapshot: SeqNum) -> Option<Found> {
        let record = self.0.find(key, snapshot)?;
        Some(Found { seqnum: record.seqnum(), kind: record.kind(), value: pin::pin(&self.0, record) })
    }

    /// [`Self::get`] of several keys, faster than one after the other.
    #[must_use]
    pub fn get_many(&self, asks: &[Ask<'_>], snapshot: SeqNum) -> Answers {
        let found = |record: record::Record<'_>| Found {
            seqnum: record.seqnum(),
            kind: record.kind(),
            value: pin::pin(&self.0, record),
        };
        self.0.find_many(asks.iter().map(|ask| ask.key), snapshot).map(|record| record.map(found)).collect()
    }

    /// The seqnum of the newest version of `key`, whoever may see it.
    #[must_use]
    pub fn newest(&self, key: &[u8]) -> Option<SeqNum> {
        self.0.find(key, SeqNum::MAX).map(|record| record.seqnum())
    }

    /// Whether there is an entry with a key from `low` to `high`.
    #[must_use]
    pub fn holds(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        let mut cursor = self.cursor();
        cursor.seek_ge(low).is_ok() && cursor.key().is_some_and(|key| high.is_none_or(|high| key <= high))
    }

    /// A cursor that stands nowhere yet.
    #[must_use]
    pub fn cursor(&self) -> MemtableCursor {
        MemtableCursor::new(Arc::clone(&self.0))
    }

    /// The memory that the memtable takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.arena().bytes()
    }

    /// Whether [`Self::prepare_memory`] has something to do.
    #[must_use]
    pub fn wants_memory(&self) -> bool {
        self.0.arena().wants_spare()
    }

    /// Has some more memory at hand for what is inserted next, if the memtable is large: who inserts it would wait for the system to give it.
    /// False when there is as much as is wanted. For one thread.
    pub fn prepare_memory(&self) -> bool {
        self.0.arena().prepare_spare()
    }

    /// Gives back what [`Self::prepare_memory`] has at hand: nothing is inserted any more.
    pub fn release_memory(&self) {
        self.0.arena().release_spares();
    }

    /// How many entries were inserted, or are being inserted right now. Walks the chunks of the memtable: not for every insert.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.0.arena().records()
    }

    /// Whether nothing was inserted yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Memtable {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable").field("entries", &self.entries()).field("bytes", &self.bytes()).finish()
    }
}
