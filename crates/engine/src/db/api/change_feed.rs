//! The change feed: committed changes in their order, from the redo log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Error, ErrorKind, Lsn, Result, SeqNum, TableId};
use crate::log::{LogCursor, Logged};
use crate::txn::batch::{Change, Record};

use super::handle::DatabaseHandle;

/// The longest a feed sleeps before it looks again, where no other thread could wake it.
const NAP: Duration = Duration::from_millis(1);

/// A feed of commits, in the order in which they became visible, each once: for copies elsewhere and for programs that
/// want to know what changed. It shows a commit when it is durable and visible, so nothing that a crash could take
/// back; a commit that is not forced to the device ([`Buffered`](crate::Durability::Buffered)) when something later is.
///
/// While it is open the log is kept from its position on, of what no recovery needs at most
/// [`Options::log_bytes_max`](crate::Options) bytes, and `log_keep_bytes`: then the log goes on without the feed, which
/// fails.
///
/// As an iterator it shows the commits that are there, as [`ChangeFeed::poll`] does: its end is the newest commit, and
/// when there are further commits it goes on. [`ChangeFeed::wait`] waits for them.
///
/// ```
/// # use spinney::{Database, Options, TableOptions};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// let table = db.create_table("t", TableOptions::default())?;
/// let mut feed = db.changes(db.log_start())?;
/// table.put("key", "value")?;
/// for commit in &mut feed {
///     let commit = commit?;
///     for change in commit.changes() {
///         let table = commit.table_name(change.table).unwrap_or("a dropped table");
///         println!("{table}: {:?} {}", change.kind, change.key.escape_ascii());
/// #       assert_eq!(table, "t");
///     }
/// }
/// // To go on later, also after the database was closed: as long as the log is kept.
/// let position = feed.resume_lsn();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ChangeFeed {
    db: DatabaseHandle,
    cursor: LogCursor,
    names: Names,
}

/// Wakes the threads that wait in feeds of a database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FeedWaker(DatabaseHandle);

impl FeedWaker {
    /// Wakes all of them, so that they look again at what else they wait for.
    pub fn wake(&self) {
        self.0.core().state.publisher.announce_news();
    }
}

/// The names of the tables that a feed has met changes of; none for those that were dropped before.
type Names = Arc<BTreeMap<TableId, Option<String>>>;

/// A commit of a [`ChangeFeed`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// Where it stands in the log.
    pub lsn: Lsn,
    /// The position after it.
    pub end: Lsn,
    /// The place of its first change in the order of visibility; each later change has the next.
    pub seqnum: SeqNum,
    /// How many changes it has; none when it carries a note alone.
    pub count: u64,
    payload: Vec<u8>,
    names: Names,
}

impl Commit {
    /// The seqnum of a commit's first change and how many it has, when all of it makes sense. Each change's table is
    /// told to `on_table`.
    fn place(logged: &Logged, mut on_table: impl FnMut(TableId)) -> Result<(SeqNum, u64)> {
        let malformed = || {
            let message = format!("the commit at position {} of the redo log makes no sense", logged.start);
            Error::new(ErrorKind::Corruption, message)
        };
        let record = Record::decode(&logged.payload).map_err(|_| malformed())?;
        let place = (record.first, record.count);
        record.for_each(malformed, |_, change| {
            on_table(change.table);
            Ok(())
        })?;
        Ok(place)
    }

    /// The name of a table that the commit changes; `None` when the table was dropped before the feed came to the
    /// commit, and had not shown an earlier change of it.
    #[must_use]
    pub fn table_name(&self, table: TableId) -> Option<&str> {
        self.names.get(&table)?.as_deref()
    }

    /// The changes in their order.
    #[must_use]
    pub fn changes(&self) -> Vec<Change<'_>> {
        let mut changes = Vec::new();
        self.decode(|change| changes.push(change));
        changes
    }

    /// The note that the commit carries ([`Batch::note`](crate::Batch::note)); empty when it has none.
    #[must_use]
    pub fn note(&self) -> &[u8] {
        self.decode(|_| ())
    }

    fn decode<'a>(&'a self, mut visit: impl FnMut(Change<'a>)) -> &'a [u8] {
        let decoded = Record::decode(&self.payload).map_err(|_| ()).and_then(|record| {
            record.for_each(
                || (),
                |_, change| {
                    visit(change);
                    Ok(())
                },
            )
        });
        debug_assert!(decoded.is_ok(), "it was decoded when it was read");
        decoded.unwrap_or_default()
    }
}

impl ChangeFeed {
    pub(crate) fn new(db: DatabaseHandle, from: Lsn) -> Result<Self> {
        let core = db.core();
        core.state.health.check_open()?;
        let options = &core.state.options;
        // What the options keep is kept without the feed.
        let pinned_bytes_max = options.log_bytes_max.saturating_add(options.log_keep_bytes);
        let cursor = core.commits.log.cursor(from, pinned_bytes_max)?;
        Ok(Self { db, cursor, names: Names::default() })
    }

    /// The next commit, or `None` when there is no other yet.
    ///
    /// # Errors
    /// `Gone` when the feed held back too much of the log: read the tables and begin a new one; `Corruption`, `Io`,
    /// `Closed`.
    pub fn poll(&mut self) -> Result<Option<Commit>> {
        let core = self.db.core();
        core.state.health.check_open()?;
        if !core.commits.log.read_ahead(&mut self.cursor)? {
            return Ok(None);
        }
        let Some(next) = self.cursor.front() else { return Ok(None) };
        let (names, mut unnamed) = (&self.names, Vec::new());
        let (seqnum, count) = Commit::place(next, |table| {
            if !names.contains_key(&table) && !unnamed.contains(&table) {
                unnamed.push(table);
            }
        })?;
        // It is durable, but its thread may not have shown it to readers yet.
        // A note alone has a seqnum too.
        if SeqNum((seqnum.0 + count.max(1)).saturating_sub(1)) > core.state.snapshots.published() {
            return Ok(None);
        }
        let Some(Logged { start: lsn, end, payload }) = self.cursor.take() else { return Ok(None) };
        if !unnamed.is_empty() {
            let tables = self.db.core().state.tables.all();
            let name = |id| tables.iter().find(|state| state.id == id).map(|state| state.name.clone());
            Arc::make_mut(&mut self.names).extend(unnamed.into_iter().map(|id| (id, name(id))));
        }
        Ok(Some(Commit { lsn, end, seqnum, count, payload, names: Arc::clone(&self.names) }))
    }

    /// As [`ChangeFeed::poll`], but waits for a commit, at most for `timeout`.
    ///
    /// # Errors
    /// As [`ChangeFeed::poll`].
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<Commit>> {
        let env = self.db.core().state.env.clone();
        let start = env.clock.now();
        loop {
            // Before the look, so that nothing comes unnoticed between the look and the sleep.
            let seen = self.news();
            if let Some(commit) = self.poll()? {
                return Ok(Some(commit));
            }
            let left = timeout.saturating_sub(env.clock.now().saturating_sub(start));
            if left.is_zero() {
                return Ok(None);
            }
            self.wait_for_news(seen, left);
        }
    }

    /// Wakes the threads that wait in feeds of the database.
    #[must_use]
    pub fn waker(&self) -> FeedWaker {
        FeedWaker(self.db.clone())
    }

    /// A number that is another one whenever there may be another commit, and after [`FeedWaker::wake`]. To be read
    /// before a look at what a thread waits for.
    #[must_use]
    pub fn news(&self) -> u64 {
        self.db.core().state.publisher.news()
    }

    /// Waits until [`ChangeFeed::news`] is not `seen` any more, at most for `timeout`. The thread may wake for nothing.
    pub fn wait_for_news(&self, seen: u64, timeout: Duration) {
        let state = &self.db.core().state;
        if state.env.threads.concurrent() {
            state.publisher.wait_for_news(seen, timeout);
        } else {
            state.env.threads.sleep(timeout.min(NAP));
        }
    }

    /// Whether there is something in the log that no feed shows yet, as it is not durable:
    /// [`Database::sync`](crate::Database::sync) makes it so.
    #[must_use]
    pub fn awaits_sync(&self) -> bool {
        let log = &self.db.core().commits.log;
        log.durable() < log.tail()
    }

    /// The position after the last commit that was shown. A feed from there shows what follows.
    #[must_use]
    pub fn resume_lsn(&self) -> Lsn {
        self.cursor.position()
    }
}

impl Iterator for ChangeFeed {
    type Item = Result<Commit>;

    fn next(&mut self) -> Option<Self::Item> {
        self.poll().transpose()
    }
}

impl Drop for ChangeFeed {
    fn drop(&mut self) {
        let core = self.db.core();
        // A closed log keeps nothing for it any more.
        if core.state.health.check_open().is_ok() {
            core.commits.log.end_cursor(&self.cursor);
        }
    }
}
