//! The segments of a directory, and which of them make up the log.
//!
//! # Recovery
//! The segment with the highest number belongs to the log; its header names the one before it, and so on back to the
//! first that is needed. What no header names does not count: it followed a torn tail, or was left by an open that did
//! not get far.
//!
//! No segment names the newest. But a spare may have the header of the segment after it already, which is written when
//! the name of the newest is durable: when that is missing it was taken away, and with it commits may be.
//!
//! A sync before the reading is not enough to believe what is read: after a sync that failed, Linux shows from its
//! cache what is not on the disk, and no later sync writes it. So what no marker proves is read past the cache.

use crate::base::num::usize_of;
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::{Access, File, OpenOptions};
use crate::log::format::{Begins, HeaderError, MARKER_BYTES, Marker, SECTOR, SegmentHeader};
use crate::log::pool::directory::{Directory, Listing, SegmentInfo, Spare, segment_path};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A segment found, with a header that is its own.
#[derive(Clone, Debug)]
pub(in crate::log) struct SegmentFile {
    pub(in crate::log) header: SegmentHeader,
    /// What the checksums of its fragments are seeded with.
    pub(in crate::log) identity: u64,
    pub(in crate::log) path: PathBuf,
    pub(in crate::log) file: Arc<dyn File>,
    /// Length of the file: less than its header says when it was cut off.
    pub(in crate::log) bytes: u64,
}

impl SegmentFile {
    /// Whether the file is shorter than its header says.
    pub(in crate::log) const fn is_cut(&self) -> bool {
        self.bytes < self.header.bytes
    }

    /// The position behind the last byte of content that the file has.
    pub(in crate::log) fn readable_end(&self) -> Lsn {
        self.header.first.plus(self.bytes.min(self.header.bytes).saturating_sub(SECTOR))
    }

    /// From now on reads what is on the disk. Only synced bytes may be expected.
    pub(in crate::log) fn read_past_cache(&mut self, directory: &Directory) -> Result<()> {
        self.file = directory.open(&self.path, Access::Read, true)?;
        Ok(())
    }

    /// The marker of the segment's first group, if there is one.
    fn first_marker(&self) -> Result<Option<Marker>> {
        let at = self.header.first;
        let mut bytes = [0; MARKER_BYTES];
        let read = self.file.read_at(&mut bytes, self.header.offset_of(at));
        let read = read.map_err(|error| Error::io("read", &self.path, error))?;
        Ok(Marker::find(self.identity, at, &bytes[..read]))
    }
}

/// The segments of a directory.
#[derive(Debug)]
pub(in crate::log) struct SegmentChain {
    /// Those that make up the log from the position asked for on, oldest first.
    pub(in crate::log) log: Vec<SegmentFile>,
    /// Older ones, not yet released.
    pub(in crate::log) older: Vec<SegmentInfo>,
    /// Segment files that do not count.
    pub(in crate::log) orphans: Vec<PathBuf>,
    /// Above the position of every byte that fits any segment.
    pub(in crate::log) positions_end: Lsn,
    /// Above the number of every segment.
    pub(in crate::log) next_number: u64,
}

/// Why a segment cannot be used, if it should be needed.
#[derive(Clone, Debug)]
pub(in crate::log) struct Damage {
    what: String,
    /// Its header claims a later version of the format.
    newer: bool,
}

impl Damage {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), newer: false }
    }

    /// Whether it is of a later version of the format, rather than damaged.
    pub(in crate::log) const fn is_newer(&self) -> bool {
        self.newer
    }

    /// What to say when the segment is needed.
    pub(in crate::log) fn error(&self, path: &Path) -> Error {
        if self.newer {
            return Error::new(ErrorKind::Unsupported, format!("{}: {}", path.display(), self.what));
        }
        Error::corruption(path, 0, &self.what)
    }
}

/// Opens all segments of `listing` and finds the log. `database` is the identity they must have, if it is known; `from`
/// the oldest position that is needed, or `None` for whatever there is.
///
/// With `durably`, files and names are made durable before anything is read, so that nothing is believed that a crash
/// could take back.
pub(in crate::log) fn find(
    directory: &Directory,
    listing: &Listing,
    database: Option<u64>,
    from: Option<Lsn>,
    durably: bool,
) -> Result<SegmentChain> {
    let segments = open_all(directory, listing, database, durably)?;
    if let Some(number) = database.map_or(Ok(None), |database| missing_newest(directory, listing, database, durably))? {
        let what =
            "the log needs this segment, and it is missing: it was the newest, as the file for the next one tells";
        return Err(Error::corruption(&segments.path(number), 0, what));
    }
    let mut chain = segments.chain(from)?;
    if durably {
        let proven = proven(&chain.log)?;
        let mut unproven = chain.log.iter_mut().filter(|found| found.header.end() > proven);
        unproven.try_for_each(|found| found.read_past_cache(directory))?;
    }
    Ok(chain)
}

/// The number of the newest segment, if a spare tells that there was a newer one than those that are there. With
/// `durably`, spares are made durable before they are read.
pub(in crate::log) fn missing_newest(
    directory: &Directory,
    listing: &Listing,
    database: u64,
    durably: bool,
) -> Result<Option<u64>> {
    let newest = |listing: &Listing| listing.segments.last().map_or(0, |(number, _)| *number);
    let told = listing.spares.iter().map(|spare| followed_by(directory, spare, database, durably));
    let told = told.collect::<Result<Vec<_>>>()?.into_iter().flatten().max();
    match told.filter(|told| *told > newest(listing)) {
        // A process that has the log open may have begun it after the listing.
        Some(told) => Ok((told > newest(&directory.list()?)).then_some(told)),
        None => Ok(None),
    }
}

/// The number of the segment that the one follows for which a spare has the header, if it has one.
fn followed_by(directory: &Directory, spare: &Spare, database: u64, durably: bool) -> Result<Option<u64>> {
    let path = &spare.path;
    let file = match directory.env.fs.open(path, OpenOptions { access: Access::Read, direct: false }) {
        // A process that has the log open has made a segment of it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| Error::io("open", path, error).unchanged())?,
    };
    if durably {
        file.sync().map_err(|error| Error::io("sync", path, error))?;
    }
    let mut sector = vec![0; usize_of(SECTOR)];
    let read = file.read_at(&mut sector, 0).map_err(|error| Error::io("read", path, error))?;
    let header = SegmentHeader::decode(&sector[..read]).ok();
    Ok(header.filter(|header| header.database == database).map(|header| header.previous))
}

/// A position before which all of `log` was durable once.
fn proven(log: &[SegmentFile]) -> Result<Lsn> {
    for found in log.iter().rev() {
        if found.header.begins == Begins::Seals {
            return Ok(found.header.previous_end);
        }
        if let Some(marker) = found.first_marker()? {
            return Ok(marker.durable);
        }
    }
    Ok(Lsn(0))
}

/// Opens all segments of `listing`, as [`find`] does.
pub(in crate::log) fn open_all<'a>(
    directory: &'a Directory,
    listing: &Listing,
    database: Option<u64>,
    durably: bool,
) -> Result<Segments<'a>> {
    let mut opened = Vec::new();
    for (number, path) in &listing.segments {
        let file = directory.open(path, Access::Read, false)?;
        if durably {
            file.sync().map_err(|error| Error::io("sync", path, error))?;
        }
        opened.push((*number, path, file));
    }
    if durably {
        directory.sync()?;
    }
    let mut segments = Segments { directory: &directory.path, found: Vec::new() };
    for (number, path, file) in opened {
        let bytes = file.len().map_err(|error| Error::io("read the length of", path, error))?;
        let header = read_header(&*file, path, number, database)?;
        segments.found.push((
            number,
            header.map(|header| SegmentFile { header, identity: header.identity(), path: path.clone(), file, bytes }),
        ));
    }
    Ok(segments)
}

/// Reads and checks a header; the inner error is for a segment that may not be needed.
pub(in crate::log) fn read_header(
    file: &dyn File,
    path: &Path,
    number: u64,
    database: Option<u64>,
) -> Result<Result<SegmentHeader, Damage>> {
    let mut sector = vec![0; usize_of(SECTOR)];
    let read = file.read_at(&mut sector, 0).map_err(|error| Error::io("read", path, error))?;
    let header = match SegmentHeader::decode(&sector[..read]) {
        Ok(header) => header,
        Err(HeaderError::Damaged) => return Ok(Err(Damage::new("the segment's header is damaged"))),
        Err(HeaderError::Newer(version)) => {
            let what = format!("log format {version} is newer than this program reads: use a newer spinney");
            return Ok(Err(Damage { what, newer: true }));
        }
    };
    if database.is_some_and(|database| database != header.database) {
        return Err(Error::invalid(format!("{}: this log segment belongs to another database", path.display())));
    }
    if header.number != number {
        return Ok(Err(Damage::new(format!("the file holds segment {}", header.number))));
    }
    Ok(Ok(header))
}

/// All segments of a directory, sound or not.
pub(in crate::log) struct Segments<'a> {
    directory: &'a Path,
    /// By number, ascending.
    pub(in crate::log) found: Vec<(u64, Result<SegmentFile, Damage>)>,
}

impl Segments<'_> {
    fn chain(self, from: Option<Lsn>) -> Result<SegmentChain> {
        let headers = || self.found.iter().filter_map(|(_, found)| found.as_ref().ok()).map(|found| found.header);
        let positions_end = headers().map(|header| header.end()).max().unwrap_or_default();
        let next_number = self.found.last().map_or(1, |(number, _)| number + 1);
        let mut log = Vec::new();
        if let Some((number, _)) = self.found.last() {
            log.push(self.needed(*number)?.clone());
        } else if from.is_some_and(|from| from > Lsn(0)) {
            return Err(Error::corruption(self.directory, 0, "the redo log is missing"));
        }
        // From the newest back, for as long as the one before is needed.
        while let Some(SegmentFile { header, .. }) = log.last().filter(|oldest| oldest.header.previous != 0) {
            let wanted = match from {
                Some(from) => header.previous_end > from,
                None => self.get(header.previous).is_some(),
            };
            if !wanted {
                break;
            }
            let previous = self.needed(header.previous)?;
            check_link(&previous.header, header, &previous.path)?;
            log.push(previous.clone());
        }
        log.reverse();
        let mut older = Vec::new();
        let mut oldest = log.first().map(|found| found.header);
        while let Some(header) = oldest {
            let found = self.get(header.previous).and_then(|found| found.as_ref().ok());
            oldest = found.map(|found| found.header).filter(|previous| is_link(previous, &header));
            if let (Some(found), Some(header)) = (found, oldest) {
                older.push(SegmentInfo { header, path: found.path.clone(), bytes: found.bytes });
            }
        }
        older.reverse();
        let counts = |number| {
            log.iter().any(|found| found.header.number == number)
                || older.iter().any(|live| live.header.number == number)
        };
        let orphans = self.found.iter().filter(|(number, _)| !counts(*number));
        let orphans = orphans.map(|(number, _)| segment_path(self.directory, *number)).collect();
        Ok(SegmentChain { log, older, orphans, positions_end, next_number })
    }

    /// The path of segment `number`, whether it is there or not.
    pub(in crate::log) fn path(&self, number: u64) -> PathBuf {
        segment_path(self.directory, number)
    }

    pub(in crate::log) fn get(&self, number: u64) -> Option<&Result<SegmentFile, Damage>> {
        let at = self.found.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.found[at].1)
    }

    /// The segment of a number that the log cannot do without.
    fn needed(&self, number: u64) -> Result<&SegmentFile> {
        let path = self.path(number);
        match self.get(number) {
            Some(Ok(found)) => Ok(found),
            Some(Err(damage)) => Err(damage.error(&path)),
            None => Err(Error::corruption(&path, 0, "the log needs this segment, and it is missing")),
        }
    }
}

/// Whether `next`, which names `previous` as the one before it, agrees with it.
pub(in crate::log) fn is_link(previous: &SegmentHeader, next: &SegmentHeader) -> bool {
    let within = previous.first <= next.previous_end && next.previous_end <= previous.end();
    let whole = next.begins == Begins::Seals || next.previous_end == previous.end();
    previous.database == next.database
        && previous.number == next.previous
        && within
        && whole
        && previous.end() <= next.first
}

fn check_link(previous: &SegmentHeader, next: &SegmentHeader, path: &Path) -> Result<()> {
    if is_link(previous, next) {
        return Ok(());
    }
    Err(Error::corruption(path, 0, format!("this segment and segment {} after it do not fit together", next.number)))
}
