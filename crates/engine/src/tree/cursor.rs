//! The cursor that every tree offers: a fallible walk over its entries in both directions.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::checksum::hash_prefix;
use crate::base::{Entry, Kind, Result, SeqNum, Value};
use crate::block::Block;

use super::cost::Costs;
use super::place::{Near, Place};
use super::prefix::Prefix;

/// A position in an ordered set of entries (user key ascending, then seqnum descending), or nowhere.
///
/// A new cursor stands nowhere. A move past either end leaves it nowhere, from where only the four absolute moves lead
/// back.
///
/// # Errors
/// A move fails when a block cannot be read or is corrupt. The cursor then stands nowhere, and every later call of any
/// move fails too (it is fused): what it would show is not to be trusted.
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
    /// Goes a step towards where [`Cursor::seek_ge`] of the same key, the next move, will arrive, and asks for the
    /// memory that the step after it looks at; says whether there is one. A merge lets all its trees go a step before
    /// any goes the next, and so waits for all of them at once. What fails here fails in the seek.
    fn approach_ge(&mut self, _key: &[u8]) -> bool {
        false
    }
    /// As [`Cursor::seek_ge`], but may only come near the entry: then [`Cursor::near`] says how its key begins, and
    /// nothing else is to be asked before [`Cursor::arrive`]. So a merge does not look at entries that it never comes
    /// to.
    ///
    /// # Errors
    /// See the trait.
    fn near_ge(&mut self, key: &[u8]) -> Result<()> {
        self.seek_ge(key)
    }
    /// How the key begins that [`Cursor::near_ge`] came near to; `None` when it arrived.
    fn near(&self) -> Option<Near<'_>> {
        None
    }
    /// Stands on the entry that [`Cursor::near_ge`] came near to, if it did.
    ///
    /// # Errors
    /// See the trait.
    fn arrive(&mut self) -> Result<()> {
        Ok(())
    }
    /// Moves to the last entry whose user key is below `key` (its oldest version).
    ///
    /// # Errors
    /// See the trait.
    fn seek_lt(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the entry after this one. Nowhere stays nowhere.
    ///
    /// # Errors
    /// See the trait.
    fn next(&mut self) -> Result<()>;
    /// Moves to the first entry of the next key, and says over how many more versions of this one. If over any, `key`
    /// becomes this one; else it becomes this one or stays. Nowhere stays nowhere.
    ///
    /// # Errors
    /// See the trait.
    #[inline]
    fn next_key(&mut self, key: &mut Vec<u8>) -> Result<u64> {
        if self.next_key_here() { Ok(0) } else { leave_key(self, key) }
    }
    /// As [`Cursor::next_key`] where that is cheap: the next entry is of another key, and lies beside this one. False,
    /// and stays, where it does not, or where that is not known.
    fn next_key_here(&mut self) -> bool {
        false
    }
    /// Whether the entry before this one is known to be of another key. Only a walk backward asks.
    fn begins_key(&self) -> bool {
        false
    }
    /// The leaf whose first entry the cursor stands on, if it stands on the first of one. Only cursors of merges say
    /// so.
    fn leaf(&self) -> Option<Leaf<'_>> {
        None
    }
    /// Moves over the rest of the leaf in which the cursor stands. Only after [`Cursor::leaf`] has given it.
    ///
    /// # Errors
    /// See the trait.
    fn leave_leaf(&mut self) -> Result<()> {
        unreachable!("no leaf was given")
    }
    /// Moves to the entry before this one. Nowhere stays nowhere.
    ///
    /// # Errors
    /// See the trait.
    fn prev(&mut self) -> Result<()>;
    /// From now on entries outside of the limits need not be shown: where one would be, the cursor may stand nowhere
    /// instead, and read nothing.
    fn limit(&mut self, _limits: &Arc<Limits>) {}
    /// Blocks that the cursor has looked at so far, filters that it asked for a prefix, and those of them that kept it
    /// out.
    fn costs(&self) -> Costs {
        Costs::default()
    }
    /// Whether the entry here is likely to be read soon, since its block was in the cache. Only cursors of merges say
    /// so.
    fn is_cached(&self) -> bool {
        false
    }
    /// As [`Cursor::seek_ge`], from an entry below `key`; but where trees lie side by side not further than into the
    /// next.
    ///
    /// # Errors
    /// See the trait.
    fn leap_ge(&mut self, key: &[u8]) -> Result<()> {
        self.seek_ge(key)
    }
    /// As [`Cursor::seek_lt`], from an entry not below `key`; but where trees lie side by side not further than into
    /// the one before.
    ///
    /// # Errors
    /// See the trait.
    fn leap_lt(&mut self, key: &[u8]) -> Result<()> {
        self.seek_lt(key)
    }
    /// Exchanges where it stands in a leaf, if in one, for `place`; it is nowhere until it gets back what it gave,
    /// which may have been moved within the leaf. So a merge walks in a leaf itself.
    fn exchange(&mut self, _place: &mut Place) {}
    /// Between what seqnums the entries of the tree are in which the cursor stands, of several that lie side by side.
    fn ages(&self) -> Ages {
        Ages::UNKNOWN
    }
    /// Where in its tree of runs the entry lies. Only cursors over such trees, and merges of several, say so.
    fn position(&self) -> Option<Position> {
        None
    }
    /// The entry here, if the cursor stands on one.
    fn entry(&self) -> Option<Entry<'_>>;
    /// The key of the entry here.
    fn key(&self) -> Option<&[u8]> {
        self.entry().map(|entry| entry.key)
    }
    /// The value of the entry here, kept alive without a copy where the tree can. `None` when nowhere.
    fn value(&self) -> Option<Value>;
}

/// After so many versions of one key a seek to the next key is cheaper than further steps.
const STEPS_MAX: u64 = 16;

/// [`Cursor::next_key`] by comparing keys.
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
pub struct Ages {
    /// They count as having at least this one: the tree is clean up to it (see [`super::erasure`]).
    pub least: SeqNum,
    /// None has a larger one.
    pub most: SeqNum,
}

impl Ages {
    /// Those of a tree of which nothing is known.
    pub const UNKNOWN: Self = Self { least: SeqNum::ZERO, most: SeqNum::MAX };
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
    pub fn between((start, end): (Bound<Vec<u8>>, Bound<Vec<u8>>), rule: Option<Prefix>) -> Self {
        let low = match start {
            Bound::Included(key) => key,
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => Vec::new(),
        };
        let high = match end {
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(key),
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
