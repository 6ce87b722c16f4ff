//! The change feed: committed changes in their order, from the redo log.

use std::time::Duration;

use crate::base::{Error, ErrorKind, Lsn, Result, SeqNum};
use crate::log::{LogCursor, Logged};
use crate::txn::batch::{Change, Record};

use super::database::Database;

/// The longest a feed sleeps before it looks again, where no other thread could wake it.
const NAP: Duration = Duration::from_millis(1);

/// A feed of commits, in the order in which they became visible, each once: for copies elsewhere and for programs that
/// want to know what changed. It shows a commit when it is durable and visible, so nothing that a crash could take
/// back; a commit that is not forced to the device ([`Buffered`](super::Durability::Buffered)) when something later is.
///
/// While it is open the log is kept from its position on, of what no recovery needs at most
/// [`Options::log_bytes_max`](super::Options) bytes: then the log goes on without the feed, which fails.
///
/// ```
/// # use spinney::{Database, Options, TableOptions};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// let table = db.create_table("t", TableOptions::default())?;
/// let mut feed = db.changes(db.log_start())?;
/// let mut txn = db.begin();
/// txn.put(&table, b"key", b"value")?;
/// txn.commit()?;
/// while let Some(commit) = feed.poll()? {
///     for change in commit.changes() {
///         println!("{} {:?} {}", commit.lsn, change.kind, change.key.escape_ascii());
///     }
/// }
/// // To go on later, also after the database was closed: as long as the log is kept.
/// let position = feed.position();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ChangeFeed {
    db: Database,
    cursor: LogCursor,
}

/// A commit of a [`ChangeFeed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Where it stands in the log.
    pub lsn: Lsn,
    /// The position after it.
    pub end: Lsn,
    /// The place of its first change in the order of visibility; each later change has the next.
    pub seqnum: SeqNum,
    /// How many changes it has.
    pub count: u64,
    payload: Vec<u8>,
}

impl Commit {
    /// The seqnum of a commit's first change and how many it has, when all of it makes sense.
    fn place(logged: &Logged) -> Result<(SeqNum, u64)> {
        let malformed = || {
            let message = format!("the commit at position {} of the redo log makes no sense", logged.start);
            Error::new(ErrorKind::Corruption, message)
        };
        let record = Record::decode(&logged.payload).map_err(|_| malformed())?;
        let place = (record.first, record.count);
        record.for_each(malformed, |_, _| Ok(()))?;
        Ok(place)
    }

    /// The changes in their order.
    #[must_use]
    pub fn changes(&self) -> Vec<Change<'_>> {
        let mut changes = Vec::new();
        let all = Record::decode(&self.payload).ok().map(|record| {
            record.for_each(
                || (),
                |_, change| {
                    changes.push(change);
                    Ok(())
                },
            )
        });
        debug_assert_eq!(all, Some(Ok(())), "it was decoded when it was read");
        changes
    }
}

impl ChangeFeed {
    pub(crate) fn new(db: Database, from: Lsn) -> Result<Self> {
        let core = db.core();
        core.health.check_open()?;
        core.health.check_finished()?;
        let cursor = core.log().cursor(from, core.options.log_bytes_max)?;
        Ok(Self { db, cursor })
    }

    /// The next commit, or `None` when there is no other yet.
    ///
    /// # Errors
    /// `Gone` when the feed held back too much of the log: read the tables and begin a new one; `Corruption`, `Io`,
    /// `Closed`.
    pub fn poll(&mut self) -> Result<Option<Commit>> {
        let core = self.db.core();
        core.health.check_open()?;
        if !core.log().read_ahead(&mut self.cursor)? {
            return Ok(None);
        }
        let Some(next) = self.cursor.front() else { return Ok(None) };
        let (seqnum, count) = Commit::place(next)?;
        // It is durable, but its thread may not have shown it to readers yet.
        if SeqNum((seqnum.0 + count).saturating_sub(1)) > core.snapshots.published() {
            return Ok(None);
        }
        let Some(Logged { start: lsn, end, payload }) = self.cursor.take() else { return Ok(None) };
        Ok(Some(Commit { lsn, end, seqnum, count, payload }))
    }

    /// As [`ChangeFeed::poll`], but waits for a commit, at most so long.
    ///
    /// # Errors
    /// As [`ChangeFeed::poll`].
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Commit>> {
        let env = self.db.core().env.clone();
        let start = env.clock.now();
        loop {
            // Before the look, so that nothing comes unnoticed between the look and the sleep.
            let seen = self.db.core().publisher.news();
            if let Some(commit) = self.poll()? {
                return Ok(Some(commit));
            }
            let left = timeout.saturating_sub(env.clock.now().saturating_sub(start));
            if left.is_zero() {
                return Ok(None);
            }
            if env.threads.concurrent() {
                self.db.core().publisher.wait_for_news(seen, left);
            } else {
                env.threads.sleep(left.min(NAP));
            }
        }
    }

    /// The position after the last commit that was shown. A feed from there shows what follows.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.cursor.position()
    }
}

impl Drop for ChangeFeed {
    fn drop(&mut self) {
        let core = self.db.core();
        // A closed log keeps nothing for it any more.
        if core.health.check_open().is_ok() {
            core.log().end_cursor(&self.cursor);
        }
    }
}
