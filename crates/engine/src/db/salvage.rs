//! Salvage: going on with a database whose redo log is damaged, and saying what is lost.
//!
//! # Recovery
//! The manifest and the trees are left as they are. A table whose trees hold commits from behind the damage (they were flushed before
//! it came about) keeps these: it is then ahead of the others. That breaks nothing that an open relies on:
//! * its replay position, and the position from which the log is needed, may lie behind the kept end of the log, but before the
//!   segment that seals it, and so before all that will be written;
//! * the manifest's floor for seqnums was raised above the commits in the trees when they were flushed.
//!
//! But a commit that changed several tables may be there in some and not in others, which the report says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::base::{Error, Lsn, Result, TableId};
use crate::env::Env;
use crate::log::{Damaged, Wanted, examine};
use crate::table::catalog::Catalog;
use crate::table::manifest::Manifest;
use crate::txn::batch::Record;

use super::log::read_record;
use super::log_place::LogPlace;
use super::open::{lock_file, sync_all};
use super::options::Options;

/// What a salvage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SalvageMode {
    /// It says what would be lost, and changes nothing.
    Report,
    /// It cuts the log at the damage.
    Repair,
}

/// What a salvage found and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SalvageReport {
    /// The damaged or missing file.
    pub file: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub damage: String,
    /// The log is kept up to this position.
    pub end: Lsn,
    /// The log was known to be durable up to this position.
    pub durable: Lsn,
    /// Commits that are kept in the log. (Those before them are in the trees.)
    pub kept_commits: u64,
    /// Commits behind the damage that can still be read; they are given up.
    pub lost_commits: u64,
    /// The changes in these, table by table.
    pub lost: Vec<TableLoss>,
    /// Bytes of the log behind the damage that cannot be read, and may have held commits.
    pub unreadable_bytes: u64,
    /// Tables whose trees hold commits from behind the damage: they are ahead of the other tables.
    pub ahead: Vec<TableAhead>,
    /// Where the files are kept that lost something; empty when nothing was changed.
    pub kept_files: Vec<PathBuf>,
}

/// What a table loses of commits that can still be read. A table that was dropped loses nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableLoss {
    /// The table.
    pub table: TableId,
    /// Its name.
    pub name: String,
    /// Changes given up.
    pub changes: u64,
}

/// A table that is ahead of the kept log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableAhead {
    /// Its name.
    pub name: String,
    /// All its changes before this position are kept.
    pub position: Lsn,
}

/// Salvages the log of the database in `path`.
pub(crate) fn salvage(env: &Env, path: &Path, mode: SalvageMode) -> Result<SalvageReport> {
    let dir = env.fs.absolute(path).map_err(|error| Error::io("find", path, error))?;
    let no_database = || Error::invalid(format!("{}: there is no database here", dir.display()));
    if Manifest::load(env, &dir)?.is_none() {
        return Err(no_database());
    }
    let _lock = lock_file(env, &dir)?;
    let entries = env.fs.list(&dir).map_err(|error| Error::io("list", &dir, error))?;
    sync_all(env, &dir, &entries)?;
    let (catalog, _) = Manifest::load(env, &dir)?.ok_or_else(no_database)?;
    let place = LogPlace::find(env, &dir, &Options::default(), &catalog)?;
    let log = place.dir.clone();
    env.fs.create_dir_all(&log).map_err(|error| Error::io("create directory", &log, error))?;
    let Some((damaged, mut report)) = examine_log(env, &log, &catalog, true, &mut |_, _| Ok(()))? else {
        let message = format!("{}: there is nothing to salvage: the redo log is sound", dir.display());
        return Err(Error::invalid(message));
    };
    if mode == SalvageMode::Repair {
        report.kept_files = damaged.repair()?;
    }
    Ok(report)
}

/// Looks for damage in the log of a database, in the directory `log`, and shows the commits before it to `kept`, with the positions of
/// their records. Nothing is shown when there is none. Changes nothing.
pub(super) fn examine_log(
    env: &Env,
    log: &Path,
    catalog: &Catalog,
    writable: bool,
    kept: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
) -> Result<Option<(Damaged, SalvageReport)>> {
    let wanted = Wanted {
        directory: log,
        database: catalog.database_id,
        from: catalog.log_from,
        durable: catalog.log_durable(),
        highest: catalog.tables.values().map(|table| table.replay_from).max().unwrap_or_default(),
        writable,
    };
    let (mut kept_commits, mut lost) = (0, Lost::new(catalog));
    let check = |start, payload: &[u8]| read_record(log, start, payload, |_, _| Ok(())).map(drop);
    let found = examine(
        env,
        wanted,
        &mut |start, _, payload| check(start, payload),
        &mut |start, _, payload| {
            check(start, payload)?;
            kept_commits += 1;
            kept(start, payload)
        },
        &mut |start, _, payload| {
            lost.add(start, payload);
            Ok(())
        },
    )?;
    let Some(found) = found else { return Ok(None) };
    let (file, offset) = found.error.place().unwrap_or((log, 0));
    let report = SalvageReport {
        file: file.to_owned(),
        offset,
        damage: found.error.to_string(),
        end: found.end,
        durable: found.durable,
        kept_commits,
        lost_commits: lost.commits,
        lost: lost.tables(),
        unreadable_bytes: found.unreadable_bytes + lost.malformed_bytes,
        ahead: ahead(catalog, found.end),
        kept_files: Vec::new(),
    };
    Ok(Some((found, report)))
}

/// The tables with data that were flushed behind `end`.
fn ahead(catalog: &Catalog, end: Lsn) -> Vec<TableAhead> {
    let ahead = catalog.tables.values().filter(|table| table.replay_from > end && table.has_data());
    ahead.map(|table| TableAhead { name: table.name.clone(), position: table.replay_from }).collect()
}

/// What is given up.
struct Lost<'a> {
    catalog: &'a Catalog,
    commits: u64,
    /// Changes of each table.
    changes: BTreeMap<TableId, u64>,
    malformed_bytes: u64,
}

impl<'a> Lost<'a> {
    fn new(catalog: &'a Catalog) -> Self {
        Self { catalog, commits: 0, changes: BTreeMap::new(), malformed_bytes: 0 }
    }

    /// Counts the changes of a commit that are not in the trees.
    fn add(&mut self, start: Lsn, payload: &[u8]) {
        let mut changes = Vec::new();
        let decoded = Record::decode(payload).map_err(|_| ()).and_then(|record| {
            record.for_each(
                || (),
                |_, change| {
                    let table = self.catalog.tables.get(&change.table);
                    if table.is_some_and(|table| start >= table.replay_from) {
                        changes.push(change.table);
                    }
                    Ok(())
                },
            )
        });
        if decoded.is_err() {
            self.malformed_bytes += crate::base::num::u64_of(payload.len());
        } else if !changes.is_empty() {
            self.commits += 1;
            changes.into_iter().for_each(|table| *self.changes.entry(table).or_default() += 1);
        }
    }

    fn tables(&self) -> Vec<TableLoss> {
        let loss = |(table, changes): (&TableId, &u64)| {
            let name = self.catalog.tables.get(table)?.name.clone();
            Some(TableLoss { table: *table, name, changes: *changes })
        };
        self.changes.iter().filter_map(loss).collect()
    }
}
