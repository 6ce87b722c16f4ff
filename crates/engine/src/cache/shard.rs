//! One shard of the cache: a bounded set of blocks under one latch, evicted by S3-FIFO.
//!
//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP 2023) sends a new
//! block through a *small* queue of a tenth of the capacity. A block that is read again there moves to the *main*
//! queue; the others, which are most of them, leave after a tenth of the time that LRU would keep them, so a scan
//! cannot wash the main queue away. A block that left too early is known by the *ghost* and goes straight to main when
//! it comes back. A hit sets two bits and moves nothing.
//!
//! A value that was *populated* ([`Shard::populate`]) was written just now and was not read yet. It takes free room
//! only, waits in a queue of its own, and is the first to be evicted: for all other values the shard behaves as if it
//! were not there. The first read moves it to small, as if it had come in with that read.
//!
//! # Invariants
//! 1. The weights of all blocks kept sum to `bytes`, which is never above `capacity`.
//! 2. Each slot is in exactly one of the queues free, populated, small and main; a slot in use is also in its file's
//!    list, and it and its line in the table name each other.
//! 3. What is in a swip of a slot is the slot's value; a swip that no slot has is empty, or its branch is gone.
//! 4. A key has at most one block, the one that was inserted last.

use std::collections::HashMap;
use std::mem;

use super::ghost::Ghost;
use super::table::{Key, Line, Table};
use crate::base::intrusive_list::{Index, Linked, Links, List, NONE, at};
use crate::base::num::{u32_of, u64_of, usize_of32};

/// Bytes that a kept value costs in addition to its own, on average: its line, its slot, its place in the ghost, with
/// the slack of growth.
pub(super) const ENTRY_BYTES: u64 = 240;

/// Reads that are remembered per block: more say nothing new.
const FREQUENCY_MAX: u8 = 3;
/// Reads in the small queue that earn a place in main.
const PROMOTE_AT: u8 = 1;
/// Reads of a block while it is among this newest part of the queue belong to what brought it in, as when a scan reads
/// the same block several times; they say nothing about whether it will be wanted later.
const YOUNG_PART: u64 = 64;
/// The part (1/10) of the capacity that the small queue has.
const SMALL_PART: u64 = 10;
/// The part of the capacity that the largest value may have: one value must not evict all others.
const VALUE_PART: u64 = 4;
/// Blocks read since the last inspection that eviction passes before it takes the next one as it is: this
/// bounds the time under the latch when all blocks are hot.
const SPARED_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Free,
    /// Populated, and not read yet.
    Populated,
    Small,
    Main,
}

/// The family of lists that the queues are.
const QUEUE: usize = 0;
/// The family of lists that hold the values of one file each.
const FILE: usize = 1;

/// What is known of a value, and no hit looks at.
#[derive(Debug)]
struct Slot<W> {
    weight: u64,
    queue: Queue,
    /// Where its line is in the table.
    line: u32,
    queue_links: Links,
    file_links: Links,
    /// Where readers find it without the shard.
    swip: Option<W>,
}

impl<W> Linked<QUEUE> for Slot<W> {
    fn links(&self) -> Links {
        self.queue_links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.queue_links
    }
}

impl<W> Linked<FILE> for Slot<W> {
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
    pub(super) populated: u64,
    pub(super) evicted: u64,
}

/// A bounded map from keys to values that are cheap to clone.
#[derive(Debug)]
pub(super) struct Shard<V: Shared> {
    capacity: u64,
    bytes: u64,
    small_bytes: u64,
    /// How many values are in the populated queue.
    populated: usize,
    table: Table<V>,
    slots: Vec<Slot<V::Swip>>,
    queues: [List<QUEUE>; 4],
    files: HashMap<u64, List<FILE>>,
    ghost: Ghost,
    pub(super) tally: Tally,
}

/// Notes in the slots where their lines are in the table.
fn place_in<W>(slots: &mut [Slot<W>]) -> impl FnMut(Index, usize) {
    |slot, line| at(slots, slot).line = u32_of(line)
}

/// A value that many can share.
pub(super) trait Shared: Clone {
    /// Where it may be found without the shard.
    type Swip: Swizzle<Self>;

    /// Prefetches the memory that a clone, and accesses to it, read first.
    fn prefetch(&self) {}
}

/// A place outside of the shard, which puts a value there and takes it out.
pub(super) trait Swizzle<V>: PartialEq {
    /// Puts the value in.
    fn put(&self, value: &V);
    /// Takes it out.
    fn take(&self) -> Option<V>;
    /// Reads of it there since this was last asked, up to some number.
    fn cool(&self) -> u8;
}

impl<V: Shared> Shard<V> {
    /// An empty shard for values of `capacity` bytes.
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            bytes: 0,
            small_bytes: 0,
            populated: 0,
            table: Table::new(),
            slots: Vec::new(),
            queues: [List::EMPTY; 4],
            files: HashMap::new(),
            ghost: Ghost::new(),
            tally: Tally::default(),
        }
    }

    /// The weights of all values kept.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where values are found.
    #[inline]
    pub(super) const fn table(&self) -> &Table<V> {
        &self.table
    }

    /// The value at `key`, if it is the value that `tag` names. `touch` says that this is a read that should keep it
    /// here.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: Key, tag: u64, touch: bool) -> Option<V> {
        let len = u64_of(self.read_len());
        let found = self.table.find(hash, key).map(|at| self.table.line(at)).filter(|line| line.tag == tag);
        if touch && let Some(slot) = found.as_ref().filter(|line| line.populated).map(|line| line.slot) {
            return self.first_read(slot);
        }
        if touch {
            let count = if found.is_some() { &mut self.tally.hits } else { &mut self.tally.misses };
            *count += 1;
        }
        let line = found?;
        // The clone waits for its count, and the processor lets nothing behind it go ahead.
        line.value.prefetch();
        if touch && line.frequency < FREQUENCY_MAX {
            let young = (self.tally.inserted - line.born) * YOUNG_PART < len;
            line.frequency += u8::from(!young);
        }
        Some(line.value.clone())
    }

    /// The first read of a populated value, which moves it to where it would be if that read had brought it in.
    #[cold]
    fn first_read(&mut self, slot: Index) -> Option<V> {
        self.tally.hits += 1;
        let born = self.tally.inserted;
        self.tally.inserted += 1;
        let line = self.line(slot);
        (line.populated, line.born) = (false, born);
        let value = line.value.clone();
        self.requeue(slot, Queue::Small);
        Some(value)
    }

    /// The value at `key`, if it is the value that `tag` names, and whether it was ever read. Does not count as a read.
    pub(super) fn peek(&mut self, key: Key, tag: u64) -> Option<(V, bool)> {
        let at = self.table.find(key.hash(), key)?;
        let line = self.table.line(at);
        (line.tag == tag).then(|| (line.value.clone(), !line.populated))
    }

    /// As [`Self::get`] of a read, for a reader that did not find the value in this swip of it. The value goes into the
    /// swip, if it is worth it.
    pub(super) fn get_for(&mut self, hash: u64, key: Key, tag: u64, swip: impl FnOnce() -> V::Swip) -> Option<V> {
        let value = self.get(hash, key, tag, true)?;
        let found = self.table.find(hash, key)?;
        let line = self.table.line(found);
        if line.frequency > 0 {
            let (slot, swip) = (at(&mut self.slots, line.slot), swip());
            // Where it is there already, others were reading it at that moment.
            if slot.swip.as_ref() != Some(&swip) {
                // It was in that of the branch of an older tree.
                if let Some(older) = slot.swip.take() {
                    line.frequency = FREQUENCY_MAX.min(line.frequency + older.cool());
                    drop(older.take());
                }
                swip.put(&value);
                slot.swip = Some(swip);
            }
        }
        Some(value)
    }

    /// Takes a value out of its swip, if it has one.
    fn unswizzle(&mut self, index: Index) -> Option<V> {
        at(&mut self.slots, index).swip.take()?.take()
    }

    /// Prefetches the value at `key`, if there is one.
    #[inline]
    pub(super) fn prefetch_step(&mut self, hash: u64, key: Key) -> bool {
        let found = self.table.find(hash, key);
        found.inspect(|at| self.table.line(*at).value.prefetch()).is_some()
    }

    /// Keeps `value` in place of what was at `key`, unless it is too large, and returns it; if the same value is there
    /// already, keeps and returns that one. What had to go is left in `dropped`, to be dropped outside the latch.
    pub(super) fn insert(&mut self, key: Key, tag: u64, value: V, weight: u64, dropped: &mut Vec<V>) -> V {
        if let Some(at) = self.table.find(key.hash(), key) {
            let line = self.table.line(at);
            let (is_same, populated, slot, kept) = (line.tag == tag, line.populated, line.slot, line.value.clone());
            if is_same {
                return if populated { self.first_read(slot).unwrap_or(kept) } else { kept };
            }
            self.remove(slot, dropped);
        }
        let weight = weight.saturating_add(ENTRY_BYTES);
        if weight > self.capacity / VALUE_PART {
            return value;
        }
        self.evict_to(self.capacity - weight, dropped);
        let queue = if self.ghost.take(key.fingerprint(), self.read_len()) { Queue::Main } else { Queue::Small };
        self.enter(key, tag, value.clone(), weight, queue);
        value
    }

    /// Whether a value of `weight` has room without that another one goes.
    pub(super) const fn has_room(&self, weight: u64) -> bool {
        let weight = weight.saturating_add(ENTRY_BYTES);
        weight <= self.capacity / VALUE_PART && self.bytes.saturating_add(weight) <= self.capacity
    }

    /// Keeps `value`, which was just written at a place that no value is kept of, if there is room for it.
    pub(super) fn populate(&mut self, key: Key, tag: u64, value: V, weight: u64) {
        if self.has_room(weight) && self.table.find(key.hash(), key).is_none() {
            self.enter(key, tag, value, weight.saturating_add(ENTRY_BYTES), Queue::Populated);
        }
    }

    /// Puts a value in that has room, and is not there.
    fn enter(&mut self, key: Key, tag: u64, value: V, weight: u64, queue: Queue) {
        let born = if queue == Queue::Main { 0 } else { self.tally.inserted };
        let (queue_links, file_links) = (Links::UNLINKED, Links::UNLINKED);
        let slot = self.place(Slot { weight, queue, line: 0, queue_links, file_links, swip: None });
        self.files.entry(key.instance).or_insert(List::EMPTY).push_front(&mut self.slots, slot);
        let line = Line { key, tag, value, born, slot, frequency: 0, populated: queue == Queue::Populated };
        self.table.insert(line, place_in(&mut self.slots));
        match queue {
            Queue::Populated => self.tally.populated += 1,
            _ => self.tally.inserted += 1,
        }
    }

    /// How many values are kept that were read.
    const fn read_len(&self) -> usize {
        self.table.len() - self.populated
    }

    /// Puts `copy` in place of its equal, the value that `tag` names, if that is still kept at `key`. What was there is
    /// left in `dropped`, to be dropped outside the latch.
    pub(super) fn replace(&mut self, key: Key, tag: u64, copy: V, dropped: &mut Vec<V>) {
        let Some(found) = self.table.find(key.hash(), key) else { return };
        let line = self.table.line(found);
        if line.tag != tag {
            return;
        }
        dropped.push(mem::replace(&mut line.value, copy));
        if let Some(swip) = &at(&mut self.slots, line.slot).swip {
            line.frequency = FREQUENCY_MAX.min(line.frequency + swip.cool());
            // Its branch may be gone.
            if let Some(older) = swip.take() {
                dropped.push(older);
                swip.put(&line.value);
            }
        }
    }

    /// Forgets what is kept at `key`.
    pub(super) fn forget(&mut self, key: Key, dropped: &mut Vec<V>) {
        if let Some(at) = self.table.find(key.hash(), key) {
            let slot = self.table.line(at).slot;
            self.remove(slot, dropped);
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

    fn evict_to(&mut self, bytes: u64, dropped: &mut Vec<V>) {
        while self.bytes > bytes {
            self.evict(dropped);
            self.tally.evicted += 1;
        }
    }

    /// Evicts one value; there must be one.
    fn evict(&mut self, dropped: &mut Vec<V>) {
        let populated = self.queue(Queue::Populated).back();
        if populated != NONE {
            return self.remove(populated, dropped);
        }
        let mut spared = 0;
        loop {
            let (small, main) = (self.queue(Queue::Small).back(), self.queue(Queue::Main).back());
            let from_small = main == NONE || (small != NONE && self.small_bytes > self.capacity / SMALL_PART);
            let index = if from_small { small } else { main };
            let heat = at(&mut self.slots, index).swip.as_ref().map_or(0, V::Swip::cool);
            let line = self.line(index);
            line.frequency = FREQUENCY_MAX.min(line.frequency + heat);
            let spare = if from_small { line.frequency >= PROMOTE_AT } else { line.frequency > 0 };
            if spare && spared < SPARED_MAX {
                spared += 1;
                line.frequency = if from_small { 0 } else { line.frequency - 1 };
                line.born = 0;
                self.requeue(index, Queue::Main);
                continue;
            }
            if from_small {
                let fingerprint = line.key.fingerprint();
                let len = self.read_len();
                self.ghost.put(fingerprint, len);
            }
            return self.remove(index, dropped);
        }
    }

    /// The line of a slot in use.
    fn line(&mut self, index: Index) -> &mut Line<V> {
        self.table.line(usize_of32(at(&mut self.slots, index).line))
    }

    /// Puts a filled slot into a free place of the vector, and into its queue.
    fn place(&mut self, slot: Slot<V::Swip>) -> Index {
        let queue = slot.queue;
        self.bytes += slot.weight;
        self.small_bytes += if queue == Queue::Small { slot.weight } else { 0 };
        self.populated += usize::from(queue == Queue::Populated);
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
        index
    }

    /// Takes a value out, and moves its slot to the free queue.
    fn remove(&mut self, index: Index, dropped: &mut Vec<V>) {
        let &mut Slot { weight, line, .. } = at(&mut self.slots, index);
        self.bytes -= weight;
        let Line { key, value, .. } = self.table.remove(usize_of32(line), place_in(&mut self.slots));
        dropped.extend(self.unswizzle(index));
        dropped.push(value);
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
        let from = mem::replace(&mut slot.queue, to);
        self.small_bytes -= if from == Queue::Small { slot.weight } else { 0 };
        self.small_bytes += if to == Queue::Small { slot.weight } else { 0 };
        self.populated -= usize::from(from == Queue::Populated);
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
        assert_eq!(self.populated, used().filter(|slot| slot.queue == Queue::Populated).count());
        assert!(self.bytes <= self.capacity, "{} bytes in {}", self.bytes, self.capacity);
        self.table.verify();
        assert_eq!(self.table.len(), used().count());
        for queue in [Queue::Free, Queue::Populated, Queue::Small, Queue::Main] {
            let members = self.queue(queue).iter(&self.slots).collect::<Vec<_>>();
            assert!(members.iter().all(|slot| slot.queue == queue));
            assert_eq!(members.len(), self.slots.iter().filter(|slot| slot.queue == queue).count());
        }
        for (instance, list) in &self.files {
            let members = list.iter(&self.slots).collect::<Vec<_>>();
            assert!(
                !members.is_empty() && members.iter().all(|slot| self.table.at(slot.line).key.instance == *instance)
            );
        }
        assert_eq!(self.files.values().map(|list| list.iter(&self.slots).count()).sum::<usize>(), used().count());
        for slot in used() {
            let line = self.table.at(slot.line);
            assert!(std::ptr::eq(slot, &raw const self.slots[usize_of32(line.slot)]));
            assert!(slot.queue != Queue::Main || line.born == 0);
            assert_eq!(slot.queue == Queue::Populated, line.populated);
            assert!(!line.populated || slot.swip.is_none());
        }
    }
}
