//! What the notes of the log say when a database is opened: what sessions did, and the times of commits. Both are
//! stored in rows now and then, so that an open reads the log only behind them.
//!
//! # Format
//! Rows in the table of the catalog:
//!
//! - `#s-<position>` and `#s-e<number>`: notes of commits in sessions. The former are written by commits while the
//!   database is copied for another member, the latter are stored together.
//! - `#s-mark`: the rows `#s-e<number>` say what sessions did before a position of the log. 33 bytes, little-endian:
//!   the version 128; the position, the newest time of a commit before it and a random number, u64 each; bytes of the
//!   rows, u32; 1 for the last row that a database wrote before it was closed, else 0; three zeros. Earlier versions of
//!   the program remove the row, because its first byte is that of no note.
//!
//! # Recovery
//! The mark counts when the commit that wrote it is in the log behind the position, which it is not in a copy of the
//! database, or when the row is the last of a database that was closed. The next open replaces such a row before it
//! writes a note. Where no mark counts, the whole log is read.
//!
//! # Concurrency
//! A commit is durable before its session knows of it. So each thread that commits in a session first stores the end of
//! the log where the thread that stores rows finds it ([`SessionListener::done`], [`UnknownCommits`]): the position of
//! the mark is behind no commit that the rows may lack.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering as AtomicOrdering};

use spinney::{Batch, ErrorKind, Lsn, Table, prefix_range};

use crate::base::Result;
use crate::bson::Timestamp;
use crate::notes::{Note, SessionNote};

/// The first bytes of the keys of notes of sessions.
pub(super) const SESSIONS: &str = "#s-";

/// The first bytes of the keys of notes that are stored together.
const STORED: &str = "#s-e";

/// The key of the mark.
const MARK: &str = "#s-mark";

/// The first byte of the mark. Stored; never reuse.
const MARK_VERSION: u8 = 128;

/// For how many seconds sessions are remembered that do nothing.
const SESSION_SECONDS: u32 = 30 * 60;

/// How much log there may be behind the mark.
pub(super) const LOG_BYTES: u64 = 16 << 20;

/// How many bytes of log there are for each byte of the rows before these are stored again.
const LOG_PER_BYTE: u64 = 16;

/// Bytes of rows in one commit, unless one row has more.
const BATCH_BYTES: usize = 1 << 20;

/// A moment since which all commits have notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// The cluster time.
    pub time: Timestamp,
    /// The position in the log.
    pub lsn: Lsn,
    /// On a member of a replica set: the position of the newest commit that was applied by then.
    pub position: u64,
    /// Whether the history before was cut, because its times were far ahead of the time of day.
    pub is_cut: bool,
}

/// What a session did under its newest number, and when it was used last, in seconds since 1970.
#[derive(Clone, Debug)]
pub struct KnownSession {
    /// What it did.
    pub note: SessionNote,
    /// When it was used.
    pub used: u32,
}

/// What was done under the newest number of each session.
#[derive(Debug, Default)]
pub(super) struct KnownSessions(HashMap<([u8; 16], String), KnownSession>);

impl KnownSessions {
    /// Keeps what was done under the newest number of a session.
    pub(super) fn remember(&mut self, session: KnownSession) {
        match self.0.entry((session.note.id, session.note.user.clone())) {
            Entry::Vacant(entry) => drop(entry.insert(session)),
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.used = known.used.max(session.used);
                match known.note.txn_number.cmp(&session.note.txn_number) {
                    Ordering::Less => known.note = session.note,
                    Ordering::Equal => {
                        let is_new = |first: i32| known.note.outcomes.iter().all(|(known, ..)| *known != first);
                        let new: Vec<_> =
                            session.note.outcomes.into_iter().filter(|(first, ..)| is_new(*first)).collect();
                        known.note.outcomes.extend(new);
                    }
                    Ordering::Greater => {}
                }
            }
        }
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = &SessionNote> {
        self.0.values().map(|session| &session.note)
    }

    /// Those that were used lately enough.
    pub(super) fn recent(&self, now: u32) -> impl Iterator<Item = &KnownSession> {
        self.0.values().filter(move |session| !is_old(session.used, now))
    }

    /// Adds the notes of sessions that are stored, and removes the rows of old ones.
    pub(super) fn read(&mut self, engine: &spinney::Database, table: &Table, now: u32) -> Result<()> {
        let (mut rows, mut old) = (table.prefix(SESSIONS), Batch::new());
        while let Some((key, bytes)) = rows.advance()? {
            if key == MARK.as_bytes() {
                continue;
            }
            let note = Note::decode(bytes).and_then(|note| Some((note.time?.time, note.session?)));
            match note.filter(|(used, _)| !is_old(*used, now)) {
                Some((used, note)) => self.remember(KnownSession { note, used }),
                None => old.delete(table, key),
            }
        }
        Ok(engine.write(&old)?)
    }

    /// The rows of these sessions.
    pub(super) fn rows(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        (0_u64..).zip(self.0.values()).map(|(number, session)| {
            let time = Timestamp { time: session.used, increment: 1 };
            let note = Note { time: Some(time), session: Some(session.note.clone()), ..Note::default() };
            (format!("{STORED}{number:016x}"), note.encode())
        })
    }

    /// Adds to a batch that these sessions are the stored ones.
    pub(super) fn put(&self, batch: &mut Batch, table: &Table) {
        batch.delete_range(table, prefix_range(STORED));
        self.rows().for_each(|(key, row)| batch.put(table, key, row));
    }
}

fn is_old(used: u32, now: u32) -> bool {
    used.saturating_add(SESSION_SECONDS) < now
}

/// Adds the note of a session to a batch, for copies.
pub(super) fn put_session(batch: &mut Batch, table: &Table, note: &Note, position: u64) {
    if let (time, Some(session)) = (note.time, &note.session) {
        let note = Note { time, session: Some(session.clone()), ..Note::default() };
        batch.put(table, format!("{SESSIONS}{position:016x}"), note.encode());
    }
}

/// The row that says from where on the log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoteMark {
    pub(super) position: Lsn,
    /// No commit before the position is later.
    pub(super) newest: Timestamp,
    pub(super) random: u64,
    /// Bytes of the rows of sessions.
    pub(super) row_bytes: u32,
    pub(super) is_last: bool,
}

impl NoteMark {
    fn encode(self) -> Vec<u8> {
        let mut row = vec![MARK_VERSION];
        for number in [self.position.0, self.newest.bits(), self.random] {
            row.extend_from_slice(&number.to_le_bytes());
        }
        row.extend_from_slice(&self.row_bytes.to_le_bytes());
        row.extend_from_slice(&[self.is_last.into(), 0, 0, 0]);
        row
    }

    fn decode(row: &[u8]) -> Option<Self> {
        let row: &[u8; 33] = row.try_into().ok()?;
        let number = |at: usize| row[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let row_bytes = u32::from_le_bytes(*row[25..].first_chunk()?);
        (row[0] == MARK_VERSION && row[29] < 2 && row[30..] == [0; 3]).then_some(Self {
            position: Lsn(number(1)?),
            newest: Timestamp::from_bits(number(9)?),
            random: number(17)?,
            row_bytes,
            is_last: row[29] == 1,
        })
    }

    /// The mark of a database; none where it is malformed.
    pub(super) fn read(table: &Table) -> Result<Option<Self>> {
        Ok(table.get(MARK)?.as_deref().and_then(Self::decode))
    }

    pub(super) fn put(self, batch: &mut Batch, table: &Table) {
        batch.put(table, MARK, self.encode());
    }

    /// Removes the mark of a database: what it writes from now on has no notes.
    pub(super) fn remove(engine: &spinney::Database, table: &Table) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete(table, MARK);
        Ok(engine.write(&batch)?)
    }

    /// When the log ends behind this position, there is so much behind the mark that the rows are to be stored again.
    pub(super) fn passed_at(&self) -> Lsn {
        Lsn(self.position.0.saturating_add(LOG_BYTES.max(u64::from(self.row_bytes) * LOG_PER_BYTE)))
    }
}

/// Stores what sessions did before the position of a mark, and the mark.
pub(super) fn store(
    engine: &spinney::Database,
    table: &Table,
    sessions: &KnownSessions,
    mut mark: NoteMark,
) -> spinney::Result<NoteMark> {
    let (mut batch, mut bytes) = (Batch::new(), 0);
    // Where there are several commits, the rows are not whole before the last.
    batch.delete(table, MARK);
    batch.delete_range(table, prefix_range(STORED));
    for (key, row) in sessions.rows() {
        if bytes >= BATCH_BYTES {
            engine.write(&batch)?;
            (batch, bytes) = (Batch::new(), 0);
        }
        bytes += row.len();
        let row_bytes = u32::try_from(row.len()).unwrap_or(u32::MAX);
        mark.row_bytes = mark.row_bytes.saturating_add(row_bytes);
        batch.put(table, key, row);
    }
    // A command may have returned a document that is larger than a small memory allows.
    batch.exceeds_memory();
    mark.put(&mut batch, table);
    engine.write(&batch)?;
    Ok(mark)
}

/// What the notes in the log say.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) sessions: KnownSessions,
    /// The commit that began to record, and whether the log has it.
    pub(super) begin: Option<(Since, bool)>,
    /// Of all commits.
    all: Times,
    /// Of those since records began.
    since: Times,
    /// Whether the mark counts, and not the whole log was read.
    pub(super) by_mark: bool,
}

/// The times of commits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// The first one in the log.
    pub(super) oldest: Option<Timestamp>,
    pub(super) newest: Timestamp,
}

impl Times {
    fn add(&mut self, time: Timestamp) {
        self.oldest.get_or_insert(time);
        self.newest = self.newest.max(time);
    }
}

impl Seen {
    /// Nothing was read yet.
    pub(super) fn nothing(since: Option<Since>) -> Self {
        Self { begin: since.map(|since| (since, false)), ..Self::default() }
    }

    /// Reads the log behind the mark, and its first commit with a time; or the whole log where no mark counts.
    pub(super) fn read(
        engine: &spinney::Database,
        table: &Table,
        since: Option<Since>,
        mark: Option<NoteMark>,
    ) -> Result<Self> {
        if let (Some(mark), Some(since)) = (mark, since)
            && let Some(seen) = Self::behind(engine, table, since, mark)?
        {
            return Ok(seen);
        }
        Self::whole(engine, since)
    }

    /// Reads the whole log; again from its new start when it went on meanwhile.
    pub(super) fn whole(engine: &spinney::Database, since: Option<Since>) -> Result<Self> {
        let mut start = engine.log_start();
        loop {
            let mut seen = Self::nothing(since);
            match seen.read_from(engine, start, |_| ()) {
                Err(error) if error.kind() == ErrorKind::Gone && engine.log_start() > start => {
                    start = engine.log_start();
                }
                done => return Ok(done.map(|()| seen)?),
            }
        }
    }

    /// The times that count. Those of before records began may be ahead of these, where the clock was set back then.
    pub(super) const fn times(&self, begins: bool) -> Times {
        if begins { self.since } else { self.all }
    }

    /// What the mark and the log behind it say; nothing where the mark does not count.
    fn behind(engine: &spinney::Database, table: &Table, since: Since, mark: NoteMark) -> Result<Option<Self>> {
        let mut seen = Self { by_mark: true, ..Self::nothing(Some(since)) };
        let start = engine.log_start().max(since.lsn);
        let (stored, mut is_met) = (mark.encode(), mark.is_last);
        let read = seen.read_first(engine, start).and_then(|()| match mark.is_last {
            true => Ok(()),
            false => seen.read_from(engine, mark.position, |commit| {
                let is_mark = |change: &spinney::Change<'_>| {
                    change.table == table.id() && change.key == MARK.as_bytes() && change.value == stored
                };
                is_met = is_met || commit.changes().iter().any(is_mark);
            }),
        });
        match read {
            // The log was cut, or is another one.
            Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Invalid) => return Ok(None),
            read => read?,
        }
        for times in [&mut seen.all, &mut seen.since] {
            times.newest = times.newest.max(mark.newest);
        }
        Ok(is_met.then_some(seen))
    }

    /// Reads the first commit with a time, of those that end after a position.
    fn read_first(&mut self, engine: &spinney::Database, start: Lsn) -> spinney::Result<()> {
        for commit in engine.changes(start)? {
            let commit = commit?;
            if let Some(time) = Note::decode(commit.note()).and_then(|note| note.time) {
                self.add(commit.lsn, time);
                return Ok(());
            }
        }
        Ok(())
    }

    fn read_from(
        &mut self,
        engine: &spinney::Database,
        start: Lsn,
        mut visit: impl FnMut(&spinney::Commit),
    ) -> spinney::Result<()> {
        for commit in engine.changes(start)? {
            let commit = commit?;
            visit(&commit);
            let Some(note) = Note::decode(commit.note()) else { continue };
            if let Some(time) = note.time {
                self.add(commit.lsn, time);
            }
            if let Some(session) = note.session {
                let used = note.time.unwrap_or_default().time;
                self.sessions.remember(KnownSession { note: session, used });
            }
        }
        Ok(())
    }

    fn add(&mut self, lsn: Lsn, time: Timestamp) {
        self.all.add(time);
        if self.begin.is_none_or(|(begin, _)| begin.lsn <= lsn) {
            self.since.add(time);
        }
        self.begin.iter_mut().for_each(|(begin, met)| *met |= begin.time == time);
    }
}

/// Commits that may be in the log while their sessions do not know of them yet.
#[derive(Debug, Default)]
pub struct UnknownCommits {
    /// The position behind which the oldest of them stands, while there are any; else any former one.
    from: AtomicU64,
    /// How many threads may make one.
    count: AtomicUsize,
}

/// A commit that is going to be made. When it is dropped its session knows of it.
#[derive(Debug)]
pub struct UnknownCommit<'a>(&'a UnknownCommits);

impl UnknownCommits {
    /// A commit is going to be made.
    pub fn begin(&self, engine: &spinney::Database) -> UnknownCommit<'_> {
        let end = engine.log_end();
        // A thread that sees the count and a former position takes more commits for unknown than there are.
        if self.count.fetch_add(1, AtomicOrdering::AcqRel) == 0 {
            self.from.store(end.0, AtomicOrdering::Release);
        }
        UnknownCommit(self)
    }

    /// The position behind which the oldest of them stands, if there are any. Of a commit that ends before the end of
    /// the log that the caller has read, the session knows when this returns none.
    #[must_use]
    pub fn from(&self) -> Option<Lsn> {
        let is_any = self.count.load(AtomicOrdering::Acquire) > 0;
        is_any.then(|| Lsn(self.from.load(AtomicOrdering::Acquire)))
    }
}

impl Drop for UnknownCommit<'_> {
    fn drop(&mut self) {
        // Released to the thread that stores rows, which then finds what the session knows.
        self.0.count.fetch_sub(1, AtomicOrdering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back() {
        for is_last in [false, true] {
            let newest = Timestamp { time: 7, increment: 8 };
            let mark = NoteMark { position: Lsn(7 << 33), newest, random: 5 << 60, row_bytes: 9 << 20, is_last };
            assert_eq!(NoteMark::decode(&mark.encode()), Some(mark));
            assert!(Note::decode(&mark.encode()).is_none(), "earlier versions remove it");
            assert_eq!(NoteMark::decode(&mark.encode()[1..]), None);
        }
        assert_eq!(NoteMark::decode(&[0; 33]), None);
    }
}
