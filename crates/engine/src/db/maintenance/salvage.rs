//! Salvage: going on with a database whose redo log or manifest is damaged, and saying what is lost.
//!
//! # Recovery
//! A manifest that is damaged, and whose copy is not, is written anew before the log is looked at: it says the same.
//! The trees are left as they are. A table whose trees hold commits from behind the damage (they were flushed before it
//! came about) keeps these: it is then ahead of the others. That breaks nothing that an open relies on:
//! * its replay position, and the position from which the log is needed, may lie behind the kept end of the log, but
//!   before the segment that seals it, and so before all that will be written;
//! * the manifest's floor for seqnums was raised above the commits in the trees when they were flushed.
//!
//! But a commit that changed several tables may be there in some and not in others, which the report says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::base::{Error, ErrorKind, FileId, Lsn, Result, TableId};
use crate::db::state::directory::{lock_file, sync_all};
use crate::db::state::log_dir::LogDir;
use crate::db::state::options::Options;
use crate::env::{DirEntry, Env};
use crate::log::{Damaged, Wanted, examine, recover};
use crate::table::catalog::Catalog;
use crate::table::files;
use crate::table::manifest::{LoadedManifest, Manifest, ManifestDamage};
use crate::txn::batch::Record;

use super::log_reader::read_record;

/// What a salvage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SalvageMode {
    /// It says what would be lost, and changes nothing.
    Report,
    /// It cuts the log at the damage.
    Repair,
}

/// What a salvage found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
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
    /// Bytes of the log behind the damage that cannot be read, and may have held commits; `None` when files of the log
    /// are missing or cut off, so that nobody can tell how many they were.
    pub unreadable_bytes: Option<u64>,
    /// Tables whose trees hold commits from behind the damage: they are ahead of the other tables.
    pub ahead: Vec<TableAhead>,
    /// Where the files are kept that lost something or got a new header; empty when nothing was changed.
    pub kept_files: Vec<PathBuf>,
    /// What is wrong with the manifest, or with the file that names it, and was read from another file: nothing is lost
    /// by that. A repair writes a new one.
    pub manifest: Option<String>,
}

impl SalvageReport {
    /// Whether nothing is lost: all that was damaged is known from elsewhere.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lost_commits == 0 && self.unreadable_bytes == Some(0)
    }
}

/// What a table loses of commits that can still be read. A table that was dropped loses nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TableLoss {
    /// The table.
    pub table: TableId,
    /// Its name.
    pub name: String,
    /// Changes given up.
    pub changes: u64,
    /// The keys of these changes in their order, each once, the first thousand. A range delete has none.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub keys: Vec<Vec<u8>>,
}

/// A table that is ahead of the kept log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TableAhead {
    /// Its name.
    pub name: String,
    /// All its changes before this position are kept.
    pub position: Lsn,
}

/// Salvages the log of the database in `path`.
pub(crate) fn salvage(env: &Env, path: &Path, mode: SalvageMode) -> Result<SalvageReport> {
    let dir = env.fs.absolute(path).map_err(|error| Error::io("find", path, error))?;
    let no_database = || files::no_database(&dir);
    load(env, &dir)?.ok_or_else(no_database)?;
    let _lock = lock_file(env, &dir)?;
    let entries = env.fs.list(&dir).map_err(|error| Error::io("list", &dir, error))?;
    sync_all(env, &dir, &entries)?;
    let (catalog, mended) = load(env, &dir)?.ok_or_else(no_database)?;
    let place = LogDir::find(env, &dir, &Options::default(), &catalog)?;
    let log = place.path.clone();
    env.fs.create_dir_all(&log).map_err(|error| Error::io("create directory", &log, error))?;
    let (damaged, mut report) = match examine_log(env, &log, &catalog, true, &mut |_, _| Ok(()))? {
        Some((damaged, report)) => (Some(damaged), report),
        None => (None, sound_log(env, &dir, &log, &catalog, mended.as_ref())?),
    };
    report.manifest = mended.as_ref().map(Error::to_string);
    if mode == SalvageMode::Repair {
        if mended.is_some() {
            rewrite_manifest(env, &dir, catalog, &entries)?;
        }
        report.kept_files = damaged.map_or(Ok(Vec::new()), Damaged::repair)?;
    }
    Ok(report)
}

/// The catalog, and what is wrong with the manifest if other files told the same.
fn load(env: &Env, dir: &Path) -> Result<Option<(Catalog, Option<Error>)>> {
    let advise = |error: Error| match error.kind() {
        ErrorKind::Corruption => error.advice(format_args!(
            "this cannot be mended in place: spinney salvage {} OUT copies what can be read",
            dir.display()
        )),
        _ => error,
    };
    let Some(LoadedManifest { catalog, damage, .. }) = Manifest::load_damaged(env, dir).map_err(advise)? else {
        return Ok(None);
    };
    match damage {
        Some(ManifestDamage { error, is_mended: false }) => Err(advise(error)),
        mended => Ok(Some((catalog, mended.map(|damage| damage.error)))),
    }
}

/// What there is to say of a database whose log is sound, and whose manifest `mended` is not.
fn sound_log(env: &Env, dir: &Path, log: &Path, catalog: &Catalog, mended: Option<&Error>) -> Result<SalvageReport> {
    let Some(error) = mended else {
        let dir = dir.display();
        return Err(Error::invalid(format!(
            "{dir}: there is nothing to salvage in place: the manifest and the redo log are sound. This does not read the tables: \
             spinney verify {dir} does and, if one is damaged, spinney salvage {dir} OUT copies what can be read"
        )));
    };
    let mut kept_commits = 0;
    let recovered = recover(env, log, catalog.database_id, catalog.log_from, &mut |_, _, _| {
        kept_commits += 1;
        Ok(())
    })?;
    let (file, offset) = error.place().unwrap_or((dir, 0));
    let end = recovered.summary().end;
    Ok(SalvageReport {
        file: file.to_owned(),
        offset,
        damage: error.to_string(),
        end,
        durable: end,
        kept_commits,
        lost_commits: 0,
        lost: Vec::new(),
        unreadable_bytes: Some(0),
        ahead: Vec::new(),
        kept_files: Vec::new(),
        manifest: None,
    })
}

/// Puts a manifest in force that says what `catalog` does.
fn rewrite_manifest(env: &Env, dir: &Path, mut catalog: Catalog, entries: &[DirEntry]) -> Result<()> {
    let highest = entries.iter().filter_map(|entry| files::parse(&entry.name)).map(|(_, id)| id.0).max();
    let id = FileId(catalog.next_file.0.max(highest.map_or(0, |highest| highest + 1)));
    catalog.next_file = FileId(id.0 + 1);
    Manifest::create(env, dir, id, &catalog).map(drop)
}

/// Looks for damage in the log of a database, in the directory `log`, and shows the commits before it to `kept`, with
/// the positions of their records. Nothing is shown when there is none. Changes nothing.
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
        unreadable_bytes: found.unreadable_bytes.map(|bytes| bytes + lost.malformed_bytes),
        ahead: ahead(catalog, found.end),
        kept_files: Vec::new(),
        manifest: None,
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
    /// Changes of each table, and their first keys.
    changes: BTreeMap<TableId, (u64, BTreeSet<Vec<u8>>)>,
    malformed_bytes: u64,
}

/// The most keys of a table that a report names.
const KEYS_MAX: usize = 1000;

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
                        changes.push((change.table, change.range().is_none().then(|| change.key.to_vec())));
                    }
                    Ok(())
                },
            )
        });
        if decoded.is_err() {
            self.malformed_bytes += crate::base::num::u64_of(payload.len());
        } else if !changes.is_empty() {
            self.commits += 1;
            for (table, key) in changes {
                let (count, keys) = self.changes.entry(table).or_default();
                *count += 1;
                if keys.len() < KEYS_MAX {
                    keys.extend(key);
                }
            }
        }
    }

    fn tables(&self) -> Vec<TableLoss> {
        let loss = |(table, (changes, keys)): (&TableId, &(u64, BTreeSet<Vec<u8>>))| {
            let name = self.catalog.tables.get(table)?.name.clone();
            Some(TableLoss { table: *table, name, changes: *changes, keys: keys.iter().cloned().collect() })
        };
        self.changes.iter().filter_map(loss).collect()
    }
}
