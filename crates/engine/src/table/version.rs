//! What a reader of a table sees: the memtables and the trees on disk, newest first.
//!
//! # Invariants
//! 1. Of two places that hold the same key, the one searched first holds the newer versions: active memtable, immutable
//!    memtables newest first, L0 newest first, levels from the top down, B-tree. While a compaction puts its result in
//!    place slice by slice, and after one that was given up, two of these places may hold the same version; never
//!    operands.
//! 2. The runs of a level are disjoint and ascend; all versions of a key lie in one of them.
//! 3. A range tombstone is in the version before it is published. Those of `trees` are in the manifest; all others are
//!    newer.
//! 4. A version never changes. A flush or compaction installs a new one; readers go on with theirs.

use std::sync::Arc;

use crate::base::checksum::hash_key;
use crate::base::num::u64_of;
use crate::base::{Result, SeqNum};
use crate::cache::Fill;
use crate::tree::memtable::ChunkPool;
use crate::tree::merge::MergeCursor;
use crate::tree::multi_get::{GetResults, MultiGet};
use crate::tree::range_tombstone::{Masks, RangeDelCursor, RangeTombstones, TombstoneLayers};
use crate::tree::{Costs, Found, MergeSource};

use super::memtable_handle::MemtableHandle;
use super::trees::{LookupStarts, Trees};
use super::view::TableView;

/// Entries that have expired for younger snapshots.
#[derive(Clone, Copy, Debug)]
pub struct Expired {
    /// Snapshots from here on do not see them.
    pub visible_from: SeqNum,
    /// They have smaller seqnums.
    pub before: SeqNum,
}

/// All that a reader of a table sees.
#[derive(Clone, Debug)]
pub struct Version {
    /// Takes the writes.
    pub active: Arc<MemtableHandle>,
    /// Full memtables on their way to disk, newest first.
    pub immutables: Vec<Arc<MemtableHandle>>,
    /// What is on disk.
    pub trees: Arc<Trees>,
    /// All range tombstones: those of `trees`, and those that are flushed with a memtable, of which each set is of one
    /// memtable.
    pub range_tombstones: TombstoneLayers,
    /// What has expired since the oldest snapshot, both seqnums ascending. Mostly empty.
    pub expired: Vec<Expired>,
    /// A sorted view of some of `trees`, if reads made one due.
    pub view: Option<TableView>,
}

impl Version {
    /// A version with nothing in memory, whose memtable takes its memory from a pool.
    #[must_use]
    pub fn of_trees(trees: Trees, pool: &Arc<ChunkPool>) -> Self {
        let range_tombstones = TombstoneLayers::of_disk(&trees.range_tombstones);
        Self {
            active: MemtableHandle::new(pool),
            immutables: Vec::new(),
            trees: Arc::new(trees),
            range_tombstones,
            expired: Vec::new(),
            view: None,
        }
    }

    /// The version with more entries hidden from snapshots to come; `snapshots` are those that are live, ascending.
    #[must_use]
    pub fn with_expired(&self, newest: Expired, snapshots: &[SeqNum]) -> Self {
        let mut expired = self.expired.clone();
        expired.push(newest);
        // What no live snapshot tells from the one behind it is not needed. No snapshot sees the newest yet, and one
        // that begins now sees what was newest before.
        for at in (0..expired.len().saturating_sub(2)).rev() {
            let (from, to) = (expired[at].visible_from, expired[at + 1].visible_from);
            if !snapshots.iter().any(|snapshot| from <= *snapshot && *snapshot < to) {
                expired.remove(at);
            }
        }
        Self { expired, ..self.clone() }
    }

    /// The version in which a range tombstone hides all entries before a seqnum.
    #[must_use]
    pub fn with_expiry_applied(&self, before: SeqNum) -> Self {
        let expired = self.expired.iter().copied().filter(|expired| expired.before > before).collect();
        Self { expired, ..self.clone() }
    }

    /// The seqnum before which entries have expired for `snapshot`; zero when a range tombstone says so already.
    #[inline]
    #[must_use]
    pub fn expired_before(&self, snapshot: SeqNum) -> SeqNum {
        let seen = self.expired.iter().rfind(|expired| expired.visible_from <= snapshot);
        seen.map_or(SeqNum::ZERO, |expired| expired.before)
    }

    /// The seqnum below which `snapshot` does not see entries of `key`.
    #[inline]
    #[must_use]
    pub fn floor(&self, key: &[u8], snapshot: SeqNum) -> SeqNum {
        self.range_tombstones.floor(key, snapshot).max(self.expired_before(snapshot))
    }

    /// Whether every snapshot sees all entries.
    #[inline]
    fn hides_nothing(&self) -> bool {
        self.range_tombstones.is_empty() && self.expired.is_empty()
    }

    /// What is hidden from `snapshot`.
    fn hidden_of(&self, snapshot: SeqNum) -> Masks {
        self.range_tombstones.hiding(snapshot).before(self.expired_before(snapshot))
    }

    /// Two neighbouring sets of range tombstones that should be one. Both must be of the same memtable, or a crash
    /// could keep a range tombstone less than what is on disk of the entries after it.
    #[must_use]
    pub(crate) fn range_tombstones_to_join(&self) -> Option<[Arc<RangeTombstones>; 2]> {
        let sealed_between = |older: &RangeTombstones, newer: &RangeTombstones| {
            let sealed = self.immutables.iter().filter_map(|mem| mem.sealed_at());
            sealed.into_iter().any(|at| older.newest() < at.next_seqnum && at.next_seqnum <= newer.newest())
        };
        self.range_tombstones.pair_to_join(|older, newer| !sealed_between(older, newer))
    }

    /// The version with other sets of the same range tombstones.
    #[must_use]
    pub(crate) fn with_range_tombstones(&self, range_tombstones: TombstoneLayers) -> Self {
        Self { range_tombstones, ..self.clone() }
    }

    /// The version with other trees, where the memtables in `flushed`, and range tombstones before `up_to`, have gone
    /// into them.
    pub(crate) fn with_trees(&self, trees: &Arc<Trees>, flushed: &[Arc<MemtableHandle>], up_to: SeqNum) -> Self {
        let is_flushed = |mem: &Arc<MemtableHandle>| flushed.iter().any(|done| Arc::ptr_eq(done, mem));
        Self {
            active: Arc::clone(&self.active),
            immutables: self.immutables.iter().filter(|mem| !is_flushed(mem)).cloned().collect(),
            trees: Arc::clone(trees),
            range_tombstones: self.range_tombstones.flushed(&trees.range_tombstones, up_to),
            expired: self.expired.clone(),
            view: self.view.clone().filter(|view| trees.have_view(view)),
        }
    }

    /// The version with a view, if that is of its trees.
    #[must_use]
    pub fn with_view(&self, view: &TableView) -> Self {
        let view = if self.trees.have_view(view) { Some(view) } else { self.view.as_ref() };
        Self { view: view.cloned(), ..self.clone() }
    }

    /// Whether walks of `snapshot` go by a view.
    #[must_use]
    pub fn reads_view(&self, snapshot: SeqNum) -> bool {
        self.hides_nothing() && self.view_for(snapshot).is_some()
    }

    /// The view, if it is of what `snapshot` sees.
    fn view_for(&self, snapshot: SeqNum) -> Option<&TableView> {
        self.view.as_ref().filter(|viewed| viewed.view.is_seen_by(snapshot))
    }

    /// Leaves out what a range tombstone hides: `snapshot` sees nothing of `key` behind it.
    #[inline]
    fn without_range_deleted(&self, key: &[u8], snapshot: SeqNum, found: Option<Found>) -> Option<Found> {
        if self.hides_nothing() {
            return found;
        }
        found.filter(|found| found.seqnum >= self.floor(key, snapshot))
    }

    /// The newest version of `key` that `snapshot` sees; a tombstone is found like a value.
    ///
    /// # Errors
    /// When a block cannot be read or is corrupt.
    pub fn get(&self, key: &[u8], snapshot: SeqNum) -> Result<Option<Found>> {
        self.get_at_cost(key, snapshot, &mut Costs::default())
    }

    /// [`Self::get`], which adds to `costs`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_at_cost(&self, key: &[u8], snapshot: SeqNum, costs: &mut Costs) -> Result<Option<Found>> {
        // One hash for all filters. A table without runs does not need it, but checking for runs costs as much.
        let (hash, mut starts) = (hash_key(key), LookupStarts::default());
        let view = self.view_for(snapshot).map(|view| (view, view.view.prefetch_step(key)));
        self.trees.prefetch_step((key, hash), view.map(|(view, _)| view), &mut starts);
        for mem in self.memtables().filter(|mem| !mem.is_unused()) {
            costs.trees += 1;
            costs.small += u64::from(mem.is_small());
            if let Some(found) = mem.entries.get(key, snapshot) {
                return Ok(self.without_range_deleted(key, snapshot, Some(found)));
            }
        }
        let found = self.trees.get_at_cost((key, hash), &starts, view, snapshot, costs)?;
        Ok(self.without_range_deleted(key, snapshot, found))
    }

    /// [`Self::get`] of several keys, in their order, with steps taken together.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_many(&self, keys: &[&[u8]], snapshot: SeqNum, costs: &mut Costs) -> Result<GetResults> {
        let results = MultiGet::run(keys, snapshot, costs, |multi_get| {
            for mem in self.memtables().filter(|mem| !mem.entries.is_empty()) {
                multi_get.search(|requests, snapshot, costs| {
                    costs.trees += u64_of(requests.len());
                    costs.small += if mem.is_small() { u64_of(requests.len()) } else { 0 };
                    Ok(mem.entries.get_many(requests, snapshot))
                })?;
            }
            self.trees.get_many(multi_get, self.view_for(snapshot).filter(|viewed| viewed.view.serves_many()))
        })?;
        if self.hides_nothing() {
            return Ok(results);
        }
        Ok(keys.iter().zip(results).map(|(key, found)| self.without_range_deleted(key, snapshot, found)).collect())
    }

    /// How many memtables hold something, and little.
    #[must_use]
    pub fn count_small(&self) -> usize {
        self.memtables().filter(|mem| !mem.entries.is_empty() && mem.is_small()).count()
    }

    /// A cursor over all trees of which `snapshot` sees anything, without what range tombstones hide from it.
    #[must_use]
    pub fn cursor(&self, fill: Fill, snapshot: SeqNum) -> MergeCursor {
        if self.hides_nothing() {
            return MergeCursor::new(self.cursors(fill, snapshot, self.view_for(snapshot)));
        }
        MergeCursor::new(without_range_deleted(self.cursors(fill, snapshot, None), self.hidden_of(snapshot)))
    }

    /// As [`Self::cursor`], without what `erased` hides either, which only the reader knows of.
    #[must_use]
    pub fn cursor_without(&self, erased: &TombstoneLayers, fill: Fill, snapshot: SeqNum) -> MergeCursor {
        let hiding = self.hidden_of(snapshot).and(erased, SeqNum(u64::MAX));
        MergeCursor::new(without_range_deleted(self.cursors(fill, snapshot, None), hiding))
    }

    /// A cursor for each tree of which `snapshot` sees anything, newest first; one for all trees in `view`.
    /// Range tombstones hide a tree's entries by the age of the tree: with them there can be no view.
    fn cursors(&self, fill: Fill, snapshot: SeqNum, view: Option<&TableView>) -> Vec<Box<dyn MergeSource>> {
        let mut sources: Vec<Box<dyn MergeSource>> =
            Vec::with_capacity(2 + self.immutables.len() + self.trees.l0.len());
        for mem in self.memtables().filter(|mem| !mem.entries.is_empty()) {
            sources.push(mem.entries.cursor());
        }
        self.trees.cursors(fill, snapshot, view, &mut sources);
        sources
    }

    /// Bytes that memtables were counted as in the database's memory.
    #[must_use]
    pub fn memtable_bytes(&self) -> u64 {
        self.memtables().map(|mem| mem.accounted_bytes()).sum()
    }

    /// The memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<MemtableHandle>> {
        std::iter::once(&self.active).chain(&self.immutables)
    }
}

/// Cursors over what range tombstones leave of trees.
fn without_range_deleted(trees: Vec<Box<dyn MergeSource>>, hiding: Masks) -> Vec<Box<dyn MergeSource>> {
    let hiding = Arc::new(hiding);
    let cursor = |tree| Box::new(RangeDelCursor::new(tree, Arc::clone(&hiding))) as Box<dyn MergeSource>;
    trees.into_iter().map(cursor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Lsn;
    use crate::table::memtable_handle::CommitPoint;
    use crate::tree::Limits;
    use crate::tree::memtable::Memtable;
    use crate::tree::range_tombstone::RangeTombstone;

    /// The first commit into a memtable has the seqnum at which the one before was sealed.
    #[test]
    fn range_tombstones_are_joined_within_a_memtable_and_never_over_its_end() {
        let at = |seqnum| CommitPoint { next_seqnum: SeqNum(seqnum), lsn: Lsn(seqnum) };
        let range = Limits::new(b"a".to_vec(), Some(b"b".to_vec()), None);
        let set = |seqnum| [RangeTombstone { range: range.clone(), seqnum: SeqNum(seqnum) }].into_iter().collect();
        for sealed in 1..=8 {
            for (older, newer) in [(2, 3), (3, 4), (3, 6), (5, 7)] {
                let mut version = Version::of_trees(Trees::default(), &Arc::default());
                version.immutables.push(MemtableHandle::of_batch(Memtable::new(), &(at(0)..at(sealed))));
                for seqnum in [older, newer] {
                    let set = Arc::new(set(seqnum));
                    version = version.with_range_tombstones(version.range_tombstones.with(&set));
                }
                let is_one_memtable = newer < sealed || sealed <= older;
                let pair = version.range_tombstones_to_join();
                assert_eq!(pair.is_some(), is_one_memtable, "{older} and {newer}, sealed at {sealed}");
            }
        }
    }
}
