//! The memtable's tree: how records find their leaf, how nodes split, how readers find records.
//!
//! A B-link tree (Lehman and Yao, 1981): every node knows its right neighbour, so a split needs to hold only the node
//! that splits. Until the parent knows the new node, a thread that looks for something in it arrives at its left
//! neighbour and moves right.
//!
//! # Concurrency
//! A writer holds at most one node, and no latch while it holds one. The growth latch is taken without a node, and the
//! arena's latch (to map memory) perhaps within it. Readers hold nothing.

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use crate::base::num::whole;
use crate::base::sync::Mutex;

use super::arena::Arena;
use super::node::{Link, Locked, Node, Slot};
use super::pool::ChunkPool;
use super::record::{Record, SortKey};
use crate::base::{Entry, SeqNum};

/// So many nodes are counted at most before the level above tells.
const COUNTED_NODES: usize = 64;

/// What was counted of a level.
struct CountedSlots {
    slots: usize,
    /// Whether the end was reached.
    is_all: bool,
}

/// Entries that are inserted as one group.
pub(super) const INSERT_GROUP: usize = 16;

/// See the module. Aligned, because the count of handles in front of it changes with every pinned value.
#[repr(align(64))]
pub(super) struct Tree {
    /// The first node of the highest level; none before the first use. Publishes a new root.
    root: Link,
    /// The last leaf, or one that was it a moment ago: where ascending keys go without a search. Publishes the leaf.
    tail: Link,
    /// The first leaf, for ever. Publishes nothing.
    first: Link,
    /// Held while a new root is put above the old one.
    growth: Mutex<()>,
    /// Dropped last; owns all nodes and records.
    pub(super) arena: Arena,
}

impl Tree {
    pub(super) fn new(pool: Arc<ChunkPool>) -> Self {
        let (arena, root, tail, first) = (Arena::new(pool), Link::new(), Link::new(), Link::new());
        Self { root, tail, first, growth: Mutex::new(()), arena }
    }

    fn root(&self) -> &Node {
        self.linked(&self.root)
    }

    pub(super) fn first_leaf(&self) -> &Node {
        self.linked(&self.first)
    }

    /// A leaf at or shortly before the end.
    pub(super) fn tail(&self) -> &Node {
        self.linked(&self.tail)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.get(&self.arena).is_none_or(|leaf| leaf.first_record().is_none())
    }

    #[inline]
    fn linked<'t>(&'t self, link: &'t Link) -> &'t Node {
        link.get(&self.arena).unwrap_or_else(|| self.plant(link))
    }

    /// Makes the first leaf: a tree in which nothing is looked for or inserted takes no memory for it.
    #[cold]
    fn plant<'t>(&'t self, link: &'t Link) -> &'t Node {
        let growth = self.growth.lock();
        if self.root.get(&self.arena).is_none() {
            let leaf = Node::create(&self.arena, 0);
            // The root last: others look at it for whether the latch is to be taken.
            [&self.first, &self.tail, &self.root].iter().for_each(|link| link.set(Some(leaf)));
        }
        drop(growth);
        link.get(&self.arena).expect("a leaf is set before the root")
    }

    pub(super) fn insert(&self, entry: &Entry<'_>) {
        // The record is written while the leaf is on its way from memory.
        let leaf = self.locate(0, &SortKey::of(entry));
        self.add(Slot::Record(Record::write(&self.arena, entry)), leaf);
    }

    /// [`Self::insert`] of entries into trees, up to [`INSERT_GROUP`] whose descents advance in turn: each waits for
    /// memory while the others do.
    pub(super) fn insert_group(entries: &[(&Self, Entry<'_>)]) {
        let mut ways = [const { None }; INSERT_GROUP];
        for (progress, (tree, entry)) in ways.iter_mut().zip(entries) {
            *progress = Some((Descent { node: tree.root(), bound: None }, tree.tail_for(&SortKey::of(entry))));
        }
        let mut under_way = true;
        while under_way {
            under_way = false;
            for (progress, (_, entry)) in ways.iter_mut().zip(entries) {
                if let Some((descent, found @ None)) = progress {
                    *found = descent.arrive(&SortKey::of(entry));
                    under_way |= found.is_none();
                }
            }
        }
        for ((_, found), (tree, entry)) in ways.into_iter().flatten().zip(entries) {
            // The one before may have gone into the same leaf: then it is looked for from there.
            found.into_iter().for_each(|leaf| tree.add(Slot::Record(Record::write(&tree.arena, entry)), leaf));
        }
    }

    /// Puts a record into its leaf, or a node into its parent; both given as [`Self::locate`] found them.
    fn add<'t>(&'t self, slot: Slot<'t>, mut found: (&'t Node, u64)) {
        let (level, place) = (slot.level(), slot.place());
        let mut spare = None;
        loop {
            let (node, version) = found;
            if let Some(node) = node.lock(version) {
                if node.put(&place, slot) {
                    return;
                }
                match spare.take() {
                    Some(right) => self.split(node, right, &place),
                    None => {
                        // The system may take its time to give memory: not while readers wait for the node.
                        drop(node);
                        spare = Some(Node::create(&self.arena, level));
                    }
                }
            }
            // What `place` belongs to lies here still, or has moved to the right.
            found = Descent { node: found.0, bound: None }.finish(level, &place);
        }
    }

    /// Splits a full node, which `place` belongs to, by means of a new one.
    #[cold]
    fn split<'t>(&'t self, node: Locked<'t>, right: &'t Node, place: &SortKey<'_>) {
        node.split(right, place);
        if right.level() == 0 && right.next().is_none() {
            // While the node is held no thread can split `right`, so the tail only ever moves forward.
            self.tail.set(Some(right));
        }
        drop(node);
        self.adopt(right);
    }

    /// Gives a new node a parent.
    #[cold]
    fn adopt(&self, node: &Node) {
        if self.root().level() == node.level() {
            let _growth = self.growth.lock();
            let root = self.root();
            if root.level() == node.level() {
                self.root.set(Some(Node::over(&self.arena, root, node)));
                return;
            }
        }
        let slot = Slot::Node(node);
        self.add(slot, self.locate(slot.level(), &slot.place()));
    }

    /// As [`Self::descend`], but without a search where ascending keys go.
    #[inline]
    fn locate(&self, level: u32, place: &SortKey<'_>) -> (&Node, u64) {
        let tail = if level == 0 { self.tail_for(place) } else { None };
        tail.unwrap_or_else(|| self.descend(level, place))
    }

    /// The last leaf, and a version at which `place` belonged to it. `None` also where that is not seen at a glance.
    #[inline]
    fn tail_for(&self, place: &SortKey<'_>) -> Option<(&Node, u64)> {
        let tail = self.tail();
        let version = tail.version();
        (tail.next().is_none() && tail.starts_below(place) && tail.is_at(version)).then_some((tail, version))
    }

    /// The node of `level` that `place` belongs to, and a version at which it did.
    #[inline]
    pub(super) fn descend(&self, level: u32, place: &SortKey<'_>) -> (&Node, u64) {
        Descent { node: self.root(), bound: None }.finish(level, place)
    }

    /// As [`Self::descend`] to a leaf, from the progress of a descent to the same place.
    pub(super) fn descend_from(&self, progress: &SeekProgress, place: &SortKey<'_>) -> (&Node, u64) {
        self.resume(progress).finish(0, place)
    }

    /// Goes one step towards the leaf that `place` belongs to, and prefetches the memory that the next step reads;
    /// whether there is one. In the leaf that is the records in some slots about the place.
    pub(super) fn go_on(
        &self,
        progress: &mut SeekProgress,
        place: &SortKey<'_>,
        slots: impl FnOnce(usize) -> Range<usize>,
    ) -> bool {
        let mut descent = self.resume(progress);
        let arrived = descent.step(0, place).is_some();
        if arrived {
            descent.node.rank_and_prefetch(place, slots);
        }
        progress.node.set(Some(descent.node));
        progress.bound.set(descent.bound);
        !arrived
    }

    fn resume(&self, progress: &SeekProgress) -> Descent<'_> {
        let node = progress.node.get(&self.arena).unwrap_or_else(|| self.root());
        Descent { node, bound: progress.bound.get(&self.arena) }
    }

    /// About how many records have keys from `low` on, up to `high`: counted where few nodes hold them, else told from
    /// the nodes above.
    pub(super) fn count_between(&self, low: &[u8], high: Option<&[u8]>) -> u64 {
        let low = SortKey::before(low, SeqNum::MAX);
        let high = high.map(|high| SortKey::before(high, SeqNum::MAX));
        // How many records lie under a slot of the level.
        let mut each = 1.0;
        for level in 0..=self.root().level() {
            let counted = self.count_slots(level, &low, high.as_ref());
            if counted.is_all {
                return whole(counted.slots as f64 * each);
            }
            each *= counted.slots as f64 / COUNTED_NODES as f64;
        }
        whole(self.root().count() as f64 * each)
    }

    /// Counts the slots of a level between two places, in the first few nodes.
    fn count_slots(&self, level: u32, low: &SortKey<'_>, high: Option<&SortKey<'_>>) -> CountedSlots {
        let mut node = self.descend(level, low).0;
        let mut slots = node.count().saturating_sub(node.rank(low));
        for _ in 0..COUNTED_NODES {
            let next = node.next();
            if let Some(high) = high
                && next.is_none_or(|next| !next.starts_below(high))
            {
                let behind = node.count().saturating_sub(node.rank(high));
                return CountedSlots { slots: slots.saturating_sub(behind), is_all: true };
            }
            let Some(next) = next else { return CountedSlots { slots, is_all: true } };
            slots += next.count();
            node = next;
        }
        CountedSlots { slots, is_all: false }
    }

    /// The newest version of `key` that a snapshot at `seqnum` sees.
    #[inline]
    pub(super) fn find(&self, key: &[u8], seqnum: SeqNum) -> Option<Record<'_>> {
        let place = SortKey::before(key, seqnum);
        loop {
            let (leaf, version) = self.descend(0, &place);
            if let Some(record) = candidate(leaf, version, &place) {
                return record.filter(|record| record.key() == key);
            }
        }
    }

    /// [`Self::find`] of several keys, whose descents advance in turn.
    pub(super) fn find_many<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        seqnum: SeqNum,
    ) -> impl Iterator<Item = Option<Record<'_>>> {
        let begin = |key| (SortKey::before(key, seqnum), Descent { node: self.root(), bound: None }, None);
        let mut ways: Vec<_> = keys.map(begin).collect();
        let mut under_way = true;
        while under_way {
            under_way = false;
            for (place, descent, found) in ways.iter_mut().filter(|(.., found)| found.is_none()) {
                if let Some(version) = descent.step(0, place) {
                    *found = candidate(descent.node, version, place);
                    if let Some(Some(record)) = found {
                        record.prefetch();
                    }
                }
                under_way |= found.is_none();
            }
        }
        ways.into_iter().map(|(place, _, found)| found.flatten().filter(|record| record.key() == place.key))
    }
}

/// The record in `leaf` that may be the newest one of the key of `place`, if `leaf` is still at `version`.
#[inline]
fn candidate<'t>(leaf: &'t Node, version: u64, place: &SortKey<'_>) -> Option<Option<Record<'t>>> {
    let at = leaf.rank(place);
    if at >= leaf.count() {
        let next = leaf.next();
        return leaf.is_at(version).then(|| next.and_then(Node::first_record));
    }
    let record = if leaf.may_match(at, place) { leaf.record(at) } else { None };
    leaf.is_at(version).then_some(record)
}

/// The progress of a descent in a tree. The caller keeps it between steps.
#[derive(Clone, Default)]
pub(super) struct SeekProgress {
    /// Nowhere yet when there is none.
    node: Link,
    bound: Link,
}

/// A way down the tree.
struct Descent<'t> {
    node: &'t Node,
    /// A right neighbour that the place is known to be below, so that it need not be looked at.
    bound: Option<&'t Node>,
}

impl<'t> Descent<'t> {
    /// Goes all the way to the node of `level` that `place` belongs to, and says a version at which it did.
    #[inline]
    fn finish(mut self, level: u32, place: &SortKey<'_>) -> (&'t Node, u64) {
        loop {
            if let Some(version) = self.step(level, place) {
                return (self.node, version);
            }
        }
    }

    /// Goes one step towards the leaf that `place` belongs to, unless this is it: then returns it, and a version at
    /// which it was.
    #[inline]
    fn arrive(&mut self, place: &SortKey<'_>) -> Option<(&'t Node, u64)> {
        self.step(0, place).map(|version| (self.node, version))
    }

    /// Goes one step towards the node of `level` that `place` belongs to, unless this is it: then returns a version at
    /// which it was.
    #[inline]
    fn step(&mut self, level: u32, place: &SortKey<'_>) -> Option<u64> {
        let node = self.node;
        let version = node.version();
        if let Some(next) = node.next()
            && self.bound.is_none_or(|bound| !ptr::eq(bound, next))
            && next.low().is_some_and(|low| low.place() <= *place)
        {
            if node.is_at(version) {
                self.node = next;
            }
            return None;
        }
        if node.level() == level {
            return Some(version);
        }
        let at = node.rank(place).saturating_sub(1);
        let (child, after) = (node.child(at), if at + 1 < node.count() { node.child(at + 1) } else { None });
        if node.is_at(version)
            && let Some(child) = child
        {
            child.prefetch();
            (self.node, self.bound) = (child, after);
        }
        None
    }
}
