//! A large batch as a memtable: its entries stay where the batch has them, in the order of their arrival, and a
//! separate index has them in the order of keys. It is complete when it is made, and nothing is added to it.
//!
//! # Invariants
//! 1. Slots are in order of place: key ascending, then seqnum descending.
//! 2. All keys have the same first `skip` bytes, and a slot's head is that of its key behind them.
//! 3. Fences are the heads of each [`GROUP`]th slot, from the first on.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use super::record::SortKey;
use crate::base::debug::debug_by;
use crate::base::key::{head, shared_bytes};
use crate::base::num::{u32_of, u64_of, usize_of32};
use crate::base::prefetch::{CACHE_LINE_BYTES, prefetch};
use crate::base::value::ByteSource;
use crate::base::{Entry, Kind, Result, SeqNum, Value};
use crate::tree::cursor::{Cursor, Found, KeyCursor, LazySeek, MergeSource};

/// The `at` of a cursor that is positioned nowhere.
const NOWHERE: usize = usize::MAX;

/// How many entries ahead of a cursor memory is asked for: they lie anywhere in the batch.
const AHEAD: usize = 8;

/// Slots between two fences: what is searched behind them is asked for all at once.
const GROUP: usize = if cfg!(test) { 3 } else { 32 };

/// So few slots are sorted by comparing keys.
const FEW: usize = if cfg!(test) { 3 } else { 24 };

/// So often slots with equal heads are sorted by the bytes that come next, before keys are compared.
const ROUNDS: u32 = 4;

/// Where an entry lies in its batch.
#[derive(Clone, Debug)]
pub struct EntryOffset {
    /// How many changes the batch has before it.
    pub number: u64,
    /// What becomes of the key.
    pub kind: Kind,
    /// Where the key is.
    pub key: Range<usize>,
    /// Where the value is: at most 255 bytes behind the key, unless it is empty.
    pub value: Range<usize>,
}

/// Entries of a batch in order. Clones share them.
#[derive(Clone)]
pub struct SortedBatch {
    source: Arc<dyn ByteSource>,
    slots: Arc<Vec<Slot>>,
    /// So few that they stay in the processor's cache.
    fences: Arc<Vec<u64>>,
    skip: usize,
    kept_bytes: usize,
}

/// Where the index has an entry.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u64,
    /// The entry's number in the batch << 8, and its kind.
    stamp: u64,
    key_at: usize,
    value_len: u32,
    /// The length of the key, less one.
    key_len: u16,
    /// Bytes from the end of the key to the value.
    gap: u8,
}

const _: () = assert!(size_of::<Slot>() == 32);

impl Slot {
    fn new(spot: &EntryOffset) -> Self {
        let key_len = spot.key.len().checked_sub(1).and_then(|len| u16::try_from(len).ok());
        let gap = if spot.value.is_empty() { Some(0) } else { spot.value.start.checked_sub(spot.key.end) };
        Self {
            head: 0,
            stamp: spot.number << 8 | spot.kind as u64,
            key_at: spot.key.start,
            value_len: u32_of(spot.value.len()),
            key_len: key_len.expect("a key has 1 to 65536 bytes"),
            gap: gap.and_then(|gap| u8::try_from(gap).ok()).expect("a value lies close behind its key"),
        }
    }

    #[inline]
    fn key<'s>(&self, source: &'s dyn ByteSource) -> &'s [u8] {
        source.bytes(self.key_at, usize::from(self.key_len) + 1)
    }

    /// Where the value is, and its length.
    fn value(&self) -> (usize, usize) {
        (self.key_at + usize::from(self.key_len) + 1 + usize::from(self.gap), usize_of32(self.value_len))
    }
}

/// Collects the entries of a batch that are to be sorted.
#[derive(Debug)]
pub struct BatchSorter {
    slots: Vec<Slot>,
}

impl BatchSorter {
    /// A sorter with capacity for `entries` entries.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { slots: Vec::with_capacity(count) }
    }

    /// Adds one.
    ///
    /// # Panics
    /// When it is not as it must be.
    pub fn push(&mut self, spot: &EntryOffset) {
        self.slots.push(Slot::new(spot));
    }

    /// Sorts them. They lie in `source`, which keeps `kept_bytes` bytes for them.
    #[must_use]
    pub fn sort(mut self, source: Arc<dyn ByteSource>, kept_bytes: usize) -> SortedBatch {
        let skip = sort(&*source, &mut self.slots, ROUNDS);
        let fences = self.slots.iter().step_by(GROUP).map(|slot| slot.head).collect();
        SortedBatch { source, slots: Arc::new(self.slots), fences: Arc::new(fences), skip, kept_bytes }
    }
}

debug_by!(SortedBatch, self => entries: self.slots.len());

/// Sorts slots and sets their heads; says how many bytes their keys share.
///
/// Slots with equal heads are sorted by the heads of what comes next, for some rounds: so a key is looked at once a
/// round, and not once a comparison.
fn sort(source: &dyn ByteSource, slots: &mut [Slot], rounds: u32) -> usize {
    let Some((first, others)) = slots.split_first() else { return 0 };
    let first = first.key(source);
    let skip = others.iter().fold(first.len(), |shared, slot| shared_bytes(&first[..shared], slot.key(source)));
    slots.iter_mut().for_each(|slot| slot.head = head(&slot.key(source)[skip..]));
    if slots.len() <= FEW || rounds == 0 {
        slots.sort_unstable_by_key(|slot| (slot.key(source), Reverse(slot.stamp)));
        return skip;
    }
    slots.sort_unstable_by_key(|slot| slot.head);
    for equal in slots.chunk_by_mut(|a, b| a.head == b.head).filter(|equal| equal.len() > 1) {
        let head = equal[0].head;
        sort(source, equal, rounds - 1);
        equal.iter_mut().for_each(|slot| slot.head = head);
    }
    skip
}

/// A sorted batch that has its place in the order of commits.
pub(super) struct Ordered {
    batch: SortedBatch,
    /// The seqnum of the batch's first change.
    first: SeqNum,
}

impl Ordered {
    pub(super) fn new(batch: SortedBatch, first: SeqNum) -> Self {
        Self { batch, first }
    }

    pub(super) fn entries(&self) -> usize {
        self.batch.slots.len()
    }

    /// The memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.batch.kept_bytes + size_of_val(&**self.batch.slots) + size_of_val(&**self.batch.fences)
    }

    /// The newest version of `key` that a snapshot at `seqnum` sees.
    pub(super) fn find(&self, key: &[u8], seqnum: SeqNum) -> Option<Found> {
        let at = self.rank(&SortKey::before(key, seqnum));
        let Entry { key: found, seqnum, kind, .. } = self.entry(at)?;
        (found == key).then(|| Found { seqnum, kind, value: self.value(at) })
    }

    /// How many entries have keys from `low` on, up to `high`.
    pub(super) fn count_between(&self, low: &[u8], high: Option<&[u8]>) -> u64 {
        let rank = |key| self.rank(&SortKey::before(key, SeqNum::MAX));
        let end = high.map_or_else(|| self.entries(), rank);
        u64_of(end.saturating_sub(rank(low)))
    }

    /// How many entries lie before a place.
    fn rank(&self, place: &SortKey<'_>) -> usize {
        let (slots, skip) = (&*self.batch.slots, self.batch.skip);
        let Some(first) = slots.first() else { return 0 };
        // Heads order only keys that begin as all keys here do.
        let shared = &first.key(&*self.batch.source)[..skip];
        if !place.key.starts_with(shared) {
            return if *place.key < *shared { 0 } else { slots.len() };
        }
        let head = place.head(skip);
        let fences = &*self.batch.fences;
        let below = fences.partition_point(|fence| *fence < head);
        let low = below.saturating_sub(1) * GROUP;
        prefetch(slots[low..].as_ptr().cast(), GROUP * size_of::<Slot>());
        let not_above = below + fences[below..].partition_point(|fence| *fence == head);
        let between = &slots[low..slots.len().min(not_above * GROUP)];
        let is_before =
            |slot: &Slot| slot.head < head || slot.head == head && SortKey::of(&self.entry_of(slot)) < *place;
        low + between.partition_point(is_before)
    }

    fn entry(&self, at: usize) -> Option<Entry<'_>> {
        self.batch.slots.get(at).map(|slot| self.entry_of(slot))
    }

    fn entry_of(&self, slot: &Slot) -> Entry<'_> {
        let [kind, ..] = slot.stamp.to_le_bytes();
        let (value_at, value_len) = slot.value();
        Entry {
            key: slot.key(&*self.batch.source),
            seqnum: SeqNum(self.first.0 + (slot.stamp >> 8)),
            kind: Kind::from_byte(kind).expect("slots are made with a kind"),
            value: if value_len == 0 { &[] } else { self.batch.source.bytes(value_at, value_len) },
        }
    }

    /// The value of the entry at `at`, without a copy.
    fn value(&self, at: usize) -> Value {
        match self.batch.slots[at].value() {
            (_, 0) => Value::owned(&[]),
            (value_at, len) => Value::pinned(Arc::clone(&self.batch.source), value_at, len),
        }
    }

    /// Prefetches the entry at `at`, if there is one.
    fn prefetch(&self, at: usize) {
        if let Some(slot) = self.batch.slots.get(at) {
            prefetch(slot.key(&*self.batch.source).as_ptr(), 2 * CACHE_LINE_BYTES);
        }
    }
}

/// A cursor over a batch.
pub(super) struct BatchCursor {
    ordered: Arc<Ordered>,
    /// What is not the place of an entry is nowhere.
    at: usize,
    is_warm: bool,
}

impl BatchCursor {
    pub(super) fn new(ordered: Arc<Ordered>, is_warm: bool) -> Self {
        Self { ordered, at: NOWHERE, is_warm }
    }
}

impl Cursor for BatchCursor {
    fn first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        self.at = self.ordered.entries().wrapping_sub(1);
        Ok(())
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.at = self.ordered.rank(&SortKey::before(key, SeqNum::MAX));
        Ok(())
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.at = self.ordered.rank(&SortKey::before(key, SeqNum::MAX)).wrapping_sub(1);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if self.at < self.ordered.entries() {
            self.at += 1;
            self.ordered.prefetch(self.at + AHEAD);
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.at < self.ordered.entries() {
            self.at = self.at.wrapping_sub(1);
            self.ordered.prefetch(self.at.wrapping_sub(AHEAD));
        }
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.ordered.entry(self.at)
    }

    fn value(&self) -> Option<Value> {
        (self.at < self.ordered.entries()).then(|| self.ordered.value(self.at))
    }
}

impl KeyCursor for BatchCursor {}

impl LazySeek for BatchCursor {}

impl MergeSource for BatchCursor {
    fn is_cached(&self) -> bool {
        self.is_warm
    }
}
