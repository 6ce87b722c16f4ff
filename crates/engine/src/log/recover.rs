//! Opening a log: what it holds, and what the next writer needs to know.

use super::chain::{self, Chain};
use super::format::{SECTOR, sector_up};
use super::reader::LogReader;
use super::segment::{Directory, Listing, Spare};
use super::writer::Live;
use crate::base::{Lsn, Result};
use crate::env::Env;
use std::path::{Path, PathBuf};

/// How many positions are left out between what a recovery finds and what is written after it. Positions that were handed out but
/// never reached a file lie in between, so none is handed out twice.
const GAP_BYTES: u64 = 1 << 30;

/// Is shown each payload: where its first record begins, the position after it, and its bytes.
pub type Visit<'a> = dyn FnMut(Lsn, Lsn, &[u8]) -> Result<()> + 'a;

/// A log as it was found; [`LogWriter::open`](super::LogWriter::open) goes on from there.
#[derive(Debug)]
pub struct RecoveredLog {
    pub(super) database: u64,
    pub(super) end: Lsn,
    /// The number of the segment that `end` lies in.
    pub(super) end_segment: u64,
    closed: bool,
    pub(super) bytes_replayed: u64,
    payloads: u64,
    /// The segments to go on with, oldest first.
    pub(super) live: Vec<Live>,
    /// Segments that do not count any more once the next one seals the log.
    pub(super) orphans: Vec<PathBuf>,
    pub(super) spares: Vec<Spare>,
    pub(super) unfinished: Vec<PathBuf>,
    pub(super) next_number: u64,
    pub(super) next_first: Lsn,
    pub(super) next_spare: u64,
}

impl RecoveredLog {
    /// The position after the last whole payload; zero for a log that never had one.
    #[must_use]
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Whether the log was closed, rather than ended by a crash.
    #[must_use]
    pub fn was_closed(&self) -> bool {
        self.closed
    }

    /// Bytes of the payloads shown.
    #[must_use]
    pub fn bytes_replayed(&self) -> u64 {
        self.bytes_replayed
    }

    /// How many payloads were shown.
    #[must_use]
    pub fn payloads_replayed(&self) -> u64 {
        self.payloads
    }
}

/// Reads the log in `directory` of the database with identity `database`, and shows every payload that ends after `from` to `visit`, in
/// order. Whatever is shown is durable. Changes nothing, so it may be repeated; an empty directory is an empty log.
///
/// # Errors
/// `Corruption` naming file and offset when something is missing or damaged that had been durable (damage after that is the end of the
/// log); `Unsupported` for a newer format; `Invalid` for a segment of another database; `Io` when reading fails; what `visit` returns.
pub fn recover(env: &Env, directory: &Path, database: u64, from: Lsn, visit: &mut Visit<'_>) -> Result<RecoveredLog> {
    let directory = Directory { env: env.clone(), path: directory.to_owned() };
    let listing = directory.list()?;
    let chain = chain::find(&directory, &listing, Some(database), Some(from), true)?;
    read(database, listing, chain, from, visit)
}

/// Reads what there is of a log that nobody writes, and shows every whole payload to `visit`, in order. Nothing is changed or synced, so
/// what is shown need not be durable; segments may be missing at the beginning.
///
/// # Errors
/// As for [`recover`].
pub fn inspect(env: &Env, directory: &Path, visit: &mut Visit<'_>) -> Result<RecoveredLog> {
    let directory = Directory { env: env.clone(), path: directory.to_owned() };
    let listing = directory.list()?;
    let chain = chain::find(&directory, &listing, None, None, false)?;
    let database = chain.log.last().map_or(0, |found| found.header.database);
    read(database, listing, chain, Lsn(0), visit)
}

fn read(database: u64, listing: Listing, chain: Chain, from: Lsn, visit: &mut Visit<'_>) -> Result<RecoveredLog> {
    let mut reader = LogReader::new(&chain.log, from);
    reader.read(visit)?;
    let summary = reader.summary;
    // Segments behind the end hold nothing that counts.
    let counts = |number: u64| number <= summary.end_segment;
    let (kept, dropped): (Vec<_>, Vec<_>) = chain.log.into_iter().partition(|found| counts(found.header.number));
    let mut orphans = chain.orphans;
    orphans.extend(dropped.into_iter().map(|found| found.path));
    let mut live = chain.older;
    live.extend(kept.into_iter().map(|found| Live { header: found.header, path: found.path }));
    let seen = chain.positions_end.max(from);
    Ok(RecoveredLog {
        database,
        end: summary.end,
        end_segment: summary.end_segment,
        closed: summary.closed,
        bytes_replayed: summary.bytes,
        payloads: summary.payloads,
        live,
        orphans,
        spares: listing.spares,
        unfinished: listing.unfinished,
        next_number: chain.next_number,
        next_first: if seen == Lsn(0) { Lsn(SECTOR) } else { sector_up(seen.plus(GAP_BYTES)) },
        next_spare: listing.next_spare,
    })
}
