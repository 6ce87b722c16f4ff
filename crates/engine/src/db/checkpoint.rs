//! The checkpoint: a durable copy of the database as of one moment, made while writes go on.
//!
//! Under the flush gate, all memtables are frozen at one position of the log and flushed; until the gate opens nothing newer reaches
//! the trees. The trees of that moment are the copy. Runs are linked; a B-tree's file is copied while its root is held, which keeps
//! every block that the root reaches.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, Lsn, Result};
use crate::env::{Access, OpenOptions};
use crate::table::Version;
use crate::table::catalog::{Catalog, TableRecord};
use crate::table::files::FileKind;
use crate::table::manifest::Manifest;

use super::core::Core;

const COPY_BYTES: usize = 1 << 20;

impl Core {
    /// Copies the database to the new directory `dir`.
    pub(crate) fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.health.check_writable()?;
        let dir = &self.env.fs.absolute(dir).map_err(|error| Error::io("find", dir, error))?;
        match self.env.fs.list(dir) {
            Ok(entries) if !entries.is_empty() => {
                return Err(Error::invalid(format!("{}: the directory is not empty: give a new one", dir.display())));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("list", dir, error)),
            _ => {}
        }
        self.env.fs.create_dir_all(dir).map_err(|error| Error::io("create directory", dir, error))?;
        // The versions hold the B-trees' roots until their files are copied.
        let (mut catalog, versions) = self.link_runs(dir)?;
        for table in catalog.tables.values() {
            if let Some((file, _)) = &table.tree {
                self.copy(&FileKind::Tree.path(&self.dir, *file), &FileKind::Tree.path(dir, *file))?;
            }
        }
        drop(versions);
        // The copy has no log: everything is in its trees.
        catalog.log_from = Lsn(0);
        let forget_log = |table: &mut TableRecord| table.replay_from = Lsn(0);
        catalog.tables.values_mut().for_each(forget_log);
        let id = self.new_file();
        catalog.next_file = catalog.next_file.max(crate::base::FileId(id.0 + 1));
        Manifest::create(&self.env, dir, id, &catalog).map(drop)
    }

    /// Brings everything to the trees as of one moment and links their runs.
    fn link_runs(&self, dir: &Path) -> Result<(Catalog, Vec<Arc<Version>>)> {
        let _gate = self.flush_gate.lock();
        {
            let mut commit = self.commit.lock();
            for table in self.all_tables() {
                self.rotate(&mut commit, &table);
            }
        }
        for table in self.all_tables() {
            self.flush_gated(&table)?;
        }
        // Under the ledger no compaction removes a run.
        let ledger = self.ledger.lock();
        let catalog = ledger.catalog.clone();
        for run in catalog.tables.values().flat_map(TableRecord::runs) {
            let (from, to) = (FileKind::Run.path(&self.dir, run.id), FileKind::Run.path(dir, run.id));
            match self.env.fs.hard_link(&from, &to) {
                Ok(()) => {}
                Err(error) if [io::ErrorKind::CrossesDevices, io::ErrorKind::Unsupported].contains(&error.kind()) => {
                    self.copy(&from, &to)?;
                }
                Err(error) => return Err(Error::io("link", &to, error)),
            }
        }
        let versions = self.all_tables().iter().map(|table| table.version.load_full()).collect();
        Ok((catalog, versions))
    }

    /// Copies a file durably.
    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let open = |path: &Path, access| {
            self.env
                .fs
                .open(path, OpenOptions { access, direct: false })
                .map_err(|error| Error::io("open", path, error))
        };
        let source = open(from, Access::Read)?;
        let target = open(to, Access::CreateNew)?;
        let bytes = source.len().map_err(|error| Error::io("read", from, error))?;
        let mut buffer = vec![0; usize_of(bytes.min(u64_of(COPY_BYTES)))];
        let mut at = 0;
        while at < bytes {
            let read = source.read_at(&mut buffer, at).map_err(|error| Error::io("read", from, error))?;
            if read == 0 {
                break;
            }
            target.write_at(&buffer[..read], at).map_err(|error| Error::io("write", to, error))?;
            at += u64_of(read);
        }
        target.sync().map_err(|error| Error::io("sync", to, error))
    }
}
