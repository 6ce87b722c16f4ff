//! Streams: entries that become leaves, and children that become branches, one block after another from left to right.
//!
//! A stream holds back what it would need to end well: two half-full blocks rather than a full one and a crumb.

use std::collections::VecDeque;

use crate::base::Entry;
use crate::block::{Block, BlockBuilder, BlockKind, BlockPointer};

/// The versions of a key are spread over leaves only where they would fill so many.
const SPREAD_LEAVES: usize = 16;
/// A stream holds less than one part in so many of a block: *small*.
const SMALL_PART: usize = 4;
/// A child takes so many bytes in a branch beside its separator: pointer, head, offset, length.
const CHILD_BYTES: usize = BlockPointer::BYTES + 4 + 4 + 2;
/// What a branch takes beside its children: header, padding, last offset.
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

/// How many bytes two keys share at their beginning.
fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
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
    /// Whether changes of `key`, which is not below the bounds, go into this subtree: new versions come before old ones, so
    /// that where versions of one key lie on both sides of a border, they go to its left.
    #[inline]
    pub(super) fn reach(&self, key: &[u8]) -> bool {
        self.upper.is_none_or(|upper| key < upper.key || (upper.continues && key == upper.key))
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

    /// Says that entries follow from `lower` on (`None`: from the start of the tree), out of a leaf that is `cached` or not.
    pub(super) fn begin(&mut self, lower: Option<Border<'_>>, cached: bool) {
        if self.builder.is_empty() {
            self.separator = lower.map(Separator::from);
            self.cached = false;
        }
        self.source_cached = cached;
        self.cached |= cached;
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
        // Where only new entries lie behind a full leaf, more are likely to come there: so keys that ascend fill their leaves.
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
            let block = Block::parse(image.into_boxed_slice()).expect("what a builder finished is a block");
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
        (self.image_bytes() > 2 * self.bytes_max).then(|| self.fitting()).map(|count| self.cut(count))
    }

    /// Whether what the stream holds would make a small branch.
    pub(super) fn is_small(&self) -> bool {
        !self.children.is_empty() && self.image_bytes() < self.bytes_max / SMALL_PART
    }

    /// Ends the stream: the children of the branches that are left to write, in order. At the right edge of the tree, where
    /// more are likely to come, the first branch is full.
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

    /// How many of the first children fit a branch.
    fn fitting(&self) -> usize {
        let mut key_bytes = 0;
        let fits = self.children.iter().enumerate().take_while(|(i, child)| {
            key_bytes += child.separator.key.len();
            image_bytes(i + 1, key_bytes, self.shared(i + 1)) <= self.bytes_max
        });
        fits.count().clamp(CHILDREN_MIN, self.len().max(2 * CHILDREN_MIN) - CHILDREN_MIN)
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
