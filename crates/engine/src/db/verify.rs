//! Verification: every block of every tree is read and checked, and the manifest and the log are compared with their directories.

use std::sync::Arc;

use serde::Serialize;

use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Result};
use crate::log::LogWriter;
use crate::table::Trees;
use crate::table::files::{self, FileKind};
use crate::table::manifest::Manifest;
use crate::table::policy::ValueBytes;

use super::core::{Core, TableState};

/// What a verification read, and what it found wrong.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    /// Tables checked.
    pub tables: u64,
    /// Files of trees checked.
    pub files: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Entries seen, versions and tombstones included.
    pub entries: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes in value files that no entry refers to any more.
    pub dead_value_bytes: u64,
    /// What is wrong, a line each; empty when all is well.
    pub problems: Vec<String>,
}

impl VerifyReport {
    fn problem(&mut self, text: impl std::fmt::Display) {
        self.problems.push(text.to_string());
    }

    /// Notes damage and goes on; any other error ends the verification.
    fn note<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == ErrorKind::Corruption => {
                self.problem(&error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Core {
    /// Checks everything on disk.
    pub(crate) fn verify(&self) -> Result<VerifyReport> {
        self.health.check_open()?;
        let mut report = VerifyReport::default();
        self.verify_directory(&mut report)?;
        for segment in self.log.get().map_or(Ok(Vec::new()), LogWriter::missing_segments)? {
            report.problem(format_args!("{}: the redo log needs this segment, but it is missing", segment.display()));
        }
        for table in self.all_tables() {
            self.verify_table(&table, &mut report)?;
        }
        Ok(report)
    }

    /// The directory holds the files that the manifest names, and no others of ours.
    fn verify_directory(&self, report: &mut VerifyReport) -> Result<()> {
        // Nothing is half written while these are held: a table created since has nothing to compact, and gets nothing.
        let _gate = self.flush_gate.lock();
        let tables = self.all_tables();
        let _compacting: Vec<_> = tables.iter().map(|table| table.compaction.lock()).collect();
        let ledger = self.ledger.lock();
        let manifest = ledger.manifest.as_ref().map(Manifest::id);
        let mut named: Vec<String> = manifest.into_iter().map(|id| FileKind::Manifest.name(id)).collect();
        for table in ledger.catalog.tables.values() {
            named.extend(table.runs().map(|run| FileKind::Run.name(run.id)));
            named.extend(table.values().into_iter().map(|id| FileKind::Values.name(id)));
            named.extend(table.tree.iter().map(|(id, _)| FileKind::Tree.name(*id)));
        }
        self.remove_left_behind();
        // Bulk loads begin no file, and take none away, while it is held.
        let loading = self.loading.lock();
        let present = self.env.fs.list(&self.dir).map_err(|error| Error::io("list", &self.dir, error))?;
        for name in &named {
            if !present.iter().any(|entry| entry.name == *name) {
                report.problem(format_args!(
                    "{}: the manifest names this file, but it is missing",
                    self.dir.join(name).display()
                ));
            }
        }
        named.extend(loading.iter().flat_map(|id| [FileKind::Run.name(*id), FileKind::Values.name(*id)]));
        if self.health.check_poison().is_err() || self.health.is_unfinished() {
            // What a flush or compaction was writing when a write failed or the process died is still there; the next open, or the end of this
            // one, removes it.
            return Ok(());
        }
        for entry in present.iter().filter(|entry| files::parse(&entry.name).is_some() && !named.contains(&entry.name))
        {
            report.problem(format_args!(
                "{}: the manifest does not name this file",
                self.dir.join(&entry.name).display()
            ));
        }
        Ok(())
    }

    fn verify_table(&self, table: &Arc<TableState>, report: &mut VerifyReport) -> Result<()> {
        let trees = Arc::clone(&table.version.load().trees);
        report.tables += 1;
        let runs = trees.l0.iter().map(|handle| Arc::clone(&handle.run));
        let runs = runs.chain(trees.levels.iter().flat_map(|level| level.runs.iter().cloned()));
        for run in runs {
            report.files += 1;
            if let Some(found) = report.note(run.verify())? {
                report.blocks += found.blocks;
                report.entries += found.entries;
                report.bytes += found.bytes;
            }
        }
        report.files += u64_of(trees.values.iter().count());
        verify_values(&table.name, &trees, report);
        verify_levels(&table.name, &trees, report);
        if let (Some(btree), Some(root)) = (table.btree(), &trees.btree) {
            report.files += 1;
            if let Some(found) = report.note(btree.verify(root))? {
                report.blocks += found.blocks;
                report.entries += found.entries;
                report.bytes += found.bytes;
            }
        }
        Ok(())
    }
}

/// No more of the value files is in use than there is.
fn verify_values(table: &str, trees: &Trees, report: &mut VerifyReport) {
    let ValueBytes { total, live } = ValueBytes::of(trees);
    if live > total {
        report.problem(format_args!(
            "table '{table}': {live} bytes of values are in use, and the value files have {total}"
        ));
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
                report.problem(format_args!(
                    "table '{table}': level {}: runs overlap between {to} and {from}",
                    index + 1
                ));
            }
        }
    }
}
