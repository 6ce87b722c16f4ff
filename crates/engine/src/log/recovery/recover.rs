//! Opening a log: what it holds, and what the next writer needs to know.

use super::chain::{self, SegmentChain, SegmentFile};
use super::progress::{ProgressReporter, ReplayProgress};
use super::reader::{LogReader, LogSummary, Visit};
use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::Env;
use crate::log::format::{SECTOR, SEGMENT_BYTES_MAX, sector_up};
use crate::log::options::LogOptions;
use crate::log::pool::directory::{Directory, Fill, Listing, SegmentInfo, Spare};
use crate::log::pool::sizes::{is_useful, new_segment_bytes};
use crate::log::stats::micros;
use std::path::{Path, PathBuf};

/// How many positions are left out between what a recovery finds and what is written after it. Positions that were
/// handed out but never reached a file, or were in a segment whose name a power failure took back, lie in between, so
/// none is handed out twice.
const GAP_BYTES: u64 = 4 << 30;
const _: () = assert!(GAP_BYTES >= 2 * SEGMENT_BYTES_MAX, "a segment may be lost whole");

/// How often a log is read again that changes while it is read.
const ATTEMPTS: u32 = 100;

/// A log as it was found; [`LogWriter::open`](crate::log::LogWriter::open) goes on from there.
#[derive(Debug)]
pub struct RecoveredLog {
    pub(in crate::log) database: u64,
    pub(in crate::log) summary: LogSummary,
    /// The segments to go on with, oldest first.
    pub(in crate::log) live: Vec<SegmentInfo>,
    /// Segments that do not count any more once the next one seals the log.
    pub(in crate::log) orphans: Vec<PathBuf>,
    /// The files of the directory: spares and those that were not finished.
    pub(in crate::log) listing: Listing,
    pub(in crate::log) next_number: u64,
    pub(in crate::log) next_first: Lsn,
    /// The file to go on in, when it was made ahead.
    pub(in crate::log) first: Option<Spare>,
    /// How long the recovery took, what `visit` did included.
    pub(in crate::log) replay_us: u64,
    pub(in crate::log) directory: PathBuf,
    /// The log has nothing missing before it.
    reached: Lsn,
}

impl RecoveredLog {
    fn new(
        database: u64,
        from: Lsn,
        directory: Directory,
        listing: Listing,
        chain: SegmentChain,
        read: (LogSummary, Lsn),
    ) -> Self {
        let (summary, reached) = read;
        // Segments behind the end hold nothing that counts.
        let counts = |found: &SegmentFile| found.header.number <= summary.end_segment;
        let (kept, dropped): (Vec<_>, Vec<_>) = chain.log.into_iter().partition(counts);
        let mut orphans = chain.orphans;
        orphans.extend(dropped.into_iter().map(|found| found.path));
        let mut live = chain.older;
        live.extend(kept.into_iter().map(|found| SegmentInfo {
            header: found.header,
            bytes: found.bytes,
            path: found.path,
        }));
        let seen = chain.positions_end.max(from);
        Self {
            database,
            summary,
            live,
            orphans,
            listing,
            next_number: chain.next_number,
            next_first: if seen == Lsn(0) { Lsn(SECTOR) } else { sector_up(seen.plus(GAP_BYTES)) },
            first: None,
            replay_us: 0,
            directory: directory.path,
            reached,
        }
    }

    /// Refuses when the log ends before `position`, though everything before that was durable: its newest segments are
    /// missing.
    ///
    /// # Errors
    /// `Corruption`, naming the last segment.
    pub fn check_reaches(&self, position: Lsn) -> Result<()> {
        if self.reached >= position {
            return Ok(());
        }
        let last = self.live.last();
        let path = last.map_or(&self.directory, |live| &live.path);
        let offset = last.map_or(0, |live| {
            let header = &live.header;
            header.offset_of(self.summary.end.clamp(header.first, header.end()))
        });
        let what = format!("the redo log ends here, though it was durable up to position {position}");
        Err(Error::corruption(path, offset, what))
    }

    /// Makes the file of the segment in which the log goes on, or takes one that is there when the disk has no space
    /// for it.
    ///
    /// # Errors
    /// `Full` and `Io` when there is neither. Nothing is changed then, and it may be called again.
    pub fn prepare(&mut self, env: &Env, options: LogOptions) -> Result<()> {
        if self.first.is_some() {
            return Ok(());
        }
        let directory = Directory { env: env.clone(), path: self.directory.clone() };
        let bytes = new_segment_bytes(0, options.segment_bytes);
        let made = directory.make_spare(self.listing.next_spare, bytes, Fill::Zeros, options.direct);
        self.listing.next_spare += 1;
        self.first = Some(match made.map(|(spare, _)| spare) {
            Err(error) if error.kind() == ErrorKind::Full => {
                let useful = |spare: &mut Spare| is_useful(spare.bytes, 0, options.segment_bytes);
                self.listing.spares.extract_if(.., useful).next().ok_or(error)?
            }
            made => made?,
        });
        Ok(())
    }

    /// What was found.
    #[must_use]
    pub fn summary(&self) -> LogSummary {
        self.summary
    }
}

/// Reads the log in `directory` of the database with identity `database`, and shows every payload that ends after
/// `from` to `visit`, in order. Whatever is shown is durable. Changes nothing, so it may be repeated; an empty
/// directory is an empty log.
///
/// # Errors
/// `Corruption` naming file and offset when something is missing or damaged that had been durable (damage after that is
/// the end of the log); `Unsupported` for a newer format; `Invalid` for a segment of another database; `Io` when
/// reading fails; what `visit` returns.
pub fn recover(env: &Env, directory: &Path, database: u64, from: Lsn, visit: &mut Visit<'_>) -> Result<RecoveredLog> {
    recover_telling(env, directory, database, from, &mut |_| (), visit)
}

/// As [`recover`], and calls `tell` at the beginning, after about every mebibyte of the log, and at the end.
///
/// # Errors
/// As for [`recover`].
pub(in crate::log) fn recover_telling(
    env: &Env,
    directory: &Path,
    database: u64,
    from: Lsn,
    tell: &mut dyn FnMut(ReplayProgress),
    visit: &mut Visit<'_>,
) -> Result<RecoveredLog> {
    recover_synced(env, directory, (database, from), true, tell, visit)
}

/// As [`recover`], without a sync before the reading: for a log that no writer may go on with, in a directory where
/// nothing can be written.
///
/// # Errors
/// As for [`recover`].
pub fn recover_unsynced(
    env: &Env,
    directory: &Path,
    database: u64,
    from: Lsn,
    visit: &mut Visit<'_>,
) -> Result<RecoveredLog> {
    recover_synced(env, directory, (database, from), false, &mut |_| (), visit)
}

fn recover_synced(
    env: &Env,
    directory: &Path,
    (database, from): (u64, Lsn),
    sync: bool,
    tell: &mut dyn FnMut(ReplayProgress),
    visit: &mut Visit<'_>,
) -> Result<RecoveredLog> {
    let begun = env.clock.now();
    let directory = Directory { env: env.clone(), path: directory.to_owned() };
    let listing = directory.list()?;
    let chain = chain::find(&directory, &listing, Some(database), Some(from), sync)?;
    let mut steps = ProgressReporter::begin(&chain.log, from, tell);
    let read = read(LogReader::new(&chain.log, from), &mut |start, end, payload| {
        visit(start, end, payload)?;
        steps.at(end);
        Ok(())
    })?;
    steps.finish();
    let recovered = RecoveredLog::new(database, from, directory, listing, chain, read);
    Ok(RecoveredLog { replay_us: micros(env.clock.now().saturating_sub(begun)), ..recovered })
}

/// As [`recover_telling`], of a log that another process may be writing: nothing is synced, so what is shown need not
/// be durable, and the log ends where it ended at some moment of the call. That process must not release what follows
/// `from` meanwhile.
///
/// # Errors
/// As for [`recover`]; `Corruption` and `Io` too when it was released.
pub(in crate::log) fn recover_live(
    env: &Env,
    directory: &Path,
    (database, from): (u64, Lsn),
    tell: &mut dyn FnMut(ReplayProgress),
    visit: &mut Visit<'_>,
) -> Result<RecoveredLog> {
    let begun = env.clock.now();
    let directory = Directory { env: env.clone(), path: directory.to_owned() };
    let (mut reached, mut refused) = (from, false);
    let (mut bytes, mut payloads) = (0, 0);
    for attempt in 1.. {
        let listing = directory.list()?;
        let before = (reached, numbers(&listing));
        let outcome = chain::find(&directory, &listing, Some(database), Some(reached), false).and_then(|chain| {
            let mut steps = ProgressReporter::begin(&chain.log, reached, tell);
            let read = read(LogReader::new(&chain.log, reached), &mut |start, end, payload| {
                let shown = visit(start, end, payload);
                refused = shown.is_err();
                if !refused {
                    (reached, bytes, payloads) = (end, bytes + u64_of(payload.len()), payloads + 1);
                    steps.at(end);
                }
                shown
            })?;
            steps.finish();
            Ok((chain, read))
        });
        match outcome {
            Ok((chain, (found, end))) => {
                let read = (LogSummary { bytes, payloads, ..found }, end);
                let recovered = RecoveredLog::new(database, from, directory, listing, chain, read);
                return Ok(RecoveredLog { replay_us: micros(env.clock.now().saturating_sub(begun)), ..recovered });
            }
            // As in `inspect_from`.
            Err(error) if refused || attempt == ATTEMPTS || before == (reached, numbers(&directory.list()?)) => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
    unreachable!("the last attempt returns")
}

/// The numbers of the segments.
fn numbers(listing: &Listing) -> Vec<u64> {
    listing.segments.iter().map(|(number, _)| *number).collect()
}

/// Reads what there is of a log, and shows every whole payload that ends after `from` to `visit`, in order. Nothing is
/// changed or synced, so what is shown need not be durable; segments may be missing at the beginning. Another process
/// may write the log and release segments during the call: the log then ends where it ended at some moment of the call.
///
/// # Errors
/// As for [`recover`], except that any database will do.
pub fn inspect(env: &Env, directory: &Path, from: Lsn, visit: &mut Visit<'_>) -> Result<LogSummary> {
    inspect_from(env, directory, from, false, visit)
}

/// As [`inspect`], of what follows `position`, where a payload ends that an earlier reading showed. Nothing before it
/// is read.
///
/// # Errors
/// As for [`inspect`]; `Gone` when what follows was given up.
pub fn inspect_on(env: &Env, directory: &Path, position: Lsn, visit: &mut Visit<'_>) -> Result<LogSummary> {
    inspect_from(env, directory, position, true, visit)
}

fn inspect_from(env: &Env, directory: &Path, from: Lsn, goes_on: bool, visit: &mut Visit<'_>) -> Result<LogSummary> {
    let directory = Directory { env: env.clone(), path: directory.to_owned() };
    let (mut reached, mut refused) = (from, false);
    let mut summary = LogSummary::default();
    for attempt in 1.. {
        let listing = directory.list()?;
        let before = (reached, numbers(&listing));
        let outcome = chain::find(&directory, &listing, None, goes_on.then_some(reached), false).and_then(|chain| {
            // A salvage may have cut the log off where the reading was, or another log may be here now.
            if goes_on && chain.log.last().is_some_and(|found| found.header.end() < reached) {
                let message = format!("the redo log has no position {reached} any more: it ends before it");
                return Err(Error::new(ErrorKind::Gone, message));
            }
            let reader = if goes_on { LogReader::resumed } else { LogReader::new };
            read(reader(&chain.log, reached), &mut |start, end, payload| {
                let shown = visit(start, end, payload);
                refused = shown.is_err();
                if !refused {
                    reached = end;
                    summary.bytes += u64_of(payload.len());
                    summary.payloads += 1;
                }
                shown
            })
        });
        match outcome {
            Ok((found, _)) => return Ok(LogSummary { bytes: summary.bytes, payloads: summary.payloads, ..found }),
            // What was read while it was being written looks like damage once; damage stays where it is.
            Err(error) if refused || attempt == ATTEMPTS || before == (reached, numbers(&directory.list()?)) => {
                let is_there = |path: &Path| listing.segments.iter().any(|(_, segment)| segment == path);
                return Err(match error.place() {
                    Some((path, _)) if goes_on && !is_there(path) => {
                        let message = format!("the redo log behind position {reached} was given up before it was read");
                        Error::new(ErrorKind::Gone, message)
                    }
                    _ => error,
                });
            }
            Err(_) => {}
        }
    }
    Ok(summary)
}

/// Bytes of the segments in `directory` that hold nothing behind `from`: what is kept for readers to come. Only headers
/// are read.
///
/// # Errors
/// `Corruption` when a segment is missing or damaged that a recovery needs; `Unsupported`, `Io`.
pub fn history_bytes(env: &Env, directory: &Path, from: Lsn) -> Result<u64> {
    let directory = Directory { env: env.clone(), path: directory.to_owned() };
    let chain = chain::find(&directory, &directory.list()?, None, Some(from), false)?;
    Ok(chain.older.iter().map(|segment| segment.bytes).sum())
}

/// Reads a log; tells what was found and where its last fragment ends.
fn read(mut reader: LogReader<'_>, visit: &mut Visit<'_>) -> Result<(LogSummary, Lsn)> {
    reader.read(visit)?;
    Ok((reader.summary, reader.fragment_end))
}
