//! What a merge writes: leaves and, level by level, the branches above them, from left to right.
//!
//! Heights count from the leaves (0) up; each has a stream. Before a subtree of the old tree is kept as it is, the
//! streams of its height and below end ([`Output::settle`]).
//!
//! # Invariants
//! 1. Every separator is a lower bound of the keys below it, and above (with a mark: not below) all keys to its left.
//! 2. A branch's separator is that of its first child.
//! 3. No block is empty.

use super::file::TreeFile;
use super::format::CONTINUES;
use super::stream::{Border, BranchStream, Child, Leaf, LeafStream};
use crate::base::num::usize_of32;
use crate::base::{CoveragePoint, Entry, Kind, Result, SeqNum};
use crate::block::frame::FRAME_HEADER_BYTES;
use crate::block::{Block, BlockBuilder, BlockKind, BlockPointer, Compression};
use crate::store::ExtentWriter;

/// Branches have this many times the size of leaves, up to [`BRANCH_BYTES`]: they are few, and fewer levels are faster.
const BRANCH_FACTOR: usize = 4;
const BRANCH_BYTES: usize = 16 << 10;

/// The size that branches of a tree with leaves of this size are filled up to, in bytes.
#[must_use]
pub fn branch_bytes(block_bytes: usize) -> usize {
    (block_bytes * BRANCH_FACTOR).min(BRANCH_BYTES).max(block_bytes)
}

/// How many blocks and entries were written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) leaves: u64,
    pub(super) branches: u64,
    pub(super) entries: u64,
}

/// Where a merge writes to.
#[derive(Debug)]
pub(super) struct Output<'a> {
    file: &'a TreeFile,
    pub(super) writer: ExtentWriter<'a>,
    compression: Compression,
    leaves: LeafStream,
    /// Those of height 1 first.
    branches: Vec<BranchStream>,
    branch_bytes_max: usize,
    builder: BlockBuilder,
    pub(super) written: Written,
}

impl<'a> Output<'a> {
    /// An output through `writer`, which writes to `file`, in leaves of about `block_bytes` bytes before compression.
    pub(super) fn new(
        file: &'a TreeFile,
        writer: ExtentWriter<'a>,
        block_bytes: u32,
        compression: Compression,
    ) -> Self {
        let block_bytes = usize_of32(block_bytes);
        // A block and its frame's header together fill whole units.
        let payload = |bytes: usize| bytes.saturating_sub(FRAME_HEADER_BYTES).max(1);
        let branch_bytes = branch_bytes(block_bytes);
        Self {
            file,
            writer,
            compression,
            leaves: LeafStream::new(payload(block_bytes)),
            branches: Vec::new(),
            branch_bytes_max: payload(branch_bytes),
            builder: BlockBuilder::new(BlockKind::Branch),
            written: Written::default(),
        }
    }

    /// Says that entries follow from `lower` on (`None`: from the start of the tree), out of a leaf that is `cached` or
    /// not.
    pub(super) fn begin(&mut self, lower: Option<Border<'_>>, cached: bool) {
        self.leaves.begin(lower, cached);
    }

    /// Says whether the change that follows is likely to be read soon, as entries of leaves in the cache are.
    #[inline]
    pub(super) const fn source(&mut self, is_cached: bool) {
        self.leaves.source(is_cached);
    }

    /// Adds an entry, which comes from a leaf (`old`) or from the changes.
    #[inline]
    pub(super) fn push(&mut self, entry: &Entry<'_>, old: bool) -> Result<()> {
        self.written.entries += 1;
        match self.leaves.push(entry, old) {
            Some(leaf) => self.write_leaf(leaf),
            None => Ok(()),
        }
    }

    /// Ends the streams up to `height`, so that a subtree of that height can be kept as it is. False when one of them
    /// would end with a small block: the subtree should rather be rewritten, or its children be kept.
    pub(super) fn settle(&mut self, height: u32) -> Result<bool> {
        for height in 0..=usize_of32(height) {
            let small = match height.checked_sub(1) {
                None => self.leaves.is_small(),
                Some(level) => self.branches.get(level).is_some_and(BranchStream::is_small),
            };
            if small {
                return Ok(false);
            }
            self.end(height, false)?;
        }
        Ok(true)
    }

    /// Keeps a subtree of the old tree, of height `height`.
    pub(super) fn keep(&mut self, height: u32, border: Border<'_>, pointer: BlockPointer) -> Result<()> {
        self.add(usize_of32(height) + 1, Child { separator: border.into(), pointer })
    }

    /// Ends all streams, and says what the root is and how high it is. What was written is not durable yet.
    pub(super) fn finish(&mut self) -> Result<Option<(BlockPointer, u32)>> {
        let mut height = 0;
        loop {
            self.end(height, true)?;
            height += 1;
            if self.branches.get(height..).unwrap_or_default().iter().all(|stream| stream.len() == 0) {
                let Some(stream) = self.branches.get_mut(height - 1) else { return Ok(None) };
                if stream.len() <= 1 {
                    let [children, _] = stream.end(true);
                    let below = u32::try_from(height - 1).expect("a tree is not that high");
                    return Ok(children.first().map(|child| (child.pointer, below)));
                }
            }
        }
    }

    /// Ends the stream of `height`.
    fn end(&mut self, height: usize, edge: bool) -> Result<()> {
        if height == 0 {
            for leaf in self.leaves.end().into_iter().flatten() {
                self.write_leaf(leaf)?;
            }
        } else if let Some(stream) = self.branches.get_mut(height - 1) {
            for children in stream.end(edge) {
                self.write_branch(height, children)?;
            }
        }
        Ok(())
    }

    /// Adds a child to the stream of `height`.
    fn add(&mut self, height: usize, child: Child) -> Result<()> {
        while self.branches.len() < height {
            self.branches.push(BranchStream::new(self.branch_bytes_max));
        }
        match self.branches[height - 1].push(child) {
            Some(children) => self.write_branch(height, children),
            None => Ok(()),
        }
    }

    fn write_leaf(&mut self, leaf: Leaf) -> Result<()> {
        let pointer = self.write(leaf.image, self.compression, leaf.cached)?;
        self.written.leaves += 1;
        self.add(1, Child { separator: leaf.separator, pointer })
    }

    fn write_branch(&mut self, height: usize, children: Vec<Child>) -> Result<()> {
        for Child { separator, pointer } in &children {
            if separator.continues {
                CoveragePoint::KeyParted.mark();
            }
            let seqnum = if separator.continues { CONTINUES } else { SeqNum::ZERO };
            let value = pointer.encode();
            self.builder.push(&Entry { key: &separator.key, seqnum, kind: Kind::Put, value: &value });
        }
        let Some(Child { separator, .. }) = children.into_iter().next() else { return Ok(()) };
        let image = self.builder.finish();
        // Pointers do not compress, and a search for a leaf reads them first.
        let pointer = self.write(image, Compression::None, true)?;
        self.written.branches += 1;
        self.add(height + 1, Child { separator, pointer })
    }

    /// Writes a block. One that is likely to be read soon goes into the cache at once, others where it has room for
    /// them; at all events, what the cache may hold of an older block at that place leaves it.
    fn write(&mut self, image: Vec<u8>, compression: Compression, keep: bool) -> Result<BlockPointer> {
        let pointer = self.writer.append(&image, compression)?;
        let (cache, instance) = (&self.file.cache, self.file.blocks.instance());
        cache.forget_block(instance, pointer.offset);
        if keep {
            drop(cache.insert(instance, pointer, Block::built(&image)));
        } else {
            cache.populate(instance, pointer, image.len(), || Block::built(&image));
        }
        Ok(pointer)
    }
}
