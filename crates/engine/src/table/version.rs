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
use crate::base::{FileId, Result, SeqNum};
use crate::cache::Fill;
use crate::tree::btree::TreeRoot;
use crate::tree::gc::OtherTrees;
use crate::tree::merge::MergeCursor;
use crate::tree::multi_get::{GetResults, MultiGet};
use crate::tree::range_tombstone::{Masks, RangeDelCursor, RangeTombstones, TombstoneLayers, TreeExtent};
use crate::tree::run::multi_get::get_many;
use crate::tree::run::view::{SlotPos, Tree, View};
use crate::tree::run::{IndexPos, LevelCursor, Run, merge_source, run_of};
use crate::tree::values::ValueFiles;
use crate::tree::{Costs, Found, MergeSource};

use super::memtable_handle::MemtableHandle;

/// How many levels there are below L0. The data sinks to the last one; upper ones come into use as it grows.
pub const LEVELS: usize = 7;

/// Where the lookup of a key may begin in each of the newest runs: so many wait for memory together.
type LookupStarts = [Option<IndexPos>; 8];

/// A run and the id of its file.
#[derive(Clone, Debug)]
pub struct RunHandle {
    /// Names the file.
    pub id: FileId,
    /// The open run.
    pub run: Arc<Run>,
}

/// Where runs lie in the trees of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelId {
    /// In L0, where each run is a sorted sequence of its own.
    L0,
    /// In the level with this index: 0 is level 1.
    Level(usize),
}

/// One sorted sequence of disjoint runs.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// File ids, in the order of `runs`.
    pub ids: Vec<FileId>,
    /// The runs in key order.
    pub runs: Arc<[Arc<Run>]>,
    /// A snapshot from here on sees all runs; an older one not those of a bulk load that came after it.
    visible_from: SeqNum,
}

impl Level {
    /// A level of these runs, sorted by key here.
    #[must_use]
    pub fn new(mut handles: Vec<RunHandle>) -> Self {
        handles.sort_by(|a, b| a.run.meta().smallest.cmp(&b.run.meta().smallest));
        Self {
            visible_from: handles.iter().map(|handle| handle.run.visible_from()).max().unwrap_or_default(),
            ids: handles.iter().map(|handle| handle.id).collect(),
            runs: handles.into_iter().map(|handle| handle.run).collect(),
        }
    }

    /// The runs with their ids.
    pub fn handles(&self) -> impl Iterator<Item = RunHandle> + '_ {
        self.ids.iter().zip(self.runs.iter()).map(|(id, run)| RunHandle { id: *id, run: Arc::clone(run) })
    }

    /// The runs of which `snapshot` sees anything.
    fn seen_by(&self, snapshot: SeqNum) -> Arc<[Arc<Run>]> {
        if self.visible_from <= snapshot {
            return Arc::clone(&self.runs);
        }
        self.runs.iter().filter(|run| run.visible_from() <= snapshot).cloned().collect()
    }

    /// Bytes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.meta().bytes).sum()
    }
}

/// The trees of a table on disk.
#[derive(Clone, Debug, Default)]
pub struct Trees {
    /// Runs that overlap, newest first.
    pub l0: Vec<RunHandle>,
    /// Level 1 to [`LEVELS`], newest first.
    pub levels: [Level; LEVELS],
    /// The value files that the runs refer to.
    pub values: ValueFiles,
    /// The B-tree, older than all runs. Those beside it hold changes that wait until there are enough of them to be
    /// merged into it.
    pub btree: Option<Arc<TreeRoot>>,
    /// The range tombstones that some of the trees are not clean of, or some snapshots do not see.
    pub range_tombstones: Arc<RangeTombstones>,
}

impl Trees {
    /// The newest version of `key` on disk that `snapshot` sees.
    ///
    /// # Errors
    /// When a block cannot be read or is corrupt.
    pub fn get(&self, key: &[u8], snapshot: SeqNum) -> Result<Option<Found>> {
        self.get_at_cost((key, hash_key(key)), &LookupStarts::default(), None, snapshot, &mut Costs::default())
    }

    /// Asks for the memory where a lookup of `key` looks first in each tree, where there are several. `hash` is the
    /// key's.
    #[inline]
    fn prefetch_step(&self, (key, hash): (&[u8], u64), view: Option<&TableView>, starts: &mut LookupStarts) {
        if !self.l0.is_empty() {
            let (newer, older) = self.runs_of(key, view);
            starts.iter_mut().zip(newer.chain(older)).for_each(|(start, run)| *start = run.prefetch_step(key, hash));
        }
    }

    /// [`Self::get`] of a key that was approached or not, which adds to `costs`.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn get_at_cost(
        &self,
        (key, hash): (&[u8], u64),
        starts: &LookupStarts,
        view: Option<(&TableView, Option<SlotPos>)>,
        snapshot: SeqNum,
        costs: &mut Costs,
    ) -> Result<Option<Found>> {
        let (mut newer, mut older) = self.runs_of(key, view.map(|(view, _)| view));
        let mut starts = starts.iter();
        let mut get = |run: &Run, costs: &mut Costs| {
            let start = starts.next().copied().flatten();
            run.get_at_cost((key, hash), start, snapshot, costs).transpose()
        };
        let mut found = newer.find_map(|run| get(run, costs));
        if let (None, Some((viewed, start))) = (&found, view) {
            found = viewed.view.get(key, start, snapshot, costs).transpose();
        }
        if let Some(found) = found.or_else(|| older.find_map(|run| get(run, costs))) {
            return found.map(Some);
        }
        let Some(root) = &self.btree else { return Ok(None) };
        count_btree(root, 1, costs);
        root.get(key, snapshot)
    }

    /// [`Self::get`] of several keys.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_many(&self, multi_get: &mut MultiGet<'_>, view: Option<&TableView>) -> Result<()> {
        match view {
            None => multi_get.search(|requests, snapshot, costs| {
                get_many(requests, snapshot, costs, |key| {
                    let (newer, older) = self.runs_of(key, None);
                    newer.chain(older)
                })
            })?,
            Some(viewed) => {
                multi_get.search(|requests, snapshot, costs| {
                    get_many(requests, snapshot, costs, |key| self.runs_of(key, view).0)
                })?;
                multi_get.search(|requests, snapshot, costs| viewed.view.get_many(requests, snapshot, costs))?;
                multi_get.search(|requests, snapshot, costs| {
                    get_many(requests, snapshot, costs, |key| self.runs_of(key, view).1)
                })?;
            }
        }
        match &self.btree {
            Some(root) => multi_get.search(|requests, snapshot, costs| {
                count_btree(root, u64_of(requests.len()), costs);
                root.get_many(requests, snapshot)
            }),
            None => Ok(()),
        }
    }

    /// The runs that may hold `key`, newest first: those that are newer than `view`, and those that are older.
    #[inline]
    fn runs_of(
        &self,
        key: &[u8],
        view: Option<&TableView>,
    ) -> (impl Iterator<Item = &Run>, impl Iterator<Item = &Run>) {
        let (l0, levels) = self.outside_view(view);
        let levels = levels.iter().filter_map(move |level| run_of(&level.runs, key).map(|run| &**run));
        (l0.iter().map(|handle| &*handle.run), levels)
    }

    /// The runs of L0 and the levels that are not in `view`.
    #[inline]
    fn outside_view(&self, view: Option<&TableView>) -> (&[RunHandle], &[Level]) {
        let (l0, levels) = view.map_or((0, 0), |view| (view.l0, view.levels));
        (&self.l0[..self.l0.len() - l0], &self.levels[levels..])
    }

    /// A cursor per tree of which `snapshot` sees anything, newest first; for those in `view` one together.
    pub fn cursors(&self, fill: Fill, snapshot: SeqNum, view: Option<&TableView>, out: &mut Vec<Box<dyn MergeSource>>) {
        let (l0, levels) = self.outside_view(view);
        for handle in l0.iter().filter(|handle| handle.run.visible_from() <= snapshot) {
            out.push(Box::new(handle.run.cursor(fill)));
        }
        if let Some(view) = view {
            out.push(Box::new(view.view.cursor(fill)));
        }
        for level in levels.iter().filter(|level| !level.runs.is_empty()) {
            out.push(Box::new(LevelCursor::new(level.seen_by(snapshot), fill)));
        }
        if let Some(root) = &self.btree {
            out.push(Box::new(root.cursor(fill)));
        }
    }

    /// What the trees may hold, for [`RangeTombstones::needed`].
    pub fn extents(&self) -> Vec<TreeExtent<'_>> {
        let runs = self.l0.iter().map(|handle| &handle.run).chain(self.levels.iter().flat_map(|level| &*level.runs));
        let mut held: Vec<_> = runs
            .map(|run| {
                let (meta, clean_to) = (run.meta(), run.visible_from());
                TreeExtent { smallest: &meta.smallest, largest: Some(&meta.largest), clean_to }
            })
            .collect();
        let btree = self.btree.as_ref().filter(|root| root.meta().entries > 0);
        held.extend(btree.map(|root| TreeExtent { smallest: &[], largest: None, clean_to: root.meta().clean_to }));
        held
    }

    /// The runs of which no snapshot from `oldest` on sees anything.
    #[must_use]
    pub fn range_deleted_runs(&self, oldest: SeqNum) -> Vec<FileId> {
        if self.range_tombstones.is_empty() {
            return Vec::new();
        }
        let is_erased = |handle: &RunHandle| {
            let meta = handle.run.meta();
            self.range_tombstones.cover(&meta.smallest, &meta.largest, (handle.run.seqnum_bounds().largest, oldest))
        };
        self.runs().filter(is_erased).map(|handle| handle.id).collect()
    }

    /// The trees in which runs were replaced by others. In L0 these take the place of the newest that was replaced.
    #[must_use]
    pub fn replaced(&self, removed: &[FileId], place: LevelId, added: &[RunHandle]) -> Self {
        let mut trees = self.clone();
        let stays = |handle: &RunHandle| !removed.contains(&handle.id);
        let newest = trees.l0.iter().position(|handle| !stays(handle)).unwrap_or(0);
        trees.l0.retain(stays);
        if place == LevelId::L0 {
            trees.l0.splice(newest..newest, added.iter().cloned());
        }
        for (index, level) in trees.levels.iter_mut().enumerate() {
            let takes = place == LevelId::Level(index);
            if takes || level.ids.iter().any(|id| removed.contains(id)) {
                let mut handles: Vec<_> = level.handles().filter(stays).collect();
                handles.extend(added.iter().filter(|_| takes).cloned());
                *level = Level::new(handles);
            }
        }
        trees.with_values()
    }

    /// The trees with runs that are newer than all of them, those of L0 at its front.
    #[must_use]
    pub fn with_newest(&self, runs: &[(LevelId, RunHandle)]) -> Self {
        let at = |place: LevelId| runs.iter().filter(|run| run.0 == place).map(|run| run.1.clone()).collect::<Vec<_>>();
        let places = (0..LEVELS).map(LevelId::Level).chain([LevelId::L0]);
        let placed = places.map(|place| (place, at(place))).filter(|(_, runs)| !runs.is_empty());
        placed.fold(self.clone(), |trees, (place, runs)| trees.replaced(&[], place, &runs))
    }

    /// The same trees, with the value files that their runs refer to.
    #[must_use]
    pub fn with_values(mut self) -> Self {
        let runs =
            self.l0.iter().map(|handle| &handle.run).chain(self.levels.iter().flat_map(|level| level.runs.iter()));
        self.values = ValueFiles::new(runs.flat_map(|run| run.values().iter().cloned()).collect());
        self
    }

    /// The trees beside those of a merge's inputs.
    #[must_use]
    pub fn other_trees(&self, inputs: &[FileId]) -> OtherTrees {
        let stays = |(id, run): (&FileId, &Arc<Run>)| (!inputs.contains(id)).then(|| Arc::clone(run));
        let l0 = self.l0.iter().map(|handle| Vec::from_iter(stays((&handle.id, &handle.run))));
        let levels = self.levels.iter().map(|level| level.ids.iter().zip(&*level.runs).filter_map(stays).collect());
        OtherTrees::new(l0.chain(levels).collect(), self.holds_btree())
    }

    /// Whether there is a B-tree with entries.
    #[must_use]
    pub fn holds_btree(&self) -> bool {
        self.btree.as_ref().is_some_and(|root| root.meta().entries > 0)
    }

    /// All runs, newest first.
    pub fn runs(&self) -> impl Iterator<Item = RunHandle> + '_ {
        self.l0.iter().cloned().chain(self.levels.iter().flat_map(Level::handles))
    }

    /// A cursor per run of L0 and per level, newest first, for a merge of all of them.
    pub fn merge_sources(&self, out: &mut Vec<Box<dyn MergeSource>>) {
        out.extend(self.l0.iter().map(|handle| merge_source(Arc::from([Arc::clone(&handle.run)]))));
        let levels = self.levels.iter().filter(|level| !level.runs.is_empty());
        out.extend(levels.map(|level| merge_source(Arc::clone(&level.runs))));
    }

    /// The `l0` oldest runs of L0 and the first `levels` levels, newest first.
    fn upper(&self, l0: usize, levels: usize) -> impl Iterator<Item = Tree> {
        let l0 = self.l0[self.l0.len().saturating_sub(l0)..].iter().map(|handle| Tree::from([Arc::clone(&handle.run)]));
        let levels = self.levels[..levels].iter().filter(|level| !level.runs.is_empty());
        l0.chain(levels.map(|level| Arc::clone(&level.runs)))
    }

    /// The trees that a view is worth having of: all over the one that holds nearly all entries.
    #[must_use]
    pub fn view_candidate(&self) -> ViewCandidate {
        let last = self.levels.iter().rposition(|level| !level.runs.is_empty());
        let levels = if self.btree.is_some() { LEVELS } else { last.unwrap_or(0) };
        let l0 = self.l0.iter().map(|handle| handle.id);
        let ids = l0.chain(self.levels[..levels].iter().flat_map(|level| level.ids.iter().copied())).collect();
        ViewCandidate { l0: self.l0.len(), levels, trees: self.upper(self.l0.len(), levels).collect(), ids }
    }

    /// How many trees on disk a scan searches.
    #[must_use]
    pub fn count(&self) -> usize {
        let levels = self.levels.iter().filter(|level| !level.runs.is_empty()).count();
        self.l0.len() + levels + usize::from(self.holds_btree())
    }

    /// In how many trees on disk one key can lie at most, by the first and last keys of the runs.
    #[must_use]
    pub fn overlap(&self) -> usize {
        let runs: Vec<_> = self.runs().map(|handle| handle.run).collect();
        let begins = runs.iter().map(|run| (&run.meta().smallest, false));
        // Where a run ends with the key that another begins with, both may have it.
        let mut ends: Vec<_> = begins.chain(runs.iter().map(|run| (&run.meta().largest, true))).collect();
        ends.sort_unstable();
        let (mut open, mut most) = (0_usize, 0);
        for (_, is_end) in ends {
            open = if is_end { open - 1 } else { open + 1 };
            most = most.max(open);
        }
        most + usize::from(self.holds_btree())
    }
}

/// Trees that a view may be made of.
#[derive(Clone, Debug)]
pub struct ViewCandidate {
    /// How many runs of L0 are among them: the oldest.
    pub l0: usize,
    /// How many levels are: the first.
    pub levels: usize,
    /// Newest first.
    pub trees: Vec<Tree>,
    /// The files of their runs.
    pub ids: Vec<FileId>,
}

/// A view, and of which trees it is.
#[derive(Clone, Debug)]
pub struct TableView {
    view: Arc<View>,
    /// How many runs of L0 are in it: the oldest.
    l0: usize,
    /// How many levels are: the first.
    levels: usize,
}

impl TableView {
    /// A view of these trees.
    #[must_use]
    pub fn new(view: View, of: &ViewCandidate) -> Self {
        Self { view: Arc::new(view), l0: of.l0, levels: of.levels }
    }

    /// How many trees are in the view.
    #[must_use]
    pub fn count(&self) -> usize {
        self.view.trees().len()
    }

    /// Entries in the view.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.view.entries()
    }

    /// Whether the view is of what is in its place in these trees.
    fn is_of(&self, trees: &Trees) -> bool {
        let are_same = |a: &Tree, b: &Tree| a.len() == b.len() && a.iter().zip(&**b).all(|(a, b)| Arc::ptr_eq(a, b));
        let mut here = trees.upper(self.l0, self.levels);
        self.l0 <= trees.l0.len()
            && self.view.trees().iter().all(|tree| here.next().is_some_and(|here| are_same(tree, &here)))
            && here.next().is_none()
    }
}

/// Cursors over what range tombstones leave of trees.
fn without_range_deleted(trees: Vec<Box<dyn MergeSource>>, hiding: Masks) -> Vec<Box<dyn MergeSource>> {
    let hiding = Arc::new(hiding);
    let cursor = |tree| Box::new(RangeDelCursor::new(tree, Arc::clone(&hiding))) as Box<dyn MergeSource>;
    trees.into_iter().map(cursor).collect()
}

/// Counts lookups of so many keys in a B-tree, where each looks at one block of every height.
fn count_btree(root: &TreeRoot, keys: u64, costs: &mut Costs) {
    if root.meta().entries > 0 {
        costs.trees += keys;
        costs.blocks += keys * (u64::from(root.meta().height) + 1);
    }
}

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
    /// All erasures: those of `trees`, and those that are flushed with a memtable, of which each set is of one
    /// memtable.
    pub range_tombstones: TombstoneLayers,
    /// What has expired since the oldest snapshot, both seqnums ascending. Mostly empty.
    pub expired: Vec<Expired>,
    /// A view of some of `trees`, if reads have paid for it.
    pub view: Option<TableView>,
}

impl Version {
    /// A version with nothing in memory.
    #[must_use]
    pub fn of_trees(trees: Trees) -> Self {
        let range_tombstones = TombstoneLayers::of_disk(&trees.range_tombstones);
        Self {
            active: MemtableHandle::new(),
            immutables: Vec::new(),
            trees: Arc::new(trees),
            range_tombstones,
            expired: Vec::new(),
            view: None,
        }
    }

    /// The version with more entries hidden from snapshots to come, beside those that are live, ascending.
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
        let frozen_between = |older: &RangeTombstones, newer: &RangeTombstones| {
            let frozen = self.immutables.iter().filter_map(|mem| mem.frozen_at());
            frozen.into_iter().any(|at| older.newest() < at.next_seqnum && at.next_seqnum <= newer.newest())
        };
        self.range_tombstones.pair_to_join(|older, newer| !frozen_between(older, newer))
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
            view: self.view.clone().filter(|view| view.is_of(trees)),
        }
    }

    /// The version with a view, if that is of its trees.
    #[must_use]
    pub fn with_view(&self, view: &TableView) -> Self {
        let view = if view.is_of(&self.trees) { Some(view) } else { self.view.as_ref() };
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
        // One hash for all filters. A table without runs does without, but to ask takes as long.
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

    /// How many trees there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.trees.count() + self.memtables().filter(|mem| !mem.entries.is_empty()).count()
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

    /// A cursor for each tree of which `snapshot` sees anything, newest first; for those in `view` one together.
    /// Range tombstones hide a tree's entries by how old the tree is, and so do without.
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
