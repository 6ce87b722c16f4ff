//! Reading the redo log of a database, without opening the database or changing anything.

use std::path::{Path, PathBuf};

use crate::base::{Error, Kind, Lsn, Result, SeqNum, TableId};
use crate::env::Env;
use crate::log::{history_bytes, inspect, inspect_on};
use crate::table::catalog::Catalog;
use crate::table::files;
use crate::table::manifest::Manifest;
use crate::txn::batch::{Change, Record};

/// One change in the redo log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// The key. Of a range tombstone the first one of the range; empty when that begins before all keys.
    pub key: &'a [u8],
    /// The value of a put, the operand of a merge, the key behind the last one of a range tombstone or nothing when
    /// that goes on to the last key; empty for a delete.
    pub value: &'a [u8],
}

/// Calls `visit` with every change in the redo log of the database in `path` that a recovery would look at, of the
/// commits that end after `from`, oldest first. The database may be open meanwhile: the log then ends where it ended at
/// some moment of the reading.
///
/// # Errors
/// `Invalid` when there is no database or `from` is behind the end of the log, `Corruption` naming segment and offset,
/// `Io`, and whatever `visit` says.
pub fn read_log(path: impl AsRef<Path>, from: Lsn, visit: &mut dyn FnMut(LogEntry<'_>) -> Result<()>) -> Result<()> {
    LogFollower::new(path, from).read(visit)
}

/// Bytes of the redo log of the database in `path` that no recovery needs: an open with the default
/// [`log_keep_bytes`](crate::Options::log_keep_bytes) gives them up. Nothing but the manifest and headers is read.
///
/// # Errors
/// `Invalid` when there is no database; `Corruption`, `Unsupported`, `Io`.
pub fn kept_log_bytes(path: impl AsRef<Path>) -> Result<u64> {
    let follower = LogFollower::new(path, Lsn(0));
    let catalog = follower.catalog()?;
    history_bytes(&follower.env, &catalog.log_dir(&follower.dir), catalog.log_from)
}

/// Reads the redo log of a database as [`read_log`] does, and then what comes to it: of a database that another process
/// has open. (In the process that has it open, [`Database::changes`](crate::Database::changes) shows only what is
/// durable, and waits for it.) It keeps nothing from being given up.
#[derive(Debug)]
pub struct LogFollower {
    env: Env,
    dir: PathBuf,
    /// Everything that ends at or before it was shown, or is not wanted.
    position: Lsn,
    /// Whether a commit ends at the position, because it was shown.
    begun: bool,
}

impl LogFollower {
    /// Of the database in `path`, what ends after `from`.
    pub fn new(path: impl AsRef<Path>, from: Lsn) -> Self {
        Self::with_env(Env::os(), path.as_ref(), from)
    }

    pub(crate) fn with_env(env: Env, path: &Path, from: Lsn) -> Self {
        Self { env, dir: path.to_owned(), position: from, begun: false }
    }

    /// Calls `visit` with every change that has come since the last call.
    ///
    /// # Errors
    /// As [`read_log`]; `Gone` when what comes next was given up before it was read; `Invalid` when reading begins
    /// behind the end of the log.
    pub fn read(&mut self, visit: &mut dyn FnMut(LogEntry<'_>) -> Result<()>) -> Result<()> {
        let catalog = self.catalog()?;
        let log = catalog.log_dir(&self.dir);
        let (from, begun) = (self.position, self.begun);
        let read = if begun { inspect_on } else { inspect };
        let mut show = |start, end, payload: &[u8]| {
            read_record(&log, start, payload, |seqnum, change| {
                let table_name = catalog.tables.get(&change.table).map(|table| table.name.as_str());
                let (kind, key, value) = (change.kind, change.key, change.value);
                visit(LogEntry { lsn: start, seqnum, table: change.table, table_name, kind, key, value })
            })?;
            (self.position, self.begun) = (end, true);
            Ok(())
        };
        let summary = read(&self.env, &log, from, &mut show)?;
        if !begun && from > summary.end.max(catalog.log_from) {
            return Err(Error::invalid(format!("position {from} is behind the end of the redo log, {}", summary.end)));
        }
        Ok(())
    }

    /// The names of the tables that the database has now.
    ///
    /// # Errors
    /// `Invalid` when there is no database; `Corruption`, `Io`.
    pub fn tables(&self) -> Result<Vec<String>> {
        Ok(self.catalog()?.tables.into_values().map(|table| table.name).collect())
    }

    fn catalog(&self) -> Result<Catalog> {
        let loaded = Manifest::load(&self.env, &self.dir)?;
        loaded.map(|(catalog, _)| catalog).ok_or_else(|| files::no_database(&self.dir))
    }
}

/// Calls `visit` with every change of the commit whose record stands at `start` of the log in `log`; gives the seqnum
/// after its last.
pub(crate) fn read_record<'a>(
    log: &Path,
    start: Lsn,
    payload: &'a [u8],
    visit: impl FnMut(SeqNum, Change<'a>) -> Result<()>,
) -> Result<SeqNum> {
    let malformed = || Error::corruption(log, start.0, "a log record passes its checksum but makes no sense");
    let record = Record::decode(payload).map_err(|_| malformed())?;
    let next = record.next().min(SeqNum::MAX);
    record.for_each(malformed, visit)?;
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ErrorKind;
    use crate::env::sim::SimEnv;
    use crate::{Batch, Database, Durability, Options, TableOptions};

    fn open(sim: &SimEnv) -> Database {
        let options = Options {
            memory_bytes: 8 << 20,
            log_segment_bytes: 64 << 10,
            // So much that nothing is flushed but by the tests.
            log_bytes_max: 4 << 20,
            ..Options::default()
        };
        Database::builder("/db").env(sim.env()).options(options).open().unwrap()
    }

    fn put(db: &Database, number: u64, bytes: usize) {
        let table = db.table("t").unwrap().unwrap_or_else(|| db.create_table("t", TableOptions::default()).unwrap());
        let mut batch = Batch::new();
        batch.put(&table, number.to_be_bytes(), vec![7; bytes]);
        db.write_with(&batch, Durability::Sync).unwrap();
    }

    fn flush(db: &Database) {
        db.table("t").unwrap().unwrap().flush().unwrap();
    }

    /// The numbers that have come since the last look.
    fn numbers(follower: &mut LogFollower) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        follower.read(&mut |entry| {
            assert_eq!(entry.table_name, Some("t"));
            numbers.push(u64::from_be_bytes(entry.key.try_into().unwrap()));
            Ok(())
        })?;
        Ok(numbers)
    }

    #[test]
    fn a_follower_shows_each_change_once_across_segments_flushes_and_opens() {
        let sim = SimEnv::new(1);
        let mut db = open(&sim);
        let mut follower = LogFollower::with_env(sim.env(), "/db".as_ref(), Lsn(0));
        let mut shown = numbers(&mut follower).unwrap();
        for number in 0..300 {
            put(&db, number, [10, 30_000, 0, 4_000][usize::try_from(number % 4).unwrap()]);
            let flushes = number % 20 == 19;
            if flushes || number % 3 == 0 {
                shown.extend(numbers(&mut follower).unwrap());
                assert_eq!(shown.last(), Some(&number));
            }
            if flushes {
                flush(&db);
            }
            if number % 50 == 0 {
                db.close().unwrap();
                db = open(&sim);
            }
        }
        shown.extend(numbers(&mut follower).unwrap());
        assert_eq!(shown, (0..300).collect::<Vec<_>>());
        assert!(numbers(&mut follower).unwrap().is_empty());
    }

    #[test]
    fn a_follower_that_is_too_slow_is_told_so() {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        put(&db, 0, 10);
        let mut follower = LogFollower::with_env(sim.env(), "/db".as_ref(), Lsn(0));
        assert_eq!(numbers(&mut follower).unwrap(), [0]);
        (1..40).for_each(|number| put(&db, number, 20_000));
        flush(&db);
        let error = numbers(&mut follower).unwrap_err();
        assert!(error.kind() == ErrorKind::Gone && error.to_string().contains("given up"), "{error}");
    }

    #[test]
    fn short_sessions_leave_little_log_behind() {
        let sim = SimEnv::new(1);
        let open = || Database::builder("/db").env(sim.env()).open().unwrap();
        for number in 0..60 {
            let db = open();
            put(&db, number * 100, 10);
            db.close().unwrap();
        }
        let files = sim.env().fs.list("/db/log".as_ref()).unwrap();
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        assert!(bytes <= 24 << 20, "{} MiB in {} files", bytes >> 20, files.len());
        let db = open();
        let (table, snapshot) = (db.table("t").unwrap().unwrap(), db.snapshot());
        assert_eq!(snapshot.range(&table, ..).count(), 60);
    }
}
