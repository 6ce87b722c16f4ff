//! One shard of the cache: a bounded set of blocks under one latch, evicted by S3-FIFO.
//!
//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP 2023) sends a new block
//! through a *small* queue of a tenth of the room. A block that is read again there moves to the *main* queue; the others,
//! which are most of them, leave after a tenth of the time that LRU would keep them, so a scan cannot wash the main queue
//! away. A block that left too early is known by the *ghost* and goes straight to main when it comes back. A hit sets two
//! bits and moves nothing.
//!
//! # Invariants
//! 1. The weights of all blocks kept sum to `bytes`, which is never above `capacity`.
//! 2. Each slot is in exactly one of the queues free, small and main; a slot in use is also in its file's list and in the index.
//! 3. A key has at most one block, the one that was inserted last.

use std::collections::HashMap;

use hashbrown::HashTable;

use super::ghost::Ghost;
use super::list::{Index, Linked, Links, List, NONE, at};
use crate::base::num::{u32_of, u64_of, usize_of32};
use crate::base::prefetch::CACHE_LINE_BYTES;

/// What a kept value costs beside its own bytes: its slot, its places in the index and the ghost, with the slack of growth.
pub(super) const ENTRY_BYTES: u64 = 200;

/// Reads that are remembered per block: more say nothing new.
const FREQUENCY_MAX: u8 = 3;
/// Reads in the small queue that earn a place in main.
const PROMOTE_AT: u8 = 1;
/// Reads of a block while it is among the newest one in so many are part of what brought it in, as when a scan looks at the
/// same block several times; they say nothing about whether it will be wanted later.
const YOUNG_PART: u64 = 64;
/// Small's part of the capacity is one in so many.
const SMALL_PART: u64 = 10;
/// The largest value that is kept is one in so many of the capacity: one value must not wash out all others.
const VALUE_PART: u64 = 4;
/// After so many blocks that were read since they were last looked at, eviction takes the next one as it is: this bounds the
/// time under the latch when all blocks are hot.
const SPARED_MAX: usize = 256;

/// Where a value lies: a file, by the number that its open handle has in this process, and an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) instance: u64,
    pub(super) offset: u64,
}

impl Key {
    /// A hash with all bits spread (the finaliser of splitmix64). Low bits index, the top seven tag, the middle ones shard.
    #[inline]
    pub(super) const fn hash(self) -> u64 {
        let mut hash = self.offset ^ self.instance.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }

    /// The bits of the hash that the ghost remembers.
    #[expect(clippy::cast_possible_truncation, reason = "32 bits of the hash are wanted")]
    const fn fingerprint(self) -> u32 {
        (self.hash() >> 16) as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Free,
    Small,
    Main,
}

/// The family of lists that the queues are.
const QUEUE: usize = 0;
/// The family of lists that hold the values of one file each.
const FILE: usize = 1;

/// What a hit looks at is in its first line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Slot<V> {
    key: Key,
    /// Tells two values at one key apart: blocks of a tree file are rewritten where an older block was.
    tag: u64,
    value: Option<V>,
    /// How many values had been inserted into the shard before this one.
    born: u64,
    frequency: u8,
    queue: Queue,
    weight: u64,
    queue_links: Links,
    file_links: Links,
}

const _: () = assert!(std::mem::offset_of!(Slot<[usize; 2]>, queue) < CACHE_LINE_BYTES);

impl<V> Linked<QUEUE> for Slot<V> {
    fn links(&self) -> Links {
        self.queue_links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.queue_links
    }
}

impl<V> Linked<FILE> for Slot<V> {
    fn links(&self) -> Links {
        self.file_links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.file_links
    }
}

/// Totals since the shard was made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) inserted: u64,
    pub(super) evicted: u64,
}

/// A bounded map from keys to values that are cheap to clone.
#[derive(Debug)]
pub(super) struct Shard<V> {
    capacity: u64,
    bytes: u64,
    small_bytes: u64,
    index: HashTable<Index>,
    slots: Vec<Slot<V>>,
    queues: [List<QUEUE>; 3],
    files: HashMap<u64, List<FILE>>,
    ghost: Ghost,
    pub(super) tally: Tally,
}

/// A value that many can share.
pub(super) trait Shared: Clone {
    /// Asks for the memory that a clone and what is done with it look at first.
    fn prefetch(&self) {}
}

impl<V: Shared> Shard<V> {
    /// An empty shard for values of `capacity` bytes.
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            bytes: 0,
            small_bytes: 0,
            index: HashTable::new(),
            slots: Vec::new(),
            queues: [List::EMPTY; 3],
            files: HashMap::new(),
            ghost: Ghost::new(),
            tally: Tally::default(),
        }
    }

    /// The weights of all values kept.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The value at `key`, if it is the one that `tag` names. `touch` says that this is a read that should keep it here.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: Key, tag: u64, touch: bool) -> Option<V> {
        let found = self.locate(hash, key);
        self.take(found, tag, touch)
    }

    /// As [`Self::get`], of a key whose value is at `index`.
    #[inline]
    pub(super) fn get_at(&mut self, index: Index, hash: u64, key: Key, tag: u64, touch: bool) -> Option<V> {
        if self.peek(index, key).is_none() {
            return self.get(hash, key, tag, touch);
        }
        self.take(Some(index), tag, touch)
    }

    #[inline]
    fn take(&mut self, found: Option<Index>, tag: u64, touch: bool) -> Option<V> {
        let slots = &mut self.slots;
        let slot = found.map(|index| at(slots, index)).filter(|slot| slot.tag == tag);
        if touch {
            let count = if slot.is_some() { &mut self.tally.hits } else { &mut self.tally.misses };
            *count += 1;
        }
        let slot = slot?;
        // The clone waits for its count, and the processor lets nothing behind it go ahead.
        slot.value.as_ref().inspect(|value| value.prefetch());
        if touch && slot.frequency < FREQUENCY_MAX {
            let age = self.tally.inserted - slot.born;
            let young = slot.queue == Queue::Small && age * YOUNG_PART < u64_of(self.index.len());
            slot.frequency += u8::from(!young);
        }
        slot.value.clone()
    }

    /// Where the value at `key` is, if there is one: a hint for [`Self::peek`] and [`Self::get_at`], which holds until it is evicted.
    #[inline]
    pub(super) fn locate(&self, hash: u64, key: Key) -> Option<Index> {
        self.index.find(hash, |index| self.slots[usize_of32(*index)].key == key).copied()
    }

    /// The address of what is at `index`, whatever that is by now.
    #[inline]
    pub(super) fn slot_address(&self, index: Index) -> *const u8 {
        self.slots.as_ptr().wrapping_add(usize_of32(index)).cast()
    }

    /// The value at `index`, if it is still that of `key`.
    #[inline]
    pub(super) fn peek(&self, index: Index, key: Key) -> Option<&V> {
        self.slots.get(usize_of32(index)).filter(|slot| slot.key == key)?.value.as_ref()
    }

    /// Keeps `value` in place of what was at `key`, unless it is too large, and returns it; if the same value is there
    /// already, keeps and returns that one. What had to go is left in `dropped`, to be dropped outside the latch.
    pub(super) fn insert(&mut self, key: Key, tag: u64, value: V, weight: u64, dropped: &mut Vec<V>) -> V {
        let hash = key.hash();
        if let Some(index) = self.find(key) {
            match &self.slots[usize_of32(index)] {
                Slot { tag: other, value: Some(value), .. } if *other == tag => return value.clone(),
                _ => self.remove(index, dropped),
            }
        }
        let weight = weight.saturating_add(ENTRY_BYTES);
        if weight > self.capacity / VALUE_PART {
            return value;
        }
        self.evict_to(self.capacity - weight, dropped);
        let queue = if self.ghost.take(key.fingerprint(), self.index.len()) { Queue::Main } else { Queue::Small };
        let slot = Slot {
            key,
            tag,
            value: Some(value.clone()),
            weight,
            queue_links: Links::UNLINKED,
            file_links: Links::UNLINKED,
            queue,
            frequency: 0,
            born: self.tally.inserted,
        };
        let index = self.place(slot);
        let slots = &self.slots;
        self.index.insert_unique(hash, index, |index| slots[usize_of32(*index)].key.hash());
        self.tally.inserted += 1;
        value
    }

    /// Forgets what is kept at `key`.
    pub(super) fn forget(&mut self, key: Key, dropped: &mut Vec<V>) {
        if let Some(index) = self.find(key) {
            self.remove(index, dropped);
        }
    }

    /// Forgets all that is kept of a file.
    pub(super) fn forget_file(&mut self, instance: u64, dropped: &mut Vec<V>) {
        while let Some(list) = self.files.get(&instance) {
            self.remove(list.front(), dropped);
        }
    }

    /// Changes the capacity, and evicts down to it.
    pub(super) fn set_capacity(&mut self, capacity: u64, dropped: &mut Vec<V>) {
        self.capacity = capacity;
        self.evict_to(capacity, dropped);
    }

    fn find(&self, key: Key) -> Option<Index> {
        self.locate(key.hash(), key)
    }

    fn evict_to(&mut self, bytes: u64, dropped: &mut Vec<V>) {
        while self.bytes > bytes {
            self.evict(dropped);
            self.tally.evicted += 1;
        }
    }

    /// Evicts one value; there must be one.
    fn evict(&mut self, dropped: &mut Vec<V>) {
        let mut spared = 0;
        loop {
            let (small, main) = (self.queue(Queue::Small).back(), self.queue(Queue::Main).back());
            let from_small = main == NONE || (small != NONE && self.small_bytes > self.capacity / SMALL_PART);
            let index = if from_small { small } else { main };
            let slot = at(&mut self.slots, index);
            let spare = if from_small { slot.frequency >= PROMOTE_AT } else { slot.frequency > 0 };
            if spare && spared < SPARED_MAX {
                spared += 1;
                slot.frequency = if from_small { 0 } else { slot.frequency - 1 };
                self.requeue(index, Queue::Main);
                continue;
            }
            if from_small {
                let fingerprint = slot.key.fingerprint();
                self.ghost.put(fingerprint, self.index.len());
            }
            return self.remove(index, dropped);
        }
    }

    /// Puts a filled slot into a free place of the vector, its queue and its file's list.
    fn place(&mut self, slot: Slot<V>) -> Index {
        let (queue, instance) = (slot.queue, slot.key.instance);
        self.bytes += slot.weight;
        if queue == Queue::Small {
            self.small_bytes += slot.weight;
        }
        let index = match self.queue(Queue::Free).front() {
            NONE => {
                self.slots.push(slot);
                u32_of(self.slots.len() - 1)
            }
            free => {
                self.queues[Queue::Free as usize].unlink(&mut self.slots, free);
                *at(&mut self.slots, free) = slot;
                free
            }
        };
        self.queues[queue as usize].push_front(&mut self.slots, index);
        self.files.entry(instance).or_insert(List::EMPTY).push_front(&mut self.slots, index);
        index
    }

    /// Moves a slot in use to the free queue.
    fn remove(&mut self, index: Index, dropped: &mut Vec<V>) {
        let slot = at(&mut self.slots, index);
        let key = slot.key;
        self.bytes -= slot.weight;
        dropped.extend(slot.value.take());
        if let Ok(entry) = self.index.find_entry(key.hash(), |other| *other == index) {
            entry.remove();
        }
        if let Some(list) = self.files.get_mut(&key.instance) {
            list.unlink(&mut self.slots, index);
            if list.front() == NONE {
                self.files.remove(&key.instance);
            }
        }
        self.requeue(index, Queue::Free);
    }

    fn requeue(&mut self, index: Index, to: Queue) {
        let slot = at(&mut self.slots, index);
        let from = std::mem::replace(&mut slot.queue, to);
        if from == Queue::Small {
            self.small_bytes -= slot.weight;
        }
        self.queues[from as usize].unlink(&mut self.slots, index);
        self.queues[to as usize].push_front(&mut self.slots, index);
    }

    const fn queue(&self, queue: Queue) -> List<QUEUE> {
        self.queues[queue as usize]
    }

    /// Checks the invariants of the header.
    ///
    /// # Panics
    /// When one does not hold.
    #[cfg(test)]
    pub(super) fn verify(&self) {
        let used = || self.slots.iter().filter(|slot| slot.queue != Queue::Free);
        let small = || used().filter(|slot| slot.queue == Queue::Small);
        assert_eq!(self.bytes, used().map(|slot| slot.weight).sum::<u64>());
        assert_eq!(self.small_bytes, small().map(|slot| slot.weight).sum::<u64>());
        assert!(self.bytes <= self.capacity, "{} bytes in {}", self.bytes, self.capacity);
        assert_eq!(self.index.len(), used().count());
        assert!(self.slots.iter().all(|slot| slot.value.is_some() == (slot.queue != Queue::Free)));
        for queue in [Queue::Free, Queue::Small, Queue::Main] {
            let members = self.queue(queue).iter(&self.slots).collect::<Vec<_>>();
            assert!(members.iter().all(|slot| slot.queue == queue));
            assert_eq!(members.len(), self.slots.iter().filter(|slot| slot.queue == queue).count());
        }
        for (instance, list) in &self.files {
            let members = list.iter(&self.slots).collect::<Vec<_>>();
            assert!(!members.is_empty() && members.iter().all(|slot| slot.key.instance == *instance));
        }
        assert_eq!(self.files.values().map(|list| list.iter(&self.slots).count()).sum::<usize>(), used().count());
        for slot in used() {
            let index = self.find(slot.key).expect("a slot in use is in the index");
            assert!(std::ptr::eq(slot, &raw const self.slots[usize_of32(index)]));
        }
    }
}
