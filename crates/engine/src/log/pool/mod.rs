//! The segment pool: the log's directory, the live segments, the spare files that become segments, and the readers'
//! pins.
//!
//! # Concurrency
//! * `makes` is held while spare files are made or segments become spares, so one thread does either at a time.
//! * `spares` guards the list of spare files and what is reserved of them. It is held for moments, never for I/O.
//! * `live` guards the live segments and the pins. It is held over I/O only to compare them with the directory.
//! * Order: `makes`, then the latch of the log buffer, then `spares`. Nothing is taken while `live` is held.

pub(in crate::log) mod directory;
mod live;
pub(in crate::log) mod pins;
pub(in crate::log) mod sizes;
mod spares;

use self::directory::{Directory, Fill, Segment, SegmentInfo, Spare};
use self::live::LiveSegments;
use self::pins::PinId;
use self::sizes::{FRESH_BYTES, SPARES_MAX, SpareMakes, Usage, is_useful, new_segment_bytes};
use self::spares::Spares;
use super::format::SegmentHeader;
use super::options::LogOptions;
use super::stats::{LogStats, SegmentCounters, count};
use crate::base::num::u64_of;
use crate::base::sync::{AtomicBool, Mutex, MutexGuard};
use crate::base::{CoveragePoint, ErrorKind, Lsn, Result};
use crate::env::Clock;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Spare files take at most this part of the free space, all together and each of them; but one of [`FRESH_BYTES`] may
/// always be there.
const FREE_PART: u64 = 32;

/// The segment files of a log.
#[derive(Debug)]
pub(in crate::log) struct SegmentPool {
    pub(in crate::log) directory: Directory,
    options: LogOptions,
    live: Mutex<LiveSegments>,
    makes: Mutex<SpareMakes>,
    spares: Mutex<Spares>,
    /// Whether `spares` has a shortage. Written under its latch, so that appends need not take it. Publishes nothing.
    is_short: AtomicBool,
    /// Whether a background worker should call [`Self::prepare_spare`]. Publishes nothing.
    wants_spare: AtomicBool,
    counters: SegmentCounters,
}

/// Segment space that is reserved for a payload until this is dropped.
#[derive(Debug)]
#[must_use = "the space is reserved until this is dropped"]
pub(in crate::log) struct Reservation<'a> {
    pool: &'a SegmentPool,
    bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.pool.spares.lock().unreserve(self.bytes);
    }
}

/// What an open hands to the pool.
#[derive(Debug)]
pub(in crate::log) struct PoolFiles {
    /// Segments that the log needs, oldest first, the new current one last.
    pub(in crate::log) live: Vec<SegmentInfo>,
    /// Spare files that were found.
    pub(in crate::log) spares: Vec<Spare>,
    /// Above the number of every spare.
    pub(in crate::log) next_spare: u64,
    /// How many segments that do not count any more the open removed.
    pub(in crate::log) removed: usize,
}

impl SegmentPool {
    /// A pool whose current segment is `current`, the last of `files.live`. Spare files that are of no use are removed.
    ///
    /// # Errors
    /// `Io` when a file cannot be removed.
    pub(in crate::log) fn open(
        directory: Directory,
        options: LogOptions,
        current: SegmentHeader,
        files: PoolFiles,
    ) -> Result<Self> {
        let useful = |spare: &Spare| is_useful(spare.bytes, 0, options.segment_bytes);
        let (mut spares, mut others) = files.spares.into_iter().partition::<Vec<_>, _>(useful);
        others.extend(spares.drain(SPARES_MAX.min(spares.len())..));
        for spare in &others {
            directory.remove(&spare.path)?;
        }
        let live = LiveSegments::new(files.live, options.history, directory.env.clock.now());
        let counters = SegmentCounters::default();
        count(&counters.created, 1);
        count(&counters.removed, u64_of(files.removed + others.len()));
        Ok(Self {
            directory,
            options,
            live: Mutex::new(live),
            makes: Mutex::new(SpareMakes::new(files.next_spare)),
            spares: Mutex::new(Spares::new(current, spares, new_segment_bytes(0, options.segment_bytes))),
            is_short: AtomicBool::new(false),
            wants_spare: AtomicBool::new(true),
            counters,
        })
    }

    /// The clock of the log's environment.
    pub(in crate::log) fn clock(&self) -> &dyn Clock {
        &*self.directory.env.clock
    }

    /// Adds the pool's counters.
    pub(in crate::log) fn add_stats(&self, stats: &mut LogStats) {
        self.counters.add_to(stats);
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Segments to come.

    /// The segment after the newest one, and the file that it is made of if there is one. Its file is made by
    /// [`Self::begin`] when its bytes are written.
    pub(in crate::log) fn next_segment(&self) -> (SegmentHeader, Option<Spare>) {
        self.spares.lock().next_segment()
    }

    /// Makes the file of the segment after `last`, for which fragments are laid out already. Without `durably` the
    /// write does not wait for its name to be durable: a worker makes it so, or the next sync.
    ///
    /// # Errors
    /// `Full` or `Io`.
    #[cold]
    pub(in crate::log) fn begin(
        &self,
        last: &Segment,
        header: SegmentHeader,
        spare: Option<Spare>,
        durably: bool,
    ) -> Result<Arc<Segment>> {
        if spare.is_none() {
            count(&self.counters.created, 1);
        }
        self.directory.keep_name(last)?;
        let segment = self.directory.begin(header, spare, self.options.direct)?;
        if durably {
            self.directory.keep_name(&segment)?;
        }
        let info = SegmentInfo { header, path: segment.path.clone(), bytes: header.bytes };
        self.live.lock().push(info, self.clock().now());
        self.wants_spare.store(true, Ordering::Relaxed);
        Ok(Arc::new(segment))
    }

    /// Whether [`Self::prepare_spare`] has something to do; cheap enough to ask at every commit.
    pub(in crate::log) fn wants_spare(&self) -> bool {
        // Relaxed: a thread that sees the old value asks again at its next commit.
        self.wants_spare.load(Ordering::Relaxed)
    }

    /// Says that [`Self::prepare_spare`] will be called. A segment that begins from now on asks for it again.
    pub(in crate::log) fn clear_wants_spare(&self) {
        self.wants_spare.store(false, Ordering::Relaxed);
    }

    /// Makes a spare if there is none (a small one when the disk has no space for more), and writes the next segment's
    /// header into it, if it follows the segment of number `named`, whose name is durable: a header tells that the
    /// segment before is there. Else the segment that is in between asks for a spare when it begins.
    ///
    /// # Errors
    /// `Full` when there is no space, `Io` when the file cannot be made.
    pub(in crate::log) fn prepare_spare(&self, usage: Usage, named: u64) -> Result<()> {
        let mut makes = self.makes.lock();
        let made = self.make_spare(&mut makes, usage).and_then(|()| self.ready_spare(&makes, named));
        if made.is_err() {
            self.wants_spare.store(true, Ordering::Relaxed);
        }
        made
    }

    /// Makes a spare if there is none.
    fn make_spare(&self, makes: &mut SpareMakes, usage: Usage) -> Result<()> {
        if self.change_spares(Spares::end_shortage) {
            return Ok(());
        }
        let fill = makes.fill(usage);
        let mut make = |bytes| self.directory.make_spare(makes.number(), bytes, fill, self.options.direct);
        let bytes = new_segment_bytes(usage.bytes, self.whole_bytes());
        let made = make(bytes).or_else(|error| match error.kind() {
            // There may still be space for a small one.
            ErrorKind::Full if bytes > FRESH_BYTES => make(FRESH_BYTES),
            _ => Err(error),
        });
        let (spare, zeros) = made.inspect_err(|error| self.change_spares(|spares| spares.note_shortage(error)))?;
        self.change_spares(|spares| spares.add_next(spare));
        count(&self.counters.spare_bytes, zeros);
        count(&self.counters.created, 1);
        Ok(())
    }

    /// Writes the header of the next segment into the spare that it will be made of. If that is made of it at the same
    /// time, both write the same: until `makes` is released no segment becomes a spare again.
    fn ready_spare(&self, _makes: &SpareMakes, named: u64) -> Result<()> {
        let (spare, header) = match self.spares.lock().headless().filter(|(_, header)| header.previous == named) {
            Some((spare, header)) => (Spare::new(spare.path.clone(), spare.bytes), header),
            None => return Ok(()),
        };
        let made = self.directory.head(&spare.path, header, self.options.direct);
        self.change_spares(|spares| {
            let Some(next) = spares.next_if(&spare) else { return Ok(()) };
            match made {
                Ok(segment) => next.ready = Some(segment),
                Err(error) => {
                    if error.is_unchanged() {
                        spares.note_shortage(&error);
                    }
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    /// Changes the spares, and what appends see of them.
    fn change_spares<T>(&self, change: impl FnOnce(&mut Spares) -> T) -> T {
        let mut spares = self.spares.lock();
        let changed = change(&mut spares);
        self.is_short.store(spares.shortage().is_some(), Ordering::Relaxed);
        changed
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Space for payloads.

    /// Why a payload of `bytes` does not fit, with `left_bytes` in the current segment: there is no space for another.
    #[inline]
    pub(in crate::log) fn shortage_for(&self, bytes: usize, left_bytes: impl FnOnce() -> u64) -> Option<String> {
        // Relaxed: a thread that sees the old value finds out when it writes.
        if !self.is_short.load(Ordering::Relaxed) {
            return None;
        }
        let left_bytes = left_bytes();
        let spares = self.spares.lock();
        let fits = u64_of(bytes) <= left_bytes + spares.open_bytes();
        spares.shortage().filter(|_| !fits).map(str::to_owned)
    }

    /// Whether files are reserved for a payload of `bytes`. The smallest segment has space for less on any disk,
    /// so the file system is not asked for each small commit.
    #[inline]
    pub(in crate::log) fn is_reserved_for(&self, bytes: u64) -> bool {
        bytes >= FRESH_BYTES.min(self.options.segment_bytes)
    }

    /// Lets one thread make spares.
    pub(in crate::log) fn maker(&self, usage: Usage) -> SpareMaker<'_> {
        let whole_bytes = self.whole_bytes();
        SpareMaker { pool: self, makes: self.makes.lock(), usage, whole_bytes }
    }

    /// Reserves `bytes` of payload, with `left_bytes` in the current segment; for how many of them files are to be made
    /// by the [`SpareMaker`] that the thread has.
    pub(in crate::log) fn reserve(&self, bytes: u64, left_bytes: u64) -> (Reservation<'_>, u64) {
        let missing = self.spares.lock().reserve(bytes, left_bytes);
        (Reservation { pool: self, bytes }, missing)
    }

    /// The space that spares may take.
    fn spares_bytes_max(&self) -> u64 {
        self.directory.env.fs.free_bytes(&self.directory.path).map_or(u64::MAX, |free| free / FREE_PART)
    }

    /// The size of a whole segment: on a small disk less than the options say.
    fn whole_bytes(&self) -> u64 {
        let most = self.spares_bytes_max().checked_ilog2().map_or(0, |log| 1 << log);
        self.options.segment_bytes.min(most.max(FRESH_BYTES))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Live segments.

    /// The oldest position from which a reader can begin.
    pub(in crate::log) fn oldest(&self) -> Lsn {
        self.live.lock().oldest()
    }

    /// Bytes of the segments that a recovery might need.
    pub(in crate::log) fn needed_bytes(&self) -> u64 {
        self.live.lock().needed_bytes()
    }

    /// Bytes of the segments before the current one, and how many of them were left unused by earlier opens.
    pub(in crate::log) fn unused_bytes(&self) -> (u64, u64) {
        self.live.lock().unused_bytes()
    }

    /// Bytes that were written between two positions, of what is there.
    pub(in crate::log) fn written_bytes(&self, from: Lsn, to: Lsn) -> u64 {
        self.live.lock().written_bytes(from, to)
    }

    /// The segments that hold what is between `position` and `end`.
    pub(in crate::log) fn between(&self, position: Lsn, end: Lsn) -> Vec<SegmentInfo> {
        let live = self.live.lock();
        live.needed_from(position).iter().filter(|segment| segment.header.first <= end).cloned().collect()
    }

    /// Keeps the segments that hold what ends after `position`, of those that no recovery needs at most `bytes_max`
    /// bytes.
    ///
    /// # Errors
    /// The oldest position that is there, when it is behind `position`.
    pub(in crate::log) fn pin(&self, position: Lsn, bytes_max: u64) -> Result<PinId, Lsn> {
        self.live.lock().pin(position, bytes_max)
    }

    /// Moves a pin forward; false when it was dropped, because it kept too much.
    pub(in crate::log) fn advance_pin(&self, pin: PinId, position: Lsn) -> bool {
        self.live.lock().advance(pin, position)
    }

    /// Ends a pin.
    pub(in crate::log) fn unpin(&self, pin: PinId) {
        self.live.lock().unpin(pin);
    }

    /// Takes away the segments that hold nothing at or after `before`, a durable position, unless a reader pins them or
    /// the options keep them.
    /// They are to be given to [`Self::retire`].
    pub(in crate::log) fn release(&self, before: Lsn) -> Vec<SegmentInfo> {
        self.live.lock().release(before, self.clock().now())
    }

    /// Makes spares of a few released segments and removes the others.
    ///
    /// # Errors
    /// `Io` when a file cannot be renamed or removed.
    pub(in crate::log) fn retire(&self, segments: Vec<SegmentInfo>, usage: Usage) -> Result<()> {
        let mut makes = self.makes.lock();
        let (there, mut bytes) = self.spares.lock().size();
        let spares_max = SPARES_MAX.saturating_sub(there);
        let (whole, bytes_max) = (self.whole_bytes(), self.spares_bytes_max());
        let mut spares = Vec::new();
        for segment in segments {
            let (is_whole, more) = (segment.bytes >= segment.header.bytes, bytes + segment.header.bytes);
            let useful = is_useful(segment.header.bytes, usage.bytes, whole) && (bytes == 0 || more <= bytes_max);
            if useful && is_whole && spares.len() < spares_max {
                bytes = more;
                spares.push(self.directory.retire(&segment.path, segment.header.bytes, makes.number())?);
                count(&self.counters.recycled, 1);
                CoveragePoint::SegmentRecycled.mark();
            } else {
                self.directory.remove(&segment.path)?;
                count(&self.counters.removed, 1);
            }
        }
        // Before a spare becomes a segment: else a crash could leave its new header under its old name.
        self.directory.sync()?;
        self.spares.lock().add(spares);
        Ok(())
    }

    /// The live segments that are gone from the directory.
    ///
    /// # Errors
    /// `Io` when the directory cannot be read.
    pub(in crate::log) fn missing_segments(&self) -> Result<Vec<PathBuf>> {
        // While the latch is held no segment leaves the directory; a new one is in the directory before it is live.
        let live = self.live.lock();
        let present = self.directory.list()?.segments;
        let is_missing = |path: &&PathBuf| !present.iter().any(|(_, there)| there == *path);
        Ok(live.all().iter().map(|segment| &segment.path).filter(is_missing).cloned().collect())
    }

    /// Removes all spares.
    #[cfg(test)]
    pub(in crate::log) fn remove_spares(&self) {
        let spares = std::mem::take(&mut self.spares.lock().files);
        spares.iter().for_each(|spare| self.directory.remove(&spare.path).unwrap());
    }

    /// Whether there is a next spare, and whether it has its header.
    #[cfg(test)]
    pub(in crate::log) fn is_spare_ready(&self) -> Option<bool> {
        self.spares.lock().files.last().map(|spare| spare.ready.is_some())
    }
}

/// The right to make spares for a large payload.
#[derive(Debug)]
pub(in crate::log) struct SpareMaker<'a> {
    pool: &'a SegmentPool,
    makes: MutexGuard<'a, SpareMakes>,
    usage: Usage,
    whole_bytes: u64,
}

impl SpareMaker<'_> {
    /// Makes files for `missing` bytes of a payload. None of them is filled with zeros, which the payload overwrites.
    ///
    /// # Errors
    /// `Full` when there is no space, `Io` when a file cannot be made. What was made is removed then.
    pub(in crate::log) fn make(mut self, mut missing: u64) -> Result<()> {
        let Self { pool, usage, whole_bytes, .. } = self;
        let mut spares = Vec::new();
        while missing > 0 {
            let size = (1 << missing.ilog2()).max(new_segment_bytes(usage.bytes, whole_bytes)).min(whole_bytes);
            let number = self.makes.number();
            let made = pool.directory.make_spare(number, size, Fill::Reserved, pool.options.direct);
            let (spare, zeros) = made.inspect_err(|_| {
                // Other commits, which may need less, get the space.
                spares.iter().for_each(|spare: &Spare| drop(pool.directory.remove(&spare.path)));
            })?;
            missing = missing.saturating_sub(spare.capacity_bytes());
            count(&pool.counters.spare_bytes, zeros);
            spares.push(spare);
        }
        count(&pool.counters.created, u64_of(spares.len()));
        // The largest of these comes first.
        spares.reverse();
        pool.spares.lock().add(spares);
        Ok(())
    }
}
