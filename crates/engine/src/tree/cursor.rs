//! The cursor traits: a fallible walk over the entries of a tree in both directions, and what merges need beyond it.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::checksum::hash_prefix;
use crate::base::{Entry, Kind, Result, SeqNum, Value};
use crate::block::Block;

use super::cost::Costs;
use super::leaf_cursor::{KeyBound, LeafCursor};
use super::prefix::Prefix;

/// A position in an ordered set of entries (user key ascending, then seqnum descending), or nowhere.
///
/// A new cursor is positioned nowhere. A move past either end leaves it nowhere, from where only the four absolute
/// moves (`first`, `last`, `seek_ge`, `seek_lt`) lead back.
///
/// # Errors
/// A move fails when a block cannot be read or is corrupt. The cursor is then positioned nowhere, and every later call
/// of any move fails too: what it would show is not to be trusted.
pub trait Cursor: Send {
    /// Moves to the first entry.
    ///
    /// # Errors
    /// See the trait.
    fn first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    ///
    /// # Errors
    /// See the trait.
    fn last(&mut self) -> Result<()>;
    /// Moves to the first entry whose user key is not below `key` (its newest version).
    ///
    /// # Errors
    /// See the trait.
    fn seek_ge(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the last entry whose user key is below `key` (its oldest version).
    ///
    /// # Errors
    /// See the trait.
    fn seek_lt(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the next entry. Nowhere stays nowhere.
    ///
    /// # Errors
    /// See the trait.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry. Nowhere stays nowhere.
    ///
    /// # Errors
    /// See the trait.
    fn prev(&mut self) -> Result<()>;
    /// The entry at the cursor, or `None` when it is positioned nowhere.
    fn entry(&self) -> Option<Entry<'_>>;
    /// The key of that entry.
    fn key(&self) -> Option<&[u8]> {
        self.entry().map(|entry| entry.key)
    }
    /// The value of that entry, kept alive without a copy where the tree can do so.
    fn value(&self) -> Option<Value>;
    /// Declares that entries outside the limits are not needed: where one would be, the cursor may be positioned
    /// nowhere instead, and read nothing.
    fn limit(&mut self, _limits: &Arc<Limits>) {}
    /// The cost of all moves so far: blocks searched, filters probed for a prefix, and probes that excluded the tree.
    fn costs(&self) -> Costs {
        Costs::default()
    }
}

/// Moves by key instead of by entry, for readers that want one version of each key.
pub trait KeyCursor: Cursor {
    /// Moves to the first entry of the next key and returns the count of further versions of this key that it passed.
    /// If the count is above zero, `key` becomes this key; else it becomes this key or stays. Nowhere stays nowhere.
    ///
    /// # Errors
    /// As a move of [`Cursor`].
    #[inline]
    fn next_key(&mut self, key: &mut Vec<u8>) -> Result<u64> {
        if self.next_key_in_leaf() { Ok(0) } else { leave_key(self, key) }
    }
    /// The cheap case of [`KeyCursor::next_key`]: moves to the next entry if it lies in the same leaf and has another
    /// key. Otherwise, or when that is not known, returns false and stays.
    fn next_key_in_leaf(&mut self) -> bool {
        false
    }
    /// Makes the move of [`KeyCursor::next_key_in_leaf`] again and again, as long as it can be made and `go_on` says so
    /// of the entry that it led to. Whether `go_on` ended it, at the entry that it saw last.
    #[inline]
    fn next_keys_in_leaf(&mut self, mut go_on: impl FnMut(Entry<'_>) -> bool) -> bool
    where
        Self: Sized,
    {
        while self.next_key_in_leaf() {
            if !self.entry().is_some_and(&mut go_on) {
                return true;
            }
        }
        false
    }
    /// Whether the previous entry is known to have another key. Only a backward walk needs this.
    fn is_first_version(&self) -> bool {
        false
    }
}

/// A seek in steps that overlap the cache misses of several trees, and that stops short of reading the entry.
///
/// A merge calls [`LazySeek::prefetch_seek_ge`] on all its sources in turn until none has a further step, so that the
/// memory accesses of all of them are in flight at once (asynchronous memory access chaining, Kocberber et al. 2015).
/// Then it calls [`LazySeek::lazy_seek_ge`] on each, orders the sources by [`LazySeek::lazy_key`], and calls
/// [`LazySeek::resolve`] only on those that come first.
pub trait LazySeek: Cursor {
    /// Advances one step of the seek to `key` and prefetches the memory that the next step reads; returns whether there
    /// is a next step. The next move must be [`Cursor::seek_ge`] or [`LazySeek::lazy_seek_ge`] of the same key. An
    /// error of a step is reported by that move.
    fn prefetch_seek_ge(&mut self, _key: &[u8]) -> bool {
        false
    }
    /// As [`Cursor::seek_ge`], but may leave the entry unread. [`LazySeek::lazy_key`] then gives a lower bound of its
    /// key, and no other method may be called before [`LazySeek::resolve`].
    ///
    /// # Errors
    /// As a move of [`Cursor`].
    fn lazy_seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.seek_ge(key)
    }
    /// A lower bound of the key of the unread entry; `None` when the entry was read.
    fn lazy_key(&self) -> Option<KeyBound<'_>> {
        None
    }
    /// Reads the entry that [`LazySeek::lazy_seek_ge`] left unread, if any.
    ///
    /// # Errors
    /// As a move of [`Cursor`].
    fn resolve(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A source of a merge: tells which leaf and tree the current entry comes from, and lends its position in a leaf.
pub trait MergeSource: KeyCursor + LazySeek {
    /// The leaf that begins with the current entry, if a merge may copy it as a whole.
    fn leaf(&self) -> Option<Leaf<'_>> {
        None
    }
    /// Moves past the rest of the leaf that [`MergeSource::leaf`] returned; a source that has no such leaves moves to
    /// the next entry.
    ///
    /// # Errors
    /// As a move of [`Cursor`].
    fn skip_leaf(&mut self) -> Result<()> {
        self.next()
    }
    /// Swaps the position in the current leaf, if there is one, with `place`. The source is positioned nowhere until
    /// the merge swaps it back, possibly moved within the leaf: a merge of a single source walks in the leaf itself.
    fn swap_leaf_cursor(&mut self, _place: &mut LeafCursor) {}
    /// The range of seqnums in the tree of the current entry.
    fn seqnum_bounds(&self) -> SeqnumBounds {
        SeqnumBounds::UNKNOWN
    }
    /// The position of the current entry in a tree of runs, or `None` for other trees.
    fn position(&self) -> Option<Position> {
        None
    }
    /// Whether the block of the current entry was in the cache, so that the entry is likely to be read again soon.
    fn is_cached(&self) -> bool {
        false
    }
    /// As [`Cursor::seek_ge`] from an entry below `key`; a source that concatenates runs may stop at the first entry of
    /// the next run.
    ///
    /// # Errors
    /// As a move of [`Cursor`].
    fn seek_ge_nearby(&mut self, key: &[u8]) -> Result<()> {
        self.seek_ge(key)
    }
    /// As [`Cursor::seek_lt`] from an entry not below `key`; a source that concatenates runs may stop at the last entry
    /// of the previous run.
    ///
    /// # Errors
    /// As a move of [`Cursor`].
    fn seek_lt_nearby(&mut self, key: &[u8]) -> Result<()> {
        self.seek_lt(key)
    }
}

/// Versions of one key after which a seek to the next key is cheaper than further steps.
const STEPS_MAX: u64 = 16;

/// [`KeyCursor::next_key`] by comparing keys.
pub(super) fn leave_key(cursor: &mut (impl Cursor + ?Sized), key: &mut Vec<u8>) -> Result<u64> {
    key.clear();
    key.extend_from_slice(cursor.entry().map_or(&[], |entry| entry.key));
    cursor.next()?;
    let mut older = 0;
    while cursor.entry().is_some_and(|entry| entry.key == *key) {
        older += 1;
        if older == STEPS_MAX {
            key.push(0);
            let moved = cursor.seek_ge(key);
            key.pop();
            moved?;
        } else {
            cursor.next()?;
        }
    }
    Ok(older)
}

/// A leaf as a merge finds it.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    /// Its entries, as they are stored.
    pub block: &'a Block,
    /// The bytes in its file, where they are at hand.
    pub frame: Option<&'a [u8]>,
    /// It was in the cache.
    pub is_cached: bool,
}

impl Leaf<'_> {
    /// Its first key and its last.
    #[must_use]
    pub fn ends(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut first, mut last) = (Vec::new(), Vec::new());
        self.block.key_into(0, &mut first);
        self.block.key_into(self.block.count() - 1, &mut last);
        (first, last)
    }
}

/// Where in a tree of runs an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of the run among those that lie side by side.
    pub run: usize,
    /// The number of the part of its index.
    pub part: usize,
    /// The number of the leaf in that part.
    pub leaf: usize,
    /// The number of the entry in that leaf.
    pub at: usize,
}

/// Between what seqnums the entries of a tree are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqnumBounds {
    /// They count as having at least this one: the tree is clean up to it (see [`super::range_tombstone`]).
    pub smallest: SeqNum,
    /// None has a larger one.
    pub largest: SeqNum,
}

impl SeqnumBounds {
    /// Those of a tree of which nothing is known.
    pub const UNKNOWN: Self = Self { smallest: SeqNum::ZERO, largest: SeqNum::MAX };
}

/// The keys that a walk is about: from `low` on, up to `high` if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The first key, if it were there.
    pub low: Vec<u8>,
    /// The first key that is not wanted any more.
    pub high: Option<Vec<u8>>,
    /// The rule by which all keys between them have one prefix, and its hash.
    pub prefix: Option<(Prefix, u64)>,
}

impl Limits {
    /// A key at an end of the range: the lower one, unless there is none.
    #[must_use]
    pub fn any_key(&self) -> &[u8] {
        if self.low.is_empty() { self.high.as_deref().unwrap_or_default() } else { &self.low }
    }

    /// The limits of a walk in a table whose filters know the prefixes of this rule, if any.
    #[must_use]
    pub fn new(low: Vec<u8>, high: Option<Vec<u8>>, rule: Option<Prefix>) -> Self {
        let shared = |rule: Prefix| Some((rule, hash_prefix(rule.shared(&low, high.as_deref())?)));
        Self { prefix: rule.and_then(shared), low, high }
    }

    /// The limits of a walk between two bounds.
    #[must_use]
    pub fn between((start, end): (Bound<&[u8]>, Bound<&[u8]>), rule: Option<Prefix>) -> Self {
        let low = match start {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => after(key.to_vec()),
            Bound::Unbounded => Vec::new(),
        };
        let high = match end {
            Bound::Included(key) => Some(after(key.to_vec())),
            Bound::Excluded(key) => Some(key.to_vec()),
            Bound::Unbounded => None,
        };
        Self::new(low, high, rule)
    }

    /// Whether no key can lie within the limits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end_before(&self.low)
    }

    /// Whether `key` lies within the limits.
    #[must_use]
    pub fn contain(&self, key: &[u8]) -> bool {
        *self.low <= *key && !self.end_before(key)
    }

    /// Whether `key`, and so all after it, lie behind the limits.
    #[inline]
    #[must_use]
    pub fn end_before(&self, key: &[u8]) -> bool {
        self.high.as_deref().is_some_and(|high| key >= high)
    }
}

/// The smallest key above `key`.
pub(crate) fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// What a point lookup found: the newest version of the key that the snapshot sees.
#[derive(Clone, Debug)]
pub struct Found {
    /// When the version became visible (zero: before every live snapshot).
    pub seqnum: SeqNum,
    /// Whether the key has a value there, or an operand that older versions are needed for.
    pub kind: Kind,
    /// The value or operand; empty for tombstones.
    pub value: Value,
}
