//! The checkpoint: a durable copy of the database as of one moment, made while writes go on.
//!
//! Under the flush gate, all memtables are sealed at one moment in the order of commits, and what was sealed by then is
//! flushed; until the gate opens nothing newer reaches the trees. The trees of that moment are the copy. Runs and value
//! files are linked; of a B-tree's file the extents are copied that its root reaches, which stay as they are while it
//! is held. What cannot be linked because it lies on another file system, and B-trees, can be linked from an earlier
//! checkpoint that has the same (`checkpoint_base.rs`).
//!
//! # Recovery
//! The manifest comes last. What a checkpoint leaves that was killed is no database, and the next one to the directory
//! begins anew (`copy_dir.rs`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::base::{Error, FileId, Lsn, Result, SeqNum, TableId};
use crate::db::commit::pipeline::CommitPipeline;
use crate::db::jobs::flusher::Flusher;
use crate::db::state::State;
use crate::db::state::directory::sync_above;
use crate::db::state::table::TableState;
use crate::env::{Access, File};
use crate::table::catalog::Catalog;
use crate::table::files::FileKind;
use crate::table::manifest::Manifest;
use crate::table::record::{RunRecord, TableRecord};
use crate::tree::btree::TreeRoot;

use super::checkpoint_base::CheckpointBase;
use super::copy_dir::{Copies, CopyDir};
use super::file_copy::{cannot_link, copy, open_file};

/// The database as of one moment.
pub(crate) struct Cut {
    catalog: Catalog,
    trees: Vec<TreeSource>,
}

/// A B-tree's file. It is open, so that it can be read when its table is dropped.
struct TreeSource {
    table: TableId,
    id: FileId,
    file: Arc<dyn File>,
    /// The root that is copied. The file is shorter than it says when its free end has been cut off since.
    root: Arc<TreeRoot>,
}

/// What a checkpoint is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckpointReport {
    /// The checkpoint has the changes up to this one, and no later ones.
    pub newest: SeqNum,
    /// Data files that are shared: with the database, or with an earlier checkpoint.
    pub linked_files: u64,
    /// Their bytes.
    pub linked_bytes: u64,
    /// Data files that were copied.
    pub copied_files: u64,
    /// Their bytes.
    pub copied_bytes: u64,
}

impl CheckpointReport {
    fn linked(&mut self, bytes: u64) {
        self.linked_files += 1;
        self.linked_bytes += bytes;
    }

    fn copied(&mut self, bytes: u64) {
        self.copied_files += 1;
        self.copied_bytes += bytes;
    }
}

/// Copies the database to the new directory `dir`, and shares files with the earlier checkpoint in `base`.
pub(crate) fn checkpoint(
    state: &State,
    commits: &CommitPipeline,
    flusher: &Flusher,
    dir: &Path,
    base: Option<&Path>,
) -> Result<CheckpointReport> {
    state.health.check_writable()?;
    let base = base.map(|base| CheckpointBase::open(&state.env, base, state.files.database_id())).transpose()?;
    Checkpoint { state, commits, flusher, base, report: CheckpointReport::default() }.make(dir)
}

/// A checkpoint in the making.
pub(crate) struct Checkpoint<'a> {
    pub(crate) state: &'a State,
    pub(crate) commits: &'a CommitPipeline,
    pub(crate) flusher: &'a Flusher,
    pub(crate) base: Option<CheckpointBase>,
    pub(crate) report: CheckpointReport,
}

impl Checkpoint<'_> {
    fn make(mut self, dir: &Path) -> Result<CheckpointReport> {
        let dir = &self.state.env.fs.absolute(dir).map_err(|error| Error::io("find", dir, error))?;
        let claimed = CopyDir::claim(&self.state.env, dir, Copies::Checkpoint)?;
        let cut = self.cut(dir);
        self.flusher.after_gated();
        let made = cut.and_then(|cut| self.complete(dir, cut)).and_then(|()| sync_above(&self.state.env, dir));
        if made.is_err() {
            // The copy takes space, and the next try wants an empty directory. What cannot be removed is removed by
            // that.
            claimed.empty();
        }
        claimed.release();
        made.map(|()| self.report)
    }

    /// Brings everything to the trees as of one moment, links their runs and value files and opens the files of
    /// B-trees.
    pub(crate) fn cut(&mut self, dir: &Path) -> Result<Cut> {
        let gate = self.flusher.lock_gate();
        let (at, tables) = self.commits.seal_all();
        self.report.newest = SeqNum(at.0.saturating_sub(1));
        // Not what was sealed since: it would be in the copy of one table and its like in no other.
        self.flusher.flush_tables_gated(tables, at, &gate)?;
        // Tables and catalog are of one moment when both are held. Under the manifest's latch roots are what the
        // catalog says, and no compaction removes a run or a value file.
        let (open, manifest) = {
            let tables = self.state.tables.lock();
            (tables.values().cloned().collect::<Vec<_>>(), self.state.manifest.lock())
        };
        // A manifest that failed may say more than there is.
        self.state.health.check_writable()?;
        let root = |table: &Arc<TableState>| Some((table.id, table.version.load().trees.btree.clone()?));
        let roots: BTreeMap<_, _> = open.iter().filter_map(root).collect();
        let catalog = manifest.catalog().clone();
        for run in catalog.tables.values().flat_map(TableRecord::runs) {
            let linked = self.link(FileKind::Run, run.id, dir, run.meta.bytes)?;
            if !linked && !self.link_run_of_base(run, dir)? {
                self.copy_whole(FileKind::Run, run.id, dir)?;
            }
        }
        for table in catalog.tables.values() {
            for id in table.values() {
                let source = FileKind::Values.path(&self.state.dir, id);
                let bytes = open_file(&self.state.env, &source, Access::Read)?.len();
                let bytes = bytes.map_err(|error| Error::io("read", &source, error))?;
                let linked = self.link(FileKind::Values, id, dir, bytes)?;
                if !linked && !self.link_values_of_base(table, id, dir, bytes)? {
                    self.copy_whole(FileKind::Values, id, dir)?;
                }
            }
        }
        let mut trees = Vec::new();
        for (table, (id, meta)) in
            catalog.tables.iter().filter_map(|(table, record)| Some((table, record.tree.as_ref()?)))
        {
            let root = Arc::clone(&roots[table]);
            assert_eq!(root.meta(), meta, "a root is shown when it is recorded");
            if meta.is_unwritten() {
                continue;
            }
            let file = open_file(&self.state.env, &FileKind::Tree.path(&self.state.dir, *id), Access::Read)?;
            trees.push(TreeSource { table: *table, id: *id, file, root });
        }
        Ok(Cut { catalog, trees })
    }

    /// Links a file of the database; false where that cannot be.
    fn link(&mut self, kind: FileKind, id: FileId, dir: &Path, bytes: u64) -> Result<bool> {
        let (from, to) = (kind.path(&self.state.dir, id), kind.path(dir, id));
        match self.state.env.fs.hard_link(&from, &to) {
            Ok(()) => {
                self.report.linked(bytes);
                Ok(true)
            }
            Err(error) if cannot_link(&error) => Ok(false),
            Err(error) => Err(Error::io("link", &to, error)),
        }
    }

    /// Links an equal run of the earlier checkpoint; false where there is none.
    fn link_run_of_base(&mut self, run: &RunRecord, dir: &Path) -> Result<bool> {
        let Some(base) = &mut self.base else { return Ok(false) };
        let (original, to) = (FileKind::Run.path(&self.state.dir, run.id), FileKind::Run.path(dir, run.id));
        let linked = base.link_run(run.id, &run.meta, &original, &to)?;
        if linked {
            self.report.linked(run.meta.bytes);
        }
        Ok(linked)
    }

    /// Links an equal value file of the earlier checkpoint; false where there is none.
    fn link_values_of_base(&mut self, table: &TableRecord, id: FileId, dir: &Path, bytes: u64) -> Result<bool> {
        let Some(base) = &self.base else { return Ok(false) };
        let refers = |run: &&RunRecord| run.meta.references.iter().any(|reference| reference.file == id);
        let runs = table.runs().filter(refers).map(|run| run.id);
        let linked = base.link_values(id, runs, bytes, &FileKind::Values.path(dir, id))?;
        if linked {
            self.report.linked(bytes);
        }
        Ok(linked)
    }

    fn copy_whole(&mut self, kind: FileKind, id: FileId, dir: &Path) -> Result<()> {
        let (from, to) = (kind.path(&self.state.dir, id), kind.path(dir, id));
        let source = open_file(&self.state.env, &from, Access::Read)?;
        self.report.copied(copy(&self.state.env, &*source, (&from, &to), 0, &[])?);
        Ok(())
    }

    /// Copies the B-trees of the cut, but for those that the earlier checkpoint has, then makes the copy a database.
    pub(crate) fn complete(&mut self, dir: &Path, cut: Cut) -> Result<()> {
        let Cut { mut catalog, trees } = cut;
        for TreeSource { table, id, file, root } in trees {
            let (from, to) = (FileKind::Tree.path(&self.state.dir, id), FileKind::Tree.path(dir, id));
            let meta = root.meta();
            if self.base.as_ref().map_or(Ok(false), |base| base.link_tree(table, id, meta, &to))? {
                self.report.linked(meta.file_bytes);
                continue;
            }
            let bytes = copy(&self.state.env, &*file, (&from, &to), meta.file_bytes, root.free()?)?;
            self.report.copied(bytes);
        }
        // The copy has no log: everything is in its trees.
        catalog.log_from = Lsn(0);
        catalog.log_dir = None;
        let forget_log = |table: &mut TableRecord| table.replay_from = Lsn(0);
        catalog.tables.values_mut().for_each(forget_log);
        let id = self.state.files.new_id();
        catalog.next_file = catalog.next_file.max(FileId(id.0 + 1));
        Manifest::create(&self.state.env, dir, id, &catalog).map(drop)
    }
}
