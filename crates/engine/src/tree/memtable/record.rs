//! A record: one entry in the arena, written once and then only read.
//!
//! # Format
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | stamp: seqnum << 8, kind in the low byte |
//! | 8 | 4 | length of the value |
//! | 12 | 2 | length of the key, less one |
//! | 14 | k | key |
//! | 14 + k | v | value |
//!
//! Native byte order and no alignment: a record never leaves memory.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use super::arena::Arena;
use crate::base::key::{self, KEY_BYTES_MAX};
use crate::base::num::{u32_of, usize_of32};
use crate::base::prefetch::{CACHE_LINE_BYTES, prefetch, prefetch_behind_write};
use crate::base::{Entry, Kind, SeqNum};

const VALUE_LEN_AT: usize = 8;
const KEY_LEN_AT: usize = 12;
const KEY_AT: usize = 14;

const _: () = assert!(KEY_BYTES_MAX - 1 == u16::MAX as usize, "the length of a key fits its field");

/// The order of the versions of one key, and the kind: a larger stamp is newer and comes first.
const fn stamp(seqnum: SeqNum, low: u8) -> u64 {
    seqnum.0 << 8 | low as u64
}

/// A record of an arena that lives at least for `'t`.
#[derive(Clone, Copy)]
pub(super) struct Record<'t> {
    at: NonNull<u8>,
    arena: PhantomData<&'t [u8]>,
}

// SAFETY: a record is a shared reference to bytes that do not change.
unsafe impl Send for Record<'_> {}
// SAFETY: as above.
unsafe impl Sync for Record<'_> {}

impl<'t> Record<'t> {
    /// Writes a record of `entry`.
    ///
    /// # Panics
    /// When the key is empty or too long, or the seqnum has more than 56 bits: upper layers check what users give.
    #[inline]
    pub(super) fn write(arena: &'t Arena, entry: &Entry<'_>) -> Self {
        let Entry { key, seqnum, kind, value } = entry;
        assert!(*seqnum <= SeqNum::MAX, "a seqnum has 56 bits");
        let key_len =
            key.len().checked_sub(1).and_then(|len| u16::try_from(len).ok()).expect("a key has 1 to 65536 bytes");
        let value_len = u32_of(value.len());
        let at = arena.take_record(KEY_AT + key.len() + value.len());
        prefetch_behind_write(at.as_ptr(), KEY_AT + key.len() + value.len());
        // SAFETY: the arena gave memory for the header, the key and the value, which no other thread knows of yet.
        unsafe {
            at.cast::<u64>().write_unaligned(stamp(*seqnum, *kind as u8));
            at.add(VALUE_LEN_AT).cast::<u32>().write_unaligned(value_len);
            at.add(KEY_LEN_AT).cast::<u16>().write_unaligned(key_len);
            at.add(KEY_AT).copy_from_nonoverlapping(NonNull::from(*key).cast(), key.len());
            at.add(KEY_AT + key.len()).copy_from_nonoverlapping(NonNull::from(*value).cast(), value.len());
        }
        Self { at, arena: PhantomData }
    }

    /// The record at `at`.
    ///
    /// # Safety
    /// `at` came from [`Self::as_ptr`] of a record whose arena lives for `'t`, and the record's writing happened
    /// before.
    #[inline]
    pub(super) unsafe fn from_ptr(at: NonNull<u8>) -> Self {
        Self { at, arena: PhantomData }
    }

    #[inline]
    pub(super) fn as_ptr(self) -> NonNull<u8> {
        self.at
    }

    #[inline]
    fn stamp(self) -> u64 {
        // SAFETY: a record starts with its stamp.
        unsafe { self.at.cast().read_unaligned() }
    }

    #[inline]
    fn key_len(self) -> usize {
        // SAFETY: within the header.
        usize::from(unsafe { self.at.add(KEY_LEN_AT).cast::<u16>().read_unaligned() }) + 1
    }

    #[inline]
    pub(super) fn key(self) -> &'t [u8] {
        // SAFETY: the header is followed by a key of that length.
        unsafe { slice::from_raw_parts(self.at.add(KEY_AT).as_ptr(), self.key_len()) }
    }

    /// Whether the key is another than that of `other`, with which it shares the first `skip` bytes.
    #[inline]
    pub(super) fn is_other_key(self, other: Record<'_>, skip: usize) -> bool {
        let head = |record: Record<'_>| record.key().get(skip..).map(key::head);
        head(self) != head(other) || self.key() != other.key()
    }

    #[inline]
    pub(super) fn value(self) -> &'t [u8] {
        // SAFETY: the key is followed by a value of that length.
        unsafe {
            let len = self.at.add(VALUE_LEN_AT).cast::<u32>().read_unaligned();
            slice::from_raw_parts(self.at.add(KEY_AT + self.key_len()).as_ptr(), usize_of32(len))
        }
    }

    #[inline]
    pub(super) fn seqnum(self) -> SeqNum {
        SeqNum(self.stamp() >> 8)
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        let [kind, ..] = self.stamp().to_le_bytes();
        Kind::from_byte(kind).expect("records are written with a kind")
    }

    #[inline]
    pub(super) fn entry(self) -> Entry<'t> {
        Entry { key: self.key(), seqnum: self.seqnum(), kind: self.kind(), value: self.value() }
    }

    /// Prefetches the front of the record, which has its key.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch(self.at.as_ptr(), 2 * CACHE_LINE_BYTES);
    }

    /// The place of this record in the order.
    #[inline]
    pub(super) fn place(self) -> SortKey<'t> {
        SortKey { key: self.key(), stamp: self.stamp() }
    }
}

/// A place in the order of records: of one, or between two.
#[derive(Clone, Copy)]
pub(super) struct SortKey<'k> {
    pub(super) key: &'k [u8],
    stamp: u64,
}

impl<'k> SortKey<'k> {
    /// The place of `entry`.
    #[inline]
    pub(super) fn of(entry: &Entry<'k>) -> Self {
        Self { key: entry.key, stamp: stamp(entry.seqnum, entry.kind as u8) }
    }

    /// The place just before the versions of `key` that a snapshot at `seqnum` sees.
    #[inline]
    pub(super) fn before(key: &'k [u8], seqnum: SeqNum) -> Self {
        // No kind is 255, so no record has this place.
        Self { key, stamp: stamp(seqnum, u8::MAX) }
    }

    /// The first eight bytes of the key after the first `skip`, as nodes keep them.
    #[inline]
    pub(super) fn head(&self, skip: usize) -> u64 {
        key::head(self.key.get(skip..).unwrap_or_default())
    }
}

impl Ord for SortKey<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(other.key).then_with(|| other.stamp.cmp(&self.stamp))
    }
}

impl PartialOrd for SortKey<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for SortKey<'_> {}

impl PartialEq for SortKey<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
