//! Writes a value file front to back.

use super::file::is_cached;
use super::pointer::ValuePointer;
use crate::base::{FileId, Result};
use crate::block::format::RAW_PAYLOAD_AT;
use crate::block::{Block, Compression, raw_image};
use crate::cache::Cache;
use crate::env::Env;
use crate::store::{BlockWriter, StoreStats};
use std::path::Path;
use std::sync::Arc;

/// A value file that is being written. Dropping it unfinished leaves a file behind to which nothing refers.
#[derive(Debug)]
pub struct ValueBuilder {
    id: FileId,
    writer: BlockWriter,
    compression: Compression,
    cache: Option<Arc<Cache>>,
}

impl ValueBuilder {
    /// Creates value file `id` at `path`, which must not exist yet.
    ///
    /// # Errors
    /// `Io` or `Full` when it cannot be created.
    pub fn create(
        env: &Env,
        path: &Path,
        id: FileId,
        identity: u64,
        compression: Compression,
        direct: bool,
        stats: Arc<StoreStats>,
    ) -> Result<Self> {
        Ok(Self { id, writer: BlockWriter::create(env, path, identity, direct, stats)?, compression, cache: None })
    }

    /// The same file, whose values go into `cache` as far as there is room for them. It must then be opened as the
    /// [`Self::instance`] that it was written as.
    #[must_use]
    pub fn populating(mut self, cache: Arc<Cache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The number under which the cache knows the file.
    #[must_use]
    pub const fn instance(&self) -> u64 {
        self.writer.instance()
    }

    /// Adds a value, and says where it is.
    ///
    /// # Errors
    /// `Io` or `Full` when the file cannot be written. It must not be used then.
    pub fn push(&mut self, value: &[u8]) -> Result<ValuePointer> {
        let mut image = raw_image(value.len());
        image[RAW_PAYLOAD_AT..].copy_from_slice(value);
        let block = self.writer.append(&image, self.compression)?;
        if let Some(cache) = self.cache.as_ref().filter(|_| is_cached(block)) {
            cache.populate(self.writer.instance(), block, image.len(), || Block::built(&image));
        }
        Ok(ValuePointer { file: self.id, block })
    }

    /// Bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.writer.position()
    }

    /// Waits for the write that is under way, when the file is not to be finished.
    ///
    /// # Errors
    /// `Io` or `Full` when it failed.
    pub fn abandon(self) -> Result<()> {
        self.writer.abandon()
    }

    /// Leaves the sync of the file to the caller.
    pub const fn leave_sync(&mut self) {
        self.writer.leave_sync();
    }

    /// Writes the rest and forces the file, not its name, to the device.
    ///
    /// # Errors
    /// As [`ValueBuilder::push`].
    pub fn finish(self) -> Result<FileId> {
        self.writer.finish()?;
        Ok(self.id)
    }
}
