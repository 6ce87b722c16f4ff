//! Appending to the log and making it durable.
//!
//! # Concurrency
//! There is no log thread and no timer. The thread that commits writes and forces the log itself, unless another thread is forcing it;
//! whoever arrives meanwhile forms the next group, and one of them forces it when the device is free again.
//!
//! * `state` guards the tail of the log in memory and says who forces. It is held for copies, never for I/O.
//! * `io` guards the files: whoever holds it may write. Appends go on meanwhile. A sync of buffered data happens without it.
//! * Order: `io` before `state`; `state.forcing` (the right to force) before both.
//!
//! A force that is on its way covers the records up to `state.forcing`. Threads that wait for these sleep at one gate, threads that need
//! the force after it at the other: when it ends, the first are all woken, and one of the second, who forces next.
//!
//! # Direct and buffered writes
//! `sync` alone writes whole sectors past the page cache, durable when the call returns: one system call per lone commit. `write` goes
//! through the page cache: it fills the last page with zeros when it first touches it, and from then on adds bytes to it. While any
//! buffered bytes are not durable, `sync` also writes buffered and then syncs the files. The two never meet in one sector: after
//! each force the next group begins at a sector of its own, so direct writes go where no page is dirty, and no page is filled from
//! the device. (Linux writes a range's dirty pages back and drops them before a direct write to it, so larger pages do no harm.)
//!
//! # Invariants
//! 1. Bytes reach the files in order of position; of two segments, the earlier is written and synced first.
//! 2. The first failure of a write or sync ends the log: nothing is tried again, every later call fails.

use super::format::{Begins, SECTOR, SegmentHeader, after, sector_up};
use super::hold::Holds;
use super::options::LogOptions;
use super::payload::Payload;
use super::recover::RecoveredLog;
use super::segment::{Directory, Segment, Spare};
use super::stats::{Counters, LogStats, count};
use super::tail::{Span, Tail, Taken};
use crate::base::num::{round_up, u64_of, usize_of};
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::{AlignedBuffer, Env};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// More waiting bytes than this are written by whoever appends next.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// The size in bytes of a segment for which no spare was ready: small, so that neither an open nor a commit waits for its zeros.
pub(super) const FRESH_BYTES: u64 = 1 << 20;

/// Writes the redo log. Shared by all threads.
#[derive(Debug)]
pub struct LogWriter {
    pub(super) options: LogOptions,
    pub(super) directory: Directory,
    pub(super) state: Mutex<State>,
    /// Where threads sleep until a force ends; the parity of the force's round picks the gate.
    gates: [Condvar; 2],
    /// Where threads sleep that want to append while a payload is appended in pieces.
    whole: Condvar,
    pub(super) io: Mutex<Io>,
    /// The segments that are still needed, oldest first, the one being written last.
    pub(super) live: Mutex<Vec<Live>>,
    /// Who else needs segments. Taken after `live`.
    pub(super) holds: Mutex<Holds>,
    /// The number of the next spare; held while one is made.
    pub(super) next_spare: Mutex<u64>,
    /// Everything before it is in the kernel's hands. Published with Release by whoever wrote it, so that a reader who sees it need not
    /// write.
    written: AtomicU64,
    /// Everything before it is durable. Published with Release by whoever forced it, to those who wait for it.
    durable: AtomicU64,
    /// Whether background work waits. Publishes nothing.
    pub(super) wants_spare: AtomicBool,
    pub(super) counters: Counters,
    bytes_replayed: u64,
}

/// A segment that is needed.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) header: SegmentHeader,
    pub(super) path: PathBuf,
}

/// The log in memory.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tail: Tail,
    /// While a thread forces: up to where, or the largest position until that is decided.
    forcing: Option<Lsn>,
    /// Counts the forces.
    round: u64,
    /// Whether a payload is appended in pieces.
    in_pieces: bool,
    closed: bool,
    /// What the first failure was.
    failure: Option<String>,
    /// Why no spare could be made, while that is because of a full disk.
    pub(super) full_disk: Option<String>,
    appends: u64,
    record_bytes: u64,
}

/// The files.
#[derive(Debug)]
pub(super) struct Io {
    current: Arc<Segment>,
    /// Segments with buffered bytes that are not known to be durable, oldest first.
    pub(super) unsynced: Vec<Arc<Segment>>,
    /// The page cache holds whole pages up to here.
    paged_to: Lsn,
    /// Takes turns with the tail's buffer; empty between writes.
    buffer: AlignedBuffer,
}

impl LogWriter {
    /// Goes on with a log after [`recover`](super::recover): begins a new segment that seals what was recovered, and removes what does
    /// not count any more. All of it is durable when this returns.
    ///
    /// # Errors
    /// `Invalid` for options out of range, `Full` or `Io` when a file cannot be made.
    pub fn open(env: &Env, directory: &Path, options: LogOptions, recovered: RecoveredLog) -> Result<Self> {
        options.check()?;
        let directory = Directory { env: env.clone(), path: directory.to_owned() };
        let fresh_bytes = FRESH_BYTES.min(options.segment_bytes);
        let header = SegmentHeader {
            begins: Begins::Seals,
            database: recovered.database,
            number: recovered.next_number,
            bytes: fresh_bytes,
            first: recovered.next_first,
            previous: recovered.summary.end_segment,
            previous_end: recovered.summary.end,
        };
        for path in &recovered.unfinished {
            directory.remove(path)?;
        }
        let segment = Arc::new(directory.begin(header, None, options.direct)?);
        // Not before the seal is durable: until then they might still be the log.
        for path in &recovered.orphans {
            directory.remove(path)?;
        }
        let (spares, others) =
            recovered.spares.into_iter().partition::<Vec<_>, _>(|it| it.bytes == options.segment_bytes);
        for spare in &others {
            directory.remove(&spare.path)?;
        }
        let mut live = recovered.live;
        live.push(Live { header, path: segment.path.clone() });
        let counters = Counters::default();
        count(&counters.segments_created, 1);
        Ok(Self {
            options,
            directory,
            state: Mutex::new(State::new(Tail::new(header, spares, fresh_bytes))),
            gates: [Condvar::new(), Condvar::new()],
            whole: Condvar::new(),
            io: Mutex::new(Io {
                current: segment,
                unsynced: Vec::new(),
                paged_to: header.first,
                buffer: AlignedBuffer::default(),
            }),
            live: Mutex::new(live),
            holds: Mutex::default(),
            next_spare: Mutex::new(recovered.next_spare),
            written: AtomicU64::new(header.first.0),
            durable: AtomicU64::new(header.first.0),
            wants_spare: AtomicBool::new(true),
            counters,
            bytes_replayed: recovered.summary.bytes,
        })
    }

    /// Appends a payload, given in parts, and returns the position after it, to be handed to [`Self::sync`] or [`Self::write`]. It is in
    /// memory only, unless so much waits that this thread has to write some of it.
    ///
    /// # Errors
    /// `Full` when the disk has no room for the segments it needs, before anything of it is appended; `Closed`; `Poisoned` after a failure.
    pub fn append(&self, parts: &[&[u8]]) -> Result<Lsn> {
        let mut payload = Payload::new(parts);
        let mut state = self.state.lock();
        while state.in_pieces && state.failure.is_none() {
            self.whole.wait(&mut state);
        }
        state.check_append(payload.left())?;
        state.appends += 1;
        state.record_bytes += u64_of(payload.left());
        loop {
            if state.tail.waiting_bytes() >= WAITING_BYTES_MAX {
                state = self.drain(state)?;
            }
            state.tail.push(&mut payload);
            if payload.is_done() {
                return Ok(state.tail.end());
            }
        }
    }

    /// Hands everything before `lsn` to the kernel: it then survives the end of the process, though not of the machine.
    ///
    /// # Errors
    /// `Poisoned` when a write fails or has failed.
    pub fn write(&self, lsn: Lsn) -> Result<()> {
        if self.written() >= lsn {
            return Ok(());
        }
        let mut io = self.io.lock();
        if self.written() >= lsn {
            return Ok(());
        }
        self.write_waiting(&mut io).map_err(|error| self.fail(&error))
    }

    /// Makes everything before `lsn`, a position that [`Self::append`] returned, durable.
    ///
    /// # Errors
    /// `Poisoned` when a write or sync fails or has failed; whether the records are durable is then unknown.
    pub fn sync(&self, lsn: Lsn) -> Result<()> {
        let Some(turn) = self.wait_turn(lsn)? else { return Ok(()) };
        let outcome = self.force();
        self.end_turn(turn, outcome)
    }

    /// Makes everything appended so far durable, marks the log as closed and lets nothing follow.
    ///
    /// # Errors
    /// As for [`Self::sync`].
    pub fn close(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.in_pieces && state.failure.is_none() {
            self.whole.wait(&mut state);
        }
        state.check_unknown()?;
        if mem::replace(&mut state.closed, true) {
            return Ok(());
        }
        let end = state.tail.end();
        drop(state);
        // On its own, so that the marker before the end mark proves that all of it was durable.
        self.sync(end)?;
        let mut state = self.state.lock();
        state.tail.push_end();
        let end = state.tail.end();
        drop(state);
        self.sync(end)
    }

    /// Everything before this position is durable.
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Everything before this position has been handed to the kernel.
    pub fn written(&self) -> Lsn {
        Lsn(self.written.load(Ordering::Acquire))
    }

    /// The position after the last payload appended.
    pub fn tail(&self) -> Lsn {
        self.state.lock().tail.end()
    }

    /// The counters.
    pub fn stats(&self) -> LogStats {
        let state = self.state.lock();
        let (appends, record_bytes) = (state.appends, state.record_bytes);
        drop(state);
        LogStats { appends, record_bytes, bytes_replayed: self.bytes_replayed, ..self.counters.snapshot() }
    }

    /// Writes what waits, in the middle of an append that has more to come; other appends wait for its end.
    #[cold]
    fn drain<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>> {
        state.in_pieces = true;
        drop(state);
        let written = self.write_waiting(&mut self.io.lock()).map_err(|error| self.fail(&error));
        let mut state = self.state.lock();
        state.in_pieces = false;
        self.whole.notify_all();
        written.map(|()| state)
    }

    /// Sleeps until `lsn` is durable (`None`) or this thread has to force the log.
    fn wait_turn(&self, lsn: Lsn) -> Result<Option<Turn>> {
        if self.durable() >= lsn {
            return Ok(None);
        }
        let mut state = self.state.lock();
        assert!(lsn <= state.tail.end(), "only a position that `append` returned can be made durable");
        loop {
            if self.durable() >= lsn {
                return Ok(None);
            }
            state.check_unknown()?;
            let Some(covered) = state.forcing else { break };
            let round = state.round + u64::from(lsn > covered);
            self.gate(round).wait(&mut state);
        }
        Ok(Some(state.begin_turn(Lsn(u64::MAX))))
    }

    /// Publishes how a force ended, and wakes those it concerns.
    fn end_turn(&self, _turn: Turn, outcome: Result<Lsn>) -> Result<()> {
        let outcome = outcome.map_err(|error| self.fail(&error));
        let mut state = self.state.lock();
        if let Ok(durable) = &outcome {
            assert!(durable.0 >= self.durable.load(Ordering::Relaxed), "what is durable stays durable");
            self.durable.store(durable.0, Ordering::Release);
        }
        state.forcing = None;
        state.round += 1;
        // The next to force first: the device is idle.
        self.gate(state.round).notify_one();
        self.gate(state.round + 1).notify_all();
        outcome.map(drop)
    }

    /// Writes everything that waits and makes it durable, up to the position returned.
    fn force(&self) -> Result<Lsn> {
        let _guard = PanicGuard(self);
        let mut io = self.io.lock();
        let mut state = self.state.lock();
        state.check_unknown()?;
        let taken = state.tail.take(self.durable(), &mut io.buffer);
        state.tail.end_group();
        state.forcing = Some(taken.end);
        drop(state);
        count(&self.counters.groups, 1);
        let end = taken.end;
        let durably = io.unsynced.is_empty();
        self.put_taken(&mut io, taken, durably)?;
        if !durably {
            let unsynced = mem::take(&mut io.unsynced);
            drop(io);
            self.sync_segments(&unsynced)?;
        }
        Ok(end)
    }

    /// Hands everything that waits to the kernel.
    fn write_waiting(&self, io: &mut Io) -> Result<()> {
        let _guard = PanicGuard(self);
        let mut state = self.state.lock();
        state.check_unknown()?;
        let taken = state.tail.take(self.durable(), &mut io.buffer);
        drop(state);
        self.put_taken(io, taken, false)
    }

    fn put_taken(&self, io: &mut Io, taken: Taken, durably: bool) -> Result<()> {
        let mut buffer = mem::take(&mut io.buffer);
        for mut chunk in taken.full {
            self.put(io, chunk.span, &mut chunk.bytes, durably)?;
        }
        self.put(io, taken.last, &mut buffer, durably)?;
        buffer.clear();
        io.buffer = buffer;
        self.written.store(taken.end.0, Ordering::Release);
        Ok(())
    }

    /// Writes bytes where they belong, in whole sectors or at the end of a page that was filled before.
    fn put(&self, io: &mut Io, span: Span, bytes: &mut AlignedBuffer, durably: bool) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if span.segment.number != io.current.header.number {
            io.current = self.begin_segment(span.segment, span.spare)?;
        }
        let end = after(span.start, bytes.len());
        if durably || end > io.paged_to {
            let whole = round_up(end.0, SECTOR) - span.start.0;
            bytes.resize(usize_of(whole), 0);
            io.paged_to = sector_up(end);
        }
        let (segment, offset) = (&io.current, span.segment.offset_of(span.start));
        let written = if durably {
            count(&self.counters.syncs, 1);
            segment.direct.write_durable_at(bytes, offset)
        } else {
            segment.buffered.write_at(bytes, offset)
        };
        written.map_err(|error| Error::io("write", &segment.path, error))?;
        count(&self.counters.writes, 1);
        count(&self.counters.written_bytes, u64_of(bytes.len()));
        if !durably && io.unsynced.last().is_none_or(|last| !Arc::ptr_eq(last, segment)) {
            io.unsynced.push(Arc::clone(segment));
        }
        Ok(())
    }

    /// Makes the file of a segment that records were laid out for already.
    #[cold]
    fn begin_segment(&self, header: SegmentHeader, spare: Option<Spare>) -> Result<Arc<Segment>> {
        if spare.is_none() {
            count(&self.counters.segments_created, 1);
        }
        let segment = self.directory.begin(header, spare, self.options.direct)?;
        self.live.lock().push(Live { header, path: segment.path.clone() });
        self.wants_spare.store(true, Ordering::Relaxed);
        Ok(Arc::new(segment))
    }

    fn sync_segments(&self, segments: &[Arc<Segment>]) -> Result<()> {
        for segment in segments {
            segment.buffered.sync().map_err(|error| Error::io("sync", &segment.path, error))?;
            count(&self.counters.syncs, 1);
        }
        Ok(())
    }

    /// Makes the segments durable that were written in full through the page cache, so that the next commit need not.
    pub(super) fn sync_full_segments(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.forcing.is_some() || state.failure.is_some() {
            return Ok(());
        }
        let turn = state.begin_turn(self.durable());
        drop(state);
        let mut io = self.io.lock();
        let current = io.current.header.number;
        let (full, rest) =
            mem::take(&mut io.unsynced).into_iter().partition::<Vec<_>, _>(|it| it.header.number < current);
        io.unsynced = rest;
        drop(io);
        let outcome = self.sync_segments(&full).map(|()| self.durable());
        self.end_turn(turn, outcome)
    }

    /// Ends the log because of `error`, and says so to everyone.
    #[cold]
    fn fail(&self, error: &Error) -> Error {
        let mut state = self.state.lock();
        state.failure.get_or_insert_with(|| error.to_string());
        self.gates[0].notify_all();
        self.gates[1].notify_all();
        self.whole.notify_all();
        state.unknown()
    }

    fn gate(&self, round: u64) -> &Condvar {
        &self.gates[usize_of(round & 1)]
    }
}

/// The right to force the log, which one thread has at a time.
#[must_use]
#[derive(Debug)]
struct Turn;

/// Ends the log when a thread panics that has taken bytes from the tail: they would be missing in the middle, and others would wait.
struct PanicGuard<'a>(&'a LogWriter);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(&Error::new(ErrorKind::Poisoned, "a thread panicked while it wrote the redo log"));
        }
    }
}

impl State {
    fn new(tail: Tail) -> Self {
        Self {
            tail,
            forcing: None,
            round: 0,
            in_pieces: false,
            closed: false,
            failure: None,
            full_disk: None,
            appends: 0,
            record_bytes: 0,
        }
    }

    fn begin_turn(&mut self, covered: Lsn) -> Turn {
        self.forcing = Some(covered);
        Turn
    }

    /// Whether a payload of `bytes` may be appended.
    #[inline]
    fn check_append(&self, bytes: usize) -> Result<()> {
        if self.failure.is_some() || self.closed || self.full_disk.is_some() {
            return self.refuse_append(bytes);
        }
        Ok(())
    }

    #[cold]
    fn refuse_append(&self, bytes: usize) -> Result<()> {
        if let Some(failure) = &self.failure {
            let message = format!("the redo log failed earlier, reopen the database: {failure}");
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        if self.closed {
            return Err(Error::new(ErrorKind::Closed, "the redo log was closed"));
        }
        match &self.full_disk {
            Some(reason) if u64_of(bytes) > self.tail.room_bytes() => {
                Err(Error::new(ErrorKind::Full, format!("no room for the redo log: {reason}")))
            }
            _ => Ok(()),
        }
    }

    /// Fails after a failure, for records appended before it.
    fn check_unknown(&self) -> Result<()> {
        if self.failure.is_some() { Err(self.unknown()) } else { Ok(()) }
    }

    fn unknown(&self) -> Error {
        let failure = self.failure.as_deref().unwrap_or_default();
        let message = format!("unknown whether this commit is durable, reopen the database to learn it: {failure}");
        Error::new(ErrorKind::Poisoned, message)
    }
}
