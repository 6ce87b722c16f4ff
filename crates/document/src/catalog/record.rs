//! What the log is told of commits in notes, and the names that collections had.
//!
//! # Format
//! Rows in the table of the catalog:
//!
//! - `#r`: the document `{time, lsn, position, cut}` of the moment since which all commits have notes, while that is
//!   so; `cut` where the clock was set back then.
//! - `#h-<table>-<time>`, in hexadecimal digits: `{ns, n, uuid, time}` for each table of a collection that was dropped
//!   or renamed then, as long as the log may have changes of before.
//! - `#p`, on a member of a replica set: the position and the time of the newest commit that was applied, u64 each,
//!   little-endian.
//!
//! The file `log_notes.rs` has the rows of sessions.
//!
//! # Concurrency
//! Locks that are each held for a moment and never together, but that of the copies: the thread that applies a commit
//! of a replica set holds it shared while it writes the commit, and a thread that reads at a time holds it alone while
//! it takes its snapshot.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering as AtomicOrdering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use spinney::{Batch, Durability, FeedWaker, LogPoints, Lsn, Snapshot, Table, TableId, Transaction};

use super::counts::{COUNTS, numbers_of, pair};
use super::log_notes::{
    self, KnownSession, KnownSessions, LOG_BYTES, NoteMark, SESSIONS, Seen, Since, UnknownCommit, UnknownCommits,
};
use super::recent_states::RecentStates;
use crate::base::{Environment, Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, Timestamp, Value};
use crate::notes::clock::just_behind;
use crate::notes::{ClusterClock, Note, SessionNote};

/// The first bytes of the keys of former names.
const PAST: &str = "#h-";

/// The key of the moment since which commits have notes.
const SINCE: &str = "#r";

/// The key of the position of a replica set.
pub(super) const POSITION: &str = "#p";

/// How far ahead of the time of day the times of a database may be, in seconds; further ahead they are set back.
const AHEAD_SECONDS_MAX: u32 = 24 * 3600 + 3600;

/// What a member shows that has no commit of its set yet: the first time that is none of those which stand for no time.
const TIME_MIN: Timestamp = Timestamp { time: 1, increment: 1 };

/// How far apart two commits may be in time that stand in the log in the other order, in seconds.
const DISORDER_SECONDS: u32 = 60;

/// A name that a collection had.
#[derive(Clone, Debug)]
pub struct Past {
    /// The table of its documents.
    pub table: TableId,
    /// The number of the collection.
    pub number: u64,
    /// The UUID.
    pub uuid: [u8; 16],
    /// The name, `database.collection`.
    pub namespace: String,
    /// When the name ended.
    pub until: Timestamp,
}

/// The names that collections had.
#[derive(Debug, Default)]
struct PastNames {
    /// By the tables, and when the names ended.
    by_table: BTreeMap<(TableId, Timestamp), Past>,
    /// When each name ended last.
    newest: HashMap<String, Timestamp>,
}

impl Extend<Past> for PastNames {
    fn extend<I: IntoIterator<Item = Past>>(&mut self, names: I) {
        for past in names {
            let newest = self.newest.entry(past.namespace.clone()).or_default();
            *newest = past.until.max(*newest);
            self.by_table.insert((past.table, past.until), past);
        }
    }
}

impl FromIterator<Past> for PastNames {
    fn from_iter<I: IntoIterator<Item = Past>>(names: I) -> Self {
        let mut all = Self::default();
        all.extend(names);
        all
    }
}

/// A cluster time in a database that was far ahead of the time of day when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The time.
    pub time: Timestamp,
    /// Whether the clock was set back to the time of day, and the history of changes begins anew; else the database is
    /// of a member of a replica set, whose other members have the time too, or open for reading only.
    pub is_set_back: bool,
}

/// Gives commits their times, and keeps what readers of the log need to know.
#[derive(Debug)]
pub struct Recorder {
    clock: ClusterClock,
    ahead: Option<Ahead>,
    since: Option<Since>,
    past: RwLock<PastNames>,
    sessions: Mutex<Sessions>,
    unknown: UnknownCommits,
    /// The newest time of a commit that was there at open.
    newest_at_open: Timestamp,
    /// Held while what sessions did is stored.
    storing: Mutex<()>,
    /// When the log ends behind this position, that is stored.
    store_at: AtomicU64,
    /// By the positions of commits of a replica set.
    positions: Mutex<LogPoints<u64>>,
    /// The newest position of a commit of a replica set that readers see; 0 when there was none.
    position: AtomicU64,
    /// How many streams wait for the next position, and what wakes them.
    waiting: Mutex<Option<(usize, FeedWaker)>>,
    /// How many copies of the database are made now. Held while a commit is written.
    copies: RwLock<usize>,
    recent: RecentStates,
}

/// A stream that waits.
#[derive(Debug)]
#[must_use]
pub struct Waiting<'r>(&'r Recorder);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        if let Some((streams, _)) = &mut *waiting {
            *streams -= 1;
        }
        waiting.take_if(|(streams, _)| *streams == 0);
    }
}

/// Is told what other members of a replica set have done in sessions.
pub trait SessionListener: fmt::Debug + Send + Sync {
    /// A commit was applied that was made in a session.
    fn remember(&self, note: SessionNote);

    /// What sessions did, and a position of the log that no commit of a session is before of which the session does not
    /// know yet; none where no commit is under way. It is called after the end of the log was read.
    fn done(&self) -> (Vec<KnownSession>, Option<Lsn>);
}

/// Sessions of commits, until somebody listens.
#[derive(Debug, Default)]
struct Sessions {
    /// What the log said of them at open, and commits since that nobody listened to.
    kept: KnownSessions,
    listeners: Vec<Weak<dyn SessionListener>>,
}

/// How many commits of a replica set are between two whose places in the log are remembered.
const POSITIONS_STEP: u64 = 256;

/// Whether a key of the catalog's table is one of a former name.
pub(super) fn is_past(key: &[u8]) -> bool {
    key.starts_with(PAST.as_bytes())
}

/// Whether a key of the catalog's table is one that each member of a replica set has for itself.
pub(super) fn is_own(key: &[u8]) -> bool {
    key == SINCE.as_bytes()
        || key == POSITION.as_bytes()
        || key.starts_with(SESSIONS.as_bytes())
        || key.starts_with(COUNTS.as_bytes())
}

/// Whether a key of the catalog's table is one of this file.
pub(super) fn is_record(key: &[u8]) -> bool {
    is_own(key) || is_past(key)
}

impl Recorder {
    /// Begins to record, if the options of the engine keep the log.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn open(
        engine: &spinney::Database,
        table: &Table,
        environment: &Arc<dyn Environment>,
        is_member: bool,
    ) -> Result<Self> {
        let clock = ClusterClock::new(Arc::clone(environment), is_member);
        let options = engine.options();
        let keeps = options.log_keep_bytes > 0 || options.log_keep_time > Duration::ZERO;
        let stored = table.get(SINCE)?;
        let stored = stored.as_deref().and_then(Document::from_checked_bytes).and_then(since_of);
        let mut past = read_past(table)?;
        let (position, time) = read_position(table)?;
        let mark = NoteMark::read(table)?;
        let mut seen = Seen::nothing(stored);
        if !engine.is_read_only() {
            seen = Seen::read(engine, table, stored, mark)?;
            seen.sessions.read(engine, table, clock.wall().time)?;
        }
        // A copy of a database has what the database had, and a log of its own.
        let is_of_log = |since: &Since| {
            engine.is_read_only() || engine.log_start() > since.lsn || seen.begin.is_some_and(|(_, met)| met)
        };
        let stored_of_log = stored.filter(is_of_log);
        let newest = past.iter().map(|past| past.until).chain(stored.map(|since| since.time)).chain([time]);
        let times = seen.times(stored_of_log.is_some());
        let newest = newest.fold(times.newest, Timestamp::max);
        let ahead = (newest.time > clock.wall().time.saturating_add(AHEAD_SECONDS_MAX))
            .then(|| Ahead { time: newest, is_set_back: !is_member && !engine.is_read_only() });
        let is_set_back = ahead.is_some_and(|ahead| ahead.is_set_back);
        // A member tells with each commit that it applies up to where it has those of the set.
        let complete = if is_member && position > 0 { time } else { newest };
        if !is_set_back {
            clock.advance(newest);
            clock.advance_visible(complete);
        }
        let goes_on = stored_of_log.is_some() && keeps && !is_set_back;
        let mark = mark.filter(|_| !engine.is_read_only());
        let store_at = go_on_from(engine, table, mark, goes_on && seen.by_mark, environment.random())?;
        let since = match stored_of_log {
            Some(since) if goes_on => Some(since),
            _ if keeps && !engine.is_read_only() => {
                // The time of day of a member says nothing of the commits that it lacks.
                let tick = clock.tick();
                let begins = if is_member { just_behind(complete.max(TIME_MIN)) } else { tick };
                let since = Since { time: begins, lsn: engine.log_end(), position, is_cut: is_set_back };
                Some(begin(engine, table, since)?)
            }
            _ => None,
        };
        if !engine.is_read_only() && (stored.is_some() || !past.is_empty()) {
            let oldest = times.oldest.filter(|_| keeps && !is_set_back);
            forget(engine, table, &mut past, oldest, stored.is_some() && !keeps)?;
        }
        let begun = if is_member { Some(TIME_MIN) } else { since.map(|since| since.time) };
        begun.into_iter().for_each(|begun| clock.advance_visible(begun));
        Ok(Self {
            clock,
            ahead,
            since,
            past: RwLock::new(past.into_iter().collect()),
            positions: Mutex::default(),
            position: AtomicU64::new(position),
            waiting: Mutex::default(),
            copies: RwLock::default(),
            recent: RecentStates::default(),
            sessions: Mutex::new(Sessions { kept: seen.sessions, listeners: Vec::new() }),
            unknown: UnknownCommits::default(),
            newest_at_open: if is_set_back { Timestamp::default() } else { newest },
            storing: Mutex::default(),
            store_at: AtomicU64::new(store_at.0),
        })
    }

    /// A cluster time that was more than a day ahead of the time of day at open.
    #[must_use]
    pub const fn ahead(&self) -> Option<Ahead> {
        self.ahead
    }

    /// No time is as late that was given honestly.
    #[must_use]
    pub fn far_ahead(&self) -> Timestamp {
        let wall = self.clock.wall();
        Timestamp { time: wall.time.saturating_add(AHEAD_SECONDS_MAX), ..wall }
    }

    /// The clock of the cluster time.
    #[must_use]
    pub const fn clock(&self) -> &ClusterClock {
        &self.clock
    }

    /// Tells a listener from now on what is done in sessions by other members of a replica set; at once, what the log
    /// said at open, and what was done since while nobody listened.
    pub fn listen(&self, listener: &Arc<dyn SessionListener>) {
        let mut sessions = self.sessions.lock();
        sessions.kept.notes().for_each(|note| listener.remember(note.clone()));
        sessions.listeners.push(Arc::downgrade(listener));
    }

    /// A commit of another member was applied that was made in a session.
    pub(super) fn remember(&self, note: SessionNote) {
        let listeners: Vec<_> = {
            let mut sessions = self.sessions.lock();
            sessions.listeners.retain(|listener| listener.strong_count() > 0);
            if sessions.listeners.is_empty() {
                sessions.kept.remember(KnownSession { note, used: self.clock.wall().time });
                return;
            }
            sessions.listeners.iter().filter_map(Weak::upgrade).collect()
        };
        listeners.iter().for_each(|listener| listener.remember(note.clone()));
    }

    /// Takes in what sessions did of which a listener will not tell any more.
    pub fn leave(&self, sessions: Vec<KnownSession>) {
        let mut kept = self.sessions.lock();
        sessions.into_iter().for_each(|session| kept.kept.remember(session));
    }

    /// A commit of the replica set is going to be applied. The sessions know of it when the guard is dropped.
    pub(super) fn applying(&self, engine: &spinney::Database) -> UnknownCommit<'_> {
        self.unknown.begin(engine)
    }

    /// Stores what sessions did when there is much log behind what is stored.
    pub(super) fn store_notes_when_due(&self, engine: &spinney::Database, table: &Table, random: impl FnOnce() -> u64) {
        // It orders nothing.
        if engine.log_end().0 < self.store_at.load(AtomicOrdering::Relaxed) || !self.is_on() || engine.is_read_only() {
            return;
        }
        if let Some(_storing) = self.storing.try_lock() {
            // The next operation tells what is wrong with the engine.
            drop(self.store_notes(engine, table, random(), false));
        }
    }

    /// Stores what sessions did for the next open: nothing is written after this.
    pub(super) fn store_last_notes(&self, engine: &spinney::Database, table: &Table, random: u64) {
        if self.is_on() && !engine.is_read_only() {
            // Where it is not stored, because the engine is closed already or cannot write, the log is read.
            drop(self.store_notes(engine, table, random, true));
        }
    }

    fn store_notes(
        &self,
        engine: &spinney::Database,
        table: &Table,
        random: u64,
        is_last: bool,
    ) -> spinney::Result<()> {
        // Before sessions are looked at: they know of the commits up to here.
        let end = engine.log_end();
        let newest = self.clock.newest_commit().max(self.newest_at_open);
        let mut position = end.min(self.unknown.from().unwrap_or(end));
        let mut known = KnownSessions::default();
        let listeners: Vec<_> = {
            let sessions = self.sessions.lock();
            sessions.kept.recent(self.clock.wall().time).for_each(|session| known.remember(session.clone()));
            sessions.listeners.iter().filter_map(Weak::upgrade).collect()
        };
        for listener in listeners {
            let (done, unknown_from) = listener.done();
            done.into_iter().for_each(|session| known.remember(session));
            position = position.min(unknown_from.unwrap_or(end));
        }
        let is_last = is_last && position == end;
        let mark = NoteMark { position, newest, random, row_bytes: 0, is_last };
        let mark = log_notes::store(engine, table, &known, mark)?;
        self.store_at.store(mark.passed_at().0, AtomicOrdering::Relaxed);
        Ok(())
    }

    /// Since when all commits have notes; nothing when they have none.
    #[must_use]
    pub const fn since(&self) -> Option<Since> {
        self.since
    }

    /// Whether commits have notes of what they change.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// A time for something that is no commit, later than all before.
    #[must_use]
    pub fn tick(&self) -> Timestamp {
        self.clock.tick()
    }

    /// Sets the note of a transaction. A note with a time gets that of the commit when the commit has its place in the
    /// log, or among the commits of the replica set.
    pub(crate) fn note(&self, txn: &mut Transaction, note: &Note) {
        txn.note(note.encode());
        if note.time.is_some() {
            txn.stamp(self.clock.commits(), Note::TIME_AT);
        }
    }

    /// A commit of a replica set is going to be written by a batch, at this position of the log or behind it.
    pub(super) fn writing(&self, time: Option<Timestamp>, position: u64, log_end: Lsn, batch: &mut Batch) {
        if let Some(time) = time {
            batch.stamp_given(self.clock.commits(), time.bits());
        }
        let mut positions = self.positions.lock();
        if positions.last().is_none_or(|last| last.saturating_add(POSITIONS_STEP) <= position) {
            positions.add(position, log_end);
        }
    }

    /// While the guard lives the number of copies stays, and a commit is written.
    pub(super) fn copies(&self) -> RwLockReadGuard<'_, usize> {
        self.copies.read()
    }

    /// Keeps the states of a member of a replica set from now on, so that it can be read at any time from now to later.
    /// Those of the last ten seconds are kept, until none is asked for in a minute.
    pub fn keep_states(&self, engine: &spinney::Database, now_ms: i64) {
        if !self.recent.is_kept(now_ms) {
            let _no_commit_is_written = self.copies.write();
            self.recent.keep(engine, self.clock.visible(engine).0, now_ms);
        }
    }

    /// The state of a member of a replica set at a time: it has all commits of the set up to then, and none that is
    /// later.
    ///
    /// # Errors
    /// `SnapshotUnavailable` (246) when the member has not applied all up to the time, `SnapshotTooOld` (239) when it
    /// has applied later ones and its state of then is not kept.
    pub fn state_at(&self, engine: &spinney::Database, time: Timestamp) -> Result<Snapshot> {
        let _no_commit_is_written = self.copies.write();
        let (snapshot, newest) = self.clock.snapshot(engine);
        if newest < time {
            let what = "this member does not have all commits up to the time yet: try again";
            return Err(Error::new(ErrorCode::SNAPSHOT_UNAVAILABLE, what));
        }
        let kept = if newest == time { Some(snapshot) } else { self.recent.at(time) };
        kept.ok_or_else(|| {
            let Timestamp { time, increment } = time;
            let what =
                format!("Read timestamp Timestamp({time}, {increment}) is older than the oldest available timestamp.");
            Error::new(ErrorCode::SNAPSHOT_TOO_OLD, what)
        })
    }

    /// A commit of a replica set is written: readers see it.
    pub(super) fn written(&self, engine: &spinney::Database, time: Option<Timestamp>) {
        time.into_iter().for_each(|time| self.recent.add(engine, time));
    }

    /// Keeps no states any more where none was asked for in a minute.
    pub(crate) fn sweep(&self, now_ms: i64) {
        self.recent.sweep(now_ms);
    }

    /// Has commits store what sessions do, and stores what they have done as far as the log says, for a copy of the
    /// database.
    pub(super) fn begin_copy(&self, engine: &spinney::Database, catalog: &Table) -> Result<()> {
        // The commits before this moment are in the log, and those after it store their notes.
        *self.copies.write() += 1;
        engine.sync()?;
        let (mut sessions, mut batch) = (Seen::whole(engine, None)?.sessions, Batch::new());
        // Those of the copy that this database began with, and those of before the log.
        sessions.read(engine, catalog, self.clock.wall().time)?;
        sessions.put(&mut batch, catalog);
        batch.exceeds_memory();
        Ok(engine.write(&batch)?)
    }

    /// A copy is made, or given up.
    pub(super) fn end_copy(&self) {
        *self.copies.write() -= 1;
    }

    /// Adds to a batch that a commit of a replica set is applied by it.
    pub(super) fn put_position(&self, batch: &mut Batch, catalog: &Table, position: u64, time: Option<Timestamp>) {
        let newest = self.clock.newest_commit().max(time.unwrap_or_default());
        batch.put(catalog, POSITION, pair(position, newest.bits()));
    }

    /// Readers see the commits of the replica set up to a position: wakes the streams that wait.
    pub(super) fn advance_position(&self, position: u64) {
        // Before the lock, within which a stream counts itself and behind which it looks at the position.
        self.position.fetch_max(position, AtomicOrdering::AcqRel);
        if let Some((_, waker)) = &*self.waiting.lock() {
            waker.wake();
        }
    }

    /// A stream waits for the next position until the answer is dropped.
    pub fn waiting(&self, waker: FeedWaker) -> Waiting<'_> {
        self.waiting.lock().get_or_insert((0, waker)).0 += 1;
        Waiting(self)
    }

    /// The newest position of a commit of a replica set that readers see; 0 when there was none.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position.load(AtomicOrdering::Acquire)
    }

    /// A place in the log before which no commit of a position or a later one stands, if one is remembered.
    #[must_use]
    pub fn before_position(&self, position: u64) -> Option<Lsn> {
        self.positions.lock().before(position)
    }

    /// A position of the log before which no commit of a time or later stands, if one is remembered.
    #[must_use]
    pub fn position_before(&self, time: Timestamp) -> Option<Lsn> {
        self.clock.commits().position_before(time.bits())
    }

    /// The name that a table's collection had at a time, when it has another one now or is dropped.
    #[must_use]
    pub fn past(&self, table: TableId, time: Timestamp) -> Option<Past> {
        let past = self.past.read();
        past.by_table.range((table, time)..).next().filter(|((of, _), _)| *of == table).map(|(_, past)| past.clone())
    }

    /// Whether a collection had a name at a time, or later, and does not have it any more.
    #[must_use]
    pub fn has_ended_since(&self, namespace: &str, time: Timestamp) -> bool {
        self.past.read().newest.get(namespace).is_some_and(|until| *until > time)
    }

    /// Writes, within a transaction, that a name ends at a time.
    pub(super) fn put_past(txn: &mut Transaction, catalog: &Table, past: &Past) -> spinney::Result<()> {
        let key = past_key(past.table, past.until);
        let row = doc! {
            "ns": past.namespace.as_str(), "n": past.number.cast_signed(), "uuid": Value::Binary(4, &past.uuid),
            "time": Value::Timestamp(past.until),
        };
        txn.put(catalog, key, row.as_bytes())
    }

    /// Remembers that a name has ended.
    pub(super) fn ended(&self, past: Past) {
        self.past.write().extend([past]);
    }
}

/// The key of a former name of a table, which ended then.
pub(super) fn past_key(table: TableId, until: Timestamp) -> String {
    format!("{PAST}{:08x}-{:016x}", table.0, until.bits())
}

fn since_of(row: Document<'_>) -> Option<Since> {
    match (row.get("time")?, row.get("lsn")?) {
        (Value::Timestamp(time), lsn) => {
            let position = row.get("position").and_then(|position| position.as_exact_i64()).unwrap_or_default();
            let lsn = Lsn(lsn.as_exact_i64()?.cast_unsigned());
            let is_cut = row.get("cut") == Some(Value::Bool(true));
            Some(Since { time, lsn, position: position.cast_unsigned(), is_cut })
        }
        _ => None,
    }
}

/// The position and the time of the newest commit of a replica set that was applied.
fn read_position(table: &Table) -> Result<(u64, Timestamp)> {
    let stored = table.get(POSITION)?;
    let Some(bytes) = stored.as_deref() else { return Ok((0, Timestamp::from_bits(0))) };
    // The next commit that is applied writes it anew, where it is malformed.
    let (position, time) = numbers_of(bytes).unwrap_or_default();
    Ok((position, Timestamp::from_bits(time)))
}

/// Writes durably that commits have notes from now on.
fn begin(engine: &spinney::Database, table: &Table, since: Since) -> Result<Since> {
    let row = doc! {
        "time": Value::Timestamp(since.time), "lsn": since.lsn.0.cast_signed(),
        "position": since.position.cast_signed(), "cut": since.is_cut,
    };
    let mut txn = engine.begin();
    txn.put(table, SINCE, row.as_bytes())?;
    if since.is_cut {
        // Of a former member of a replica set: the time would be set back at each start.
        txn.put(table, POSITION, pair(since.position, since.time.bits()))?;
    }
    txn.note(Note { time: Some(since.time), ..Note::default() }.encode());
    txn.commit_with(Durability::Sync)?;
    Ok(since)
}

fn read_past(table: &Table) -> Result<Vec<Past>> {
    let mut found = Vec::new();
    let mut rows = table.prefix(PAST);
    while let Some((key, row)) = rows.advance()? {
        let digits = key.get(PAST.len()..PAST.len() + 8).and_then(|digits| std::str::from_utf8(digits).ok());
        let table = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        found.extend(table.and_then(|table| past_of(TableId(table), Document::from_checked_bytes(row)?)));
    }
    Ok(found)
}

/// The former name that a row is of.
pub(super) fn past_of(table: TableId, row: Document<'_>) -> Option<Past> {
    let (Value::Binary(_, uuid), Value::Timestamp(until)) = (row.get("uuid")?, row.get("time")?) else { return None };
    Some(Past {
        table,
        number: row.get("n")?.as_exact_i64()?.cast_unsigned(),
        uuid: *uuid.first_chunk()?,
        namespace: row.get("ns")?.as_str()?.to_owned(),
        until,
    })
}

/// Replaces a mark that is the last one of a closed database, and removes one that does not count: a commit follows.
/// Where the log ends when the next mark is due.
fn go_on_from(
    engine: &spinney::Database,
    table: &Table,
    mark: Option<NoteMark>,
    counts: bool,
    random: u64,
) -> Result<Lsn> {
    match mark {
        Some(mark) if counts && mark.is_last => {
            let mark = NoteMark { position: engine.log_end(), random, is_last: false, ..mark };
            let mut batch = Batch::new();
            mark.put(&mut batch, table);
            engine.write(&batch)?;
            Ok(mark.passed_at())
        }
        Some(mark) if counts => Ok(mark.passed_at()),
        Some(_) => NoteMark::remove(engine, table).map(|()| engine.log_start().plus(LOG_BYTES)),
        None => Ok(engine.log_start().plus(LOG_BYTES)),
    }
}

/// Forgets the names that ended before the oldest time of the log, or all of them.
fn forget(
    engine: &spinney::Database,
    table: &Table,
    past: &mut Vec<Past>,
    oldest: Option<Timestamp>,
    stopped: bool,
) -> Result<()> {
    let keeps = |past: &Past| oldest.is_some_and(|oldest| past.until.time + DISORDER_SECONDS >= oldest.time);
    let mut txn = engine.begin();
    for gone in past.iter().filter(|past| !keeps(past)) {
        txn.delete(table, past_key(gone.table, gone.until))?;
    }
    if stopped {
        txn.delete(table, SINCE)?;
    }
    txn.commit()?;
    past.retain(keeps);
    Ok(())
}

/// An event of a collection for a note: `{op, ns, uuid, ..}`.
pub(super) fn event(op: &str, namespace: &str, uuid: [u8; 16]) -> crate::bson::DocumentBuilder {
    let mut builder = crate::bson::DocumentBuilder::new();
    builder.append("op", op).append("ns", namespace).append("uuid", Value::Binary(4, &uuid));
    builder
}

/// An event of a whole database.
pub(super) fn database_event(op: &str, database: &str) -> DocumentBuf {
    doc! {"op": op, "ns": database}
}
