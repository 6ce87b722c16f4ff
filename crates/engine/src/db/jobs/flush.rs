//! The flush: a table's sealed memtables become a run in L0, with their large values in value files beside it, or are
//! merged into its B-tree.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::base::num::u64_of;
use crate::base::trace::span;
use crate::base::{CoveragePoint, ErrorKind, Lsn, Result, SeqNum};
use crate::db::state::State;
use crate::db::state::counters::Work;
use crate::db::state::events::Event;
use crate::db::state::table::TableState;
use crate::table::level::LevelId;
use crate::table::memtable_handle::MemtableHandle;
use crate::table::{RunHandle, policy};
use crate::tree::btree::PendingRoot;
use crate::tree::gc::{GcRule, OtherTrees};
use crate::tree::merge::MergeCursor;
use crate::tree::range_tombstone::RangeTombstones;
use crate::tree::{Cursor, MergeSource};

use super::btree_merge::{Merged, give_back, merge_in_slices, merges_now};
use super::install::{Flushed, TreeChange, install, sealed_before};
use super::job::{JobContext, is_lack};
use super::output::run_writer::RunWriter;

/// When a table has at least one read for this number of entries written, its flushed blocks go to the cache.
const READS_PART: u64 = 8;

/// Of a flush that leaves no more of a B-tree than this part, space goes back to the file system; else it is kept for
/// the flushes to come.
const EMPTIED_PART: u64 = 2;

/// Sealed memtables of a table, newest first, on their way to disk. The caller holds the flush gate.
pub(crate) struct Flush<'a> {
    context: JobContext<'a>,
    table: &'a TableState,
    mems: Vec<Arc<MemtableHandle>>,
    /// Where the replay of the table's log begins when they are on disk.
    replay_from: Lsn,
}

/// The order of commits when a flush begins. What is flushed is older, and what comes meanwhile stays in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frontier {
    pub(crate) next_seqnum: SeqNum,
    /// The log before this position is not needed when the flush is done.
    pub(crate) log_from: Lsn,
}

/// What a flush wrote.
enum Output {
    /// Every entry could be dropped.
    Nothing,
    Run(RunHandle),
    /// The new root of the B-tree, and bytes written for it.
    Root(Box<PendingRoot>, u64),
}

impl<'a> Flush<'a> {
    /// The flush of the memtables that were sealed before a change with seqnum `up_to`; `None` when there are none.
    pub(crate) fn plan(context: JobContext<'a>, table: &'a TableState, up_to: SeqNum) -> Option<Self> {
        let mut mems = table.version.load().immutables.clone();
        mems.retain(|mem| mem.sealed_at().is_some_and(|at| at.next_seqnum <= up_to));
        if mems.is_empty() || table.check().is_err() {
            return None;
        }
        table.compaction.was_flushed.store(true, Ordering::Relaxed);
        mems.iter().for_each(|mem| mem.wait_for_inserts());
        let replay_from = match mems.first().and_then(|newest| newest.sealed_at()) {
            Some(at) => at.lsn,
            None => context.state.manifest.lock().replay_from(table.id),
        };
        Some(Self { context, table, mems, replay_from })
    }

    pub(crate) fn mems(&self) -> &[Arc<MemtableHandle>] {
        &self.mems
    }

    /// The log must be durable up to here before the flush: a crash could else keep the flushed half of a commit and
    /// lose the half that is only in the log. Of an unlogged table it could also keep a commit and lose one before it.
    pub(crate) fn needs_log(&self) -> Lsn {
        self.replay_from
    }

    /// Writes the memtables out, and shows readers the result in their place.
    pub(crate) fn run(self, frontier: Frontier) -> Result<()> {
        let JobContext { state, .. } = self.context;
        state.or_poison(state.manifest.lock().raise_seqnum_floor(frontier.next_seqnum))?;
        let mut written = self.write(frontier, true)?;
        let change = mem::replace(&mut written.change, TreeChange::none());
        state.or_poison(install(state, written.table, change))?;
        written.installed()
    }

    /// Writes the memtables out; nothing refers to the result yet. With `is_synced` it is durable.
    pub(super) fn write(self, frontier: Frontier, is_synced: bool) -> Result<Written<'a>> {
        let JobContext { state, throttle } = self.context;
        let Self { context, table, mems, replay_from } = &self;
        span!("flush", table = &*table.name);
        let start = state.env.clock.now();
        let tombstones = table.version.load().range_tombstones.before(sealed_before(mems));
        let live_before = table.btree().map_or(0, |btree| btree.root().meta().live_bytes());
        let bytes = mems.iter().map(|mem| mem.accounted_bytes()).sum();
        let output = match self.write_out(&tombstones, is_synced) {
            // The files that it wrote are removed, or its blocks lie in free extents of the tree's file, and the
            // memtables stay.
            Err(error) if is_lack(&error) => {
                CoveragePoint::FlushWithoutRoom.mark();
                return Err(match error.kind() {
                    ErrorKind::Full => throttle.advise_flush(error, bytes),
                    _ => error,
                });
            }
            output => state.or_poison(output)?,
        };
        let flushed =
            Flushed { mems: mems.clone(), replay_from: *replay_from, log_from: frontier.log_from, tombstones };
        let mut change = TreeChange { flushed: Some(flushed), ..TreeChange::none() };
        let (mut written_bytes, mut is_of_btree) = (0, false);
        match output {
            Output::Nothing => {}
            Output::Run(handle) => {
                let values: u64 = handle.run.values().iter().map(|file| file.bytes()).sum();
                written_bytes = handle.run.meta().bytes + values;
                change.added.push(handle);
            }
            Output::Root(pending, written) => {
                (written_bytes, is_of_btree) = (written, true);
                change.root = Some(*pending);
            }
        }
        let (context, table) = (*context, *table);
        let Self { mems, .. } = self;
        Ok(Written { context, table, mems, change, start, bytes, written_bytes, is_of_btree, live_before })
    }

    /// Writes the memtables' entries to a run, or merges them into the B-tree, under the range tombstones that come
    /// with them; nothing refers to the result yet.
    fn write_out(&self, tombstones: &Arc<RangeTombstones>, is_synced: bool) -> Result<Output> {
        let (state, table) = (self.context.state, self.table);
        let entries: u64 = self.mems.iter().map(|mem| mem.entries.entries()).sum();
        let is_read = table.reads.since_asked().saturating_mul(READS_PART) >= entries;
        let sources = self.mems.iter().map(|mem| mem.entries.merge_source(is_read)).collect();
        let (snapshots, published) = state.snapshots.live();
        let trees = table.trees();
        let mut changes = MergeCursor::new(sources);
        let all = match tombstones.is_empty() {
            true => Arc::clone(&trees.range_tombstones),
            false => Arc::new(trees.range_tombstones.and(tombstones)),
        };
        let bytes: u64 = self.mems.iter().map(|mem| u64_of(mem.entries.bytes())).sum();
        if let Some((btree, permit)) = merges_now(state, table, &trees, (&mut changes, bytes))? {
            let mut gc = table.gc_rule(snapshots.clone(), published, true).with_range_tombstones(Arc::clone(&all));
            // A holder of the old root would keep the space that each slice frees.
            drop(trees);
            // A slice may be in place before a crash takes the rest: of the log, which has it, and not of tombstones
            // that the manifest gets at the end.
            let in_slices = table.options.logged && tombstones.is_empty();
            let (changes, pause) = (&mut changes, &mut || Ok(()));
            let merged = match in_slices {
                _ if !is_synced => btree.merge_unsynced(permit, changes, &mut gc, false, pause).map(Merged::of),
                true => merge_in_slices(state, permit, (table, &btree), (changes, bytes), &mut gc, pause),
                false => btree.merge(permit, changes, &mut gc, false, pause).map(Merged::of),
            };
            match merged {
                // Laid over the tree, the changes wait until it can be read, or until there is room for what a merge
                // rewrites.
                Err(error) if error.is_of_read() => state.counters.btree_merge_failed(&error),
                Err(error) if error.kind() == ErrorKind::Full => {}
                merged => {
                    let Merged { last, written, .. } = merged?;
                    return Ok(Output::Root(Box::new(last), written));
                }
            }
        }
        let trees = table.trees();
        let gc = table.gc_rule(snapshots, published, trees.count() == 0).with_range_tombstones(all);
        // A merge in slices that a crash cut short has left some of these changes in the tree, and the log brought them
        // back into memory.
        let mut gc = gc.with_other_trees(OtherTrees::new(Vec::new(), trees.holds_btree()));
        let filter_bits = policy::bits_of_flush(&trees, &table.options, entries, &mut changes)?;
        let writer = RunWriter::new(state, &table.options, u64::MAX, filter_bits);
        let mut writer = if is_synced { writer } else { writer.unsynced() };
        match feed(&mut changes, &mut gc, &mut writer) {
            Ok(newest) => writer.clean_to(gc.clean_to(newest)),
            Err(error) => return Err(writer.give_up(error)),
        }
        Ok(writer.finish()?.pop().map_or(Output::Nothing, Output::Run))
    }
}

/// A flush of which nothing is shown yet.
pub(super) struct Written<'a> {
    context: JobContext<'a>,
    pub(super) table: &'a TableState,
    pub(super) mems: Vec<Arc<MemtableHandle>>,
    /// What it makes of the table's trees.
    pub(super) change: TreeChange,
    start: Duration,
    /// Bytes of the memtables, and what became of them on disk.
    bytes: u64,
    written_bytes: u64,
    is_of_btree: bool,
    live_before: u64,
}

impl Written<'_> {
    /// The change was made durable and shown.
    pub(super) fn installed(self) -> Result<()> {
        let JobContext { state, throttle } = self.context;
        let Self { table, mems, start, bytes, written_bytes, is_of_btree, live_before, .. } = self;
        state.counters.flushes.fetch_add(1, Ordering::Relaxed);
        let duration = state.env.clock.now().saturating_sub(start);
        let work = &state.counters.work;
        let place = if is_of_btree { work.btree() } else { work.level(LevelId::L0) };
        place.add(Work { jobs: 1, read_bytes: bytes, written_bytes, duration, ..Work::default() });
        state.counters.flush_bytes.fetch_add(written_bytes, Ordering::Relaxed);
        state.counters.events.tell(&Event::Flushed { table: &table.name, memtables: mems.len(), bytes, duration });
        table.charges.flushed(mems.iter().map(|mem| mem.entries.entries()).sum());
        mems.iter().for_each(|mem| throttle.budget.forget(mem));
        throttle.flushed();
        give_back_emptied(state, table, live_before)
    }
}

/// Gives the file system the space back of a B-tree that a flush has emptied, of which this many bytes were live
/// before.
fn give_back_emptied(state: &State, table: &TableState, live_before: u64) -> Result<()> {
    let Some(btree) = table.btree() else { return Ok(()) };
    let live = btree.root().meta().live_bytes();
    if live_before == 0 || live > live_before / EMPTIED_PART {
        return Ok(());
    }
    let Some(permit) = btree.merge_permit() else { return Ok(()) };
    give_back(state, &btree, &permit, live / policy::KEPT_PART)
}

/// Takes what is kept of the changes to the writer; the largest seqnum among them.
fn feed(changes: &mut MergeCursor, gc: &mut GcRule, writer: &mut RunWriter<'_>) -> Result<SeqNum> {
    let mut newest = SeqNum::ZERO;
    changes.first()?;
    while let Some(entry) = changes.entry() {
        writer.source(changes.is_cached());
        newest = newest.max(entry.seqnum);
        gc.push_from(SeqNum::ZERO, &entry, &mut |entry| writer.push(entry))?;
        changes.next()?;
    }
    gc.end_key(&mut |entry| writer.push(entry))?;
    Ok(newest)
}
