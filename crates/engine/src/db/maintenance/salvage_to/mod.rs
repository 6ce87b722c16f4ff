//! Salvage to a new place: all that can be read of a database is copied, and what cannot be is told.
//!
//! ```text
//! manifest   the one in force, or what can be read of the newest
//! log        up to the damage, as the salvage in place keeps it: into memtables
//! tables     a walk over what is left of each tree, merged as a compaction of everything would: into new trees
//! manifest   of the copy, last: before it the copy is no database
//! ```
//!
//! Nothing of the source is opened for writing, nor its lock taken where that would make a file. So it may lie on a
//! disk that cannot be written, and cannot be opened.
//!
//! # Invariants
//! 1. An entry is in the copy as it was, or its key lies in a range of the report, or the report tells of a damaged log
//!    or manifest. A key in such a range may be missing, have an older value, or one that was deleted; and one of
//!    operands may lack some of them.
//! 2. The copy holds what the newest snapshot saw, in one tree for each table, and no log.

mod target;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use target::Target;

use crate::base::{Error, ErrorKind, Lsn, Result, SeqNum, TableId};
use crate::db::state::directory::lock_file;
use crate::db::state::registered::Registered;
use crate::env::{Env, FileLock};
use crate::log::recover_unsynced;
use crate::table::catalog::Catalog;
use crate::table::files;
use crate::table::manifest::{LoadedManifest, Manifest, ManifestDamage};
use crate::table::record::TableRecord;
use crate::tree::gc::GcRule;
use crate::tree::memtable::Memtable;
use crate::tree::merge::MergeCursor;
use crate::tree::operator::TableOperator;
use crate::tree::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::tree::salvage::{Losses, LostRange, Piece, SalvageCursor};

use super::log_reader::read_record;
use super::salvage::{SalvageReport, examine_log};
use super::tree_salvage::Files;

/// What was copied of a damaged database, and what was not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedCopy {
    /// The tables in the order of their names.
    pub tables: Vec<SalvagedTable>,
    /// What was given up of the redo log, if anything ([`SalvageReport::is_complete`]); `None` when it is sound. Any
    /// key of a table that lost changes may be older than it was.
    pub log: Option<SalvageReport>,
    /// What is wrong with the manifest; then an older one, the beginning of it, or its copy, which may lack the last
    /// records, says what there is, and anything may be older than it was.
    pub manifest: Option<String>,
    /// What is wrong with the manifest, or with the file that names it, where other files told the same: nothing is
    /// lost by that.
    pub mended: Option<String>,
}

impl SalvagedCopy {
    /// Whether everything was copied.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let is_log_complete = self.log.as_ref().is_none_or(SalvageReport::is_complete);
        is_log_complete && self.manifest.is_none() && self.tables.iter().all(|table| table.lost.is_empty())
    }
}

/// What was copied of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedTable {
    /// Its name.
    pub name: String,
    /// Entries in the copy: keys with a value, and operands that could not be folded.
    pub entries: u64,
    /// Where damage was found, and the keys that it may have held: each is lost, or older than it was. The ranges may
    /// overlap.
    pub lost: Vec<LostRange>,
}

/// How far a salvage has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageProgress {
    /// Bytes read of trees and values.
    pub bytes: u64,
    /// How many there are, as the manifest says.
    pub bytes_total: u64,
}

/// Is told how far a salvage has come.
pub(super) type OnSalvage<'a> = dyn FnMut(SalvageProgress) + 'a;

/// Copies what can be read of the database in `path` to the new directory `out`.
pub(crate) fn salvage_to(
    env: &Env,
    path: &Path,
    out: &Path,
    registered: &Registered,
    told: &mut OnSalvage<'_>,
) -> Result<SalvagedCopy> {
    let absolute = |path: &Path| env.fs.absolute(path).map_err(|error| Error::io("find", path, error));
    let (dir, out) = (absolute(path)?, absolute(out)?);
    if out.starts_with(&dir) {
        let message = format!("{} lies in the database that is salvaged: give a place outside of it", out.display());
        return Err(Error::invalid(message));
    }
    let _lock = lock_if_there(env, &dir)?;
    let nothing = |error: Error| match error.kind() {
        ErrorKind::Corruption => error
            .advice("no other manifest and no copy can be read, and without one nothing says what the other files are"),
        _ => error,
    };
    let loaded = Manifest::load_damaged(env, &dir).map_err(nothing)?;
    let LoadedManifest { catalog, damage, .. } = loaded.ok_or_else(|| files::no_database(&dir))?;
    catalog.check_built()?;
    let mut source = Source::new(env, &dir, &catalog);
    let log = source.read_log()?;
    let mut target = Target::create(env, &out, source.seqnum_floor)?;
    let copied =
        catalog.tables.iter().map(|(id, record)| source.copy_table(*id, record, registered, &mut target, told));
    let copied: Result<Vec<_>> = copied.collect();
    let mut tables = match copied {
        Ok(tables) => tables,
        Err(error) => {
            target.remove();
            return Err(error);
        }
    };
    target.finish(&catalog)?;
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    let mut copy = SalvagedCopy { tables, log, manifest: None, mended: None };
    if let Some(ManifestDamage { error, is_mended }) = damage {
        *(if is_mended { &mut copy.mended } else { &mut copy.manifest }) = Some(error.to_string());
    }
    Ok(copy)
}

/// Keeps other opens of the database out, if its lock can be taken without a change. Where no process can write, none
/// has it open.
fn lock_if_there(env: &Env, dir: &Path) -> Result<Option<Box<dyn FileLock>>> {
    let entries = env.fs.list(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => files::no_database(dir),
        _ => Error::io("list", dir, error),
    })?;
    if !entries.iter().any(|entry| entry.name == files::LOCK) {
        return Ok(None);
    }
    match lock_file(env, dir) {
        Err(error) if error.kind() == ErrorKind::Io => Ok(None),
        lock => lock.map(Some),
    }
}

/// A database that is only read.
struct Source<'a> {
    files: Files,
    catalog: &'a Catalog,
    /// Of each table the changes that are in the log only.
    changes: BTreeMap<TableId, Changes>,
    /// Above all seqnums met.
    seqnum_floor: SeqNum,
    /// Bytes read. Only shown; publishes nothing.
    read: Arc<AtomicU64>,
    bytes_total: u64,
}

/// Changes of a table that are in the log only.
#[derive(Default)]
struct Changes {
    memtable: Memtable,
    range_tombstones: Vec<RangeTombstone>,
}

impl<'a> Source<'a> {
    fn new(env: &'a Env, dir: &'a Path, catalog: &'a Catalog) -> Self {
        let bytes = |table: &TableRecord| {
            let runs =
                table.runs().map(|run| run.meta.bytes + run.meta.references.iter().map(|it| it.bytes).sum::<u64>());
            runs.sum::<u64>() + table.tree.as_ref().map_or(0, |(_, meta)| meta.live_bytes())
        };
        let newest = |table: &TableRecord| {
            let runs = table.runs().map(|run| run.meta.seqnum_max.max(run.meta.clean_to));
            let tree = table.tree.as_ref().map(|(_, meta)| meta.seqnum_max.max(meta.clean_to));
            runs.chain(tree).max().unwrap_or_default()
        };
        let newest = catalog.tables.values().map(newest).max().unwrap_or_default();
        Self {
            files: Files { env: env.clone(), dir: dir.to_owned(), database_id: catalog.database_id },
            catalog,
            changes: BTreeMap::new(),
            seqnum_floor: catalog.seqnum_floor.max(SeqNum(newest.0 + 1)),
            read: Arc::default(),
            bytes_total: catalog.tables.values().map(bytes).sum(),
        }
    }

    /// Reads the log up to its end, or up to where it is damaged; what is lost then.
    fn read_log(&mut self) -> Result<Option<SalvageReport>> {
        let (env, catalog, log) = (&self.files.env.clone(), self.catalog, self.catalog.log_dir(&self.files.dir));
        match env.fs.list(&log) {
            Ok(_) => {}
            // A checkpoint has none.
            Err(_) if catalog.log_from == Lsn(0) && catalog.log_durable() == Lsn(0) => return Ok(None),
            Err(error) => return Ok(Some(self.lost_log(&log, &Error::io("list", &log, error)))),
        }
        let examined = examine_log(env, &log, catalog, false, &mut |start, payload| self.replay(&log, start, payload));
        let read = match examined {
            Ok(Some((_, report))) => return Ok(Some(report)),
            Err(error) => Err(error),
            Ok(None) => recover_unsynced(env, &log, catalog.database_id, catalog.log_from, &mut |start, _, payload| {
                self.replay(&log, start, payload)
            }),
        };
        Ok(read.err().map(|error| self.lost_log(&log, &error)))
    }

    /// A log of which nothing more can be read than was replayed already.
    fn lost_log(&self, log: &Path, error: &Error) -> SalvageReport {
        let (file, offset) = error.place().unwrap_or((log, 0));
        SalvageReport {
            file: file.to_owned(),
            offset,
            damage: error.to_string(),
            end: self.catalog.log_from,
            durable: self.catalog.log_durable(),
            kept_commits: 0,
            lost_commits: 0,
            lost: Vec::new(),
            unreadable_bytes: None,
            ahead: Vec::new(),
            kept_files: Vec::new(),
            manifest: None,
        }
    }

    /// Takes in the changes of a commit that are not in the trees.
    fn replay(&mut self, log: &Path, start: Lsn, payload: &[u8]) -> Result<()> {
        let next = read_record(log, start, payload, |seqnum, change| {
            if self.catalog.tables.get(&change.table).is_some_and(|table| start >= table.replay_from) {
                let changes = self.changes.entry(change.table).or_default();
                if let Some(entry) = change.entry(seqnum) {
                    changes.memtable.insert(&entry);
                }
                changes.range_tombstones.extend(change.range().map(|range| RangeTombstone { range, seqnum }));
            }
            Ok(())
        })?;
        self.seqnum_floor = self.seqnum_floor.max(next);
        Ok(())
    }

    /// Copies what is left of a table.
    fn copy_table(
        &mut self,
        id: TableId,
        record: &TableRecord,
        registered: &Registered,
        target: &mut Target<'_>,
        told: &mut OnSalvage<'_>,
    ) -> Result<SalvagedTable> {
        let changes = self.changes.remove(&id).unwrap_or_default();
        let values = self.files.values(record.values());
        let (mut sources, mut losses) = (Vec::new(), Vec::new());
        sources.push(changes.memtable.cursor());
        for pieces in self.trees(record) {
            let lost = Losses::default();
            losses.push(lost.clone());
            sources.push(Box::new(SalvageCursor::new(pieces, values.clone(), lost, Arc::clone(&self.read))));
        }
        let range_tombstones = record
            .range_tombstones
            .and(&RangeTombstones::newest_of(changes.range_tombstones.iter().map(RangeTombstone::ends)));
        let operator = TableOperator::find(record.options.merge.as_deref(), &registered.operators);
        let gc = GcRule::new(Vec::new(), SeqNum::MAX, true).with_operator(operator);
        let gc =
            gc.keeping_seqnums(record.options.time_to_live.is_some()).with_range_tombstones(Arc::new(range_tombstones));
        let (read, bytes_total) = (Arc::clone(&self.read), self.bytes_total);
        let mut tell = || told(SalvageProgress { bytes: read.load(Ordering::Relaxed), bytes_total });
        let entries = target.write_table(id, record, MergeCursor::new(sources), gc, &mut tell)?;
        let lost = losses.iter().flat_map(Losses::take).collect();
        Ok(SalvagedTable { name: record.name.clone(), entries, lost })
    }

    /// The trees of a table on disk, newest first, those of a level as one.
    fn trees(&self, record: &TableRecord) -> Vec<Box<dyn Iterator<Item = Piece> + Send>> {
        let l0 = record.l0.iter().map(|run| vec![run.clone()]);
        let levels = record.levels.iter().filter(|level| !level.is_empty()).cloned();
        let mut trees: Vec<Box<dyn Iterator<Item = Piece> + Send>> = Vec::new();
        for runs in l0.chain(levels) {
            let files = self.files.clone();
            trees.push(Box::new(runs.into_iter().map(move |run| files.run(run))));
        }
        if let Some((id, meta)) = record.tree {
            trees.push(Box::new(std::iter::once(self.files.btree(id, meta))));
        }
        trees
    }
}
