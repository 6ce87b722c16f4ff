//! Recovery: the log's commits that are not in the trees yet go back into memtables.
//!
//! A change is replayed when its table still exists and its record stands at or after the table's replay position.
//! Replay does not write to the log, so a crash in the middle of it, at any time, leaves everything as it was or with
//! some memtables flushed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::sync::Mutex;
use crate::base::{Error, ErrorKind, Lsn, Result, SeqNum, TableId};
use crate::log::{self, RecoveredLog};
use crate::tree::range_tombstone::{RangeTombstone, RangeTombstones};

use super::core::{Core, TableState};
use super::database::OnReplay;
use super::erase::bytes_of;
use super::log::read_record;

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
        self.state.erase(RangeTombstones::newest_of(erased.iter().map(RangeTombstone::ends)));
    }
}

impl Core {
    /// Replays the log, and shows readers what it holds.
    pub(crate) fn recover(&self, on_replay: Option<&OnReplay>) -> Result<RecoveredLog> {
        let dir = self.log_place.dir.clone();
        // Only the one in the database's directory can be missing here.
        self.env.fs.create_dir_all(&dir).map_err(|error| Error::io("create directory", &dir, error))?;
        let tables = self.replayed_tables();
        // There are no snapshots: what a flush meanwhile writes is seen by all that come.
        self.snapshots.publish(SeqNum(self.commit.lock().next_seqnum.0.saturating_sub(1)));
        let (from, durable) = {
            let ledger = self.ledger.lock();
            (ledger.catalog.log_from, ledger.catalog.log_durable())
        };
        // The next seqnum after those that were taken in.
        let next = Arc::new(AtomicU64::new(0));
        let mut tell = |progress| on_replay.into_iter().for_each(|told| told(progress));
        let take = take_in(dir.clone(), Arc::clone(&tables), Arc::clone(&next));
        let mut flushed = Ok(());
        let recovered =
            log::replay(&self.env, &dir, self.database_id, from, &mut tell, Arc::new(take), &mut |end, takers| {
                if !self.is_replay_large(&tables) {
                    return Ok(());
                }
                takers.settle()?;
                self.replayed_to.store(end.0, Ordering::Relaxed);
                flushed = self.flush_replayed(&tables, SeqNum(next.load(Ordering::Relaxed)));
                if flushed.is_err() { Err(Error::new(ErrorKind::Closed, "a flush failed")) } else { Ok(()) }
            });
        flushed?;
        let recovered = recovered.and_then(|recovered| recovered.check_reaches(durable).map(|()| recovered));
        let recovered = recovered.map_err(|error| self.advise_salvage(error))?;
        self.replayed_to.store(recovered.summary().end.0, Ordering::Relaxed);
        tables.values().for_each(ReplayedTable::show_erasures);
        // Counts what was replayed last, which the cache must leave room for.
        let _ = self.is_replay_large(&tables);
        self.rebalance();
        let mut commit = self.commit.lock();
        commit.next_seqnum = commit.next_seqnum.max(SeqNum(next.load(Ordering::Relaxed)));
        self.snapshots.publish(SeqNum(commit.next_seqnum.0.saturating_sub(1)));
        Ok(recovered)
    }

    /// Says what to do about a damaged log.
    fn advise_salvage(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Corruption {
            return error;
        }
        let dir = self.dir.display();
        error.advice(format_args!("to go on with what is before the damage, run spinney salvage {dir}"))
    }

    /// The tables by id, each with the position from which its changes are replayed.
    fn replayed_tables(&self) -> Arc<Replayed> {
        let tables = self.all_tables().into_iter();
        let ledger = self.ledger.lock();
        let replayed = |state: Arc<TableState>| {
            let from = ledger.catalog.tables[&state.id].replay_from;
            (state.id, ReplayedTable { state, from, erased: Mutex::default() })
        };
        Arc::new(tables.map(replayed).collect())
    }

    /// Counts what memtables grew by; whether they must be flushed.
    fn is_replay_large(&self, tables: &Replayed) -> bool {
        tables.values().fold(false, |full, table| full | self.memory.count(&table.state.version.load().active))
    }

    /// Flushes the memtables. All changes before `next` are replayed, and none after.
    fn flush_replayed(&self, tables: &Replayed, next: SeqNum) -> Result<()> {
        let mut commit = self.commit.lock();
        commit.next_seqnum = commit.next_seqnum.max(next);
        drop(commit);
        for table in tables.values() {
            table.show_erasures();
            self.rotate(&mut self.commit.lock(), &table.state);
            match self.flush(&table.state) {
                // What was in memory before still fits it: reads do not need the disk's room.
                Err(error)
                    if error.kind() == ErrorKind::Full
                        && self.health.check_poison().is_ok()
                        && !self.memory.is_exceeded() => {}
                flushed => flushed?,
            }
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
