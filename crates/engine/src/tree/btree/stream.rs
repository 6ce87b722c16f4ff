//! Streams: entries that become leaves, and children that become branches, one block after another from left to right.
//!
//! A stream holds back what it would need to end well: two half-full blocks rather than a full one and a crumb.

use std::collections::VecDeque;
use std::ops::Bound;

use crate::base::Entry;
use crate::base::key::shared_bytes;
use crate::block::{Block, BlockBuilder, BlockKind, BlockPointer};

/// Leaves that the versions of a key must fill before they are spread over several.
const SPREAD_LEAVES: usize = 16;
/// A stream that holds less than this part of a block is *small*.
const SMALL_PART: usize = 4;
/// Bytes that a child takes in a branch besides its separator: pointer, head, offset, length.
const CHILD_BYTES: usize = BlockPointer::BYTES + 4 + 4 + 2;
/// Bytes that a branch takes in addition to its children: header, padding, last offset.
const BRANCH_HEADER_BYTES: usize = 12 + 3 + 4;
/// Branches are not cut so that one has fewer children: each level has less than half the blocks of the one below.
const CHILDREN_MIN: usize = 2;

/// The border before a child of a branch: not above any key of the child, and above all keys to the left of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Border<'k> {
    pub(super) key: &'k [u8],
    /// The key to the left may be equal: versions of it may lie on both sides.
    pub(super) continues: bool,
}

impl<'k> Border<'k> {
    /// The shortest border between an entry with the key `left` and the one with `right` after it.
    fn between(left: &[u8], right: &'k [u8]) -> Self {
        let shared = shared_bytes(left, right);
        Self { key: &right[..right.len().min(shared + 1)], continues: shared == right.len() }
    }
}

/// A [`Border`] with a key of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Separator {
    pub(super) key: Vec<u8>,
    pub(super) continues: bool,
}

impl From<Border<'_>> for Separator {
    fn from(border: Border<'_>) -> Self {
        Self { key: border.key.to_vec(), continues: border.continues }
    }
}

/// The keys that a subtree can hold: from `lower` (`None`: the start) to before `upper` (`None`: the end).
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds<'k> {
    pub(super) lower: Option<Border<'k>>,
    pub(super) upper: Option<Border<'k>>,
}

impl Bounds<'_> {
    /// Whether changes of `key`, which is not below the bounds, go into this subtree: new versions come before old
    /// ones, so that where versions of one key lie on both sides of a border, they go to its left.
    #[inline]
    pub(super) fn reach(&self, key: &[u8]) -> bool {
        self.upper.is_none_or(|upper| key < upper.key || (upper.continues && key == upper.key))
    }

    /// The key where the subtree ends.
    pub(super) fn end(&self) -> Bound<&[u8]> {
        match self.upper {
            None => Bound::Unbounded,
            Some(upper) if upper.continues => Bound::Included(upper.key),
            Some(upper) => Bound::Excluded(upper.key),
        }
    }

    /// Whether all entries of `leaf` are within the bounds.
    pub(super) fn hold(&self, leaf: &Block) -> bool {
        self.lower.is_none_or(|lower| leaf.compare_key(0, lower.key).is_ge())
            && self.upper.is_none_or(|upper| {
                let order = leaf.compare_key(leaf.count() - 1, upper.key);
                order.is_lt() || (upper.continues && order.is_eq())
            })
    }
}

/// A finished leaf that is not written yet.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) image: Vec<u8>,
    pub(super) separator: Separator,
    /// Entries come from leaves that were in the cache.
    pub(super) cached: bool,
}

/// The stream of entries.
#[derive(Debug)]
pub(super) struct LeafStream {
    builder: BlockBuilder,
    /// The separator of what is in the builder; `None` only while the builder is empty.
    separator: Option<Separator>,
    /// A full leaf, held back in case what follows is too little for a leaf of its own.
    full: Option<Leaf>,
    /// The builder holds entries that were in the tree before.
    old: bool,
    /// Entries in the builder come from leaves that were in the cache.
    cached: bool,
    /// The leaf that entries come from now is in the cache.
    source_cached: bool,
    bytes_max: usize,
}

impl LeafStream {
    /// An empty stream into leaves of up to `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let builder = BlockBuilder::new(BlockKind::Leaf);
        Self { builder, separator: None, full: None, old: false, cached: false, source_cached: false, bytes_max }
    }

    /// Says that entries follow from `lower` on (`None`: from the start of the tree), out of a leaf that is `cached` or
    /// not.
    pub(super) fn begin(&mut self, lower: Option<Border<'_>>, cached: bool) {
        if self.builder.is_empty() {
            self.separator = lower.map(Separator::from);
            self.cached = false;
        }
        self.source_cached = cached;
        self.cached |= cached;
    }

    /// Says whether the change that follows is likely to be read soon, as entries of leaves in the cache are.
    #[inline]
    pub(super) const fn source(&mut self, is_cached: bool) {
        self.cached |= is_cached;
    }

    /// Adds an entry, which comes from a leaf (`old`) or from the changes. Returns a leaf to write.
    #[inline]
    pub(super) fn push(&mut self, entry: &Entry<'_>, old: bool) -> Option<Leaf> {
        let mut ready = None;
        if self.builder.is_empty() {
            let lowest = || Separator { key: entry.key.to_vec(), continues: false };
            self.separator.get_or_insert_with(lowest);
        } else {
            let bytes = self.builder.image_bytes_with(entry);
            if bytes > self.bytes_max
                && (self.builder.last_key() != entry.key || bytes / SPREAD_LEAVES > self.bytes_max)
            {
                let next = Border::between(self.builder.last_key(), entry.key).into();
                let leaf = self.cut(Some(next));
                ready = leaf.and_then(|leaf| self.full.replace(leaf));
            }
        }
        self.builder.push(entry);
        self.old |= old;
        ready
    }

    /// What is in the builder as a leaf. Entries after `next` follow.
    fn cut(&mut self, next: Option<Separator>) -> Option<Leaf> {
        let separator = std::mem::replace(&mut self.separator, next)?;
        let leaf = Leaf { image: self.builder.finish(), separator, cached: self.cached };
        self.cached = self.source_cached;
        self.old = false;
        Some(leaf)
    }

    /// Whether what the stream holds would make a small leaf.
    pub(super) fn is_small(&self) -> bool {
        self.full.is_none() && !self.builder.is_empty() && self.builder.image_bytes() < self.bytes_max / SMALL_PART
    }

    /// Ends the stream: the leaves that are left to write, in order.
    pub(super) fn end(&mut self) -> [Option<Leaf>; 2] {
        if self.builder.is_empty() {
            return [None, None];
        }
        // Where only new entries lie behind a full leaf, more are likely to come there: so keys that ascend fill their
        // leaves.
        let crumb = self.old && self.builder.image_bytes() < self.bytes_max / 2;
        let last = self.cut(None);
        match (self.full.take(), last) {
            (Some(full), Some(last)) if crumb => self.balance(full, last),
            (full, last) => [full, last],
        }
    }

    /// Two neighbouring leaves as two of about the same size.
    fn balance(&mut self, full: Leaf, last: Leaf) -> [Option<Leaf>; 2] {
        let half = usize::midpoint(full.image.len(), last.image.len());
        self.separator = Some(full.separator);
        self.cached = full.cached || last.cached;
        self.source_cached = self.cached;
        let (mut low, mut key) = (None, Vec::new());
        for image in [full.image, last.image] {
            let block = Block::built(&image);
            for i in 0..block.count() {
                let slot = block.slot(i);
                block.key_into(i, &mut key);
                let entry = Entry { key: &key, seqnum: slot.seqnum, kind: slot.kind, value: block.value(i) };
                let last_key = self.builder.last_key();
                let over = low.is_none() && !self.builder.is_empty() && self.builder.image_bytes_with(&entry) > half;
                if over && last_key != key {
                    low = self.cut(Some(Border::between(last_key, &key).into()));
                }
                self.builder.push(&entry);
            }
        }
        let high = self.cut(None);
        [low, high]
    }
}

/// A block of the new tree that waits for its place in a branch.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) separator: Separator,
    pub(super) pointer: BlockPointer,
}

/// A stream of children.
#[derive(Debug)]
pub(super) struct BranchStream {
    children: VecDeque<Child>,
    key_bytes: usize,
    bytes_max: usize,
}

impl BranchStream {
    /// An empty stream into branches of up to `bytes_max` bytes.
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { children: VecDeque::new(), key_bytes: 0, bytes_max }
    }

    /// How many children the stream holds.
    pub(super) fn len(&self) -> usize {
        self.children.len()
    }

    /// Adds a child. Returns the children of a branch to write.
    pub(super) fn push(&mut self, child: Child) -> Option<Vec<Child>> {
        self.key_bytes += child.separator.key.len();
        self.children.push_back(child);
        let full = self.len() >= 2 * CHILDREN_MIN && self.image_bytes() > 2 * self.bytes_max;
        full.then(|| self.fitting()).map(|count| self.cut(count))
    }

    /// Whether what the stream holds would make a small branch.
    pub(super) fn is_small(&self) -> bool {
        !self.children.is_empty() && self.image_bytes() < self.bytes_max / SMALL_PART
    }

    /// Ends the stream: the children of the branches that are left to write, in order. At the right edge of the tree,
    /// where more are likely to come, the first branch is full.
    pub(super) fn end(&mut self, edge: bool) -> [Vec<Child>; 2] {
        let count = match self.len() {
            len if self.image_bytes() <= self.bytes_max || len < 2 * CHILDREN_MIN => len,
            _ if edge => self.fitting(),
            len => len / 2,
        };
        let first = self.cut(count);
        [first, self.cut(self.len())]
    }

    fn cut(&mut self, count: usize) -> Vec<Child> {
        let children: Vec<_> = self.children.drain(..count).collect();
        self.key_bytes -= children.iter().map(|child| child.separator.key.len()).sum::<usize>();
        children
    }

    /// The length of an image with all children; a few bytes off.
    fn image_bytes(&self) -> usize {
        image_bytes(self.len(), self.key_bytes, self.shared(self.len()))
    }

    /// How many of the first children fit a branch, of at least twice [`CHILDREN_MIN`].
    fn fitting(&self) -> usize {
        let mut key_bytes = 0;
        let fits = self.children.iter().enumerate().take_while(|(i, child)| {
            key_bytes += child.separator.key.len();
            image_bytes(i + 1, key_bytes, self.shared(i + 1)) <= self.bytes_max
        });
        fits.count().clamp(CHILDREN_MIN, self.len() - CHILDREN_MIN)
    }

    /// How many bytes the first `count` separators share.
    fn shared(&self, count: usize) -> usize {
        match (self.children.front(), count.checked_sub(1).and_then(|last| self.children.get(last))) {
            (Some(first), Some(last)) => shared_bytes(&first.separator.key, &last.separator.key),
            _ => 0,
        }
    }
}

const fn image_bytes(count: usize, key_bytes: usize, shared: usize) -> usize {
    BRANCH_HEADER_BYTES + shared + key_bytes + count * CHILD_BYTES - count * shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Kind, SeqNum};

    fn push(stream: &mut LeafStream, key: &str, seqnum: u64, value: &[u8], old: bool) -> Option<Leaf> {
        stream.push(&Entry { key: key.as_bytes(), seqnum: SeqNum(seqnum), kind: Kind::Put, value }, old)
    }

    /// The leaves that `count` entries become, with their keys.
    fn leaves(count: u64, is_old: impl Fn(u64) -> bool) -> Vec<Leaf> {
        let mut stream = LeafStream::new(1000);
        stream.begin(None, false);
        let mut leaves: Vec<_> =
            (0..count).filter_map(|i| push(&mut stream, &format!("{i:06}"), 0, &[7; 20], is_old(i))).collect();
        leaves.extend(stream.end().into_iter().flatten());
        assert!(stream.end().into_iter().flatten().next().is_none());
        leaves
    }

    fn separator(key: &str, continues: bool) -> Separator {
        Separator { key: key.as_bytes().to_vec(), continues }
    }

    #[test]
    fn a_border_is_no_longer_than_it_must_be() {
        let between = |left: &str, right: &str| Separator::from(Border::between(left.as_bytes(), right.as_bytes()));
        assert_eq!(between("apple", "banana"), separator("b", false));
        assert_eq!(between("ab", "abc"), separator("abc", false));
        assert_eq!(between("abc", "abdzzz"), separator("abd", false));
        assert_eq!(between("abc", "abc"), separator("abc", true));
    }

    #[test]
    fn no_stream_ends_with_a_crumb_of_old_entries() {
        for count in 1..200 {
            let leaves = leaves(count, |_| true);
            let entries =
                leaves.iter().map(|leaf| Block::parse(leaf.image.clone().into()).unwrap().count()).sum::<usize>();
            assert_eq!(entries as u64, count);
            assert!(leaves.iter().all(|leaf| leaf.image.len() <= 1000));
            assert!(leaves.len() == 1 || leaves.iter().all(|leaf| leaf.image.len() > 400), "{count} entries");
        }
    }

    #[test]
    fn new_entries_at_the_end_leave_full_leaves_behind() {
        let leaves = leaves(75, |i| i < 10);
        let (last, full) = leaves.split_last().unwrap();
        assert!(full.iter().all(|leaf| leaf.image.len() > 950) && last.image.len() < 500);
    }

    #[test]
    fn separators_lie_between_the_leaves() {
        let leaves = leaves(200, |_| true);
        assert_eq!(leaves[0].separator, separator("000000", false));
        for pair in leaves.windows(2) {
            let [left, right] = [&pair[0], &pair[1]].map(|leaf| Block::parse(leaf.image.clone().into()).unwrap());
            let border = &pair[1].separator;
            assert!(left.compare_key(left.count() - 1, &border.key).is_lt());
            assert!(right.compare_key(0, &border.key).is_ge() && !border.continues);
        }
    }

    #[test]
    fn versions_of_a_key_stay_together_until_they_fill_many_leaves() {
        let mut stream = LeafStream::new(1000);
        stream.begin(None, false);
        let mut leaves: Vec<_> = (1..400u64).rev().filter_map(|i| push(&mut stream, "k", i, &[7; 100], true)).collect();
        leaves.extend(stream.end().into_iter().flatten());
        assert!(leaves.len() > 1 && leaves.iter().rev().skip(1).all(|leaf| leaf.image.len() > 15_000));
        assert_eq!(leaves[1].separator, separator("k", true));
    }

    fn child(i: u64) -> Child {
        let pointer = BlockPointer { offset: i, bytes: 1, checksum: 0 };
        Child { separator: separator(&format!("shared/{i:06}"), false), pointer }
    }

    #[test]
    fn branches_are_balanced_except_at_the_right_edge() {
        for count in 1..400u64 {
            for edge in [false, true] {
                let mut stream = BranchStream::new(1000);
                let mut branches: Vec<_> = (0..count).filter_map(|i| stream.push(child(i))).collect();
                branches.extend(stream.end(edge).into_iter().filter(|children| !children.is_empty()));
                let offsets: Vec<_> = branches.iter().flatten().map(|child| child.pointer.offset).collect();
                assert!(offsets.into_iter().eq(0..count) && stream.len() == 0 && stream.key_bytes == 0);
                let (last, others) = branches.split_last().unwrap();
                assert!(others.is_empty() || last.len() >= if edge { CHILDREN_MIN } else { 15 });
                assert!(!edge || others.iter().all(|children| children.len() >= 30), "{count} children");
            }
        }
    }

    #[test]
    fn keys_longer_than_a_branch_still_come_in_pairs() {
        let mut stream = BranchStream::new(1000);
        let long = |i: u8| Child { separator: Separator { key: vec![i; 5000], continues: false }, ..child(0) };
        let mut branches: Vec<_> = (0..9).filter_map(|i| stream.push(long(i))).collect();
        branches.extend(stream.end(true));
        assert!(branches.iter().all(|children| children.is_empty() || children.len() >= CHILDREN_MIN));
    }
}
