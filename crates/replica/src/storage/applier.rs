//! Entries of the replicated log applied to the database, in their order.
//!
//! # Concurrency
//! One thread applies at a time: a worker, or the thread of the consensus where that takes no longer than to wake the
//! worker and to be woken by it ([`Applier::apply_here`]). The consensus waits for entries before it has later ones
//! applied.
//!
//! # Invariants
//! 1. A commit's changes and its position become durable together: the target stores the position with them. The row
//!    `applied` is part of the last commit of an entry. After a crash an entry goes on behind the last of its commits
//!    that is there.
//! 2. Nothing behind an entry that cannot be applied is applied ([`Stall`]). Where there is no room the consensus waits
//!    and the worker tries again; commits of the entry that were applied are not applied again. Where what this member
//!    has disagrees with the entry, entries are taken and not applied, so that the consensus goes on for the others.
//! 3. Before a table is dropped, which is durable at once, everything that was applied is durable. So after a crash
//!    nothing is applied again that changes the table.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use spinney::base::num::{u64_of, usize_of};
use spinney::env::{Next, Threads, Worker};
use spinney::{Batch, Durability, Error, ErrorKind, Layout, Result, StoredNote};
use spinney_document::catalog::CopiedCounts;
use tokio::sync::oneshot;

use super::log::Done;
use super::rows::Rows;
use super::stored_entries::{Stored, StoredEntries};
use crate::base::watched;
use crate::entry::change::{COMMITS_MAX, Change, Commit, Commits};
use crate::entry::log_entry::{EntryKind, LogEntry, LogId};

/// Commits that [`Applier::apply_here`] applies at once, at the most.
const COMMITS_HERE: usize = 4;

/// The bytes of their entries, at the most.
const BYTES_HERE: usize = 16 << 10;

/// How many threads are told at a time that their commits are applied.
const WAITERS: usize = 4;

/// After what time the worker tries again to apply an entry that stalls it.
const RETRY: Duration = Duration::from_secs(1);

/// Why nothing is applied now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// The entry that cannot be applied.
    pub(crate) at: LogId,
    /// What the entry changes, and what this member has.
    pub(crate) why: String,
    /// Whether what this member has disagrees with the entry, so that it needs a copy of another member's database.
    /// Otherwise there is no space on disk or not enough memory, and the entry is tried again.
    pub(crate) needs_copy: bool,
}

/// The thread that proposed a commit, which waits for it to be applied.
pub(crate) type Waiter = oneshot::Sender<()>;

/// Where a commit of an entry stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// Its place among all commits of the set.
    pub(crate) position: u64,
    /// The note of the redo log that has its record, and where the record begins there, when that is known.
    pub(crate) stored: Option<(&'a StoredNote, usize)>,
}

/// Where entries are applied: the document database, whose catalog and caches follow them.
pub(crate) trait Target: Send + Sync + fmt::Debug {
    /// Makes the changes of one of the commits of an entry, together with those that `add` adds, and stores its
    /// position, by one commit of the engine that is not synced, which repeats what is stored of the entry. What is
    /// returned is told then.
    ///
    /// # Errors
    /// `Full` when there is no room, `Timeout` when a lock was not to be had, `Corruption` when what is here disagrees
    /// with the entry: see [`Stall`]. With any other error the member fails.
    fn commit(
        &self,
        entry: &Commits<'_>,
        commit: &Commit<'_>,
        place: Place<'_>,
        add: &dyn Fn(&mut Batch),
    ) -> Result<Option<Waiter>>;

    /// The position of the newest commit that was applied; nothing when there was none.
    ///
    /// # Errors
    /// Those of the engine.
    fn position(&self) -> Result<Option<u64>>;

    /// Creates a table, unless it is there.
    ///
    /// # Errors
    /// As [`Self::commit`].
    fn create_table(&self, name: &str, layout: Layout) -> Result<()>;

    /// Makes durable what was applied, and drops tables, of which some or all may be gone.
    ///
    /// # Errors
    /// As [`Self::commit`].
    fn drop_tables(&self, names: &[&str]) -> Result<()>;

    /// An entry of a term is applied that is the first of its primary: what was proposed in earlier terms is applied by
    /// now, or lost.
    fn settled(&self, term: u64);

    /// Makes a checkpoint of the database, from which another member begins; what goes with it.
    ///
    /// # Errors
    /// Those of the engine.
    fn checkpoint(&self, engine: &spinney::Database, dir: &Path) -> Result<CopiedCounts> {
        engine.checkpoint(dir).map(|_| CopiedCounts::default())
    }
}

/// Applies entries. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Applier {
    shared: Arc<Shared>,
    worker: Arc<dyn Worker>,
}

#[derive(Debug)]
struct Shared {
    rows: Rows,
    stored: StoredEntries,
    state: Mutex<State>,
    target: Mutex<Option<Arc<dyn Target>>>,
    /// The last entry that was applied, for those that wait for one.
    applied: watched::Sender<Option<LogId>>,
    /// The index of the last entry of which commits were applied, maybe not all; 0 before the first.
    begun: AtomicU64,
    /// How often an entry could not be applied. Relaxed: a counter that is only shown.
    failures: AtomicU64,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Vec<LogEntry>, Done)>,
    /// The index of an entry of which some commits were applied, before the database was opened or before it stalled,
    /// and how many.
    begun: Option<(u64, usize)>,
    stall: Option<Stall>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("waiting", &self.waiting.len()).finish()
    }
}

impl Applier {
    /// # Errors
    /// `Io` when there is no thread for it; those of the engine.
    pub(crate) fn new(rows: Rows, stored: &StoredEntries, threads: &dyn Threads) -> Result<Self> {
        let stall = rows.copied()?.map(|_| {
            let why = "the database is a checkpoint, or another copy, of a member's: it is no member by itself";
            Stall { at: LogId::default(), why: why.to_owned(), needs_copy: true }
        });
        let shared = Arc::new(Shared {
            applied: watched::Sender::new(rows.applied()?),
            rows,
            stored: stored.clone(),
            state: Mutex::new(State { stall, ..State::default() }),
            target: Mutex::default(),
            begun: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        });
        let worked = Arc::clone(&shared);
        let worker = threads.worker("replica-apply", Box::new(move || worked.apply_waiting()));
        let worker =
            worker.map_err(|error| Error::new(ErrorKind::Io, format!("no thread to apply entries: {error}")))?;
        Ok(Self { shared, worker: worker.into() })
    }

    /// Has a target told of what is applied from now on.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn set_target(&self, target: Arc<dyn Target>) -> Result<()> {
        let applied = *self.shared.applied.borrow();
        let begun = target.position()?.map(|position| (position / u64_of(COMMITS_MAX), position % u64_of(COMMITS_MAX)));
        let begun = begun.filter(|(index, _)| applied.is_none_or(|applied| applied.index < *index));
        self.shared.state.lock().begun = begun.map(|(index, place)| (index, usize_of(place) + 1));
        *self.shared.target.lock() = Some(target);
        Ok(())
    }

    pub(crate) fn rows(&self) -> &Rows {
        &self.shared.rows
    }

    /// The last entry that was applied.
    pub(crate) fn applied(&self) -> watched::Receiver<Option<LogId>> {
        self.shared.applied.subscribe()
    }

    /// The index of the last entry of which commits were applied here, maybe not all of them. All commits whose threads
    /// were told are in it or before it.
    pub(crate) fn begun(&self) -> u64 {
        let applied = self.shared.applied.borrow().map_or(0, |applied| applied.index);
        self.shared.begun.load(Ordering::Acquire).max(applied)
    }

    /// Whether what this member has disagrees with an entry: entries are taken and not applied, so that the consensus
    /// goes on, until the member is opened again.
    pub(crate) fn disagrees(&self) -> bool {
        self.shared.disagrees()
    }

    /// Why nothing is applied now, if that is so.
    pub(crate) fn stall(&self) -> Option<Stall> {
        self.shared.state.lock().stall.clone()
    }

    /// How often an entry could not be applied since the member was opened.
    pub(crate) fn failures(&self) -> u64 {
        self.shared.failures.load(Ordering::Relaxed)
    }

    /// Applies entries that follow the last applied one in this thread, when they are few commits and the engine does
    /// not slow writers; whether it did. Else, and when one of them stalls, they are for [`Self::apply`].
    ///
    /// # Errors
    /// What makes an entry impossible to apply: the member then fails.
    pub(crate) fn apply_here(&self, entries: &[LogEntry]) -> io::Result<bool> {
        if self.shared.disagrees() {
            return Ok(true);
        }
        if !are_short(entries) || self.shared.rows.engine().write_may_wait() {
            return Ok(false);
        }
        match self.shared.apply_all(entries) {
            Ok(()) => Ok(true),
            Err((_, error)) if stalls(&error) => Ok(false),
            Err((_, error)) => Err(fatal(&error)),
        }
    }

    /// Has the worker apply entries that follow the last applied one, and then call `done`.
    pub(crate) fn apply(&self, entries: Vec<LogEntry>, done: Done) {
        self.shared.state.lock().waiting.push_back((entries, done));
        self.worker.wake();
    }
}

impl Shared {
    /// Whether what this member has disagrees with an entry: nothing is applied before it is opened again.
    fn disagrees(&self) -> bool {
        self.state.lock().stall.as_ref().is_some_and(|stall| stall.needs_copy)
    }

    /// The work of the worker.
    fn apply_waiting(&self) -> Next {
        let Some((entries, done)) = self.state.lock().waiting.pop_front() else { return Next::Wait };
        if self.disagrees() {
            done(Ok(()));
            return Next::Again;
        }
        match self.apply_all(&entries) {
            Err((at, error)) if stalls(&error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                let (why, needs_copy) = (error.to_string(), error.kind() == ErrorKind::Corruption);
                let mut state = self.state.lock();
                state.stall = Some(Stall { at, why, needs_copy });
                if needs_copy {
                    drop(state);
                    done(Ok(()));
                    return Next::Again;
                }
                state.waiting.push_front((entries, done));
                return Next::WaitAtMost(RETRY);
            }
            Err((_, error)) => done(Err(fatal(&error))),
            Ok(()) => {
                self.state.lock().stall = None;
                done(Ok(()));
            }
        }
        Next::Again
    }

    /// Applies those of the entries that were not applied yet.
    ///
    /// # Errors
    /// Those of [`Self::apply`], with the entry.
    fn apply_all(&self, entries: &[LogEntry]) -> std::result::Result<(), (LogId, Error)> {
        let applied = *self.applied.borrow();
        for entry in entries.iter().filter(|entry| applied.is_none_or(|applied| applied.index < entry.id.index)) {
            let waiters = self.apply(entry).map_err(|error| (entry.id, error))?;
            self.applied.send_replace(Some(entry.id));
            drop(waiters);
        }
        Ok(())
    }

    fn apply(&self, entry: &LogEntry) -> Result<Waiters> {
        let target = self.target.lock().clone();
        let known = || target.as_deref().ok_or_else(|| Error::new(ErrorKind::Closed, "there is no database"));
        let mut batch = Batch::new();
        match entry.kind {
            EntryKind::Blank => {}
            EntryKind::Members => self.rows.put_members(entry.id, &entry.payload, &mut batch),
            EntryKind::Change => match Change::decode(&entry.payload).map_err(|_| malformed(entry.id))? {
                Change::Commits(commits) => return self.apply_commits(entry.id, &commits, known()?),
                Change::CreateTable(name, layout) => known()?.create_table(name, layout)?,
                Change::DropTables(names) => known()?.drop_tables(&names)?,
            },
        }
        self.rows.put_applied(entry.id, &mut batch);
        self.rows.engine().write_with(&batch, Durability::Interval)?;
        if entry.kind == EntryKind::Blank {
            target.into_iter().for_each(|target| target.settled(entry.id.term));
        }
        Ok(Waiters::default())
    }

    fn apply_commits(&self, at: LogId, commits: &Commits<'_>, target: &dyn Target) -> Result<Waiters> {
        // Released to the threads that are told below.
        self.begun.fetch_max(at.index, Ordering::AcqRel);
        let begun = self.state.lock().begun.take_if(|(index, _)| *index <= at.index);
        let skipped = begun.filter(|(index, _)| *index == at.index).map_or(0, |(_, commits)| commits);
        let stored = self.stored.take(at);
        let mut waiters = Waiters::default();
        for (place, commit) in commits.commits.iter().enumerate().skip(skipped) {
            let last = place + 1 == commits.commits.len();
            let add = |batch: &mut Batch| {
                if last {
                    self.rows.put_applied(at, batch);
                }
            };
            let position = at.index * u64_of(COMMITS_MAX) + u64_of(place);
            let stored = stored.as_ref().map(|Stored { note, payload_at }| (&**note, payload_at + commit.record_at));
            let applied = target.commit(commits, commit, Place { position, stored }, &add);
            // The entry goes on here when it is tried again.
            waiters.add(applied.inspect_err(|_| self.state.lock().begun = Some((at.index, place)))?);
        }
        Ok(waiters)
    }
}

/// Threads that proposed commits which are applied. Some at a time are told while later commits of the entry are
/// applied, so that other processors have work meanwhile; the last ones when this is dropped, behind the entry.
#[derive(Debug, Default)]
struct Waiters(Vec<Waiter>);

impl Waiters {
    fn add(&mut self, waiter: Option<Waiter>) {
        self.0.extend(waiter);
        if self.0.len() == WAITERS {
            self.tell();
        }
    }

    fn tell(&mut self) {
        for waiter in self.0.drain(..) {
            // The thread may have gone.
            let _is_waiting = waiter.send(()).is_ok();
        }
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        self.tell();
    }
}

/// Whether entries are a few commits, or say nothing of the database.
fn are_short(entries: &[LogEntry]) -> bool {
    if entries.iter().map(LogEntry::bytes).sum::<usize>() > BYTES_HERE {
        return false;
    }
    let commits = entries.iter().map(|entry| match (entry.kind, Change::decode(&entry.payload)) {
        (EntryKind::Blank, _) => Some(0),
        (EntryKind::Change, Ok(Change::Commits(commits))) => Some(commits.commits.len()),
        // Tables are created and dropped by syncs; what makes no sense is the worker's to find.
        _ => None,
    });
    commits.sum::<Option<usize>>().is_some_and(|commits| commits <= COMMITS_HERE)
}

/// Whether an entry that failed so is tried again.
fn stalls(error: &Error) -> bool {
    error.is_unchanged() || matches!(error.kind(), ErrorKind::Full | ErrorKind::Timeout | ErrorKind::Corruption)
}

fn fatal(error: &Error) -> io::Error {
    io::Error::other(error.to_string())
}

fn malformed(at: LogId) -> Error {
    Error::new(ErrorKind::Corruption, format!("entry {} of the replicated log makes no sense", at.index))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use spinney::env::sim::{CrashProfile, SimEnv};
    use spinney::{Database, TableOptions};

    use super::*;
    use crate::entry::change::CommitsBuilder;

    /// Counts how often each commit was applied, in rows of a table.
    #[derive(Debug)]
    struct Counts {
        database: Database,
        /// The commit that cannot be applied.
        fails: Option<u64>,
        /// How often a commit finds no space, and how often it disagrees with what is there.
        stalls: Mutex<Vec<ErrorKind>>,
        /// Those that wait for commits, in the order of these.
        waiters: Mutex<VecDeque<Waiter>>,
    }

    impl Target for Counts {
        fn commit(
            &self,
            _: &Commits<'_>,
            commit: &Commit<'_>,
            place: Place<'_>,
            add: &dyn Fn(&mut Batch),
        ) -> Result<Option<Waiter>> {
            if commit.number.is_multiple_of(2)
                && let Some(kind) = self.stalls.lock().pop()
            {
                return Err(Error::new(kind, "it is not possible now"));
            }
            if self.fails == Some(commit.number) {
                return Err(Error::new(ErrorKind::Io, "the device is gone"));
            }
            let table = self.database.table("counts")?.unwrap();
            let key = commit.number.to_be_bytes();
            let times = table.get(key)?.map_or(0, |row| row[0]);
            let mut batch = Batch::new();
            batch.put(&table, key, [times + 1]);
            batch.put(&self.database.table("position")?.unwrap(), "newest", place.position.to_le_bytes());
            add(&mut batch);
            self.database.write_with(&batch, Durability::Sync)?;
            Ok(self.waiters.lock().pop_front())
        }

        fn position(&self) -> Result<Option<u64>> {
            let row = self.database.table("position")?.unwrap().get("newest")?;
            Ok(row.map(|row| u64::from_le_bytes(row[..].try_into().unwrap())))
        }

        fn create_table(&self, _: &str, _: Layout) -> Result<()> {
            Ok(())
        }

        fn drop_tables(&self, _: &[&str]) -> Result<()> {
            Ok(())
        }

        fn settled(&self, _: u64) {}
    }

    fn open(machine: &SimEnv) -> (Database, Applier) {
        let env = machine.env();
        let database = Database::builder("/db").env(env.clone()).open().unwrap();
        for name in ["counts", "position"] {
            database.open_or_create_table(name, TableOptions::default()).unwrap();
        }
        let applier =
            Applier::new(Rows::open(&database).unwrap(), &StoredEntries::new(usize::MAX), &*env.threads).unwrap();
        (database, applier)
    }

    /// Opens the database, applies entries up to the commit that fails, and takes the power.
    fn apply(machine: &SimEnv, fails: Option<u64>, entries: Vec<LogEntry>) -> (io::Result<()>, Option<LogId>, Vec<u8>) {
        let (database, applier) = open(machine);
        let table = database.table("counts").unwrap().unwrap();
        applier
            .set_target(Arc::new(Counts { database, fails, waiters: Mutex::default(), stalls: Mutex::default() }))
            .unwrap();
        let (sender, told) = mpsc::channel();
        applier.apply(entries, Box::new(move |applied| sender.send(applied).unwrap()));
        let applied = told.recv().unwrap();
        let counts = table.range(..).map(|row| row.unwrap().1[0]).collect();
        let place = applier.rows().applied().unwrap();
        machine.power_crash(CrashProfile::Strict);
        (applied, place, counts)
    }

    #[test]
    fn few_commits_are_applied_by_the_caller_and_others_are_not() {
        let machine = SimEnv::new(3);
        let (database, applier) = open(&machine);
        applier
            .set_target(Arc::new(Counts { database, fails: None, waiters: Mutex::default(), stalls: Mutex::default() }))
            .unwrap();
        let entry =
            |index, kind, payload: Vec<u8>| LogEntry { id: LogId { term: 1, index }, kind, payload: payload.into() };
        let commits = |index, count: usize, bytes| {
            let mut commits = CommitsBuilder::new(1);
            (0..u64_of(count)).for_each(|number| commits.push(number, [], &vec![0; bytes]));
            entry(index, EntryKind::Change, commits.finish())
        };
        let applied = |index| Some(LogId { term: 1, index });
        let few = [commits(1, COMMITS_HERE - 1, 9), entry(2, EntryKind::Blank, Vec::new()), commits(3, 1, 9)];
        assert!(applier.apply_here(&few).unwrap());
        assert_eq!((*applier.applied().borrow(), applier.rows().applied().unwrap()), (applied(3), applied(3)));
        let table = entry(4, EntryKind::Change, Change::DropTables(vec!["t"]).encode());
        for other in [commits(4, COMMITS_HERE + 1, 9), commits(4, 1, BYTES_HERE), table] {
            assert!(!applier.apply_here(&[other]).unwrap());
        }
        assert_eq!(*applier.applied().borrow(), applied(3));
    }

    #[test]
    fn threads_are_told_of_their_commits_before_the_whole_entry_is_applied() {
        let machine = SimEnv::new(4);
        let (database, applier) = open(&machine);
        let (waiters, mut told): (VecDeque<_>, Vec<_>) = (0..WAITERS + 2).map(|_| oneshot::channel()).unzip();
        let last = u64_of(WAITERS) + 1;
        let target = Counts { database, fails: Some(last), waiters: Mutex::new(waiters), stalls: Mutex::default() };
        applier.set_target(Arc::new(target)).unwrap();
        let mut commits = CommitsBuilder::new(1);
        (0..=last).for_each(|number| commits.push(number, [], b""));
        let id = LogId { term: 1, index: 7 };
        let entry = LogEntry { id, kind: EntryKind::Change, payload: commits.finish().into() };
        let (sender, done) = mpsc::channel();
        applier.apply(vec![entry], Box::new(move |applied| sender.send(applied).unwrap()));
        done.recv().unwrap().unwrap_err();
        let (failed, applied) = (told.pop().unwrap(), told);
        assert!(applied.into_iter().all(|mut told| told.try_recv().is_ok()));
        assert!({ failed }.try_recv().is_err());
        // The entry does not count as applied, but a thread that was told waits for no earlier one.
        assert_eq!((*applier.applied().borrow(), applier.begun()), (None, 7));
    }

    #[test]
    fn what_follows_an_entry_with_which_the_data_disagrees_is_taken_and_not_applied() {
        let machine = SimEnv::new(9);
        let (database, applier) = open(&machine);
        let table = database.table("counts").unwrap().unwrap();
        let stalls = Mutex::new(vec![ErrorKind::Corruption; 2]);
        let counts = Counts { database, fails: None, waiters: Mutex::default(), stalls };
        applier.set_target(Arc::new(counts)).unwrap();
        let entry = |index| {
            let mut commits = CommitsBuilder::new(1);
            commits.push(10 * index, [], b"");
            LogEntry { id: LogId { term: 1, index }, kind: EntryKind::Change, payload: commits.finish().into() }
        };
        assert!(!applier.apply_here(&[entry(1)]).unwrap(), "it is for the worker");
        for index in 1..3000 {
            let (sender, done) = mpsc::channel();
            applier.apply(vec![entry(index)], Box::new(move |applied| sender.send(applied).unwrap()));
            done.recv().unwrap().unwrap();
        }
        assert!(applier.apply_here(&[entry(3000)]).unwrap());
        assert!(applier.disagrees() && applier.failures() == 1);
        assert_eq!((table.range(..).count(), *applier.applied().borrow()), (0, None));
    }

    /// A full disk, a lack of memory and a lock each ended a member for good.
    #[test]
    fn an_entry_that_finds_no_space_or_no_lock_is_tried_again_and_each_commit_is_applied_once() {
        let machine = SimEnv::new(9);
        let (database, applier) = open(&machine);
        let table = database.table("counts").unwrap().unwrap();
        let stalls = vec![ErrorKind::Full, ErrorKind::Timeout, ErrorKind::Full];
        let counts = Counts { database, fails: None, waiters: Mutex::default(), stalls: Mutex::new(stalls) };
        applier.set_target(Arc::new(counts)).unwrap();
        let entry = |index| {
            let mut commits = CommitsBuilder::new(1);
            (0..3).for_each(|number| commits.push(10 * index + number, [], b""));
            LogEntry { id: LogId { term: 1, index }, kind: EntryKind::Change, payload: commits.finish().into() }
        };
        assert!(!applier.apply_here(&[entry(1)]).unwrap(), "it is for the worker");
        let (sender, done) = mpsc::channel();
        applier.apply(vec![entry(1), entry(2)], Box::new(move |applied| sender.send(applied).unwrap()));
        for _ in 0..2 {
            assert!(!applier.stall().unwrap().needs_copy);
            machine.advance(RETRY);
        }
        done.recv().unwrap().unwrap();
        assert_eq!((applier.stall(), applier.failures()), (None, 2));
        let counts: Vec<u8> = table.range(..).map(|row| row.unwrap().1[0]).collect();
        assert_eq!((counts, *applier.applied().borrow()), (vec![1; 6], Some(LogId { term: 1, index: 2 })));
    }

    #[test]
    fn an_entry_goes_on_behind_the_last_of_its_commits_that_was_applied() {
        let entry = |index, numbers: &[u64]| {
            let mut commits = CommitsBuilder::new(1);
            numbers.iter().for_each(|number| commits.push(*number, [], b""));
            let id = LogId { term: 1, index };
            LogEntry { id, kind: EntryKind::Change, payload: commits.finish().into() }
        };
        let blank = LogEntry { id: LogId { term: 1, index: 0 }, kind: EntryKind::Blank, payload: Vec::new().into() };
        let (first, second) = (entry(1, &[10]), entry(2, &[20, 21, 22, 23]));
        let machine = SimEnv::new(7);
        let (applied, place, counts) = apply(&machine, Some(22), vec![blank, first.clone(), second.clone()]);
        assert!(applied.is_err());
        assert_eq!((place, counts), (Some(first.id), vec![1; 3]));
        let (applied, place, counts) = apply(&machine, Some(23), vec![second.clone()]);
        assert!(applied.is_err());
        assert_eq!((place, counts), (Some(first.id), vec![1; 4]));
        let (applied, place, counts) = apply(&machine, None, vec![second.clone(), entry(3, &[30])]);
        applied.unwrap();
        assert_eq!((place, counts), (Some(LogId { term: 1, index: 3 }), vec![1; 6]), "every commit once");
    }
}
