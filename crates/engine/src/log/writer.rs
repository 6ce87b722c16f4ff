//! Appending to the log and making it durable.
//!
//! # Concurrency
//! There is no log thread and no timer. The thread that commits writes and forces the log itself, unless as many forces
//! are in flight as the device gains from ([`Flights`]). Threads that arrive meanwhile form the next group, and one of
//! them forces it when another force has landed. Before it does it gives way a few times, if the last forces served
//! groups, so that the threads just woken join this group.
//!
//! * `state` guards the tail of the log in memory and the [`Flights`]. It is held for copies, never for I/O.
//! * `io` guards where bytes go: the thread that holds it takes what waits and opens segments, so forces take off in
//!   order of position. Direct writes and syncs happen without it, side by side.
//! * Where pages of the file are mapped ([`Paged`]), an append copies its bytes into them, under `state`, and no thread
//!   has to write them.
//! * Order: the right to force ([`Turn::Force`]), then `io`, then `state`.
//!
//! Each flight has a gate, where the threads wait that it covers. Threads that it came too early for wait at the gate
//! of the next one. When flights have landed with all before them, all threads at their gates are woken, and one at the
//! gate of the next flight, which then forces the log.
//!
//! # Direct and buffered writes
//! `sync` alone writes whole sectors past the page cache, durable when the call returns: one system call per lone
//! commit. `write` goes through the page cache: it fills pages with zeros when it first touches them (`output` says how
//! many), and from then on adds bytes to them, where the system can without a call. While any buffered bytes are not
//! durable, `sync` also writes buffered and then syncs the files. The two never meet in one sector: after each force
//! the next group begins at a sector of its own, so direct writes go where no page is dirty, though one may hold zeros,
//! and no page is filled from the device. (Linux writes a range's dirty pages back and drops them before a direct write
//! to it, so larger pages do no harm.) Nor do they meet in time, because such a drop fails when somebody fills the page
//! anew: buffered bytes are written while no direct write is in flight, and their sync flies alone. (They may be
//! written beside a sync, which then may or may not take them along; the next one does.)
//!
//! # Invariants
//! 1. Positions are published as durable in order: only when everything before them is. A crash may leave a later group
//!    without an earlier one; it then ends the log at the gap, and nobody was told of what lies behind.
//! 2. The first failure of a write or sync ends the log: nothing is tried again, every later call fails.

use super::files::Io;
use super::flights::{FLIGHTS_MAX, Flights, Turn};
use super::format::{Begins, SegmentHeader};
use super::gates::Gates;
use super::hold::Holds;
use super::options::LogOptions;
use super::pack::Packed;
use super::paged::{Mapped, Paged};
use super::payload::Payload;
use super::recover::RecoveredLog;
use super::segment::{Directory, Live, Spare};
use super::spare::{SPARES_MAX, SpareMakes, is_useful, new_segment_bytes};
use super::stats::{Counters, LogStats, count};
use super::tail::Tail;
use crate::base::num::u64_of;
use crate::base::sync::thread::{Thread, park, yield_now};
use crate::base::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard};
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::{AlignedBuffer, Env};
use std::mem;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// More waiting bytes than this are written by the next thread that appends.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// A payload that is larger goes in pieces of so many bytes: they are copied within the processor's cache.
const PIECE_BYTES: usize = 512 << 10;
/// How often a thread that is about to force gives way to others.
const YIELDS_MAX: u32 = 8;

/// Writes the redo log. Shared by all threads.
#[derive(Debug)]
pub struct LogWriter {
    pub(super) options: LogOptions,
    pub(super) directory: Directory,
    pub(super) state: Mutex<State>,
    /// Where threads sleep that want to append while a payload is appended in pieces.
    whole: Condvar,
    pub(super) io: Mutex<Io>,
    /// The segments that are still needed, oldest first, the one being written last.
    pub(super) live: Mutex<Vec<Live>>,
    /// The holds of readers of the log. Taken after `live`.
    pub(super) holds: Mutex<Holds>,
    /// Held while a spare is made.
    pub(super) spare_makes: Mutex<SpareMakes>,
    /// Everything before it is in the kernel's hands. Published with Release by the thread that wrote it, so that a
    /// thread that sees it need not write.
    written: AtomicU64,
    /// Everything before it is durable. Published with Release by the thread that forced it, to those that wait for it.
    durable: AtomicU64,
    /// Whether background work waits. Publishes nothing.
    pub(super) wants_spare: AtomicBool,
    /// As `wants_spare`, for pages.
    wants_pages: AtomicBool,
    pub(super) counters: Counters,
    bytes_replayed: u64,
    replay_us: u64,
}

/// The log in memory.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tail: Tail,
    paged: Paged,
    flights: Flights,
    /// Where threads sleep until a force lands.
    gates: Gates,
    /// Empty buffers that forces put in the place of the tail's.
    buffers: Vec<AlignedBuffer>,
    /// Bytes of large payloads for which files are at hand, and that are not appended yet.
    pub(super) promised_bytes: u64,
    /// Whether a payload is appended in pieces.
    in_pieces: bool,
    closed: bool,
    /// What the first failure was.
    failure: Option<String>,
    /// Why no spare could be made or opened, while that is because of a full disk or for want of descriptors.
    pub(super) full_disk: Option<String>,
    appends: u64,
    /// How many of them the forces so far have taken.
    forced_appends: u64,
    /// How many the last force took, and the one before.
    last_groups: [u64; 2],
    record_bytes: u64,
    packed_bytes: u64,
}

impl LogWriter {
    /// Goes on with a log after [`recover`](super::recover): begins a new segment that seals what was recovered, and
    /// removes what does not count any more. All of it is durable when this returns.
    ///
    /// # Errors
    /// `Invalid` for options out of range, `Full` or `Io` when a file cannot be made.
    pub fn open(env: &Env, directory: &Path, options: LogOptions, mut recovered: RecoveredLog) -> Result<Self> {
        options.check()?;
        let directory = Directory { env: env.clone(), path: directory.to_owned() };
        let fresh_bytes = new_segment_bytes(0, options.segment_bytes);
        let first = recovered.first.take();
        let header = SegmentHeader {
            begins: Begins::Seals,
            database: recovered.database,
            number: recovered.next_number,
            bytes: first.as_ref().map_or(fresh_bytes, |spare| spare.bytes),
            first: recovered.next_first,
            previous: recovered.summary.end_segment,
            previous_end: recovered.summary.end,
        };
        for path in &recovered.unfinished {
            directory.remove(path)?;
        }
        let segment = Arc::new(directory.begin(header, first, options.direct)?);
        directory.keep_name(&segment)?;
        // Not before the seal is durable: until then they might still be the log.
        for path in &recovered.orphans {
            directory.remove(path)?;
        }
        let useful = |spare: &Spare| is_useful(spare.bytes, 0, options.segment_bytes);
        let (mut spares, mut others) = recovered.spares.into_iter().partition::<Vec<_>, _>(useful);
        others.extend(spares.drain(SPARES_MAX.min(spares.len())..));
        for spare in &others {
            directory.remove(&spare.path)?;
        }
        let mut live = recovered.live;
        live.push(Live { header, path: segment.path.clone(), bytes: header.bytes });
        let counters = Counters::default();
        count(&counters.segments_created, 1);
        count(&counters.segments_removed, u64_of(recovered.orphans.len() + others.len()));
        Ok(Self {
            options,
            directory,
            state: Mutex::new(State::new(Tail::new(header, spares, fresh_bytes))),
            whole: Condvar::new(),
            io: Mutex::new(Io::new(segment)),
            live: Mutex::new(live),
            holds: Mutex::default(),
            spare_makes: Mutex::new(SpareMakes::new(recovered.next_spare)),
            written: AtomicU64::new(header.first.0),
            durable: AtomicU64::new(header.first.0),
            wants_spare: AtomicBool::new(true),
            wants_pages: AtomicBool::new(false),
            counters,
            bytes_replayed: recovered.summary.bytes,
            replay_us: recovered.replay_us,
        })
    }

    /// Appends a payload, given in parts, and returns the position after it, to be handed to [`Self::sync`] or
    /// [`Self::write`]. It is in memory only, unless so much waits that this thread has to write some of it.
    ///
    /// # Errors
    /// `Full` when the disk has no room for the segments it needs, before anything of it is appended; `Closed`;
    /// `Poisoned` after a failure.
    pub fn append(&self, parts: &[&[u8]]) -> Result<Lsn> {
        let payload = Payload::new(parts, false);
        let raw_bytes = payload.left();
        self.append_payload(payload, raw_bytes).map(|place| place.end)
    }

    /// Compresses the body of a payload as the options say, if that saves space. For [`Self::append_packed`], before
    /// any latch is taken: it goes on beside the writes of others.
    pub fn pack<'a>(&self, body: &'a [u8]) -> Packed<'a> {
        let method = self.options.compression.method();
        if !Packed::is_tried(body.len(), method) {
            return Packed::plain(body);
        }
        let start = self.directory.env.clock.now();
        let packed = Packed::new(body, method);
        let time = self.directory.env.clock.now().saturating_sub(start);
        count(&self.counters.compression_ns, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        packed
    }

    /// Appends a payload made of a head, which is stored as it is, and a packed body, and returns where the log ended
    /// before it and where it ends now. Else as [`Self::append`].
    ///
    /// # Errors
    /// As for [`Self::append`].
    pub fn append_packed(&self, head: &[u8], body: &Packed<'_>) -> Result<Range<Lsn>> {
        let raw_bytes = head.len() + body.raw_bytes();
        body.with_parts(head, |parts| self.append_payload(Payload::new(parts, body.is_packed()), raw_bytes))
    }

    /// Appends a payload that had `raw_bytes` bytes before it was packed.
    fn append_payload(&self, mut payload: Payload<'_>, raw_bytes: usize) -> Result<Range<Lsn>> {
        let mut state = self.state.lock();
        while state.in_pieces && state.failure.is_none() {
            self.whole.wait(&mut state);
        }
        state.check_append(payload.left())?;
        state.appends += 1;
        state.record_bytes += u64_of(raw_bytes);
        state.packed_bytes += u64_of(payload.left());
        let start = state.tail.end();
        let most = if payload.left() > WAITING_BYTES_MAX { PIECE_BYTES } else { WAITING_BYTES_MAX };
        loop {
            if state.tail.waiting_bytes() >= most {
                state = self.drain(state)?;
            }
            state.tail.push(&mut payload);
            if payload.is_done() {
                self.hand_over(&mut state);
                return Ok(start..state.tail.end());
            }
        }
    }

    /// Copies what waits to where it belongs, if there are pages for it; whether there were.
    #[inline]
    fn hand_over(&self, state: &mut State) -> bool {
        let State { paged, tail, .. } = state;
        let Some(segment) = paged.open_segment() else { return false };
        let (waiting, mut end) = (tail.waiting_bytes(), 0);
        let put = tail.hand_over(segment, self.durable(), |bytes, offset| {
            end = offset + u64_of(bytes.len());
            paged.put(bytes, offset)
        });
        if put {
            self.counters.wrote_alone(waiting);
            self.written.store(tail.end().0, Ordering::Release);
            if paged.wants_more(end) {
                self.wants_pages.store(true, Ordering::Relaxed);
            }
        } else {
            paged.close();
        }
        put
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
        while self.wait_turn(lsn)? {
            self.force().map_err(|error| self.fail(&error))?;
        }
        Ok(())
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

    /// Gives back the memory of a log that was closed or has failed.
    pub fn give_back(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let held = (mem::take(&mut state.paged), mem::take(&mut state.buffers));
        drop(state);
        drop(held);
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
        let (appends, record_bytes, packed_bytes) = (state.appends, state.record_bytes, state.packed_bytes);
        drop(state);
        LogStats {
            appends,
            record_bytes,
            packed_bytes,
            bytes_replayed: self.bytes_replayed,
            replay_us: self.replay_us,
            ..self.counters.snapshot()
        }
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

    /// Sleeps until `lsn` is durable (false) or this thread has to force the log (true).
    fn wait_turn(&self, lsn: Lsn) -> Result<bool> {
        if self.durable() >= lsn {
            return Ok(false);
        }
        let mut state = self.state.lock();
        assert!(lsn <= state.tail.end(), "only a position that `append` returned can be made durable");
        let mut waits = false;
        loop {
            if self.durable() >= lsn {
                return Ok(false);
            }
            state.check_unknown()?;
            let Turn::Wait(flight) = state.flights.turn(lsn) else {
                self.gather(state);
                return Ok(true);
            };
            if !mem::replace(&mut waits, true) {
                count(&self.counters.waits, 1);
            }
            let Some(awake) = self.sleep(state, flight, || self.durable() >= lsn) else { return Ok(false) };
            state = awake;
        }
    }

    /// Sleeps until the threads that wait for the flight of this number are woken. A thread that is `done` then does
    /// not take the latch again.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        flight: u64,
        done: impl Fn() -> bool,
    ) -> Option<MutexGuard<'a, State>> {
        state.gates.enter(flight);
        drop(state);
        park();
        if done() {
            return None;
        }
        let mut state = self.state.lock();
        state.gates.leave(flight);
        Some(state)
    }

    /// Lets other threads go first that were woken when the last force landed and are about to commit again: with them
    /// this force serves all. Without them it serves half, and the next force the other half. A thread that commits
    /// alone does not stop here.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        let mut turns = YIELDS_MAX;
        while turns > 0 && state.is_half_a_group() {
            drop(state);
            yield_now();
            state = self.state.lock();
            turns -= 1;
        }
    }

    /// Writes everything that waits and makes it durable. Published is it when all before it is durable too.
    fn force(&self) -> Result<()> {
        let mut io = self.io.lock();
        let _guard = PanicGuard(self);
        let direct = io.files.unsynced.is_empty();
        let mut state = if direct { self.state.lock() } else { self.landed(Flights::newest)? };
        state.check_unknown()?;
        if io.taken.last.bytes.capacity() == 0 {
            io.taken.last.bytes = state.buffers.pop().unwrap_or_default();
        }
        state.paged.close();
        // Filled is then up to where a direct write ends, and no further.
        let pages = direct.then(|| mem::take(&mut state.paged));
        state.tail.take(self.durable(), &mut io.taken);
        state.tail.end_group();
        io.files.forced = state.tail.position();
        let flight = state.flights.take_off(io.taken.end, !direct);
        let appends = state.take_appends();
        drop(state);
        drop(pages);
        count(&self.counters.groups, 1);
        self.counters.group_appends.add(appends);
        if direct {
            let placed = self.place_direct(&mut io)?;
            drop(io);
            let (buffer, time) = self.put_durably(placed)?;
            self.land(flight, time, buffer)
        } else {
            // The next write does not wait for this flight: a failure is recorded before `io` is released.
            let mapped = self.put(&mut io).map_err(|error| self.fail(&error))?;
            self.keep_pages(&io, mapped, false);
            count(&self.counters.written_bytes, io.files.sync_zeros());
            let unsynced = mem::take(&mut io.files.unsynced);
            drop(io);
            self.sync_segments(&unsynced)?;
            self.land(flight, None, AlignedBuffer::default())
        }
    }

    /// Hands everything that waits to the kernel.
    fn write_waiting(&self, io: &mut Io) -> Result<()> {
        let _guard = PanicGuard(self);
        let mut state = self.landed(Flights::newest_direct)?;
        if state.paged.is_of(io.files.current.header.number) {
            // Pages are left from before a force.
            io.files.expect_sync();
            state.paged.open();
            if self.hand_over(&mut state) {
                return Ok(());
            }
        }
        state.tail.take(self.durable(), &mut io.taken);
        drop(state);
        let mapped = self.put(io)?;
        // Flights under way took off before this and end earlier: this takes nothing back.
        self.written.store(io.taken.end.0, Ordering::Release);
        self.keep_pages(io, mapped, true);
        Ok(())
    }

    /// Where the log ends, if it goes through pages of which too little is left.
    fn end_of_short_pages(&self) -> Option<Lsn> {
        let state = self.state.lock();
        let (segment, end) = (state.tail.segment(), state.tail.position());
        let is_short = state.failure.is_none() && state.paged.is_short(segment.number, segment.offset_of(end));
        is_short.then_some(end)
    }

    /// Keeps pages of the current segment for commits.
    fn keep_pages(&self, io: &Io, mapped: Option<Mapped>, is_open: bool) {
        let Some(mapped) = mapped else { return };
        let mut state = self.state.lock();
        let old = state.paged.replace(io.files.current.header.number, mapped);
        if is_open {
            state.paged.open();
        }
        drop(state);
        drop(old);
    }

    /// Whether [`Self::page_ahead`] has something to do. Says so once.
    pub fn wants_pages(&self) -> bool {
        self.wants_pages.load(Ordering::Relaxed) && self.wants_pages.swap(false, Ordering::Relaxed)
    }

    /// Fills more pages with zeros, for commits that are copied into them. For a background worker: a commit that finds
    /// none writes some itself.
    ///
    /// # Errors
    /// `Poisoned` when a write fails or has failed.
    pub fn page_ahead(&self) -> Result<()> {
        if self.end_of_short_pages().is_none() {
            return Ok(());
        }
        let mut io = self.io.lock();
        let _guard = PanicGuard(self);
        // Pages are closed under `io`, but for an append that finds too few: then these are too late.
        let Some(end) = self.end_of_short_pages() else { return Ok(()) };
        let mapped = self.fill_ahead(&mut io.files, end).map_err(|error| self.fail(&error))?;
        let mut state = self.state.lock();
        let full = state.paged.add(mapped);
        drop((state, io));
        drop(full);
        Ok(())
    }

    /// Waits until no flight is left of those whose last one `newest` names. The caller holds `io`, so nothing takes
    /// off meanwhile.
    fn landed(&self, newest: impl Fn(&Flights) -> Option<u64>) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state.lock();
        loop {
            state.check_unknown()?;
            let Some(flight) = newest(&state.flights) else { return Ok(state) };
            state = self.sleep(state, flight, || false).expect("it is never done early");
        }
    }

    /// Publishes what a flight that ended well made durable, and wakes those it concerns.
    fn land(&self, flight: u64, time: Option<Duration>, buffer: AlignedBuffer) -> Result<()> {
        let mut state = self.state.lock();
        state.check_unknown()?;
        state.keep(buffer);
        time.into_iter().for_each(|time| state.flights.timed(time));
        let (landed, durable) = state.flights.land(flight);
        if let Some(durable) = durable {
            self.written.fetch_max(durable.0, Ordering::Release);
            self.durable.fetch_max(durable.0, Ordering::Release);
        }
        // The next to force first: the device waits for it.
        let next = state.flights.next();
        let mut woken: Vec<_> = state.gates.first(next).into_iter().collect();
        landed.for_each(|flight| woken.append(&mut state.gates.all(flight)));
        drop(state);
        woken.iter().for_each(Thread::unpark);
        Ok(())
    }

    /// Makes the segments durable that were written in full through the page cache, so that the next commit need not.
    pub(super) fn sync_full_segments(&self) -> Result<()> {
        let mut io = self.io.lock();
        let mut state = self.state.lock();
        if state.flights.is_full() || state.failure.is_some() {
            return Ok(());
        }
        let current = io.files.current.header.number;
        let (full, rest) =
            mem::take(&mut io.files.unsynced).into_iter().partition::<Vec<_>, _>(|it| it.header.number < current);
        io.files.unsynced = rest;
        if full.is_empty() {
            return Ok(());
        }
        // The next force need not sync these segments, and is published after them.
        let flight = state.flights.join(self.durable(), true);
        drop((state, io));
        let synced = self.sync_segments(&full).and_then(|()| self.land(flight, None, AlignedBuffer::default()));
        synced.map_err(|error| self.fail(&error))
    }

    /// Ends the log because of `error`, and says so to everyone.
    #[cold]
    pub(super) fn fail(&self, error: &Error) -> Error {
        let mut state = self.state.lock();
        state.failure.get_or_insert_with(|| error.to_string());
        state.gates.everyone().iter().for_each(Thread::unpark);
        self.whole.notify_all();
        state.unknown()
    }
}

/// Ends the log when a thread panics that has taken bytes from the tail: they would be missing in the middle, and
/// others would wait.
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
            paged: Paged::default(),
            flights: Flights::default(),
            gates: Gates::default(),
            buffers: Vec::new(),
            promised_bytes: 0,
            in_pieces: false,
            closed: false,
            failure: None,
            full_disk: None,
            appends: 0,
            forced_appends: 0,
            last_groups: [0; 2],
            record_bytes: 0,
            packed_bytes: 0,
        }
    }

    /// Keeps a buffer for later, if it has memory.
    fn keep(&mut self, buffer: AlignedBuffer) {
        if buffer.capacity() > 0 && self.buffers.len() <= FLIGHTS_MAX {
            self.buffers.push(buffer);
        }
    }

    /// Payloads appended since the last force.
    fn take_appends(&mut self) -> u64 {
        let group = self.appends - mem::replace(&mut self.forced_appends, self.appends);
        self.last_groups = [group, self.last_groups[0]];
        group
    }

    /// Whether fewer payloads wait than the last two forces took, of which one was a group.
    fn is_half_a_group(&self) -> bool {
        let [last, before] = self.last_groups;
        last.max(before) > 1 && self.appends - self.forced_appends < last + before
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
            Some(reason) if u64_of(bytes) > self.tail.open_room_bytes() => {
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
