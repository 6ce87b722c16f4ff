//! Salvage: a damaged log is cut at the damage, so that it can be opened again, and what is cut off is kept in a
//! directory.
//!
//! # Recovery
//! 1. The whole log, from the segment of the oldest position that is needed, is read up to the damage; what is behind
//!    is read as far as it can be. A segment whose header is damaged is read all the same, if checksums prove which one
//!    it is (`log/headless.rs`).
//! 2. Files that lose something, or get a new header, are linked or copied to `lost-{number}` in the log's directory,
//!    durably.
//! 3. Damaged headers of segments that are kept are written again. When nothing else was damaged the log is sound from
//!    here on.
//! 4. A segment of that number seals the log before the damage. With its name the log is sound; before that it is as it
//!    was.
//! 5. Files behind the seal are removed. They do not count any more, so it does not matter how far that gets.
//!
//! Positions go on far above all that are known, also those that only the caller knows of: the file of the newest may
//! be missing.

use super::chain::{Damage, SegmentFile, Segments, is_link, missing_newest, open_all};
use super::headless::Headless;
use super::reader::LogReader;
use super::reader::Visit;
use super::recover::{recover, recover_unsynced};
use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, Lsn, Result};
use crate::env::{Access, Env};
use crate::log::format::{Begins, SECTOR, SEGMENT_BYTES_MIN, SegmentHeader, sector_up};
use crate::log::pool::directory::{Directory, Listing, segment_path};
use std::io;
use std::path::{Path, PathBuf};

/// How many positions are left out behind everything known. More than a log can have grown by since the manifest noted
/// a position.
const GAP_BYTES: u64 = 1 << 40;
/// How much of a file is copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// What is wrong with a log, and what can be had of it.
#[derive(Debug)]
pub struct Damaged {
    directory: Directory,
    listing: Listing,
    seal: SegmentHeader,
    /// What made a recovery refuse.
    pub error: Error,
    /// The position after the last payload before the damage.
    pub end: Lsn,
    /// Everything before it was durable once.
    pub durable: Lsn,
    /// Bytes behind the damage that no fragment can be read from; `None` when files are missing or cut off, so that
    /// it is unknown.
    pub unreadable_bytes: Option<u64>,
    /// Segments whose headers are damaged, and the headers that they had.
    headless: Vec<(SegmentHeader, PathBuf)>,
}

/// Where a log is, and what is known of it from elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its directory.
    pub directory: &'a Path,
    /// The identity of its database.
    pub database: u64,
    /// The oldest position that is needed.
    pub from: Lsn,
    /// Everything before it was durable, as others know.
    pub durable: Lsn,
    /// No position above it is known to others.
    pub highest: Lsn,
    /// Whether it may be written, so that what is read is made durable first.
    pub writable: bool,
}

/// Looks for damage that makes [`recover`] refuse; `None` when there is none. Shows the payloads before it to `kept`
/// and those behind it that can be read to `lost`. `check` refuses, as `Corruption`, a payload that makes no sense.
/// Changes nothing.
///
/// # Errors
/// `Unsupported` for a newer format; `Invalid` for a segment of another database; `Io`; what `kept` and `lost` say.
pub fn examine(
    env: &Env,
    wanted: Wanted<'_>,
    check: &mut Visit<'_>,
    kept: &mut Visit<'_>,
    lost: &mut Visit<'_>,
) -> Result<Option<Damaged>> {
    let Wanted { directory, database, from, durable, highest, writable } = wanted;
    let recover = if writable { recover } else { recover_unsynced };
    let refused = recover(env, directory, database, from, check);
    let refused = refused.and_then(|recovered| recovered.check_reaches(durable));
    let Err(error) = refused else { return Ok(None) };
    if error.place().is_none() {
        return Err(error);
    }
    let directory = Directory { env: env.clone(), path: directory.to_owned() };
    let listing = directory.list()?;
    let mut segments = open_all(&directory, &listing, Some(database), false)?;
    if writable {
        let mut sound = segments.found.iter_mut().filter_map(|(_, found)| found.as_mut().ok());
        sound.try_for_each(|found| found.read_past_cache(&directory))?;
    }
    if let Some((path, newer)) = segments.bad().find(|(_, damage)| damage.is_newer()) {
        return Err(newer.error(&path));
    }
    let headless = segments.identify(&directory, database)?;
    let log = segments.unbroken_from(from);
    let mut reader = LogReader::new(&log, from);
    let read = reader.read(kept);
    let (end, end_segment) = (reader.summary.end, reader.summary.end_segment);
    let error = match read {
        Err(error) if error.place().is_none() => return Err(error),
        Err(error) => error,
        // The damage is what comes next.
        Ok(()) => segments.bad_after(&log).unwrap_or(error),
    };
    let rest = segments.behind(reader.fragment_end);
    let seals = |number| segments.sealed_at(number);
    let mut behind = LogReader::new(&rest, end);
    behind.fragment_end = reader.fragment_end;
    let rest = behind.read_rest(durable.max(end), &seals, lost)?;
    let missing = missing_newest(&directory, &listing, database, writable)?;
    let is_known = missing.is_none() && !segments.has_gap(end_segment, reader.fragment_end, rest.durable);
    let (durable, unreadable_bytes) = (rest.durable, is_known.then_some(rest.unreadable_bytes));
    let known = segments.positions_end().max(highest).max(durable).max(from);
    let seal = SegmentHeader {
        begins: Begins::Seals,
        database,
        number: listing.segments.last().map(|(number, _)| *number).max(missing).map_or(1, |number| number + 1),
        bytes: SEGMENT_BYTES_MIN,
        first: sector_up(known.plus(GAP_BYTES)),
        previous: end_segment,
        previous_end: end,
    };
    drop(segments);
    Ok(Some(Damaged { directory, listing, seal, error, end, durable, unreadable_bytes, headless }))
}

impl Damaged {
    /// Cuts the log at the damage and returns the files in which all is kept that it loses by that.
    ///
    /// # Errors
    /// `Full` or `Io`. The log then still refuses, or is salvaged: a second call tells.
    pub fn repair(self) -> Result<Vec<PathBuf>> {
        let Self { directory, listing, seal, headless, .. } = self;
        for path in &listing.unfinished {
            directory.remove(path)?;
        }
        let lost =
            Directory { env: directory.env.clone(), path: directory.path.join(format!("lost-{:016}", seal.number)) };
        let wrong = |error| Error::io("create directory", &lost.path, error);
        directory.env.fs.create_dir_all(&lost.path).map_err(wrong)?;
        // Left by a salvage that did not get as far as its seal.
        for entry in lost.env.fs.list(&lost.path).map_err(|error| Error::io("list", &lost.path, error))? {
            lost.remove(&lost.path.join(entry.name))?;
        }
        let mut kept = Vec::new();
        for (number, path) in listing.segments.iter().filter(|(number, _)| *number >= seal.previous) {
            let copy = segment_path(&lost.path, *number);
            // A segment that stays will be used again one day, and its bytes with it.
            let stays = *number == seal.previous;
            keep(&directory, path, &copy, !stays)?;
            kept.push(copy);
        }
        let headless: Vec<_> = headless.into_iter().filter(|(header, _)| header.number <= seal.previous).collect();
        for (header, path) in headless.iter().filter(|(header, _)| header.number < seal.previous) {
            let copy = segment_path(&lost.path, header.number);
            keep(&directory, path, &copy, false)?;
            kept.push(copy);
        }
        lost.sync()?;
        directory.sync()?;
        for (header, path) in &headless {
            directory.head(path, *header, false)?;
        }
        let segment = directory.begin(seal, None, false)?;
        directory.keep_name(&segment)?;
        for (_, path) in listing.segments.iter().filter(|(number, _)| *number > seal.previous) {
            directory.remove(path)?;
        }
        directory.sync()?;
        Ok(kept)
    }
}

/// Gives a file a second name or, where that cannot be or must not be, makes a durable copy.
fn keep(directory: &Directory, from: &Path, to: &Path, link: bool) -> Result<()> {
    if link {
        match directory.env.fs.hard_link(from, to) {
            Ok(()) => return Ok(()),
            Err(error) if [io::ErrorKind::CrossesDevices, io::ErrorKind::Unsupported].contains(&error.kind()) => {}
            Err(error) => return Err(Error::io("link", to, error)),
        }
    }
    let source = directory.open(from, Access::Read, false)?;
    let target = directory.open(to, Access::CreateNew, false)?;
    let mut buffer = vec![0; usize_of(COPY_BYTES)];
    let mut at = 0;
    loop {
        let read = source.read_at(&mut buffer, at).map_err(|error| Error::io("read", from, error))?;
        if read == 0 {
            return target.sync().map_err(|error| Error::io("sync", to, error));
        }
        target.write_at(&buffer[..read], at).map_err(|error| Error::io("write", to, error))?;
        at += u64_of(read);
    }
}

impl Segments<'_> {
    /// Finds out which segments those are whose headers are damaged, and tells the headers that they had.
    fn identify(&mut self, directory: &Directory, database: u64) -> Result<Vec<(SegmentHeader, PathBuf)>> {
        let mut headers = Vec::new();
        for at in 0..self.found.len() {
            let number = self.found[at].0;
            if self.found[at].1.is_ok() {
                continue;
            }
            let path = self.path(number);
            let file = directory.open(&path, Access::Read, false)?;
            let bytes = file.len().map_err(|error| Error::io("read the length of", &path, error))?;
            let neighbour = |number| self.get(number).and_then(|found| found.as_ref().ok());
            let (before, after) =
                (number.checked_sub(1).and_then(neighbour), number.checked_add(1).and_then(neighbour));
            let headless = Headless { database, number, path: &path, file: &*file, bytes, before, after };
            let Some(header) = headless.identify()? else { continue };
            headers.push((header, path.clone()));
            self.found[at].1 = Ok(SegmentFile { header, identity: header.identity(), path, file, bytes });
        }
        Ok(headers)
    }

    /// Whether an unknown number of bytes is missing behind `stop`, which lies in segment `number`.
    fn has_gap(&self, number: u64, stop: Lsn, durable: Lsn) -> bool {
        let unknown =
            |(at, found): &(u64, Result<SegmentFile, Damage>)| *at >= number && found.is_err() && !self.is_dead(*at);
        let follows_none = |found: &SegmentFile| {
            let header = found.header;
            header.previous > 0 && header.previous_end > stop && self.get(header.previous).is_none()
        };
        let is_cut = |found: &SegmentFile| {
            let (header, end) = (found.header, found.readable_end());
            let is_sealed = self.sealed_at(header.number).is_some_and(|sealed| sealed <= end);
            found.is_cut() && header.number >= number && !is_sealed && !self.is_dead(header.number)
        };
        self.found.iter().any(unknown)
            || self.sound().any(|found| follows_none(found) || is_cut(found))
            || durable > self.positions_end()
    }

    fn sound(&self) -> impl DoubleEndedIterator<Item = &SegmentFile> {
        self.found.iter().filter_map(|(_, found)| found.as_ref().ok())
    }

    /// The segments that cannot be used.
    fn bad(&self) -> impl Iterator<Item = (PathBuf, &Damage)> {
        let bad = self.found.iter().filter_map(|(number, found)| Some((*number, found.as_ref().err()?)));
        bad.map(|(number, damage)| (self.path(number), damage))
    }

    /// Whether the log went on without this segment: it followed a torn tail.
    fn is_dead(&self, number: u64) -> bool {
        self.sound().any(|found| {
            let SegmentHeader { begins, previous, number: later, .. } = found.header;
            begins == Begins::Seals && previous < number && number < later
        })
    }

    /// The segments from the one on that holds `from`, as long as each is followed by the next.
    fn unbroken_from(&self, from: Lsn) -> Vec<SegmentFile> {
        let holds = |found: &&SegmentFile| found.header.previous_end <= from && from < found.header.end();
        let mut log: Vec<SegmentFile> = self.sound().rfind(holds).cloned().into_iter().collect();
        while let Some(last) = log.last() {
            let Some(next) = self.sound().rfind(|found| is_link(&last.header, &found.header)) else { break };
            log.push(next.clone());
        }
        log
    }

    /// What is wrong with the segment that should follow `log`, if it is there.
    fn bad_after(&self, log: &[SegmentFile]) -> Option<Error> {
        let next = log.last().map(|found| found.header.number + 1)?;
        self.bad().find(|(path, _)| *path == self.path(next)).map(|(path, damage)| damage.error(&path))
    }

    /// The segments that end behind `position`.
    fn behind(&self, position: Lsn) -> Vec<SegmentFile> {
        let counts = |found: &&SegmentFile| found.header.end() > position && !self.is_dead(found.header.number);
        self.sound().filter(counts).cloned().collect()
    }

    /// Up to where a segment counts, if a later one sealed it.
    fn sealed_at(&self, number: u64) -> Option<Lsn> {
        let seals = self.sound().map(|found| found.header);
        let seals = seals.filter(|header| header.begins == Begins::Seals && header.previous == number);
        seals.map(|header| header.previous_end).min()
    }

    fn positions_end(&self) -> Lsn {
        self.sound().map(|found| found.header.end()).max().unwrap_or_default()
    }
}

const _: () = assert!(SEGMENT_BYTES_MIN > SECTOR, "a seal is a segment like others");
