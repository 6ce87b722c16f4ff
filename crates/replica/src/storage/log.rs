//! The replicated log of a member, in the redo log of its database.
//!
//! Entries are appended in memory, where they can be read at once, and made durable later: all that wait, by one commit
//! whose note holds them. The newest stay in memory; older ones are read back from the redo log.
//!
//! # Concurrency
//! One thread writes at a time: that of the consensus, which saves two changes of threads for each commit, or a worker
//! where the write may take long enough to delay heartbeats ([`Log::write_here`]).
//!
//! # Invariants
//! 1. Entries are called durable only after the commit that holds them, and all before it, were synced.
//! 2. An entry that is not durable is in memory.
//! 3. Nothing is written behind entries that could not be written: the redo log has no gap. Those for which there is no
//!    room wait, and the worker tries again; after another error nothing is written any more.
//!
//! # Recovery
//! The notes of the redo log are read in their order; each entry takes the place of what had its index, and of all
//! behind it. So entries that were replaced without a trace, because the process died before the new ones were written,
//! come back. That is the state before the replacement, which nobody was told of.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spinney::base::num::{u64_of, usize_of};
use spinney::env::{Next, Threads, Worker};
use spinney::{Batch, ChangeFeed, Durability, Error, ErrorKind, Lsn, Result};

use super::cached_entries::CachedEntries;
use super::points::{Known, Points};
use super::recovery::{Recovered, malformed, recover};
use super::rows::Rows;
use super::stored_entries::StoredEntries;
use crate::entry::log_entry::{LogEntry, LogId, decode_note, encode_note};

/// Bytes of entries in one commit, at the most; a larger entry goes alone.
const COMMIT_BYTES_MAX: usize = 8 << 20;

/// The part of the engine's memory that the entries of one commit may have; also the part that the newest entries may
/// have that stay in memory, and those that were written and not applied.
const MEMORY_PART: u64 = 4;

/// What is known of the log is stored so many times in what the engine keeps of the redo log, but for very little.
const STORED_PART: u64 = 16;
const STORED_BYTES_MIN: u64 = 64 << 10;

/// How many commits the worker makes after one of the consensus's thread took long.
const SLOW_COMMITS: u32 = 64;

/// After what time the worker tries again to write entries for which there was no room.
const RETRY: Duration = Duration::from_secs(1);

/// Why the primary's log cannot take the place of what a member has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// The last entry that this member knows to be committed.
    pub(crate) at: LogId,
    /// What the primary has, and what this member has.
    pub(crate) why: String,
}

/// Told when entries are durable, or why they are not.
pub(crate) type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// The replicated log. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    shared: Arc<Shared>,
    worker: Arc<dyn Worker>,
}

#[derive(Debug)]
struct Shared {
    rows: Rows,
    stored: StoredEntries,
    cache_bytes: usize,
    /// Bytes of entries in one commit, at the most; a larger entry goes alone.
    commit_bytes: usize,
    /// Whether threads run at the same time.
    concurrent: bool,
    state: Mutex<State>,
}

/// Which thread writes what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Writer {
    /// Nothing waits.
    #[default]
    Nobody,
    /// The thread that appended.
    Caller,
    /// The worker.
    Worker,
}

/// What was written of what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    All,
    /// More waits.
    Part,
    /// Nothing: there is no room now.
    LacksRoom,
}

type Waiting = (Arc<LogEntry>, Option<Done>);

#[derive(Default)]
struct State {
    purged: Option<LogId>,
    /// The newest entries, up to the last of the log.
    cached: CachedEntries,
    /// The last entry of the log, also when it is not cached.
    last: Option<LogId>,
    /// Entries that wait to be written, each with what is called when it and those before it are durable.
    waiting: VecDeque<Waiting>,
    writer: Writer,
    /// How many commits the worker makes yet, since the device is slow.
    slow: u32,
    /// Why entries could not be written. No later ones are: the consensus ends by it.
    failure: Option<String>,
    /// What the engine said when there was no room for the entries that wait.
    lacks: Option<String>,
    /// The first index that may not be durable: entries from there on stay cached.
    undurable: u64,
    /// The last entry that is known to be committed.
    committed: Option<LogId>,
    damage: Option<Damage>,
    points: Points,
    /// The last entry that was written.
    written: Option<LogId>,
    /// Bytes of entries that were written since what is known of the log was stored.
    unstored: u64,
    /// Keeps the redo log from the first point on.
    pin: Option<ChangeFeed>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("purged", &self.purged).field("last", &self.last).finish_non_exhaustive()
    }
}

impl Log {
    /// The log that a database has.
    ///
    /// # Errors
    /// Those of the engine; `Corruption` when the redo log does not reach back to the entries that were not applied.
    pub(crate) fn open(rows: Rows, cache_bytes: usize, threads: &dyn Threads) -> Result<Self> {
        let memory = usize_of(rows.engine().options().memory_bytes / MEMORY_PART);
        let (cache_bytes, commit_bytes) = (cache_bytes.min(memory), COMMIT_BYTES_MAX.min(memory));
        let Recovered { purged, last, points, cached, pin } = recover(&rows, cache_bytes)?;
        let (undurable, pin) = (last.map_or(0, |last| last.index + 1), Some(pin));
        let committed = rows.applied()?;
        let state =
            State { purged, last, written: last, points, cached, undurable, committed, pin, ..State::default() };
        let (stored, concurrent) = (StoredEntries::new(memory), threads.concurrent());
        let shared = Arc::new(Shared { rows, stored, cache_bytes, commit_bytes, concurrent, state: Mutex::new(state) });
        let worked = Arc::clone(&shared);
        let worker = threads.worker("replica-log", Box::new(move || worked.work()));
        let worker = worker.map_err(|error| Error::new(ErrorKind::Io, format!("no thread for the log: {error}")))?;
        Ok(Self { shared, worker: worker.into() })
    }

    /// The rows beside the log.
    pub(crate) fn rows(&self) -> &Rows {
        &self.shared.rows
    }

    /// Where entries are stored, for what applies them.
    pub(crate) fn stored(&self) -> &StoredEntries {
        &self.shared.stored
    }

    /// The last entry that was given up, and the last of the log.
    pub(crate) fn ends(&self) -> (Option<LogId>, Option<LogId>) {
        let state = self.shared.state.lock();
        (state.purged, state.last.max(state.purged))
    }

    /// Appends entries, of which there is one at least, behind the last one. They can be read when this returns; `done`
    /// is called when they are durable. Whether the caller has to have them written, by [`Self::write_here`] or
    /// [`Self::write_by_worker`]; else that is under way.
    #[must_use]
    pub(crate) fn append(&self, entries: Vec<LogEntry>, done: Done) -> bool {
        let entries: Vec<Arc<LogEntry>> = entries.into_iter().map(Arc::new).collect();
        let mut state = self.shared.state.lock();
        for entry in &entries {
            debug_assert!(state.last.is_none_or(|last| last.index + 1 == entry.id.index), "a gap in the log");
            state.last = Some(entry.id);
            state.cached.push(Arc::clone(entry));
        }
        let mut waiting = entries.into_iter().rev();
        let last = waiting.next().map(|entry| (entry, Some(done)));
        state.waiting.extend(waiting.rev().map(|entry| (entry, None)).chain(last));
        let idle = state.writer == Writer::Nobody;
        if idle {
            state.writer = Writer::Caller;
        }
        idle
    }

    /// Writes some of what waits, in this thread; whether more waits. Has the worker write it where that may take long:
    /// when the engine slows writers, and after [`Self::was_slow`].
    pub(crate) fn write_here(&self) -> bool {
        let slow = self.shared.state.lock().slow > 0 || self.shared.rows.engine().write_may_wait();
        if slow {
            self.write_by_worker();
            return false;
        }
        match self.shared.write_waiting() {
            Written::All => false,
            Written::Part => true,
            Written::LacksRoom => {
                self.write_by_worker();
                false
            }
        }
    }

    /// What the engine says, while there is no room for entries.
    pub(crate) fn lacks(&self) -> Option<String> {
        self.shared.state.lock().lacks.clone()
    }

    /// Has the worker write what waits.
    pub(crate) fn write_by_worker(&self) {
        self.shared.state.lock().writer = Writer::Worker;
        self.worker.wake();
    }

    /// A write in the caller's thread took long: the worker makes the next ones.
    pub(crate) fn was_slow(&self) {
        self.shared.state.lock().slow = SLOW_COMMITS;
    }

    /// Whether entries wait for [`Self::write_here`].
    pub(crate) fn waits_for_caller(&self) -> bool {
        self.shared.state.lock().writer == Writer::Caller
    }

    /// Takes note that the entries up to `id` are committed: they are never given up for others.
    pub(crate) fn committed(&self, id: LogId) {
        let mut state = self.shared.state.lock();
        state.committed = state.committed.max(Some(id));
    }

    /// Why this log and that of the primary disagree, if they do.
    pub(crate) fn damage(&self) -> Option<Damage> {
        self.shared.state.lock().damage.clone()
    }

    /// Looks at the place of an entry of the primary.
    ///
    /// # Errors
    /// `Corruption` when this log has another entry there, which is committed: see [`Self::truncate_after`].
    pub(crate) fn check_primary(&self, theirs: LogId) -> Result<()> {
        let mut state = self.shared.state.lock();
        // The terms of a log ascend.
        match state.committed.filter(|at| theirs.index <= at.index && theirs.term > at.term) {
            Some(at) => Err(state.refuse(at, &theirs.to_string())),
            None => Ok(()),
        }
    }

    /// Forgets the entries behind `last`.
    ///
    /// # Errors
    /// `Corruption` when one of them is committed: this log, or that of the primary, has lost what it had acknowledged.
    /// Nothing is forgotten then, and [`Self::damage`] tells of it.
    pub(crate) fn truncate_after(&self, last: Option<LogId>) -> Result<()> {
        let end = last.map_or(0, |last| last.index + 1);
        let mut state = self.shared.state.lock();
        if state.last.is_none_or(|last| last.index < end) {
            return Ok(());
        }
        if let Some(at) = state.committed.filter(|committed| committed.index >= end) {
            let theirs = last.map_or_else(|| "from the first on".to_owned(), |last| format!("behind {last}"));
            return Err(state.refuse(at, &format!("other entries {theirs}")));
        }
        state.cached.truncate(end);
        state.last = last;
        state.undurable = state.undurable.min(end);
        Ok(())
    }

    /// Gives up the entries up to `id`.
    pub(crate) fn purge(&self, id: LogId) -> Result<()> {
        let engine = self.shared.rows.engine();
        let from = {
            let mut state = self.shared.state.lock();
            state.purged = state.purged.max(Some(id));
            if state.last.is_none_or(|last| last < id) {
                // The log begins anew behind a copy of the database.
                state.last = Some(id);
                state.undurable = id.index + 1;
                state.points.clear();
            }
            state.points.purge(id.index + 1);
            state.cached.purge(id.index + 1);
            // Entries that are written later get a point that is not before the end of now.
            state.points.first().map_or_else(|| engine.log_end(), |point| point.lsn)
        };
        self.shared.rows.set_purged(id, from, Durability::Buffered)?;
        // When the log does not reach back so far any more, nothing is there to be pinned.
        let pin = engine.changes(from).ok();
        self.shared.state.lock().pin = pin;
        Ok(())
    }

    /// Whether [`Self::read`] of entries from `index` on reads files, where other threads can wait for them.
    pub(crate) fn reads_files(&self, index: u64) -> bool {
        let state = self.shared.state.lock();
        let is_there = state.last.is_some_and(|last| index <= last.index);
        self.shared.concurrent && is_there && state.cached.first().is_none_or(|first| index < first)
    }

    /// The entries of `range` that the log has, all of them when `bytes_max` allows; the first one always.
    ///
    /// # Errors
    /// `Gone` when the redo log does not hold an entry any more that should be there; those of the engine.
    pub(crate) fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Arc<LogEntry>>> {
        let mut entries: Vec<Arc<LogEntry>> = Vec::new();
        let (mut next, mut bytes) = (range.start, 0);
        loop {
            let segment = {
                let state = self.shared.state.lock();
                let cached_from = state.cached.first().unwrap_or(u64::MAX);
                let stored_from = state.points.first().map_or(u64::MAX, |point| point.index);
                next = next.max(state.purged.map_or(stored_from.min(cached_from), |purged| purged.index + 1));
                let end = range.end.min(state.last.map_or(0, |last| last.index + 1));
                if next >= cached_from {
                    for entry in state.cached.range(next..end) {
                        bytes += entry.bytes();
                        if bytes > bytes_max && !entries.is_empty() {
                            break;
                        }
                        entries.push(Arc::clone(entry));
                    }
                    return Ok(entries);
                }
                if next >= end {
                    return Ok(entries);
                }
                let (point, after) = state.points.around(next).ok_or_else(|| gone(next))?;
                let stop = after.map_or(end, |after| after.index).min(end).min(cached_from);
                (point.lsn, after.map(|after| after.lsn), next..stop)
            };
            for entry in self.shared.read_segment(segment.0, segment.1, segment.2)? {
                bytes += entry.bytes();
                if bytes > bytes_max && !entries.is_empty() {
                    return Ok(entries);
                }
                next = entry.id.index + 1;
                entries.push(Arc::new(entry));
            }
        }
    }

    /// Bytes of redo log that are held for other members.
    pub(crate) fn held_bytes(&self) -> u64 {
        let first = self.shared.state.lock().points.first();
        first.map_or(0, |point| self.shared.rows.engine().log_bytes_after(point.lsn))
    }

    /// The index of an entry from which on at least `bytes` of redo log are held, or half of what the engine keeps for
    /// a feed, so that it never lets go of an entry before the log does.
    pub(crate) fn index_holding(&self, bytes: u64) -> Option<u64> {
        let engine = self.shared.rows.engine();
        let options = engine.options();
        let bytes = bytes.min(options.log_bytes_max.saturating_add(options.log_keep_bytes) / 2);
        let point = self.shared.state.lock().points.last_where(|lsn| engine.log_bytes_after(lsn) >= bytes);
        point.map(|point| point.index)
    }
}

impl Shared {
    /// The entries of `range`, which all stand between two positions.
    fn read_segment(&self, from: Lsn, to: Option<Lsn>, range: Range<u64>) -> Result<Vec<LogEntry>> {
        let mut found: Vec<LogEntry> = Vec::new();
        for commit in self.rows.engine().changes(from)? {
            let commit = commit?;
            if to.is_some_and(|to| commit.lsn >= to) {
                break;
            }
            for entry in decode_note(commit.note()).map_err(|_| malformed(commit.lsn))? {
                // It takes the place of what had its index, and of all behind that.
                found.truncate(found.partition_point(|known| known.id.index < entry.id.index));
                if range.contains(&entry.id.index) {
                    found.push(entry);
                }
            }
        }
        let whole = u64_of(found.len()) == range.end - range.start;
        let in_order = found.iter().zip(range.clone()).all(|(entry, index)| entry.id.index == index);
        if whole && in_order { Ok(found) } else { Err(gone(range.start)) }
    }

    /// The work of the worker.
    fn work(&self) -> Next {
        {
            let mut state = self.state.lock();
            if state.writer != Writer::Worker {
                return Next::Wait;
            }
            state.slow = state.slow.saturating_sub(1);
        }
        match self.write_waiting() {
            Written::All => Next::Wait,
            Written::Part => Next::Again,
            Written::LacksRoom => Next::WaitAtMost(RETRY),
        }
    }

    /// Makes durable what waits, or its first part. When that was all, the next append needs a writer.
    fn write_waiting(&self) -> Written {
        let (taken, failure) = {
            let mut state = self.state.lock();
            (state.take_waiting(self.commit_bytes), state.failure.clone())
        };
        let entries: Vec<_> = taken.iter().map(|(entry, _)| Arc::clone(entry)).collect();
        let written =
            match failure.map_or_else(|| self.write(&entries), |failure| Err(Error::new(ErrorKind::Io, failure))) {
                Err(error) if lacks_room(&error) => {
                    let mut state = self.state.lock();
                    taken.into_iter().rev().for_each(|waiting| state.waiting.push_front(waiting));
                    state.lacks = Some(error.to_string());
                    return Written::LacksRoom;
                }
                written => written.map_err(|error| error.to_string()),
            };
        {
            let mut state = self.state.lock();
            state.lacks = None;
            state.failure = written.as_ref().err().cloned();
        }
        for done in taken.into_iter().filter_map(|(_, done)| done) {
            done(written.clone().map_err(io::Error::other));
        }
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            state.writer = Writer::Nobody;
            return Written::All;
        }
        Written::Part
    }

    fn write(&self, entries: &[Arc<LogEntry>]) -> Result<()> {
        let Some(last) = entries.last() else { return Ok(()) };
        let mut batch = Batch::new();
        self.rows.put_appended(last.id, &mut batch);
        let (note, payloads) = encode_note(entries.iter().map(|entry| &**entry));
        batch.note(note);
        let engine = self.rows.engine();
        let lowest = entries.iter().map(|entry| entry.id.index).min().unwrap_or_default();
        let bytes = entries.iter().map(|entry| entry.bytes()).sum();
        {
            // Before they are written: else they could be committed and others before them given up, with the position
            // from which the log is kept behind them. All commits of earlier entries end before it.
            let mut state = self.state.lock();
            let at = engine.log_end();
            if state.unstored >= (engine.options().log_keep_bytes / STORED_PART).max(STORED_BYTES_MIN)
                && let Some(last) = state.written
            {
                self.rows.put_known(&Known { at, last, points: state.points.clone() }, &mut batch);
                state.unstored = 0;
            }
            state.points.add(lowest, at, bytes);
            state.written = Some(last.id);
            state.unstored += u64_of(bytes);
        }
        // Readers see a commit after all before it: those that apply entries do not wait for this one's sync.
        let note = Arc::new(engine.write_note(&batch, Durability::Interval)?);
        self.stored.add(&note, entries.iter().map(|entry| &**entry).zip(payloads));
        engine.sync()?;
        let mut state = self.state.lock();
        let same = state.cached.id(last.id.index) == Some(last.id);
        if same {
            state.undurable = state.undurable.max(last.id.index + 1);
        }
        let undurable = state.undurable;
        state.cached.evict(self.cache_bytes, undurable);
        Ok(())
    }
}

impl State {
    /// Refuses entries of the primary that are to take the place of others up to `at`, which are committed.
    fn refuse(&mut self, at: LogId, theirs: &str) -> Error {
        let why = format!(
            "the log of the primary has {theirs}; this member knows that its own up to {at} are committed: one of the \
             two has lost what it had acknowledged"
        );
        let damage = self.damage.get_or_insert(Damage { at, why });
        Error::new(ErrorKind::Corruption, damage.why.clone())
    }

    /// Takes the first entries that wait: as many as have up to `bytes_max` together, and one at least.
    fn take_waiting(&mut self, bytes_max: usize) -> Vec<Waiting> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some((entry, _)) = self.waiting.front()
            && (taken.is_empty() || bytes + entry.bytes() <= bytes_max)
        {
            bytes += entry.bytes();
            taken.extend(self.waiting.pop_front());
        }
        taken
    }
}

/// Whether the engine refused entries for want of space, memory or descriptors, and has nothing of them: they can be
/// written later. Any other error of a write is a failure of the disk.
fn lacks_room(error: &Error) -> bool {
    error.kind() == ErrorKind::Full || error.is_unchanged()
}

fn gone(index: u64) -> Error {
    Error::new(ErrorKind::Gone, format!("the redo log does not hold entry {index} of the replicated log any more"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use spinney::env::sim::{Fault, SimEnv};
    use spinney::{Database, Options, TableOptions};
    use spinney_testkit::interrupt::{Interrupted, PATIENCE, at_call};

    use super::*;
    use crate::entry::log_entry::EntryKind;

    fn open(machine: &SimEnv) -> (Database, Log) {
        let env = machine.env();
        let database = Database::builder("/db").options(Options::default()).env(env.clone()).open().unwrap();
        let log = Log::open(Rows::open(&database).unwrap(), 1 << 20, &*env.threads).unwrap();
        (database, log)
    }

    /// Appends an entry by the worker, and gives what hears of it.
    fn begin_append(log: &Log, index: u64, bytes: usize) -> mpsc::Receiver<io::Result<()>> {
        let id = LogId { index, ..LogId::default() };
        let (done, told) = mpsc::channel();
        let entry = LogEntry { id, kind: EntryKind::Change, payload: vec![7; bytes].into() };
        if log.append(vec![entry], Box::new(move |written| done.send(written).unwrap())) {
            log.write_by_worker();
        }
        told
    }

    fn append(log: &Log, index: u64, bytes: usize) -> io::Result<()> {
        begin_append(log, index, bytes).recv().unwrap()
    }

    /// Appends an entry in this thread.
    fn append_here(log: &Log, index: u64) {
        let entry =
            LogEntry { id: LogId { index, ..LogId::default() }, kind: EntryKind::Change, payload: vec![7; 10].into() };
        assert!(log.append(vec![entry], Box::new(|written| written.unwrap())));
        assert!(!log.write_here());
    }

    /// A member ended for good when its disk was full.
    #[test]
    fn entries_for_which_there_is_no_room_wait_for_it_and_none_is_written_before_them() {
        let machine = SimEnv::new(1);
        let (database, log) = open(&machine);
        append(&log, 0, 10).unwrap();
        machine.set_space(0);
        let told: Vec<_> = (1..12).map(|index| begin_append(&log, index, 4 << 20)).collect();
        assert!(log.lacks().is_some() && told.last().unwrap().try_recv().is_err());
        machine.advance(RETRY);
        assert!(log.lacks().is_some() && told.last().unwrap().try_recv().is_err());
        machine.set_space(1 << 30);
        machine.advance(RETRY);
        told.into_iter().for_each(|told| told.recv().unwrap().unwrap());
        assert_eq!(log.lacks(), None);
        drop(log);
        database.close().unwrap();
        let (_database, log) = open(&machine);
        assert_eq!(log.ends().1.map(|last| last.index), Some(11));
        assert_eq!(log.read(0..u64::MAX, usize::MAX).unwrap().len(), 12);
    }

    #[test]
    fn nothing_is_written_behind_entries_that_could_not_be_written() {
        let machine = SimEnv::new(1);
        let (database, log) = open(&machine);
        append(&log, 0, 10).unwrap();
        machine.fail_next(Fault::SyncLost, |_| true);
        append(&log, 1, 10).unwrap_err();
        append(&log, 2, 10).unwrap_err();
        drop((log, database));
        let (_database, log) = open(&machine);
        let entries = log.read(0..u64::MAX, usize::MAX).unwrap();
        assert!(entries.len() <= 2, "{entries:?}");
    }

    /// A member with little memory ended when it got what it had missed: a commit of the engine had up to 8 MiB of it
    /// and the whole append that came to more, whatever the memory was.
    #[test]
    fn entries_are_written_by_commits_that_fit_the_memory_and_one_that_is_larger_goes_alone() {
        let machine = SimEnv::new(5);
        let options = Options::default().memory_bytes(1 << 20);
        let open = || {
            let env = machine.env();
            let database = Database::builder("/db").options(options.clone()).env(env.clone()).open().unwrap();
            let log = Log::open(Rows::open(&database).unwrap(), 64 << 20, &*env.threads).unwrap();
            (database, log)
        };
        let (database, log) = open();
        let from = database.log_end();
        let entry = |index, bytes| {
            let id = LogId { index, ..LogId::default() };
            LogEntry { id, kind: EntryKind::Change, payload: vec![7; bytes].into() }
        };
        let (sender, told) = mpsc::channel();
        for (group, bytes) in [(0, 100 << 10), (1, 100), (2, 2 << 20)] {
            let (sender, first) = (sender.clone(), group * 20);
            let entries = (first..first + 20).map(|index| entry(index, bytes)).collect();
            // The first append is to be written by this thread.
            let is_idle = log.append(entries, Box::new(move |written| sender.send((group, written.is_ok())).unwrap()));
            assert_eq!(is_idle, group == 0);
        }
        while log.write_here() {}
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [(0, true), (1, true), (2, true)]);
        let notes = database.changes(from).unwrap().map(|commit| decode_note(commit.unwrap().note()).unwrap());
        for entries in notes {
            let bytes: usize = entries.iter().map(LogEntry::bytes).sum();
            assert!(bytes <= 256 << 10 || entries.len() == 1, "{} entries of {bytes} bytes", entries.len());
        }
        let cached = log.shared.state.lock().cached.first();
        assert!(cached.is_none_or(|first| first >= 58), "the newest entries in memory are limited, too: {cached:?}");
        assert_eq!(log.read(0..u64::MAX, usize::MAX).unwrap().len(), 60);
        drop(log);
        database.close().unwrap();
        let (_database, log) = open();
        assert_eq!(log.read(0..u64::MAX, usize::MAX).unwrap().len(), 60);
    }

    /// A member did not start: the engine gave up log that it had read, before it kept the log for itself.
    #[test]
    fn what_the_engine_does_while_the_log_is_read_gives_up_nothing_of_it() {
        let machine = SimEnv::new(6);
        let options = Options::default().log_segment_bytes(64 << 10).log_keep_bytes(256 << 10);
        let open = |machine: &SimEnv| Database::builder("/db").options(options.clone()).env(machine.env()).open();
        {
            let database = open(&machine).unwrap();
            let log = Log::open(Rows::open(&database).unwrap(), 1 << 20, &*machine.env().threads).unwrap();
            (0..6).for_each(|index| append(&log, index, 30 << 10).unwrap());
            drop(log);
            database.close().unwrap();
        }
        let acted = (0..30).filter(|place| {
            let copy = machine.fork();
            let database = open(&copy).unwrap();
            let table = database.open_or_create_table("t", TableOptions::default()).unwrap();
            let rows = Rows::open(&database).unwrap();
            let work = || Log::open(rows.clone(), 1 << 20, &*copy.env().threads).map(|log| log.read(0..6, usize::MAX));
            let act = || {
                (0..40_u8).for_each(|key| table.put([key], [key; 20 << 10]).unwrap());
                database.flush().unwrap();
            };
            let Interrupted { worked, acted, .. } = at_call(&copy, (*place, PATIENCE * 50), work, act);
            assert_eq!(worked.unwrap().unwrap().len(), 6, "before call {place}");
            acted.is_some()
        });
        assert!(acted.count() > 3);
    }

    #[test]
    fn what_is_held_is_what_was_written_and_not_how_far_positions_are_apart() {
        let machine = SimEnv::new(2);
        for index in 0..3 {
            let (database, log) = open(&machine);
            append(&log, index, 1 << 20).unwrap();
            drop(log);
            database.close().unwrap();
        }
        let (_database, log) = open(&machine);
        let held = log.held_bytes();
        assert!((3 << 20..4 << 20).contains(&held), "{held}");
        assert_eq!(log.index_holding(4 << 20), None, "nothing is given up");
        assert_eq!(log.index_holding(2 << 20), Some(1));
    }

    #[test]
    fn the_newest_entries_are_in_memory_after_an_open() {
        let machine = SimEnv::new(4);
        let (database, log) = open(&machine);
        (0..40).for_each(|index| append(&log, index, 100 << 10).unwrap());
        let entries = log.read(0..u64::MAX, usize::MAX).unwrap();
        let cached = log.shared.state.lock().cached.first();
        assert!(cached.is_some_and(|first| (20..39).contains(&first)), "{cached:?}");
        drop(log);
        database.close().unwrap();
        let (_database, log) = open(&machine);
        assert_eq!(log.shared.state.lock().cached.first(), cached);
        assert_eq!(log.read(0..u64::MAX, usize::MAX).unwrap(), entries);
    }

    /// A member with 1 GiB of redo log read all of it at each start.
    #[test]
    fn an_open_reads_what_it_keeps_in_memory_and_finds_all_other_entries() {
        let machine = SimEnv::new(5);
        let open = || {
            let env = machine.env();
            let options = Options::default().log_keep_bytes(16 << 20).log_segment_bytes(1 << 20);
            let database = Database::builder("/db").options(options).env(env.clone()).open().unwrap();
            let log = Log::open(Rows::open(&database).unwrap(), 1 << 20, &*env.threads).unwrap();
            (database, log)
        };
        let (database, log) = open();
        (0..120).for_each(|index| append(&log, index, 100 << 10).unwrap());
        // Entries that take the place of others, and some that are given up.
        log.truncate_after(Some(LogId { index: 99, ..LogId::default() })).unwrap();
        (100..120).for_each(|index| append(&log, index, 50 << 10).unwrap());
        let (given_up, mut batch) = (LogId { index: 9, ..LogId::default() }, Batch::new());
        log.rows().put_applied(given_up, &mut batch);
        database.write(&batch).unwrap();
        log.purge(given_up).unwrap();
        let entries = log.read(0..u64::MAX, usize::MAX).unwrap();
        assert_eq!(entries.len(), 110);
        drop(log);
        database.close().unwrap();
        let is_log = |path: &std::path::Path| path.extension().is_some_and(|end| end == "log");
        let before = machine.read_bytes(is_log);
        let (_database, log) = open();
        let read = machine.read_bytes(is_log) - before;
        assert!(read < 6 << 20, "{read} bytes of 16 MB");
        assert_eq!(log.ends().1, Some(LogId { index: 119, ..LogId::default() }));
        assert_eq!(log.read(0..u64::MAX, usize::MAX).unwrap(), entries);
    }

    #[test]
    fn entries_that_are_being_written_keep_the_redo_log_from_before_them() {
        // One of the calls is the write itself.
        let is_kept = (0..20).any(|place| {
            let machine = SimEnv::new(3);
            let (_database, log) = open(&machine);
            let keeps = || log.shared.state.lock().points.first().is_some();
            at_call(&machine, (place, PATIENCE), || append_here(&log, 0), keeps).acted == Some(true)
        });
        assert!(is_kept);
    }
}
