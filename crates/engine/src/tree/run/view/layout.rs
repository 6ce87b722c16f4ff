//! How a view lies in memory: parts, groups, and where each entry is.

use crate::base::memory::Image;
use crate::base::num::{u64_of, usize_of, usize_of32};
use crate::base::prefetch::prefetch;
use crate::block::{Block, Bound, search};
use crate::tree::cursor::Position;
use crate::tree::leaf_cursor::KeyBound;
use crate::tree::run::format::INDEX_PART_BYTES;

/// Entries of a group.
pub(super) const GROUP_ENTRIES: usize = 24;
pub(super) const PREFIX_LEN_AT: usize = 2;
pub(super) const PREFIX_AT_AT: usize = 4;
pub(super) const PREFIX_AT: usize = 8;
pub(super) const HEADS_AT: usize = 32;
pub(super) const LOCATORS_AT: usize = HEADS_AT + 4 * GROUP_ENTRIES;
/// Bytes of a group.
pub(super) const GROUP_BYTES: usize = LOCATORS_AT + 8 * GROUP_ENTRIES;
const _: () = assert!(LOCATORS_AT == 128 && GROUP_BYTES == 320);

/// Bytes that an entry takes in memory, about.
pub const ENTRY_BYTES: u64 = (GROUP_BYTES / GROUP_ENTRIES) as u64 + 2;

/// A row of groups.
pub(super) struct Part {
    /// The separator of each group: not below its keys, and not above those of the next.
    pub(super) separators: Block,
    /// The groups, then the prefixes that are too long for them.
    pub(super) groups: Image,
    /// Where the groups end.
    pub(super) groups_bytes: usize,
}

/// Where an entry lies: tree, run, part of its index, leaf, place in the leaf, and whether the next entry of the view
/// is of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryLocator(pub(super) u64);

/// Bits of the fields of a [`EntryLocator`], from the lowest.
pub(super) const LOCATOR_BITS: [u32; 6] = [1, AT_BITS, LEAF_BITS, PART_BITS, RUN_BITS, TREE_BITS];
pub(super) const AT_BITS: u32 = 17;
pub(super) const LEAF_BITS: u32 = 13;
pub(super) const PART_BITS: u32 = 14;
pub(super) const RUN_BITS: u32 = 13;
pub(super) const TREE_BITS: u32 = 6;
const _: () = assert!(1 + AT_BITS + LEAF_BITS + PART_BITS + RUN_BITS + TREE_BITS == u64::BITS);
// An entry has nine bytes at least: its head, where it lies, and the length of its suffix. A pointer of the index has
// more.
const _: () = assert!((1 << 20) / 9 < 1 << AT_BITS && INDEX_PART_BYTES / 9 < 1 << LEAF_BITS);

impl EntryLocator {
    /// `None` where a number is too large.
    pub(super) fn new(tree: usize, position: Position) -> Option<Self> {
        let Position { run, part, leaf, at } = position;
        let (mut locator, mut shift) = (0, 0);
        for (number, bits) in [0, at, leaf, part, run, tree].into_iter().zip(LOCATOR_BITS) {
            let number = u64_of(number);
            if number >> bits != 0 {
                return None;
            }
            locator |= number << shift;
            shift += bits;
        }
        Some(Self(locator))
    }

    pub(super) const fn followed_by_same_key(self) -> Self {
        Self(self.0 | 1)
    }

    pub(super) const fn is_followed_by_same_key(self) -> bool {
        self.0 & 1 != 0
    }

    pub(super) fn tree_and_position(self) -> (usize, Position) {
        let (mut left, mut bits) = (self.0, LOCATOR_BITS.into_iter());
        let mut next = || {
            let bits = bits.next().unwrap_or(0);
            let number = usize_of(left & ((1 << bits) - 1));
            left >>= bits;
            number
        };
        let (_, at, leaf, part, run, tree) = (next(), next(), next(), next(), next(), next());
        (tree, Position { run, part, leaf, at })
    }
}

/// A group, and the long prefixes of its part.
#[derive(Clone, Copy)]
pub(super) struct Group<'v> {
    pub(super) bytes: &'v [u8; GROUP_BYTES],
    pub(super) long: &'v [u8],
}

impl<'v> Group<'v> {
    pub(super) fn u16_at(self, at: usize) -> usize {
        usize::from(self.bytes[at]) | usize::from(self.bytes[at + 1]) << 8
    }

    pub(super) fn count(self) -> usize {
        self.u16_at(0)
    }

    pub(super) fn prefix(self) -> &'v [u8] {
        let len = self.u16_at(PREFIX_LEN_AT);
        if len <= HEADS_AT - PREFIX_AT {
            return &self.bytes[PREFIX_AT..][..len];
        }
        let at = self.bytes[PREFIX_AT_AT..].first_chunk().map_or(0, |at| usize_of32(u32::from_le_bytes(*at)));
        &self.long[at..][..len]
    }

    pub(super) fn heads(self) -> &'v [[u8; 4]] {
        &self.bytes[HEADS_AT..LOCATORS_AT].as_chunks().0[..self.count()]
    }

    pub(super) fn locator(self, at: usize) -> EntryLocator {
        EntryLocator(u64::from_le_bytes(self.bytes[LOCATORS_AT..].as_chunks().0[at]))
    }

    /// What is known of the key of entry `at`.
    pub(super) fn key_bound(self, at: usize) -> KeyBound<'v> {
        KeyBound { prefix: self.prefix(), next: u32::from_le_bytes(self.heads()[at]) }
    }

    /// The first entry that is not below `key`, as far as heads tell.
    pub(super) fn bound(self, key: &[u8]) -> Bound {
        search::bound(self.prefix(), self.heads(), key)
    }

    /// Prefetches what a search reads.
    pub(super) fn prefetch(self) {
        prefetch(self.bytes.as_ptr(), LOCATORS_AT);
    }

    /// Prefetches the positions of the entries.
    pub(super) fn prefetch_locators(self) {
        prefetch(self.bytes[LOCATORS_AT..].as_ptr(), GROUP_BYTES - LOCATORS_AT);
    }

    /// How many entries from `at` on have the same head.
    pub(super) fn ties(self, at: usize) -> usize {
        let heads = &self.heads()[at..];
        heads.iter().take_while(|head| **head == heads[0]).count()
    }
}
