//! Reading the redo log of a database, without opening the database or changing anything.

use std::path::Path;

use crate::base::{Error, Kind, Lsn, Result, SeqNum, TableId};
use crate::env::Env;
use crate::log::inspect;
use crate::table::manifest::Manifest;
use crate::txn::batch::{Change, Record};

/// One change in the redo log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// Where the commit's record stands.
    pub lsn: Lsn,
    /// The change's place in the order of visibility.
    pub seqnum: SeqNum,
    /// Whose key.
    pub table: TableId,
    /// The table's name, unless it was dropped.
    pub table_name: Option<&'a str>,
    /// What becomes of the key.
    pub kind: Kind,
    /// The key.
    pub key: &'a [u8],
    /// The value of a put, the operand of a merge; empty for a delete.
    pub value: &'a [u8],
}

/// Calls `visit` with every change in the redo log of the database in `path` that a recovery would look at, of the commits that end
/// after `from`, oldest first. The database may be open meanwhile: the log then ends where it ended at some moment of the reading.
///
/// # Errors
/// `Invalid` when there is no database, `Corruption` naming segment and offset, `Io`, and whatever `visit` says.
pub fn read_log(path: impl AsRef<Path>, from: Lsn, visit: &mut dyn FnMut(LogEntry<'_>) -> Result<()>) -> Result<()> {
    let (env, dir) = (Env::os(), path.as_ref());
    let Some((catalog, _)) = Manifest::load(&env, dir)? else {
        return Err(Error::invalid(format!("{}: there is no database here", dir.display())));
    };
    let log = catalog.log_dir(dir);
    inspect(&env, &log, from, &mut |start, _, payload| {
        read_record(&log, start, payload, |seqnum, change| {
            let table_name = catalog.tables.get(&change.table).map(|table| table.name.as_str());
            let (kind, key, value) = (change.kind, change.key, change.value);
            visit(LogEntry { lsn: start, seqnum, table: change.table, table_name, kind, key, value })
        })
        .map(drop)
    })
    .map(drop)
}

/// Calls `visit` with every change of the commit whose record stands at `start` of the log in `log`; gives the seqnum after its last.
pub(super) fn read_record<'a>(
    log: &Path,
    start: Lsn,
    payload: &'a [u8],
    visit: impl FnMut(SeqNum, Change<'a>) -> Result<()>,
) -> Result<SeqNum> {
    let malformed = || Error::corruption(log, start.0, "a log record passes its checksum but makes no sense");
    let record = Record::decode(payload).map_err(|_| malformed())?;
    let next = SeqNum(record.first.0 + record.count).min(SeqNum::MAX);
    record.for_each(malformed, visit)?;
    Ok(next)
}
