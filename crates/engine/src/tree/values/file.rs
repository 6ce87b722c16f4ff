//! An open value file.

use crate::base::debug::debug_by;
use crate::base::{FileId, Result, Value};
use crate::block::{Block, BlockKind, BlockPointer};
use crate::cache::{Cache, Fill, Wanted};
use crate::env::{Access, Env};
use crate::store::{BlockFile, StoreStats};
use std::path::Path;
use std::sync::Arc;

/// A value whose block has more bytes than this on disk passes the cache by: it would drive out too much else.
const CACHED_BYTES_MAX: u32 = 128 << 10;

/// A file of values, open for reading. Its blocks leave the cache when it is dropped.
pub struct ValueFile {
    id: FileId,
    file: BlockFile,
    bytes: u64,
    cache: Arc<Cache>,
}

impl ValueFile {
    /// Opens value file `id` at `path`, whose blocks were written under `identity`.
    ///
    /// # Errors
    /// `Io` when it cannot be opened.
    pub fn open(
        env: &Env,
        path: &Path,
        id: FileId,
        identity: u64,
        direct: bool,
        cache: Arc<Cache>,
        stats: Arc<StoreStats>,
    ) -> Result<Arc<Self>> {
        Self::of(BlockFile::open_lazily(env, path, identity, Access::Read, direct, stats)?, id, cache)
    }

    /// As [`Self::open`], of a file of which is known how many bytes it has: nothing of it is touched before its first
    /// value is read.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn untouched(
        env: &Env,
        path: &Path,
        (id, bytes): (FileId, u64),
        identity: u64,
        direct: bool,
        cache: Arc<Cache>,
        stats: Arc<StoreStats>,
    ) -> Result<Arc<Self>> {
        let file = BlockFile::open_lazily(env, path, identity, Access::Read, direct, stats)?;
        Ok(Arc::new(Self { id, file, bytes, cache }))
    }

    /// Value file `id`, which is open as `file`.
    ///
    /// # Errors
    /// `Io` when its length cannot be read.
    pub fn of(file: BlockFile, id: FileId, cache: Arc<Cache>) -> Result<Arc<Self>> {
        let bytes = file.len()?;
        Ok(Arc::new(Self { id, file, bytes, cache }))
    }

    /// Which file it is.
    #[must_use]
    pub const fn id(&self) -> FileId {
        self.id
    }

    /// Its length.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the value whose block `pointer` points to.
    ///
    /// # Errors
    /// `Corruption` when it is not what was written there, `Io` when it cannot be read.
    pub fn read(&self, pointer: BlockPointer, fill: Fill) -> Result<Value> {
        let fill = if is_cached(pointer) { fill } else { Fill::Bypass };
        self.value(pointer, self.cache.get(&self.file, pointer, fill)?)
    }

    /// As [`Self::read`], from the file, also where the cache has it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn read_from_file(&self, pointer: BlockPointer) -> Result<Value> {
        self.value(pointer, self.file.read(pointer)?)
    }

    /// Reads values of several files, in parallel where the system can.
    ///
    /// # Errors
    /// As [`ValueFile::read`], of the first value that has one.
    pub(super) fn read_many(wanted: &[(&Self, BlockPointer)]) -> Result<Vec<Value>> {
        let Some((first, _)) = wanted.first() else { return Ok(Vec::new()) };
        let read = |fill, cached: bool| {
            let those = wanted.iter().filter(|(_, pointer)| is_cached(*pointer) == cached);
            let those = those.map(|(file, pointer)| Wanted { file: &file.file, pointer: *pointer, swip: None });
            let those: Vec<_> = those.collect();
            first.cache.get_many(&those, fill).map(Vec::into_iter)
        };
        let (mut small, mut large) = (read(Fill::Keep, true)?, read(Fill::Bypass, false)?);
        let value = |(file, pointer): &(&Self, BlockPointer)| {
            let block = if is_cached(*pointer) { small.next() } else { large.next() };
            file.value(*pointer, block.expect("a block was read for each value"))
        };
        wanted.iter().map(value).collect()
    }

    fn value(&self, pointer: BlockPointer, block: Block) -> Result<Value> {
        if block.kind() != BlockKind::Raw {
            return Err(self
                .file
                .corruption(pointer.offset, format_args!("a value was expected, and this is {block:?}")));
        }
        let (at, len) = (block.payload_at(), block.bytes().len());
        Ok(block.pinned(at, len))
    }
}

pub(super) const fn is_cached(pointer: BlockPointer) -> bool {
    pointer.bytes <= CACHED_BYTES_MAX
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        self.cache.forget(self.file.instance());
    }
}

debug_by!(ValueFile, self => path: self.file.path(), bytes: self.bytes);
