//! The bytes of a block's image.
//!
//! # Format
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | kind ([`BlockKind`]) |
//! | 1 | 1 | flags: bit 0 [`FLAG_VERSIONED`] or bit 1 [`FLAG_KINDS`], the others zero |
//! | 2 | 2 | zero |
//! | 4 | 4 | `n`, the number of entries |
//! | 8 | 4 | `p`, the length of the prefix that all keys share |
//! | 12 | p | the prefix |
//! | 12 + p | 0–3 | padding to a multiple of four |
//! | H | 4 n | heads: the first four bytes of each suffix, padded with zeros, as a number (little-endian) |
//! | H + 4 n | 4 (n + 1) | offsets: where each entry begins in the image, and where the image ends |
//! | H + 8 n + 4 | | the entries, back to back |
//!
//! An entry is
//!
//! | bytes | field |
//! |---|---|
//! | 8, only with [`FLAG_VERSIONED`] | seqnum << 8 \| kind |
//! | 1, only with [`FLAG_KINDS`] | kind |
//! | varint | length of the suffix |
//! | | the suffix: the key without the prefix |
//! | | the value: the rest of the entry |
//!
//! With [`FLAG_KINDS`] all entries have seqnum zero; without a flag they are puts besides. The heads lie apart from the
//! entries, so that a search touches few cache lines.
//!
//! A raw block is [`RAW_PAYLOAD_AT`] bytes of header (kind, then zeros) and the payload.
//!
//! # Invariants
//! 1. Keys ascend; in a leaf, versions of one key have descending seqnums, except that a single-delete of seqnum zero
//!    may follow another version of seqnum zero. A branch may repeat a key.
//! 2. Heads are those of the suffixes; offsets ascend.
//! 3. A tombstone has no value.

use crate::base::num::{round_up, u64_of, usize_of};
use crate::base::{Kind, SeqNum};

/// Entries carry their seqnum and kind.
pub const FLAG_VERSIONED: u8 = 1;
/// Entries carry their kind: their seqnum is zero.
pub const FLAG_KINDS: u8 = 2;

pub(super) const KIND_AT: usize = 0;
pub(super) const FLAGS_AT: usize = 1;
pub(super) const ZERO_AT: usize = 2;
pub(super) const COUNT_AT: usize = 4;
pub(super) const PREFIX_LEN_AT: usize = 8;
pub(super) const PREFIX_AT: usize = 12;
const _: () = assert!(ZERO_AT + 2 == COUNT_AT && COUNT_AT + 4 == PREFIX_LEN_AT && PREFIX_LEN_AT + 4 == PREFIX_AT);

/// Where the payload of a raw block begins.
pub const RAW_PAYLOAD_AT: usize = 64;

/// The longest image: the largest value, its key and then some.
pub const IMAGE_BYTES_MAX: usize = 1 << 30;
const _: () = assert!(IMAGE_BYTES_MAX > crate::base::key::VALUE_BYTES_MAX + 4 * crate::base::key::KEY_BYTES_MAX);

/// What the entries of a block carry in front of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meta {
    /// Nothing.
    None,
    /// Their kind.
    Kind,
    /// Their seqnum and kind.
    Version,
}

impl Meta {
    /// What the flags of a block say, if these are sound.
    #[inline]
    pub(super) const fn of_flags(flags: u8) -> Option<Self> {
        match flags {
            0 => Some(Self::None),
            FLAG_KINDS => Some(Self::Kind),
            FLAG_VERSIONED => Some(Self::Version),
            _ => None,
        }
    }

    pub(super) const fn flags(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Kind => FLAG_KINDS,
            Self::Version => FLAG_VERSIONED,
        }
    }

    /// The least that an entry must carry.
    #[inline]
    pub(super) const fn needed(seqnum: SeqNum, kind: Kind) -> Self {
        match (seqnum, kind) {
            (SeqNum::ZERO, Kind::Put) => Self::None,
            (SeqNum::ZERO, _) => Self::Kind,
            _ => Self::Version,
        }
    }

    /// Length in bytes.
    #[inline]
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Kind => 1,
            Self::Version => 8,
        }
    }
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockKind {
    /// The entries of a tree. Stored; never reuse the number.
    Leaf = 1,
    /// Separators and the pointers to what lies below them. Stored; never reuse the number.
    Branch = 2,
    /// Bytes without entries, such as a filter. Stored; never reuse the number.
    Raw = 3,
}

impl BlockKind {
    /// The kind that a stored byte names, if any.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Leaf),
            2 => Some(Self::Branch),
            3 => Some(Self::Raw),
            _ => None,
        }
    }
}

/// Where the heads begin when the prefix has `prefix_len` bytes.
pub(super) const fn heads_at(prefix_len: usize) -> usize {
    usize_of(round_up(u64_of(PREFIX_AT + prefix_len), 4))
}

/// The first four bytes of a suffix as a big-endian number: heads order as their suffixes do, up to ties.
#[inline]
#[must_use]
pub fn head(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<4>() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 4];
            bytes[..suffix.len()].copy_from_slice(suffix);
            u32::from_be_bytes(bytes)
        }
    }
}

/// An image of a raw block whose payload, `image[RAW_PAYLOAD_AT..]`, is `payload_bytes` zeros for the caller to fill.
///
/// # Panics
/// When the image would be longer than [`IMAGE_BYTES_MAX`].
#[must_use]
pub fn raw_image(payload_bytes: usize) -> Vec<u8> {
    assert!(payload_bytes <= IMAGE_BYTES_MAX - RAW_PAYLOAD_AT, "a raw block of {payload_bytes} bytes");
    let mut image = vec![0; RAW_PAYLOAD_AT + payload_bytes];
    image[KIND_AT] = BlockKind::Raw as u8;
    image
}
