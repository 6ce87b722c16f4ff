//! What of the replicated log is found when a database is opened.

use std::sync::Arc;

use spinney::base::num::u64_of;
use spinney::{ChangeFeed, Database, Error, ErrorKind, Lsn, Result};

use super::cached_entries::CachedEntries;
use super::points::{Known, Points};
use super::rows::Rows;
use crate::entry::log_entry::{LogEntry, LogId, decode_note};

/// The replicated log as the redo log holds it.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The last entry that is not there.
    pub(crate) purged: Option<LogId>,
    /// The last entry.
    pub(crate) last: Option<LogId>,
    pub(crate) points: Points,
    /// The newest entries.
    pub(crate) cached: CachedEntries,
    /// Keeps the redo log from where it was read.
    pub(crate) pin: ChangeFeed,
}

/// Reads the notes of the redo log, from where [`Known`] was stored. The newest entries, up to `cache_bytes`, stay in
/// memory.
///
/// # Errors
/// Those of the engine; `Corruption` when entries are missing that were not applied.
pub(crate) fn recover(rows: &Rows, cache_bytes: usize) -> Result<Recovered> {
    let engine = rows.engine();
    let (applied, appended) = (rows.applied()?, rows.appended()?);
    let (mut purged, from) = match rows.purged()? {
        Some((id, from)) => (Some(id), from),
        // What is before is of the member of whose directory the database is a copy.
        None => (None, rows.copied()?.unwrap_or_else(|| engine.log_start())),
    };
    let (pin, from) = pinned(engine, from)?;
    let known = known(rows, purged, from)?;
    let is_known = known.is_some();
    let (mut first, mut cached) = (None, CachedEntries::default());
    let (mut points, mut last, mut lsn) = match known {
        Some(Known { at, last, points }) => {
            // Further back when the cache has room for more entries than are behind.
            let is_enough = |lsn| engine.log_bytes_after(lsn) >= u64_of(cache_bytes);
            let from = if is_enough(at) { at } else { points.last_where(is_enough).map_or(from, |point| point.lsn) };
            (points, purged.max(Some(last)), from)
        }
        None => (Points::default(), purged, from),
    };
    for commit in engine.changes(lsn)? {
        let commit = commit?;
        let entries = decode_note(commit.note()).map_err(|_| malformed(commit.lsn))?;
        let entries: Vec<LogEntry> =
            entries.into_iter().filter(|entry| purged.is_none_or(|purged| entry.id.index > purged.index)).collect();
        if let (Some(lowest), Some(newest)) =
            (entries.iter().map(|entry| entry.id).min_by_key(|id| id.index), entries.last())
        {
            if first.is_none_or(|first: LogId| lowest.index <= first.index) {
                first = Some(lowest);
            }
            last = Some(newest.id);
            points.add(lowest.index, lsn, entries.iter().map(LogEntry::bytes).sum());
            entries.into_iter().for_each(|entry| cached.push(Arc::new(entry)));
            cached.evict(cache_bytes, u64::MAX);
        }
        lsn = commit.end;
    }
    let begins = purged.map_or(0, |purged| purged.index + 1);
    if is_known {
        // Entries are there from the first on that was not given up.
    } else if let Some(first) = first.filter(|first| first.index > begins) {
        // The redo log was not kept so far back: its first entry is given up, since what is before it is not known.
        purged = Some(first);
        cached.purge(first.index + 1);
    } else if first.is_none() && appended.is_some() && appended > purged {
        // There are no entries.
        (purged, last) = (applied, applied);
    }
    let lost = appended > last || purged.is_some_and(|purged| applied.is_none_or(|applied| applied < purged));
    if lost {
        let message = "the redo log does not reach back to the entries of the replicated log that were not applied";
        return Err(Error::new(ErrorKind::Corruption, message));
    }
    Ok(Recovered { purged, last, points, cached, pin })
}

/// What was known of the log a while ago, where that is still all of it up to then: the first entry that was not given
/// up is found, and the redo log is kept `from` there on.
fn known(rows: &Rows, purged: Option<LogId>, from: Lsn) -> Result<Option<Known>> {
    let Some(mut known) = rows.known()? else { return Ok(None) };
    let begins = purged.map_or(0, |purged| purged.index + 1);
    known.points.purge(begins);
    let is_whole = known.points.first().is_some_and(|first| first.index <= begins && first.lsn >= from);
    let is_past = from <= known.at && known.at <= rows.engine().log_end();
    Ok(Some(known).filter(|_| is_whole && is_past))
}

/// Keeps the redo log from a position on, or what there is of it behind the position. The engine, which flushes in the
/// background what it recovered, may give log up at any moment before.
fn pinned(engine: &Database, mut from: Lsn) -> Result<(ChangeFeed, Lsn)> {
    loop {
        match engine.changes(from) {
            Err(error) if error.kind() == ErrorKind::Gone && engine.log_start() > from => from = engine.log_start(),
            feed => return Ok((feed?, from)),
        }
    }
}

pub(super) fn malformed(lsn: Lsn) -> Error {
    Error::new(ErrorKind::Corruption, format!("the entries at position {lsn} of the redo log make no sense"))
}
