//! The open file of a B-tree, as reading it needs it: blocks of a known height, through the cache.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::format::{HEADER_BYTES, check_header, encode_header};
use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, Result};
use crate::block::{Block, BlockKind, BlockPointer};
use crate::cache::{Cache, Fill};
use crate::env::{Access, AlignedBuffer, Env, File, OpenOptions};
use crate::store::BlockFile;
use crate::store::space::UNIT_BYTES;
use crate::tree::branch;

/// A tree file and the cache that its blocks are kept in.
#[derive(Debug)]
pub(super) struct TreeFile {
    pub(super) blocks: BlockFile,
    pub(super) cache: Arc<Cache>,
}

impl TreeFile {
    /// The block that `pointer` names, which lies `height` levels above the leaves.
    ///
    /// # Errors
    /// When the block cannot be read, is corrupt, or is no block of that height.
    #[inline]
    pub(super) fn get(&self, pointer: BlockPointer, height: u32, fill: Fill) -> Result<Block> {
        let block = self.cache.get(&self.blocks, pointer, fill)?;
        self.check(&block, pointer, height)?;
        Ok(block)
    }

    /// Checks that `block` can lie `height` levels above the leaves.
    #[inline]
    pub(super) fn check(&self, block: &Block, pointer: BlockPointer, height: u32) -> Result<()> {
        let kind = if height == 0 { BlockKind::Leaf } else { BlockKind::Branch };
        if block.kind() == kind && block.count() > 0 {
            return Ok(());
        }
        Err(self.corruption(pointer, format_args!("{block:?} lies {height} levels above the leaves")))
    }

    /// Child `i` of `branch`.
    ///
    /// # Errors
    /// When the branch says nothing sensible there.
    #[inline]
    pub(super) fn child(&self, branch: &Block, i: usize) -> Result<BlockPointer> {
        branch::pointer(branch, i)
            .map_err(|_| Error::corruption(self.path(), 0, format_args!("{branch:?} has no child {i}")))
    }

    pub(super) fn corruption(&self, pointer: BlockPointer, what: impl std::fmt::Display) -> Error {
        self.blocks.corruption(pointer.offset, what)
    }

    /// The error of a root that reaches units which its list of free space names, or which the file does not have.
    pub(super) fn unfit(&self) -> Error {
        self.blocks.corruption(0, "the tree reaches blocks that its list of free space names as free: run verify")
    }

    pub(super) fn path(&self) -> &Path {
        self.blocks.path()
    }

    /// Makes what was written so far durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.blocks.file().sync().map_err(|error| Error::io("sync", self.path(), error))?;
        self.blocks.stats().count_sync();
        Ok(())
    }

    /// Creates the file of a tree into which nothing was merged yet, with its header. A merge that a crash cut short
    /// may have created it before; nothing in it counts.
    pub(super) fn create(&self, env: &Env, direct: bool) -> Result<()> {
        let open = |access| env.fs.open(self.path(), OpenOptions { access, direct });
        let file = match open(Access::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                open(Access::Write).and_then(|file| file.set_len(0).map(|()| file))
            }
            created => created,
        };
        let file = file.map_err(|error| Error::io("create", self.path(), error).of_read().unchanged())?;
        self.write_header(&*file)
    }

    /// Writes the header of a new file.
    pub(super) fn write_header(&self, file: &dyn File) -> Result<()> {
        let mut header = AlignedBuffer::zeroed(usize_of(UNIT_BYTES));
        header[..HEADER_BYTES].copy_from_slice(&encode_header(self.blocks.identity()));
        file.write_at(&header, 0).map_err(|error| Error::io("write", self.path(), error))?;
        self.blocks.stats().count_write(header.len());
        Ok(())
    }

    /// Checks that the file has the header of its identity, and `bytes` bytes at least.
    pub(super) fn check_header(&self, bytes: u64) -> Result<()> {
        let mut header = AlignedBuffer::zeroed(usize_of(UNIT_BYTES));
        let read = self.blocks.file().read_at(&mut header, 0);
        let read = read.map_err(|error| Error::io("read", self.path(), error).of_read())?;
        check_header(&header[..read], self.blocks.identity(), self.path())?;
        let len = self.blocks.len()?;
        if len < bytes.max(u64_of(header.len())) {
            let what = format_args!("the file has {len} bytes, and its root accounts for {bytes}");
            return Err(Error::corruption(self.path(), len, what));
        }
        Ok(())
    }
}

impl Drop for TreeFile {
    fn drop(&mut self) {
        self.cache.forget(self.blocks.instance());
    }
}
