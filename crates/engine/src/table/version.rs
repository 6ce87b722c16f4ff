//! What a reader of a table sees: the memtables and the trees on disk, newest first.
//!
//! # Invariants
//! 1. Of two places that hold the same key, the one searched first holds the newer versions: active memtable, immutable
//!    memtables newest first, L0 newest first, levels from the top down, B-tree. While a compaction puts its result in
//!    place slice by slice, and after one that was given up, two of these places may hold the same version; never
//!    operands.
//! 2. The runs of a level are disjoint and ascend; all versions of a key lie in one of them.
//! 3. An erasure is in the version before it is published. Those of `trees` are in the manifest; all others are newer.
//! 4. A version never changes. A flush or compaction installs a new one; readers go on with theirs.

use std::sync::Arc;

use crate::base::checksum::hash_key;
use crate::base::num::u64_of;
use crate::base::{FileId, Result, SeqNum};
use crate::cache::Fill;
use crate::tree::btree::TreeRoot;
use crate::tree::erasure::{Erasures, Held, Hiding, Layers, Unerased};
use crate::tree::lookup::{Answers, Lookups};
use crate::tree::merge::MergeCursor;
use crate::tree::retain::Below;
use crate::tree::run::together::get_many;
use crate::tree::run::view::{Spot, Tree, View};
use crate::tree::run::{LevelCursor, Run, Start, merge_source, run_of};
use crate::tree::values::ValueFiles;
use crate::tree::{Costs, Found, MergeSource};

use super::mem::Mem;

/// How many levels there are below L0. The data sinks to the last one; upper ones come into use as it grows.
pub const LEVELS: usize = 7;

/// Where the lookup of a key may begin in each of the newest runs: so many wait for memory together.
type Approached = [Option<Start>; 8];

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
pub enum Place {
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
    /// The erasures that some of the trees are not clean of, or some snapshots do not see.
    pub erasures: Arc<Erasures>,
}

impl Trees {
    /// The newest version of `key` on disk that `snapshot` sees.
    ///
    /// # Errors
    /// When a block cannot be read or is corrupt.
    pub fn get(&self, key: &[u8], snapshot: SeqNum) -> Result<Option<Found>> {
        self.get_at_cost((key, hash_key(key)), &Approached::default(), None, snapshot, &mut Costs::default())
    }

    /// Asks for the memory where a lookup of `key` looks first in each tree, where there are several. `hash` is the
    /// key's.
    #[inline]
    fn approach(&self, (key, hash): (&[u8], u64), view: Option<&Viewed>, starts: &mut Approached) {
        if !self.l0.is_empty() {
            let (newer, older) = self.runs_of(key, view);
            starts.iter_mut().zip(newer.chain(older)).for_each(|(start, run)| *start = run.approach(key, hash));
        }
    }

    /// [`Self::get`] of a key that was approached or not, which adds to `costs`.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn get_at_cost(
        &self,
        (key, hash): (&[u8], u64),
        starts: &Approached,
        view: Option<(&Viewed, Option<Spot>)>,
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
    pub fn get_many(&self, lookups: &mut Lookups<'_>, view: Option<&Viewed>) -> Result<()> {
        match view {
            None => lookups.search(|asks, snapshot, costs| {
                get_many(asks, snapshot, costs, |key| {
                    let (newer, older) = self.runs_of(key, None);
                    newer.chain(older)
                })
            })?,
            Some(viewed) => {
                lookups
                    .search(|asks, snapshot, costs| get_many(asks, snapshot, costs, |key| self.runs_of(key, view).0))?;
                lookups.search(|asks, snapshot, costs| viewed.view.get_many(asks, snapshot, costs))?;
                lookups
                    .search(|asks, snapshot, costs| get_many(asks, snapshot, costs, |key| self.runs_of(key, view).1))?;
            }
        }
        match &self.btree {
            Some(root) => lookups.search(|asks, snapshot, costs| {
                count_btree(root, u64_of(asks.len()), costs);
                root.get_many(asks, snapshot)
            }),
            None => Ok(()),
        }
    }

    /// The runs that may hold `key`, newest first: those that are newer than `view`, and those that are older.
    #[inline]
    fn runs_of(&self, key: &[u8], view: Option<&Viewed>) -> (impl Iterator<Item = &Run>, impl Iterator<Item = &Run>) {
        let (l0, levels) = self.beside(view);
        let levels = levels.iter().filter_map(move |level| run_of(&level.runs, key).map(|run| &**run));
        (l0.iter().map(|handle| &*handle.run), levels)
    }

    /// The runs of L0 and the levels that are not in `view`.
    #[inline]
    fn beside(&self, view: Option<&Viewed>) -> (&[RunHandle], &[Level]) {
        let (l0, levels) = view.map_or((0, 0), |view| (view.l0, view.levels));
        (&self.l0[..self.l0.len() - l0], &self.levels[levels..])
    }

    /// A cursor per tree of which `snapshot` sees anything, newest first; for those in `view` one together.
    pub fn cursors(&self, fill: Fill, snapshot: SeqNum, view: Option<&Viewed>, out: &mut Vec<Box<dyn MergeSource>>) {
        let (l0, levels) = self.beside(view);
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

    /// What the trees may hold, for [`Erasures::needed`].
    pub fn held(&self) -> Vec<Held<'_>> {
        let runs = self.l0.iter().map(|handle| &handle.run).chain(self.levels.iter().flat_map(|level| &*level.runs));
        let mut held: Vec<_> = runs
            .map(|run| {
                let (meta, clean_to) = (run.meta(), run.visible_from());
                Held { smallest: &meta.smallest, largest: Some(&meta.largest), clean_to }
            })
            .collect();
        let btree = self.btree.as_ref().filter(|root| root.meta().entries > 0);
        held.extend(btree.map(|root| Held { smallest: &[], largest: None, clean_to: root.meta().clean_to }));
        held
    }

    /// The runs of which no snapshot from `oldest` on sees anything.
    #[must_use]
    pub fn erased_runs(&self, oldest: SeqNum) -> Vec<FileId> {
        if self.erasures.is_empty() {
            return Vec::new();
        }
        let is_erased = |handle: &RunHandle| {
            let meta = handle.run.meta();
            self.erasures.cover(&meta.smallest, &meta.largest, (handle.run.ages().most, oldest))
        };
        self.runs().filter(is_erased).map(|handle| handle.id).collect()
    }

    /// The trees in which runs were replaced by others. In L0 these take the place of the newest that was replaced.
    #[must_use]
    pub fn replaced(&self, removed: &[FileId], place: Place, added: &[RunHandle]) -> Self {
        let mut trees = self.clone();
        let stays = |handle: &RunHandle| !removed.contains(&handle.id);
        let newest = trees.l0.iter().position(|handle| !stays(handle)).unwrap_or(0);
        trees.l0.retain(stays);
        if place == Place::L0 {
            trees.l0.splice(newest..newest, added.iter().cloned());
        }
        for (index, level) in trees.levels.iter_mut().enumerate() {
            let takes = place == Place::Level(index);
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
    pub fn with_newest(&self, runs: &[(Place, RunHandle)]) -> Self {
        let at = |place: Place| runs.iter().filter(|run| run.0 == place).map(|run| run.1.clone()).collect::<Vec<_>>();
        let places = (0..LEVELS).map(Place::Level).chain([Place::L0]);
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
    pub fn beside_inputs(&self, inputs: &[FileId]) -> Below {
        let stays = |(id, run): (&FileId, &Arc<Run>)| (!inputs.contains(id)).then(|| Arc::clone(run));
        let l0 = self.l0.iter().map(|handle| Vec::from_iter(stays((&handle.id, &handle.run))));
        let levels = self.levels.iter().map(|level| level.ids.iter().zip(&*level.runs).filter_map(stays).collect());
        Below::new(l0.chain(levels).collect(), self.holds_btree())
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
    pub fn over_the_last(&self) -> Viewable {
        let last = self.levels.iter().rposition(|level| !level.runs.is_empty());
        let levels = if self.btree.is_some() { LEVELS } else { last.unwrap_or(0) };
        let l0 = self.l0.iter().map(|handle| handle.id);
        let ids = l0.chain(self.levels[..levels].iter().flat_map(|level| level.ids.iter().copied())).collect();
        Viewable { l0: self.l0.len(), levels, trees: self.upper(self.l0.len(), levels).collect(), ids }
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
pub struct Viewable {
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
pub struct Viewed {
    view: Arc<View>,
    /// How many runs of L0 are in it: the oldest.
    l0: usize,
    /// How many levels are: the first.
    levels: usize,
}

impl Viewed {
    /// A view of these trees.
    #[must_use]
    pub fn new(view: View, of: &Viewable) -> Self {
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

/// Cursors over what erasures leave of trees.
fn unerased(trees: Vec<Box<dyn MergeSource>>, hiding: Hiding) -> Vec<Box<dyn MergeSource>> {
    let hiding = Arc::new(hiding);
    let cursor = |tree| Box::new(Unerased::new(tree, Arc::clone(&hiding))) as Box<dyn MergeSource>;
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
pub struct Hidden {
    /// Snapshots from here on do not see them.
    pub visible_from: SeqNum,
    /// They have smaller seqnums.
    pub before: SeqNum,
}

/// All that a reader of a table sees.
#[derive(Clone, Debug)]
pub struct Version {
    /// Takes the writes.
    pub active: Arc<Mem>,
    /// Full memtables on their way to disk, newest first.
    pub immutables: Vec<Arc<Mem>>,
    /// What is on disk.
    pub trees: Arc<Trees>,
    /// All erasures: those of `trees`, and those that are flushed with a memtable, of which each set is of one
    /// memtable.
    pub erasures: Layers,
    /// What has expired since the oldest snapshot, both seqnums ascending. Mostly empty.
    pub hidden: Vec<Hidden>,
    /// A view of some of `trees`, if reads have paid for it.
    pub view: Option<Viewed>,
}

impl Version {
    /// A version with nothing in memory.
    #[must_use]
    pub fn of_trees(trees: Trees) -> Self {
        let erasures = Layers::of_disk(&trees.erasures);
        Self {
            active: Mem::new(),
            immutables: Vec::new(),
            trees: Arc::new(trees),
            erasures,
            hidden: Vec::new(),
            view: None,
        }
    }

    /// The version with more entries hidden from snapshots to come, beside those that are live, ascending.
    #[must_use]
    pub fn hiding(&self, newest: Hidden, snapshots: &[SeqNum]) -> Self {
        let mut hidden = self.hidden.clone();
        hidden.push(newest);
        // What no live snapshot tells from the one behind it is not needed. No snapshot sees the newest yet, and one
        // that begins now sees what was newest before.
        for at in (0..hidden.len().saturating_sub(2)).rev() {
            let (from, to) = (hidden[at].visible_from, hidden[at + 1].visible_from);
            if !snapshots.iter().any(|snapshot| from <= *snapshot && *snapshot < to) {
                hidden.remove(at);
            }
        }
        Self { hidden, ..self.clone() }
    }

    /// The version in which an erasure hides all entries before a seqnum.
    #[must_use]
    pub fn settled(&self, before: SeqNum) -> Self {
        let hidden = self.hidden.iter().copied().filter(|hidden| hidden.before > before).collect();
        Self { hidden, ..self.clone() }
    }

    /// The seqnum before which entries have expired for `snapshot`; zero when an erasure says so already.
    #[inline]
    #[must_use]
    pub fn hidden_from(&self, snapshot: SeqNum) -> SeqNum {
        let seen = self.hidden.iter().rfind(|hidden| hidden.visible_from <= snapshot);
        seen.map_or(SeqNum::ZERO, |hidden| hidden.before)
    }

    /// The seqnum below which `snapshot` does not see entries of `key`.
    #[inline]
    #[must_use]
    pub fn floor(&self, key: &[u8], snapshot: SeqNum) -> SeqNum {
        self.erasures.floor(key, snapshot).max(self.hidden_from(snapshot))
    }

    /// Whether every snapshot sees all entries.
    #[inline]
    fn hides_nothing(&self) -> bool {
        self.erasures.is_empty() && self.hidden.is_empty()
    }

    /// What is hidden from `snapshot`.
    fn hidden_of(&self, snapshot: SeqNum) -> Hiding {
        self.erasures.hiding(snapshot).before(self.hidden_from(snapshot))
    }

    /// Two neighbouring sets of erasures that should be one. Both must be of the same memtable, or a crash could keep
    /// an erasure less than what is on disk of the entries after it.
    #[must_use]
    pub(crate) fn erasures_to_join(&self) -> Option<[Arc<Erasures>; 2]> {
        let frozen_between = |older: &Erasures, newer: &Erasures| {
            let frozen = self.immutables.iter().filter_map(|mem| mem.frozen_at());
            frozen.into_iter().any(|at| older.newest() < at.next_seqnum && at.next_seqnum <= newer.newest())
        };
        self.erasures.to_join(|older, newer| !frozen_between(older, newer))
    }

    /// The version with other sets of the same erasures.
    #[must_use]
    pub(crate) fn with_erasures(&self, erasures: Layers) -> Self {
        Self { erasures, ..self.clone() }
    }

    /// The version with other trees, where the memtables in `flushed`, and erasures before `up_to`, have gone into
    /// them.
    pub(crate) fn with_trees(&self, trees: &Arc<Trees>, flushed: &[Arc<Mem>], up_to: SeqNum) -> Self {
        let is_flushed = |mem: &Arc<Mem>| flushed.iter().any(|done| Arc::ptr_eq(done, mem));
        Self {
            active: Arc::clone(&self.active),
            immutables: self.immutables.iter().filter(|mem| !is_flushed(mem)).cloned().collect(),
            trees: Arc::clone(trees),
            erasures: self.erasures.flushed(&trees.erasures, up_to),
            hidden: self.hidden.clone(),
            view: self.view.clone().filter(|view| view.is_of(trees)),
        }
    }

    /// The version with a view, if that is of its trees.
    #[must_use]
    pub fn viewing(&self, view: &Viewed) -> Self {
        let view = if view.is_of(&self.trees) { Some(view) } else { self.view.as_ref() };
        Self { view: view.cloned(), ..self.clone() }
    }

    /// Whether walks of `snapshot` go by a view.
    #[must_use]
    pub fn is_viewed_by(&self, snapshot: SeqNum) -> bool {
        self.hides_nothing() && self.view_for(snapshot).is_some()
    }

    /// The view, if it is of what `snapshot` sees.
    fn view_for(&self, snapshot: SeqNum) -> Option<&Viewed> {
        self.view.as_ref().filter(|viewed| viewed.view.is_seen_by(snapshot))
    }

    /// Leaves out what an erasure hides: `snapshot` sees nothing of `key` behind it.
    #[inline]
    fn unerased(&self, key: &[u8], snapshot: SeqNum, found: Option<Found>) -> Option<Found> {
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
        let (hash, mut starts) = (hash_key(key), Approached::default());
        let view = self.view_for(snapshot).map(|view| (view, view.view.approach(key)));
        self.trees.approach((key, hash), view.map(|(view, _)| view), &mut starts);
        for mem in self.memtables().filter(|mem| !mem.is_unused()) {
            costs.trees += 1;
            costs.small += u64::from(mem.is_small());
            if let Some(found) = mem.entries.get(key, snapshot) {
                return Ok(self.unerased(key, snapshot, Some(found)));
            }
        }
        let found = self.trees.get_at_cost((key, hash), &starts, view, snapshot, costs)?;
        Ok(self.unerased(key, snapshot, found))
    }

    /// [`Self::get`] of several keys, in their order, with steps taken together.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_many(&self, keys: &[&[u8]], snapshot: SeqNum, costs: &mut Costs) -> Result<Answers> {
        let answers = Lookups::run(keys, snapshot, costs, |lookups| {
            for mem in self.memtables().filter(|mem| !mem.entries.is_empty()) {
                lookups.search(|asks, snapshot, costs| {
                    costs.trees += u64_of(asks.len());
                    costs.small += if mem.is_small() { u64_of(asks.len()) } else { 0 };
                    Ok(mem.entries.get_many(asks, snapshot))
                })?;
            }
            self.trees.get_many(lookups, self.view_for(snapshot).filter(|viewed| viewed.view.serves_many()))
        })?;
        if self.hides_nothing() {
            return Ok(answers);
        }
        Ok(keys.iter().zip(answers).map(|(key, found)| self.unerased(key, snapshot, found)).collect())
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

    /// A cursor over all trees of which `snapshot` sees anything, without what erasures hide from it.
    #[must_use]
    pub fn cursor(&self, fill: Fill, snapshot: SeqNum) -> MergeCursor {
        if self.hides_nothing() {
            return MergeCursor::new(self.cursors(fill, snapshot, self.view_for(snapshot)));
        }
        MergeCursor::new(unerased(self.cursors(fill, snapshot, None), self.hidden_of(snapshot)))
    }

    /// As [`Self::cursor`], without what `erased` hides either, which only the reader knows of.
    #[must_use]
    pub fn cursor_without(&self, erased: &Layers, fill: Fill, snapshot: SeqNum) -> MergeCursor {
        let hiding = self.hidden_of(snapshot).and(erased, SeqNum(u64::MAX));
        MergeCursor::new(unerased(self.cursors(fill, snapshot, None), hiding))
    }

    /// A cursor for each tree of which `snapshot` sees anything, newest first; for those in `view` one together.
    /// Erasures hide a tree's entries by how old the tree is, and so do without.
    fn cursors(&self, fill: Fill, snapshot: SeqNum, view: Option<&Viewed>) -> Vec<Box<dyn MergeSource>> {
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
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Mem>> {
        std::iter::once(&self.active).chain(&self.immutables)
    }
}
