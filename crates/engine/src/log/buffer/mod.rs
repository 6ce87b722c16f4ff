//! The log buffer: payloads that are appended and not written yet.
//!
//! An append lays out a payload as fragments at their final positions. They leave the buffer in one of two ways: a
//! thread takes everything as a [`Batch`] and writes it, or, while a [`MappedWindow`] is open, the append copies them
//! into mapped pages of the file.
//!
//! # Concurrency
//! One latch guards the buffer. It is held for copies, never for I/O. Under it only the pool's latch on spares is
//! taken.
//!
//! # Invariants
//! 1. Positions are given out in order and without gaps within a segment.
//! 2. The window is open only while everything before the buffer's bytes is written, the window's segment is among
//!    those to be synced, and no direct write is in flight.

pub(in crate::log) mod builder;
pub(in crate::log) mod delta;
pub(in crate::log) mod pack;
pub(in crate::log) mod window;

use self::builder::{Batch, BatchBuilder, Payload};
use self::window::{MappedRange, MappedWindow};
use super::failure::Failure;
use super::format::SegmentHeader;
use super::pool::{Reservation, SegmentPool};
use super::stats::{LogStats, WriteCounters};
use crate::base::num::u64_of;
use crate::base::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard};
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::{AlignedBuffer, Pages};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A thread that appends more than this number of waiting bytes writes them.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// A larger payload is appended in pieces of this size: they are copied within the processor's cache.
const PIECE_BYTES: usize = 512 << 10;
/// How many empty buffers are kept: one for each write that can be in flight, and one more.
const BUFFERS_MAX: usize = 5;

/// The log buffer. Aligned so that its latch shares no cache line with other state of the log.
#[derive(Debug)]
#[repr(align(128))]
pub(in crate::log) struct LogBuffer {
    state: Mutex<State>,
    /// Where threads sleep that want to append while a payload is appended in pieces.
    whole: Condvar,
    /// Everything before it was handed to the kernel by buffered writes and copies. Published with Release by the
    /// thread that wrote it, so that a thread that sees it need not write.
    written: AtomicU64,
    /// Whether a background worker should extend the window. Publishes nothing.
    wants_window: AtomicBool,
    pool: Arc<SegmentPool>,
    failure: Arc<Failure>,
    counters: Arc<WriteCounters>,
}

#[derive(Debug)]
struct State {
    builder: BatchBuilder,
    window: MappedWindow,
    /// Empty buffers that take the place of the builder's when a batch is taken.
    buffers: Vec<AlignedBuffer>,
    /// Whether a payload is appended in pieces.
    in_pieces: bool,
    is_closed: bool,
    appends: Appends,
}

/// What was appended.
#[derive(Debug, Default)]
struct Appends {
    payloads: u64,
    /// How many of them groups have taken.
    grouped: u64,
    /// How many the last group took, and the one before.
    last_groups: [u64; 2],
    raw_bytes: u64,
    packed_bytes: u64,
}

/// What [`LogBuffer::take_group`] ends, besides the batch.
#[derive(Debug)]
pub(in crate::log) struct GroupEnd {
    /// Where the next group begins.
    pub(in crate::log) next: Lsn,
    /// Payloads of the group.
    pub(in crate::log) payloads: u64,
    /// The window that is not used any more. To be dropped without latches: unmapping takes long.
    pub(in crate::log) window: Option<MappedWindow>,
}

impl LogBuffer {
    /// The buffer of a log that begins with an empty segment.
    pub(in crate::log) fn new(
        segment: SegmentHeader,
        pool: Arc<SegmentPool>,
        failure: Arc<Failure>,
        counters: Arc<WriteCounters>,
    ) -> Self {
        let state = State {
            builder: BatchBuilder::new(segment, Arc::clone(&pool)),
            window: MappedWindow::default(),
            buffers: Vec::new(),
            in_pieces: false,
            is_closed: false,
            appends: Appends::default(),
        };
        Self {
            state: Mutex::new(state),
            whole: Condvar::new(),
            written: AtomicU64::new(segment.first.0),
            wants_window: AtomicBool::new(false),
            pool,
            failure,
            counters,
        }
    }

    /// Appends a payload that had `raw_bytes` bytes before it was packed, and returns the positions that it takes.
    /// `delta`, a delta of the same payload, takes its place if the payload begins in the segment of the delta's base,
    /// whose position comes with it. Everything before `durable` is durable. When too much waits, `write` writes it in
    /// between; it is called without the latch, and other appends wait.
    ///
    /// # Errors
    /// `Full`, before anything is appended, when the payload does not fit and there is no space for another segment;
    /// `Closed`; `Poisoned`; what `write` returns.
    pub(in crate::log) fn append<'a>(
        &self,
        mut payload: Payload<'a>,
        mut delta: Option<(Lsn, Payload<'a>)>,
        (raw_bytes, durable): (usize, Lsn),
        mut write: impl FnMut() -> Result<()>,
    ) -> Result<Range<Lsn>> {
        let mut state = self.lock_whole();
        self.check_append(&state, payload.left())?;
        let start = state.builder.end();
        let waiting_max = if payload.left() > WAITING_BYTES_MAX { PIECE_BYTES } else { WAITING_BYTES_MAX };
        loop {
            if state.builder.waiting_bytes() >= waiting_max {
                state = self.drain(state, &mut write)?;
            }
            if !payload.is_begun() {
                // Not before the drain, which releases the latch: another segment may have begun meanwhile.
                payload = match delta.take() {
                    Some((base, delta)) if base >= state.builder.next_segment_first() => delta,
                    _ => payload,
                };
                state.appends.add(raw_bytes, payload.left());
            }
            state.builder.push(&mut payload);
            if payload.is_done() {
                self.copy(&mut state, durable);
                return Ok(start..state.builder.end());
            }
        }
    }

    /// Reserves `bytes` of payload; for how many of them files are missing.
    pub(in crate::log) fn reserve(&self, bytes: u64) -> (Reservation<'_>, u64) {
        let state = self.state.lock();
        self.pool.reserve(bytes, state.builder.left_bytes())
    }

    /// Refuses a payload of `bytes` that does not fit when there is no space for another segment.
    ///
    /// # Errors
    /// `Full`, naming the reason.
    #[inline]
    pub(in crate::log) fn check_space(&self, bytes: usize) -> Result<()> {
        self.pool.shortage_for(bytes, || self.state.lock().builder.left_bytes()).map_or(Ok(()), |why| Err(full(&why)))
    }

    /// Where the last payload ends.
    pub(in crate::log) fn end(&self) -> Lsn {
        self.state.lock().builder.end()
    }

    /// Everything before it was handed to the kernel by buffered writes and copies.
    pub(in crate::log) fn written(&self) -> Lsn {
        Lsn(self.written.load(Ordering::Acquire))
    }

    /// Everything before `end` was handed to the kernel by a buffered write.
    pub(in crate::log) fn set_written(&self, end: Lsn) {
        self.written.store(end.0, Ordering::Release);
    }

    /// Adds the counters of appends.
    pub(in crate::log) fn add_stats(&self, stats: &mut LogStats) {
        let state = self.state.lock();
        stats.appends = state.appends.payloads;
        stats.record_bytes = state.appends.raw_bytes;
        stats.packed_bytes = state.appends.packed_bytes;
    }

    /// Hands everything that waits to the page cache, while no direct write is in flight: opens the window on segment
    /// `number`, if there is one, and copies it; else fills `batch`, to be written, and says true. The caller makes
    /// sure by `expect_sync` that the next group syncs the segment.
    #[inline]
    pub(in crate::log) fn copy_or_take(
        &self,
        number: u64,
        durable: Lsn,
        batch: &mut Batch,
        expect_sync: impl FnOnce(),
    ) -> bool {
        let mut state = self.state.lock();
        // Pages may be left from before a sync.
        if state.window.is_of(number) {
            expect_sync();
            state.window.open();
            if self.copy(&mut state, durable) {
                return false;
            }
        }
        state.builder.take(durable, batch);
        true
    }

    /// Fills `batch` with everything that waits and ends the group. Closes the window, and gives it up if the batch is
    /// to be written past the page cache (`direct`): pages are then filled up to where the batch ends, and no further.
    pub(in crate::log) fn take_group(&self, durable: Lsn, batch: &mut Batch, direct: bool) -> GroupEnd {
        let mut state = self.state.lock();
        if batch.last.bytes.capacity() == 0 {
            batch.last.bytes = state.buffers.pop().unwrap_or_default();
        }
        state.window.close();
        let window = direct.then(|| mem::take(&mut state.window));
        state.builder.take(durable, batch);
        state.builder.end_group();
        GroupEnd { next: state.builder.position(), payloads: state.appends.end_group(), window }
    }

    /// How many payloads wait, and how many make a whole group: what the last two groups had together, if one of these
    /// served several threads. So threads that commit in turns come into step.
    pub(in crate::log) fn group(&self) -> (u64, u64) {
        self.state.lock().appends.group()
    }

    /// Keeps an empty buffer for later, if it has memory.
    pub(in crate::log) fn keep_buffer(&self, buffer: AlignedBuffer) {
        let mut state = self.state.lock();
        if buffer.capacity() > 0 && state.buffers.len() < BUFFERS_MAX {
            state.buffers.push(buffer);
        }
    }

    /// Lets nothing follow but the end mark: waits for an append in pieces, and tells where the log ends. `None` when
    /// it was closed before.
    ///
    /// # Errors
    /// `Poisoned` after a failure.
    pub(in crate::log) fn close(&self) -> Result<Option<Lsn>> {
        let mut state = self.lock_whole();
        self.failure.check_appended()?;
        let is_first = !mem::replace(&mut state.is_closed, true);
        Ok(is_first.then(|| state.builder.end()))
    }

    /// Appends the end mark, and tells where it ends.
    pub(in crate::log) fn push_end(&self) -> Lsn {
        let mut state = self.state.lock();
        state.builder.push_end();
        state.builder.end()
    }

    /// Gives back the memory of a log that was closed or has failed. Nothing can be appended any more.
    pub(in crate::log) fn give_back(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let held = (mem::take(&mut state.window), mem::take(&mut state.buffers));
        drop(state);
        drop(held);
    }

    /// Wakes the threads that wait for an append in pieces, after a failure.
    pub(in crate::log) fn wake(&self) {
        // A thread that has looked for a failure under the latch sleeps by now.
        drop(self.state.lock());
        self.whole.notify_all();
    }

    // -----------------------------------------------------------------------------------------------------------------
    // The window.

    /// Has a window on other pages of segment `number`, and opens it if `is_open`.
    pub(in crate::log) fn replace_window(&self, number: u64, pages: MappedRange, is_open: bool) {
        let mut state = self.state.lock();
        let old = state.window.replace(number, pages);
        if is_open {
            state.window.open();
        }
        drop(state);
        drop(old);
    }

    /// Has more pages in the window. Returns the full ones, to be dropped without latches.
    #[must_use]
    pub(in crate::log) fn extend_window(&self, pages: Option<MappedRange>) -> Vec<Box<dyn Pages>> {
        self.state.lock().window.add(pages)
    }

    /// Where the log ends, if appends are copied into a window of which too little is left.
    pub(in crate::log) fn end_of_short_window(&self) -> Option<Lsn> {
        let state = self.state.lock();
        let (segment, end) = (state.builder.segment(), state.builder.position());
        let is_short = !self.failure.is_set() && state.window.is_short(segment.number, segment.offset_of(end));
        is_short.then_some(end)
    }

    /// Whether the window should be extended. Says so once.
    pub(in crate::log) fn take_window_wish(&self) -> bool {
        self.wants_window.load(Ordering::Relaxed) && self.wants_window.swap(false, Ordering::Relaxed)
    }

    /// Copies what waits into the window, if it is open and takes it all; else closes it.
    #[inline]
    fn copy(&self, state: &mut State, durable: Lsn) -> bool {
        let State { window, builder, .. } = state;
        let Some(segment) = window.open_segment() else { return false };
        let (waiting, mut end) = (builder.waiting_bytes(), 0);
        let is_copied = builder.copy_out(segment, durable, |bytes, offset| {
            end = offset + u64_of(bytes.len());
            window.copy(bytes, offset)
        });
        if is_copied {
            self.counters.wrote_alone(waiting);
            self.set_written(builder.end());
            if window.wants_more(end) {
                self.wants_window.store(true, Ordering::Relaxed);
            }
        } else {
            window.close();
        }
        is_copied
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Appending.

    /// The latch, when no payload is appended in pieces.
    #[inline]
    fn lock_whole(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while state.in_pieces && !self.failure.is_set() {
            self.whole.wait(&mut state);
        }
        state
    }

    /// Whether a payload of `bytes` may be appended.
    #[inline]
    fn check_append(&self, state: &State, bytes: usize) -> Result<()> {
        self.failure.check_append()?;
        if state.is_closed {
            return Err(Error::new(ErrorKind::Closed, "the redo log was closed"));
        }
        self.pool.shortage_for(bytes, || state.builder.left_bytes()).map_or(Ok(()), |why| Err(full(&why)))
    }

    /// Has `write` write what waits, in the middle of an append that has more to come.
    #[cold]
    fn drain<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        write: &mut impl FnMut() -> Result<()>,
    ) -> Result<MutexGuard<'a, State>> {
        state.in_pieces = true;
        drop(state);
        let written = write();
        let mut state = self.state.lock();
        state.in_pieces = false;
        self.whole.notify_all();
        written.map(|()| state)
    }
}

impl Appends {
    /// Counts a payload.
    #[inline]
    fn add(&mut self, raw_bytes: usize, packed_bytes: usize) {
        self.payloads += 1;
        self.raw_bytes += u64_of(raw_bytes);
        self.packed_bytes += u64_of(packed_bytes);
    }

    /// Ends a group; how many payloads it has.
    fn end_group(&mut self) -> u64 {
        let group = self.payloads - mem::replace(&mut self.grouped, self.payloads);
        self.last_groups = [group, self.last_groups[0]];
        group
    }

    fn group(&self) -> (u64, u64) {
        let [last, before] = self.last_groups;
        let whole = if last.max(before) > 1 { last + before } else { 0 };
        (self.payloads - self.grouped, whole)
    }
}

#[cold]
fn full(why: &str) -> Error {
    Error::new(ErrorKind::Full, format!("no space for another segment: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_whole_when_as_many_wait_as_the_last_two_groups_had() {
        let mut appends = Appends::default();
        // Of each group how many are appended, from which of them on it is no half group.
        for (group, whole_from) in [(1, 0), (1, 0), (3, 0), (5, 4), (4, 8), (1, 9), (1, 5), (2, 0), (9, 3)] {
            for appended in 0..group {
                let (waiting, whole) = appends.group();
                assert_eq!(waiting < whole, appended < whole_from, "{appended} of {group}");
                appends.add(10, 10);
            }
            assert_eq!(appends.end_group(), group);
        }
    }
}
