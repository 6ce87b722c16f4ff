//! The memtable: the newest entries of a table, in memory, in order, fed and read by many threads at once.
//!
//! Records lie in an arena in order of arrival; a B-link tree of their places keeps the order. Nothing is removed or
//! changed: a memtable grows until it is flushed, and its memory goes back with the last handle, cursor and pinned
//! value: to a pool for the memtables to come (`pool`), or to the system.
//!
//! A large batch becomes a memtable as it is, with an index over it (`batch`): nothing is copied.
//!
//! # Concurrency
//! Writers hold one node of the tree at a time, for as long as it takes to put one slot into it. Readers hold nothing
//! and block no other thread.

mod arena;
mod batch;
mod chunk;
mod cursor;
mod node;
mod pin;
mod pool;
mod record;
mod tree;

#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use batch::{BatchSorter, EntryOffset, SortedBatch};
pub use pool::ChunkPool;

use crate::base::debug::debug_by;
use crate::base::num::u64_of;
use crate::base::{Entry, SeqNum};
use crate::tree::cursor::{Found, MergeSource};
use crate::tree::multi_get::{GetRequest, GetResults};
use batch::{BatchCursor, Ordered};
use cursor::TreeCursor;
use tree::Tree;

/// A handle of a memtable; clones are the same memtable.
#[derive(Clone)]
pub struct Memtable(Form);

#[derive(Clone)]
enum Form {
    /// It takes entries.
    Tree(Arc<Tree>),
    /// It is a batch.
    Batch(Arc<Ordered>),
}

impl Memtable {
    /// An empty memtable.
    #[must_use]
    pub fn new() -> Self {
        Self::in_pool(&Arc::default())
    }

    /// An empty memtable that takes its memory from a pool, if that has some, and gives it back there.
    #[must_use]
    pub fn in_pool(pool: &Arc<ChunkPool>) -> Self {
        Self(Form::Tree(Arc::new(Tree::new(Arc::clone(pool)))))
    }

    /// A memtable of the entries of a batch, whose first change has seqnum `first`. It takes no others.
    #[must_use]
    pub fn of_batch(batch: SortedBatch, first: SeqNum) -> Self {
        Self(Form::Batch(Arc::new(Ordered::new(batch, first))))
    }

    /// Adds a version of a key. Any number of threads may do so at once; no two entries may have the same key and
    /// seqnum.
    ///
    /// # Panics
    /// When the key is empty or longer than 64 KiB, the value longer than 4 GiB, or the seqnum above [`SeqNum::MAX`];
    /// when the memtable is that of a batch.
    pub fn insert(&self, entry: &Entry<'_>) {
        self.tree().insert(entry);
    }

    /// [`Self::insert`] of entries into memtables, faster than one after the other.
    ///
    /// # Panics
    /// As [`Self::insert`].
    pub fn insert_many<'e>(entries: impl Iterator<Item = (&'e Self, Entry<'e>)>) {
        let mut entries = entries.map(|(memtable, entry)| (memtable.tree(), entry));
        let Some(first) = entries.next() else { return };
        // Most commits have one.
        let Some(second) = entries.next() else { return first.0.insert(&first.1) };
        let mut together = [first; tree::INSERT_GROUP];
        let mut more = [first, second].into_iter().chain(entries).peekable();
        while more.peek().is_some() {
            let count = together.iter_mut().zip(&mut more).map(|(place, entry)| *place = entry).count();
            Tree::insert_group(&together[..count]);
        }
    }

    #[inline]
    fn tree(&self) -> &Tree {
        match &self.0 {
            Form::Tree(tree) => tree,
            Form::Batch(_) => unreachable!("a batch takes no other entries"),
        }
    }

    /// The newest version of `key` that a snapshot at `seqnum` sees. The value is a view that keeps the memtable's
    /// memory alive.
    #[must_use]
    pub fn get(&self, key: &[u8], snapshot: SeqNum) -> Option<Found> {
        match &self.0 {
            Form::Tree(tree) => tree.find(key, snapshot).map(|record| pin::found(tree, record)),
            Form::Batch(batch) => batch.find(key, snapshot),
        }
    }

    /// [`Self::get`] of several keys, faster than one after the other.
    #[must_use]
    pub fn get_many(&self, requests: &[GetRequest<'_>], snapshot: SeqNum) -> GetResults {
        let keys = requests.iter().map(|request| request.key);
        match &self.0 {
            Form::Tree(tree) => {
                let found = |record| pin::found(tree, record);
                tree.find_many(keys, snapshot).map(|record| record.map(found)).collect()
            }
            Form::Batch(batch) => keys.map(|key| batch.find(key, snapshot)).collect(),
        }
    }

    /// Whether there is an entry with a key from `low` to `high`.
    #[must_use]
    pub fn holds(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        let mut cursor = self.cursor();
        cursor.seek_ge(low).is_ok() && cursor.key().is_some_and(|key| high.is_none_or(|high| key <= high))
    }

    /// A cursor positioned nowhere.
    #[must_use]
    pub fn cursor(&self) -> Box<dyn MergeSource> {
        self.merge_source(false)
    }

    /// As [`Self::cursor`], for a merge: what it writes of the memtable is likely to be read soon, or not.
    #[must_use]
    pub fn merge_source(&self, is_warm: bool) -> Box<dyn MergeSource> {
        match &self.0 {
            Form::Tree(tree) => Box::new(TreeCursor::new(Arc::clone(tree), is_warm)),
            Form::Batch(batch) => Box::new(BatchCursor::new(Arc::clone(batch), is_warm)),
        }
    }

    /// The memory that the memtable takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Form::Tree(tree) => tree.arena.bytes(),
            Form::Batch(batch) => batch.bytes(),
        }
    }

    /// Whether [`Self::prepare_memory`] has something to do.
    #[must_use]
    pub fn wants_memory(&self) -> bool {
        matches!(&self.0, Form::Tree(tree) if tree.arena.wants_spare())
    }

    /// Prepares memory for the next inserts, if the memtable is large: else an insert would wait for the system to give
    /// it. False when enough is prepared. To be called by one thread.
    pub fn prepare_memory(&self) -> bool {
        matches!(&self.0, Form::Tree(tree) if tree.arena.prepare_spare())
    }

    /// Gives back the memory that [`Self::prepare_memory`] prepared: nothing is inserted any more.
    pub fn release_memory(&self) {
        if let Form::Tree(tree) = &self.0 {
            tree.arena.release_spares();
        }
    }

    /// How many entries were inserted, or are being inserted right now. Walks the chunks of the memtable: not for every
    /// insert.
    #[must_use]
    pub fn entries(&self) -> u64 {
        match &self.0 {
            Form::Tree(tree) => tree.arena.records(),
            Form::Batch(batch) => u64_of(batch.entries()),
        }
    }

    /// About how many entries have keys from `low` on, up to `high`.
    #[must_use]
    pub fn entries_between(&self, low: &[u8], high: Option<&[u8]>) -> u64 {
        match &self.0 {
            Form::Tree(tree) => tree.count_between(low, high),
            Form::Batch(batch) => batch.count_between(low, high),
        }
    }

    /// Whether nothing was inserted yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Form::Tree(tree) => tree.is_empty(),
            Form::Batch(batch) => batch.entries() == 0,
        }
    }
}

impl Default for Memtable {
    fn default() -> Self {
        Self::new()
    }
}

debug_by!(Memtable, self => entries: self.entries(), bytes: self.bytes());
