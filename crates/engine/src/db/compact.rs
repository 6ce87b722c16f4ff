//! The compaction: which runs are merged into fewer, as the table's layout, its readers or its user want it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{Error, ErrorKind, FileId, Reached, Result};
use crate::table::LEVELS;
use crate::table::files;
use crate::table::policy::{self, Job, MemtableLoad, ReadTriggered};

use super::core::{Core, TableState};

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

/// A job that reads have paid for, and is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Flush,
    Other,
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
        let absorbed = self.absorb_step(table)?;
        if absorbed == Step::Done {
            return Ok(absorbed);
        }
        match self.compact_runs(table) {
            Ok(Step::Nothing) => Ok(absorbed),
            Err(error) if error.is_of_read() => {
                // Until it can be done, the runs that gather over what is damaged are merged with each other, so that
                // reads search few.
                let damaged: Vec<_> = error.place().and_then(|(file, _)| file_id(file)).into_iter().collect();
                let room = self.room_on_disk()?;
                self.merge_within_l0(table, &damaged, room)?;
                Err(error)
            }
            compacted => compacted,
        }
    }

    /// Does the next compaction of runs that the table's layout wants, or empties value files. The caller holds the
    /// table's compaction latch.
    fn compact_runs(&self, table: &Arc<TableState>) -> Result<Step> {
        let trees = Arc::clone(&table.version.load().trees);
        let oldest = self.oldest_snapshot();
        if policy::has_unseen_tombstones(&trees, oldest) {
            self.erasures_wait.store(true, Ordering::Relaxed);
        }
        let wanted = policy::pick(&trees, &table.options, u64::MAX);
        let wanted = wanted.or_else(|| policy::pick_dead(&trees, &table.options, oldest));
        let Some(wanted) = wanted.or_else(|| policy::pick_range_deleted(&trees, oldest)) else {
            return self.reclaim_step(table, policy::LIVE_PERCENT);
        };
        let needs = wanted.needs(&table.options);
        let room = self.room_for(needs, wanted.bytes())?;
        let fitting = if needs <= room {
            Some(wanted)
        } else {
            drop(wanted);
            let smaller = policy::pick(&trees, &table.options, room);
            let dead = || policy::pick_dead(&trees, &table.options, oldest);
            smaller.or_else(|| dead().filter(|dead| self.fits(dead.needs(&table.options), dead.bytes())))
        };
        match fitting {
            Some(compaction) => {
                drop(trees);
                self.carry_out(table, compaction).map(|()| Step::Done)
            }
            None => Ok(Step::NoRoom(needs - room)),
        }
    }

    /// Does the next job that the table's reads have paid for; false when there is none, and while a flush of the table
    /// waits.
    pub(crate) fn paid_step(&self, table: &Arc<TableState>) -> Result<bool> {
        match self.paid_job(table, true)? {
            // What is merged with it is paid for too, and comes before there is something in memory again.
            Some(Done::Flush) => self.paid_job(table, false).map(|_| true),
            done => Ok(done.is_some()),
        }
    }

    /// As [`Self::paid_step`], with regard to what the table has in memory or without.
    fn paid_job(&self, table: &Arc<TableState>, with_memory: bool) -> Result<Option<Done>> {
        let compacting = table.compaction.lock();
        self.health.check_writable()?;
        let version = table.version.load_full();
        if table.check().is_err() || !version.immutables.is_empty() {
            return Ok(None);
        }
        let active = &version.active;
        let entries = active.entries.entries();
        let mut account = table.savings.settle(entries, |low, high| active.entries.holds(low, high));
        if account.is_empty() {
            return Ok(None);
        }
        let mut memory = MemtableLoad::default();
        if with_memory {
            memory = MemtableLoad { entries, is_small: active.is_small() };
            account.look_in_memory(|low, high| active.entries.holds(low, Some(high)));
        }
        let wanted = match table.compacts_itself() {
            true => {
                let limits = (self.room_on_disk()?, self.oldest_snapshot());
                policy::pick_read_triggered(&version.trees, &table.options, limits, memory, &account)
            }
            false => None,
        };
        let view = || policy::pick_view(&version.trees, version.view.as_ref(), self.cache.reservable_bytes(), &account);
        let can_be_made = |paid: &ReadTriggered| !matches!(&paid.job, Job::View(viewable) if viewable.ids == *table.unviewable.lock());
        let wanted = wanted.or_else(|| view().filter(can_be_made));
        let Some(ReadTriggered { job, cost: price }) = wanted else { return Ok(None) };
        drop(version);
        let mut done = Done::Other;
        let is_done = match job {
            Job::View(viewable) => self.view(table, &viewable)?,
            Job::Merge(compaction) => {
                self.carry_out(table, compaction)?;
                Reached::ReadTriggeredMerge.mark();
                true
            }
            Job::BTreeMerge { rewrite } => self.absorb(table, rewrite)?,
            Job::Flush => {
                // The drop of a table waits for the compaction while it holds the flush gate.
                drop(compacting);
                self.rotate(&mut self.commit.lock(), table);
                self.flush(table)?;
                done = Done::Flush;
                true
            }
            Job::Forget => true,
        };
        if !is_done {
            return Ok(None);
        }
        table.savings.spend(&price);
        Ok(Some(done))
    }

    /// Bytes of free space that a compaction may take: what flushes and the log need stays.
    pub(super) fn room_on_disk(&self) -> Result<u64> {
        let free = self.env.fs.free_bytes(&self.dir).map_err(|error| Error::io("measure", &self.dir, error))?;
        Ok(free.saturating_sub(self.memory.memtable_bytes() + 2 * self.options.log_segment_bytes))
    }

    /// As [`Self::room_on_disk`], for a merge of so many bytes. One that writes less than half of that gives more space
    /// back than the rest needs, and may take all.
    pub(super) fn room_for(&self, needs: u64, inputs: u64) -> Result<u64> {
        if needs > inputs / 2 {
            return self.room_on_disk();
        }
        self.env.fs.free_bytes(&self.dir).map_err(|error| Error::io("measure", &self.dir, error))
    }

    fn fits(&self, needs: u64, inputs: u64) -> bool {
        self.room_for(needs, inputs).is_ok_and(|room| needs <= room)
    }

    /// Refuses a compaction of so many bytes asked for by hand that does not fit the free space.
    pub(super) fn check_room(&self, table: &TableState, (needs, inputs): (u64, u64), otherwise: &str) -> Result<()> {
        let room = self.room_for(needs, inputs)?;
        if needs <= room {
            return Ok(());
        }
        let message = format!(
            "table '{}': the compaction needs {needs} bytes of free space, and {room} are there beside what flushes and the log need: \
             free {} bytes{otherwise}",
            table.name,
            needs - room
        );
        Err(Error::new(ErrorKind::Full, message))
    }

    /// Merges all of a level into the next one below it; L0 is number 0.
    pub(crate) fn compact_level(&self, table: &Arc<TableState>, number: usize) -> Result<()> {
        self.check_writable()?;
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
        let wanted = policy::pick_level(&trees, &table.options, number);
        drop(trees);
        let done = match wanted {
            Some(compaction) => {
                let needs = compaction.needs(&table.options);
                let checked = self.check_room(table, (needs, compaction.bytes()), "");
                checked.and_then(|()| self.carry_out(table, compaction))
            }
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
            // A compaction that takes the latch after this sees the flag.
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
            let needs = compaction.needs(&table.options);
            self.check_room(table, (needs, compaction.bytes()), ", or compact a level at a time")?;
            let anew = self.values_anew(&trees, &compaction)?;
            drop(trees);
            self.run_compaction(table, compaction, anew)?;
        }
        self.reclaim_all(table)
    }
}

/// The file of the database that a path names.
fn file_id(path: &Path) -> Option<FileId> {
    files::parse(path.file_name()?.to_str()?).map(|(_, id)| id)
}
