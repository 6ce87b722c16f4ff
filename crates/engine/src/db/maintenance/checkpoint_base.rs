//! An earlier checkpoint of the database, whose files the next one shares where they are equal.
//!
//! A run, and a value file, never changes, but its name does not say enough: a copy that was opened as a database of
//! its own gives out the same file ids as the original for other content. So they are compared.
//!
//! # Invariants
//! 1. A run is equal when the footers are: a footer has the checksum of the block on top, and each block those of the
//!    blocks below it.
//! 2. A value file is equal when its length is and a run that refers to it is equal: ids are given out in order, so it
//!    was there before the run, in the one history that both databases share up to the run.
//! 3. A B-tree is equal when the manifests say the same of it: that has the checksum of the root. Its file changes in
//!    place when its database is written. So the earlier checkpoint is locked while files of it are linked, and a
//!    database makes the file its own before it writes to it (`db/open/own_trees.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, FileId, Result, TableId};
use crate::db::state::directory::lock_file;
use crate::env::{Access, Env, FileLock, OpenOptions};
use crate::table::files::{self, FileKind};
use crate::table::manifest::Manifest;
use crate::table::record::TableRecord;
use crate::tree::btree::TreeMeta;
use crate::tree::run::{FOOTER_BYTES, RunMeta};

use super::file_copy::{cannot_link, open_file};

/// An earlier checkpoint. While this is there, nobody opens it as a database.
pub(crate) struct CheckpointBase {
    env: Env,
    dir: PathBuf,
    tables: BTreeMap<TableId, TableRecord>,
    /// The runs that were found to be equal.
    equal_runs: BTreeSet<FileId>,
    lock: Option<Box<dyn FileLock>>,
    /// The lock's file was not there before.
    made_lock: bool,
}

impl CheckpointBase {
    /// Locks a checkpoint of the database with this id.
    pub(crate) fn open(env: &Env, dir: &Path, database_id: u64) -> Result<Self> {
        let dir = env.fs.absolute(dir).map_err(|error| Error::io("find", dir, error))?;
        let entries = env.fs.list(&dir).map_err(|error| Error::io("list", &dir, error))?;
        if !entries.iter().any(|entry| entry.name == files::CURRENT) {
            return Err(files::no_database(&dir));
        }
        let made_lock = !entries.iter().any(|entry| entry.name == files::LOCK);
        let lock = Some(lock_file(env, &dir)?);
        let (tables, equal_runs) = (BTreeMap::new(), BTreeSet::new());
        let mut base = Self { env: env.clone(), dir, tables, equal_runs, lock, made_lock };
        let Some((catalog, _)) = Manifest::load(env, &base.dir)? else { return Err(files::no_database(&base.dir)) };
        if catalog.database_id != database_id {
            let message = format!("{}: it is no checkpoint of this database", base.dir.display());
            return Err(Error::invalid(message));
        }
        base.tables = catalog.tables;
        Ok(base)
    }

    /// Links an equal run to `to`; false when there is none, or it cannot be linked.
    pub(crate) fn link_run(&mut self, id: FileId, meta: &RunMeta, original: &Path, to: &Path) -> Result<bool> {
        let path = FileKind::Run.path(&self.dir, id);
        let Some(ours) = self.footer(&path, meta.bytes)? else { return Ok(false) };
        if self.footer(original, meta.bytes)?.as_ref() != Some(&ours) || !self.link(&path, to)? {
            return Ok(false);
        }
        self.equal_runs.insert(id);
        Ok(true)
    }

    /// Links an equal value file to `to`, to which these runs refer; false as for runs, of which all come before.
    pub(crate) fn link_values(
        &self,
        id: FileId,
        mut runs: impl Iterator<Item = FileId>,
        bytes: u64,
        to: &Path,
    ) -> Result<bool> {
        let path = FileKind::Values.path(&self.dir, id);
        Ok(runs.any(|run| self.equal_runs.contains(&run)) && self.len(&path)? == Some(bytes) && self.link(&path, to)?)
    }

    /// Links an equal B-tree to `to`; false as for runs.
    pub(crate) fn link_tree(&self, table: TableId, id: FileId, meta: &TreeMeta, to: &Path) -> Result<bool> {
        let is_equal = |(file, root): &(FileId, TreeMeta)| *file == id && root == meta;
        if !self.tables.get(&table).and_then(|table| table.tree.as_ref()).is_some_and(is_equal) {
            return Ok(false);
        }
        let path = FileKind::Tree.path(&self.dir, id);
        if self.len(&path)?.is_none() || !self.link(&path, to)? {
            return Ok(false);
        }
        // Where it does not show that the file is shared, the next database that opens it would not know.
        if self.env.fs.link_count(to).is_ok_and(|count| count > 1) {
            return Ok(true);
        }
        self.env.fs.remove(to).map_err(|error| Error::io("remove", to, error))?;
        Ok(false)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<bool> {
        match self.env.fs.hard_link(from, to) {
            Ok(()) => Ok(true),
            Err(error) if cannot_link(&error) => Ok(false),
            Err(error) => Err(Error::io("link", to, error)),
        }
    }

    /// The footer of a run of this length; none when there is no such file.
    fn footer(&self, path: &Path, bytes: u64) -> Result<Option<[u8; FOOTER_BYTES]>> {
        if self.len(path)? != Some(bytes) || usize_of(bytes) < FOOTER_BYTES {
            return Ok(None);
        }
        let mut footer = [0; FOOTER_BYTES];
        let file = open_file(&self.env, path, Access::Read)?;
        let read = file.read_at(&mut footer, bytes - u64_of(FOOTER_BYTES));
        let read = read.map_err(|error| Error::io("read", path, error))?;
        Ok((read == FOOTER_BYTES).then_some(footer))
    }

    /// The length of a file; none when there is no such file.
    fn len(&self, path: &Path) -> Result<Option<u64>> {
        match self.env.fs.open(path, OpenOptions { access: Access::Read, direct: false }) {
            Ok(file) => file.len().map(Some).map_err(|error| Error::io("read", path, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("open", path, error)),
        }
    }
}

impl Drop for CheckpointBase {
    fn drop(&mut self) {
        if self.made_lock {
            // As long as it is locked, so that it is nobody else's.
            drop(self.env.fs.remove(&self.dir.join(files::LOCK)));
        }
        drop(self.lock.take());
    }
}
