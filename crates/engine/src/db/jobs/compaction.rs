//! Which trees are merged into fewer, as the table's layout, its readers or its user want it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::base::{CoveragePoint, Error, ErrorKind, FileId, Result};
use crate::db::state::State;
use crate::db::state::table::TableState;
use crate::db::throttle::Throttle;
use crate::db::throttle::stall_queue::LOOK_FOR_SPACE;
use crate::env::Next;
use crate::table::LEVELS;
use crate::table::files;
use crate::table::policy::{self, MemtableLoad, ReadTriggered};

use super::btree_merge::{BTreeMerge, merge_step};
use super::flusher::Flusher;
use super::job::{Job, JobContext, Step, repeat};
use super::range_deletes::DropRuns;
use super::run_merge::{RunMerge, merge_within_l0, note_failure};
use super::schedule::{self, CompactionSchedule};
use super::sorted_view::MakeView;
use super::value_gc::{collect_all, collect_step};

/// Compacts the tables of a database.
#[derive(Debug)]
pub(crate) struct Compactor {
    state: Arc<State>,
    throttle: Arc<Throttle>,
    flusher: Arc<Flusher>,
    schedule: CompactionSchedule,
}

/// A job that reads have paid for, and is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PaidFor {
    Flush,
    Other,
}

impl Compactor {
    pub(crate) fn new(state: Arc<State>, throttle: Arc<Throttle>, flusher: Arc<Flusher>) -> Self {
        Self { state, throttle, flusher, schedule: CompactionSchedule::default() }
    }

    fn context(&self) -> JobContext<'_> {
        JobContext { state: &self.state, throttle: &self.throttle }
    }

    /// A step of a compaction worker: does one compaction that a layout wants, of a table that no other thread
    /// compacts, and then perhaps a job that reads of other tables have paid for; such a job also when no layout wants
    /// any.
    pub(crate) fn step(&self) -> Result<Next> {
        let mut tables = self.state.tables.all();
        tables.retain(|table| !table.compaction.latch.is_locked());
        let now = self.state.env.clock.now();
        tables.retain(|table| table.compaction.retry.rest(now).is_none());
        self.schedule.arrange(&mut tables);
        let mut missing = 0;
        for index in 0..tables.len() {
            let step = match self.compact_step(&tables[index]) {
                // It met a full disk on its way: how much it lacks is not known.
                Err(error) if error.kind() == ErrorKind::Full => {
                    self.state.health.check_writable()?;
                    Ok(Step::NoSpace(1))
                }
                step => step,
            };
            match self.attempt(&tables[index], step)? {
                Some(Step::Done(_)) => {
                    tables[index].compaction.retry.succeeded();
                    self.schedule.taken(&tables.remove(index));
                    self.paid_beside(&mut tables)?;
                    return Ok(Next::Again);
                }
                Some(Step::NoSpace(bytes)) => missing = bytes.max(missing),
                Some(Step::Nothing | Step::Dropped) | None => {}
            }
        }
        self.throttle.compaction_lacks(missing);
        let is_pressed = self.throttle.budget.is_pressed();
        let paid = if is_pressed { self.paid_beside(&mut tables) } else { self.paid_one(&mut tables) };
        if paid? {
            return Ok(Next::Again);
        }
        // Nothing tells when other programs free space, or when a file can be read again.
        let look = (missing > 0).then_some(LOOK_FOR_SPACE);
        Ok(look.into_iter().chain(self.next_retry()).min().map_or(Next::Wait, Next::WaitAtMost))
    }

    /// The time until a compaction or merge is tried again that could not read something.
    fn next_retry(&self) -> Option<Duration> {
        let (now, tables) = (self.state.env.clock.now(), self.state.tables.all());
        let retries = tables.iter().flat_map(|table| [&table.compaction.retry, &table.compaction.merge_retry]);
        retries.filter_map(|retry| retry.wait(now)).min()
    }

    /// Does a job that reads have paid for, of the table that has waited longest; false when there is none.
    fn paid_one(&self, tables: &mut [Arc<TableState>]) -> Result<bool> {
        schedule::by_wait(tables);
        for table in tables {
            if self.attempt(table, self.paid_step(table))? == Some(true) {
                table.compaction.retry.succeeded();
                self.schedule.taken(table);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As [`Self::paid_one`], while compactions are due or writers are slowed; false also when it is not time for one.
    fn paid_beside(&self, tables: &mut [Arc<TableState>]) -> Result<bool> {
        self.schedule.beside(&*self.state.env.clock, || self.paid_one(tables))
    }

    /// What came of a step; `None` when it failed and the database goes on: then the other tables have their turn.
    fn attempt<T>(&self, table: &TableState, step: Result<T>) -> Result<Option<T>> {
        let Err(error) = step else { return step.map(Some) };
        self.state.health.check_writable()?;
        if matches!(error.kind(), ErrorKind::Io | ErrorKind::Corruption) {
            note_failure(&self.state, table, &error);
            self.throttle.trees_changed();
        }
        Ok(None)
    }

    /// Does the next compaction that the table's layout wants.
    pub(crate) fn compact_step(&self, table: &Arc<TableState>) -> Result<Step> {
        let context = self.context();
        let _compacting = table.compaction.latch.lock();
        self.state.health.check_writable()?;
        if table.check().is_err() || !table.compacts_itself() {
            return Ok(Step::Nothing);
        }
        let dropped = self.drop_erased(table)?;
        if matches!(dropped, Step::Done(_) | Step::Dropped) {
            return Ok(dropped);
        }
        let merged = merge_step(context, table)?;
        if matches!(merged, Step::Done(_) | Step::Dropped) {
            return Ok(merged);
        }
        match self.compact_runs(table) {
            Ok(Step::Nothing) => Ok(merged),
            Err(error) if error.is_of_read() => {
                // Until it can be done, the runs that gather over what is damaged are merged with each other, so that
                // reads search few.
                let damaged: Vec<_> = error.place().and_then(|(file, _)| file_id(file)).into_iter().collect();
                merge_within_l0(context, table, &damaged)?;
                Err(error)
            }
            compacted => compacted,
        }
    }

    /// Drops the runs of which no snapshot sees anything. The caller holds the table's compaction latch.
    fn drop_erased(&self, table: &TableState) -> Result<Step> {
        let dropped = DropRuns::plan(self.context(), table).map(|job| self.context().perform(job));
        dropped.unwrap_or(Ok(Step::Nothing))
    }

    /// Does the next compaction of runs that the table's layout wants, or empties value files. The caller holds the
    /// table's compaction latch.
    fn compact_runs(&self, table: &Arc<TableState>) -> Result<Step> {
        let (context, trees, options) = (self.context(), table.trees(), &table.options);
        let mut oldest = self.state.oldest_snapshot();
        if policy::has_unseen_tombstones(&trees, oldest) {
            self.state.wakers.compact_on_release();
            // A snapshot that was released before that woke nothing.
            oldest = self.state.oldest_snapshot();
        }
        let wanted = policy::pick(&trees, options, u64::MAX).or_else(|| policy::pick_dead(&trees, options, oldest));
        let Some(wanted) = wanted.or_else(|| policy::pick_range_deleted(&trees, oldest)) else {
            drop(trees);
            return collect_step(context, table, policy::LIVE_PERCENT);
        };
        let (needs, inputs) = (wanted.needs(options), wanted.bytes());
        let space = self.throttle.space_for(needs, inputs)?;
        if needs <= space {
            drop(trees);
            return RunMerge::new(context, table, wanted)?.run(context);
        }
        drop(wanted);
        let fits = |needs, inputs| self.throttle.space_for(needs, inputs).is_ok_and(|space| needs <= space);
        let dead = || policy::pick_dead(&trees, options, oldest).filter(|dead| fits(dead.needs(options), dead.bytes()));
        let Some(smaller) = policy::pick(&trees, options, space).or_else(dead) else {
            return Ok(Step::NoSpace(needs - space));
        };
        drop(trees);
        RunMerge::new(context, table, smaller)?.run(context)
    }

    /// Does the next job that the table's reads have paid for; false when there is none, and while a flush of the table
    /// waits.
    pub(crate) fn paid_step(&self, table: &Arc<TableState>) -> Result<bool> {
        match self.paid_job(table, true)? {
            // The merge of what was flushed is paid for too. It comes now, before the memtable has entries again.
            Some(PaidFor::Flush) => self.paid_job(table, false).map(|_| true),
            done => Ok(done.is_some()),
        }
    }

    /// As [`Self::paid_step`], with regard to what the table has in memory or without.
    fn paid_job(&self, table: &Arc<TableState>, with_memory: bool) -> Result<Option<PaidFor>> {
        let compacting = table.compaction.latch.lock();
        self.state.health.check_writable()?;
        let Some(ReadTriggered { job, cost: price }) = self.pick_read_triggered(table, with_memory)? else {
            return Ok(None);
        };
        let (context, mut done) = (self.context(), PaidFor::Other);
        let is_done = |step| matches!(step, Step::Done(_));
        let is_done = match job {
            policy::Job::View(viewable) => is_done(MakeView { table, viewable }.run(context)?),
            policy::Job::Merge(compaction) => {
                let step = RunMerge::new(context, table, compaction)?.run(context)?;
                CoveragePoint::ReadTriggeredMerge.mark();
                is_done(step)
            }
            policy::Job::BTreeMerge { rewrite } => match BTreeMerge::plan(table, rewrite) {
                Some(merge) => is_done(merge.run(context)?),
                None => false,
            },
            policy::Job::Flush => {
                // A thread that drops the table holds the flush gate and waits for this latch.
                drop(compacting);
                self.flusher.flush_now(table)?;
                done = PaidFor::Flush;
                true
            }
            policy::Job::Forget => true,
        };
        if !is_done {
            return Ok(None);
        }
        // What is spent is not there for the next look: a loop over these jobs ends with the credit.
        table.charges.spend(&price);
        Ok(Some(done))
    }

    /// The job that the table's reads have paid for.
    fn pick_read_triggered(&self, table: &TableState, with_memory: bool) -> Result<Option<ReadTriggered>> {
        let version = table.version.load_full();
        if table.check().is_err() || !version.immutables.is_empty() {
            return Ok(None);
        }
        let active = &version.active;
        let entries = active.entries.entries();
        let mut account = table.charges.settle(entries, |low, high| active.entries.holds(low, high));
        if account.is_empty() {
            return Ok(None);
        }
        let mut memory = MemtableLoad::default();
        if with_memory {
            memory = MemtableLoad { entries, is_small: active.is_small() };
            account.look_in_memory(|low, high| active.entries.holds(low, Some(high)));
        }
        let mut wanted = None;
        if table.compacts_itself() {
            let limits = (self.throttle.space_for_jobs()?, self.state.oldest_snapshot());
            wanted = policy::pick_read_triggered(&version.trees, &table.options, limits, memory, &account);
        }
        let view =
            || policy::pick_view(&version.trees, version.view.as_ref(), self.state.cache.reservable_bytes(), &account);
        let unviewable = table.compaction.unviewable.lock();
        let can_be_made =
            |paid: &ReadTriggered| !matches!(&paid.job, policy::Job::View(viewable) if viewable.ids == *unviewable);
        Ok(wanted.or_else(|| view().filter(can_be_made)))
    }

    /// Merges all of a level into the next one below it; L0 is number 0.
    pub(crate) fn compact_level(&self, table: &Arc<TableState>, number: usize) -> Result<()> {
        self.state.health.check_writable()?;
        if table.btree().is_some() {
            let message =
                format!("table '{}' is a B-tree, into which all runs go at once: compact all of it", table.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if number > LEVELS {
            return Err(Error::invalid(format!("there is no level {number}: the last one is {LEVELS}")));
        }
        let compacting = table.compaction.latch.lock();
        table.check()?;
        table.check_not_loading()?;
        self.drop_erased(table)?;
        let wanted = policy::pick_level(&table.trees(), &table.options, number);
        let done = wanted.map_or(Ok(()), |compaction| {
            let merge = RunMerge::new(self.context(), table, compaction)?;
            self.context().perform_by_hand(table, merge, "").map(drop)
        });
        drop(compacting);
        // The level below may be over its target now.
        self.state.wakers.wake_compaction();
        done
    }

    /// Lets no compaction of the table begin by itself, and returns when none runs any more; or lets them go on.
    pub(crate) fn hold(&self, table: &Arc<TableState>, hold: bool) {
        table.compaction.held.store(hold, Ordering::Relaxed);
        if hold {
            // A compaction that takes the latch after this sees the flag.
            drop(table.compaction.latch.lock());
        }
        self.throttle.trees_changed();
        self.state.wakers.wake_compaction();
    }

    /// Flushes, then merges all trees of the table into one, and empties value files that are not full of live values.
    pub(crate) fn compact_all(&self, table: &Arc<TableState>) -> Result<()> {
        self.flusher.flush_all(table)?;
        if table.btree().is_some() {
            return self.merge_into_btree(table, true);
        }
        let _compacting = table.compaction.latch.lock();
        table.check()?;
        table.check_not_loading()?;
        self.drop_erased(table)?;
        if let Some(compaction) = policy::pick_all(&table.trees(), table.callbacks.filter.is_registered()) {
            let merge = RunMerge::rewriting(self.context(), table, compaction)?;
            self.context().perform_by_hand(table, merge, ", or compact a level at a time")?;
        }
        collect_all(self.context(), table)
    }

    /// Merges all runs that there are into the table's B-tree; with `rewrite` it comes out packed.
    pub(crate) fn merge_into_btree(&self, table: &TableState, rewrite: bool) -> Result<()> {
        loop {
            let compacting = table.compaction.latch.lock();
            self.state.health.check_writable()?;
            table.check()?;
            table.check_not_loading()?;
            if !rewrite && table.trees().runs().next().is_none() {
                return Ok(());
            }
            if let Some(merge) = BTreeMerge::plan(table, rewrite) {
                return self.context().perform_by_hand(table, merge, "").map(drop);
            }
            // The flush under way has the turn, and may want the latch.
            drop(compacting);
            drop(self.flusher.lock_gate());
        }
    }

    /// Helps with the work until no flush or compaction of the table is due any more.
    pub(crate) fn wait_idle(&self, table: &Arc<TableState>) -> Result<()> {
        self.flusher.flush(table)?;
        let compaction = &table.compaction;
        [&compaction.retry, &compaction.merge_retry].iter().for_each(|retry| retry.end_rest());
        loop {
            if let Step::NoSpace(bytes) = repeat(|| self.compact_step(table))? {
                let message =
                    format!("table '{}': a compaction is due and needs {bytes} bytes more of free space", table.name);
                return Err(Error::new(ErrorKind::Full, message));
            }
            if self.throttle.budget.is_pressed() || !self.paid_step(table)? {
                return compaction.merge_retry.check();
            }
        }
    }
}

/// The file of the database that a path names.
fn file_id(path: &Path) -> Option<FileId> {
    files::parse(path.file_name()?.to_str()?).map(|(_, id)| id)
}
