//! The merge of runs: carries a compaction out, slice by slice, each of which takes the place of inputs as soon as it
//! is durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::sync::MutexGuard;

use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, FileId, Reached, Result, SeqNum};
use crate::table::edit::Edit;
use crate::table::policy::{self, Compaction, Slice};
use crate::table::record::RunRecord;
use crate::table::{LevelId, RunHandle, Trees};
use crate::tree::gc::{GcRule, OtherTrees};
use crate::tree::merge::MergeCursor;
use crate::tree::run::merge_source;
use crate::tree::{Cursor, Limits, MergeSource};

use super::core::{Core, Ledger, TableState};
use super::run_writer::RunWriter;

/// Whether the error leaves the database as it was: there was no room or no descriptor, or what the job reads could not
/// be read or is damaged. It may be otherwise the next time; and a damaged block is no reason to take no commits.
pub(super) fn goes_by(error: &Error) -> bool {
    error.kind() == ErrorKind::Full || error.is_of_read() || error.is_unchanged()
}

/// A merge pauses after so many entries of [`PAUSE_BYTES`] at most; a larger one counts as several.
const PAUSE_ENTRIES: u64 = if cfg!(test) { 1 << 8 } else { 1 << 16 };
const PAUSE_BYTES: u64 = 256;

/// A merge under way.
struct Merge<'a> {
    table: &'a TableState,
    target: LevelId,
    /// See [`Compaction::bottom`].
    bottom: bool,
    filter_bits: f64,
    /// All inputs, also those that are gone.
    busy: Vec<FileId>,
    /// Value files whose values are written anew.
    values_anew: Vec<FileId>,
    /// Entries read so far, by source.
    seen: Vec<u64>,
    /// How many entries the inputs had that are done with, by source.
    ended: Vec<u64>,
    /// Entries read, large ones several times, since it was looked last whether there is something more urgent.
    since_pause: u64,
}

impl Core {
    /// Does a compaction: moves the runs, or merges them.
    pub(super) fn carry_out(&self, table: &TableState, compaction: Compaction) -> Result<()> {
        if !compaction.is_trivial_move(&table.options) {
            let anew = self.values_anew(&table.version.load().trees, &compaction)?;
            return self.run_compaction(table, compaction, anew);
        }
        Reached::TrivialMove.mark();
        let moved: Vec<_> = compaction.inputs().cloned().collect();
        self.or_poison(self.install(table, &compaction.removed(), compaction.target, &moved))
    }

    /// Merges runs, and writes the values anew that they have in the value files named. The caller keeps no input open:
    /// its space could not be given back.
    pub(super) fn run_compaction(
        &self,
        table: &TableState,
        compaction: Compaction,
        values_anew: Vec<FileId>,
    ) -> Result<()> {
        let filter_bits = policy::bits_of_compaction(&table.version.load().trees, &table.options, &compaction);
        let _range = table.compacting(&compaction);
        let (slices, busy) = (compaction.slices(&table.options), compaction.removed());
        let (target, bottom) = (compaction.target, compaction.bottom);
        drop(compaction);
        let none = vec![0; slices[0].sources.len()];
        let (seen, ended) = (none.clone(), none);
        let mut merge = Merge { table, target, bottom, filter_bits, busy, values_anew, seen, ended, since_pause: 0 };
        for slice in slices {
            self.health.check_writable()?;
            if table.check().is_err() {
                return Ok(());
            }
            let output = match self.merge_slice(&mut merge, &slice) {
                // It has left nothing behind but slices that are in place, and nothing depends on it.
                Err(error) if goes_by(&error) => return Err(error),
                output => self.or_poison(output)?,
            };
            let Some(output) = output else { return Ok(()) };
            let done: Vec<_> = slice.done.iter().map(|handle| handle.id).collect();
            let installed = self.or_poison(self.install(table, &done, target, &output));
            installed.map_err(|error| self.give_up_output(table, &output, error))?;
            let bytes = |runs: &[RunHandle]| runs.iter().map(|handle| handle.run.meta().bytes).sum();
            self.counters.compaction_read_bytes.fetch_add(bytes(&slice.done), Ordering::Relaxed);
            self.counters.compaction_write_bytes.fetch_add(bytes(&output), Ordering::Relaxed);
            if slice.limits.high.is_some() {
                Reached::Slice.mark();
            }
            drop(slice);
            self.remove_runs(done);
        }
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Merges a slice of the inputs into new runs; nothing refers to them yet. `None` when the table was dropped
    /// meanwhile.
    fn merge_slice(&self, merge: &mut Merge<'_>, slice: &Slice) -> Result<Option<Vec<RunHandle>>> {
        let mut sources: Vec<Box<dyn MergeSource>> = Vec::new();
        for runs in &slice.sources {
            sources.push(merge_source(runs.iter().map(|handle| Arc::clone(&handle.run)).collect()));
        }
        let mut input = MergeCursor::new(sources);
        input.limit(&slice.limits);
        let table = merge.table;
        let (snapshots, published) = self.snapshots.live();
        let trees = Arc::clone(&table.version.load().trees);
        let gc = table.retain(snapshots, published, merge.bottom).with_values(trees.values.clone());
        let below = if merge.bottom { OtherTrees::default() } else { trees.other_trees(&merge.busy) };
        let mut gc = gc.with_range_tombstones(Arc::clone(&trees.range_tombstones)).with_other_trees(below);
        let newest = slice.runs().map(|handle| handle.run.seqnum_bounds().largest).max().unwrap_or_default();
        let cuts = policy::cuts(&trees, merge.target);
        let writer = RunWriter::new(self, &table.options, slice.run_bytes_max, merge.filter_bits).with_cuts(cuts);
        let mut writer = writer.with_values(trees.values.clone(), merge.values_anew.clone());
        writer.clean_to(gc.clean_to(newest));
        drop(trees);
        let seen = match self.feed(merge, slice, &mut input, &mut gc, &mut writer) {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                writer.discard();
                return Ok(None);
            }
            Err(error) => return Err(writer.give_up(error)),
        };
        drop(input);
        let output = writer.finish()?;
        let written: u64 = output.iter().map(|handle| handle.run.meta().entries).sum();
        if !merge.is_whole(slice) || written + gc.dropped() != seen {
            let (dropped, all) = (gc.dropped(), &merge.seen);
            let message = format!(
                "table '{}': a compaction read {seen} entries of a slice, {all:?} in all from each of its trees, dropped {dropped} and \
                 wrote {written}, which is not what there was: run verify",
                table.name
            );
            // Nothing refers to what was written, and the next try writes it again.
            self.remove_new(table, &output);
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        Ok(Some(output))
    }

    /// Takes what is kept of the slice to the writer; says how many entries there were, or nothing when the table was
    /// dropped meanwhile.
    fn feed(
        &self,
        merge: &mut Merge<'_>,
        slice: &Slice,
        input: &mut MergeCursor,
        gc: &mut GcRule,
        writer: &mut RunWriter<'_>,
    ) -> Result<Option<u64>> {
        let mut seen = 0;
        input.seek_ge(&slice.limits.low)?;
        loop {
            let source = input.source();
            let taken = match pass_leaf(input, gc, writer, &slice.limits)? {
                None => pass_entry(input, gc, writer, &slice.limits)?,
                passed => passed,
            };
            let Some(taken) = taken else { break };
            seen += taken.entries;
            merge.seen[source] += taken.entries;
            // A long compaction must not keep a closed or failed database waiting, nor the drop of its table.
            merge.since_pause += taken.effort;
            if merge.since_pause >= PAUSE_ENTRIES {
                merge.since_pause = 0;
                self.health.check_writable()?;
                if merge.table.check().is_err() {
                    return Ok(None);
                }
                if merge.target != LevelId::L0 {
                    self.relieve(merge.table, &merge.busy)?;
                }
            }
        }
        gc.end_key(&mut |entry| writer.push(entry))?;
        Ok(Some(seen))
    }

    /// In a pause of a long compaction: merges the runs that have gathered in L0 meanwhile, of this table and of others
    /// that nobody compacts. It is the one piece of work that a compaction is interrupted for: it is small, and every
    /// read waits for it.
    pub(super) fn relieve(&self, table: &TableState, busy: &[FileId]) -> Result<()> {
        for other in self.all_tables() {
            let is_own = other.id == table.id;
            let latch = if is_own { None } else { other.compaction.try_lock() };
            if (latch.is_none() && !is_own) || !other.compacts_itself() || other.check().is_err() {
                continue;
            }
            if other.compaction_retry.rest(self.env.clock.now()).is_some() {
                continue;
            }
            let busy = if is_own { busy } else { &[] };
            let room = self.room_on_disk()?;
            match self.merge_within_l0(&other, busy, room) {
                // Damage in one table, or in L0 of this one, does not end the compaction of what is sound.
                Err(error) if error.is_of_read() => self.failed_compaction(&other, &error),
                merged => merged?,
            }
        }
        Ok(())
    }

    /// A compaction of the table in the background could not read something: it is told in the statistics, because
    /// there is nobody to tell it to, and tried again later.
    pub(super) fn failed_compaction(&self, table: &TableState, error: &Error) {
        self.counters.failed_compaction(error);
        table.compaction_retry.failed(error, self.env.clock.now());
    }

    /// Merges runs of L0 among themselves while there are too many. The caller holds the table's compaction latch.
    pub(super) fn merge_within_l0(&self, table: &TableState, busy: &[FileId], room: u64) -> Result<()> {
        let merge = || policy::pick_within_l0(&table.version.load().trees, busy, room);
        while let Some(merge) = merge() {
            self.run_compaction(table, merge, Vec::new())?;
        }
        Ok(())
    }

    /// Records in the manifest that runs took the place of others, then shows them to readers instead.
    fn install(&self, table: &TableState, removed: &[FileId], target: LevelId, output: &[RunHandle]) -> Result<()> {
        let mut ledger = self.ledger.lock();
        if table.check().is_err() {
            self.remove_output(output);
            return Ok(());
        }
        let added = output.iter().map(|handle| (target, RunRecord::of(handle)));
        let edit = Edit::Compact { table: table.id, removed: removed.to_vec(), added: added.collect() };
        self.record(&mut ledger, &edit)?;
        self.show_replaced(ledger, table, removed, target, output)?;
        self.rebalance();
        Ok(())
    }

    /// Shows readers trees in which runs were replaced by others, as the manifest says already, without the range
    /// tombstones that nobody needs beside them, and removes the value files to which nothing refers any more.
    pub(super) fn show_replaced(
        &self,
        mut ledger: MutexGuard<'_, Ledger>,
        table: &TableState,
        removed: &[FileId],
        place: LevelId,
        added: &[RunHandle],
    ) -> Result<()> {
        let before = Arc::clone(&table.version.load().trees);
        let mut after = before.replaced(removed, place, added);
        let retired = self.retire(&mut ledger, table, &mut after);
        let values = after.values.clone();
        table.show(after);
        drop(ledger);
        self.remove_values(before.values.without(&values));
        let written: u64 = values.without(&before.values).map(|file| file.bytes()).sum();
        self.counters.compaction_write_bytes.fetch_add(written, Ordering::Relaxed);
        retired
    }
}

/// What a step of a merge has taken from its input.
struct Taken {
    entries: u64,
    /// In entries of [`PAUSE_BYTES`] at most.
    effort: u64,
}

/// Takes the entry in front to the writer, or drops it; `None` where there is none within the limits.
#[inline]
fn pass_entry(
    input: &mut MergeCursor,
    gc: &mut GcRule,
    writer: &mut RunWriter<'_>,
    limits: &Limits,
) -> Result<Option<Taken>> {
    let Some(entry) = input.entry().filter(|entry| !limits.end_before(entry.key)) else { return Ok(None) };
    writer.source(input.is_cached());
    let clean_to = if gc.compares_seqnums() { input.seqnum_bounds().smallest } else { SeqNum::ZERO };
    gc.push_from(clean_to, &entry, &mut |entry| writer.push(entry))?;
    let effort = (u64_of(entry.key.len() + entry.value.len()) / PAUSE_BYTES).max(1);
    input.next()?;
    Ok(Some(Taken { entries: 1, effort }))
}

/// Takes a whole leaf to the writer as it is, if it is in front, nothing of it is to be changed, and no other input has
/// a key within it.
#[inline]
fn pass_leaf(
    input: &mut MergeCursor,
    gc: &mut GcRule,
    writer: &mut RunWriter<'_>,
    limits: &Limits,
) -> Result<Option<Taken>> {
    let Some(leaf) = input.whole_leaf().filter(|leaf| leaf.block.is_plain()) else { return Ok(None) };
    let (first, last) = leaf.ends();
    if limits.end_before(&last) || !gc.lets_pass(&first) || !writer.takes_leaf(leaf.block, &last) {
        return Ok(None);
    }
    let entries = u64_of(leaf.block.count());
    let effort = entries.max(u64_of(leaf.block.bytes_written().len()) / PAUSE_BYTES);
    gc.pass((entries, &last), &mut |entry| writer.push(entry))?;
    writer.source(leaf.is_cached);
    writer.push_leaf(leaf, (&first, &last))?;
    input.skip_leaf()?;
    Ok(Some(Taken { entries, effort }))
}

impl Merge<'_> {
    /// Whether all entries were read that end with a slice, from each of the sources.
    fn is_whole(&mut self, slice: &Slice) -> bool {
        let sources = slice.sources.iter().zip(&self.seen).zip(&mut self.ended);
        sources.fold(true, |whole, ((runs, seen), ended)| {
            let here = runs.iter().filter(|handle| slice.ends(handle));
            *ended += here.map(|handle| handle.run.meta().entries).sum::<u64>();
            let goes_on = runs.last().is_some_and(|handle| !slice.ends(handle));
            whole && (*seen == *ended || goes_on && *seen > *ended)
        })
    }
}

/// What a compaction merges into a level is known while this is.
struct Compacting<'a>(&'a TableState);

impl Drop for Compacting<'_> {
    fn drop(&mut self) {
        *self.0.compacting.lock() = None;
    }
}

impl TableState {
    /// Tells where the results of a compaction into a level will lie. Of one within L0, which may come in a pause of
    /// another, nobody needs to know: runs of L0 may overlap, and hold no key that the inputs do not hold.
    fn compacting(&self, compaction: &Compaction) -> Option<Compacting<'_>> {
        let (low, high) = compaction.range().filter(|_| compaction.target != LevelId::L0)?;
        *self.compacting.lock() = Some((low.to_vec(), high.to_vec()));
        Some(Compacting(self))
    }

    /// Shows readers other trees. The caller holds the ledger.
    pub(crate) fn show(&self, trees: Trees) {
        let trees = Arc::new(trees);
        self.version.rcu(|version| version.with_trees(&trees, &[], SeqNum::ZERO));
    }
}
