//! Makes the image of a block from entries in stored order.

use super::format::{
    BlockKind, COUNT_AT, FLAGS_AT, IMAGE_BYTES_MAX, KIND_AT, Meta, PREFIX_AT, PREFIX_LEN_AT, head, heads_at,
};
use crate::base::codec::{put_varint, varint_len};
use crate::base::key::{descends, shared_bytes};
use crate::base::num::{u32_of, u64_of, usize_of32};
use crate::base::{Entry, SeqNum};
use std::cmp::Ordering;

/// Buffers that grew beyond this many bytes are given back after the block.
const KEEP_BYTES: usize = 4 << 20;

/// Collects entries and makes a block's image of them; its buffers serve one block after the other.
///
/// What all keys share is known only after the last one, so keys and values are kept as they come and laid out at the
/// end.
#[derive(Debug)]
pub struct BlockBuilder {
    kind: BlockKind,
    meta: Meta,
    keys: Vec<u8>,
    values: Vec<u8>,
    entries: Vec<Pushed>,
    /// How many bytes all keys share, so far.
    prefix_len: usize,
    /// Bytes of the varints in front of the suffixes, if these were whole keys.
    varint_bytes: usize,
}

/// An entry pushed: where its key and value end in the buffers, and its seqnum and kind as they are stored.
#[derive(Clone, Copy, Debug)]
struct Pushed {
    key_end: u32,
    value_end: u32,
    meta: u64,
}

impl BlockBuilder {
    /// An empty builder.
    ///
    /// # Panics
    /// For [`BlockKind::Raw`], which has no entries.
    #[must_use]
    pub fn new(kind: BlockKind) -> Self {
        assert!(kind != BlockKind::Raw, "a raw block has no entries");
        Self {
            kind,
            meta: Meta::None,
            keys: Vec::new(),
            values: Vec::new(),
            entries: Vec::new(),
            prefix_len: 0,
            varint_bytes: 0,
        }
    }

    /// Adds an entry, and says whether its key is another one than that of the entry before.
    ///
    /// # Panics
    /// When the entry is not above the one before, a tombstone has a value, or the block grows beyond
    /// [`IMAGE_BYTES_MAX`].
    #[inline]
    pub fn push(&mut self, entry: &Entry<'_>) -> bool {
        let order = if self.is_empty() { Ordering::Less } else { self.last_key().cmp(entry.key) };
        let meta = entry.seqnum.0 << 8 | entry.kind as u64;
        match order {
            Ordering::Less => {}
            Ordering::Equal => assert!(
                self.kind == BlockKind::Branch || descends(SeqNum(self.last_meta() >> 8), (entry.seqnum, entry.kind)),
                "versions of a key must have descending seqnums"
            ),
            Ordering::Greater => panic!("keys must ascend"),
        }
        assert!(entry.seqnum <= SeqNum::MAX, "a seqnum beyond 56 bits");
        assert!(entry.kind.has_value() || entry.value.is_empty(), "a tombstone has no value");
        let fits = self.image_bytes() + entry.key.len() + entry.value.len() + 64 <= IMAGE_BYTES_MAX;
        assert!(fits, "a block beyond {IMAGE_BYTES_MAX} bytes");

        self.prefix_len = self.prefix_len_with(entry.key);
        self.keys.extend_from_slice(entry.key);
        self.values.extend_from_slice(entry.value);
        self.meta = self.meta.max(Meta::needed(entry.seqnum, entry.kind));
        self.varint_bytes += varint_len(u64_of(entry.key.len()));
        self.entries.push(Pushed { key_end: u32_of(self.keys.len()), value_end: u32_of(self.values.len()), meta });
        order != Ordering::Equal
    }

    /// The number of entries so far.
    #[inline]
    #[must_use]
    pub const fn count(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry yet.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The key of the last entry; empty when there is none.
    #[inline]
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        let start = match self.entries.len() {
            0 | 1 => 0,
            count => usize_of32(self.entries[count - 2].key_end),
        };
        &self.keys[start..]
    }

    fn last_meta(&self) -> u64 {
        self.entries.last().map_or(0, |last| last.meta)
    }

    /// The length in bytes of the image of what was pushed so far; at most a few bytes too high.
    #[inline]
    #[must_use]
    pub fn image_bytes(&self) -> usize {
        let keys = self.keys.len() + self.varint_bytes;
        layout_bytes(self.prefix_len, self.count(), self.meta, keys, self.values.len())
    }

    /// What [`BlockBuilder::image_bytes`] would be after pushing `entry`.
    #[inline]
    #[must_use]
    pub fn image_bytes_with(&self, entry: &Entry<'_>) -> usize {
        let meta = self.meta.max(Meta::needed(entry.seqnum, entry.kind));
        let keys = self.keys.len() + self.varint_bytes + entry.key.len() + varint_len(u64_of(entry.key.len()));
        let values = self.values.len() + entry.value.len();
        layout_bytes(self.prefix_len_with(entry.key), self.count() + 1, meta, keys, values)
    }

    /// How many bytes all keys and `key` share.
    #[inline]
    fn prefix_len_with(&self, key: &[u8]) -> usize {
        if self.is_empty() {
            return key.len();
        }
        let prefix = &self.keys[..self.prefix_len];
        if key.starts_with(prefix) {
            return self.prefix_len;
        }
        shared_bytes(prefix, key)
    }

    /// The image of the entries. The builder is empty again.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        let mut image = Vec::new();
        self.finish_into(&mut image);
        image
    }

    /// As [`BlockBuilder::finish`], with the image in place of what `image` held.
    pub fn finish_into(&mut self, image: &mut Vec<u8>) {
        let (count, prefix_len) = (self.entries.len(), self.prefix_len);
        let heads_at = heads_at(prefix_len);
        let offsets_at = heads_at + 4 * count;
        let heap_at = offsets_at + 4 * (count + 1);

        image.clear();
        image.reserve(self.image_bytes());
        image.resize(heap_at, 0);
        image[KIND_AT] = self.kind as u8;
        image[FLAGS_AT] = self.meta.flags();
        image[COUNT_AT..][..4].copy_from_slice(&u32_of(count).to_le_bytes());
        image[PREFIX_LEN_AT..][..4].copy_from_slice(&u32_of(prefix_len).to_le_bytes());
        image[PREFIX_AT..][..prefix_len].copy_from_slice(&self.keys[..prefix_len]);

        let (mut key_start, mut value_start) = (0, 0);
        for (i, entry) in self.entries.iter().enumerate() {
            let (key_end, value_end) = (usize_of32(entry.key_end), usize_of32(entry.value_end));
            let suffix = &self.keys[key_start + prefix_len..key_end];
            let offset = u32_of(image.len());
            image[heads_at + 4 * i..][..4].copy_from_slice(&head(suffix).to_le_bytes());
            image[offsets_at + 4 * i..][..4].copy_from_slice(&offset.to_le_bytes());
            // The kind is the lowest byte.
            image.extend_from_slice(&entry.meta.to_le_bytes()[..self.meta.bytes()]);
            put_varint(image, u64_of(suffix.len()));
            image.extend_from_slice(suffix);
            image.extend_from_slice(&self.values[value_start..value_end]);
            (key_start, value_start) = (key_end, value_end);
        }
        let end = u32_of(image.len());
        image[heap_at - 4..heap_at].copy_from_slice(&end.to_le_bytes());
        self.clear();
    }

    /// Forgets the entries.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.entries.clear();
        self.keys.shrink_to(KEEP_BYTES);
        self.values.shrink_to(KEEP_BYTES);
        (self.prefix_len, self.varint_bytes, self.meta) = (0, 0, Meta::None);
    }
}

/// The length of an image whose `count` keys, with their varints, have `keys` bytes before the prefix is stripped.
#[inline]
const fn layout_bytes(prefix_len: usize, count: usize, meta: Meta, keys: usize, values: usize) -> usize {
    heads_at(prefix_len) + 4 + count * (8 + meta.bytes()) + (keys - count * prefix_len) + values
}
