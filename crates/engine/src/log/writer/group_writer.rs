//! The group writer: payloads go through it into the log buffer, and in groups from there to the device.
//!
//! # Concurrency
//! There is no log thread and no timer. The thread that commits writes the log and makes it durable itself, or waits
//! for a thread that does ([`SyncQueue`]). Before it leads a group it gives way a few times, if the last groups served
//! several threads, so that the threads just woken join this group.
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

use super::segment_writer::{SegmentWriter, sync_segments, write_durably};
use crate::base::sync::Mutex;
use crate::base::sync::thread::yield_now;
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::log::buffer::LogBuffer;
use crate::log::buffer::builder::Batch;
use crate::log::buffer::payload::Payload;
use crate::log::failure::Failure;
use crate::log::pool::SegmentPool;
use crate::log::pool::directory::Segment;
use crate::log::pool::sizes::Usage;
use crate::log::stats::{LogStats, WriteCounters};
use crate::log::sync_queue::SyncQueue;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

/// How often a thread that is about to lead a group gives way to others.
const YIELDS_MAX: u32 = 8;

/// Appends payloads and makes them durable in groups.
#[derive(Debug)]
pub(in crate::log) struct GroupWriter {
    pool: Arc<SegmentPool>,
    pub(super) buffer: LogBuffer,
    queue: SyncQueue,
    output: Mutex<Output>,
    failure: Arc<Failure>,
    counters: Arc<WriteCounters>,
}

/// The bytes that are being written, and the files.
#[derive(Debug)]
struct Output {
    /// Bytes taken from the log buffer; none but while they are written.
    batch: Batch,
    segments: SegmentWriter,
}

impl GroupWriter {
    /// Writes a log whose current segment is `segment`, still empty.
    pub(super) fn new(segment: Arc<Segment>, pool: Arc<SegmentPool>) -> Self {
        let header = segment.header;
        let (failure, counters) = (Arc::<Failure>::default(), Arc::<WriteCounters>::default());
        let segments = SegmentWriter::new(segment, Arc::clone(&pool), Arc::clone(&counters));
        Self {
            buffer: LogBuffer::new(header, Arc::clone(&pool), Arc::clone(&failure), Arc::clone(&counters)),
            queue: SyncQueue::new(header.first, Arc::clone(&failure)),
            output: Mutex::new(Output { batch: Batch::empty(header), segments }),
            pool,
            failure,
            counters,
        }
    }

    /// Everything before this position is durable.
    #[inline]
    pub(super) fn durable(&self) -> Lsn {
        self.queue.durable()
    }

    /// Everything before this position has been handed to the kernel.
    pub(super) fn written(&self) -> Lsn {
        self.buffer.written().max(self.queue.durable())
    }

    /// What the log has done since it was opened.
    pub(super) fn usage(&self) -> Usage {
        Usage { bytes: self.counters.written_bytes.load(Ordering::Relaxed), groups: self.queue.groups() }
    }

    /// Adds the counters of appends, writes and groups.
    pub(super) fn add_stats(&self, stats: &mut LogStats) {
        self.buffer.add_stats(stats);
        self.counters.add_to(stats);
        self.queue.add_stats(stats);
    }

    /// Appends a payload that had `raw_bytes` bytes before it was packed, and returns the positions that it takes.
    ///
    /// # Errors
    /// As for [`LogBuffer::append`].
    #[inline]
    pub(in crate::log) fn append(
        &self,
        payload: Payload<'_>,
        delta: Option<(Lsn, Payload<'_>)>,
        raw_bytes: usize,
    ) -> Result<Range<Lsn>> {
        self.buffer.append(payload, delta, (raw_bytes, self.queue.durable()), || {
            self.write_waiting(&mut self.output.lock()).map_err(|error| self.fail(&error))
        })
    }

    /// Hands everything before `lsn` to the kernel: it then survives the end of the process, though not of the machine.
    ///
    /// # Errors
    /// `Poisoned` when a write fails or has failed.
    pub(super) fn write(&self, lsn: Lsn) -> Result<()> {
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
    pub(super) fn sync(&self, lsn: Lsn) -> Result<()> {
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
    pub(super) fn close(&self) -> Result<()> {
        let Some(end) = self.buffer.close()? else { return Ok(()) };
        // On its own, so that the marker before the end mark proves that all of it was durable.
        self.sync(end)?;
        self.sync(self.buffer.push_end())
    }

    #[inline]
    fn is_written(&self, lsn: Lsn) -> bool {
        self.buffer.written() >= lsn || self.queue.durable() >= lsn
    }

    /// Lets other threads go first that were woken when the last group was durable and are about to commit again: with
    /// them this group serves all. Without them it serves half, and the next group the other half. A thread that alone
    /// waits for syncs does not stop here, whatever commits that wait for none append.
    fn gather(&self) {
        for _ in 0..YIELDS_MAX {
            if !self.queue.is_shared() || !self.buffer.is_half_a_group() {
                return;
            }
            yield_now();
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
    // For background workers and for segments that come and go.

    /// Fills more pages with zeros, for commits that are copied into them. For a background worker: a commit that finds
    /// none writes some itself.
    ///
    /// # Errors
    /// `Poisoned` when a write fails or has failed.
    pub(super) fn extend_window(&self) -> Result<()> {
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

    /// Makes the name of the current segment durable.
    ///
    /// # Errors
    /// `Poisoned` when that fails.
    pub(super) fn keep_current_name(&self) -> Result<()> {
        let current = self.current();
        self.pool.directory.keep_name(&current).map_err(|error| self.fail(&error))
    }

    /// Forgets the segments up to number `last`, which were released.
    pub(super) fn forget_up_to(&self, last: u64) {
        self.output.lock().segments.forget_up_to(last);
    }

    /// The segment that is written.
    pub(in crate::log) fn current(&self) -> Arc<Segment> {
        Arc::clone(self.output.lock().segments.current())
    }

    /// Makes the segments durable that were written in full through the page cache, so that the next commit need not.
    ///
    /// # Errors
    /// `Poisoned` when a sync fails.
    pub(super) fn sync_full_segments(&self) -> Result<()> {
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

    /// The segments with buffered bytes that are not known to be durable.
    #[cfg(test)]
    pub(in crate::log) fn unsynced(&self) -> Vec<Arc<Segment>> {
        self.output.lock().segments.unsynced.clone()
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
struct PanicGuard<'a>(&'a GroupWriter);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(&Error::new(ErrorKind::Poisoned, "a thread panicked while it wrote the redo log"));
        }
    }
}
