//! The log writer, the only part of the log that others write through: it appends payloads and makes them durable.

mod group_writer;
mod segment_writer;

use self::group_writer::GroupWriter;
use super::buffer::delta::{Base, Delta};
use super::buffer::pack::Packed;
use super::buffer::payload::Payload;
use super::format::{Begins, Form, SegmentHeader};
use super::options::{LogCompression, LogOptions};
use super::pool::directory::{Directory, SegmentInfo};
use super::pool::sizes::new_segment_bytes;
use super::pool::{PoolFiles, Reservation, SegmentPool};
use super::recovery::recover::RecoveredLog;
use super::stats::{LogStats, count};
use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::Env;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a payload may have besides its body: the head, and the length of the head.
const HEAD_BYTES_MAX: usize = 64;

/// Writes the redo log. Shared by all threads.
#[derive(Debug)]
pub struct LogWriter {
    pub(in crate::log) pool: Arc<SegmentPool>,
    pub(in crate::log) groups: GroupWriter,
    compression: LogCompression,
    /// Nanoseconds spent on compression. Publishes nothing.
    compression_ns: AtomicU64,
    bytes_replayed: u64,
    replay_us: u64,
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
        Ok(Self {
            groups: GroupWriter::new(segment, Arc::clone(&pool)),
            pool,
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
        let body = self.pack(body);
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
            let Some(delta) = delta else { return self.groups.append(whole, None, raw_bytes) };
            delta.with_parts(head, |parts| {
                self.groups.append(whole, Some((delta.base, Payload::new(parts, Form::Delta))), raw_bytes)
            })
        });
        drop(reservation);
        appended
    }

    /// Compresses a body as the options say, if that saves space.
    #[inline]
    fn pack<'a>(&self, body: &'a [u8]) -> Packed<'a> {
        let method = self.compression.method();
        if !Packed::is_tried(body.len(), method) {
            return Packed::plain(body);
        }
        let start = self.pool.clock().now();
        let packed = Packed::new(body, method);
        let time = self.pool.clock().now().saturating_sub(start);
        count(&self.compression_ns, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        packed
    }

    /// When the disk had no space for another segment, and a payload with a body of `bytes` needs one: tries again to
    /// make a spare. While commits are refused, they alone try, not the worker.
    #[inline]
    fn ensure_next_segment(&self, bytes: usize) -> Result<()> {
        if bytes == 0 || self.groups.buffer.check_space(bytes + HEAD_BYTES_MAX).is_ok() {
            return Ok(());
        }
        match self.prepare_spare() {
            Err(error) if !is_lacking(&error) => Err(error),
            _ => self.groups.buffer.check_space(bytes + HEAD_BYTES_MAX),
        }
    }

    /// Reserves space for a payload with a body of `bytes`, if that is large: none of its segments is filled with zeros
    /// that it would overwrite, and a disk without space for it is met before anything is appended.
    #[inline]
    fn reserve(&self, bytes: u64) -> Result<Option<Reservation<'_>>> {
        if !self.pool.is_reserved_for(bytes) {
            return Ok(None);
        }
        let maker = self.pool.maker(self.groups.usage());
        let (reservation, missing) = self.groups.buffer.reserve(bytes);
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
        self.groups.write(lsn)
    }

    /// Makes everything before `lsn`, a position that [`Self::append`] returned, durable.
    ///
    /// # Errors
    /// `Poisoned` when a write or sync fails or has failed; whether the payloads are durable is then unknown.
    pub fn sync(&self, lsn: Lsn) -> Result<()> {
        self.groups.sync(lsn)
    }

    /// Makes everything appended so far durable, marks the log as closed and lets nothing follow.
    ///
    /// # Errors
    /// As for [`Self::sync`].
    pub fn close(&self) -> Result<()> {
        self.groups.close()
    }

    /// Gives back the memory of a log that was closed or has failed.
    pub fn give_back(&self) {
        self.groups.buffer.give_back();
    }

    /// Everything before this position is durable.
    pub fn durable(&self) -> Lsn {
        self.groups.durable()
    }

    /// Everything before this position has been handed to the kernel.
    pub fn written(&self) -> Lsn {
        self.groups.written()
    }

    /// The position after the last payload appended.
    pub fn tail(&self) -> Lsn {
        self.groups.buffer.end()
    }

    // -----------------------------------------------------------------------------------------------------------------
    // For background workers.

    /// Whether [`Self::extend_window`] has something to do. Says so once.
    pub fn take_window_wish(&self) -> bool {
        self.groups.buffer.take_window_wish()
    }

    /// Fills more pages with zeros, for commits that are copied into them. For a background worker: a commit that finds
    /// none writes some itself.
    ///
    /// # Errors
    /// `Poisoned` when a write fails or has failed.
    pub fn extend_window(&self) -> Result<()> {
        self.groups.extend_window()
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
        self.groups.sync_full_segments()?;
        self.groups.keep_current_name()?;
        self.pool.prepare_spare(self.groups.usage())
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Segments.

    /// Bytes of the segments that a recovery might need; [`Self::release`] makes it less.
    pub fn live_bytes(&self) -> u64 {
        self.pool.needed_bytes()
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
        self.groups.forget_up_to(last.header.number);
        // A power failure must not take back the name of the only segment that is left.
        self.groups.keep_current_name()?;
        self.pool.retire(released, self.groups.usage())
    }

    /// The counters.
    pub fn stats(&self) -> LogStats {
        let mut stats = LogStats {
            bytes_replayed: self.bytes_replayed,
            replay_us: self.replay_us,
            compression_us: self.compression_ns.load(Ordering::Relaxed) / 1000,
            ..LogStats::default()
        };
        self.groups.add_stats(&mut stats);
        self.pool.add_stats(&mut stats);
        stats
    }
}

/// Whether space or descriptors are lacking, so that nothing was changed.
fn is_lacking(error: &Error) -> bool {
    error.kind() == ErrorKind::Full || error.is_unchanged()
}
