//! How what a job has written becomes part of its table: one record in the manifest, then readers see the new trees,
//! without the range tombstones that are not needed any more.

use std::mem;
use std::sync::Arc;

use crate::base::{CoveragePoint, Error, FileId, Lsn, Result, SeqNum};
use crate::db::state::State;
use crate::db::state::manifest_store::ManifestGuard;
use crate::db::state::table::TableState;
use crate::table::edit::Edit;
use crate::table::memtable_handle::MemtableHandle;
use crate::table::record::RunRecord;
use crate::table::{LevelId, RunHandle, TableView, Trees};
use crate::tree::btree::{MergePermit, PendingRoot};
use crate::tree::range_tombstone::RangeTombstones;

/// From this number of range tombstones on, the manifest tells which are not needed any more only when a quarter of
/// them is not: it tells all that are left.
const TOLD_WITH_A_QUARTER: usize = 1000;

/// What a job makes of a table's trees.
pub(super) struct TreeChange {
    /// Memtables that go: the new trees hold their changes.
    pub(super) flushed: Option<Flushed>,
    /// Runs that go.
    pub(super) removed: Vec<FileId>,
    /// Runs that come; of a flush at most one.
    pub(super) added: Vec<RunHandle>,
    /// Where they come.
    pub(super) target: LevelId,
    /// A new root of the B-tree.
    pub(super) root: Option<PendingRoot>,
}

/// Memtables that were flushed.
pub(super) struct Flushed {
    /// Newest first.
    pub(super) mems: Vec<Arc<MemtableHandle>>,
    /// Where the replay of the table's log begins from now on.
    pub(super) replay_from: Lsn,
    /// The log before this position is not needed by any table.
    pub(super) log_from: Lsn,
    /// The range tombstones that came with them.
    pub(super) tombstones: Arc<RangeTombstones>,
}

/// The proof that what readers and the next look for a job see of a table is not what they saw before. Only this file
/// makes one, of a change that it has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress(());

/// What an installation gave.
pub(super) struct Installed {
    pub(super) progress: Progress,
    /// The right to merge into the B-tree again.
    pub(super) permit: Option<MergePermit>,
    /// Bytes of value files that came with the runs.
    pub(super) value_bytes: u64,
}

impl TreeChange {
    /// No change.
    pub(super) fn none() -> Self {
        Self { flushed: None, removed: Vec::new(), added: Vec::new(), target: LevelId::L0, root: None }
    }

    /// The edit that tells of it; none for a change of nothing.
    fn edit(&self, table: &TableState, manifest: &ManifestGuard<'_>) -> Option<Edit> {
        let Self { flushed, removed, added, target, root } = self;
        let (table, tree) = (table.id, root.as_ref().map(|pending| *pending.meta()));
        match (flushed, tree) {
            (Some(flushed), tree) => {
                let &Flushed { replay_from, log_from, .. } = flushed;
                let (run, range_tombstones) = (added.first().map(RunRecord::of), Arc::clone(&flushed.tombstones));
                Some(Edit::Flush { table, replay_from, log_from, run, tree, range_tombstones })
            }
            (None, Some(tree)) => {
                let (replay_from, log_from) = (manifest.replay_from(table), manifest.catalog().log_from);
                let (removed, range_tombstones) = (removed.clone(), Arc::default());
                Some(Edit::BTreeMerge { table, replay_from, log_from, removed, tree, range_tombstones })
            }
            (None, None) if removed.is_empty() && added.is_empty() => None,
            (None, None) => {
                let added = added.iter().map(|handle| (*target, RunRecord::of(handle))).collect();
                Some(Edit::Compact { table, removed: removed.clone(), added })
            }
        }
    }
}

/// Makes a change durable and shows it to readers. `None` when the table was dropped meanwhile: then what was written
/// is removed. It is removed too after an error after which nothing was changed.
pub(super) fn install(state: &State, table: &TableState, change: TreeChange) -> Result<Option<Installed>> {
    install_together(state, vec![(table, change)]).map(|mut installed| installed.pop().flatten())
}

/// As [`install`], of changes of several tables by one record in the manifest.
pub(super) fn install_together(
    state: &State,
    changes: Vec<(&TableState, TreeChange)>,
) -> Result<Vec<Option<Installed>>> {
    let mut manifest = state.manifest.lock();
    // Recording may put another one in force.
    let named_from = state.files.leases().in_force();
    let (mut edits, mut ready) = (Vec::new(), Vec::with_capacity(changes.len()));
    for (table, change) in changes {
        if table.check().is_err() {
            state.files.remove_output(&change.added);
            ready.push(None);
            continue;
        }
        edits.extend(change.edit(table, &manifest));
        ready.push(Some((table, table.trees(), change)));
    }
    if let Err(error) = manifest.record_all(edits) {
        ready.into_iter().flatten().for_each(|(_, before, change)| give_up(state, change, &before, &error));
        return state.or_poison(Err(error));
    }
    let shown: Vec<_> = ready.into_iter().map(|ready| ready.map(|ready| show(state, &mut manifest, ready))).collect();
    let roots = shown.iter().flatten().flatten().filter(|shown| shown.permit.is_some());
    roots.filter_map(|shown| shown.after.btree.as_ref()).for_each(|root| root.note_named(named_from));
    drop(manifest);
    let mut installed = Vec::with_capacity(shown.len());
    for shown in shown {
        let Some(Shown { permit, before, after, retired }) = shown.transpose()? else {
            installed.push(None);
            continue;
        };
        state.files.remove_values(before.values.without(&after.values));
        let value_bytes = after.values.without(&before.values).map(|file| file.bytes()).sum();
        retired?;
        installed.push(Some(Installed { progress: Progress(()), permit, value_bytes }));
    }
    Ok(installed)
}

/// Shows readers a view of trees that they still meet. It is only in memory.
pub(super) fn install_view(table: &TableState, view: &TableView) -> Progress {
    table.version.rcu(|version| Arc::new(version.with_view(view)));
    Progress(())
}

/// A change that readers see.
struct Shown {
    permit: Option<MergePermit>,
    before: Arc<Trees>,
    after: Arc<Trees>,
    /// Whether range tombstones that are not needed could be left out.
    retired: Result<()>,
}

/// Shows readers a change that is durable.
fn show(
    state: &State,
    manifest: &mut ManifestGuard<'_>,
    (table, before, change): (&TableState, Arc<Trees>, TreeChange),
) -> Result<Shown> {
    let TreeChange { flushed, removed, added, target, root } = change;
    let mut after = before.replaced(&removed, target, &added);
    let (mut mems, mut up_to) = (Vec::new(), SeqNum::ZERO);
    if let Some(flushed) = flushed {
        if !flushed.tombstones.is_empty() {
            after.range_tombstones = Arc::new(after.range_tombstones.and(&flushed.tombstones));
        }
        up_to = sealed_before(&flushed.mems);
        mems = flushed.mems;
    }
    if let (Some(_), Some(old)) = (&root, &before.btree) {
        state.files.retire_root(old);
    }
    let permit = root.map(|pending| install_root(table, pending, &mut after)).transpose()?;
    let retired = retire_tombstones(state, manifest, table, &mut after);
    let after = Arc::new(after);
    table.version.rcu(|version| version.with_trees(&after, &mems, up_to));
    Ok(Shown { permit, before, after, retired })
}

/// Gives up a change that could not be recorded. When nothing was changed, what it brought is removed. Else the
/// manifest may name it after the next open: nothing of it is removed, and a pending root keeps its blocks and the
/// right to merge, so that no other merge writes over them before it learns that the database is poisoned.
fn give_up(state: &State, change: TreeChange, before: &Trees, error: &Error) {
    if !error.is_unchanged() {
        mem::forget(change.root);
        return;
    }
    let new = change.added.into_iter().filter(|handle| !change.removed.contains(&handle.id));
    state.files.remove_new(&new.collect::<Vec<_>>(), &before.values);
}

fn install_root(table: &TableState, pending: PendingRoot, trees: &mut Trees) -> Result<MergePermit> {
    let btree = table.btree().expect("only a table with a B-tree merges into it");
    let permit = btree.install(pending)?;
    trees.btree = Some(btree.root());
    Ok(permit)
}

/// The seqnum before which all changes are in `mems`, newest first, or on disk.
pub(super) fn sealed_before(mems: &[Arc<MemtableHandle>]) -> SeqNum {
    mems.first().and_then(|newest| newest.sealed_at()).map_or(SeqNum::ZERO, |at| at.next_seqnum)
}

/// Leaves out the range tombstones that no snapshot needs any more beside `trees`, which are about to be shown.
fn retire_tombstones(
    state: &State,
    manifest: &mut ManifestGuard<'_>,
    table: &TableState,
    trees: &mut Trees,
) -> Result<()> {
    if trees.range_tombstones.is_empty() || table.is_loading_below() {
        return Ok(());
    }
    // Before the look: a snapshot that is released after it wakes the compaction.
    state.wakers.compact_on_release();
    let (mut snapshots, published) = state.snapshots.live();
    snapshots.push(published);
    // A tombstone of what has expired covers memtables too.
    let needed = match &table.expiry {
        Some(_) => RangeTombstones::clone(&trees.range_tombstones),
        None => trees.range_tombstones.needed(&snapshots, &trees.extents()),
    };
    let (left, all) = (needed.len(), trees.range_tombstones.len());
    if needed == *trees.range_tombstones || all > TOLD_WITH_A_QUARTER && left * 4 > all * 3 {
        return Ok(());
    }
    let range_tombstones = Arc::new(needed);
    match manifest.record(&Edit::RangeDelete { table: table.id, range_tombstones: Arc::clone(&range_tombstones) }) {
        // They go the next time.
        Err(error) if error.is_unchanged() => return Ok(()),
        recorded => recorded?,
    }
    trees.range_tombstones = range_tombstones;
    CoveragePoint::RangeTombstoneRetired.mark();
    Ok(())
}
