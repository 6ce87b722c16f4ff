//! A block in memory: an image that was checked once, and the accessors that rely on it.

use super::format::{BlockKind, COUNT_AT, FLAGS_AT, KIND_AT, Meta, PREFIX_AT, PREFIX_LEN_AT, RAW_PAYLOAD_AT, heads_at};
use super::search::{self, Bound, Head};
use crate::base::codec::Decoder;
use crate::base::memory::image::HEAD_BYTES;
use crate::base::memory::{Draining, Image};
use crate::base::num::usize_of32;
use crate::base::prefetch::{CACHE_LINE_BYTES, prefetch};
use crate::base::{Kind, SeqNum, Value};
use std::cmp::Ordering;
use std::fmt;

/// A valid block in memory. Clones share its bytes.
///
/// # Invariants
/// 1. The image satisfies the invariants of [`super::format`], so that no accessor panics for an index below
///    [`Block::count`].
/// 2. In memory, a raw block's number of entries says where its payload begins.
#[derive(Clone)]
pub struct Block {
    pub(super) image: Image,
}

/// Where the entries of a block lie: found once for a walk over them.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The number of entries.
    pub count: usize,
    heads_at: usize,
    offsets_at: usize,
    meta: Meta,
}

/// One entry of a block, without the prefix of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot<'a> {
    /// The key without the block's prefix.
    pub suffix: &'a [u8],
    /// When the version became visible.
    pub seqnum: SeqNum,
    /// What the version does.
    pub kind: Kind,
    /// Where the value begins in the block, as [`Block::bytes_at`] takes it.
    pub value_at: usize,
    /// Length of the value in bytes.
    pub value_len: usize,
}

impl Block {
    #[inline]
    fn field(&self, at: usize) -> u32 {
        self.image[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    #[inline]
    pub(super) fn meta(&self) -> Meta {
        Meta::of_flags(self.image[FLAGS_AT]).unwrap_or(Meta::None)
    }

    #[inline]
    pub(super) fn prefix_len(&self) -> usize {
        usize_of32(self.field(PREFIX_LEN_AT))
    }

    #[inline]
    pub(super) fn heads_at(&self) -> usize {
        heads_at(self.prefix_len())
    }

    /// What the block holds.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> BlockKind {
        BlockKind::from_byte(self.image[KIND_AT]).unwrap_or(BlockKind::Raw)
    }

    /// The number of entries; zero for a raw block.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        match self.kind() {
            BlockKind::Raw => 0,
            _ => usize_of32(self.field(COUNT_AT)),
        }
    }

    /// Whether it is a leaf all of whose entries are puts with seqnum zero. Their keys differ then.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.kind() == BlockKind::Leaf && self.meta() == Meta::None
    }

    /// The image of a leaf or a branch, as it was written.
    #[inline]
    #[must_use]
    pub fn bytes_written(&self) -> &[u8] {
        debug_assert!(self.kind() != BlockKind::Raw, "the payload of a raw block may have been moved");
        &self.image
    }

    /// Bytes of memory that the block takes.
    #[inline]
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.image.memory_bytes()
    }

    /// The payload of a raw block, at an address that is a multiple of 64 as a rule; empty for the other kinds.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self.kind() {
            BlockKind::Raw => &self.image[self.payload_at()..][..self.image.len() - RAW_PAYLOAD_AT],
            _ => &[],
        }
    }

    /// Where the payload of a raw block begins, as [`Block::bytes_at`] takes it.
    #[inline]
    #[must_use]
    pub fn payload_at(&self) -> usize {
        usize_of32(self.field(COUNT_AT))
    }

    /// The `len` bytes at `at`, as [`Slot`] gives them.
    #[inline]
    #[must_use]
    pub fn bytes_at(&self, at: usize, len: usize) -> &[u8] {
        &self.image[at..at + len]
    }

    /// The same as a value that keeps the block alive.
    #[inline]
    #[must_use]
    pub fn pinned(self, at: usize, len: usize) -> Value {
        Value::shared(self.image, at, len)
    }

    /// What all keys begin with.
    #[inline]
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.image[PREFIX_AT..][..self.prefix_len()]
    }

    /// The block in memory of its own.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self { image: Image::from(&*self.image) }
    }

    /// The block in the memory of those that trees pin: see [`Image::pinned`].
    #[must_use]
    pub fn in_pinned_memory(&self) -> Self {
        Self { image: self.image.pinned() }
    }

    /// Whether its memory is being drained.
    #[must_use]
    pub fn is_in(&self, draining: &Draining) -> bool {
        draining.holds(&self.image)
    }

    /// The block of an image that was a block's.
    #[inline]
    pub(super) const fn again(image: Image) -> Self {
        Self { image }
    }

    /// Its bytes.
    #[inline]
    pub(super) const fn image(&self) -> &Image {
        &self.image
    }

    /// Prefetches the memory that every access reads first.
    #[inline]
    pub fn prefetch_front(&self) {
        Self::prefetch_front_at(self.image.as_ptr().wrapping_sub(HEAD_BYTES));
    }

    /// As [`Self::prefetch_front`], of a block that has its image there, with the image's head.
    #[inline]
    pub(super) fn prefetch_front_at(front: *const u8) {
        prefetch(front, FRONT_BYTES);
    }

    /// Prefetches the memory that a search of the block reads first.
    #[inline]
    pub fn prefetch_search(&self) {
        let (heads_at, searched) = (self.heads_at(), 8 * self.count());
        let end = if searched <= SEARCHED_BYTES_MAX { heads_at + searched } else { SEARCHED_BYTES_MAX };
        prefetch_all(&self.image[..end]);
    }

    /// Prefetches the entries from `bound` on.
    #[inline]
    pub fn prefetch_entries(&self, bound: Bound) {
        self.prefetch_at(bound, ENTRIES_BYTES);
    }

    /// As [`Self::prefetch_entries`], when only the first entry is as good as sure to be read.
    #[inline]
    pub fn prefetch_bound(&self, bound: Bound) {
        self.prefetch_at(bound, ENTRY_BYTES);
    }

    /// Searches the block, whose front must be in near memory, for `key`, and prefetches the first entry from there on.
    #[inline]
    pub fn prefetch_entry(&self, key: &[u8]) {
        self.prefetch_bound(self.bound(key));
    }

    #[inline]
    fn prefetch_at(&self, bound: Bound, bytes: usize) {
        self.prefetch_from(self.offset(bound.at), bytes);
    }

    /// Prefetches `len` bytes from `at` on.
    #[inline]
    pub fn prefetch_from(&self, at: usize, len: usize) {
        prefetch(self.image.as_ptr().wrapping_add(at), len);
    }

    #[inline]
    pub(super) fn heads(&self) -> &[Head] {
        self.image[self.heads_at()..][..4 * self.count()].as_chunks().0
    }

    #[inline]
    pub(super) fn offsets(&self) -> &[[u8; 4]] {
        self.image[self.heads_at() + 4 * self.count()..][..4 * self.count() + 4].as_chunks().0
    }

    #[inline]
    pub(super) fn offset(&self, i: usize) -> usize {
        usize_of32(u32::from_le_bytes(self.offsets()[i]))
    }

    /// Where the entries lie.
    #[inline]
    #[must_use]
    pub fn shape(&self) -> Shape {
        let (count, heads_at) = (self.count(), self.heads_at());
        Shape { count, heads_at, offsets_at: heads_at + 4 * count, meta: self.meta() }
    }

    /// Whether entries `i` and `i + 1` have the same key.
    #[inline]
    #[must_use]
    pub fn is_same_key(&self, shape: &Shape, i: usize) -> bool {
        let [a, b] = self.numbers(shape.heads_at + 4 * i);
        a == b && self.is_same_suffix(i)
    }

    #[cold]
    fn is_same_suffix(&self, i: usize) -> bool {
        self.suffix(i) == self.suffix(i + 1)
    }

    /// The two numbers at `at`.
    #[inline]
    fn numbers(&self, at: usize) -> [u32; 2] {
        match self.image[at..at + 8].as_chunks().0 {
            [a, b] => [u32::from_le_bytes(*a), u32::from_le_bytes(*b)],
            _ => [0, 0],
        }
    }

    /// Entry `i`.
    ///
    /// # Panics
    /// When `i` is not below [`Block::count`], as all accessors that take an index.
    #[inline]
    #[must_use]
    pub fn slot(&self, i: usize) -> Slot<'_> {
        self.slot_of(&self.shape(), i)
    }

    /// Entry `i` of the block, which has this shape.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a step of every scan: a call takes longer than what it does")]
    #[must_use]
    pub fn slot_of(&self, shape: &Shape, i: usize) -> Slot<'_> {
        let [start, end] = self.numbers(shape.offsets_at + 4 * i).map(usize_of32);
        let mut entry = &self.image[start..end];
        let (mut seqnum, mut kind) = (SeqNum::ZERO, Kind::Put);
        match shape.meta {
            Meta::None => {}
            Meta::Kind => {
                if let Some((byte, rest)) = entry.split_first() {
                    kind = Kind::from_byte(*byte).unwrap_or(Kind::Put);
                    entry = rest;
                }
            }
            Meta::Version => {
                if let Some((meta, rest)) = entry.split_first_chunk::<{ Meta::Version.bytes() }>() {
                    seqnum = SeqNum(u64::from_le_bytes(*meta) >> 8);
                    kind = Kind::from_byte(meta[0]).unwrap_or(Kind::Put);
                    entry = rest;
                }
            }
        }
        let (suffix, value) = split_suffix(entry);
        Slot { suffix, seqnum, kind, value_at: end - value.len(), value_len: value.len() }
    }

    /// Appends the suffix of an entry of the block to `key`.
    #[inline]
    pub fn append_suffix(&self, slot: &Slot<'_>, key: &mut Vec<u8>) {
        let len = slot.suffix.len();
        // A copy of a length that is known beforehand takes two instructions: what is too much is cut off.
        match self.image[slot.value_at - len..].first_chunk::<SHORT_BYTES>() {
            Some(bytes) if len <= SHORT_BYTES => {
                let end = key.len() + len;
                key.extend_from_slice(bytes);
                key.truncate(end);
            }
            _ => key.extend_from_slice(slot.suffix),
        }
    }

    /// The key of entry `i` without the prefix.
    #[inline]
    #[must_use]
    pub fn suffix(&self, i: usize) -> &[u8] {
        split_suffix(&self.image[self.offset(i) + self.meta().bytes()..]).0
    }

    /// Makes `out` the key of entry `i`.
    #[inline]
    pub fn key_into(&self, i: usize, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.prefix());
        out.extend_from_slice(self.suffix(i));
    }

    /// Orders the key of entry `i` against `key`.
    #[inline]
    #[must_use]
    pub fn compare_key(&self, i: usize, key: &[u8]) -> Ordering {
        match key.strip_prefix(self.prefix()) {
            Some(suffix) => self.suffix(i).cmp(suffix),
            None => self.prefix().cmp(key),
        }
    }

    /// The seqnum of entry `i`.
    #[inline]
    #[must_use]
    pub fn seqnum(&self, i: usize) -> SeqNum {
        self.slot(i).seqnum
    }

    /// The kind of entry `i`.
    #[inline]
    #[must_use]
    pub fn entry_kind(&self, i: usize) -> Kind {
        self.slot(i).kind
    }

    /// Where the value of entry `i` begins, and its length.
    #[inline]
    #[must_use]
    pub fn value_at(&self, i: usize) -> (usize, usize) {
        let slot = self.slot(i);
        (slot.value_at, slot.value_len)
    }

    /// The value of entry `i`.
    #[inline]
    #[must_use]
    pub fn value(&self, i: usize) -> &[u8] {
        let (at, len) = self.value_at(i);
        &self.image[at..at + len]
    }

    /// The first entry whose key is not below `key`; [`Block::count`] when there is none.
    #[inline]
    #[must_use]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.partition(key, Ordering::is_lt)
    }

    /// What the heads alone say of [`Self::lower_bound`]: no entry is looked at.
    #[inline]
    #[must_use]
    pub fn bound(&self, key: &[u8]) -> Bound {
        search::bound(self.prefix(), self.heads(), key)
    }

    /// [`Self::lower_bound`] of a key for which this is the [`Self::bound`].
    #[inline]
    #[must_use]
    pub fn lower_bound_from(&self, bound: Bound, key: &[u8]) -> usize {
        self.pass_ties(bound, key, Ordering::is_lt)
    }

    /// The first bytes of the key of entry `i` of the block, which has this shape, behind the prefix; zeros where there
    /// are no more.
    #[inline]
    #[must_use]
    pub fn head_of(&self, shape: &Shape, i: usize) -> u32 {
        self.field(shape.heads_at + 4 * i)
    }

    /// The first entry whose key is above `key`; [`Block::count`] when there is none.
    #[inline]
    #[must_use]
    pub fn upper_bound(&self, key: &[u8]) -> usize {
        self.partition(key, Ordering::is_le)
    }

    /// The first entry with exactly this key: its newest version.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        self.find_from(self.bound(key), key)
    }

    /// [`Self::find`] of a key for which this is the [`Self::bound`].
    #[inline]
    #[must_use]
    pub fn find_from(&self, bound: Bound, key: &[u8]) -> Option<usize> {
        let mut met = false;
        let i = self.pass_ties(bound, key, |order| {
            met |= order.is_eq();
            order.is_lt()
        });
        met.then_some(i)
    }

    /// The search from the bound of `key` on: see [`search::pass_ties`].
    #[inline]
    fn pass_ties(&self, bound: Bound, key: &[u8], before: impl FnMut(Ordering) -> bool) -> usize {
        if bound.sure {
            return bound.at;
        }
        let suffix = key.get(self.prefix_len()..).unwrap_or_default();
        search::pass_ties(self.heads(), bound.at, suffix, |i| self.suffix(i), before)
    }

    /// How many entries come before the point where `before`, told how an entry's key compares with `key`, turns false.
    #[inline]
    fn partition(&self, key: &[u8], before: impl FnMut(Ordering) -> bool) -> usize {
        self.pass_ties(self.bound(key), key, before)
    }
}

fn prefetch_all(bytes: &[u8]) {
    prefetch(bytes.as_ptr(), bytes.len());
}

/// The image's head, the header, and what a search of a leaf of 8 KiB with fifty entries looks at.
const FRONT_BYTES: usize = 8 * CACHE_LINE_BYTES;
/// Bytes of heads and offsets above which a search halves first, which no prefetch can follow.
const SEARCHED_BYTES_MAX: usize = 2 << 10;
/// Bytes of the entries from some point on that are almost certainly read.
const ENTRIES_BYTES: usize = 1 << 10;
/// The key of an entry and the front of its value.
const ENTRY_BYTES: usize = 3 * CACHE_LINE_BYTES;

/// Most suffixes are no longer.
const SHORT_BYTES: usize = 16;

/// Splits an entry, behind what it carries in front, into suffix and value. The lengths were checked by
/// [`Block::parse`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "a step of every scan: a call takes longer than what it does")]
fn split_suffix(entry: &[u8]) -> (&[u8], &[u8]) {
    if let [len, rest @ ..] = entry
        && *len < 0x80
    {
        return rest.split_at(usize::from(*len).min(rest.len()));
    }
    let mut decoder = Decoder::new(entry);
    let suffix = decoder.len_prefixed().unwrap_or_default();
    (suffix, decoder.rest())
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.image.len();
        write!(f, "Block({:?}, {} entries, {bytes} bytes)", self.kind(), self.count())
    }
}
