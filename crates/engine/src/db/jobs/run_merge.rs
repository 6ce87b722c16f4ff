//! The merge of runs, carried out slice by slice: the result of a slice takes the place of its inputs as soon as it is
//! durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::num::u64_of;
use crate::base::trace::span;
use crate::base::{CoveragePoint, Error, ErrorKind, FileId, Result, SeqNum};
use crate::db::state::State;
use crate::db::state::counters::Work;
use crate::db::state::events::Event;
use crate::db::state::table::TableState;
use crate::table::policy::{self, Compaction, Slice};
use crate::table::{LevelId, RunHandle};
use crate::tree::gc::{GcRule, OtherTrees};
use crate::tree::merge::MergeCursor;
use crate::tree::run::merge_source;
use crate::tree::{Cursor, Limits, MergeSource};

use super::install::{TreeChange, install};
use super::job::{Job, JobContext, Needs, Step, leaves_unchanged, repeat, settle};
use super::output::run_writer::RunWriter;

/// A merge pauses after this number of entries of [`PAUSE_BYTES`] at most; a larger one counts as several.
const PAUSE_ENTRIES: u64 = if cfg!(test) { 1 << 8 } else { 1 << 16 };
const PAUSE_BYTES: u64 = 256;

/// The merge of some runs of a table into others.
pub(crate) struct RunMerge<'a> {
    table: &'a TableState,
    compaction: Compaction,
    needs: Needs,
    /// Value files whose values are written anew where the merge meets them.
    relocated: Vec<FileId>,
    /// Whether runs that nothing is merged with are moved as they are.
    may_move: bool,
}

impl<'a> RunMerge<'a> {
    /// A compaction as the policy wants it.
    pub(super) fn new(context: JobContext<'_>, table: &'a TableState, compaction: Compaction) -> Result<Self> {
        let is_move = compaction.is_trivial_move(&table.options);
        Ok(if is_move {
            Self { may_move: true, ..Self::keeping_values(table, compaction) }
        } else {
            Self::rewriting(context, table, compaction)?
        })
    }

    /// A compaction that reads and writes its inputs, and also empties value files that are mostly dead, if the free
    /// space is enough for that too.
    pub(super) fn rewriting(context: JobContext<'_>, table: &'a TableState, compaction: Compaction) -> Result<Self> {
        let mut relocated = policy::emptied(&table.trees(), policy::LIVE_PERCENT);
        if !relocated.is_empty() {
            let needs = compaction.bytes() + policy::moved_bytes(&compaction, &relocated);
            if needs > context.throttle.space_for_jobs()? {
                relocated.clear();
            }
        }
        Ok(Self { relocated, ..Self::keeping_values(table, compaction) })
    }

    /// A compaction that empties these value files.
    pub(super) fn relocating(table: &'a TableState, compaction: Compaction, relocated: Vec<FileId>) -> Self {
        // The files that it empties are not among the inputs that it removes.
        let needs = Needs { free: compaction.bytes() + policy::moved_bytes(&compaction, &relocated), inputs: 0 };
        Self { needs, relocated, ..Self::keeping_values(table, compaction) }
    }

    /// A compaction that leaves values where they are.
    pub(crate) fn keeping_values(table: &'a TableState, compaction: Compaction) -> Self {
        let needs = Needs { free: compaction.needs(&table.options), inputs: compaction.bytes() };
        Self { table, compaction, needs, relocated: Vec::new(), may_move: false }
    }

    /// Moves the runs as they are.
    fn move_runs(self, JobContext { state, throttle }: JobContext<'_>) -> Result<Step> {
        CoveragePoint::TrivialMove.mark();
        let Self { table, compaction, .. } = self;
        let added: Vec<_> = compaction.inputs().cloned().collect();
        let change =
            TreeChange { removed: compaction.removed(), added, target: compaction.target, ..TreeChange::none() };
        let Some(installed) = state.or_poison(install(state, table, change))? else { return Ok(Step::Dropped) };
        throttle.trees_changed();
        Ok(Step::Done(installed.progress))
    }
}

impl Job for RunMerge<'_> {
    fn needs(&self) -> Needs {
        self.needs
    }

    fn run(self, context: JobContext<'_>) -> Result<Step> {
        let JobContext { state, throttle } = context;
        if self.may_move {
            return self.move_runs(context);
        }
        let Self { table, compaction, relocated, .. } = self;
        span!("compaction", table = &*table.name);
        let filter_bits = policy::bits_of_compaction(&table.trees(), &table.options, &compaction);
        let _range = Target::announce(table, &compaction);
        let (slices, busy) = (compaction.slices(&table.options), compaction.removed());
        let (target, bottom) = (compaction.target, compaction.bottom);
        let own = compaction.runs_of_target();
        let (start, mut work) = (state.env.clock.now(), Work { jobs: 1, ..Work::default() });
        drop(compaction);
        let none = vec![0; slices[0].sources.len()];
        let (seen, ended) = (none.clone(), none);
        let mut merge =
            Merge { context, table, target, bottom, filter_bits, busy, relocated, seen, ended, since_pause: 0 };
        let mut progress = None;
        for slice in slices {
            state.health.check_writable()?;
            if table.check().is_err() {
                return Ok(Step::Dropped);
            }
            let Some(added) = settle(state, merge.run_slice(&slice))? else { return Ok(Step::Dropped) };
            let removed: Vec<_> = slice.done.iter().map(|handle| handle.id).collect();
            let bytes = |runs: &[RunHandle]| runs.iter().map(|handle| handle.run.meta().bytes).sum::<u64>();
            let (read, written) = (bytes(&slice.done), bytes(&added));
            let own: Vec<_> = slice.done.iter().filter(|handle| own.contains(&handle.id)).cloned().collect();
            let rewritten = bytes(&own);
            let change = TreeChange { removed: removed.clone(), added, target, ..TreeChange::none() };
            let Some(installed) = state.or_poison(install(state, table, change))? else { return Ok(Step::Dropped) };
            throttle.trees_changed();
            progress = Some(installed.progress);
            let value_bytes = installed.value_bytes;
            state.counters.compactions.read_bytes.fetch_add(read, Ordering::Relaxed);
            state.counters.compactions.written_bytes.fetch_add(written + value_bytes, Ordering::Relaxed);
            work.read_bytes += read - rewritten;
            work.rewritten_bytes += rewritten;
            work.written_bytes += written + value_bytes;
            if slice.limits.high.is_some() {
                CoveragePoint::Slice.mark();
            }
            drop(slice);
            state.files.remove_runs(removed);
        }
        state.counters.compactions.count.fetch_add(1, Ordering::Relaxed);
        work.duration = state.env.clock.now().saturating_sub(start);
        state.counters.work.level(target).add(work);
        let Work { read_bytes, rewritten_bytes, written_bytes, duration, .. } = work;
        let (table, level, read_bytes) = (&*table.name, target.number(), read_bytes + rewritten_bytes);
        state.counters.events.tell(&Event::Compacted { table, level, read_bytes, written_bytes, duration });
        Ok(progress.map_or(Step::Nothing, Step::Done))
    }
}

/// A merge under way.
struct Merge<'a> {
    context: JobContext<'a>,
    table: &'a TableState,
    target: LevelId,
    /// See [`Compaction::bottom`].
    bottom: bool,
    filter_bits: f64,
    /// All inputs, also those that are gone.
    busy: Vec<FileId>,
    relocated: Vec<FileId>,
    /// Entries read so far, by source.
    seen: Vec<u64>,
    /// The number of entries of the inputs that are done with, by source.
    ended: Vec<u64>,
    /// Entries read, large ones several times, since it was looked last whether there is something more urgent.
    since_pause: u64,
}

impl Merge<'_> {
    /// Merges a slice of the inputs into new runs; nothing refers to them yet. `None` when the table was dropped
    /// meanwhile.
    fn run_slice(&mut self, slice: &Slice) -> Result<Option<Vec<RunHandle>>> {
        let mut sources: Vec<Box<dyn MergeSource>> = Vec::new();
        for runs in &slice.sources {
            sources.push(merge_source(runs.iter().map(|handle| Arc::clone(&handle.run)).collect()));
        }
        let mut input = MergeCursor::new(sources);
        input.limit(&slice.limits);
        let JobContext { state, .. } = self.context;
        let table = self.table;
        let (snapshots, published) = state.snapshots.live();
        let trees = table.trees();
        let gc = table.gc_rule(snapshots, published, self.bottom).with_values(trees.values.clone());
        let below = if self.bottom { OtherTrees::default() } else { trees.other_trees(&self.busy) };
        let mut gc = gc.with_range_tombstones(Arc::clone(&trees.range_tombstones)).with_other_trees(below);
        let newest = slice.runs().map(|handle| handle.run.seqnum_bounds().largest).max().unwrap_or_default();
        let cuts = policy::cuts(&trees, self.target);
        let writer = RunWriter::new(state, &table.options, slice.run_bytes_max, self.filter_bits).with_cuts(cuts);
        let mut writer = writer.with_values(trees.values.clone(), self.relocated.clone());
        writer.clean_to(gc.clean_to(newest));
        drop(trees);
        let seen = match self.feed(slice, &mut input, &mut gc, &mut writer) {
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
        if !self.is_whole(slice) || written + gc.dropped() != seen {
            let (dropped, all) = (gc.dropped(), &self.seen);
            let message = format!(
                "table '{}': a compaction read {seen} entries of a slice, {all:?} in all from each of its trees, dropped {dropped} and \
                 wrote {written}, which is not what there was: run verify",
                table.name
            );
            // Nothing refers to what was written, and the next try writes it again.
            state.files.remove_new(&output, &table.trees().values);
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        Ok(Some(output))
    }

    /// Takes what is kept of the slice to the writer; says how many entries there were, or nothing when the table was
    /// dropped meanwhile.
    fn feed(
        &mut self,
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
            self.seen[source] += taken.entries;
            // A long compaction must not keep a closed or failed database waiting, nor the drop of its table.
            self.since_pause += taken.effort;
            if self.since_pause >= PAUSE_ENTRIES {
                self.since_pause = 0;
                self.context.state.health.check_writable()?;
                if self.table.check().is_err() {
                    return Ok(None);
                }
                if self.target != LevelId::L0 {
                    relieve_l0(self.context, self.table, &self.busy)?;
                }
            }
        }
        gc.end_key(&mut |entry| writer.push(entry))?;
        Ok(Some(seen))
    }

    /// Whether as many entries were read from each source as its runs have that end with this slice.
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

/// In a pause of a long job: merges the runs that have gathered in L0 meanwhile, of this table, where `busy` are the
/// inputs of the job, and of others that no thread compacts. It is the one piece of work that a job is interrupted for:
/// it is small, and every read waits for it.
pub(crate) fn relieve_l0(context: JobContext<'_>, table: &TableState, busy: &[FileId]) -> Result<()> {
    for other in context.state.tables.all() {
        let is_own = other.id == table.id;
        let latch = if is_own { None } else { other.compaction.latch.try_lock() };
        if (latch.is_none() && !is_own) || !other.compacts_itself() || other.check().is_err() {
            continue;
        }
        if other.compaction.retry.rest(context.state.env.clock.now()).is_some() {
            continue;
        }
        let busy = if is_own { busy } else { &[] };
        match merge_within_l0(context, &other, busy) {
            // Damage in one table, or in L0 of this one, does not end the compaction of what is sound.
            Err(error) if error.is_of_read() => note_failure(context.state, &other, &error),
            // Neither does a lack of space for another table: its own compaction tells of it.
            Err(error) if !is_own && leaves_unchanged(&error) => {}
            merged => merged?,
        }
    }
    Ok(())
}

/// Merges runs of L0 among themselves while there are too many. The caller holds the table's compaction latch.
pub(super) fn merge_within_l0(context: JobContext<'_>, table: &TableState, busy: &[FileId]) -> Result<()> {
    let space = context.throttle.space_for_jobs()?;
    let step = || match policy::pick_within_l0(&table.trees(), busy, space) {
        Some(compaction) => RunMerge::keeping_values(table, compaction).run(context),
        None => Ok(Step::Nothing),
    };
    repeat(step).map(drop)
}

/// A compaction of the table in the background could not read something: it is told in the statistics, because there is
/// no caller to tell it to, and tried again later.
pub(super) fn note_failure(state: &State, table: &TableState, error: &Error) {
    state.counters.compaction_failed(error);
    table.compaction.retry.failed(error, state.env.clock.now());
}

/// Where the results of a compaction into a level will lie. It is known to bulk loads as long as this value lives.
struct Target<'a>(&'a TableState);

impl<'a> Target<'a> {
    /// Tells where the results of a compaction into a level will lie. Of one within L0, which may come in a pause of
    /// another, no thread needs to know: runs of L0 may overlap, and hold no key that the inputs do not hold.
    fn announce(table: &'a TableState, compaction: &Compaction) -> Option<Self> {
        let (low, high) = compaction.range().filter(|_| compaction.target != LevelId::L0)?;
        *table.compaction.target_range.lock() = Some((low.to_vec(), high.to_vec()));
        Some(Self(table))
    }
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        *self.0.compaction.target_range.lock() = None;
    }
}
