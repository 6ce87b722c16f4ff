//! An open run: point lookups, and what cursors and verification read through.

use super::format::Footer;
use super::last_read::LastRead;
use super::leaf::check;
use super::meta::{Reference, RunMeta};
use super::open_filter::OpenFilter;
use super::tail::Tail;
use crate::base::debug::debug_by;
use crate::base::key::head;
use crate::base::{Error, Result, SeqNum};
use crate::block::{Block, BlockKind, BlockPointer};
use crate::cache::{Cache, Fill, SwipOf};
use crate::env::{Access, Env};
use crate::store::{BlockFile, StoreStats};
use crate::tree::branch::{self, Branch, CacheReservation, Trace};
use crate::tree::cursor::SeqnumBounds;
use crate::tree::prefix::Prefix;
use crate::tree::values::ValueFiles;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering as Publish};
use std::sync::{Arc, OnceLock};

/// Levels from the leaves to the top of the index.
const INDEX_HEIGHT: u32 = 2;

/// An immutable sorted file of entries, open for reading.
///
/// In memory for itself it has its key range, the top of its index and the pointers to its filter, about one byte in
/// ten thousand, and, as far as the cache grants the memory, the parts of its index and filter that lookups used; the
/// rest is in the cache at times, and leaves it when the run is dropped.
pub struct Run {
    file: BlockFile,
    pub(super) cache: Arc<Cache>,
    meta: RunMeta,
    /// What the end of the file says, from the first use on.
    ends: OnceLock<Ends>,
    pub(super) reservation: CacheReservation,
    /// The heads of the first and last key, which tell most keys outside of the run.
    heads: (u64, u64),
    /// See [`Run::visible_from`]. Set before the run is in any version, whose swap publishes it to readers.
    visible_from: AtomicU64,
    /// See [`Run::values`]. Set as early.
    values: OnceLock<ValueFiles>,
    pub(super) last_read: LastRead,
}

/// What lookups begin with.
struct Ends {
    footer: Footer,
    /// The top of the index, and the parts of it that are kept.
    top: Branch,
    filter: Option<OpenFilter>,
}

impl Run {
    /// Opens the run at `path`, whose blocks were written under `identity`, and which is what the manifest says it is.
    ///
    /// # Errors
    /// `Corruption` when the file is not that run, `Unsupported` when a newer version wrote it, `Io` when it cannot be
    /// read.
    pub fn open(
        env: &Env,
        path: &Path,
        identity: u64,
        direct: bool,
        meta: RunMeta,
        cache: Arc<Cache>,
        stats: Arc<StoreStats>,
    ) -> Result<Arc<Self>> {
        Self::of(BlockFile::open_lazily(env, path, identity, Access::Read, direct, stats)?, meta, cache)
    }

    /// As [`Self::open`], with a file that is open already.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn of(file: BlockFile, meta: RunMeta, cache: Arc<Cache>) -> Result<Arc<Self>> {
        let run = Self::unread(file, meta, cache);
        run.open_ends()?;
        Ok(run)
    }

    /// As [`Self::of`], but nothing is read of the file before the run is first used: only then it shows whether it is
    /// that run.
    #[must_use]
    pub fn unread(file: BlockFile, meta: RunMeta, cache: Arc<Cache>) -> Arc<Self> {
        let heads = (head(&meta.smallest), head(&meta.largest));
        let visible_from = AtomicU64::new(meta.clean_to.0);
        let reservation = CacheReservation::new(&cache);
        let (ends, values, last_read) = (OnceLock::new(), OnceLock::new(), LastRead::default());
        Arc::new(Self { file, cache, meta, ends, reservation, heads, visible_from, values, last_read })
    }

    /// Reads what lookups begin with, unless that was done. Whatever reads the run calls this first.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[inline]
    pub(super) fn open_ends(&self) -> Result<()> {
        if self.ends.get().is_some() { Ok(()) } else { self.read_ends() }
    }

    #[cold]
    fn read_ends(&self) -> Result<()> {
        let (file, meta) = (&self.file, &self.meta);
        let tail = Tail::read(file, meta)?;
        let footer = tail.footer(meta)?;
        let top = tail.block(footer.top)?;
        check(file, footer.top, &top, BlockKind::Branch)?;
        let filter = tail.filter(&footer)?;
        let top = Branch::new(top, INDEX_HEIGHT).map_err(|_| no_pointer(file, &footer))?;
        self.ends.get_or_init(|| Ends { footer, top, filter });
        Ok(())
    }

    /// Whether [`Self::open_ends`] was called.
    #[inline]
    pub(super) fn is_read(&self) -> bool {
        self.ends.get().is_some()
    }

    #[inline]
    fn ends(&self) -> &Ends {
        self.ends.get().expect("the ends of a run are read before anything else of it")
    }

    /// The end of the file.
    #[inline]
    pub(super) fn footer(&self) -> &Footer {
        &self.ends().footer
    }

    /// The seqnum that the run's entries count as having at least: what the run is clean up to. A bulk load writes its
    /// entries with seqnum zero, before it knows which they will have; snapshots that are older than the load see
    /// nothing of the run.
    #[inline]
    #[must_use]
    pub fn visible_from(&self) -> SeqNum {
        SeqNum(self.visible_from.load(Publish::Relaxed))
    }

    /// Gives the entries a seqnum, before any reader sees them.
    pub fn appear_at(&self, seqnum: SeqNum) {
        self.visible_from.store(seqnum.0, Publish::Relaxed);
    }

    /// The value files that entries point into.
    #[must_use]
    pub fn values(&self) -> &ValueFiles {
        static NONE: ValueFiles = ValueFiles::NONE;
        self.values.get().unwrap_or(&NONE)
    }

    /// Gives a run that refers to value files those of them among the `open` ones, before any reader sees it.
    ///
    /// # Errors
    /// `Corruption` when one is missing.
    pub fn refer_to(&self, open: &ValueFiles) -> Result<()> {
        let find = |reference: &Reference| {
            let missing = || {
                let what =
                    format_args!("the run refers to value file {}, which the table does not have", reference.file);
                self.file.corruption(0, what)
            };
            open.find(reference.file).cloned().ok_or_else(missing)
        };
        let files = self.meta.references.iter().map(find).collect::<Result<Vec<_>>>()?;
        self.values.get_or_init(|| ValueFiles::new(files));
        Ok(())
    }

    /// Whether `key` lies between the first and the last key, as far as the heads tell.
    #[inline]
    pub(super) fn may_span(&self, key: &[u8]) -> bool {
        let head = head(key);
        self.heads.0 <= head && head <= self.heads.1
    }

    /// Whether all keys of the run are below `key`, whose head it is.
    #[inline]
    pub(super) fn is_below(&self, key: &[u8], head: u64) -> bool {
        self.heads.1 < head || self.heads.1 == head && *self.meta.largest < *key
    }

    /// Whether the filter knows the prefixes of the run's keys by this rule.
    #[inline]
    pub(super) fn knows_prefixes(&self, rule: Prefix) -> bool {
        self.footer().filter_prefix == Some(rule)
    }

    /// Between what seqnums the run's entries are.
    #[inline]
    #[must_use]
    pub fn seqnum_bounds(&self) -> SeqnumBounds {
        let smallest = self.visible_from();
        SeqnumBounds { smallest, largest: smallest.max(self.meta.seqnum_max) }
    }

    /// The seqnum that all entries have when a bulk load of this process wrote the run; zero for other runs.
    #[inline]
    #[must_use]
    pub fn loaded_at(&self) -> SeqNum {
        if self.visible_from() > self.meta.clean_to { self.visible_from() } else { SeqNum::ZERO }
    }

    /// What the manifest keeps of the run.
    #[must_use]
    pub fn kept_meta(&self) -> RunMeta {
        RunMeta { clean_to: self.visible_from(), ..self.meta.clone() }
    }

    /// What the run holds, in numbers.
    #[inline]
    #[must_use]
    pub const fn meta(&self) -> &RunMeta {
        &self.meta
    }

    /// The run's file.
    #[inline]
    #[must_use]
    pub const fn file(&self) -> &BlockFile {
        &self.file
    }

    /// The top of the index.
    #[inline]
    pub(super) fn top(&self) -> &Block {
        self.ends().top.block()
    }

    /// Prefetches the memory that a lookup of a block reads first; true if the swip holds the block itself.
    #[inline]
    pub(super) fn follow(&self, swip: Option<SwipOf<'_>>, pointer: BlockPointer) -> bool {
        self.cache.follow(swip, self.file.instance(), pointer)
    }

    /// Index part `part` and what is known of its leaves, if it is kept.
    #[inline]
    pub(super) fn kept_branch(&self, part: usize) -> Option<&Branch> {
        self.ends().top.child(part)
    }

    /// Index part `part`, if it is kept.
    #[inline]
    pub(super) fn pinned_part(&self, part: usize) -> Option<&Block> {
        self.kept_branch(part).map(Branch::block)
    }

    /// What is known of the leaf of entry `slot` of index part `part`, if the part is kept.
    #[inline]
    pub(super) fn trace(&self, part: usize, slot: usize) -> Option<Trace<'_>> {
        self.kept_branch(part)?.trace(slot)
    }

    /// Where the leaf of entry `slot` of index part `part`, which is `index`, lies, and the swip that may hold it.
    #[inline]
    pub(super) fn leaf_at(
        &self,
        index: &Block,
        part: usize,
        slot: usize,
    ) -> Result<(BlockPointer, Option<SwipOf<'_>>)> {
        self.leaf_of(self.trace(part, slot), index, slot)
    }

    /// As [`Self::leaf_at`], of a leaf of which `trace` is known.
    #[inline]
    pub(super) fn leaf_of<'b>(
        &self,
        trace: Option<Trace<'b>>,
        index: &Block,
        slot: usize,
    ) -> Result<(BlockPointer, Option<SwipOf<'b>>)> {
        match trace {
            Some(trace) => Ok((*trace.pointer, Some(trace.swip))),
            None => Ok((self.pointer(index, slot)?, None)),
        }
    }

    /// Keeps index part `part`, which a lookup used, if there is room.
    pub(super) fn keep(&self, part: usize, index: &Block) -> Option<&Branch> {
        self.ends().top.pin(part, index, INDEX_HEIGHT - 1, &self.reservation)
    }

    /// Index part `part`, which is below [`Block::count`] of the top.
    pub(super) fn index_part(&self, part: usize, fill: Fill) -> Result<Block> {
        if let Some(kept) = self.kept_branch(part) {
            return Ok(kept.block().clone());
        }
        let pointer = self.pointer(self.top(), part)?;
        let index = self.cache.get(&self.file, pointer, fill)?;
        check(&self.file, pointer, &index, BlockKind::Branch)?;
        if fill == Fill::Keep {
            self.keep(part, &index);
        }
        Ok(index)
    }

    /// The pointer in entry `i` of a part of the index.
    #[inline]
    pub(super) fn pointer(&self, branch: &Block, i: usize) -> Result<BlockPointer> {
        branch::pointer(branch, i).map_err(|_| no_pointer(&self.file, self.footer()))
    }

    /// Checks that `leaf`, which `pointer` points to, is one.
    #[inline]
    pub(super) fn check_leaf(&self, pointer: BlockPointer, leaf: &Block) -> Result<()> {
        check(&self.file, pointer, leaf, BlockKind::Leaf)
    }

    /// Reads the footer and what it points to once more, as [`Run::open`] did.
    pub(super) fn verify_ends(&self) -> Result<()> {
        let tail = Tail::read(&self.file, &self.meta)?;
        let footer = tail.footer(&self.meta)?;
        if footer != *self.footer() {
            return Err(self.file.corruption(self.meta.bytes, "the run's footer changed since it was opened"));
        }
        check(&self.file, footer.top, &tail.block(footer.top)?, BlockKind::Branch)?;
        tail.filter(&footer).map(drop)
    }

    /// A leaf has fewer entries than when it was read before.
    #[cold]
    pub(super) fn changed(&self, pointer: BlockPointer, at: usize) -> Error {
        self.file.corruption(
            pointer.offset,
            format_args!("the leaf had an entry {at} when it was read before, and has none now"),
        )
    }

    /// The filter, if the run has one.
    #[inline]
    pub(super) fn filter(&self) -> Option<&OpenFilter> {
        self.ends().filter.as_ref()
    }
}

/// An entry of the index does not hold a pointer to a block.
#[cold]
fn no_pointer(file: &BlockFile, footer: &Footer) -> Error {
    file.corruption(footer.leaves_end, "an entry of the run's index is no pointer")
}

impl Drop for Run {
    fn drop(&mut self) {
        self.cache.forget(self.file.instance());
    }
}

debug_by!(Run, self => path: self.file.path(), meta: self.meta);
