//! An open run: point lookups, and what cursors and verification read through.

use super::filter::{LINE_BYTES, Layout, prefetch_line};
use super::filter_stats::FilterStats;
use super::format::{FOOTER_BYTES, Footer};
use super::meta::{Reference, RunMeta};
use crate::base::codec::Decoder;
use crate::base::key::head;
use crate::base::num::{u64_of, usize_of, usize_of32};
use crate::base::{Error, Kind, Result, SeqNum, Value};
use crate::block::{Block, BlockKind, BlockPointer, Bound};
use crate::cache::{Cache, Fill, SwipOf};
use crate::env::buffer::AlignedBuffer;
use crate::env::{Access, Env};
use crate::store::{BlockFile, StoreStats};
use crate::tree::branch::{self, Branch, CacheReservation, Trace};
use crate::tree::cost::Costs;
use crate::tree::cursor::{Found, SeqnumBounds};
use crate::tree::prefix::Prefix;
use crate::tree::values::ValueFiles;
use std::cmp::Ordering;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering as Publish};
use std::sync::{Arc, OnceLock};

/// Bytes at the end of the file that opening reads at once: as a rule they hold all that it needs.
const TAIL_BYTES: u64 = 16 << 10;

/// The top of the index lies so many levels above the leaves.
const INDEX_HEIGHT: u32 = 2;

/// An immutable sorted file of entries, open for reading.
///
/// In memory for itself it has its key range, the top of its index and the pointers to its filter, about one byte in
/// ten thousand, and as there is room what lookups used of its index and filter; the rest comes and goes with the
/// cache, and leaves it when the run is dropped.
pub struct Run {
    file: BlockFile,
    cache: Arc<Cache>,
    meta: RunMeta,
    footer: Footer,
    /// The top of the index, and the parts of it that are kept.
    top: Branch,
    filter: Option<Filter>,
    filter_stats: FilterStats,
    reservation: CacheReservation,
    /// The heads of the first and last key, which tell most keys outside of the run.
    heads: (u64, u64),
    /// See [`Run::visible_from`]. Set before the run is in any version, whose swap publishes it to readers.
    visible_from: AtomicU64,
    /// See [`Run::values`]. Set as early.
    values: OnceLock<ValueFiles>,
}

/// Where in the index of a run the lookup of a key begins.
#[derive(Clone, Copy, Debug)]
pub struct IndexPos {
    part: usize,
    slot: usize,
}

/// Where the parts of the filter are.
struct Filter {
    layout: Layout,
    parts: Box<[BlockPointer]>,
    /// Those that are kept.
    kept: Box<[OnceLock<Block>]>,
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
        Self::of(BlockFile::open(env, path, identity, Access::Read, direct, stats)?, meta, cache)
    }

    /// As [`Self::open`], with a file that is open already.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn of(file: BlockFile, meta: RunMeta, cache: Arc<Cache>) -> Result<Arc<Self>> {
        let tail = Tail::read(&file, &meta)?;
        let footer = tail.footer(&meta)?;
        let top = tail.block(footer.top)?;
        check(&file, footer.top, &top, BlockKind::Branch)?;
        let filter = tail.filter(&footer)?;
        let heads = (head(&meta.smallest), head(&meta.largest));
        let visible_from = AtomicU64::new(meta.clean_to.0);
        let top = Branch::new(top, INDEX_HEIGHT).map_err(|_| no_pointer(&file, &footer))?;
        let reservation = CacheReservation::new(&cache);
        let (filter_stats, values) = (FilterStats::new(), OnceLock::new());
        Ok(Arc::new(Self {
            file,
            cache,
            meta,
            footer,
            top,
            filter,
            filter_stats,
            reservation,
            heads,
            visible_from,
            values,
        }))
    }

    /// The seqnum that the run's entries count as having at least: what the run is clean up to. A bulk load writes its
    /// entries with seqnum zero, before it knows which they will have; snapshots that are older than the load see
    /// nothing of the run.
    #[inline]
    #[must_use]
    pub fn visible_from(&self) -> SeqNum {
        SeqNum(self.visible_from.load(Publish::Relaxed))
    }

    /// Gives the entries a seqnum, before anybody reads them.
    pub fn appear_at(&self, seqnum: SeqNum) {
        self.visible_from.store(seqnum.0, Publish::Relaxed);
    }

    /// The value files that entries point into.
    #[must_use]
    pub fn values(&self) -> &ValueFiles {
        static NONE: ValueFiles = ValueFiles::NONE;
        self.values.get().unwrap_or(&NONE)
    }

    /// Gives a run that refers to value files those of them among the `open` ones, before anybody reads it.
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

    /// The newest version of `key` that `snapshot` sees. `hash` is the key's ([`crate::base::checksum::hash_key`]).
    ///
    /// # Errors
    /// `Corruption` or `Io` when a block that the lookup needs cannot be read.
    pub fn get(&self, key: &[u8], hash: u64, snapshot: SeqNum) -> Result<Option<Found>> {
        self.get_at_cost((key, hash), None, snapshot, &mut Costs::default())
    }

    /// [`Self::get`], which adds to `costs`, and begins where [`Self::approach`] says.
    ///
    /// # Errors
    /// As [`Self::get`].
    #[inline]
    pub fn get_at_cost(
        &self,
        (key, hash): (&[u8], u64),
        start: Option<IndexPos>,
        snapshot: SeqNum,
        costs: &mut Costs,
    ) -> Result<Option<Found>> {
        if !self.may_span(key) {
            return Ok(None);
        }
        let mut unasked = self.filter.is_some().then_some(hash);
        if unasked.is_some() && self.filter_stats.should_probe(hash) {
            let passes = self.passes(&mut unasked, costs)?;
            self.filter_stats.record(hash, !passes);
            if !passes {
                return Ok(None);
            }
        }
        let stops = costs.filter_stops;
        let found = self.search(key, start, &mut unasked, snapshot, costs)?;
        match (&found, unasked) {
            (None, _) if costs.filter_stops > stops => {}
            // As good as asked: where it was in memory, the search took about as long.
            (None, Some(_)) => costs.filter_stops += 1,
            (None, None) => {
                costs.trees += 1;
                costs.filter_misses += u64::from(self.filter.is_some());
            }
            (Some(_), _) => costs.trees += 1,
        }
        Ok(found)
    }

    /// A line of a part of the filter.
    #[inline]
    pub(super) fn line<'b>(&self, part: &'b Block, at: usize, pointer: BlockPointer) -> Result<&'b [u8; LINE_BYTES]> {
        let line = part.bytes().get(at..).and_then(<[u8]>::first_chunk::<LINE_BYTES>);
        line.ok_or_else(|| self.file.corruption(pointer.offset, "this is not the part of the filter that it should be"))
    }

    /// Whether `key` lies between the first and the last key, as far as the heads tell.
    #[inline]
    pub(super) fn may_span(&self, key: &[u8]) -> bool {
        let head = head(key);
        self.heads.0 <= head && head <= self.heads.1
    }

    /// Whether `key`, which has this hash, may be in the run, as far as its ends and its filter tell.
    ///
    /// # Errors
    /// When the filter cannot be read.
    pub fn may_hold(&self, key: &[u8], hash: u64) -> Result<bool> {
        Ok(*self.meta.smallest <= *key && *key <= *self.meta.largest && self.may_contain(hash)?)
    }

    /// Whether all keys of the run are below `key`, whose head it is.
    #[inline]
    pub(super) fn is_below(&self, key: &[u8], head: u64) -> bool {
        self.heads.1 < head || self.heads.1 == head && *self.meta.largest < *key
    }

    /// Whether the filter knows the prefixes of the run's keys by this rule.
    #[inline]
    pub(super) fn knows_prefixes(&self, rule: Prefix) -> bool {
        self.footer.filter_prefix == Some(rule)
    }

    /// Whether the filter lets a key or prefix with this hash pass.
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> Result<bool> {
        let Some(filter) = &self.filter else { return Ok(true) };
        let (part, at) = filter.layout.place(hash);
        let pointer = filter.parts[part];
        let fetched;
        let block = match self.kept_filter(part) {
            Some(kept) => kept,
            None => {
                fetched = self.cache.get(&self.file, pointer, Fill::Keep)?;
                if self.filter_stats.rejects_often() {
                    self.reservation.pin(&filter.kept[part], fetched.memory_bytes(), || Some(fetched.clone()));
                }
                &fetched
            }
        };
        Ok(filter.layout.may_contain(self.line(block, at, pointer)?, hash))
    }

    /// Looks for `key`. `unasked` is its hash while the filter was not asked about it: it is before a block must be
    /// read.
    pub(super) fn search(
        &self,
        key: &[u8],
        start: Option<IndexPos>,
        unasked: &mut Option<u64>,
        snapshot: SeqNum,
        costs: &mut Costs,
    ) -> Result<Option<Found>> {
        let (first, mut slot) = match start {
            Some(IndexPos { part, slot }) => (part, Some(slot)),
            None => (self.top().lower_bound(key), None),
        };
        for part in first..self.top().count() {
            let mut kept = self.top.child(part);
            let fetched;
            let index = match kept {
                Some(kept) => {
                    costs.blocks += 1;
                    kept.block()
                }
                None => {
                    let pointer = self.pointer(self.top(), part)?;
                    let Some(index) = self.block_for((pointer, None), BlockKind::Branch, unasked, costs)? else {
                        return Ok(None);
                    };
                    kept = self.keep(part, &index);
                    fetched = index;
                    &fetched
                }
            };
            for slot in slot.take().unwrap_or_else(|| index.lower_bound(key))..index.count() {
                let trace = kept.and_then(|kept| kept.trace(slot));
                let (pointer, swip) = self.leaf_of(trace, index, slot)?;
                _ = swip.is_some_and(SwipOf::follow);
                let leaf = self.block_for((pointer, swip), BlockKind::Leaf, unasked, costs)?;
                let Some(leaf) = leaf else { return Ok(None) };
                leaf.prefetch_search();
                let bound = leaf.bound(key);
                match look(leaf, bound, key, snapshot, self.visible_from()) {
                    Look::Found(found) => return Ok(Some(found)),
                    // Only behind a separator that is the key itself can there be older versions.
                    Look::TooNew if index.compare_key(slot, key) == Ordering::Equal => {}
                    Look::TooNew | Look::Absent => return Ok(None),
                }
            }
        }
        Ok(None)
    }

    /// A block on the way to a key; `None` when it is not in memory and the filter, if it is still `unasked`, says that
    /// it need not be read.
    #[inline]
    pub(super) fn block_for(
        &self,
        (pointer, swip): (BlockPointer, Option<SwipOf<'_>>),
        kind: BlockKind,
        unasked: &mut Option<u64>,
        costs: &mut Costs,
    ) -> Result<Option<Block>> {
        let block = match self.cache.lookup_at(swip, self.file.instance(), pointer, Fill::Keep) {
            Some(block) => block,
            None if !self.passes(unasked, costs)? => return Ok(None),
            None => self.cache.read(&self.file, pointer, Fill::Keep)?,
        };
        check(&self.file, pointer, &block, kind)?;
        costs.blocks += 1;
        Ok(Some(block))
    }

    /// Asks the filter about a hash, unless that was done, and says whether it lets the key pass.
    fn passes(&self, unasked: &mut Option<u64>, costs: &mut Costs) -> Result<bool> {
        let Some(hash) = unasked.take() else { return Ok(true) };
        costs.filters += 1;
        let passes = self.may_contain(hash)?;
        costs.filter_stops += u64::from(!passes);
        Ok(passes)
    }

    /// Asks the filter late, as if it said no to nobody, or first.
    #[cfg(test)]
    pub(super) fn ask_late(&self, late: bool) {
        self.filter_stats.pretend(!late);
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

    pub(super) const fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    pub(super) const fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The top of the index.
    #[inline]
    pub(super) const fn top(&self) -> &Block {
        self.top.block()
    }

    /// Part `part` of the filter, if it is kept.
    #[inline]
    pub(super) fn kept_filter(&self, part: usize) -> Option<&Block> {
        self.filter.as_ref()?.kept.get(part)?.get()
    }

    /// Asks for the memory where a lookup of `key`, which has this hash, looks first: the filter, or else the leaf.
    /// Then it also says where in the index the lookup may begin.
    pub fn prefetch_step(&self, key: &[u8], hash: u64) -> Option<IndexPos> {
        if !self.may_span(key) {
            return None;
        }
        if let Some(filter) = self.filter.as_ref().filter(|_| self.filter_stats.rejects_often()) {
            let (part, at) = filter.layout.place(hash);
            prefetch_line(self.kept_filter(part)?, at);
            return None;
        }
        let part = self.top().lower_bound(key);
        let kept = self.top.child(part)?;
        let slot = kept.block().lower_bound(key);
        let trace = kept.trace(slot)?;
        self.follow(Some(trace.swip()), trace.pointer());
        Some(IndexPos { part, slot })
    }

    /// Asks for the memory where a lookup of a block looks first: for the block itself if it is at hand, and says so.
    #[inline]
    pub(super) fn follow(&self, swip: Option<SwipOf<'_>>, pointer: BlockPointer) -> bool {
        self.cache.follow(swip, self.file.instance(), pointer)
    }

    /// How often the filter says no.
    #[inline]
    pub(super) const fn filter_stats(&self) -> &FilterStats {
        &self.filter_stats
    }

    /// Index part `part` and what is known of its leaves, if it is kept.
    #[inline]
    pub(super) fn kept_branch(&self, part: usize) -> Option<&Branch> {
        self.top.child(part)
    }

    /// Index part `part`, if it is kept.
    #[inline]
    pub(super) fn pinned_part(&self, part: usize) -> Option<&Block> {
        self.kept_branch(part).map(Branch::block)
    }

    /// What is known of the leaf of entry `slot` of index part `part`, if the part is kept.
    #[inline]
    pub(super) fn trace(&self, part: usize, slot: usize) -> Option<Trace<'_>> {
        self.top.child(part)?.trace(slot)
    }

    /// Where the leaf of entry `slot` of index part `part`, which is `index`, lies, and where it may be at hand.
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
            Some(trace) => Ok((trace.pointer(), Some(trace.swip()))),
            None => Ok((self.pointer(index, slot)?, None)),
        }
    }

    /// Keeps index part `part`, which a lookup used, if there is room.
    pub(super) fn keep(&self, part: usize, index: &Block) -> Option<&Branch> {
        self.top.pin(part, index, INDEX_HEIGHT - 1, &self.reservation)
    }

    /// Index part `part`, which is below [`Block::count`] of the top.
    pub(super) fn index_part(&self, part: usize, fill: Fill) -> Result<Block> {
        if let Some(kept) = self.top.child(part) {
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
        branch::pointer(branch, i).map_err(|_| no_pointer(&self.file, &self.footer))
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
        if footer != self.footer {
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

    /// Where the leaves end in the file.
    pub(super) const fn leaves_end(&self) -> u64 {
        self.footer.leaves_end
    }

    /// The filter's layout and the pointers to its parts.
    pub(super) fn filter(&self) -> Option<(Layout, &[BlockPointer])> {
        self.filter.as_ref().map(|filter| (filter.layout, &*filter.parts))
    }
}

/// Something else stands where the index should point to a block.
#[cold]
fn no_pointer(file: &BlockFile, footer: &Footer) -> Error {
    file.corruption(footer.leaves_end, "an entry of the run's index is no pointer")
}

/// What a leaf says of a key.
pub(super) enum Look {
    Found(Found),
    Absent,
    /// It ends with versions that the snapshot does not see.
    TooNew,
}

/// Looks for the newest version of `key`, which has this bound in `leaf`, that `snapshot` sees.
#[inline]
pub(super) fn look(leaf: Block, bound: Bound, key: &[u8], snapshot: SeqNum, visible_from: SeqNum) -> Look {
    let Some(newest) = leaf.find_from(bound, key) else { return Look::Absent };
    for at in newest..leaf.count() {
        if at > newest && leaf.compare_key(at, key) != Ordering::Equal {
            return Look::Absent;
        }
        let seqnum = leaf.seqnum(at).max(visible_from);
        if seqnum <= snapshot {
            return Look::Found(found(leaf, at, seqnum));
        }
    }
    Look::TooNew
}

/// What was found in entry `at` of `leaf`, which counts as having this seqnum.
#[inline]
pub(super) fn found(leaf: Block, at: usize, seqnum: SeqNum) -> Found {
    let entry = leaf.slot(at);
    let (kind, value_at, len) = (entry.kind, entry.value_at, entry.value_len);
    let value = match kind {
        Kind::Put | Kind::Merge | Kind::PutPointer => leaf.pinned(value_at, len),
        Kind::Delete | Kind::SingleDelete | Kind::RangeDelete => Value::owned(&[]),
    };
    Found { seqnum, kind, value }
}

/// Checks that a block is of this kind and has entries.
#[inline]
pub(super) fn check(file: &BlockFile, pointer: BlockPointer, block: &Block, kind: BlockKind) -> Result<()> {
    if block.kind() == kind && block.count() > 0 {
        return Ok(());
    }
    Err(file
        .corruption(pointer.offset, format_args!("a {kind:?} block with entries was expected, and this is {block:?}")))
}

/// The last bytes of a run file.
struct Tail<'a> {
    file: &'a BlockFile,
    start: u64,
    end: u64,
    buffer: AlignedBuffer,
    at: usize,
}

impl<'a> Tail<'a> {
    fn read(file: &'a BlockFile, meta: &RunMeta) -> Result<Self> {
        let end = file.len()?;
        if end != meta.bytes || end < u64_of(FOOTER_BYTES) {
            let what = format_args!("the run should have {} bytes and has {end}", meta.bytes);
            return Err(file.corruption(end.min(meta.bytes), what));
        }
        let start = end.saturating_sub(TAIL_BYTES);
        let mut buffer = AlignedBuffer::default();
        let at = file.read_span(start, usize_of(end - start), &mut buffer)?.start;
        Ok(Self { file, start, end, buffer, at })
    }

    fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        &self.buffer[self.at + usize_of(offset - self.start)..][..len]
    }

    fn footer(&self, meta: &RunMeta) -> Result<Footer> {
        let offset = self.end - u64_of(FOOTER_BYTES);
        let footer = Footer::read(self.bytes(offset, FOOTER_BYTES), self.file, offset)?;
        let here = (footer.entries, footer.tombstones, footer.raw_bytes, footer.seqnum_max);
        if here != (meta.entries, meta.tombstones, meta.raw_bytes, meta.seqnum_max) {
            return Err(self.file.corruption(offset, "this is not the run that the manifest describes"));
        }
        Ok(footer)
    }

    fn block(&self, pointer: BlockPointer) -> Result<Block> {
        if pointer.offset < self.start || pointer.end() > self.end {
            return self.file.read(pointer);
        }
        self.file.parse(self.bytes(pointer.offset, usize_of32(pointer.bytes)), pointer)
    }

    fn filter(&self, footer: &Footer) -> Result<Option<Filter>> {
        if footer.filter_probes == 0 {
            return Ok(None);
        }
        let layout = Layout { lines: footer.filter_lines, probes: footer.filter_probes };
        let table = self.block(footer.filter_table)?;
        let corrupt = || self.file.corruption(footer.filter_table.offset, "the table of the run's filter is malformed");
        if !layout.is_sound() || table.bytes().len() != layout.parts() * BlockPointer::BYTES {
            return Err(corrupt());
        }
        let mut decoder = Decoder::new(table.bytes());
        let parts = (0..layout.parts()).map(|_| BlockPointer::decode(&mut decoder).map_err(|_| corrupt()));
        let parts = parts.collect::<Result<_>>()?;
        let kept = (0..layout.parts()).map(|_| OnceLock::new()).collect();
        Ok(Some(Filter { layout, parts, kept }))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.cache.forget(self.file.instance());
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("path", &self.file.path()).field("meta", &self.meta).finish_non_exhaustive()
    }
}
