//! Segment files: their names, and how a file becomes a segment.
//!
//! # Format
//! | name | what it is |
//! |---|---|
//! | `{number:016}.log` | a segment, whose header is durable |
//! | `{any:016}.spare` | a file of full length that waits to become a segment, and may have its header already |
//! | `lost-{number:016}/` | what a salvage kept that was sealed by the segment of that number (`recovery/salvage.rs`) |
//! | `….new` | a file that was not finished; removed at the next open |
//!
//! # Recovery
//! A file gets its `.log` name only after its length and its new header are durable. So a `.log` file that is short or
//! has no valid header was damaged; a crash cannot have left it. The name itself is durable before any byte of the
//! segment is said to be, and before the next segment gets its own, or a spare the header of the next: of two names the
//! younger one is never the only one that survives. Nothing but the header of a spare means anything.

use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, Result};
use crate::env::{Access, AlignedBuffer, Env, File, OpenOptions, SECTOR_BYTES};
use crate::log::format::{SECTOR, SegmentHeader};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DIGITS: usize = 16;
/// How many zeros are written at a time.
const FILL_BYTES: u64 = 1 << 20;

/// A segment file open for writing.
#[derive(Debug)]
pub(in crate::log) struct Segment {
    pub(in crate::log) header: SegmentHeader,
    pub(in crate::log) path: PathBuf,
    /// Through the page cache.
    pub(in crate::log) buffered: Arc<dyn File>,
    /// Past the page cache, where that is wanted and possible.
    pub(in crate::log) direct: Arc<dyn File>,
    /// Whether its name is durable. Set by the thread that made it so.
    is_named: AtomicBool,
}

impl Segment {
    /// Whether its name is durable.
    pub(in crate::log) fn is_named(&self) -> bool {
        // Acquire and Release: a thread that finds it set relies on the sync before it.
        self.is_named.load(Ordering::Acquire)
    }
}

/// What is known of a segment file without opening it.
#[derive(Clone, Debug)]
pub(in crate::log) struct SegmentInfo {
    pub(in crate::log) header: SegmentHeader,
    pub(in crate::log) path: PathBuf,
    /// Length of the file: less than its header says when it was cut off.
    pub(in crate::log) bytes: u64,
}

/// What a file is made of that is to become a segment. Either reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Fill {
    /// Zeros that are really written: later writes change no metadata.
    Zeros,
    /// Space that the file system reserved and knows to be unwritten: the first durable write to each place goes
    /// through its journal too.
    Reserved,
}

/// A file of full length that can become a segment.
#[derive(Debug)]
pub(in crate::log) struct Spare {
    pub(in crate::log) path: PathBuf,
    pub(in crate::log) bytes: u64,
    /// The segment that it is made for, if that is known: it has the header, and lacks the name.
    pub(in crate::log) ready: Option<Segment>,
}

impl Spare {
    pub(in crate::log) const fn new(path: PathBuf, bytes: u64) -> Self {
        Self { path, bytes, ready: None }
    }

    /// Payload bytes that fit. An estimate: an eighth is left for headers, markers and padding.
    pub(in crate::log) const fn capacity_bytes(&self) -> u64 {
        (self.bytes - SECTOR) / 8 * 7
    }
}

/// The names found in a log directory.
#[derive(Debug, Default)]
pub(in crate::log) struct Listing {
    /// Segments by number, ascending.
    pub(in crate::log) segments: Vec<(u64, PathBuf)>,
    pub(in crate::log) spares: Vec<Spare>,
    /// Files that were not finished.
    pub(in crate::log) unfinished: Vec<PathBuf>,
    /// Above the number of every spare, finished or not.
    pub(in crate::log) next_spare: u64,
}

/// The directory of a log.
#[derive(Clone, Debug)]
pub(in crate::log) struct Directory {
    pub(in crate::log) env: Env,
    pub(in crate::log) path: PathBuf,
}

impl Directory {
    /// Sorts the directory's names; those that are not the log's are left out.
    pub(in crate::log) fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for entry in self.env.fs.list(&self.path).map_err(|error| Error::io("list", &self.path, error))? {
            let Some((number, suffix)) = split_name(&entry.name) else { continue };
            let path = self.path.join(&entry.name);
            match suffix {
                ".log" => listing.segments.push((number, path)),
                ".spare" => listing.spares.push(Spare::new(path, entry.bytes)),
                ".log.new" | ".spare.new" => listing.unfinished.push(path),
                _ => continue,
            }
            if suffix.starts_with(".spare") {
                listing.next_spare = listing.next_spare.max(number.saturating_add(1));
            }
        }
        listing.segments.sort();
        Ok(listing)
    }

    /// Opens an existing file.
    pub(in crate::log) fn open(&self, path: &Path, access: Access, direct: bool) -> Result<Arc<dyn File>> {
        let file = self.env.fs.open(path, OpenOptions { access, direct });
        file.map_err(|error| Error::io("open", path, error).unchanged())
    }

    /// Makes a file of `bytes` bytes as spare `number`, and says how many zeros were written for it. Not durable under
    /// its name.
    pub(in crate::log) fn make_spare(&self, number: u64, bytes: u64, fill: Fill, direct: bool) -> Result<(Spare, u64)> {
        let unfinished = self.path.join(format!("{number:016}.spare.new"));
        let path = self.path.join(format!("{number:016}.spare"));
        let made = self.make(&unfinished, bytes, fill, direct);
        let made = made.and_then(|zeros| self.rename(&unfinished, &path).map(|()| zeros));
        match made {
            Ok(zeros) => Ok((Spare::new(path, bytes), zeros)),
            Err(error) => {
                // It holds nothing, and space may be lacking. If this fails too, the next open removes it.
                drop(self.env.fs.remove(&unfinished));
                Err(error)
            }
        }
    }

    /// Makes `header`'s segment of `spare`, or of a new file of zeros. Durable under its name after
    /// [`Self::keep_name`].
    pub(in crate::log) fn begin(&self, header: SegmentHeader, spare: Option<Spare>, direct: bool) -> Result<Segment> {
        let (file, ready) = match spare {
            Some(spare) => (spare.path, spare.ready.filter(|ready| ready.header == header)),
            None => {
                let unfinished = self.path.join(format!("{:016}.log.new", header.number));
                self.make(&unfinished, header.bytes, Fill::Zeros, direct)?;
                (unfinished, None)
            }
        };
        let segment = ready.map_or_else(|| self.head(&file, header, direct), Ok)?;
        self.rename(&file, &segment.path)?;
        Ok(segment)
    }

    /// Opens a file as `header`'s segment, with that header durable in it. It lacks the name.
    pub(in crate::log) fn head(&self, file: &Path, header: SegmentHeader, direct: bool) -> Result<Segment> {
        let segment = Segment {
            header,
            buffered: self.open(file, Access::Write, false)?,
            direct: self.open(file, Access::Write, direct)?,
            path: segment_path(&self.path, header.number),
            is_named: AtomicBool::new(false),
        };
        let mut sector = AlignedBuffer::zeroed(SECTOR_BYTES);
        header.encode(&mut sector);
        segment.direct.write_durable_at(&sector, 0).map_err(|error| Error::io("write", file, error))?;
        Ok(segment)
    }

    /// Makes the name of a segment durable, if it is not.
    pub(in crate::log) fn keep_name(&self, segment: &Segment) -> Result<()> {
        if !segment.is_named() {
            self.sync()?;
            segment.is_named.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Turns an obsolete segment into spare `number`. Durable after [`Self::sync`].
    pub(in crate::log) fn retire(&self, segment: &Path, bytes: u64, number: u64) -> Result<Spare> {
        let path = self.path.join(format!("{number:016}.spare"));
        self.rename(segment, &path)?;
        Ok(Spare::new(path, bytes))
    }

    /// Removes a file that is no longer needed.
    pub(in crate::log) fn remove(&self, path: &Path) -> Result<()> {
        self.env.fs.remove(path).map_err(|error| Error::io("remove", path, error))
    }

    /// Makes names durable.
    pub(in crate::log) fn sync(&self) -> Result<()> {
        self.env.fs.sync_dir(&self.path).map_err(|error| Error::io("sync", &self.path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.env.fs.rename(from, to).map_err(|error| Error::io("rename", from, error))
    }

    /// Creates a file of zeros, and makes it durable; how many zeros were written.
    fn make(&self, path: &Path, bytes: u64, fill: Fill, direct: bool) -> Result<u64> {
        let file = self.open(path, Access::CreateNew, direct)?;
        let made = (|| {
            // In one piece where the file system can, and refused as a whole when there is no space.
            let is_reserved = file.allocate(bytes)?;
            let zeros = if is_reserved && fill == Fill::Reserved { 0 } else { bytes };
            let piece = AlignedBuffer::zeroed(usize_of(zeros.min(FILL_BYTES)));
            let mut at = 0;
            while at < zeros {
                let len = u64_of(piece.len()).min(zeros - at);
                file.write_at(&piece[..usize_of(len)], at)?;
                at += len;
            }
            file.sync()?;
            Ok(zeros)
        })();
        made.map_err(|error: io::Error| Error::io("write", path, error))
    }
}

/// Removes the spare files of the log in `directory`, to make space on a full disk before the log
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

/// The path of segment `number`.
pub(in crate::log) fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016}.log"))
}

/// Splits a name into its number and what follows.
fn split_name(name: &str) -> Option<(u64, &str)> {
    let (digits, suffix) = name.split_at_checked(DIGITS)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?.map(|number| (number, suffix))
}

const _: () = assert!(FILL_BYTES.is_multiple_of(SECTOR), "zeros are written in whole sectors");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_log_are_recognised() {
        assert_eq!(split_name("0000000000000012.log"), Some((12, ".log")));
        assert_eq!(split_name("0000000000000012.spare.new"), Some((12, ".spare.new")));
        assert_eq!(split_name("MANIFEST"), None);
        assert_eq!(split_name("000000000000001x.log"), None);
        assert_eq!(segment_path(Path::new("d"), 12), Path::new("d/0000000000000012.log"));
    }
}
