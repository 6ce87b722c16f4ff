//! The log writer, the only part of the log that others write through: payloads go into the log buffer, and in groups
//! from there to the device.
//!
//! # Concurrency
//! There is no log thread and no timer. The thread that commits writes the log and makes it durable itself, or waits
//! for a thread that does ([`SyncQueue`]). Before it leads a group it gives way a few times, if the last groups served
//! several threads, so that the threads just woken join this group ([`Patience`]).
//!
//! * The log buffer has a latch, held for copies, never for I/O.
//! * The sync queue has a latch, held for moments.
//! * `output` is held while a batch is taken from the buffer, placed in segments and, if it is buffered, written: so
//!   writes begin in order of position. Direct writes and syncs happen without it, several at a time.
//! * Order: the right to lead a group, then `output`, then one of the others. The latches of buffer and queue are not
//!   held together.
//!
//! # Direct and buffered writes
//! `sync` alone writes whole sectors past the page cache, durable when the call returns: one system call per lone
//! commit. `write` goes through the page cache: it fills pages with zeros when it first touches them (`segment_writer`
//! says how many), and from then on adds bytes to them, where the system can without a call. While any buffered bytes
//! are not durable, `sync` also writes buffered and then syncs the files. The two never meet in one sector: after each
//! sync the next group begins at a sector of its own, so direct writes go where no page is dirty, though one may hold
//! zeros, and no page is filled from the device. (Linux writes a range's dirty pages back and drops them before a
//! direct write to it, so larger pages do no harm.) Nor do they meet in time, because such a drop fails when a thread
//! fills the page again: buffered bytes are written while no direct write is in flight, and their sync is exclusive.
//! (They may be written during a sync, which then may or may not include them; the next one does.)
//!
//! # Invariants
//! 1. The first failure of a write or sync ends the log: nothing is tried again, every later call fails.

mod patience;
mod segment_writer;

use self::patience::Patience;
use self::segment_writer::{SegmentWriter, sync_segments, write_durably};
use super::buffer::LogBuffer;
use super::buffer::builder::{Batch, Payload};
use super::buffer::delta::{Base, Delta};
use super::buffer::pack::Packed;
use super::failure::Failure;
use super::format::{Begins, Form, SegmentHeader};
use super::options::{LogCompression, LogOptions};
use super::pool::directory::{Directory, Segment, SegmentInfo};
use super::pool::sizes::{Usage, new_segment_bytes};
use super::pool::{PoolFiles, Reservation, SegmentPool};
use super::recovery::recover::RecoveredLog;
use super::stats::{LogStats, WriteCounters, count};
use super::sync_queue::SyncQueue;
use crate::base::num::{nanoseconds, u64_of};
use crate::base::sync::Mutex;
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::Env;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// What a payload may have besides its body: the head, and the length of the head.
const HEAD_BYTES_MAX: usize = 64;
/// How often a thread that is about to lead a group gives way to others.
const YIELDS_MAX: u32 = 8;

/// Writes the redo log. Shared by all threads.
#[derive(Debug)]
pub struct LogWriter {
    pub(in crate::log) pool: Arc<SegmentPool>,
    buffer: LogBuffer,
    queue: SyncQueue,
    output: Mutex<Output>,
    patience: Patience,
    failure: Arc<Failure>,
    counters: Arc<WriteCounters>,
    compression: LogCompression,
    /// Nanoseconds spent on compression. Publishes nothing.
    compression_ns: AtomicU64,
    bytes_replayed: u64,
    replay_us: u64,
}

/// The bytes that are being written, and the files.
#[derive(Debug)]
struct Output {
    /// Bytes taken from the log buffer; none but while they are written.
    batch: Batch,
    segments: SegmentWriter,
}

/// The body of a payload, ready to be appended: compressed if that saves space, and with space reserved in segments if
/// it is large. Made by [`LogWriter::prepare`].
#[derive(Debug)]
pub struct Prepared<'a> {
    body: Packed<'a>,
    delta: Option<Delta>,
    /// Ends when the body is appended or given up.
    reservation: Option<Reservation<'a>>,
}

impl Prepared<'_> {
    /// Sets the time, little-endian, for which [`LogWriter::prepare_stamped`] has left bytes.
    pub fn fill(&mut self, time: u64) {
        self.body.fill(time.to_le_bytes());
    }
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
        let first = recovered.first.take();
        let bytes = first.as_ref().map_or_else(|| new_segment_bytes(0, options.segment_bytes), |spare| spare.bytes);
        let header = SegmentHeader {
            begins: Begins::Seals,
            database: recovered.database,
            number: recovered.next_number,
            bytes,
            first: recovered.next_first,
            previous: recovered.summary.end_segment,
            previous_end: recovered.summary.end,
        };
        for path in &recovered.listing.unfinished {
            directory.remove(path)?;
        }
        let segment = Arc::new(directory.begin(header, first, options.direct)?);
        directory.keep_name(&segment)?;
        // Not before the seal is durable: until then they might still be the log.
        for path in &recovered.orphans {
            directory.remove(path)?;
        }
        let mut live = recovered.live;
        live.push(SegmentInfo { header, path: segment.path.clone(), bytes });
        let (spares, removed) = (recovered.listing.spares, recovered.orphans.len());
        let files = PoolFiles { live, spares, next_spare: recovered.listing.next_spare, removed };
        let pool = Arc::new(SegmentPool::open(directory, options, header, files)?);
        let (failure, counters) = (Arc::<Failure>::default(), Arc::<WriteCounters>::default());
        let segments = SegmentWriter::new(segment, Arc::clone(&pool), Arc::clone(&counters));
        Ok(Self {
            buffer: LogBuffer::new(header, Arc::clone(&pool), Arc::clone(&failure), Arc::clone(&counters)),
            queue: SyncQueue::new(header.first, Arc::clone(&failure)),
            output: Mutex::new(Output { batch: Batch::empty(header), segments }),
            patience: Patience::default(),
            pool,
            failure,
            counters,
            compression: options.compression,
            compression_ns: AtomicU64::new(0),
            bytes_replayed: recovered.summary.bytes,
            replay_us: recovered.replay_us,
        })
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Appending.

    /// Prepares the body of a payload for [`Self::append`]: compresses it as the options say, if that saves space, and
    /// makes sure that there are files for it, which are reserved if it is large. To be called before any latch is
    /// taken: it may take long, and goes on during the writes of others.
    ///
    /// # Errors
    /// `Full` when the disk has no space for the segments that the payload needs. `Io` when a file cannot be made.
    /// `Poisoned` when something cannot be made durable that is to be before another file is made.
    #[inline]
    pub fn prepare<'a>(&'a self, body: &'a [u8]) -> Result<Prepared<'a>> {
        self.prepare_stamped(body, None)
    }

    /// As [`Self::prepare`], of a body in which the bytes of a time from `stamp_at` on are filled in later, by
    /// [`Prepared::fill`].
    ///
    /// # Errors
    /// As [`Self::prepare`].
    #[inline]
    pub fn prepare_stamped<'a>(&'a self, body: &'a [u8], stamp_at: Option<usize>) -> Result<Prepared<'a>> {
        let body = self.pack(body, stamp_at);
        let bytes = body.stored_bytes();
        match self.ensure_next_segment(bytes).and_then(|()| self.reserve(u64_of(bytes))) {
            Err(error) if is_lacking(&error) => Err(error.context("no space for the redo log")),
            reserved => Ok(Prepared { body, delta: None, reservation: reserved? }),
        }
    }

    /// As [`Self::prepare`], of a body with parts that an earlier payload has, its base: they are not written again if
    /// both payloads are in one segment.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn prepare_delta<'a>(&'a self, body: &'a [u8], base: &Base) -> Result<Prepared<'a>> {
        Ok(Prepared { delta: Some(Delta::new(body, base)), ..self.prepare(body)? })
    }

    /// Appends a payload made of a head, which is stored as it is, and a prepared body, and returns where the log ended
    /// before it and where it ends now, the position to be handed to [`Self::sync`] or [`Self::write`]. It is in memory
    /// only, unless the log buffer is full and this thread has to write some of it.
    ///
    /// # Errors
    /// `Full` when the disk has run out of space for the next segment since the body was prepared, before anything is
    /// appended; `Closed`; `Poisoned` after a failure.
    #[inline]
    pub fn append(&self, head: &[u8], prepared: &mut Prepared<'_>) -> Result<Range<Lsn>> {
        let reservation = prepared.reservation.take();
        let Prepared { body, delta, .. } = prepared;
        let raw_bytes = head.len() + body.raw_bytes;
        let form = if body.is_packed() { Form::Packed } else { Form::Plain };
        let appended = body.with_parts(head, |parts| {
            let whole = Payload::new(parts, form);
            let Some(delta) = delta else { return self.push(whole, None, raw_bytes) };
            delta.with_parts(head, |parts| {
                self.push(whole, Some((delta.base, Payload::new(parts, Form::Delta))), raw_bytes)
            })
        });
        drop(reservation);
        appended
    }

    /// Appends a payload that had `raw_bytes` bytes before it was packed.
    #[inline]
    pub(in crate::log) fn push(
        &self,
        payload: Payload<'_>,
        delta: Option<(Lsn, Payload<'_>)>,
        raw_bytes: usize,
    ) -> Result<Range<Lsn>> {
        self.buffer.append(payload, delta, (raw_bytes, self.queue.durable()), || {
            self.write_waiting(&mut self.output.lock()).map_err(|error| self.fail(&error))
        })
    }

    /// Compresses a body as the options say, if that saves space.
    #[inline]
    fn pack<'a>(&self, body: &'a [u8], stamp_at: Option<usize>) -> Packed<'a> {
        let method = self.compression.method();
        if !Packed::is_tried(body.len(), method) {
            return Packed::plain(body, stamp_at);
        }
        let start = self.pool.clock().now();
        let packed = Packed::new(body, method, stamp_at);
        let time = self.pool.clock().now().saturating_sub(start);
        count(&self.compression_ns, nanoseconds(time));
        packed
    }

    /// When the disk had no space for another segment, and a payload with a body of `bytes` needs one: tries again to
    /// make a spare. While commits are refused, they alone try, not the worker.
    #[inline]
    fn ensure_next_segment(&self, bytes: usize) -> Result<()> {
        if bytes == 0 || self.buffer.check_space(bytes + HEAD_BYTES_MAX).is_ok() {
            return Ok(());
        }
        match self.prepare_spare() {
            Err(error) if !is_lacking(&error) => Err(error),
            _ => self.buffer.check_space(bytes + HEAD_BYTES_MAX),
        }
    }

    /// Reserves space for a payload with a body of `bytes`, if that is large: none of its segments is filled with zeros
    /// that it would overwrite, and a disk without space for it is met before anything is appended.
    #[inline]
    fn reserve(&self, bytes: u64) -> Result<Option<Reservation<'_>>> {
        if !self.pool.is_reserved_for(bytes) {
            return Ok(None);
        }
        let maker = self.pool.maker(self.usage());
        let (reservation, missing) = self.buffer.reserve(bytes);
        maker.make(missing)?;
        Ok(Some(reservation))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Making durable.

    /// Hands everything before `lsn` to the kernel: it then survives the end of the process, though not of the machine.
    ///
    /// # Errors
    /// `Poisoned` when a write fails or has failed.
    pub fn write(&self, lsn: Lsn) -> Result<()> {
        if self.is_written(lsn) {
            return Ok(());
        }
        let mut output = self.output.lock();
        if self.is_written(lsn) {
            return Ok(());
        }
        self.write_waiting(&mut output).map_err(|error| self.fail(&error))
    }

    /// Makes everything before `lsn`, a position that [`Self::append`] returned, durable.
    ///
    /// # Errors
    /// `Poisoned` when a write or sync fails or has failed; whether the payloads are durable is then unknown.
    pub fn sync(&self, lsn: Lsn) -> Result<()> {
        while self.queue.wait_or_lead(lsn)? {
            self.gather();
            self.lead(lsn).map_err(|error| self.fail(&error))?;
        }
        Ok(())
    }

    /// Makes everything appended so far durable, marks the log as closed and lets nothing follow.
    ///
    /// # Errors
    /// As for [`Self::sync`].
    pub fn close(&self) -> Result<()> {
        let Some(end) = self.buffer.close()? else { return Ok(()) };
        // On its own, so that the marker before the end mark proves that all of it was durable.
        self.sync(end)?;
        self.sync(self.buffer.push_end())
    }

    /// Gives back the memory of a log that was closed or has failed.
    pub fn give_back(&self) {
        self.buffer.give_back();
    }

    /// Everything before this position is durable.
    #[inline]
    pub fn durable(&self) -> Lsn {
        self.queue.durable()
    }

    /// Everything before this position has been handed to the kernel.
    pub fn written(&self) -> Lsn {
        self.buffer.written().max(self.queue.durable())
    }

    /// The position after the last payload appended.
    pub fn tail(&self) -> Lsn {
        self.buffer.end()
    }

    #[inline]
    fn is_written(&self, lsn: Lsn) -> bool {
        self.buffer.written() >= lsn || self.queue.durable() >= lsn
    }

    /// Lets other threads go first that were woken when the last group was durable and are about to commit again: with
    /// them this group serves all. Without them it serves half, and the next group the other half. A thread that alone
    /// waits for syncs does not stop here, whatever commits that wait for none append.
    fn gather(&self) {
        if self.queue.is_shared() {
            let group = || if self.queue.is_shared() { self.buffer.group() } else { (0, 0) };
            self.patience.give_way(self.pool.clock(), YIELDS_MAX, self.queue.device_time(), group);
        }
    }

    /// Leads a group: writes everything that waits and makes it durable, and what was written before with it.
    fn lead(&self, lsn: Lsn) -> Result<()> {
        let mut output = self.output.lock();
        let _guard = PanicGuard(self);
        let direct = output.segments.is_synced();
        if !direct {
            self.queue.wait_for_all()?;
        }
        self.failure.check_appended()?;
        let group = self.buffer.take_group(self.durable(), &mut output.batch, direct);
        assert!(lsn <= output.batch.end, "only a position that `append` returned can be made durable");
        output.segments.end_group(group.next);
        let write = self.queue.begin(output.batch.end, group.payloads, !direct);
        drop(group.window);
        let Output { batch, segments } = &mut *output;
        if direct {
            let writes = segments.place_direct(batch)?;
            drop(output);
            let (buffer, time) = write_durably(writes, &self.pool, &self.counters)?;
            self.buffer.keep_buffer(buffer);
            self.queue.complete(write, time)
        } else {
            // The next write does not wait for this one: a failure is noted before `output` is released.
            let pages = segments.write(batch).map_err(|error| self.fail(&error))?;
            let number = segments.current().header.number;
            pages.into_iter().for_each(|pages| self.buffer.replace_window(number, pages, false));
            let unsynced = segments.take_unsynced();
            drop(output);
            sync_segments(&unsynced, &self.pool, &self.counters)?;
            self.queue.complete(write, None)
        }
    }

    /// Hands everything that waits to the kernel.
    fn write_waiting(&self, output: &mut Output) -> Result<()> {
        let _guard = PanicGuard(self);
        self.queue.wait_for_direct()?;
        let Output { batch, segments } = output;
        let number = segments.current().header.number;
        if !self.buffer.copy_or_take(number, self.durable(), batch, || segments.expect_sync()) {
            return Ok(());
        }
        let pages = segments.write(batch)?;
        // Writes in flight began before this and end earlier: this takes nothing back.
        self.buffer.set_written(batch.end);
        let number = segments.current().header.number;
        pages.into_iter().for_each(|pages| self.buffer.replace_window(number, pages, true));
        Ok(())
    }

    // -----------------------------------------------------------------------------------------------------------------
    // For background workers.

    /// Whether [`Self::extend_window`] has something to do. Says so once.
    pub fn take_window_wish(&self) -> bool {
        self.buffer.take_window_wish()
    }

    /// Fills more pages with zeros, for commits that are copied into them. For a background worker: a commit that finds
    /// none writes some itself.
    ///
    /// # Errors
    /// `Poisoned` when a write fails or has failed.
    pub fn extend_window(&self) -> Result<()> {
        if self.buffer.end_of_short_window().is_none() {
            return Ok(());
        }
        let mut output = self.output.lock();
        let _guard = PanicGuard(self);
        // The window is closed under `output`, but for an append that finds too few pages: then these are too late.
        let Some(end) = self.buffer.end_of_short_window() else { return Ok(()) };
        let pages = output.segments.fill_ahead(end).map_err(|error| self.fail(&error))?;
        let full = self.buffer.extend_window(pages);
        drop(output);
        drop(full);
        Ok(())
    }

    /// Whether [`Self::prepare_spare`] has something to do; cheap enough to ask at every commit.
    pub fn wants_spare(&self) -> bool {
        self.pool.wants_spare()
    }

    /// Writes a file for the next segment ahead, if there is none (a small one when the disk has no space for more),
    /// with its header, and makes durable what buffered commits did not wait for: segments that are full, and the name
    /// of the current one. For a background worker: a commit that finds no spare has to make a (small) file itself.
    ///
    /// # Errors
    /// `Full` when there is no space: appends that need a new segment then fail with `Full` before they change
    /// anything, until a later call succeeds. `Io` when the file cannot be made; nothing is lost by that. `Poisoned`
    /// when a segment or a name cannot be synced.
    pub fn prepare_spare(&self) -> Result<()> {
        // First, so that a segment that begins during this call asks again.
        self.pool.clear_wants_spare();
        self.sync_full_segments()?;
        let named = self.keep_current_name()?;
        self.pool.prepare_spare(self.usage(), named)
    }

    /// Makes the segments durable that were written in full through the page cache, so that the next commit need not.
    fn sync_full_segments(&self) -> Result<()> {
        let mut output = self.output.lock();
        if !output.segments.has_full_unsynced() {
            return Ok(());
        }
        // The next group need not sync these segments, and is published after them.
        let Some(write) = self.queue.try_begin_sync() else { return Ok(()) };
        let full = output.segments.take_full_unsynced();
        drop(output);
        let synced = sync_segments(&full, &self.pool, &self.counters).and_then(|()| self.queue.complete(write, None));
        synced.map_err(|error| self.fail(&error))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Segments.

    /// Bytes of the segments that a recovery might need; [`Self::release`] makes it less.
    pub fn live_bytes(&self) -> u64 {
        self.pool.needed_bytes()
    }

    /// Bytes of the log that are durable and lie after a position. (Positions leave a gap at each open.)
    pub fn bytes_after(&self, position: Lsn) -> u64 {
        self.pool.written_bytes(position, self.durable())
    }

    /// Bytes of the segments before the current one, and how many of them nothing was written to, because the log was
    /// opened again before they were full.
    pub fn room_left_behind(&self) -> (u64, u64) {
        self.pool.unused_bytes()
    }

    /// The segments that a recovery might need and that are gone from the log's directory.
    ///
    /// # Errors
    /// `Io` when the directory cannot be read.
    pub fn missing_segments(&self) -> Result<Vec<PathBuf>> {
        self.pool.missing_segments()
    }

    /// Gives segments up that hold nothing at or after `before`, a position that has to be durable wherever a later
    /// [`recover`](super::recover) gets it from, unless a cursor pins them. A few become spares, the others are
    /// removed. What is not durable is not given up: a write of it may be on its way, and would fall into whatever the
    /// segment has become.
    ///
    /// # Errors
    /// `Io` when a file cannot be renamed or removed; the next open tries again.
    pub fn release(&self, before: Lsn) -> Result<()> {
        let released = self.pool.release(before.min(self.durable()));
        let Some(last) = released.last() else { return Ok(()) };
        self.output.lock().segments.forget_up_to(last.header.number);
        // A power failure must not take back the name of the only segment that is left.
        self.keep_current_name()?;
        self.pool.retire(released, self.usage())
    }

    /// The segment that is written.
    pub(in crate::log) fn current(&self) -> Arc<Segment> {
        Arc::clone(self.output.lock().segments.current())
    }

    /// Makes the name of the current segment durable; its number.
    fn keep_current_name(&self) -> Result<u64> {
        let current = self.current();
        self.pool.directory.keep_name(&current).map_err(|error| self.fail(&error))?;
        Ok(current.header.number)
    }

    /// What the log has done since it was opened.
    fn usage(&self) -> Usage {
        Usage { bytes: self.counters.written_bytes.load(Ordering::Relaxed), groups: self.queue.groups() }
    }

    /// The segments with buffered bytes that are not known to be durable.
    #[cfg(test)]
    pub(in crate::log) fn unsynced(&self) -> Vec<Arc<Segment>> {
        self.output.lock().segments.unsynced.clone()
    }

    /// The counters.
    pub fn stats(&self) -> LogStats {
        let mut stats = LogStats {
            bytes_replayed: self.bytes_replayed,
            replay_us: self.replay_us,
            compression_us: self.compression_ns.load(Ordering::Relaxed) / 1000,
            ..LogStats::default()
        };
        self.buffer.add_stats(&mut stats);
        self.counters.add_to(&mut stats);
        self.queue.add_stats(&mut stats);
        self.pool.add_stats(&mut stats);
        stats
    }

    /// Ends the log because of `error`, and wakes all threads that wait.
    #[cold]
    fn fail(&self, error: &Error) -> Error {
        self.failure.set(error);
        self.buffer.wake();
        self.queue.wake_all();
        self.failure.unknown()
    }
}

/// Ends the log when a thread panics that has taken bytes from the buffer: they would be missing in the middle, and
/// other threads would wait.
struct PanicGuard<'a>(&'a LogWriter);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(&Error::new(ErrorKind::Poisoned, "a thread panicked while it wrote the redo log"));
        }
    }
}

/// Whether space or descriptors are lacking, so that nothing was changed.
fn is_lacking(error: &Error) -> bool {
    error.kind() == ErrorKind::Full || error.is_unchanged()
}
