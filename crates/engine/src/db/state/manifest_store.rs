//! The manifest and the catalog that it tells of, under one latch: an edit is durable before the catalog has it, and
//! its maker shows it to readers before it lets go of the latch.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::sync::{Mutex, MutexGuard};
use crate::base::{Error, ErrorKind, FileId, Lsn, Result, SeqNum, TableId};
use crate::env::Env;
use crate::table::catalog::Catalog;
use crate::table::edit::Edit;
use crate::table::files::FileKind;
use crate::table::manifest::Manifest;

use super::files::DataFiles;
use super::health::Health;

/// Seqnums that an open leaves unused above those it has seen: more than could have been given out and lost in a crash.
pub(crate) const SEQNUM_GAP: u64 = 1 << 32;

/// What the database durably consists of.
#[derive(Debug)]
pub(crate) struct ManifestStore {
    env: Env,
    dir: PathBuf,
    health: Arc<Health>,
    files: Arc<DataFiles>,
    stored: Mutex<Stored>,
}

#[derive(Debug)]
struct Stored {
    catalog: Catalog,
    /// `None` after the database was closed.
    manifest: Option<Manifest>,
}

/// The manifest store, locked: nobody else changes what the database consists of.
#[derive(Debug)]
pub(crate) struct ManifestGuard<'a> {
    store: &'a ManifestStore,
    stored: MutexGuard<'a, Stored>,
}

impl ManifestStore {
    /// Of a manifest that is in force and says what `catalog` does.
    pub(crate) fn new(
        (env, dir): (Env, PathBuf),
        health: Arc<Health>,
        files: Arc<DataFiles>,
        (catalog, manifest): (Catalog, Manifest),
    ) -> Self {
        Self { env, dir, health, files, stored: Mutex::new(Stored { catalog, manifest: Some(manifest) }) }
    }

    pub(crate) fn lock(&self) -> ManifestGuard<'_> {
        ManifestGuard { store: self, stored: self.stored.lock() }
    }
}

impl ManifestGuard<'_> {
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.stored.catalog
    }

    /// The manifest in force; `None` after the database was closed.
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.stored.manifest.as_ref()
    }

    /// The position from which the log of a table is replayed.
    pub(crate) fn replay_from(&self, table: TableId) -> Lsn {
        self.stored.catalog.tables[&table].replay_from
    }

    /// As [`Self::record`], of several edits: all are durable, or none.
    pub(crate) fn record_all(&mut self, mut edits: Vec<Edit>) -> Result<()> {
        match edits.len() {
            0 => Ok(()),
            1 => self.record(&edits.remove(0)),
            _ => self.record(&Edit::Many(edits)),
        }
    }

    /// Makes an edit durable. The caller shows what the edit tells of before it lets go of the guard.
    pub(crate) fn record(&mut self, edit: &Edit) -> Result<()> {
        self.store.health.check_in_use()?;
        let Stored { catalog, manifest } = &mut *self.stored;
        let manifest = manifest.as_mut().expect("a database in use has a manifest");
        manifest.append(edit)?;
        catalog.apply(edit).expect("an edit that this database makes fits its catalog");
        if !manifest.is_long() {
            return Ok(());
        }
        match self.rewrite() {
            // The edit is durable, and the manifest in force may be longer.
            Err(error) if error.is_unchanged() => {
                self.stored.manifest.iter_mut().for_each(Manifest::stay_long);
                Ok(())
            }
            rewritten => rewritten,
        }
    }

    /// Puts a manifest in force that says the same in one record. An error that is unchanged leaves the one before in
    /// force.
    pub(crate) fn rewrite(&mut self) -> Result<()> {
        let files = &self.store.files;
        let id = files.new_id();
        let Stored { catalog, manifest } = &mut *self.stored;
        catalog.next_file = FileId(id.0 + 1).max(catalog.next_file);
        let created = files.leases().switch(id, || Manifest::create(&self.store.env, &self.store.dir, id, catalog));
        let created = created.map_err(|error| self.store.remove_failed(id, error))?;
        if let Some(old) = manifest.replace(created) {
            [FileKind::Manifest, FileKind::ManifestCopy].iter().for_each(|kind| files.remove(*kind, old.id()));
        }
        Ok(())
    }

    /// Keeps the floor of the next open above the seqnums that reach the trees: once they have, the log does not tell
    /// of them any more.
    pub(crate) fn raise_seqnum_floor(&mut self, next: SeqNum) -> Result<()> {
        if next.0 + SEQNUM_GAP / 2 <= self.stored.catalog.seqnum_floor.0 {
            return Ok(());
        }
        let log_from = self.stored.catalog.log_from;
        self.record(&Edit::Opened { seqnum_floor: SeqNum(next.0 + SEQNUM_GAP), log_from })
    }

    /// Closes the manifest: nothing is recorded any more.
    pub(crate) fn close(&mut self) {
        self.stored.manifest = None;
    }
}

impl ManifestStore {
    /// Removes what a lack of space or descriptors left of a manifest that could not be put in force; what is to be
    /// said of it.
    fn remove_failed(&self, id: FileId, error: Error) -> Error {
        // What failed may have been the sync of the directory, when the switch was made already.
        let is_other_in_force = || {
            Manifest::in_force(&self.env, &self.dir).is_ok_and(|current| current.is_some_and(|current| current != id))
        };
        if !error.is_unchanged() && (error.kind() != ErrorKind::Full || !is_other_in_force()) {
            return error;
        }
        Manifest::remove(&self.env, &self.dir, id);
        error.unchanged()
    }
}
