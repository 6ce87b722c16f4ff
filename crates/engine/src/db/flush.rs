//! The flush: a table's full memtables become a run in L0, with their large values in value files beside it, or are
//! merged into its B-tree.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Lsn, Reached, Result, SeqNum, TableId};
use crate::table::edit::Edit;
use crate::table::memtable_handle::MemtableHandle;
use crate::table::record::RunRecord;
use crate::table::{RunHandle, Trees, Version, policy};
use crate::tree::btree::PendingRoot;
use crate::tree::gc::{GcRule, OtherTrees};
use crate::tree::merge::MergeCursor;
use crate::tree::range_tombstone::RangeTombstones;
use crate::tree::{Cursor, MergeSource};

use super::absorb::Merged;
use super::core::{Core, TableState};
use super::run_writer::RunWriter;

/// A table with a read for so many entries written, or more reads, is read enough for what is flushed to go to the
/// cache.
const READS_PART: u64 = 8;

/// Of a flush that leaves no more of a B-tree than this part, space goes back to the file system; else it is kept for
/// the flushes to come.
const EMPTIED_PART: u64 = 2;

/// What a flush wrote.
enum Output {
    /// Every entry could be dropped.
    Nothing,
    Run(RunHandle),
    Root(PendingRoot),
}

impl Core {
    /// Freezes and flushes all that the table has in memory. Where the disk has no room for it, the background tries
    /// again.
    pub(crate) fn flush_all(&self, table: &Arc<TableState>) -> Result<()> {
        self.check_writable()?;
        table.check()?;
        self.rotate(&mut self.commit.lock(), table);
        let flushed = self.flush(table);
        self.wake_flush();
        self.wake_compact();
        flushed
    }

    /// Flushes the table's frozen memtables.
    pub(crate) fn flush(&self, table: &Arc<TableState>) -> Result<()> {
        let gate = self.flush_gate.lock();
        let flushed = self.flush_gated(table, SeqNum::MAX);
        drop(gate);
        self.rebalance();
        flushed
    }

    /// As [`Self::flush`], of the memtables that were frozen before a change with seqnum `up_to`, for a caller that
    /// holds the flush gate.
    pub(crate) fn flush_gated(&self, table: &Arc<TableState>, up_to: SeqNum) -> Result<()> {
        if table.check().is_err() {
            return Ok(());
        }
        let mut mems = table.version.load().immutables.clone();
        mems.retain(|mem| mem.frozen_at().is_some_and(|at| at.next_seqnum <= up_to));
        if mems.is_empty() {
            return Ok(());
        }
        self.health.check_in_use()?;
        self.check_begun()?;
        for mem in &mems {
            mem.wait_for_inserts();
        }
        let replay_from = match mems.first().and_then(|newest| newest.frozen_at()) {
            Some(at) => at.lsn,
            None => self.ledger.lock().catalog.tables[&table.id].replay_from,
        };
        // Without this a crash could keep the flushed half of a commit and lose the half that is only in the log. Of an
        // unlogged table it could also keep a commit and lose one before it. Recovery has synced the log before it
        // replays.
        if self.log.get().is_some() {
            self.force_log(replay_from)?;
        }
        let range_tombstones = range_tombstones(&table.version.load(), &mems);
        let live_before = table.btree().map_or(0, |btree| btree.root().meta().live_bytes());
        let output = match self.write_out(table, &mems, &range_tombstones) {
            // What it wrote is gone again, or lies where a tree's file is free, and the memtables stay where they are.
            Err(error) if lacks(&error) => {
                Reached::FlushWithoutRoom.mark();
                let bytes = mems.iter().map(|mem| mem.accounted_bytes()).sum();
                return Err(if error.kind() == ErrorKind::Full { self.advise_room(error, bytes) } else { error });
            }
            output => self.or_poison(output)?,
        };
        self.or_poison(self.install_flush(table, &mems, replay_from, &range_tombstones, output))?;
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        table.savings.flushed(mems.iter().map(|mem| mem.entries.entries()).sum());
        for mem in &mems {
            self.memory.forget(mem);
        }
        self.room.made(&self.memory);
        self.give_back_emptied(table, live_before)
    }

    /// Gives the file system the space back of a B-tree that flushes have emptied, of which so many bytes were live
    /// before.
    fn give_back_emptied(&self, table: &TableState, live_before: u64) -> Result<()> {
        let Some(btree) = table.btree() else { return Ok(()) };
        let live = btree.root().meta().live_bytes();
        if live_before == 0 || live > live_before / EMPTIED_PART {
            return Ok(());
        }
        let Some(turn) = btree.merge_permit() else { return Ok(()) };
        self.give_back(&btree, &turn, live / policy::KEPT_PART)
    }

    /// Writes the memtables' entries to a run, or merges them into the B-tree, under the range tombstones that come
    /// with them; nothing refers to the result yet.
    fn write_out(
        &self,
        table: &TableState,
        mems: &[Arc<MemtableHandle>],
        range_tombstones: &RangeTombstones,
    ) -> Result<Output> {
        let mut cursors: Vec<Box<dyn MergeSource>> = Vec::new();
        let entries: u64 = mems.iter().map(|mem| mem.entries.entries()).sum();
        let is_read = table.reads.since_asked().saturating_mul(READS_PART) >= entries;
        cursors.extend(mems.iter().map(|mem| mem.entries.merge_source(is_read)));
        let (snapshots, published) = self.snapshots.live();
        let trees = Arc::clone(&table.version.load().trees);
        // A slice may be in place before a crash takes the rest: of the log, which has it, and not of range tombstones
        // that the manifest gets at the end.
        let in_slices = table.options.logged && range_tombstones.is_empty();
        let range_tombstones = if range_tombstones.is_empty() {
            Arc::clone(&trees.range_tombstones)
        } else {
            Arc::new(trees.range_tombstones.and(range_tombstones))
        };
        let mut changes = MergeCursor::new(cursors);
        let bytes: u64 = mems.iter().map(|mem| u64_of(mem.entries.bytes())).sum();
        if let Some(btree) = table.btree()
            && let Some(turn) = self.merges_now(table, &trees, &btree, &mut changes, bytes)?
        {
            let mut gc =
                table.retain(snapshots.clone(), published, true).with_range_tombstones(Arc::clone(&range_tombstones));
            // The old root goes slice by slice.
            drop(trees);
            let merged = match in_slices {
                true => self.merge_in_slices(turn, (table, &btree), (&mut changes, bytes), &mut gc, &mut || Ok(())),
                false => btree.merge(turn, &mut changes, &mut gc, false, &mut || Ok(())).map(Merged::of),
            };
            match merged {
                // Laid over the tree, the changes wait until it can be read, or until there is room for what a merge
                // rewrites.
                Err(error) if error.is_of_read() => self.counters.failed_merge(&error),
                Err(error) if error.kind() == ErrorKind::Full => {}
                merged => {
                    let Merged { last, written, .. } = merged?;
                    self.counters.flush_bytes.fetch_add(written, Ordering::Relaxed);
                    return Ok(Output::Root(last));
                }
            }
        }
        let trees = Arc::clone(&table.version.load().trees);
        let mut gc = table.retain(snapshots, published, trees.count() == 0).with_range_tombstones(range_tombstones);
        // What the log has given back may be in the tree, if a merge into it was cut short.
        gc = gc.with_other_trees(OtherTrees::new(Vec::new(), trees.holds_btree()));
        let filter_bits = policy::bits_of_flush(&trees, &table.options, entries, &mut changes)?;
        let mut writer = RunWriter::new(self, &table.options, u64::MAX, filter_bits);
        match feed(&mut changes, &mut gc, &mut writer) {
            Ok(newest) => writer.clean_to(gc.clean_to(newest)),
            Err(error) => return Err(writer.give_up(error)),
        }
        Ok(writer.finish()?.pop().map_or(Output::Nothing, Output::Run))
    }

    /// Records the flush in the manifest, then shows readers the new trees instead of the memtables.
    fn install_flush(
        &self,
        table: &TableState,
        mems: &[Arc<MemtableHandle>],
        replay_from: Lsn,
        range_tombstones: &Arc<RangeTombstones>,
        output: Output,
    ) -> Result<()> {
        let log_from = self.log_needed_from(mems);
        let next_seqnum = self.commit.lock().next_seqnum;
        let mut ledger = self.ledger.lock();
        self.raise_seqnum_floor(&mut ledger, next_seqnum)?;
        let mut trees = Trees::clone(&table.version.load().trees);
        self.record(&mut ledger, &edit(table.id, replay_from, log_from, &output, range_tombstones)).map_err(
            |error| match &output {
                Output::Run(handle) => self.give_up_output(table, std::slice::from_ref(handle), error),
                Output::Nothing | Output::Root(_) => error,
            },
        )?;
        if !range_tombstones.is_empty() {
            trees.range_tombstones = Arc::new(trees.range_tombstones.and(range_tombstones));
        }
        match output {
            Output::Nothing => {}
            Output::Run(handle) => {
                let values: u64 = handle.run.values().iter().map(|file| file.bytes()).sum();
                self.counters.flush_bytes.fetch_add(handle.run.meta().bytes + values, Ordering::Relaxed);
                trees.l0.insert(0, handle);
                trees = trees.with_values();
            }
            Output::Root(pending) => {
                let btree = table.btree().expect("only a table with a B-tree merges into it");
                btree.install(pending)?;
                trees.btree = Some(btree.root());
            }
        }
        let retired = self.retire(&mut ledger, table, &mut trees);
        let up_to = frozen_before(mems);
        let trees = Arc::new(trees);
        table.version.rcu(|version| version.with_trees(&trees, mems, up_to));
        drop(ledger);
        retired?;
        self.release_log(log_from)
    }
}

/// Whether a flush lacked space or descriptors, and may be done later.
pub(super) fn lacks(error: &Error) -> bool {
    error.kind() == ErrorKind::Full || error.is_unchanged()
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

/// The seqnum before which all changes are in `mems`, newest first, or on disk.
fn frozen_before(mems: &[Arc<MemtableHandle>]) -> SeqNum {
    mems.first().and_then(|newest| newest.frozen_at()).map_or(SeqNum::ZERO, |at| at.next_seqnum)
}

/// The range tombstones that came with the memtables.
fn range_tombstones(version: &Version, mems: &[Arc<MemtableHandle>]) -> Arc<RangeTombstones> {
    version.range_tombstones.before(frozen_before(mems))
}

/// The edit that tells of a flush.
fn edit(
    table: TableId,
    replay_from: Lsn,
    log_from: Lsn,
    output: &Output,
    range_tombstones: &Arc<RangeTombstones>,
) -> Edit {
    let range_tombstones = Arc::clone(range_tombstones);
    let (run, tree) = match output {
        Output::Nothing => (None, None),
        Output::Run(handle) => (Some(RunRecord::of(handle)), None),
        Output::Root(pending) => (None, Some(*pending.meta())),
    };
    Edit::Flush { table, replay_from, log_from, run, tree, range_tombstones }
}
