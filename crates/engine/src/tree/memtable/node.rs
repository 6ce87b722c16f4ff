//! A node of the memtable's tree: sorted slots with the heads of their keys, read optimistically under a version.
//!
//! A leaf's slots are records; a branch's slots are nodes of the level below, each standing for the records from its
//! `low` up to the `low` of the next. Everything else is the same for both.
//!
//! Heads are taken after the bytes that all keys of the node's range share (`skip`), so that keys with long common
//! prefixes are still told apart without a look at their records.
//!
//! # Invariants
//! 1. A node holds what lies from its `low` (inclusive) up to the `low` of its `next` (exclusive); `low` never changes.
//! 2. Slots are in order of place. A branch has at least one slot, and the `low` of its first is its own.
//! 3. All keys of the range have the same first `skip` bytes.
//! 4. Links and slots point to nodes and records of one arena, which outlives them; none is ever removed.
//!
//! # Concurrency
//! `version` is odd while a writer holds the node. A reader notes an even version, reads what it likes (all of it
//! atomics, and every pointer valid because of invariant 4), and then checks that the version is the same; if not, what
//! it read means nothing. The writer's release fence between the odd version and its changes, and the reader's acquire
//! fence between its reads and the check, make this hold (Boehm, "Can seqlocks get along with programming language
//! memory models?", 2012). Pointers are loaded with acquire and stored behind a release fence, so what they point to is
//! complete.

use crate::base::sync::{AtomicPtr, AtomicU32, AtomicU64, fence, thread};
use std::hint::{self, select_unpredictable};
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use super::arena::Arena;
use super::record::{Record, SortKey};
use crate::base::key::shared_bytes;
use crate::base::num::{u32_of, usize_of32};
use crate::base::prefetch::prefetch;

/// Slots in a node. Tests use few, to reach every split; otherwise a node fills 1 KiB.
pub(super) const SLOTS: usize = if cfg!(test) { 5 } else { 60 };

/// Heads in a node, a number with which a binary search always takes the same steps.
const HEADS: usize = (SLOTS + 1).next_power_of_two() - 1;

/// The head of no slot.
const NO_HEAD: u64 = u64::MAX;

/// How many slots the smaller half gets when a node that grows at one end splits.
const EDGE: usize = SLOTS.div_ceil(10);

/// Bytes that a split must gain before it moves on to more shared bytes, which costs a look at every record.
const SKIP_STEP: usize = 4;

/// How often to look again for a writer to be done before giving way to other threads.
const SPINS: u32 = 200;

/// See the module.
#[repr(C, align(64))]
pub(super) struct Node {
    /// Even: no thread writes. Publishes the writer's changes to readers and to the next writer.
    version: AtomicU64,
    /// The node to the right on the same level. Published by `version`.
    next: Link,
    /// Where the range starts; null for the first node of a level. Published with the node.
    low: AtomicPtr<u8>,
    /// Height above the leaves.
    level: u32,
    /// Slots in use. Published by `version`.
    count: AtomicU32,
    /// Bytes that the keys share. Published by `version`.
    skip: AtomicU32,
    /// The eight key bytes after the skipped ones, per slot; `NO_HEAD` for those not in use. Published by `version`.
    heads: [AtomicU64; HEADS],
    /// Records in leaves, nodes in branches. Published by `version`; what they point to, by themselves.
    slots: [AtomicPtr<u8>; SLOTS],
}

#[cfg(not(any(test, shuttle)))]
const _: () = assert!(size_of::<Node>() == 1024);

/// A pointer to a node of the arena, or to none.
pub(super) struct Link(AtomicPtr<Node>);

impl Clone for Link {
    fn clone(&self) -> Self {
        Self(AtomicPtr::new(self.0.load(Ordering::Acquire)))
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::new()
    }
}

impl Link {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The node, which lives as long as its arena: that of the tree of which the link was set to a node.
    #[inline]
    pub(super) fn get<'t>(&self, _arena: &'t Arena) -> Option<&'t Node> {
        // SAFETY: invariant 4; acquire pairs with the release in `set`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    #[inline]
    pub(super) fn set(&self, node: Option<&Node>) {
        self.0.store(node.map_or(ptr::null_mut(), |node| ptr::from_ref(node).cast_mut()), Ordering::Release);
    }
}

/// What goes into a slot.
#[derive(Clone, Copy)]
pub(super) enum Slot<'t> {
    Record(Record<'t>),
    /// A node that has a `low`.
    Node(&'t Node),
}

impl<'t> Slot<'t> {
    /// Where the slot belongs.
    #[inline]
    pub(super) fn place(self) -> SortKey<'t> {
        match self {
            Self::Record(record) => record.place(),
            Self::Node(node) => node.low().expect("the first node of a level is never added").place(),
        }
    }

    /// The level of the nodes that it goes into.
    #[inline]
    pub(super) fn level(self) -> u32 {
        match self {
            Self::Record(_) => 0,
            Self::Node(node) => node.level + 1,
        }
    }

    #[inline]
    fn as_ptr(self) -> *mut u8 {
        match self {
            Self::Record(record) => record.as_ptr().as_ptr(),
            Self::Node(node) => ptr::from_ref(node).cast_mut().cast(),
        }
    }
}

impl Node {
    /// A node without slots.
    pub(super) fn create(arena: &Arena, level: u32) -> &Self {
        let node = arena.take_aligned::<Self>().as_ptr();
        // SAFETY: the memory is a node's and no other thread knows of it yet; zeros are a node without slots or heads.
        let node = unsafe {
            node.write_bytes(0, 1);
            (&raw mut (*node).level).write(level);
            &*node
        };
        node.truncate(0);
        node
    }

    /// A branch over the first two nodes of a level.
    pub(super) fn over<'t>(arena: &'t Arena, first: &'t Self, second: &'t Self) -> &'t Self {
        let node = Self::create(arena, first.level + 1);
        for (at, child) in [first, second].into_iter().enumerate() {
            node.set(at, child.low().map_or(0, |low| low.place().head(0)), Slot::Node(child).as_ptr());
        }
        node.count.store(2, Ordering::Relaxed);
        node
    }

    /// A version at which no thread writes; waits for one that does.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        let version = self.version.load(Ordering::Acquire);
        if version & 1 == 0 { version } else { self.wait() }
    }

    #[cold]
    fn wait(&self) -> u64 {
        let mut spins = 0;
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version & 1 == 0 {
                return version;
            }
            // Writers hold a node for a microsecond or less, unless they lost their core.
            if spins < SPINS {
                spins += 1;
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// Whether all that was read since `version` was true together.
    #[inline]
    pub(super) fn is_at(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    /// Takes the node for writing if it is still at `version`.
    #[inline]
    pub(super) fn lock(&self, version: u64) -> Option<Locked<'_>> {
        self.version.compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // Pairs with the fence in `is_at`: a reader that sees a change that follows also sees the odd version.
        fence(Ordering::Release);
        Some(Locked { node: self, version })
    }

    #[inline]
    pub(super) fn level(&self) -> u32 {
        self.level
    }

    #[inline]
    pub(super) fn low(&self) -> Option<Record<'_>> {
        // SAFETY: invariant 4; the record was written before the node was published.
        NonNull::new(self.low.load(Ordering::Relaxed)).map(|low| unsafe { Record::from_ptr(low) })
    }

    #[inline]
    pub(super) fn next(&self) -> Option<&Self> {
        // SAFETY: invariant 4: the next node lies in the arena of this one; acquire pairs with the release in `set`.
        unsafe { self.next.0.load(Ordering::Acquire).as_ref() }
    }

    /// The first record of a leaf.
    pub(super) fn first_record(&self) -> Option<Record<'_>> {
        loop {
            let version = self.version();
            let record = if self.count() > 0 { self.record(0) } else { None };
            if self.is_at(version) {
                return record;
            }
        }
    }

    /// Never more than `SLOTS`, also when a writer races.
    #[inline]
    pub(super) fn count(&self) -> usize {
        usize_of32(self.count.load(Ordering::Relaxed)).min(SLOTS)
    }

    /// Bytes that the keys of the range share.
    #[inline]
    pub(super) fn skip(&self) -> usize {
        usize_of32(self.skip.load(Ordering::Relaxed))
    }

    #[inline]
    fn head(&self, at: usize) -> u64 {
        self.heads[at].load(Ordering::Relaxed)
    }

    #[inline]
    fn slot(&self, at: usize) -> *mut u8 {
        self.slots[at].load(Ordering::Acquire)
    }

    #[inline]
    fn set(&self, at: usize, head: u64, slot: *mut u8) {
        self.heads[at].store(head, Ordering::Relaxed);
        self.slots[at].store(slot, Ordering::Relaxed);
    }

    /// Makes the slots `from` of `other` the slots of this node, whose range has `shared` bytes in common.
    fn fill(&self, other: &Self, from: Range<usize>, shared: usize) {
        let old = other.skip();
        let skip = if shared >= old + SKIP_STEP { shared } else { old };
        for (to, from) in from.clone().enumerate() {
            let head = if skip == old { other.head(from) } else { other.head_after(skip, from) };
            self.set(to, head, other.slot(from));
        }
        self.skip.store(u32_of(skip), Ordering::Relaxed);
        self.truncate(from.len());
    }

    /// Leaves the first `count` slots in use.
    fn truncate(&self, count: usize) {
        for head in &self.heads[count..] {
            head.store(NO_HEAD, Ordering::Relaxed);
        }
        self.count.store(u32_of(count), Ordering::Relaxed);
    }

    /// The head of slot `at` after `skip` bytes.
    fn head_after(&self, skip: usize, at: usize) -> u64 {
        self.record(at).map_or(0, |record| record.place().head(skip))
    }

    /// The record in slot `at` of a leaf, or the one by which slot `at` of a branch is sorted.
    #[inline]
    pub(super) fn record(&self, at: usize) -> Option<Record<'_>> {
        if self.level > 0 {
            return self.child(at)?.low();
        }
        // SAFETY: invariant 4, and a leaf's slots are records.
        NonNull::new(self.slot(at)).map(|at| unsafe { Record::from_ptr(at) })
    }

    /// Prefetches the records in some slots of a leaf, of those that are in use.
    #[inline]
    fn prefetch_records(&self, slots: Range<usize>) {
        for at in slots.start..slots.end.min(self.count()) {
            if let Some(record) = self.record(at) {
                record.prefetch();
            }
        }
    }

    /// The node in slot `at` of a branch.
    #[inline]
    pub(super) fn child(&self, at: usize) -> Option<&Self> {
        debug_assert!(self.level > 0);
        // SAFETY: invariant 4, and a branch's slots are nodes.
        unsafe { self.slot(at).cast::<Self>().as_ref() }
    }

    /// How many slots lie at or before `place`, which is in the node's range.
    #[inline]
    pub(super) fn rank(&self, place: &SortKey<'_>) -> usize {
        let head = place.head(self.skip());
        self.rank_from(self.first_not_below(head), head, place)
    }

    /// [`Self::rank`] in a leaf, whose records in some slots about that place are prefetched: before any of them is
    /// looked at, so that all are waited for at once.
    #[inline]
    pub(super) fn rank_and_prefetch(&self, place: &SortKey<'_>, slots: impl FnOnce(usize) -> Range<usize>) -> usize {
        let head = place.head(self.skip());
        let at = self.first_not_below(head);
        self.prefetch_records(slots(at));
        self.rank_from(at, head, place)
    }

    /// The first slot whose head is not below `head`, found without a branch that could be mispredicted.
    #[inline]
    fn first_not_below(&self, head: u64) -> usize {
        let (mut at, mut half) = (0, HEADS.div_ceil(2));
        while half > 0 {
            at = select_unpredictable(self.head(at + half - 1) < head, at + half, at);
            half /= 2;
        }
        at
    }

    /// [`Self::rank`], where the slots before `at` have heads below that of `place`, and those from there on have not.
    #[inline]
    fn rank_from(&self, at: usize, head: u64, place: &SortKey<'_>) -> usize {
        let count = self.count();
        if at < count && self.head(at) == head { self.rank_among_ties(at, count, head, place) } else { at }
    }

    /// [`Self::rank`] when the slots from `at` on have the same head as `place`.
    fn rank_among_ties(&self, mut at: usize, count: usize, head: u64, place: &SortKey<'_>) -> usize {
        let mut end = at + 1;
        while end < count && self.head(end) == head {
            end += 1;
        }
        while at < end {
            let middle = at.midpoint(end);
            if self.record(middle).is_none_or(|record| record.place() <= *place) {
                at = middle + 1
            } else {
                end = middle
            }
        }
        at
    }

    /// Prefetches all of the node at once: a search alone would wait for one line after the other.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(ptr::from_ref(self).cast(), size_of::<Self>());
    }

    /// Whether `place` is in the range of the last node of a level. May be false although it is.
    #[inline]
    pub(super) fn starts_below(&self, place: &SortKey<'_>) -> bool {
        let head = place.head(self.skip());
        self.count() > 0
            && (self.head(0) < head
                || self.head(0) == head && self.record(0).is_some_and(|record| record.place() <= *place))
    }

    /// Whether slot `at` can have the key of `place`. False only when it has not.
    #[inline]
    pub(super) fn may_match(&self, at: usize, place: &SortKey<'_>) -> bool {
        self.head(at) == place.head(self.skip())
    }
}

/// A node held by one writer, until dropped.
pub(super) struct Locked<'t> {
    node: &'t Node,
    /// The version before.
    version: u64,
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.node.version.store(self.version + 2, Ordering::Release);
    }
}

impl<'t> Locked<'t> {
    /// Adds a slot in its place. False when there is no room.
    #[inline]
    pub(super) fn put(&self, place: &SortKey<'_>, slot: Slot<'t>) -> bool {
        let node = self.node;
        let count = node.count();
        if count == SLOTS {
            return false;
        }
        let at = node.rank(place);
        for to in (at + 1..=count).rev() {
            node.heads[to].store(node.head(to - 1), Ordering::Relaxed);
        }
        for to in (at + 1..=count).rev() {
            node.slots[to].store(node.slot(to - 1), Ordering::Relaxed);
        }
        node.set(at, place.head(node.skip()), slot.as_ptr());
        node.count.store(u32_of(count + 1), Ordering::Relaxed);
        true
    }

    /// Makes room for `place`: moves the upper part of a full node to `right`, a new node of the same level.
    pub(super) fn split(&self, right: &'t Node, place: &SortKey<'_>) {
        let node = self.node;
        let count = node.count();
        // Keys that arrive in order fill the nodes that they leave behind.
        let keep = match node.rank(place) {
            0 => EDGE,
            at if at == count => count - EDGE,
            _ => count / 2,
        };
        let low = node.record(keep);
        right.low.store(low.map_or(ptr::null_mut(), |low| low.as_ptr().as_ptr()), Ordering::Relaxed);
        let next = node.next();
        right.next.set(next);
        right.fill(node, keep..count, shared(low, next.and_then(Node::low)));
        // The right node is complete before anything points to it.
        fence(Ordering::Release);
        node.next.set(Some(right));
        node.fill(node, 0..keep, shared(node.low(), low));
    }
}

/// How many bytes two bounds share at the front, and with them every key between. Nothing bounds the first and last
/// node.
fn shared(low: Option<Record<'_>>, high: Option<Record<'_>>) -> usize {
    match (low, high) {
        (Some(low), Some(high)) => shared_bytes(low.key(), high.key()),
        _ => 0,
    }
}
