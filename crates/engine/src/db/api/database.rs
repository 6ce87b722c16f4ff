//! The handle of an open database.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::debug::debug_by;
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::db::maintenance::checkpoint::CheckpointReport;
use crate::db::maintenance::salvage::{SalvageMode, SalvageReport};
use crate::db::maintenance::salvage_to::{SalvageProgress, SalvagedCopy};
use crate::db::maintenance::verify::VerifyReport;
use crate::db::maintenance::{checkpoint, discard, salvage, salvage_to, verify};
use crate::db::open::OnReplay;
use crate::db::open::core::Core;
use crate::db::open::opening;
use crate::db::open::read_only;
use crate::db::open::reader::Source;
use crate::db::state::events::EventListener;
use crate::db::state::options::{Durability, Options};
use crate::db::state::registered::Registered;
use crate::env::Env;
use crate::log::ReplayProgress;
use crate::table::TableOptions;
use crate::tree::compaction_filter::CompactionFilter;
use crate::tree::operator::MergeOperator;
use crate::txn::commit_clock::{CommitClock, VisibleTime};

use super::batch::Batch;
use super::change_feed::ChangeFeed;
use super::handle::DatabaseHandle;
use super::history::History;
use super::live_stats::{self, LiveStats};
use super::read_tracker::Isolation;
use super::snapshot::Snapshot;
use super::stats::Stats;
use super::stored_note::StoredNote;
use super::table_handle::Table;
use super::transaction::Transaction;

/// How often [`Database::transact`] tries at most, and the pauses between, which double.
const TRANSACT_TRIES: u32 = 100;
const RETRY_PAUSE_MIN: Duration = Duration::from_micros(20);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(20);

/// An open database. Cheap to clone; all clones, and the tables, snapshots and transactions made from it, share it. It
/// is closed by [`Database::close`], or when the last of them is dropped, which does the same without a word about
/// errors: with an unlogged table that has changes only `close` tells whether its last flush went well.
///
/// # Processes
/// A database belongs to the process that opened it. In a child that was forked from that (by `fork`, not by
/// [`std::process::Command`], which goes on with another program) every read, write and close by an inherited handle
/// fails with [`ErrorKind::Forked`](crate::ErrorKind::Forked), no file is touched, and what is dropped is left as it
/// is, with its memory. The parent keeps the lock. The child may open other databases; this one, when the parent has
/// closed it.
///
/// ```
/// use spinney::{Batch, Database, Durability, Layout, Options, TableOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("db");
/// let db = Database::open(&path, Options::default().memory_bytes(16 << 20))?;
/// let orders = db.create_table("orders", TableOptions::default().layout(Layout::BTree))?;
/// let mut txn = db.begin();
/// txn.put(&orders, b"k1", b"coffee")?;
/// txn.commit()?;
/// let mut batch = Batch::new();
/// batch.put(&orders, b"k2", b"tea");
/// db.write_with(&batch, Durability::Buffered)?;
/// let snapshot = db.snapshot();
/// assert_eq!(snapshot.get(&orders, b"k1")?.as_deref(), Some(b"coffee".as_slice()));
/// for entry in snapshot.range(&orders, b"k".as_slice()..) {
///     let (key, value) = entry?;
///     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
/// }
/// drop(snapshot);
/// db.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Database {
    handle: DatabaseHandle,
}

impl Database {
    /// Opens the database in directory `path`, and creates it when there is none (unless [`DatabaseBuilder::create`]
    /// forbids it).
    ///
    /// # Errors
    /// `Invalid` for options out of range and for a path that is no directory or holds something else; `Locked` when
    /// another process has it open; `Unsupported` for a newer format; `Corruption` naming file and offset; `Io`,
    /// `Full`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::builder(path).options(options).open()
    }

    /// Opens the database in directory `path` to be read only: as it is now, also while another process has it open,
    /// and where nothing can be written. See [`DatabaseBuilder::open_read_only`].
    ///
    /// ```
    /// # use spinney::{Database, ErrorKind, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("db");
    /// let writer = Database::open(&path, Options::default())?;
    /// let table = writer.create_table("t", TableOptions::default())?;
    /// table.put("key", "old")?;
    /// // Elsewhere, in another process.
    /// let reader = Database::open_read_only(&path)?;
    /// let seen = reader.table("t")?.unwrap();
    /// table.put("key", "new")?;
    /// assert_eq!(seen.get("key")?.as_deref(), Some(&b"old"[..]));
    /// assert_eq!(seen.put("key", "mine").unwrap_err().kind(), ErrorKind::Unsupported);
    /// let reader = reader.refresh()?;
    /// assert_eq!(reader.table("t")?.unwrap().get("key")?.as_deref(), Some(&b"new"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`DatabaseBuilder::open_read_only`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open_read_only()
    }

    /// The database as it is now, opened to be read only with what this one was opened with. This one, its tables and
    /// its snapshots stay as they are, and keep what they need until they are dropped.
    ///
    /// # Errors
    /// `Unsupported` for a database that was opened to be written, which is always new; else as
    /// [`DatabaseBuilder::open_read_only`].
    pub fn refresh(&self) -> Result<Self> {
        let core = self.core();
        core.state.health.check_open()?;
        let Some(reader) = &core.reader else {
            let message =
                "the database was opened to be written and is always new: only one that is read only is refreshed";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let core = read_only::open_read_only(reader.source.clone())?;
        Ok(Self { handle: DatabaseHandle::new(core) })
    }

    /// Whether the database was opened by [`Database::open_read_only`].
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.core().reader.is_some()
    }

    /// Whether writes are taken now, without one: what a program tells that asks whether it is well.
    ///
    /// # Errors
    /// [`Poisoned`](crate::ErrorKind::Poisoned) with the failure after which no more is written,
    /// [`Closed`](crate::ErrorKind::Closed), [`Unsupported`](crate::ErrorKind::Unsupported) when the database was
    /// opened to be read only, [`Forked`](crate::ErrorKind::Forked).
    pub fn check_writable(&self) -> Result<()> {
        self.core().state.health.check_writable()
    }

    /// Opens a database with parts of the caller's choice.
    #[must_use]
    pub fn builder(path: impl AsRef<Path>) -> DatabaseBuilder {
        DatabaseBuilder {
            path: path.as_ref().to_path_buf(),
            options: Options::default(),
            create: true,
            env: None,
            registered: Registered::default(),
            on_replay: None,
        }
    }

    /// Cuts the damaged redo log of the database in `path` at the damage, so that it can be opened again: every commit
    /// before it is kept, everything behind it is given up. The report says what that is. The files that lose something
    /// are kept beside. Nothing is lost by a damaged header of a log segment whose records tell which one it is, nor by
    /// a damaged manifest whose copy is whole: both are written anew.
    ///
    /// # Errors
    /// `Invalid` when there is no database, or nothing to salvage: manifest and log are sound; `Locked` when another
    /// process has it open; `Corruption` of a manifest that its copy does not mend; `Unsupported`, `Io`, `Full`: the
    /// database then still refuses, or is salvaged.
    pub fn salvage(path: impl AsRef<Path>, mode: SalvageMode) -> Result<SalvageReport> {
        Self::builder(path).salvage(mode)
    }

    /// Copies all that can be read of the damaged database in `path` to the new directory `out`, as a database of its
    /// own, and says what is lost. The source is only read, and may lie where nobody can write. See
    /// [`DatabaseBuilder::salvage_to`].
    ///
    /// # Errors
    /// As [`DatabaseBuilder::salvage_to`].
    pub fn salvage_to(path: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<SalvagedCopy> {
        Self::builder(path).salvage_to(out, |_| ())
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        self.handle.core()
    }

    /// The table of this name, created with these options when there is none. A table that is there keeps the options
    /// that it was created with ([`Table::options`]).
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let people = db.open_or_create_table("people", TableOptions::default())?;
    /// people.put("ann", "42")?;
    /// assert_eq!(people.get("ann")?.as_deref(), Some(&b"42"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::create_table`].
    pub fn open_or_create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        loop {
            if let Some(table) = self.table(name)? {
                return Ok(table);
            }
            match self.create_table(name, options.clone()) {
                // Another thread was first, and may drop it again.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
    }

    /// Creates a table; it is durable when this returns.
    ///
    /// # Errors
    /// `AlreadyExists` when a table has the name; `Invalid` for a name that is empty or over 255 bytes, and for options
    /// out of range; `Io`, `Full`, `Poisoned`.
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        let created = self.core().tables.create_one(name, options)?;
        Ok(Table::new(self.handle.clone(), created))
    }

    /// Creates tables, all or none, by one record in the manifest; they are durable when this returns. For many tables
    /// it takes a small part of the time of [`Database::create_table`] for each. The handles come in the order of the
    /// names.
    ///
    /// ```
    /// # use spinney::{Database, Layout, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let options = TableOptions::default().layout(Layout::BTree);
    /// let tables = db.create_tables((0..1000).map(|number| (format!("user-{number}"), options.clone())))?;
    /// assert_eq!((tables.len(), tables[7].name()), (1000, "user-7"));
    /// db.drop_tables(tables.iter().map(|table| table.name()))?;
    /// assert!(db.tables()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::create_table`], of any of the tables; `AlreadyExists` also when a name comes twice. None is
    /// created then.
    pub fn create_tables<N: Into<String>>(
        &self,
        tables: impl IntoIterator<Item = (N, TableOptions)>,
    ) -> Result<Vec<Table>> {
        let wanted = tables.into_iter().map(|(name, options)| (name.into(), options)).collect();
        let created = self.core().tables.create(wanted)?;
        Ok(created.into_iter().map(|state| Table::new(self.handle.clone(), state)).collect())
    }

    /// The table of this name, if there is one.
    ///
    /// # Errors
    /// `Closed`.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        self.core().state.health.check_open()?;
        let state = self.core().state.tables.get(name);
        Ok(state.map(|state| Table::new(self.handle.clone(), state)))
    }

    /// All tables in the order of their names.
    ///
    /// # Errors
    /// `Closed`.
    pub fn tables(&self) -> Result<Vec<Table>> {
        self.core().state.health.check_open()?;
        Ok(self.core().state.tables.all().into_iter().map(|state| Table::new(self.handle.clone(), state)).collect())
    }

    /// Drops a table and gives its space back. Handles of it refuse every call from then on.
    ///
    /// # Errors
    /// `NotFound` when there is no such table; `Io`, `Full`, `Poisoned`.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_tables([name])
    }

    /// Drops tables, all or none, by one record in the manifest, and gives their space back, of many tables in the
    /// background: see [`Database::drop_table`] and, for an example, [`Database::create_tables`].
    ///
    /// # Errors
    /// `NotFound` when there is no table of one of the names, `Invalid` when a name comes twice: nothing is dropped
    /// then; `Io`, `Full`, `Poisoned`.
    pub fn drop_tables<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) -> Result<()> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.core().tables.drop(&names)
    }

    /// Begins a transaction, which sees the database as it is now.
    #[must_use]
    pub fn begin(&self) -> Transaction {
        Transaction::new(&self.handle, Isolation::Snapshot)
    }

    /// As [`Database::begin`], with the given isolation.
    ///
    /// ```
    /// # use spinney::{Database, ErrorKind, Isolation, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let on_call = db.open_or_create_table("on call", TableOptions::default())?;
    /// on_call.put("ann", "")?;
    /// on_call.put("bob", "")?;
    /// // Each may go while another is there.
    /// let mut ann = db.begin_with(Isolation::Serializable);
    /// let mut bob = db.begin_with(Isolation::Serializable);
    /// assert_eq!((ann.range(&on_call, ..).count(), bob.range(&on_call, ..).count()), (2, 2));
    /// ann.delete(&on_call, "ann")?;
    /// bob.delete(&on_call, "bob")?;
    /// ann.commit()?;
    /// assert_eq!(bob.commit().unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn begin_with(&self, isolation: Isolation) -> Transaction {
        Transaction::new(&self.handle, isolation)
    }

    /// Runs `body` in a transaction and commits it with the database's durability; both again, with a new transaction
    /// and after a growing pause, when either ends with `Conflict` or `Deadlock`.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let accounts = db.open_or_create_table("accounts", TableOptions::default())?;
    /// let balance = db.transact(|txn| {
    ///     let balance = txn.get(&accounts, "ann")?;
    ///     let balance = balance.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()));
    ///     txn.put(&accounts, "ann", (balance + 5).to_le_bytes())?;
    ///     Ok(balance + 5)
    /// })?;
    /// assert_eq!(balance, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What `body` says, which rolls the transaction back; what [`Transaction::commit`] says; `Conflict` or `Deadlock`
    /// when the hundredth try ends with it too.
    pub fn transact<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.transact_with(Isolation::Snapshot, body)
    }

    /// As [`Database::transact`], with the given isolation.
    ///
    /// # Errors
    /// As [`Database::transact`].
    pub fn transact_with<T>(
        &self,
        isolation: Isolation,
        mut body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let env = &self.core().state.env;
        let (mut pause, mut tries) = (RETRY_PAUSE_MIN, TRANSACT_TRIES);
        loop {
            let mut txn = self.begin_with(isolation);
            let told = match body(&mut txn) {
                Ok(done) => txn.commit().map(|()| done),
                Err(error) => {
                    txn.rollback();
                    Err(error)
                }
            };
            tries -= 1;
            match told {
                Err(error) if tries > 0 && matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Deadlock) => {}
                told => return told,
            }
            // A random part of the pause, so that transactions that met do not meet again.
            env.threads.sleep(pause.mul_f64((env.random.next() % 1024) as f64 / 1024.0));
            pause = (2 * pause).min(RETRY_PAUSE_MAX);
        }
    }

    /// A view of all tables as they are now. It costs nothing to hold but the space of what is overwritten meanwhile.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.handle.clone())
    }

    /// Keeps what is overwritten from now on, so that a [snapshot of any moment](History::snapshot_at) can be taken.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let table = db.create_table("t", TableOptions::default())?;
    /// let history = db.keep_history();
    /// table.put("k", "old")?;
    /// let moment = db.snapshot().seqnum();
    /// table.put("k", "new")?;
    /// let earlier = history.snapshot_at(moment).expect("it is within the history");
    /// assert_eq!(earlier.get(&table, "k")?.as_deref(), Some(&b"old"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keep_history(&self) -> History {
        History::new(self.handle.clone())
    }

    /// The newest time of a clock up to which all commits that it stamps are visible, and no later commit gets one as
    /// early. `goes_on` says that commits get their times here ([`Transaction::stamp`]), not elsewhere
    /// ([`Batch::stamp_given`]): while none is under way the time is that of the day.
    #[must_use]
    pub fn visible_time(&self, clock: &CommitClock, goes_on: bool) -> VisibleTime {
        let core = self.core();
        clock.look(goes_on, || (core.state.snapshots.published(), core.commits.log.durable(), ())).0
    }

    /// A view of all tables as they are now, with its time by a clock: it has all commits up to that time and none that
    /// is later. `goes_on` is that of [`Self::visible_time`].
    #[must_use]
    pub fn snapshot_with_time(&self, clock: &CommitClock, goes_on: bool) -> (Snapshot, VisibleTime) {
        let log = &self.core().commits.log;
        let (time, snapshot) = clock.look(goes_on, || {
            let snapshot = self.snapshot();
            (snapshot.seqnum(), log.durable(), snapshot)
        });
        (snapshot, time)
    }

    /// Applies a batch atomically, without looking at what it overwrites, with the database's
    /// [durability](Options::durability).
    ///
    /// # Errors
    /// `Invalid` for a bad change in the batch (nothing is applied); `TooLarge` when the batch is larger than
    /// memory allows; `Poisoned`, `Closed`, and `Io` when it is unknown whether the batch is durable.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, self.options().durability)
    }

    /// As [`Database::write`], with the given durability.
    ///
    /// # Errors
    /// As [`Database::write`].
    pub fn write_with(&self, batch: &Batch, durability: Durability) -> Result<()> {
        batch.commit(&self.handle, durability)
    }

    /// As [`Database::write_with`], of a batch with a [note](Batch::note). Later commits can repeat parts of the note
    /// without writing them again: see [`Batch::repeat`].
    ///
    /// # Errors
    /// As [`Database::write`]; `Invalid` for a batch without a note, and for one that repeats another note.
    pub fn write_note(&self, batch: &Batch, durability: Durability) -> Result<StoredNote> {
        batch.commit_note(&self.handle, durability)
    }

    /// Whether a commit that begins now may be slowed, or has to wait for a flush, because flushes and compactions do
    /// not keep up. For programs that commit in a thread that must not wait for these: a moment later it may be
    /// otherwise.
    #[must_use]
    pub fn write_may_wait(&self) -> bool {
        self.core().throttle.may_wait()
    }

    /// Writes the memtables of all tables to disk and returns when they are there. Those of tables with little in
    /// memory are written together, which takes a small part of the time of [`Table::flush`] for each.
    ///
    /// # Errors
    /// `Io`, `Full`, `Poisoned`, `Closed`.
    pub fn flush(&self) -> Result<()> {
        self.core().flusher.flush_database()
    }

    /// Makes everything committed so far durable, except what only [`Table::flush`] does: changes of unlogged tables.
    ///
    /// # Errors
    /// `Io`, `Full`, `Poisoned`, `Closed`.
    pub fn sync(&self) -> Result<()> {
        let core = self.core();
        core.state.health.check_writable()?;
        core.commits.force_log(core.commits.log.tail())
    }

    /// A feed of the commits that end after `from` in the redo log: [`Database::log_start`], [`Database::log_end`] or
    /// what [`ChangeFeed::resume_lsn`] told, also before the database was opened.
    ///
    /// # Errors
    /// `Gone` when the log does not reach back so far, naming the oldest position; `Invalid` for a position behind its
    /// end; `Closed`.
    pub fn changes(&self, from: Lsn) -> Result<ChangeFeed> {
        ChangeFeed::new(self.handle.clone(), from)
    }

    /// The oldest position from which [`Database::changes`] can begin now; 0 in a forked process.
    #[must_use]
    pub fn log_start(&self) -> Lsn {
        let core = self.core();
        if core.state.health.is_forked() {
            return Lsn::default();
        }
        core.commits.log.oldest()
    }

    /// The position up to which all commits are durable. After the database was closed, where its log ends.
    #[must_use]
    pub fn log_end(&self) -> Lsn {
        self.core().commits.log.durable()
    }

    /// Bytes of the redo log after a position that can be read: what a feed from there keeps. Differences of positions
    /// are more, since each open leaves a gap of 4 GiB between them.
    #[must_use]
    pub fn log_bytes_after(&self, position: Lsn) -> u64 {
        self.core().commits.log.bytes_after(position)
    }

    /// Copies the database, as of one moment, to a new directory that can be opened by itself. Writes go on meanwhile.
    /// Runs are linked, not copied, where the file system can.
    ///
    /// # Errors
    /// `AlreadyExists` when `dir` holds anything but what a checkpoint left that was killed; `Io`, `Full`, `Poisoned`.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport> {
        let Core { state, commits, flusher, .. } = &**self.core();
        checkpoint::checkpoint(state, commits, flusher, dir.as_ref(), None)
    }

    /// As [`Database::checkpoint`], and shares with an earlier checkpoint, in the directory `base`, what did not change
    /// since: runs and value files that cannot be linked from the database because it is on another file system, and
    /// B-trees that were not written. So checkpoints that are made one after the other on a file system for backups
    /// each take the space of what changed. Every checkpoint is complete: others can be removed, and each can be opened
    /// as a database, which first copies the B-trees that it shares.
    ///
    /// A damaged file of `base` is shared too: [`verify`](Database::verify) the checkpoint.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// db.open_or_create_table("t", TableOptions::default())?.put("key", "value")?;
    /// db.checkpoint(dir.path().join("monday"))?;
    /// let report = db.checkpoint_since(dir.path().join("tuesday"), dir.path().join("monday"))?;
    /// assert_eq!((report.linked_files, report.copied_files), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::checkpoint`]; `NotFound` when there is no checkpoint in `base`, `Invalid` when it is one of
    /// another database, `Locked` when it is open as a database.
    pub fn checkpoint_since(&self, dir: impl AsRef<Path>, base: impl AsRef<Path>) -> Result<CheckpointReport> {
        let Core { state, commits, flusher, .. } = &**self.core();
        checkpoint::checkpoint(state, commits, flusher, dir.as_ref(), Some(base.as_ref()))
    }

    /// Reads every block of every tree, the redo log and the manifest, and checks checksums, order, bounds, counts,
    /// levels, space and the directory. It goes on behind damage, and the report tells all that is wrong. Of a database
    /// that is read only the log was read and checked when it was opened, and is not read again.
    ///
    /// # Errors
    /// `Io` when a file or directory cannot be read at all, `Closed`.
    pub fn verify(&self) -> Result<VerifyReport> {
        let Core { state, commits, flusher, log_dir, reader, .. } = &**self.core();
        let opened = reader.as_ref().map(|reader| (reader.log, reader.manifest));
        verify::verify(state, &commits.log, flusher, &log_dir.path, opened)
    }

    /// Counters since the database was opened, and what it holds now; all zero in a forked process.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let core = self.core();
        if core.state.health.is_forked() { Stats::default() } else { Stats::of(core) }
    }

    /// The counters of the process that has the database in `path` open for writing, which tells them about once a
    /// second; `None` when there is none, when it has told nothing yet, and on Windows.
    ///
    /// # Errors
    /// `Io` when they cannot be read; `Corruption` when they are damaged, which hurts nothing else.
    pub fn live_stats(path: impl AsRef<Path>) -> Result<Option<LiveStats>> {
        Self::builder(path).live_stats()
    }

    /// The database's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.core().state.dir
    }

    /// The options it was opened with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.core().state.options
    }

    /// Ends background work, flushes unlogged tables, makes all commits durable and closes. From then on every other
    /// handle refuses with `Closed`, and whatever handles are left, the database's threads, file descriptors, memory
    /// and lock are given back: it can be opened again at once, in this process or another. Only a
    /// [`Range`](crate::Range) keeps the memory that it stands on until it is used again or dropped.
    ///
    /// # Errors
    /// What kept the last commits from becoming durable; `Poisoned` when an earlier write failed. The database is
    /// closed all the same.
    pub fn close(self) -> Result<()> {
        self.core().shut()
    }
}

debug_by!(Database, self => path: self.core().state.dir);

/// Opens a database with parts of the caller's choice: see [`Database::builder`].
#[derive(Clone)]
pub struct DatabaseBuilder {
    path: PathBuf,
    options: Options,
    create: bool,
    env: Option<Env>,
    registered: Registered,
    on_replay: Option<Arc<OnReplay>>,
}

impl DatabaseBuilder {
    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Has a listener told what the database does: opens, flushes, compactions, stalls, failures.
    ///
    /// ```
    /// use spinney::{Database, Event, EventListener, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("db");
    /// #[derive(Debug)]
    /// struct Print;
    /// impl EventListener for Print {
    ///     fn on_event(&self, event: &Event<'_>) {
    ///         if let Event::Flushed { table, bytes, duration, .. } = event {
    ///             println!("flushed {bytes} bytes of {table} in {duration:?}");
    ///         }
    ///     }
    /// }
    /// let db = Database::builder(&path).event_listener(Print).open()?;
    /// let table = db.create_table("t", TableOptions::default())?;
    /// table.put("key", "value")?;
    /// table.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn event_listener(mut self, listener: impl EventListener + 'static) -> Self {
        self.registered.events.set(Arc::new(listener));
        self
    }

    /// Whether the database is created when the directory has none. Unless told otherwise it is; else opening is then
    /// `Invalid`.
    #[must_use]
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Replaces the operating system, as tests do.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = Some(env);
        self
    }

    /// Registers a merge operator, so that tables can name it ([`TableOptions::merge`]). The name is stored with the
    /// table: what is registered under it must make of the operands that are there what it always did. The built-in
    /// operator [`add`](crate::tree::operator::Add) is registered already.
    ///
    /// A database opens without an operator that one of its tables names. Reads of keys with operands of it, and
    /// further merges and puts (whose values nobody could check), are then refused; flushes and compactions leave the
    /// operands as they are, and nothing is lost.
    #[must_use]
    pub fn merge_operator(mut self, name: impl Into<String>, operator: impl MergeOperator + 'static) -> Self {
        self.registered.operators.insert(name.into(), Arc::new(operator));
        self
    }

    /// Registers a compaction filter, so that tables can name it ([`TableOptions::compaction_filter`]).
    ///
    /// A database opens without a filter that one of its tables names: all values are kept then.
    #[must_use]
    pub fn compaction_filter(mut self, name: impl Into<String>, filter: impl CompactionFilter + 'static) -> Self {
        self.registered.filters.insert(name.into(), Arc::new(filter));
        self
    }

    /// Has `told` called while the redo log is replayed: at the beginning, after about every mebibyte of the log, and
    /// at the end; not at all when there is no log. It is called in the thread that opens, which waits for it.
    ///
    /// ```
    /// use spinney::Database;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("db");
    /// let progress = |now: spinney::ReplayProgress| eprintln!("{} of {} bytes replayed", now.bytes, now.bytes_total);
    /// let db = Database::builder(&path).on_replay(progress).open()?;
    /// # db.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_replay(mut self, told: impl Fn(ReplayProgress) + Send + Sync + 'static) -> Self {
        self.on_replay = Some(Arc::new(told));
        self
    }

    /// Salvages the database's log.
    ///
    /// # Errors
    /// As [`Database::salvage`].
    pub fn salvage(self, mode: SalvageMode) -> Result<SalvageReport> {
        salvage::salvage(&self.env.unwrap_or_else(Env::os), &self.path, mode)
    }

    /// Copies all that can be read of the database to the new directory `out`, and calls `told` from time to time
    /// meanwhile. Damaged blocks are skipped, and of each it is reported which keys it may have held. Operands of a
    /// merge operator that is not registered are copied as they are. Takes memory for the changes that are in the redo
    /// log only.
    ///
    /// # Errors
    /// `NotFound` when there is no database; `Invalid` when `out` lies within it; `AlreadyExists` when `out` holds
    /// anything but what a salvage left that was killed; `Locked` when another process has the database open, or
    /// salvages to `out`; `Corruption` when no manifest can be read, without which nothing can be salvaged;
    /// `Unsupported` for a newer format; `Io` and `Full` when the copy cannot be written, which is removed again
    /// then.
    pub fn salvage_to(self, out: impl AsRef<Path>, mut told: impl FnMut(SalvageProgress)) -> Result<SalvagedCopy> {
        let env = self.env.unwrap_or_else(Env::os);
        salvage_to::salvage_to(&env, &self.path, out.as_ref(), &self.registered, &mut told)
    }

    /// The counters of the process that has the database open.
    ///
    /// # Errors
    /// As [`Database::live_stats`].
    pub fn live_stats(self) -> Result<Option<LiveStats>> {
        live_stats::live_stats(&self.env.unwrap_or_else(Env::os), &self.path)
    }

    /// Removes the files of the database, if it has no table, or those that a failed creation left: for a program that
    /// fails right after it created the database, and wants to leave nothing behind. Directories stay.
    ///
    /// # Errors
    /// `Invalid` when the database has tables; `Locked` when it is open; `Corruption`, `Unsupported`, `Io`.
    pub fn discard(self) -> Result<()> {
        discard::discard(&self.env.unwrap_or_else(Env::os), &self.path)
    }

    /// Opens the database to be read only, as it is now. No lock is taken that keeps others out, nothing in its
    /// directory is changed, and no background work is done; another process may have it open for writing, or open it.
    /// What is seen is one moment of it: all commits that had been written to the redo log, durable or not, up to one
    /// of them, and nothing of the unlogged tables that was not flushed. It stays so: [`Database::refresh`] opens what
    /// has come since. Every call that would change something is refused with `Unsupported`.
    ///
    /// What is read is kept by a shared lock on a file (a lease), which the system takes back when the process ends,
    /// however it ends: a process that writes neither removes nor overwrites it until then, so that readers which
    /// are not refreshed cost space. Where the file system has no such locks, and on Windows, there is no lease, and
    /// reads may fail when another process writes meanwhile; a wrong value is never read.
    ///
    /// [`Options::memory_bytes`] holds for what is read; memory for what is in the redo log only is taken beside it.
    ///
    /// # Errors
    /// `NotFound` when there is no database; `Conflict` when its tables change faster than it is read;
    /// `Corruption` naming file and offset; `Unsupported` for a newer format; `Invalid`, `Io`.
    pub fn open_read_only(self) -> Result<Database> {
        let source = Source {
            env: self.env.unwrap_or_else(Env::os),
            path: self.path,
            options: self.options,
            registered: self.registered,
            on_replay: self.on_replay,
        };
        let core = read_only::open_read_only(source)?;
        Ok(Database { handle: DatabaseHandle::new(core) })
    }

    /// Opens the database.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open(self) -> Result<Database> {
        let env = self.env.unwrap_or_else(Env::os);
        let parts =
            opening::Parts { create: self.create, registered: self.registered, on_replay: self.on_replay.as_deref() };
        let handle = DatabaseHandle::new(opening::open(env, &self.path, self.options, parts)?);
        let core = Arc::downgrade(handle.core());
        let report = move || core.upgrade().map(|core| live_stats::encode(Stats::of(&core)));
        handle.core().housekeeper.report(Box::new(report));
        Ok(Database { handle })
    }
}

debug_by!(DatabaseBuilder, self => path: self.path, options: self.options);
