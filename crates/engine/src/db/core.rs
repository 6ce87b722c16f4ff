//! The open database that all handles share: its parts, and the latches in the order in which they are taken.
//!
//! # Concurrency
//! Latch order, outermost first: `flush_gate` · a table's `compaction` · `commit` · `tables` · `ledger`. None is held
//! while a worker is woken. I/O happens under `flush_gate`, `compaction` and `ledger`; under `commit` only when a
//! possible conflict is looked up and when a table is created or dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::base::sync::{Mutex, RwLock};
use arc_swap::{ArcSwap, ArcSwapOption};

use crate::base::{Error, ErrorKind, FileId, Lsn, Reached, Result, SeqNum, TableId};
use crate::cache::Cache;
use crate::env::{DatabaseFiles, Env, FileLock, Worker};
use crate::log::LogWriter;
use crate::store::StoreStats;
use crate::table::catalog::Catalog;
use crate::table::edit::Edit;
use crate::table::files::FileKind;
use crate::table::manifest::Manifest;
use crate::table::memtable_handle::{CommitPoint, MemtableHandle};
use crate::table::reads::ReadCounters;
use crate::table::seqnum_to_time::SeqnumToTime;
use crate::table::{TableOptions, Trees, Version, policy};
use crate::tree::Limits;
use crate::tree::btree::BTree;
use crate::tree::compaction_filter::{CompactionFilters, TableFilter};
use crate::tree::gc::GcRule;
use crate::tree::operator::{self, Operators, TableOperator};
use crate::txn::batch::Change;
use crate::txn::conflict::RecentWrites;
use crate::txn::publish::Publisher;
use crate::txn::snapshots::Snapshots;

use super::expire::Expiry;
use super::finish::Unfinished;
use super::health::Health;
use super::log_place::LogPlace;
use super::memory::Memory;
use super::open::SEQNUM_GAP;
use super::options::Options;
use super::retry::Retry;
use super::room::Room;
use super::savings::Savings;
use super::space::Space;
use super::stats::Counters;
use super::turns::Turns;

/// What the program has registered for its tables to name.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) operators: Operators,
    pub(crate) filters: CompactionFilters,
}

impl Default for Registered {
    fn default() -> Self {
        Self { operators: operator::built_in(), filters: CompactionFilters::new() }
    }
}

/// An open table.
#[derive(Debug)]
pub(crate) struct TableState {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) options: TableOptions,
    /// The merge operator that the options name.
    pub(crate) operator: TableOperator,
    /// The compaction filter that the options name.
    pub(crate) filter: TableFilter,
    /// What readers see. Swapped by rotation (under `commit`) and by installs (under `ledger`).
    pub(crate) version: ArcSwap<Version>,
    /// What reads cost.
    pub(crate) reads: ReadCounters,
    /// What reads have paid for extra trees.
    pub(crate) savings: Savings,
    /// The B-tree of a table whose layout has one, until the table is dropped.
    btree: ArcSwapOption<(FileId, Arc<BTree>)>,
    /// How old its entries are, when they have a time to live.
    pub(crate) expiry: Option<Expiry>,
    /// The files of which no view could be made. Locked by the thread that holds `compaction`.
    pub(crate) unviewable: Mutex<Vec<FileId>>,
    /// Held by the thread that compacts the table.
    pub(crate) compaction: Mutex<()>,
    /// When the background compacts the table again, after it could not.
    pub(crate) compaction_retry: Retry,
    /// When the background merges runs into the B-tree again, after it could not.
    pub(crate) merge_retry: Retry,
    /// The first and last key of what the compaction under way merges into a level. Set after that has chosen its
    /// inputs and taken back after its last result is in place, so that a thread that holds `compacting` and sees a
    /// range knows where results may come until then.
    pub(crate) compacting: Mutex<Option<(Vec<u8>, Vec<u8>)>>,
    /// Held by the thread that makes few sets of the table's range tombstones in memory.
    pub(crate) joining: Mutex<()>,
    /// The step of the background in which the table was last compacted. Steers only.
    pub(crate) last_turn: AtomicU64,
    /// No compaction of the table begins by itself. A thread that has held `compaction` after it was set knows that
    /// none is under way.
    pub(crate) held: AtomicBool,
    /// Set under `commit` when the table is dropped; later commits and reads refuse.
    pub(crate) dropped: AtomicBool,
}

impl TableState {
    /// A table with these trees on disk and nothing in memory.
    pub(crate) fn new(
        id: TableId,
        name: String,
        options: TableOptions,
        registered: &Registered,
        trees: Trees,
        btree: Option<(FileId, Arc<BTree>)>,
        seqnum_to_time: SeqnumToTime,
    ) -> Self {
        let version = Version::of_trees(trees);
        let operator = TableOperator::find(options.merge.as_deref(), &registered.operators);
        let expiry = options.time_to_live.map(|time| Expiry::new(time, seqnum_to_time));
        let filter = TableFilter::find(options.compaction_filter.as_deref(), &registered.filters);
        Self {
            id,
            name,
            options,
            operator,
            filter,
            version: ArcSwap::from_pointee(version),
            reads: ReadCounters::default(),
            savings: Savings::default(),
            expiry,
            btree: ArcSwapOption::from_pointee(btree),
            unviewable: Mutex::default(),
            compaction: Mutex::new(()),
            compaction_retry: Retry::default(),
            merge_retry: Retry::default(),
            compacting: Mutex::default(),
            joining: Mutex::default(),
            last_turn: AtomicU64::new(0),
            held: AtomicBool::new(false),
            dropped: AtomicBool::new(false),
        }
    }

    /// What the table's flushes and compactions may drop and change.
    pub(crate) fn retain(&self, snapshots: Vec<SeqNum>, published: SeqNum, bottom: bool) -> GcRule {
        let gc = GcRule::new(snapshots, published, bottom);
        gc.with_operator(self.operator.clone()).with_filter(self.filter.clone()).keeping_seqnums(self.expiry.is_some())
    }

    /// Whether runs are compacted when the layout wants it.
    pub(crate) fn compacts_itself(&self) -> bool {
        !self.held.load(Ordering::Relaxed)
    }

    /// The B-tree of a table whose layout has one, and that was not dropped.
    pub(crate) fn btree(&self) -> Option<Arc<BTree>> {
        self.btree.load().as_ref().map(|tree| Arc::clone(&tree.1))
    }

    /// Lets go of all that the dropped table holds, so that handles of it keep neither memory nor files; what it was,
    /// and the file of its B-tree. The commit latch says that nobody is about to change what readers see.
    pub(crate) fn empty(&self, _commit: &mut CommitState) -> (Arc<Version>, Option<FileId>) {
        let nothing = Version::of_trees(Trees::default());
        let version = self.version.swap(Arc::new(nothing));
        (version, self.btree.swap(None).map(|tree| tree.0))
    }

    /// Refuses a value that the table's merge operator cannot use.
    #[inline]
    pub(crate) fn check_value(&self, value: &[u8]) -> Result<()> {
        self.operator.check_value(value).map_err(|error| error.context(format_args!("table '{}'", self.name)))
    }

    /// Refuses when the table was dropped.
    pub(crate) fn check(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::invalid(format!("table '{}' was dropped", self.name)));
        }
        Ok(())
    }
}

/// What commits change in their order.
#[derive(Debug)]
pub(crate) struct CommitState {
    pub(crate) next_seqnum: SeqNum,
    pub(crate) recent: RecentWrites,
    /// Bulk loads that have their place in the order, but whose entries cannot be found yet.
    pub(crate) loads: Vec<PendingLoad>,
    /// Scratch for the front of a log record.
    pub(crate) header: Vec<u8>,
}

impl CommitState {
    /// Before the first commit, which gets this seqnum.
    pub(crate) fn new(next_seqnum: SeqNum) -> Self {
        Self { next_seqnum, recent: RecentWrites::default(), loads: Vec::new(), header: Vec::new() }
    }
}

/// A bulk load on its way to visibility.
#[derive(Debug)]
pub(crate) struct PendingLoad {
    pub(crate) table: TableId,
    pub(crate) seqnum: SeqNum,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

impl PendingLoad {
    /// Whether the load may have a key that the change is of.
    pub(crate) fn meets(&self, change: &Change<'_>) -> bool {
        match change.range() {
            None => *self.smallest <= *change.key && *change.key <= *self.largest,
            Some(Limits { low, high, .. }) => low <= self.largest && high.is_none_or(|high| self.smallest < high),
        }
    }
}

/// What the database durably consists of.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) catalog: Catalog,
    /// `None` while the disk has no room for one of this open: the one before is in force then.
    pub(crate) manifest: Option<Manifest>,
}

/// The tables by name and by id.
pub(crate) type Tables = BTreeMap<String, Arc<TableState>>;

/// The background workers, started last and stopped first.
#[derive(Debug)]
pub(crate) struct Workers {
    pub(crate) flush: Box<dyn Worker>,
    pub(crate) compact: Vec<Box<dyn Worker>>,
    pub(crate) sync: Box<dyn Worker>,
    pub(crate) memory: Box<dyn Worker>,
    pub(crate) expire: Box<dyn Worker>,
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Core {
    /// Its files are `files`.
    pub(crate) env: Env,
    pub(crate) files: Arc<DatabaseFiles>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) registered: Registered,
    pub(crate) database_id: u64,
    pub(crate) cache: Arc<Cache>,
    pub(crate) store_stats: Arc<StoreStats>,
    pub(crate) log_place: LogPlace,
    /// The redo log, from the moment when recovery has replayed it.
    pub(crate) log: OnceLock<LogWriter>,
    /// How far recovery has replayed the log.
    pub(crate) replayed_to: AtomicU64,
    pub(crate) health: Arc<Health>,
    /// What is left to do of the open. Taken before `commit`.
    pub(crate) unfinished: Mutex<Option<Unfinished>>,
    pub(crate) memory: Memory,
    pub(crate) space: Space,
    pub(crate) turns: Turns,
    pub(crate) counters: Counters,
    pub(crate) snapshots: Snapshots,
    pub(crate) publisher: Publisher,
    /// The next file id; ids are never reused.
    pub(crate) next_file: AtomicU64,
    /// The log before this position is not needed. Told by flushes, to steer only.
    pub(crate) log_from: AtomicU64,
    /// Where the log ended when memtables were last frozen because it was too long. Steers only.
    pub(crate) frozen_for_log: AtomicU64,
    /// Held during a flush, so that a checkpoint can stop the disk's state at one point of the log.
    pub(crate) flush_gate: Mutex<()>,
    pub(crate) commit: Mutex<CommitState>,
    /// Counted only to steer what commits note for transactions; publishes nothing.
    pub(crate) open_transactions: AtomicUsize,
    /// Some range tombstone or tombstone is not seen by all snapshots. Only a hint to look again when the oldest is
    /// gone; publishes nothing.
    pub(crate) erasures_wait: AtomicBool,
    pub(crate) tables: RwLock<Tables>,
    pub(crate) ledger: Mutex<Ledger>,
    /// What writers wait for that need memory.
    pub(crate) room: Room,
    /// Whether commits with `Durability::Interval` wait for the sync worker. Set by commits, cleared by the worker
    /// before it syncs.
    pub(crate) interval_pending: AtomicBool,
    /// When the sync worker syncs for these. Its own.
    pub(crate) interval_due: Mutex<Option<Duration>>,
    /// Runs that bulk loads are writing, which the manifest does not name yet. An id enters before its file is created,
    /// and leaves after that is named or removed.
    pub(crate) loading: Mutex<BTreeSet<FileId>>,
    /// Files that the manifest no longer names and that could not be removed yet.
    pub(crate) left_behind: Mutex<Vec<PathBuf>>,
    pub(crate) workers: OnceLock<Workers>,
    /// Keeps other processes out, until the database is closed. The latch is held during the closing.
    pub(crate) lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl Core {
    /// The redo log of a database that has recovered.
    pub(crate) fn log(&self) -> &LogWriter {
        self.log.get().expect("recovery opens the log before anything is committed")
    }

    /// Makes the log durable up to `lsn`, of commits that did not ask for it, and wakes the threads that wait for that.
    pub(crate) fn force_log(&self, lsn: Lsn) -> Result<()> {
        self.or_poison(self.log().sync(lsn))?;
        self.publisher.announce_news();
        Ok(())
    }

    /// Where the next log record will stand; during recovery, where the next one to be replayed stands.
    pub(crate) fn log_tail(&self) -> Lsn {
        self.log.get().map_or_else(|| Lsn(self.replayed_to.load(Ordering::Relaxed)), LogWriter::tail)
    }

    /// The moment in the order of commits, which the latch in hand holds still.
    pub(crate) fn now(&self, commit: &CommitState) -> CommitPoint {
        CommitPoint { next_seqnum: commit.next_seqnum, lsn: self.log_tail() }
    }

    /// A file id never used before.
    pub(crate) fn new_file(&self) -> FileId {
        FileId(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// What seeds the checksums of a file's blocks.
    pub(crate) fn identity(&self, id: FileId) -> u64 {
        identity(self.database_id, id)
    }

    /// Makes new names in the database directory durable.
    pub(crate) fn sync_dir(&self) -> Result<()> {
        self.env.fs.sync_dir(&self.dir).map_err(|error| Error::io("sync", &self.dir, error))
    }

    /// Removes a file that the manifest no longer names.
    pub(crate) fn remove(&self, path: &Path) {
        self.left_behind.lock().push(path.to_owned());
        self.remove_left_behind();
    }

    /// Removes what could not be removed before. The next open tries the rest again.
    pub(crate) fn remove_left_behind(&self) {
        let stays = |path: &PathBuf| match self.env.fs.remove(path) {
            Ok(()) => false,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        self.left_behind.lock().retain(stays);
    }

    /// All tables.
    pub(crate) fn all_tables(&self) -> Vec<Arc<TableState>> {
        self.tables.read().values().cloned().collect()
    }

    /// Fails the database: nothing is written any more. Work that only met the closing of the database fails nothing.
    pub(crate) fn poison(&self, error: Error) -> Error {
        if matches!(error.kind(), ErrorKind::Closed | ErrorKind::Forked) {
            return error;
        }
        Reached::Poison.mark();
        self.health.poison(&error);
        self.publisher.poison();
        self.room.look();
        error
    }

    /// Poisons when a write failed; not when it was refused and nothing was changed.
    pub(crate) fn or_poison<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| if error.is_unchanged() { error } else { self.poison(error) })
    }

    /// Makes an edit durable. The caller holds the ledger and installs what the edit tells of before it releases it.
    pub(crate) fn record(&self, ledger: &mut Ledger, edit: &Edit) -> Result<()> {
        self.health.check_in_use()?;
        let manifest = ledger.manifest.as_mut().expect("nothing is written before a manifest is in force");
        manifest.append(edit)?;
        ledger.catalog.apply(edit).expect("an edit that this database makes fits its catalog");
        if !manifest.is_long() {
            return Ok(());
        }
        match self.rewrite_manifest(ledger) {
            // The edit is durable, and the manifest in force may be longer.
            Err(error) if error.is_unchanged() => {
                ledger.manifest.iter_mut().for_each(Manifest::stay_long);
                Ok(())
            }
            rewritten => rewritten,
        }
    }

    /// Puts a manifest in force that says the same in one record. An error that is unchanged leaves the one before in
    /// force.
    pub(crate) fn rewrite_manifest(&self, ledger: &mut Ledger) -> Result<()> {
        let id = self.new_file();
        ledger.catalog.next_file = FileId(id.0 + 1).max(ledger.catalog.next_file);
        let created = Manifest::create(&self.env, &self.dir, id, &ledger.catalog);
        let created = created.map_err(|error| self.remove_failed(id, error))?;
        if let Some(old) = ledger.manifest.replace(created) {
            let kinds = [FileKind::Manifest, FileKind::ManifestCopy];
            kinds.iter().for_each(|kind| self.remove(&kind.path(&self.dir, old.id())));
        }
        Ok(())
    }

    /// Keeps the floor of the next open above the seqnums that reach the trees: once they have, the log does not tell
    /// of them any more.
    pub(crate) fn raise_seqnum_floor(&self, ledger: &mut Ledger, next: SeqNum) -> Result<()> {
        if next.0 + SEQNUM_GAP / 2 <= ledger.catalog.seqnum_floor.0 {
            return Ok(());
        }
        let log_from = ledger.catalog.log_from;
        self.record(ledger, &Edit::Opened { seqnum_floor: SeqNum(next.0 + SEQNUM_GAP), log_from })
    }

    /// The log position before which no table needs the log, when the memtables in `flushed` are on disk.
    pub(crate) fn log_needed_from(&self, flushed: &[Arc<MemtableHandle>]) -> Lsn {
        let _commit = self.commit.lock();
        self.log_needed_by(self.tables.read().values(), flushed)
    }

    /// As [`Self::log_needed_from`], of these tables, for a caller that holds the commit latch.
    pub(crate) fn log_needed_by<'a>(
        &self,
        tables: impl Iterator<Item = &'a Arc<TableState>>,
        flushed: &[Arc<MemtableHandle>],
    ) -> Lsn {
        let oldest = |table: &Arc<TableState>| {
            let version = table.version.load();
            let needed = version.memtables().filter(|mem| !flushed.iter().any(|done| Arc::ptr_eq(done, mem)));
            needed.filter_map(|mem| mem.first_lsn()).min()
        };
        tables.filter(|table| table.options.logged).filter_map(oldest).fold(self.log_tail(), Lsn::min)
    }

    /// The log before `log_from` is not needed, and the manifest says so.
    pub(crate) fn release_log(&self, log_from: Lsn) -> Result<()> {
        self.log_from.fetch_max(log_from.0, Ordering::Relaxed);
        self.log.get().map_or(Ok(()), |log| log.release(log_from))
    }

    /// Fits the cache to what memtables leave, tells writers how deep the compaction debt is.
    pub(crate) fn rebalance(&self) {
        self.cache.fit(|_| Some(self.memory.cache_bytes()));
        self.space_changed();
        let tables = self.tables.read();
        // Waiting does not help where nothing compacts in the background, or what is to be compacted cannot be read.
        let compacted = tables.values().filter(|table| table.compacts_itself() && !table.compaction_retry.is_failing());
        let debt = compacted.map(|table| policy::pressure(&table.version.load().trees, &table.options)).max();
        drop(tables);
        self.memory.set_debt(debt.unwrap_or(0));
    }

    pub(crate) fn wake_flush(&self) {
        if let Some(workers) = self.workers.get() {
            workers.flush.wake();
        }
    }

    /// Lets the entries of a new table be dated from now on.
    pub(crate) fn wake_expire(&self) {
        if let Some(workers) = self.workers.get() {
            workers.expire.wake();
        }
    }

    pub(crate) fn wake_sync(&self) {
        if let Some(workers) = self.workers.get() {
            workers.sync.wake();
        }
    }

    /// Has pages of the log and memory of memtables at hand for the next writes.
    pub(crate) fn wake_memory(&self) {
        if let Some(workers) = self.workers.get() {
            workers.memory.wake();
        }
    }

    pub(crate) fn wake_compact(&self) {
        if let Some(workers) = self.workers.get() {
            for worker in &workers.compact {
                worker.wake();
            }
        }
    }
}

/// What seeds the checksums of file `id` of a database.
pub(crate) fn identity(database_id: u64, id: FileId) -> u64 {
    database_id ^ (id.0 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    /// From its first key to its last; ranges end before their upper bound.
    #[test]
    fn a_load_on_its_way_meets_changes_of_its_keys_up_to_both_ends() {
        let (smallest, largest) = (b"c".to_vec(), b"e".to_vec());
        let load = PendingLoad { table: TableId(1), seqnum: SeqNum(9), smallest, largest };
        let meets = |kind, key, value| load.meets(&Change { table: TableId(1), kind, key, value });
        for (key, is_met) in [(b"b", false), (b"c", true), (b"d", true), (b"e", true), (b"f", false)] {
            assert_eq!(meets(Kind::Put, key, b"c"), is_met, "{key:?}");
            assert_eq!(meets(Kind::Delete, key, b""), is_met, "{key:?}");
            assert_eq!(meets(Kind::RangeDelete, key, b""), *key <= *b"e", "{key:?} to the last key");
            assert_eq!(meets(Kind::RangeDelete, b"", key), *key > *b"c", "up to {key:?}");
        }
        assert!(meets(Kind::RangeDelete, b"", b""));
    }
}
