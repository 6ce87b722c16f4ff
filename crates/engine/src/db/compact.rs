//! The compaction: runs are merged into fewer, as the table's layout wants it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::sync::MutexGuard;

use crate::base::{Error, ErrorKind, FileId, Reached, Result, SeqNum};
use crate::table::catalog::RunRecord;
use crate::table::edit::Edit;
use crate::table::policy::{self, Compaction, Job};
use crate::table::version::LEVELS;
use crate::table::{Place, RunHandle, Trees};
use crate::tree::Cursor;
use crate::tree::merge::MergeCursor;
use crate::tree::retain::Retain;
use crate::tree::run::merge_source;

use super::core::{Core, Ledger, TableState};
use super::run_writer::RunWriter;

/// What came of looking for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// One is done.
    Done,
    /// None is due.
    Nothing,
    /// One is due, and this many bytes of free space are missing for it.
    NoRoom(u64),
}

/// Whether the error leaves the database as it was: there was no room, or what is there could not be read or is damaged. It may be otherwise
/// the next time; and a damaged block is no reason to take no commits.
pub(super) fn goes_by(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Full | ErrorKind::Corruption) || error.is_of_read()
}

impl Core {
    /// Does the next compaction that the table's layout wants.
    pub(crate) fn compact_step(&self, table: &Arc<TableState>) -> Result<Step> {
        let _compacting = table.compaction.lock();
        self.health.check_writable()?;
        if table.check().is_err() || !table.compacts_itself() {
            return Ok(Step::Nothing);
        }
        if self.drop_erased(table)? {
            return Ok(Step::Done);
        }
        let trees = Arc::clone(&table.version.load().trees);
        let absorbed = self.absorb_step(table, &trees)?;
        if absorbed == Step::Done {
            return Ok(absorbed);
        }
        let wanted = policy::pick(&trees, &table.options, u64::MAX);
        let Some(wanted) = wanted.or_else(|| policy::pick_erased(&trees, self.oldest_snapshot())) else {
            let reclaimed = self.reclaim_step(table, policy::LIVE_PERCENT)?;
            return Ok(if reclaimed == Step::Nothing { absorbed } else { reclaimed });
        };
        let (needs, room) = (wanted.needs(&table.options), self.room_on_disk()?);
        let fitting = if needs <= room { Some(wanted) } else { policy::pick(&trees, &table.options, room) };
        match fitting {
            Some(compaction) => self.carry_out(table, &compaction).map(|()| Step::Done),
            None => Ok(Step::NoRoom(needs - room)),
        }
    }

    /// Does the next job that the table's reads have paid for; false when there is none, and while compactions are behind.
    pub(crate) fn paid_step(&self, table: &Arc<TableState>) -> Result<bool> {
        let compacting = table.compaction.lock();
        self.health.check_writable()?;
        let version = table.version.load_full();
        if table.check().is_err()
            || !table.compacts_itself()
            || !version.immutables.is_empty()
            || self.memory.is_pressed()
        {
            return Ok(false);
        }
        let in_memory = version.active.entries.entries();
        let account = table.savings.settle(in_memory);
        if account.is_empty() {
            return Ok(false);
        }
        let room = self.room_on_disk()?;
        let Some(paid) = policy::pick_paid(&version.trees, &table.options, room, in_memory, &account) else {
            return Ok(false);
        };
        match &paid.job {
            Job::Merge(compaction) => self.carry_out(table, compaction)?,
            Job::Absorb => {
                if !self.absorb(table)? {
                    return Ok(false);
                }
            }
            Job::Flush => {
                // Who drops a table waits for the compaction with the flush gate in hand.
                drop(compacting);
                self.rotate(&mut self.commit.lock(), table);
                self.flush(table)?;
            }
        }
        table.savings.spend(&paid);
        Ok(true)
    }

    /// Bytes of free space that a compaction may take: what flushes and the log need stays.
    pub(super) fn room_on_disk(&self) -> Result<u64> {
        let free = self.env.fs.free_bytes(&self.dir).map_err(|error| Error::io("measure", &self.dir, error))?;
        Ok(free.saturating_sub(self.memory.memtable_bytes() + 2 * self.options.log_segment_bytes))
    }

    /// Refuses a compaction asked for by hand that does not fit the free space.
    fn check_room(&self, table: &TableState, compaction: &Compaction) -> Result<()> {
        let (needs, room) = (compaction.needs(&table.options), self.room_on_disk()?);
        if needs <= room {
            return Ok(());
        }
        let message = format!(
            "table '{}': the compaction needs {needs} bytes of free space, and {room} are there beside what flushes and the log need: \
             free {} bytes, or compact a level at a time",
            table.name,
            needs - room
        );
        Err(Error::new(ErrorKind::Full, message))
    }

    /// Merges all of a level into the next one below it; L0 is number 0.
    pub(crate) fn compact_level(&self, table: &Arc<TableState>, number: usize) -> Result<()> {
        self.health.check_writable()?;
        if table.btree().is_some() {
            let message =
                format!("table '{}' is a B-tree, into which all runs go at once: compact all of it", table.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if number > LEVELS {
            return Err(Error::invalid(format!("there is no level {number}: the last one is {LEVELS}")));
        }
        let compacting = table.compaction.lock();
        table.check()?;
        self.drop_erased(table)?;
        let trees = Arc::clone(&table.version.load().trees);
        let done = match policy::pick_level(&trees, &table.options, number) {
            Some(compaction) => self.check_room(table, &compaction).and_then(|()| self.carry_out(table, &compaction)),
            None => Ok(()),
        };
        drop(compacting);
        // The level below may be over its target now.
        self.wake_compact();
        done
    }

    /// Lets no compaction of the table begin by itself, and returns when none runs any more; or lets them go on.
    pub(crate) fn hold(&self, table: &Arc<TableState>, hold: bool) {
        table.held.store(hold, Ordering::Relaxed);
        if hold {
            // Whoever takes the latch after this sees the flag.
            drop(table.compaction.lock());
        }
        self.rebalance();
        self.wake_compact();
    }

    /// Flushes, then merges all trees of the table into one, and empties value files that are not full of live values.
    pub(crate) fn compact_all(&self, table: &Arc<TableState>) -> Result<()> {
        self.flush_all(table)?;
        if let Some(btree) = table.btree() {
            return self.absorb_all(table, &btree, true);
        }
        let _compacting = table.compaction.lock();
        table.check()?;
        self.drop_erased(table)?;
        let trees = Arc::clone(&table.version.load().trees);
        if let Some(compaction) = policy::pick_all(&trees, table.filter.is_registered()) {
            self.check_room(table, &compaction)?;
            let anew = self.values_anew(&trees, &compaction)?;
            self.run_compaction(table, &compaction, anew)?;
        }
        self.reclaim_all(table)
    }

    fn carry_out(&self, table: &TableState, compaction: &Compaction) -> Result<()> {
        if !compaction.is_trivial_move(&table.options) {
            let anew = self.values_anew(&table.version.load().trees, compaction)?;
            return self.run_compaction(table, compaction, anew);
        }
        Reached::TrivialMove.mark();
        let moved = compaction.inputs().cloned().collect();
        self.or_poison(self.install_compaction(table, compaction, moved))
    }

    /// Merges runs, and writes the values anew that they have in the value files named.
    pub(super) fn run_compaction(
        &self,
        table: &TableState,
        compaction: &Compaction,
        values_anew: Vec<FileId>,
    ) -> Result<()> {
        let merged = match self.merge_runs(table, compaction, values_anew) {
            // It has left nothing behind, and nothing depends on it.
            Err(error) if goes_by(&error) => return Err(error),
            merged => self.or_poison(merged)?,
        };
        let Some(merged) = merged else { return Ok(()) };
        let read: u64 = compaction.inputs().map(|handle| handle.run.meta().bytes).sum();
        let written: u64 = merged.iter().map(|handle| handle.run.meta().bytes).sum();
        self.or_poison(self.install_compaction(table, compaction, merged))?;
        self.remove_runs(compaction.inputs().cloned());
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.counters.compaction_read_bytes.fetch_add(read, Ordering::Relaxed);
        self.counters.compaction_write_bytes.fetch_add(written, Ordering::Relaxed);
        Ok(())
    }

    /// Merges the inputs into new runs; nothing refers to them yet. `None` when the table was dropped meanwhile.
    fn merge_runs(
        &self,
        table: &TableState,
        compaction: &Compaction,
        values_anew: Vec<FileId>,
    ) -> Result<Option<Vec<RunHandle>>> {
        let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
        for handle in &compaction.l0 {
            sources.push(merge_source(Arc::from([Arc::clone(&handle.run)])));
        }
        for (_, runs) in &compaction.levels {
            sources.push(merge_source(runs.iter().map(|handle| Arc::clone(&handle.run)).collect()));
        }
        let mut input = MergeCursor::new(sources);
        let (snapshots, published) = self.snapshots.live();
        let trees = Arc::clone(&table.version.load().trees);
        let retain = table.retain(snapshots, published, compaction.bottom).reading(trees.values.clone());
        let mut retain = retain.erasing(Arc::clone(&trees.erasures));
        let newest = compaction.inputs().map(|handle| handle.run.ages().most).max().unwrap_or_default();
        let run_bytes_max = if compaction.target == Place::L0 { u64::MAX } else { table.options.run_bytes_max };
        let filter_bits = policy::bits_of_compaction(&trees, &table.options, compaction);
        let cuts = policy::cuts(&trees, compaction.target);
        let writer = RunWriter::new(self, &table.options, run_bytes_max, filter_bits).with_cuts(cuts);
        let mut writer = writer.with_values(trees.values.clone(), values_anew);
        writer.clean_to(retain.clean_to(newest));
        drop(trees);
        let seen = match self.feed(table, compaction, &mut input, &mut retain, &mut writer) {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                writer.discard();
                return Ok(None);
            }
            Err(error) => return Err(writer.give_up(error)),
        };
        let output = writer.finish()?;
        let expected: u64 = compaction.inputs().map(|handle| handle.run.meta().entries).sum();
        let written: u64 = output.iter().map(|handle| handle.run.meta().entries).sum();
        if seen != expected || written + retain.dropped() != seen {
            let message = format!(
                "table '{}': a compaction read {seen} of {expected} entries, dropped {} and wrote {written}: run verify",
                table.name,
                retain.dropped()
            );
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        Ok(Some(output))
    }

    /// Takes what is kept of the input to the writer; says how many entries there were, or nothing when the table was dropped meanwhile.
    fn feed(
        &self,
        table: &TableState,
        compaction: &Compaction,
        input: &mut MergeCursor,
        retain: &mut Retain,
        writer: &mut RunWriter<'_>,
    ) -> Result<Option<u64>> {
        let mut seen = 0u64;
        input.first()?;
        while let Some(entry) = input.entry() {
            seen += 1;
            writer.source(input.is_cached());
            let clean_to = if retain.compares_ages() { input.ages().least } else { SeqNum::ZERO };
            retain.push_from(clean_to, &entry, &mut |entry| writer.push(entry))?;
            // A long compaction must not keep a closed or failed database waiting, nor the drop of its table.
            if seen.is_multiple_of(1 << 16) {
                self.health.check_writable()?;
                if table.check().is_err() {
                    return Ok(None);
                }
                if compaction.target != Place::L0 {
                    self.relieve(table, &compaction.removed())?;
                }
            }
            input.next()?;
        }
        retain.end_key(&mut |entry| writer.push(entry))?;
        Ok(Some(seen))
    }

    /// In a pause of a long compaction: merges the runs that have gathered in L0 meanwhile, of this table and of others that nobody
    /// compacts. It is the one piece of work that a compaction is interrupted for: it is small, and every read waits for it.
    pub(super) fn relieve(&self, table: &TableState, busy: &[FileId]) -> Result<()> {
        for other in self.all_tables() {
            let is_own = other.id == table.id;
            let latch = if is_own { None } else { other.compaction.try_lock() };
            if (latch.is_none() && !is_own) || !other.compacts_itself() || other.check().is_err() {
                continue;
            }
            let busy = if is_own { busy } else { &[] };
            let room = self.room_on_disk()?;
            let merge = || policy::pick_within_l0(&other.version.load().trees, busy, room);
            while let Some(merge) = merge() {
                self.run_compaction(&other, &merge, Vec::new())?;
            }
        }
        Ok(())
    }

    /// Records the compaction in the manifest, then shows readers the result instead of the inputs.
    fn install_compaction(&self, table: &TableState, compaction: &Compaction, output: Vec<RunHandle>) -> Result<()> {
        let mut ledger = self.ledger.lock();
        if table.check().is_err() {
            self.remove_output(&output);
            return Ok(());
        }
        let removed = compaction.removed();
        let added = output.iter().map(|handle| (compaction.target, RunRecord::of(handle)));
        let edit = Edit::Compact { table: table.id, removed: removed.clone(), added: added.collect() };
        self.record(&mut ledger, &edit)?;
        self.show_replaced(ledger, table, &removed, compaction.target, &output)?;
        self.rebalance();
        Ok(())
    }

    /// Shows readers trees in which runs were replaced by others, as the manifest says already, without the erasures that nobody needs
    /// beside them, and removes the value files to which nothing refers any more.
    pub(super) fn show_replaced(
        &self,
        mut ledger: MutexGuard<'_, Ledger>,
        table: &TableState,
        removed: &[FileId],
        place: Place,
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

impl TableState {
    /// Shows readers other trees. The caller holds the ledger.
    pub(crate) fn show(&self, trees: Trees) {
        let trees = Arc::new(trees);
        self.version.rcu(|version| {
            let in_memory = SeqNum(version.trees.erasures.newest().0 + 1);
            version.with_trees(&trees, &[], in_memory)
        });
    }
}
