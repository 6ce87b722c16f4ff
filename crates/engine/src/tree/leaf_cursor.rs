//! A cursor in a leaf, which decodes the entry at its position once.

use std::cmp::Ordering;

use crate::base::key::head;
use crate::base::prefetch::CACHE_LINE_BYTES;
use crate::base::{Entry, Kind, SeqNum, Value};
use crate::block::{Block, Shape};

/// Capacity of the key's buffer: a key up to 16 bytes shorter needs no second allocation.
const KEY_BYTES: usize = 64;

/// Steps after which a walk is taken for a long one, so that prefetching pays.
const STEPS_MIN: usize = 16;
/// Bytes ahead of a walk that are prefetched. Processors prefetch sequential reads, but not across the ends of pages.
const AHEAD_BYTES: usize = 1024;

/// Bytes after an entry that are prefetched when a seek reads it.
const ARRIVAL_BYTES: usize = 1024;

/// A position on an entry of a leaf, which is decoded once or not yet, or nowhere.
#[derive(Debug)]
pub struct LeafCursor {
    leaf: Option<(Block, Shape)>,
    at: usize,
    /// The entry was not decoded yet.
    is_lazy: bool,
    key: Vec<u8>,
    /// Bytes of the key that are the leaf's prefix.
    prefix_len: usize,
    seqnum: SeqNum,
    kind: Kind,
    value_at: usize,
    value_len: usize,
    /// Steps so far, in this leaf and those before.
    steps: usize,
}

/// What a leaf tells of the key of an entry that was not decoded: how it begins.
#[derive(Clone, Copy, Debug)]
pub struct KeyBound<'a> {
    /// Its first bytes.
    pub prefix: &'a [u8],
    /// The four behind them, as a big-endian number; zeros where there are no more.
    pub next: u32,
}

impl KeyBound<'_> {
    /// The smallest head that the key can have behind its first `skip` bytes, of which the leaf knows all.
    #[inline]
    #[must_use]
    pub fn floor(&self, skip: usize) -> u64 {
        let known = &self.prefix[skip..];
        let next = u64::from(self.next) << u32::BITS;
        head(known) | if known.len() < size_of::<u64>() { next >> (8 * known.len()) } else { 0 }
    }

    /// How the key compares with another one as far as is known; equal where that is not known.
    #[must_use]
    pub fn order(&self, key: &[u8]) -> Ordering {
        match key.strip_prefix(self.prefix) {
            None => self.prefix.cmp(key),
            Some(rest) => u64::from(self.next).cmp(&(head(rest) >> u32::BITS)),
        }
    }
}

impl LeafCursor {
    /// Nowhere.
    #[must_use]
    pub const fn nowhere() -> Self {
        let key = Vec::new();
        Self {
            leaf: None,
            at: 0,
            is_lazy: false,
            key,
            prefix_len: 0,
            seqnum: SeqNum::ZERO,
            kind: Kind::Put,
            value_at: 0,
            value_len: 0,
            steps: 0,
        }
    }

    /// Whether it is on no entry.
    #[inline]
    #[must_use]
    pub const fn is_nowhere(&self) -> bool {
        self.leaf.is_none()
    }

    /// Goes nowhere.
    #[inline]
    pub fn leave(&mut self) {
        (self.leaf, self.is_lazy) = (None, false);
    }

    /// Stands on entry `at` of `leaf`.
    pub fn stand(&mut self, leaf: Block, at: usize) {
        self.set_lazily(leaf, at);
        self.resolve();
    }

    /// Exchanges the leaf where it is, and is on no entry of the other one before [`Self::stand_in`].
    #[inline]
    pub const fn swap_leaf(&mut self, leaf: &mut Option<(Block, Shape)>) {
        std::mem::swap(&mut self.leaf, leaf);
    }

    /// As [`Self::go_to`], the first time in the leaf where it is.
    #[inline]
    pub fn stand_in(&mut self, at: usize) -> bool {
        let is_there = self.leaf.as_ref().is_some_and(|(_, shape)| at < shape.count);
        if is_there {
            (self.at, self.is_lazy) = (at, false);
            self.look();
        }
        is_there
    }

    /// Comes near entry `at` of `leaf`: it is not looked at before [`Self::resolve`], and nothing but
    /// [`Self::lazy_key`] is to be asked until then.
    #[inline]
    pub fn set_lazily(&mut self, leaf: Block, at: usize) {
        let shape = leaf.shape();
        (self.leaf, self.at, self.is_lazy) = (Some((leaf, shape)), at, true);
    }

    /// Reads the entry that was set lazily, if it was.
    #[inline]
    pub fn resolve(&mut self) {
        if std::mem::take(&mut self.is_lazy) {
            self.look();
            self.prefetch_behind();
        }
    }

    /// Looks at an entry, the first one in its leaf.
    #[inline]
    fn look(&mut self) {
        let Some((leaf, _)) = &self.leaf else { return };
        self.key.clear();
        self.key.reserve(KEY_BYTES);
        self.key.extend_from_slice(leaf.prefix());
        self.prefix_len = self.key.len();
        self.stand_at(self.at);
    }

    /// Prefetches the entries behind this one.
    #[inline]
    fn prefetch_behind(&self) {
        if let Some((leaf, _)) = &self.leaf {
            leaf.prefetch_from(self.value_at, ARRIVAL_BYTES);
        }
    }

    /// A lower bound of the key of the entry that was set lazily; `None` when the entry was read, or when nowhere.
    #[inline]
    #[must_use]
    pub fn lazy_key(&self) -> Option<KeyBound<'_>> {
        let (leaf, shape) = self.leaf.as_ref().filter(|_| self.is_lazy)?;
        Some(KeyBound { prefix: leaf.prefix(), next: leaf.head_of(shape, self.at) })
    }

    /// Stands on entry `at` of the leaf where it is.
    #[inline]
    fn stand_at(&mut self, at: usize) {
        let Some((leaf, shape)) = &self.leaf else { return };
        let slot = leaf.slot_of(shape, at);
        self.key.truncate(self.prefix_len);
        leaf.append_suffix(&slot, &mut self.key);
        self.at = at;
        (self.seqnum, self.kind) = (slot.seqnum, slot.kind);
        (self.value_at, self.value_len) = (slot.value_at, slot.value_len);
    }

    /// Counts a step, and in a long walk prefetches the entries some steps ahead.
    #[inline]
    fn step(&mut self, backward: bool) {
        self.steps += 1;
        if self.steps > STEPS_MIN
            && let Some((leaf, _)) = &self.leaf
        {
            let at = if backward { self.value_at.wrapping_sub(AHEAD_BYTES) } else { self.value_at + AHEAD_BYTES };
            leaf.prefetch_from(at, self.value_len.clamp(1, AHEAD_BYTES));
        }
    }

    /// The leaf whose first entry this is, if it is the first of one.
    #[inline]
    #[must_use]
    pub fn leaf_if_first(&self) -> Option<&Block> {
        self.leaf.as_ref().filter(|_| self.at == 0).map(|(leaf, _)| leaf)
    }

    /// Which entry of the leaf it is.
    #[inline]
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Goes to entry `at` of the leaf where it is; false, and nowhere, if it is in none or that has none.
    #[inline]
    pub fn go_to(&mut self, at: usize) -> bool {
        let is_there = self.leaf.as_ref().is_some_and(|(_, shape)| at < shape.count);
        if is_there {
            self.stand_at(at)
        } else {
            self.leave()
        }
        is_there
    }

    /// Goes to the next entry of the leaf; false where there is none.
    #[inline]
    pub fn next_entry(&mut self) -> bool {
        let more = self.leaf.as_ref().is_some_and(|(_, shape)| self.at + 1 < shape.count);
        if more {
            self.stand_at(self.at + 1);
            self.step(false);
        }
        more
    }

    /// Goes to the next entry of the leaf if it is of another key; false, and stays, where there is none or it is of
    /// the same.
    #[inline]
    pub fn next_key(&mut self) -> bool {
        let is_other = |(leaf, shape): &(Block, Shape)| self.at + 1 < shape.count && !leaf.is_same_key(shape, self.at);
        let more = self.leaf.as_ref().is_some_and(is_other);
        if more {
            self.stand_at(self.at + 1);
            self.step(false);
        }
        more
    }

    /// Makes the move of [`Self::next_key`] again and again, as long as it can be made and `go_on` says so of the entry
    /// that it led to. Whether `go_on` ended it, at the entry that it saw last.
    #[inline]
    pub fn next_keys(&mut self, mut go_on: impl FnMut(Entry<'_>) -> bool) -> bool {
        let Some((leaf, shape)) = &self.leaf else { return false };
        while self.at + 1 < shape.count && !leaf.is_same_key(shape, self.at) {
            self.at += 1;
            let (slot, before) = (leaf.slot_of(shape, self.at), self.value_at);
            self.key.truncate(self.prefix_len);
            leaf.append_suffix(&slot, &mut self.key);
            (self.seqnum, self.kind) = (slot.seqnum, slot.kind);
            (self.value_at, self.value_len) = (slot.value_at, slot.value_len);
            // Once for each cache line.
            if slot.value_at / CACHE_LINE_BYTES != before / CACHE_LINE_BYTES || self.value_len >= CACHE_LINE_BYTES {
                leaf.prefetch_from(self.value_at + AHEAD_BYTES, self.value_len.clamp(1, AHEAD_BYTES));
            }
            let value = leaf.bytes_at(self.value_at, self.value_len);
            if !go_on(Entry { key: &self.key, seqnum: self.seqnum, kind: self.kind, value }) {
                return true;
            }
        }
        false
    }

    /// Whether the entry before is in the leaf, and of another key.
    #[inline]
    #[must_use]
    pub fn is_first_version(&self) -> bool {
        self.at > 0 && self.leaf.as_ref().is_some_and(|(leaf, shape)| !leaf.is_same_key(shape, self.at - 1))
    }

    /// Goes to the entry before in the leaf; false where there is none.
    #[inline]
    pub fn prev_entry(&mut self) -> bool {
        let more = self.leaf.is_some() && self.at > 0;
        if more {
            self.stand_at(self.at - 1);
            self.step(true);
        }
        more
    }

    /// The key of the entry, unless nowhere.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        debug_assert!(!self.is_lazy, "the entry was not looked at");
        (!self.is_nowhere()).then_some(&*self.key)
    }

    /// The entry, unless nowhere.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<Entry<'_>> {
        let (leaf, _) = self.leaf.as_ref()?;
        debug_assert!(!self.is_lazy, "the entry was not looked at");
        let value = leaf.bytes_at(self.value_at, self.value_len);
        Some(Entry { key: &self.key, seqnum: self.seqnum, kind: self.kind, value })
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        debug_assert!(!self.is_lazy, "the entry was not looked at");
        let (leaf, _) = self.leaf.clone()?;
        Some(leaf.pinned(self.value_at, self.value_len))
    }
}
