//! The cache itself: shards, the capacity that they share, and the reads that fill them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::request::{Fill, Wanted};
use super::shard::Shard;
use super::swips::SwipOf;
use super::table::{Key, TableAddr};
use crate::base::Result;
use crate::base::debug::debug_by;
use crate::base::memory::Draining;
use crate::base::num::{u64_of, usize_of};
use crate::base::sync::Mutex;
use crate::base::thread_counters::ThreadCounters;
use crate::block::{Block, BlockPointer};
use crate::store::BlockFile;

/// What a cache did since it was made, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CacheStats {
    /// Lookups that found their block.
    pub hits: u64,
    /// Lookups that did not find it: as a rule it was read then.
    pub misses: u64,
    /// Blocks that flushes, merges and loads put in when they wrote them, because there was free space.
    pub populated: u64,
    /// Blocks that were evicted to make room.
    pub evicted: u64,
    /// Bytes of memory that the blocks take now.
    pub bytes: u64,
    /// Bytes of memory that they may take now; the rest of the budget is the memtables'.
    pub capacity_bytes: u64,
}

const SHARDS_MAX: u64 = 64;
/// A smaller share would hold too few blocks to evict well, so that small caches have fewer shards.
const SHARD_BYTES_MIN: u64 = 2 << 20;

/// Lines of a table that [`Cache::copy_blocks`] looks at before it lets other threads have the latch of their shard.
const LINES_AT_ONCE: usize = 1024;

/// The part (1/2) of the capacity that may be lent.
const LENT_PART: u64 = 2;

/// Blocks that trees pin take at most the capacity divided by this, in addition to the capacity.
const RESERVED_PART: u64 = 32;

/// A bounded set of blocks in memory.
pub struct Cache {
    pub(super) shards: Box<[Latched]>,
    /// For [`Cache::capacity`] only: the shards have their own shares.
    capacity: AtomicU64,
    /// Held while the capacity changes, and what is lent of it: bytes by [`CacheLoan`](super::CacheLoan).
    lent: Mutex<u64>,
    /// Bytes of the blocks that trees keep for themselves.
    reserved: AtomicU64,
    /// Reads that found their block in a swip, past the shards.
    at_hand: ThreadCounters<1>,
}

/// Aligned so that latches of two shards share no cache line (nor a pair of lines that is fetched together).
#[repr(align(128))]
pub(super) struct Latched {
    pub(super) table_addr: TableAddr,
    pub(super) shard: Mutex<Shard<Block>>,
}

impl Latched {
    fn new(shard: Shard<Block>) -> Self {
        let table_addr = TableAddr::default();
        table_addr.follow(shard.table());
        Self { table_addr, shard: Mutex::new(shard) }
    }
}

impl Cache {
    /// An empty cache for `capacity` bytes of blocks. Zero keeps nothing.
    ///
    /// The capacity also decides the number of shards (1 to 64), which stays.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let shards = (capacity / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let shards = usize_of(1 << shards.ilog2());
        let share = capacity / u64_of(shards);
        let shards = (0..shards).map(|_| Latched::new(Shard::new(share))).collect();
        Self {
            shards,
            capacity: AtomicU64::new(capacity),
            lent: Mutex::new(0),
            reserved: AtomicU64::new(0),
            at_hand: ThreadCounters::default(),
        }
    }

    /// The block that `pointer` names in `file`, from memory or else from the file.
    ///
    /// # Errors
    /// As [`BlockFile::read`]: the block could not be read, or is corrupt.
    #[inline]
    pub fn get(&self, file: &BlockFile, pointer: BlockPointer, fill: Fill) -> Result<Block> {
        self.get_at(None, file, pointer, fill)
    }

    /// As [`Self::get`], of a block that may be in a swip: `swip` is that of `pointer`, in the branch that has it.
    ///
    /// # Errors
    /// As [`Self::get`].
    #[inline]
    pub fn get_at(
        &self,
        swip: Option<SwipOf<'_>>,
        file: &BlockFile,
        pointer: BlockPointer,
        fill: Fill,
    ) -> Result<Block> {
        match self.lookup_at(swip, file.instance(), pointer, fill) {
            Some(block) => Ok(block),
            None => self.read(file, pointer, fill),
        }
    }

    /// Blocks that are wanted together, in that order; those not in memory are read together. Equal neighbours cost one
    /// lookup.
    ///
    /// # Errors
    /// As [`BlockFile::read_many`].
    pub fn get_many(&self, wanted: &[Wanted<'_>], fill: Fill) -> Result<Vec<Block>> {
        let mut blocks = self.lookup_many(wanted, fill);
        let missing: Vec<_> =
            wanted.iter().zip(&blocks).filter(|(_, block)| block.is_none()).map(|(it, _)| *it).collect();
        if !missing.is_empty() {
            let read = self.read_many(&missing, fill)?;
            blocks.iter_mut().filter(|block| block.is_none()).zip(read).for_each(|(block, read)| *block = Some(read));
        }
        Ok(blocks.into_iter().flatten().collect())
    }

    /// Those blocks that are in memory, in that order. Equal neighbours cost one lookup.
    #[must_use]
    pub fn lookup_many(&self, wanted: &[Wanted<'_>], fill: Fill) -> Vec<Option<Block>> {
        let is_same = |i: usize| i > 0 && wanted[i].is_same(&wanted[i - 1]);
        // With a single block there is no other memory access to overlap with.
        if wanted.len() > 1 {
            let each = || (0..wanted.len()).filter(|i| !is_same(*i)).map(|i| &wanted[i]);
            let mut is_near = true;
            each().for_each(|it| is_near &= self.follow(it.swip, it.file.instance(), it.pointer));
            if !is_near {
                let far = each().filter(|it| !it.swip.is_some_and(SwipOf::is_full));
                far.for_each(|it| _ = self.prefetch_step(it.file.instance(), it.pointer));
            }
        }
        let mut blocks: Vec<Option<Block>> = Vec::with_capacity(wanted.len());
        for (i, Wanted { file, pointer, swip }) in wanted.iter().enumerate() {
            blocks.push(match i.checked_sub(1) {
                Some(before) if is_same(i) => blocks[before].clone(),
                _ => self.lookup_at(*swip, file.instance(), *pointer, fill),
            });
        }
        blocks
    }

    /// Blocks that lookups did not find, in that order: each is read once, all together.
    ///
    /// # Errors
    /// As [`BlockFile::read_many`].
    pub fn read_many(&self, wanted: &[Wanted<'_>], fill: Fill) -> Result<Vec<Block>> {
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_unstable_by_key(|i| (wanted[*i].file.instance(), wanted[*i].pointer.offset));
        let mut places: Vec<(&BlockFile, BlockPointer)> = Vec::with_capacity(wanted.len());
        let mut numbers = vec![0; wanted.len()];
        for row in order.chunk_by(|a, b| wanted[*a].is_same(&wanted[*b])) {
            row.iter().for_each(|i| numbers[*i] = places.len());
            places.push((wanted[row[0]].file, wanted[row[0]].pointer));
        }
        let read = places.iter().zip(BlockFile::read_many(&places)?);
        let read: Vec<_> = read.map(|((file, at), block)| self.keep(file.instance(), *at, block, fill)).collect();
        Ok(numbers.into_iter().map(|number: usize| read[number].clone()).collect())
    }

    /// The block that `pointer` names in the file `instance`, if it is in memory.
    #[inline]
    #[must_use]
    pub fn lookup(&self, instance: u64, pointer: BlockPointer, fill: Fill) -> Option<Block> {
        let key = Key { instance, offset: pointer.offset };
        let hash = key.hash();
        self.shard(hash).shard.lock().get(hash, key, tag(pointer), fill == Fill::Keep)
    }

    /// As [`Self::lookup`], of a block that may be in a swip, as in [`Self::get_at`].
    #[inline]
    #[must_use]
    pub fn lookup_at(
        &self,
        swip: Option<SwipOf<'_>>,
        instance: u64,
        pointer: BlockPointer,
        fill: Fill,
    ) -> Option<Block> {
        let swip = swip.filter(|_| fill == Fill::Keep);
        let Some(swip) = swip else { return self.lookup(instance, pointer, fill) };
        if let Some(block) = self.at_hand(swip) {
            return Some(block);
        }
        let key = Key { instance, offset: pointer.offset };
        let hash = key.hash();
        self.shard(hash).shard.lock().get_for(hash, key, tag(pointer), || swip.downgrade())
    }

    /// The block in `swip`, if there is one.
    #[inline]
    #[must_use]
    pub fn at_hand(&self, swip: SwipOf<'_>) -> Option<Block> {
        let block = swip.get()?;
        self.at_hand.add([1]);
        Some(block)
    }

    /// Prefetches the memory that a lookup of the block reads first. Returns true if the swip holds the block: then it
    /// prefetches the block itself.
    #[inline]
    pub fn follow(&self, swip: Option<SwipOf<'_>>, instance: u64, pointer: BlockPointer) -> bool {
        let is_at_hand = swip.is_some_and(SwipOf::follow);
        if !is_at_hand {
            self.prefetch_line(instance, pointer);
        }
        is_at_hand
    }

    /// Prefetches the memory that a lookup of the block reads first.
    #[inline]
    pub fn prefetch_line(&self, instance: u64, pointer: BlockPointer) {
        let hash = Key { instance, offset: pointer.offset }.hash();
        self.shard(hash).table_addr.prefetch(hash);
    }

    /// Asks for the memory of the block that is kept at this place; false when none is.
    #[inline]
    pub fn prefetch_step(&self, instance: u64, pointer: BlockPointer) -> bool {
        let key = Key { instance, offset: pointer.offset };
        let hash = key.hash();
        self.shard(hash).shard.lock().prefetch_step(hash, key)
    }

    /// Puts in a block that was just written or read, and returns the one to use: an equal one that was already there,
    /// or itself. A block too large for the cache is returned and not kept.
    pub fn insert(&self, instance: u64, pointer: BlockPointer, block: Block) -> Block {
        let key = Key { instance, offset: pointer.offset };
        let weight = u64_of(block.memory_bytes());
        let mut dropped = Vec::new();
        let latched = self.shard(key.hash());
        let mut shard = latched.shard.lock();
        let kept = shard.insert(key, tag(pointer), block, weight, &mut dropped);
        latched.table_addr.follow(shard.table());
        drop(shard);
        kept
    }

    /// Puts in a block that was just written, of about `bytes` bytes, if it fits without the eviction of another block;
    /// `make` makes it then. It is the first to be evicted later, unless it is read before.
    pub fn populate(&self, instance: u64, pointer: BlockPointer, bytes: usize, make: impl FnOnce() -> Block) {
        let key = Key { instance, offset: pointer.offset };
        let latched = self.shard(key.hash());
        if !latched.shard.lock().has_room(u64_of(bytes)) {
            return;
        }
        // Outside of the latch: it copies the block.
        let block = make();
        let weight = u64_of(block.memory_bytes());
        let mut shard = latched.shard.lock();
        shard.populate(key, tag(pointer), block, weight);
        latched.table_addr.follow(shard.table());
    }

    /// As [`Self::lookup`] of [`Fill::Merge`], and whether the block was ever read: one that was only populated is not
    /// warm.
    #[must_use]
    pub fn peek(&self, instance: u64, pointer: BlockPointer) -> Option<(Block, bool)> {
        let key = Key { instance, offset: pointer.offset };
        self.shard(key.hash()).shard.lock().peek(key, tag(pointer))
    }

    /// Forgets the block at `offset` of the file `instance`, because another will be written there.
    pub fn forget_block(&self, instance: u64, offset: u64) {
        let key = Key { instance, offset };
        let mut dropped = Vec::new();
        self.shard(key.hash()).shard.lock().forget(key, &mut dropped);
    }

    /// Forgets all blocks of the file `instance`, which is no longer read.
    pub fn forget(&self, instance: u64) {
        for latched in &self.shards {
            let mut dropped = Vec::new();
            latched.shard.lock().forget_file(instance, &mut dropped);
        }
    }

    /// Copies blocks from regions of memory that hold few bytes of blocks to other regions, so that the former go back
    /// to the system. To be called from time to time, by a thread that no other waits for.
    pub fn defragment(&self) {
        let draining = Draining::begin();
        if !draining.is_empty() {
            self.copy_blocks(|block| block.is_in(&draining));
        }
    }

    /// Puts copies in the place of the blocks that are `chosen`. Readers that hold such a block hold it until they let
    /// go. A block that comes in meanwhile, or whose line moves in its table, may be left out.
    pub(crate) fn copy_blocks(&self, mut chosen: impl FnMut(&Block) -> bool) {
        for latched in &self.shards {
            for at in (0..).step_by(LINES_AT_ONCE) {
                let shard = latched.shard.lock();
                let Some(lines) = shard.table().lines_from(at, LINES_AT_ONCE) else { break };
                let lines = lines.filter(|line| chosen(&line.value));
                let blocks: Vec<_> = lines.map(|line| (line.key, line.tag, line.value.clone())).collect();
                drop(shard);
                for (key, tag, block) in blocks {
                    let (copy, mut dropped) = (block.copied(), vec![block]);
                    latched.shard.lock().replace(key, tag, copy, &mut dropped);
                }
            }
        }
    }

    /// Changes the capacity to what `wanted` makes of the one so far, if anything, and evicts down to it before it
    /// returns. One caller does so after the other, so that the last one decides.
    pub fn fit(&self, wanted: impl FnOnce(u64) -> Option<u64>) {
        let lent = self.lent.lock();
        let Some(bytes) = wanted(self.capacity()) else { return };
        // Relaxed: publishes nothing but itself.
        self.capacity.store(bytes, Ordering::Relaxed);
        self.share(bytes, *lent);
    }

    /// Changes how many bytes of the capacity are lent, and evicts down to the rest: to half of the capacity at most.
    pub(super) fn lend(&self, change: impl FnOnce(u64) -> u64) {
        let mut lent = self.lent.lock();
        *lent = change(*lent);
        self.share(self.capacity(), *lent);
    }

    /// Gives the shards their shares of a capacity of which some bytes are lent. Called with the latch of the latter.
    fn share(&self, capacity: u64, lent: u64) {
        let bytes = capacity - lent.min(capacity / LENT_PART);
        for latched in &self.shards {
            let mut dropped = Vec::new();
            latched.shard.lock().set_capacity(bytes / u64_of(self.shards.len()), &mut dropped);
        }
    }

    /// Bytes that are lent.
    #[cfg(test)]
    pub(crate) fn lent_bytes(&self) -> u64 {
        *self.lent.lock()
    }

    /// Bytes of memory that blocks may take. Some of them may be lent.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Grants `bytes` of memory to a tree for blocks that it pins, if that many are left: all trees together get a
    /// thirty-second of the capacity at that moment, in addition to the capacity. Such blocks are in the cache as well
    /// until it evicts them.
    #[must_use]
    pub fn reserve(&self, bytes: u64) -> bool {
        let room = self.capacity() / RESERVED_PART;
        let take = |kept: u64| kept.checked_add(bytes).filter(|kept| *kept <= room);
        // Relaxed: a counter. Most callers that find all of it taken need not write.
        take(self.reserved.load(Ordering::Relaxed)).is_some()
            && self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// How many bytes [`Self::reserve`] would grant now.
    #[must_use]
    pub fn reservable_bytes(&self) -> u64 {
        (self.capacity() / RESERVED_PART).saturating_sub(self.reserved.load(Ordering::Relaxed))
    }

    /// Takes back what [`Self::reserve`] granted.
    pub fn release(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of memory that blocks take now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|latched| latched.shard.lock().bytes()).sum()
    }

    /// What the cache did so far.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let [hits] = self.at_hand.sums();
        let mut sum = CacheStats { hits, capacity_bytes: self.capacity(), ..CacheStats::default() };
        for latched in &self.shards {
            let shard = latched.shard.lock();
            sum.hits += shard.tally.hits;
            sum.misses += shard.tally.misses;
            sum.populated += shard.tally.populated;
            sum.evicted += shard.tally.evicted;
            sum.bytes += shard.bytes();
        }
        sum
    }

    /// As [`Cache::get`], of a block that a lookup did not find.
    ///
    /// # Errors
    /// As [`Cache::get`].
    #[cold]
    pub fn read(&self, file: &BlockFile, pointer: BlockPointer, fill: Fill) -> Result<Block> {
        let block = file.read(pointer)?;
        Ok(self.keep(file.instance(), pointer, block, fill))
    }

    fn keep(&self, instance: u64, pointer: BlockPointer, block: Block, fill: Fill) -> Block {
        match fill {
            Fill::Keep => self.insert(instance, pointer, block),
            Fill::Bypass | Fill::Merge => block,
        }
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Latched {
        // Bits that the table of a shard does not look at: it takes the low ones.
        &self.shards[usize_of(hash >> 48) & (self.shards.len() - 1)]
    }
}

debug_by!(Cache, self => shards: self.shards.len(), stats: self.stats());

/// What tells two blocks at one offset apart.
#[inline]
fn tag(pointer: BlockPointer) -> u64 {
    u64::from(pointer.bytes) << 32 | u64::from(pointer.checksum)
}
