//! Recovery: the log's commits that are not in the trees yet go back into memtables.
//!
//! A change is replayed when its table still exists and its record stands at or after the table's replay position.
//! Replay does not write to the log, so a crash in the middle of it, at any time, leaves everything as it was or with
//! some memtables flushed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::sync::Mutex;
use crate::base::trace::span;
use crate::base::{Error, ErrorKind, Lsn, Result, SeqNum, TableId};
use crate::db::commit::range_tombstones::bytes_of;
use crate::db::commit::upkeep::{log_needed_by, seal_memtable};
use crate::db::jobs::flush::{Flush, Frontier};
use crate::db::jobs::job::JobContext;
use crate::db::maintenance::log_reader::read_record;
use crate::db::state::State;
use crate::db::state::table::TableState;
use crate::db::throttle::Throttle;
use crate::log::{self, RecoveredLog, ReplayMode, ReplayProgress};
use crate::table::memtable_handle::CommitPoint;
use crate::tree::range_tombstone::{RangeTombstone, RangeTombstones};

/// Is told how far the replay of the log has come.
pub(crate) type OnReplay = dyn Fn(ReplayProgress) + Send + Sync;

/// The tables by id.
type Replayed = BTreeMap<TableId, ReplayedTable>;

/// A table whose changes are replayed.
struct ReplayedTable {
    state: Arc<TableState>,
    /// From where in the log.
    from: Lsn,
    /// The range tombstones that readers are not shown yet.
    erased: Mutex<Vec<RangeTombstone>>,
}

impl ReplayedTable {
    /// Shows readers the range tombstones. All that come see the newest of each key.
    fn show_erasures(&self) {
        let erased = std::mem::take(&mut *self.erased.lock());
        self.state.add_range_tombstones(RangeTombstones::newest_of(erased.iter().map(RangeTombstone::ends)));
    }
}

/// A log that was replayed.
pub(super) struct Replay {
    pub(super) log: RecoveredLog,
    /// The seqnum after all that were given out, as far as anything tells.
    pub(super) next_seqnum: SeqNum,
}

/// The replay of the log of a database whose trees are open.
pub(super) struct Recovery<'a> {
    pub(super) state: &'a State,
    pub(super) throttle: &'a Throttle,
    pub(super) log_dir: &'a Path,
    pub(super) on_replay: Option<&'a OnReplay>,
    pub(super) mode: ReplayMode,
}

impl Recovery<'_> {
    /// Replays the log, and shows readers what it holds.
    pub(super) fn run(&self) -> Result<Replay> {
        let (state, dir) = (self.state, self.log_dir);
        span!("recovery");
        // Only the one in the database's directory can be missing here.
        state.env.fs.create_dir_all(dir).map_err(|error| Error::io("create directory", dir, error))?;
        let tables = self.tables();
        let (from, durable, floor) = {
            let manifest = state.manifest.lock();
            let catalog = manifest.catalog();
            (catalog.log_from, catalog.log_durable(), catalog.seqnum_floor)
        };
        // There are no snapshots: what a flush meanwhile writes is seen by all that come.
        state.snapshots.publish(SeqNum(floor.0.saturating_sub(1)));
        // The next seqnum after those that were taken in.
        let next = Arc::new(AtomicU64::new(0));
        let next_seqnum = || floor.max(SeqNum(next.load(Ordering::Relaxed)));
        let mut tell = |progress| self.on_replay.into_iter().for_each(|told| told(progress));
        let take = Arc::new(take_in(dir.to_owned(), Arc::clone(&tables), Arc::clone(&next)));
        let mut flushed = Ok(());
        let database = state.files.database_id();
        let source = (database, from, self.mode);
        let recovered = log::replay(&state.env, dir, source, &mut tell, take, &mut |end, takers| {
            // A flush for readers alone would stay in memory too.
            if !self.is_large(&tables) || self.mode == ReplayMode::ReadOnly {
                return Ok(());
            }
            takers.settle()?;
            flushed = self.flush(&tables, CommitPoint { next_seqnum: next_seqnum(), lsn: end });
            if flushed.is_err() { Err(Error::new(ErrorKind::Closed, "a flush failed")) } else { Ok(()) }
        });
        flushed?;
        let recovered = recovered.and_then(|recovered| recovered.check_reaches(durable).map(|()| recovered));
        let log = recovered.map_err(|error| self.advise_salvage(error))?;
        tables.values().for_each(ReplayedTable::show_erasures);
        // Counts what was replayed last, which the cache must leave room for.
        let _ = self.is_large(&tables);
        self.throttle.trees_changed();
        let next_seqnum = next_seqnum();
        state.snapshots.publish(SeqNum(next_seqnum.0.saturating_sub(1)));
        Ok(Replay { log, next_seqnum })
    }

    /// Says what to do about a damaged log.
    fn advise_salvage(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Corruption {
            return error;
        }
        let dir = self.state.dir.display();
        error.advice(format_args!("to go on with what is before the damage, run spinney salvage {dir}"))
    }

    /// The tables by id, each with the position from which its changes are replayed.
    fn tables(&self) -> Arc<Replayed> {
        let tables = self.state.tables.all().into_iter();
        let manifest = self.state.manifest.lock();
        let replayed = |state: Arc<TableState>| {
            let from = manifest.replay_from(state.id);
            (state.id, ReplayedTable { state, from, erased: Mutex::default() })
        };
        Arc::new(tables.map(replayed).collect())
    }

    /// Counts what memtables grew by; whether they must be flushed.
    fn is_large(&self, tables: &Replayed) -> bool {
        let count = |table: &ReplayedTable| self.throttle.budget.count(&table.state.version.load().active);
        tables.values().fold(false, |full, table| full | count(table))
    }

    /// Flushes the memtables. All changes before `at` are replayed, and none after.
    fn flush(&self, tables: &Replayed, at: CommitPoint) -> Result<()> {
        let context = JobContext { state: self.state, throttle: self.throttle };
        for table in tables.values() {
            table.show_erasures();
            if !table.state.version.load().active.is_unused() {
                seal_memtable(&table.state, at, None).iter().for_each(|mem| self.throttle.budget.sealed(mem));
            }
            let Some(flush) = Flush::plan(context, &table.state, SeqNum::MAX) else { continue };
            let log_from = log_needed_by(tables.values().map(|table| &table.state), flush.mems(), at.lsn);
            match flush.run(Frontier { next_seqnum: at.next_seqnum, log_from }) {
                // What was in memory before still fits it: the background flushes it when there is room.
                Err(error)
                    if error.kind() == ErrorKind::Full
                        && self.state.health.check_poison().is_ok()
                        && !self.throttle.budget.is_exceeded() => {}
                flushed => flushed?,
            }
            self.throttle.trees_changed();
        }
        Ok(())
    }
}

/// Puts the changes of a log record into the memtables. Several threads do so at once, in any order: seqnums tell what
/// is newer. `next` becomes the seqnum after the largest.
fn take_in(
    log: PathBuf,
    tables: Arc<Replayed>,
    next: Arc<AtomicU64>,
) -> impl Fn(Lsn, &[u8]) -> Result<()> + Send + Sync {
    move |start, payload| {
        let after = read_record(&log, start, payload, |seqnum, change| {
            if let Some(table) = tables.get(&change.table)
                && start >= table.from
            {
                let version = table.state.version.load();
                match change.entry(seqnum) {
                    Some(entry) => version.active.replay(start, &entry),
                    None => {
                        version.active.note(start);
                        change.ends().into_iter().for_each(|(low, high)| version.active.erased(bytes_of(low, high)));
                        table.erased.lock().extend(change.range().map(|range| RangeTombstone { range, seqnum }));
                    }
                }
            }
            Ok(())
        })?;
        next.fetch_max(after.0, Ordering::Relaxed);
        Ok(())
    }
}
