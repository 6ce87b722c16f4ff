//! Segment files before and after their use: spares written ahead, obsolete segments used again.
//!
//! # Sizes
//! A file made new has the size of half of what the log has written since it was opened, as a power of two, at least 1
//! MiB and at most a whole segment. Whenever a segment begins, one spare is made: so the current segment and the spare
//! together are never larger than what was written before them, and the zeros written ahead stay below twice the bytes
//! of the log, plus 2 MiB. A small database pays for little, and the sizes still double every few segments until
//! segments are whole.
//!
//! A file that is there already is used again if it is at least as large as one made now would be, and no larger than a
//! whole segment: its bytes are paid for, so a larger one is a gain whatever the log has used, and a smaller one would
//! keep segments small for ever. Once segments are whole, that leaves whole ones only, and nothing is made new any
//! more.
//!
//! For a payload that is larger than what is at hand files are made before it is appended, as large as it fills or as
//! they would be made anyway.
//!
//! Zeros are written for the sake of forces: a durable write to a place that was never written waits for the file
//! system's journal. A log that is forced seldom, for more than 128 KiB at a time, gets files for which only room is
//! reserved: zeros would double what it writes.
//!
//! What has been written is counted from the open on, not kept: a log whose spares were removed, or whose segments are
//! all in use, grows again from 1 MiB, which costs fewer zeros than a whole segment would.

use super::hold::needed_from;
use super::options::LogOptions;
use super::pack::Packed;
use super::recover::RecoveredLog;
use super::segment::{Directory, Fill, Listing, Live, Spare};
use super::spare::{FRESH_BYTES, SPARES_MAX, SpareMakes, is_useful, new_segment_bytes};
use super::stats::count;
use super::writer::LogWriter;
use crate::base::num::u64_of;
use crate::base::{ErrorKind, Lsn, Reached, Result};
use crate::env::Env;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The files of the log that wait for their use have at most this part of the space that is free, and each of them; but
/// one of [`FRESH_BYTES`] there may always be.
const FREE_PART: u64 = 32;

/// Removes the files that wait to become segments of the log in `directory`, to make room on a full disk before the log
/// is opened. What cannot be removed stays.
pub fn remove_spares(env: &Env, directory: &Path) {
    let directory = Directory { env: env.clone(), path: directory.to_owned() };
    for spare in directory.list().map(|listing| listing.spares).unwrap_or_default() {
        drop(directory.remove(&spare.path));
    }
}

/// Removes all files of the log in a directory.
///
/// # Errors
/// `Io` when one of them cannot be removed.
pub fn remove_log(env: &Env, directory: &Path) -> Result<()> {
    let directory = Directory { env: env.clone(), path: directory.to_owned() };
    let Listing { segments, spares, unfinished, .. } = directory.list()?;
    let spares = spares.iter().map(|spare| &spare.path);
    let mut paths = segments.iter().map(|(_, path)| path).chain(spares).chain(&unfinished);
    paths.try_for_each(|path| directory.remove(path))
}

/// Room that is promised to a payload.
#[derive(Debug)]
#[must_use = "the room is promised until this is dropped"]
pub struct Reservation<'a> {
    log: &'a LogWriter,
    bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.log.state.lock().promised_bytes -= self.bytes;
        }
    }
}

impl RecoveredLog {
    /// Makes the file of the segment in which the log goes on, or takes one that is there when the disk has no room for
    /// it.
    ///
    /// # Errors
    /// `Full` and `Io` when there is neither. Nothing is changed then, and it may be called again.
    pub fn prepare(&mut self, env: &Env, options: LogOptions) -> Result<()> {
        if self.first.is_some() {
            return Ok(());
        }
        let directory = Directory { env: env.clone(), path: self.directory.clone() };
        let bytes = new_segment_bytes(0, options.segment_bytes);
        let made = directory.make_spare(self.next_spare, bytes, Fill::Zeros, options.direct);
        self.next_spare += 1;
        self.first = Some(match made.map(|(spare, _)| spare) {
            Err(error) if error.kind() == ErrorKind::Full => {
                let useful = |spare: &mut Spare| is_useful(spare.bytes, 0, options.segment_bytes);
                self.spares.extract_if(.., useful).next().ok_or(error)?
            }
            made => made?,
        });
        Ok(())
    }
}

impl LogWriter {
    /// Whether [`Self::prepare_spare`] has something to do; cheap enough to ask at every commit.
    pub fn wants_spare(&self) -> bool {
        // Relaxed: a thread that sees the old value asks again at its next commit.
        self.wants_spare.load(Ordering::Relaxed)
    }

    /// Writes a file for the next segment ahead, if none waits (a small one when the disk has no room for more), with
    /// its header, and makes durable what buffered commits did not wait for: segments that are full, and the name of
    /// the current one. For a background worker: a commit that finds no spare has to make a (small) file itself.
    ///
    /// # Errors
    /// `Full` when there is no room: appends that need a new segment then fail with `Full` before they change anything,
    /// until a later call succeeds. `Io` when the file cannot be made; nothing is lost by that. `Poisoned` when a
    /// segment or a name cannot be synced.
    pub fn prepare_spare(&self) -> Result<()> {
        // First, so that a segment begun meanwhile asks again.
        self.wants_spare.store(false, Ordering::Relaxed);
        self.sync_full_segments()?;
        let current = Arc::clone(&self.io.lock().files.current);
        self.directory.keep_name(&current).map_err(|error| self.fail(&error))?;
        let mut makes = self.spare_makes.lock();
        let made = self.make_spare(&mut makes).and_then(|()| self.ready_spare(&makes));
        if made.is_err() {
            self.wants_spare.store(true, Ordering::Relaxed);
        }
        made
    }

    /// Has files at hand for a payload with this body, where that is large: none of its segments is filled with zeros
    /// that it would overwrite, and a disk without room for it is met before anything of it is appended. They are
    /// promised to it until what is returned is dropped; other large payloads have files of their own.
    ///
    /// # Errors
    /// `Full` when there is no room, `Io` when a file cannot be made. What was made is gone again then.
    pub fn reserve(&self, body: &Packed<'_>) -> Result<Reservation<'_>> {
        let bytes = u64_of(body.stored_bytes());
        let mut reservation = Reservation { log: self, bytes: 0 };
        // What the smallest segment has room for on any disk: the file system is not asked for each small commit.
        if bytes < FRESH_BYTES.min(self.options.segment_bytes) {
            return Ok(reservation);
        }
        let whole = self.whole_bytes();
        let mut makes = self.spare_makes.lock();
        let mut state = self.state.lock();
        let mut missing = (state.promised_bytes + bytes).saturating_sub(state.tail.room_bytes());
        state.promised_bytes += bytes;
        reservation.bytes = bytes;
        drop(state);
        let mut spares = Vec::new();
        while missing > 0 {
            let size = (1 << missing.ilog2()).max(new_segment_bytes(self.used(), whole)).min(whole);
            let made = self.directory.make_spare(makes.number(), size, Fill::Room, self.options.direct);
            let (spare, zeros) = made.inspect_err(|_| {
                // What needs the room more may come.
                spares.iter().for_each(|spare: &Spare| drop(self.directory.remove(&spare.path)));
            })?;
            missing = missing.saturating_sub(spare.room_bytes());
            count(&self.counters.spare_bytes, zeros);
            spares.push(spare);
        }
        count(&self.counters.segments_created, u64_of(spares.len()));
        // The one that is next stays it: it may have its header. The largest of these comes after it.
        spares.reverse();
        self.state.lock().tail.spares().splice(..0, spares);
        Ok(reservation)
    }

    /// Makes a spare if none waits.
    fn make_spare(&self, makes: &mut SpareMakes) -> Result<()> {
        let mut state = self.state.lock();
        if !state.tail.spares().is_empty() {
            // It may be a segment that was given up since the disk was full.
            state.full_disk = None;
            return Ok(());
        }
        drop(state);
        let fill = makes.fill(self.forces(), self.used());
        let mut make = |bytes| self.directory.make_spare(makes.number(), bytes, fill, self.options.direct);
        let bytes = new_segment_bytes(self.used(), self.whole_bytes());
        let made = make(bytes).or_else(|error| match error.kind() {
            // What room there is may still do for a small one.
            ErrorKind::Full if bytes > FRESH_BYTES => make(FRESH_BYTES),
            _ => Err(error),
        });
        let mut state = self.state.lock();
        match made {
            Ok((spare, zeros)) => {
                count(&self.counters.spare_bytes, zeros);
                state.tail.spares().push(spare);
                state.full_disk = None;
                drop(state);
                count(&self.counters.segments_created, 1);
                Ok(())
            }
            Err(error) => {
                if error.kind() == ErrorKind::Full || error.is_unchanged() {
                    state.full_disk = Some(error.to_string());
                }
                Err(error)
            }
        }
    }

    /// Writes the header of the next segment into the spare that it will be made of. If that is made of it meanwhile,
    /// both write the same: until `makes` is let go no segment becomes a spare again.
    fn ready_spare(&self, _makes: &SpareMakes) -> Result<()> {
        let mut state = self.state.lock();
        let segment = *state.tail.segment();
        let Some(spare) = state.tail.spares().last() else { return Ok(()) };
        let (path, header) = (spare.path.clone(), segment.continued(spare.bytes));
        if spare.ready.as_ref().is_some_and(|ready| ready.header == header) {
            return Ok(());
        }
        drop(state);
        let made = self.directory.head(&path, header, self.options.direct);
        let mut state = self.state.lock();
        // Else it is a segment by now, under another name.
        let Some(spare) = state.tail.spares().last_mut().filter(|spare| spare.path == path) else { return Ok(()) };
        match made {
            Err(error) if error.is_unchanged() => {
                state.full_disk = Some(error.to_string());
                Err(error)
            }
            made => {
                spare.ready = Some(made?);
                Ok(())
            }
        }
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

    /// Forces since the log was opened.
    fn forces(&self) -> u64 {
        self.counters.groups.load(Ordering::Relaxed)
    }

    /// Bytes written since the log was opened.
    fn used(&self) -> u64 {
        self.counters.written_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the segments that a recovery might need; [`Self::release`] makes it less.
    pub fn live_bytes(&self) -> u64 {
        let live = self.live.lock();
        let needed = needed_from(&live, self.holds.lock().released);
        live[needed..].iter().map(|live| live.header.bytes).sum()
    }

    /// Bytes of the segments before the current one, and how many of them nothing was written to, because the log was
    /// opened anew before they were full.
    pub fn room_left_behind(&self) -> (u64, u64) {
        let live = self.live.lock();
        let left = |pair: &[Live]| pair[0].header.end().0.saturating_sub(pair[1].header.previous_end.0);
        (live[..live.len() - 1].iter().map(|live| live.header.bytes).sum(), live.windows(2).map(left).sum())
    }

    /// Gives segments up that hold nothing at or after `before`, a position that has to be durable wherever a later
    /// [`recover`](super::recover) gets it from, unless a cursor holds them. A few become spares, the others are
    /// removed. What is not durable is not given up: a write of it may be on its way, and would fall into whatever the
    /// segment has become.
    ///
    /// # Errors
    /// `Io` when a file cannot be renamed or removed; the next open tries again.
    pub fn release(&self, before: Lsn) -> Result<()> {
        let mut live = self.live.lock();
        let needed = {
            let mut holds = self.holds.lock();
            holds.released = holds.released.max(before.min(self.durable()));
            let free = needed_from(&live, holds.released);
            holds.free(&live, free)
        };
        if needed == 0 {
            return Ok(());
        }
        let obsolete: Vec<_> = live.drain(..needed).collect();
        let oldest = live[0].header.number;
        // A thread that begins a segment holds `io` and takes this latch.
        drop(live);
        let mut io = self.io.lock();
        io.files.unsynced.retain(|segment| segment.header.number >= oldest);
        let current = Arc::clone(&io.files.current);
        drop(io);
        // The name of what is left must not be the one that a power failure takes back.
        self.directory.keep_name(&current).map_err(|error| self.fail(&error))?;
        let mut makes = self.spare_makes.lock();
        let (room, mut bytes) = {
            let mut state = self.state.lock();
            let there = state.tail.spares();
            (SPARES_MAX.saturating_sub(there.len()), there.iter().map(|spare| spare.bytes).sum::<u64>())
        };
        let (whole, bytes_max) = (self.whole_bytes(), self.spares_bytes_max());
        let mut spares = Vec::new();
        for segment in obsolete {
            let (is_whole, more) = (segment.bytes >= segment.header.bytes, bytes + segment.header.bytes);
            let useful = is_useful(segment.header.bytes, self.used(), whole) && (bytes == 0 || more <= bytes_max);
            if useful && is_whole && spares.len() < room {
                bytes = more;
                spares.push(self.directory.retire(&segment.path, segment.header.bytes, makes.number())?);
                count(&self.counters.segments_recycled, 1);
                Reached::SegmentRecycled.mark();
            } else {
                self.directory.remove(&segment.path)?;
                count(&self.counters.segments_removed, 1);
            }
        }
        // Before a spare becomes a segment: else a crash could leave its new header under its old name.
        self.directory.sync()?;
        // The one that was there already is next: it has its header.
        self.state.lock().tail.spares().splice(..0, spares);
        Ok(())
    }
}
