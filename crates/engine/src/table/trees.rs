//! The trees of a table on disk: L0, levels and B-tree, newest first, with their value files and range tombstones.

use std::sync::Arc;

use crate::base::checksum::hash_key;
use crate::base::num::u64_of;
use crate::base::{FileId, Result, SeqNum};
use crate::cache::Fill;
use crate::tree::btree::{BTreeCursor, TreeRoot};
use crate::tree::gc::OtherTrees;
use crate::tree::multi_get::MultiGet;
use crate::tree::range_tombstone::{RangeTombstones, TreeExtent};
use crate::tree::run::multi_get::get_many;
use crate::tree::run::view::{SlotPos, Tree};
use crate::tree::run::{IndexPos, LevelCursor, Run, RunCursor, merge_source, run_of};
use crate::tree::values::ValueFiles;
use crate::tree::{Costs, Found, MergeSource};

use super::level::{LEVELS, Level, LevelId, RunHandle};
use super::view::{TableView, ViewCandidate};

/// Where the lookup of a key may begin in each of the newest runs; their memory accesses overlap.
pub(super) type LookupStarts = [Option<IndexPos>; 8];

/// The trees of a table on disk.
#[derive(Clone, Debug, Default)]
pub struct Trees {
    /// Runs that overlap, newest first.
    pub l0: Vec<RunHandle>,
    /// Level 1 to [`LEVELS`], newest first.
    pub levels: [Level; LEVELS],
    /// The value files that the runs refer to.
    pub values: ValueFiles,
    /// The B-tree, older than all runs. Runs over it hold changes that wait until there are enough of them to be merged
    /// into it.
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

    /// Prefetches the memory that a lookup of `key` reads first in each tree, where there are several. `hash` is the
    /// key's.
    #[inline]
    pub(super) fn prefetch_step(&self, (key, hash): (&[u8], u64), view: Option<&TableView>, starts: &mut LookupStarts) {
        if !self.l0.is_empty() {
            let (newer, older) = self.runs_of(key, view);
            starts.iter_mut().zip(newer.chain(older)).for_each(|(start, run)| *start = run.prefetch_step(key, hash));
        }
    }

    /// [`Self::get`] of a key that was approached or not, which adds to `costs`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) fn get_at_cost(
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
            out.push(Box::new(RunCursor::over(&handle.run, fill)));
        }
        if let Some(view) = view {
            out.push(Box::new(view.view.cursor(fill)));
        }
        for level in levels.iter().filter(|level| !level.runs.is_empty()) {
            out.push(Box::new(LevelCursor::new(level.seen_by(snapshot), fill)));
        }
        if let Some(root) = &self.btree {
            out.push(Box::new(BTreeCursor::over(root, fill)));
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

    /// The trees that are not inputs of a merge.
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

    /// The trees of which a view is worth having: all above the tree that holds nearly all entries.
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

    /// Whether the trees that `view` covers are still those in its place here.
    pub(super) fn have_view(&self, view: &TableView) -> bool {
        let are_same = |a: &Tree, b: &Tree| a.len() == b.len() && a.iter().zip(&**b).all(|(a, b)| Arc::ptr_eq(a, b));
        let mut here = self.upper(view.l0, view.levels);
        view.l0 <= self.l0.len()
            && view.view.trees().iter().all(|tree| here.next().is_some_and(|here| are_same(tree, &here)))
            && here.next().is_none()
    }
}

/// Counts lookups of `keys` keys in a B-tree, each of which reads one block of every height.
fn count_btree(root: &TreeRoot, keys: u64, costs: &mut Costs) {
    if root.meta().entries > 0 {
        costs.trees += keys;
        costs.blocks += keys * (u64::from(root.meta().height) + 1);
    }
}
