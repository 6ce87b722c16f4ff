//! Writes a run front to back.

use super::cache_populate::CachePopulate;
use super::format::Footer;
use super::meta::RunMeta;
use super::section_builders::{FilterBuilder, IndexBuilder};
use crate::base::key::descends;
use crate::base::num::{u64_of, usize_of32};
use crate::base::{Entry, Kind, Result, SeqNum};
use crate::block::{Block, BlockBuilder, BlockKind, BlockPointer, Compression, frame};
use crate::cache::Cache;
use crate::env::Env;
use crate::store::{BlockWriter, StoreStats};
use crate::tree::cursor::Leaf;
use crate::tree::prefix::Prefix;
use crate::tree::values::ValuePointer;
use std::path::Path;
use std::sync::Arc;

/// Bytes beyond which a buffer for images is freed after use.
const IMAGE_KEEP_BYTES: usize = 2 << 20;

/// Leaves may lack this part (1/8) of their size on average before whole leaves of other runs are refused.
const LACKING_PART: u64 = 8;

/// How a run is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunOptions {
    /// Bytes that a leaf does not exceed, unless a single entry does.
    pub block_bytes: u32,
    /// How leaves are compressed.
    pub compression: Compression,
    /// Bits that each key gets in the filter; zero: no filter.
    pub filter_bits_per_key: f64,
    /// The rule of the prefixes that the filter holds in addition to the keys.
    pub filter_prefix: Option<Prefix>,
    /// Whether to write past the page cache.
    pub direct: bool,
}

/// A run that is being written. Dropping it unfinished leaves a file behind that is no run.
///
/// While it is written, it takes memory of about one byte in a hundred for the index and eight bytes per key for the
/// filter.
#[derive(Debug)]
pub struct RunBuilder {
    options: RunOptions,
    writer: BlockWriter,
    leaf: BlockBuilder,
    image: Vec<u8>,
    /// The last key of the last leaf that was closed.
    closed_key: Vec<u8>,
    last_seqnum: SeqNum,
    /// The last leaf that was closed, until the key behind it is known.
    closed: Option<BlockPointer>,
    index: IndexBuilder,
    filter: FilterBuilder,
    closed_leaves: ClosedLeaves,
    meta: RunMeta,
    populate: Option<CachePopulate>,
}

/// The leaves that were closed, and how far they are from full.
#[derive(Debug, Default)]
struct ClosedLeaves {
    count: u64,
    /// Bytes that they lack, as [`RunBuilder::lacking`] counts.
    lacking_bytes: u64,
}

impl RunBuilder {
    /// Creates the file, which must not exist yet.
    ///
    /// # Errors
    /// `Io` or `Full` when it cannot be created.
    pub fn create(env: &Env, path: &Path, identity: u64, options: RunOptions, stats: Arc<StoreStats>) -> Result<Self> {
        Ok(Self {
            options,
            writer: BlockWriter::create(env, path, identity, options.direct, stats)?,
            leaf: BlockBuilder::new(BlockKind::Leaf),
            image: Vec::new(),
            closed_key: Vec::new(),
            last_seqnum: SeqNum::ZERO,
            closed: None,
            index: IndexBuilder::new(),
            filter: FilterBuilder::new(options.filter_bits_per_key, options.filter_prefix),
            closed_leaves: ClosedLeaves::default(),
            meta: RunMeta::default(),
            populate: None,
        })
    }

    /// The same run, whose blocks go into `cache` where most of their entries come from blocks in it, and which borrows
    /// memory from it for the filter. It must then be opened as the [`Self::instance`] that it was written as.
    #[must_use]
    pub fn warming(mut self, cache: Arc<Cache>) -> Self {
        self.filter.borrow_from(Arc::clone(&cache));
        self.populate = Some(CachePopulate::new(cache));
        self
    }

    /// The number under which the cache knows the file.
    #[must_use]
    pub const fn instance(&self) -> u64 {
        self.writer.instance()
    }

    /// Says whether the entries that follow come from blocks in the cache, or are likely to be read soon for another
    /// reason.
    #[inline]
    pub const fn source(&mut self, is_cached: bool) {
        if let Some(populate) = &mut self.populate {
            populate.source(is_cached);
        }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// `Io` or `Full` when the file cannot be written, `Corruption` when an entry of a separated value holds no
    /// pointer. The run must not be used then.
    ///
    /// # Panics
    /// When the entry does not come after the one before in stored order.
    #[inline]
    pub fn push(&mut self, entry: &Entry<'_>) -> Result<()> {
        if !self.leaf.is_empty() && self.leaf.image_bytes_with(entry) > usize_of32(self.options.block_bytes) {
            self.close_leaf()?;
        }
        let new_key = if self.leaf.is_empty() { self.begin_leaf(entry) } else { self.leaf.push(entry) };
        if new_key {
            self.filter.push(entry.key);
        }
        self.last_seqnum = entry.seqnum;
        if let Some(populate) = &mut self.populate {
            populate.count();
        }
        self.meta.entries += 1;
        self.meta.tombstones += u64::from(entry.kind.is_tombstone());
        self.meta.raw_bytes += u64_of(entry.key.len() + entry.value.len());
        self.meta.seqnum_max = self.meta.seqnum_max.max(entry.seqnum);
        if entry.kind == Kind::PutPointer {
            self.meta.refer(&ValuePointer::decode(entry.value)?);
        }
        Ok(())
    }

    /// Whether a leaf of another run may become one of this run as it is. What is in hand is closed before it, and may
    /// be little; so leaves that passed from run to run would become smaller and smaller if what they lack were not
    /// counted.
    #[must_use]
    pub fn takes_leaf(&self, leaf: &Block) -> bool {
        let in_hand = u64::from(!self.leaf.is_empty());
        let lacking = in_hand * self.lacking(self.leaf.image_bytes(), self.leaf.count());
        let all = self.closed_leaves.lacking_bytes + lacking + self.lacking(leaf.bytes_written().len(), leaf.count());
        LACKING_PART * all <= u64::from(self.options.block_bytes) * (self.closed_leaves.count + in_hand + 1)
    }

    /// How many bytes more a leaf could have that has an image of `bytes` bytes and `count` entries, if the next entry
    /// were as long as its own.
    fn lacking(&self, bytes: usize, count: usize) -> u64 {
        let with_next = bytes + bytes / count.max(1);
        u64_of(usize_of32(self.options.block_bytes).saturating_sub(with_next))
    }

    /// Adds all entries of a leaf of another run, [`Block::is_plain`], with this first and last key, as a leaf of its
    /// own.
    ///
    /// # Errors
    /// As [`Self::push`].
    ///
    /// # Panics
    /// When its first key does not come after the last one here.
    pub fn push_leaf(&mut self, leaf: Leaf<'_>, (first, last): (&[u8], &[u8])) -> Result<()> {
        let (block, count) = (leaf.block, leaf.block.count());
        if !self.leaf.is_empty() {
            self.close_leaf()?;
        }
        assert!(self.is_empty() || *self.closed_key < *first, "keys must ascend");
        self.go_on_at(first);
        let pointer = match leaf.frame.filter(|frame| frame::compression_of(frame) == Some(self.options.compression)) {
            Some(frame) => self.writer.append_frame(frame)?,
            None => self.writer.append(block.bytes_written(), self.options.compression)?,
        };
        let (shape, prefix) = (block.shape(), block.prefix().len());
        let mut key = first.to_vec();
        for at in 0..count {
            let slot = block.slot_of(&shape, at);
            key.truncate(prefix);
            key.extend_from_slice(slot.suffix);
            self.filter.push(&key);
            self.meta.raw_bytes += u64_of(key.len() + slot.value_len);
        }
        self.meta.entries += u64_of(count);
        if let Some(populate) = &mut self.populate {
            populate.whole(count);
            populate.leaf(self.writer.instance(), pointer, block.bytes_written(), count);
        }
        self.closed_key.clear();
        self.closed_key.extend_from_slice(last);
        self.last_seqnum = SeqNum::ZERO;
        self.close_as(pointer, self.lacking(block.bytes_written().len(), count));
        Ok(())
    }

    /// Says that the next leaf begins with `key`.
    fn go_on_at(&mut self, key: &[u8]) {
        if self.is_empty() {
            self.meta.smallest = key.to_vec();
        }
        self.enter_closed(key);
    }

    /// Adds the first entry of a leaf, and says whether its key is new.
    fn begin_leaf(&mut self, entry: &Entry<'_>) -> bool {
        let new_key = self.is_empty() || self.closed_key != entry.key;
        let descends = descends(self.last_seqnum, (entry.seqnum, entry.kind));
        assert!(new_key || descends, "versions of a key must have descending seqnums");
        self.go_on_at(entry.key);
        self.leaf.push(entry);
        new_key
    }

    /// Writes the leaf in hand.
    fn close_leaf(&mut self) -> Result<()> {
        self.closed_key.clear();
        self.closed_key.extend_from_slice(self.leaf.last_key());
        let entries = self.leaf.count();
        self.leaf.finish_into(&mut self.image);
        let pointer = self.writer.append(&self.image, self.options.compression)?;
        if let Some(populate) = &mut self.populate {
            populate.leaf(self.writer.instance(), pointer, &self.image, entries);
        }
        self.close_as(pointer, self.lacking(self.image.len(), entries));
        self.image.clear();
        self.image.shrink_to(IMAGE_KEEP_BYTES);
        Ok(())
    }

    /// Counts a leaf that was written and lacks `lacking` bytes.
    fn close_as(&mut self, pointer: BlockPointer, lacking: u64) {
        self.closed_leaves.count += 1;
        self.closed_leaves.lacking_bytes += lacking;
        self.closed = Some(pointer);
    }

    /// Enters the leaf that was closed in the index: `next` is the key that comes behind it, or its last one where none
    /// does.
    fn enter_closed(&mut self, next: &[u8]) {
        let Some(pointer) = self.closed.take() else { return };
        self.index.push(&self.closed_key, next, pointer);
    }

    /// Bytes that the file would have if it were finished now, about.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.writer.position() + u64_of(self.leaf.image_bytes() + self.index.bytes()) + self.filter.bytes()
    }

    /// Whether there is no entry yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.meta.entries == 0
    }

    /// The key of the last entry; empty when there is none. (Only between two keys may one run end and the next begin.)
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        if self.leaf.is_empty() { &self.closed_key } else { self.leaf.last_key() }
    }

    /// Waits for the write that is under way, when the run is not to be finished.
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
    /// `Io` or `Full` when the file cannot be written or synced. It must not be used then.
    ///
    /// # Panics
    /// When there is no entry: there are no empty runs.
    pub fn finish(mut self) -> Result<RunMeta> {
        assert!(!self.is_empty(), "a run without entries");
        if !self.leaf.is_empty() {
            self.close_leaf()?;
        }
        let last_key = self.closed_key.clone();
        self.enter_closed(&last_key);
        let leaves_end = self.writer.position();
        let (layout, filter_table) = self.filter.write(&mut self.writer, self.populate.as_ref())?.unzip();
        let footer = Footer {
            top: self.index.write(&mut self.writer, self.populate.as_ref())?,
            filter_table: match filter_table {
                Some(image) => self.writer.append(&image, Compression::None)?,
                None => BlockPointer::default(),
            },
            filter_probes: layout.map_or(0, |layout| layout.probes),
            filter_lines: layout.map_or(0, |layout| layout.lines),
            leaves_end,
            leaves: self.closed_leaves.count,
            entries: self.meta.entries,
            tombstones: self.meta.tombstones,
            raw_bytes: self.meta.raw_bytes,
            seqnum_max: self.meta.seqnum_max,
            filter_prefix: layout.and(self.options.filter_prefix),
        };
        let footer = footer.encode(self.writer.identity(), self.writer.position());
        self.writer.append_raw(&footer)?;
        let bytes = self.writer.finish()?;
        Ok(RunMeta { bytes, largest: self.closed_key, ..self.meta })
    }
}

#[cfg(test)]
mod tests {
    use super::super::cursor::RunCursor;
    use super::super::merge_source;
    use super::super::tests::{Bench, all_entries, get, put};
    use super::super::verify::verify;
    use super::*;
    use crate::cache::Fill;
    use crate::tree::Cursor;
    use crate::tree::merge::MergeCursor;
    use crate::tree::vec_cursor::keys;
    use proptest::prelude::*;
    use std::path::PathBuf;

    proptest! {
        #[test]
        fn leaves_of_other_runs_become_leaves_of_this_one(
            whose in proptest::collection::btree_map(keys(), (0..12usize, proptest::collection::vec(any::<u8>(), 0..20)), 1..80),
            (versions, rule) in (0..4u64, proptest::option::of(Just(Prefix::Bytes(1)))),
            (theirs, ours, bits) in (any::<bool>(), any::<bool>(), any::<bool>()),
        ) {
            // Most keys are of the run that the key before is of, so that whole leaves lie between keys of other runs.
            // A key in a while has a younger version in the first run.
            let mut of_runs = [const { Vec::new() }; 3];
            let mut at = 0;
            for (i, (key, (run, value))) in (0..).zip(&whose) {
                at = if *run < 3 { *run } else { at };
                let seqnum = if versions > 0 && i % 7 < versions { 9 } else { 0 };
                of_runs[if seqnum > 0 { 0 } else { at }].push(put(key, seqnum, value));
                if seqnum > 0 && at > 0 {
                    of_runs[at].push(put(key, 0, b"older"));
                }
            }
            let compression = |lz4| if lz4 { Compression::Lz4 } else { Compression::None };
            let mut bench = Bench::with(RunOptions { block_bytes: 90, compression: compression(theirs), ..Bench::new().options });
            let runs: Vec<_> = of_runs.iter().filter(|run| !run.is_empty()).map(|run| bench.run(run)).collect();
            bench.options.compression = compression(ours);
            bench.options.filter_prefix = rule;
            bench.options.filter_bits_per_key = if bits { 20.0 } else { 0.0 };

            let mut merge = MergeCursor::new(runs.iter().map(|run| merge_source([Arc::clone(run)].into())).collect());
            let expected = all_entries(&mut merge).unwrap();
            let (path, mut alone) = (PathBuf::from("/merged.run"), 0);
            let mut builder = bench.builder(&path).unwrap();
            merge.first().unwrap();
            while merge.entry().is_some() {
                // A leaf that begins with an older version of the key before is no whole one.
                let is_behind = |leaf: &Leaf<'_>| leaf.block.compare_key(0, builder.last_key()).is_gt();
                match merge.whole_leaf().filter(|leaf| leaf.block.is_plain() && is_behind(leaf)) {
                    Some(leaf) => {
                        let (first, last) = leaf.ends();
                        builder.push_leaf(leaf, (&first, &last)).unwrap();
                        merge.skip_leaf().unwrap();
                    }
                    None => {
                        builder.push(&merge.entry().unwrap()).unwrap();
                        merge.next().unwrap();
                        alone += 1;
                    }
                }
            }
            let meta = builder.finish().unwrap();
            // All of a single run is taken over.
            prop_assert!(runs.len() > 1 || versions > 0 || alone == 0);
            let run = bench.open(&path, &meta).unwrap();
            for fill in [Fill::Keep, Fill::Merge] {
                prop_assert_eq!(&all_entries(&mut RunCursor::over(&run, fill)).unwrap(), &expected);
            }
            for key in whose.keys() {
                let newest = expected.iter().find(|entry| entry.key == *key).cloned();
                prop_assert_eq!(get(&run, key, 9).unwrap(), newest);
            }
            let report = verify(&run).unwrap();
            prop_assert_eq!((report.entries, report.bytes), (u64_of(expected.len()), meta.bytes));
            let raw: usize = expected.iter().map(|entry| entry.key.len() + entry.value.len()).sum();
            prop_assert_eq!((meta.raw_bytes, meta.entries), (u64_of(raw), u64_of(expected.len())));
            prop_assert_eq!((&meta.smallest, &meta.largest), (&expected[0].key, &expected[expected.len() - 1].key));
        }
    }
}
