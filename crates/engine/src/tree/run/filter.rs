//! The filter of a run: a Bloom filter whose bits for one key lie in one cache line.
//!
//! # Format
//!
//! The filter is a row of lines of 64 bytes, cut into parts. The hash of a key ([`crate::base::checksum::hash_key`])
//! chooses the line with its upper 32 bits: line = upper * lines >> 32. Its lower 32 bits give one bit per probe: the
//! upper nine bits of the number, which is multiplied by 0x9e3779b9 after each probe. Bit b of a line is bit b & 7 of
//! its byte b >> 3.
//!
//! After Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (2007), and RocksDB's
//! `FastLocalBloom`.

use super::format::FILTER_PART_LINES;
use crate::base::num::{u32_of, u64_of, usize_of, whole};
use crate::base::prefetch::prefetch;
use crate::block::format::RAW_PAYLOAD_AT;
use crate::block::{Block, raw_image};
use crate::cache::{Cache, CacheLoan};
use crate::env::AlignedBuffer;
use std::sync::Arc;

/// Bytes of a line.
pub(super) const LINE_BYTES: usize = 64;
const LINE_BITS_LOG2: u32 = 9;
const _: () = assert!(LINE_BYTES * 8 == 1 << LINE_BITS_LOG2);

const BITS_PER_KEY_MAX: f64 = 64.0;
/// The lines must be fewer than 32 bits can choose from.
const LINES_MAX: u64 = 1 << 28;

/// How a filter is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) lines: u64,
    pub(super) probes: u32,
}

impl Layout {
    /// The layout for `keys` keys; `None` when no filter is wanted.
    pub(super) fn new(keys: usize, bits_per_key: f64) -> Option<Self> {
        if bits_per_key <= 0.0 || keys == 0 {
            return None;
        }
        let bits_per_key = bits_per_key.min(BITS_PER_KEY_MAX);
        let lines = bits_of(keys, bits_per_key).div_ceil(1 << LINE_BITS_LOG2).clamp(1, LINES_MAX);
        // ln 2 probes per bit would be best in an ideal filter; crowded lines want fewer.
        let probes = u32_of(usize_of(whole(bits_per_key * 0.6 + 0.5))).clamp(1, 16);
        Some(Self { lines, probes })
    }

    /// Whether the numbers could come from [`Layout::new`].
    pub(super) const fn is_sound(self) -> bool {
        0 < self.lines && self.lines <= LINES_MAX && 0 < self.probes && self.probes <= 64
    }

    pub(super) fn parts(self) -> usize {
        usize_of(self.lines.div_ceil(FILTER_PART_LINES))
    }

    /// Bytes of the payload of a part.
    pub(super) fn part_bytes(self, part: usize) -> usize {
        let lines = (self.lines - u64_of(part) * FILTER_PART_LINES).min(FILTER_PART_LINES);
        usize_of(lines) * LINE_BYTES
    }

    /// The part that a hash falls into, and where its line begins there.
    #[inline]
    pub(super) fn place(self, hash: u64) -> (usize, usize) {
        let line = ((hash >> 32) * self.lines) >> 32;
        (usize_of(line / FILTER_PART_LINES), usize_of(line % FILTER_PART_LINES) * LINE_BYTES)
    }

    /// The bits of a hash, as (byte of its line, bit of that byte).
    #[inline]
    fn bits(self, hash: u64) -> impl Iterator<Item = (usize, u8)> {
        let mut state = u32_of(usize_of(hash & 0xffff_ffff));
        (0..self.probes).map(move |_| {
            let bit = state >> (u32::BITS - LINE_BITS_LOG2);
            state = state.wrapping_mul(0x9e37_79b9);
            (crate::base::num::usize_of32(bit >> 3), 1 << (bit & 7))
        })
    }

    /// Whether a line may have been given this hash.
    #[inline]
    pub(super) fn may_contain(self, line: &[u8; LINE_BYTES], hash: u64) -> bool {
        // All bits are looked at: the line is here by then, and a branch per bit would be guessed wrong half the time.
        self.bits(hash).fold(true, |all, (byte, bit)| all & (line[byte] & bit != 0))
    }

    /// The images of the parts of a filter of these hashes.
    pub(super) fn build(self, hashes: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
        let mut images: Vec<_> = (0..self.parts()).map(|part| raw_image(self.part_bytes(part))).collect();
        for hash in hashes {
            let (part, at) = self.place(hash);
            let line = &mut images[part][RAW_PAYLOAD_AT + at..][..LINE_BYTES];
            for (byte, bit) in self.bits(hash) {
                line[byte] |= bit;
            }
        }
        images
    }
}

/// Prefetches the line at `at` of a part of a filter.
#[inline]
pub(super) fn prefetch_line(part: &Block, at: usize) {
    prefetch(part.bytes().as_ptr().wrapping_add(at), LINE_BYTES);
}

/// Bits for `keys` keys.
#[inline]
pub(super) fn bits_of(keys: usize, bits_per_key: f64) -> u64 {
    // Exact enough: fewer than 2^53 keys.
    whole(keys as f64 * bits_per_key)
}

/// Bytes of a chunk of hashes.
const CHUNK_BYTES: usize = 1 << 20;

/// The hashes of a run's keys, gathered while it is written: eight bytes a key, in memory that goes back to the system.
/// A run that is merged from a table's largest has many millions of them. They lie in chunks, since a buffer that grew
/// would be copied while old and new take memory, and the cache lends the memory of all chunks but the first.
#[derive(Debug, Default)]
pub(super) struct Hashes {
    /// All but the last are full.
    chunks: Vec<AlignedBuffer>,
    count: usize,
    loan: Option<CacheLoan>,
}

impl Hashes {
    /// Borrows memory from `cache` from now on.
    pub(super) fn borrow_from(&mut self, cache: Arc<Cache>) {
        self.loan = Some(CacheLoan::new(cache));
    }

    #[inline]
    pub(super) fn push(&mut self, hash: u64) {
        self.count += 1;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_BYTES => chunk.extend_from_slice(&hash.to_ne_bytes()),
            _ => self.add_chunk(hash),
        }
    }

    #[cold]
    fn add_chunk(&mut self, hash: u64) {
        if let Some(loan) = self.loan.as_mut().filter(|_| !self.chunks.is_empty()) {
            loan.grow(u64_of(CHUNK_BYTES));
        }
        let mut chunk = AlignedBuffer::default();
        chunk.extend_from_slice(&hash.to_ne_bytes());
        self.chunks.push(chunk);
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        let hashes = self.chunks.iter().flat_map(|chunk| chunk.as_chunks().0);
        hashes.map(|hash| u64::from_ne_bytes(*hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::checksum::hash_key;

    fn false_positives(keys: u64, bits_per_key: f64) -> f64 {
        let hashes: Vec<_> = (0..keys).map(|key| hash_key(&key.to_be_bytes())).collect();
        let layout = Layout::new(hashes.len(), bits_per_key).unwrap();
        assert!(layout.is_sound());
        let images = layout.build(hashes.iter().copied());
        let may_contain = |hash| {
            let (part, at) = layout.place(hash);
            let line = images[part][RAW_PAYLOAD_AT + at..].first_chunk().unwrap();
            layout.may_contain(line, hash)
        };
        assert!(hashes.iter().all(|hash| may_contain(*hash)), "a false negative at {bits_per_key} bits");
        let others = keys..keys + 100_000;
        let positives = others.filter(|key| may_contain(hash_key(&key.to_be_bytes()))).count();
        f64::from(u32_of(positives)) / 100_000.0
    }

    #[test]
    fn no_key_is_missed_and_few_strangers_pass() {
        for (bits_per_key, rate) in [(1.0, 0.7), (5.0, 0.12), (9.5, 0.014), (10.0, 0.012), (16.0, 0.003), (64.0, 0.001)]
        {
            assert!(false_positives(120_000, bits_per_key) < rate, "{bits_per_key} bits per key");
            assert!(false_positives(7, bits_per_key) <= 1.0);
        }
    }

    #[test]
    fn hashes_come_back_in_their_order_and_the_cache_lends_memory_for_many() {
        let cache = Arc::new(Cache::new(8 << 20));
        let per_chunk = CHUNK_BYTES / size_of::<u64>();
        for count in [0, 1, per_chunk - 1, per_chunk, per_chunk + 1, 3 * per_chunk] {
            let mut hashes = Hashes::default();
            hashes.borrow_from(Arc::clone(&cache));
            (0..u64_of(count)).for_each(|hash| hashes.push(hash));
            assert_eq!(hashes.len(), count);
            assert!(hashes.iter().eq(0..u64_of(count)));
            let chunks = count.div_ceil(per_chunk);
            assert_eq!(cache.lent_bytes(), u64_of(chunks.saturating_sub(1) * CHUNK_BYTES), "{count}");
            drop(hashes);
            assert_eq!(cache.lent_bytes(), 0);
        }
    }

    #[test]
    fn without_bits_or_keys_there_is_no_filter() {
        assert_eq!((Layout::new(9, 0.0), Layout::new(0, 10.0)), (None, None));
    }
}
