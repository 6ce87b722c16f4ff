//! The index and the filter of a run while the run is written. Both are kept in memory until all leaves are written.

use super::cache_populate::CachePopulate;
use super::filter::{Hashes, Layout, bits_of};
use super::format::INDEX_PART_BYTES;
use super::separator::separator;
use crate::base::checksum::{hash_key, hash_prefix};
use crate::base::{Entry, Kind, Result, SeqNum};
use crate::block::format::RAW_PAYLOAD_AT;
use crate::block::{BlockBuilder, BlockKind, BlockPointer, Compression, raw_image};
use crate::cache::Cache;
use crate::store::BlockWriter;
use crate::tree::prefix::Prefix;
use std::sync::Arc;

/// The index of a run that is being written.
#[derive(Debug)]
pub(super) struct IndexBuilder {
    /// The part that is being filled.
    branch: BlockBuilder,
    parts: Vec<IndexPart>,
    /// Bytes of the images of `parts`.
    bytes: usize,
}

/// A full part of the index.
#[derive(Debug)]
struct IndexPart {
    last_separator: Vec<u8>,
    image: Vec<u8>,
}

impl IndexBuilder {
    pub(super) fn new() -> Self {
        Self { branch: BlockBuilder::new(BlockKind::Branch), parts: Vec::new(), bytes: 0 }
    }

    /// Adds the leaf that `pointer` points to, which ends with the key `last`. `next` is the key after it, or `last`
    /// again for the last leaf.
    pub(super) fn push(&mut self, last: &[u8], next: &[u8], pointer: BlockPointer) {
        push_pointer(&mut self.branch, separator(last, next), pointer);
        if self.branch.image_bytes() >= INDEX_PART_BYTES {
            self.close_part();
        }
    }

    fn close_part(&mut self) {
        let last_separator = self.branch.last_key().to_vec();
        let image = self.branch.finish();
        self.bytes += image.len();
        self.parts.push(IndexPart { last_separator, image });
    }

    /// Bytes of all parts.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.branch.image_bytes()
    }

    /// Writes the parts and the top of the index; returns the pointer to the top.
    pub(super) fn write(&mut self, writer: &mut BlockWriter, populate: Option<&CachePopulate>) -> Result<BlockPointer> {
        if !self.branch.is_empty() {
            self.close_part();
        }
        let mut top = BlockBuilder::new(BlockKind::Branch);
        for part in &self.parts {
            let pointer = append_part(writer, populate, &part.image)?;
            push_pointer(&mut top, &part.last_separator, pointer);
        }
        writer.append(&top.finish(), Compression::None)
    }
}

/// The filter of a run that is being written.
#[derive(Debug)]
pub(super) struct FilterBuilder {
    bits_per_key: f64,
    rule: Option<Prefix>,
    hashes: Hashes,
    /// The prefix that was added last.
    last_prefix: Vec<u8>,
}

impl FilterBuilder {
    /// A filter with `bits_per_key` bits a key, which also knows the prefixes of `rule`. Zero bits: no filter.
    pub(super) fn new(bits_per_key: f64, rule: Option<Prefix>) -> Self {
        Self { bits_per_key, rule, hashes: Hashes::default(), last_prefix: Vec::new() }
    }

    /// Has `cache` lend the memory for many keys.
    pub(super) fn borrow_from(&mut self, cache: Arc<Cache>) {
        self.hashes.borrow_from(cache);
    }

    /// Adds a key that is not in the filter yet.
    #[inline]
    pub(super) fn push(&mut self, key: &[u8]) {
        if self.bits_per_key > 0.0 {
            self.hashes.push(hash_key(key));
            if let Some(prefix) = self.rule.and_then(|rule| rule.of(key)) {
                self.push_prefix(prefix);
            }
        }
    }

    /// Adds a prefix once: keys with the same prefix are neighbours.
    fn push_prefix(&mut self, prefix: &[u8]) {
        if self.last_prefix != prefix {
            self.hashes.push(hash_prefix(prefix));
            self.last_prefix.clear();
            self.last_prefix.extend_from_slice(prefix);
        }
    }

    /// Bytes of the filter.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        bits_of(self.hashes.len(), self.bits_per_key) / 8
    }

    /// Writes the parts of the filter; returns its layout and the image of the table of its parts.
    pub(super) fn write(
        &self,
        writer: &mut BlockWriter,
        populate: Option<&CachePopulate>,
    ) -> Result<Option<(Layout, Vec<u8>)>> {
        let Some(layout) = Layout::new(self.hashes.len(), self.bits_per_key) else { return Ok(None) };
        let images = layout.build(self.hashes.iter());
        let mut table = raw_image(images.len() * BlockPointer::BYTES);
        for (image, pointer_at) in images.iter().zip(table[RAW_PAYLOAD_AT..].chunks_mut(BlockPointer::BYTES)) {
            let pointer = append_part(writer, populate, image)?;
            pointer_at.copy_from_slice(&pointer.encode());
        }
        Ok(Some((layout, table)))
    }
}

/// Appends a part of the index or of the filter.
fn append_part(writer: &mut BlockWriter, populate: Option<&CachePopulate>, image: &[u8]) -> Result<BlockPointer> {
    let pointer = writer.append(image, Compression::None)?;
    if let Some(populate) = populate {
        populate.part(writer.instance(), pointer, image);
    }
    Ok(pointer)
}

fn push_pointer(branch: &mut BlockBuilder, separator: &[u8], pointer: BlockPointer) {
    branch.push(&Entry { key: separator, seqnum: SeqNum::ZERO, kind: Kind::Put, value: &pointer.encode() });
}
