//! Verification: every block of every tree is read and checked, the redo log is read, and the manifest and the log are
//! compared with their directories. Behind a damaged block the rest of its tree is read as a salvage does, so that all
//! damage is told.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, FileId, Result};
use crate::db::jobs::flusher::Flusher;
use crate::db::state::State;
use crate::db::state::table::TableState;
use crate::log::{LogSummary, LogWriter, recover_unsynced};
use crate::table::files::{self, FileKind};
use crate::table::manifest::Manifest;
use crate::table::policy::ValueBytes;
use crate::table::record::RunRecord;
use crate::table::{RunHandle, Trees};
use crate::tree::run::verify;
use crate::tree::salvage::{LostRange, Piece};

use super::log_reader::read_record;
use super::tree_salvage::{Files, Remains};

/// A report keeps this many problems; the others are only counted.
const PROBLEMS_MAX: usize = 1000;
/// How often the log is read again that changes while it is read. Damage stays where it is.
const LOG_ATTEMPTS: usize = 10;

/// What a verification read, and what it found wrong.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct VerifyReport {
    /// Tables checked.
    pub tables: u64,
    /// Entries in memory that are in no tree yet, versions and tombstones included.
    pub memory_entries: u64,
    /// Commits in the redo log that were read and checked: those that the next open would read.
    pub log_commits: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Files of trees checked.
    pub files: u64,
    /// Sound blocks read.
    pub blocks: u64,
    /// Sound entries seen in trees, versions and tombstones included.
    pub entries: u64,
    /// Bytes read of trees and values.
    pub bytes: u64,
    /// Bytes in value files that no entry refers to any more.
    pub dead_value_bytes: u64,
    /// What is wrong; empty when all is well. At most 1,000 are kept.
    pub problems: Vec<Problem>,
    /// How many there are, those that were not kept included.
    pub problem_count: u64,
}

/// Something that a verification found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Problem {
    /// The table that it is about, if it is about one.
    pub table: Option<String>,
    /// The damaged file, if one file is.
    pub file: Option<PathBuf>,
    /// Where in it, in bytes.
    pub offset: Option<u64>,
    /// The keys that the damage may have held, from the first (empty: the first of all) to the last (`None`: the last
    /// of all); `None` when it hides no entry, or none that is known.
    pub keys: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// What is wrong, with the file and the offset.
    pub what: String,
    /// Whether nothing is lost by it, and the next open for writing mends it.
    pub is_mended_by_open: bool,
}

impl Problem {
    fn new(table: Option<&str>, what: impl fmt::Display) -> Self {
        Self {
            table: table.map(str::to_owned),
            file: None,
            offset: None,
            keys: None,
            what: what.to_string(),
            is_mended_by_open: false,
        }
    }

    fn of_error(table: Option<&str>, error: &Error) -> Self {
        let place = error.place();
        let (file, offset) = (place.map(|(file, _)| file.to_owned()), place.map(|(_, offset)| offset));
        Self { file, offset, ..Self::new(table, error) }
    }

    fn of_loss(table: &str, lost: LostRange, hides: bool) -> Self {
        let LostRange { from, to, file, offset, damage } = lost;
        let keys = hides.then_some((from, to));
        Self { file: Some(file), offset: Some(offset), keys, ..Self::new(Some(table), damage) }
    }

    /// Damage to the copy of the manifest, of which the manifest says the same.
    fn of_copy(error: Error) -> Self {
        let error =
            error.advice("nothing is lost, as the manifest is sound, and the next open for writing makes a new copy");
        Self { is_mended_by_open: true, ..Self::of_error(None, &error) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(table) = &self.table {
            write!(f, "table '{table}': ")?;
        }
        f.write_str(&self.what)?;
        let Some((from, to)) = &self.keys else { return Ok(()) };
        let name = |key: &[u8]| format!("'{}'", key.escape_ascii());
        let first = if from.is_empty() { "the first".to_owned() } else { name(from) };
        let last = to.as_ref().map_or("the last".to_owned(), |to| name(to));
        write!(f, " (keys from {first} to {last})")
    }
}

impl VerifyReport {
    fn add(&mut self, problem: Problem) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    fn problem(&mut self, text: impl fmt::Display) {
        self.add(Problem::new(None, text));
    }

    /// Takes in what is left of a tree of `table` whose check ended with `error`.
    fn damaged(&mut self, table: &str, error: &Error, parts: Vec<Error>, remains: Remains) {
        self.blocks += remains.leaves;
        self.entries += remains.entries;
        self.bytes += remains.bytes;
        let lost = remains.lost.into_iter().map(|lost| Problem::of_loss(table, lost, true));
        let harmless = remains.harmless.into_iter().map(|damage| Problem::of_loss(table, damage, false));
        let parts = parts.iter().map(|error| Problem::of_error(Some(table), error));
        let mut found: Vec<_> = lost.chain(harmless).chain(parts).collect();
        let first = Problem::of_error(Some(table), error);
        if !found.iter().any(|problem| (&problem.file, problem.offset) == (&first.file, first.offset)) {
            found.insert(0, first);
        }
        found.into_iter().for_each(|problem| self.add(problem));
    }
}

/// Checks everything on disk, and goes on behind damage; the redo log is in the directory `log_dir`. `opened` is of a
/// database that is read only: what its open read and checked of the log, and the manifest that it read.
pub(crate) fn verify(
    state: &State,
    log: &LogWriter,
    flusher: &Flusher,
    log_dir: &Path,
    opened: Option<(LogSummary, FileId)>,
) -> Result<VerifyReport> {
    state.health.check_open()?;
    Verification { state, log, flusher, log_dir, opened }.run()
}

/// A verification under way.
struct Verification<'a> {
    state: &'a State,
    log: &'a LogWriter,
    flusher: &'a Flusher,
    log_dir: &'a Path,
    /// Of a database that is read only.
    opened: Option<(LogSummary, FileId)>,
}

impl Verification<'_> {
    fn run(&self) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        self.verify_directory(&mut report)?;
        if let Some((LogSummary { payloads, bytes, .. }, _)) = self.opened {
            // A process that has the database open may have given the log up since.
            (report.log_commits, report.log_bytes) = (payloads, bytes);
        } else {
            self.verify_log_files(&mut report)?;
        }
        for table in self.state.tables.all() {
            self.verify_table(&table, &mut report)?;
        }
        // What a close took away meanwhile is not missing.
        self.state.health.check_open()?;
        Ok(report)
    }

    /// All segments are there, and can be read.
    fn verify_log_files(&self, report: &mut VerifyReport) -> Result<()> {
        let missing = self.log.missing_segments()?;
        for segment in &missing {
            report.problem(format_args!("{}: the redo log needs this segment, but it is missing", segment.display()));
        }
        if missing.is_empty() { self.verify_log(report) } else { Ok(()) }
    }

    /// Reads the log as the next open would.
    fn verify_log(&self, report: &mut VerifyReport) -> Result<()> {
        if self.state.health.check_poison().is_err() {
            return Ok(());
        }
        let dir = self.log_dir;
        for attempt in 1.. {
            let from = self.state.manifest.lock().catalog().log_from;
            let (mut commits, mut bytes) = (0, 0);
            let read = recover_unsynced(
                &self.state.env,
                dir,
                self.state.files.database_id(),
                from,
                &mut |start, _, payload| {
                    (commits, bytes) = (commits + 1, bytes + u64_of(payload.len()));
                    read_record(dir, start, payload, |_, _| Ok(())).map(drop)
                },
            );
            match read {
                Ok(_) => (report.log_commits, report.log_bytes) = (commits, bytes),
                // What is read while it is written looks like damage, and files may go meanwhile.
                Err(_) if attempt < LOG_ATTEMPTS => continue,
                Err(error) if error.kind() == ErrorKind::Corruption => report.add(Problem::of_error(None, &error)),
                Err(error) => return Err(error),
            }
            return Ok(());
        }
        Ok(())
    }

    /// The directory holds the files that the manifest names, and no others of ours.
    fn verify_directory(&self, report: &mut VerifyReport) -> Result<()> {
        // Nothing is half written while these are held: a table created since has nothing to compact, and gets nothing.
        let _gate = self.flusher.lock_gate();
        let tables = self.state.tables.all();
        let _compacting: Vec<_> = tables.iter().map(|table| table.compaction.latch.lock()).collect();
        let manifest_store = self.state.manifest.lock();
        let mut named = Vec::new();
        if let Some(manifest) = manifest_store.manifest() {
            let wrong = manifest.verify(&self.state.env, &self.state.dir)?;
            wrong.iter().for_each(|error| report.add(Problem::of_error(None, error)));
            let damage = match self.opened {
                // The manifest in force is in memory.
                Some((_, read)) => Manifest::damage_of_copy(&self.state.env, &self.state.dir, read),
                None => manifest.verify_copy(&self.state.env, &self.state.dir)?,
            };
            damage.into_iter().for_each(|error| report.add(Problem::of_copy(error)));
            named.push(FileKind::Manifest.name(manifest.id()));
            named.extend(manifest.has_copy().then(|| FileKind::ManifestCopy.name(manifest.id())));
        }
        for table in manifest_store.catalog().tables.values() {
            named.extend(table.runs().map(|run| FileKind::Run.name(run.id)));
            named.extend(table.values().into_iter().map(|id| FileKind::Values.name(id)));
            let written = table.tree.iter().filter(|(_, meta)| !meta.is_unwritten());
            named.extend(written.map(|(id, _)| FileKind::Tree.name(*id)));
        }
        while self.state.files.remove_some() {}
        self.state.files.remove_obsolete();
        let dir = &self.state.dir;
        let (present, pending) = self.state.files.with_pending(|pending| {
            let present = self.state.env.fs.list(dir).map_err(|error| Error::io("list", dir, error));
            (present, pending.clone())
        });
        let present = present?;
        let there: HashSet<_> = present.iter().map(|entry| &entry.name).collect();
        for name in &named {
            if !there.contains(name) {
                report.problem(format_args!(
                    "{}: the manifest names this file, but it is missing",
                    dir.join(name).display()
                ));
            }
        }
        // A copy that could not be written to the end is there, and counts for nothing.
        named.extend(manifest_store.manifest().map(|manifest| FileKind::ManifestCopy.name(manifest.id())));
        // The file of a tree is created before its first root is named, and may be left by a crash in between.
        let trees = manifest_store.catalog().tables.values().filter_map(|table| table.tree);
        named.extend(trees.map(|(id, _)| FileKind::Tree.name(id)));
        named.extend(pending.iter().flat_map(|id| [FileKind::Run.name(*id), FileKind::Values.name(*id)]));
        if self.state.health.is_read_only() {
            // A process that has the database open makes others and removes them; the next open removes what is left.
            return Ok(());
        }
        if self.state.health.check_poison().is_err() {
            // What a flush or compaction was writing when a write failed is still there; the next open removes it.
            return Ok(());
        }
        let named: HashSet<_> = named.iter().collect();
        for entry in present.iter().filter(|entry| files::parse(&entry.name).is_some() && !named.contains(&entry.name))
        {
            report.problem(format_args!("{}: the manifest does not name this file", dir.join(&entry.name).display()));
        }
        Ok(())
    }

    fn verify_table(&self, table: &Arc<TableState>, report: &mut VerifyReport) -> Result<()> {
        let version = table.version.load_full();
        let trees = Arc::clone(&version.trees);
        report.tables += 1;
        report.memory_entries += version.memtables().map(|mem| mem.entries.entries()).sum::<u64>();
        let files = Files {
            env: self.state.env.clone(),
            dir: self.state.dir.clone(),
            database_id: self.state.files.database_id(),
        };
        for RunHandle { id, run } in trees.runs() {
            report.files += 1;
            match verify::verify(&run) {
                Ok(found) => {
                    report.blocks += found.blocks;
                    report.entries += found.entries;
                    report.bytes += found.bytes;
                }
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    let (sound, parts) = verify::verify_parts(&run)?;
                    report.blocks += sound;
                    let record = RunRecord { id, meta: run.meta().clone() };
                    tell_damage(report, table, &error, parts, &files, record)?;
                }
                Err(error) => return Err(error),
            }
        }
        report.files += u64_of(trees.values.iter().count());
        verify_values(&table.name, &trees, report);
        verify_levels(&table.name, &trees, report);
        if let (Some(btree), Some(root)) = (table.btree(), &trees.btree) {
            report.files += 1;
            match btree.verify(root) {
                Ok(found) => {
                    report.blocks += found.blocks;
                    report.entries += found.entries;
                    report.bytes += found.bytes;
                }
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    let manifest_store = self.state.manifest.lock();
                    let file =
                        manifest_store.catalog().tables.get(&table.id).and_then(|table| table.tree).map(|(id, _)| id);
                    drop(manifest_store);
                    let piece = file.map(|file| files.btree(file, *root.meta()));
                    let remains = piece.map_or(Ok(Remains::default()), |piece| remains(piece, &files, &[]))?;
                    report.damaged(&table.name, &error, Vec::new(), remains);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Tells all damage to a run whose check ended with `error`.
fn tell_damage(
    report: &mut VerifyReport,
    table: &TableState,
    error: &Error,
    parts: Vec<Error>,
    files: &Files,
    record: RunRecord,
) -> Result<()> {
    let values: Vec<FileId> = record.meta.references.iter().map(|reference| reference.file).collect();
    let remains = remains(files.run(record), files, &values)?;
    report.damaged(&table.name, error, parts, remains);
    Ok(())
}

/// What is left of a tree; nothing when its file was removed meanwhile.
fn remains(piece: Piece, files: &Files, values: &[FileId]) -> Result<Remains> {
    if piece.1.is_err() {
        return Ok(Remains::default());
    }
    Remains::of(piece, files.values(values.iter().copied()))
}

/// No more of the value files is in use than there is.
fn verify_values(table: &str, trees: &Trees, report: &mut VerifyReport) {
    let ValueBytes { total, live } = ValueBytes::of(trees);
    if live > total {
        let what = format_args!("{live} bytes of values are in use, and the value files have {total}");
        report.add(Problem::new(Some(table), what));
    }
    report.dead_value_bytes += total.saturating_sub(live);
}

/// The runs of a level are disjoint and ascend.
fn verify_levels(table: &str, trees: &Trees, report: &mut VerifyReport) {
    for (index, level) in trees.levels.iter().enumerate() {
        for pair in level.runs.windows(2) {
            let (left, right) = (pair[0].meta(), pair[1].meta());
            if left.largest >= right.smallest {
                let (from, to) = (left.largest.escape_ascii(), right.smallest.escape_ascii());
                let what = format_args!("level {}: runs overlap between {to} and {from}", index + 1);
                report.add(Problem::new(Some(table), what));
            }
        }
    }
}
