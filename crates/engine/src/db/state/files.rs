//! The data files of the database: their ids and identities, how they are made and opened, and how files that the
//! manifest no longer names are removed.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::sync::Mutex;
use crate::base::{Error, FileId, Result};
use crate::block::Compression;
use crate::cache::Cache;
use crate::env::{Access, DatabaseFiles, Env};
use crate::store::{BlockFile, StoreStats};
use crate::table::catalog::Catalog;
use crate::table::files::FileKind;
use crate::table::record::RunRecord;
use crate::table::{RunHandle, TableOptions};
use crate::tree::btree::{BTree, TreeMeta, TreeOptions, TreeRoot};
use crate::tree::run::{Run, RunBuilder, RunMeta, RunOptions};
use crate::tree::values::{ValueBuilder, ValueFile, ValueFiles};

use super::directory::{NamedFiles, identity};
use super::leases::Leases;

/// The data files of an open database.
#[derive(Debug)]
pub(crate) struct DataFiles {
    /// Its files are `open`.
    env: Env,
    /// All files of this open, so that they can be closed at once.
    open: Arc<DatabaseFiles>,
    dir: PathBuf,
    database_id: u64,
    direct_io: bool,
    cache: Arc<Cache>,
    stats: Arc<StoreStats>,
    /// The next file id; ids are never reused.
    next: AtomicU64,
    /// Files that bulk loads are writing, which the manifest does not name yet. An id enters before its file is
    /// created, and leaves after the file was named or removed.
    pending: Mutex<BTreeSet<FileId>>,
    /// Files that the manifest no longer names and that the background removes, each with the manifest in force when it
    /// was unnamed.
    later: Mutex<Vec<(FileKind, FileId, FileId)>>,
    /// What the manifest no longer names and what could not be given back yet.
    obsolete: Mutex<Obsolete>,
    leases: Arc<Leases>,
}

/// The most files that a caller removes itself, and that the background removes at a time.
const REMOVED_AT_ONCE: usize = 32;

/// What goes when no reader in another process needs it: each with the manifest in force when it was unnamed.
#[derive(Debug, Default)]
struct Obsolete {
    files: Vec<(FileKind, FileId, FileId)>,
    /// Roots of B-trees, whose blocks are not overwritten while they are here.
    roots: Vec<(Arc<TreeRoot>, FileId)>,
}

impl DataFiles {
    pub(crate) fn new(
        (env, open): (Env, Arc<DatabaseFiles>),
        dir: PathBuf,
        (database_id, next): (u64, FileId),
        direct_io: bool,
        cache: Arc<Cache>,
        leases: Arc<Leases>,
    ) -> Self {
        let (pending, later, obsolete, next) =
            (Mutex::default(), Mutex::default(), Mutex::default(), AtomicU64::new(next.0));
        let stats = Arc::default();
        Self { env, open, dir, database_id, direct_io, cache, stats, next, pending, later, obsolete, leases }
    }

    /// What readers in other processes keep.
    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    pub(crate) fn database_id(&self) -> u64 {
        self.database_id
    }

    pub(crate) fn stats(&self) -> &StoreStats {
        &self.stats
    }

    /// An id that no file had before.
    pub(crate) fn new_id(&self) -> FileId {
        FileId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Gives out no id before `next`.
    pub(crate) fn skip_ids(&self, next: FileId) {
        self.next.fetch_max(next.0, Ordering::Relaxed);
    }

    fn path(&self, kind: FileKind, id: FileId) -> PathBuf {
        kind.path(&self.dir, id)
    }

    fn identity(&self, id: FileId) -> u64 {
        identity(self.database_id, id)
    }

    /// Begins a run.
    pub(crate) fn create_run(&self, id: FileId, options: RunOptions) -> Result<RunBuilder> {
        let (path, stats) = (self.path(FileKind::Run, id), Arc::clone(&self.stats));
        let options = RunOptions { direct: self.direct_io, ..options };
        RunBuilder::create(&self.env, &path, self.identity(id), options, stats)
    }

    /// Opens a run that the manifest names; with `is_unread`, without a look at its file before it is first used.
    pub(crate) fn open_run(&self, record: &RunRecord, values: &ValueFiles, is_unread: bool) -> Result<RunHandle> {
        let (path, identity) = (self.path(FileKind::Run, record.id), self.identity(record.id));
        let (cache, stats) = (Arc::clone(&self.cache), Arc::clone(&self.stats));
        let (meta, access) = (record.meta.clone(), Access::Read);
        let file = BlockFile::open_lazily(&self.env, &path, identity, access, self.direct_io, stats)?;
        let run = if is_unread { Run::unread(file, meta, cache) } else { Run::of(file, meta, cache)? };
        run.refer_to(values)?;
        Ok(RunHandle { id: record.id, run })
    }

    /// Opens a run that was just written; `instance` is the number under which the cache knows its file. With
    /// `is_unread`, nothing of it is read before it is first used.
    pub(crate) fn open_new_run(&self, id: FileId, instance: u64, meta: RunMeta, is_unread: bool) -> Result<RunHandle> {
        let file = self.new_file(FileKind::Run, id)?.as_instance(instance);
        if is_unread {
            return Ok(RunHandle { id, run: Run::unread(file, meta, Arc::clone(&self.cache)) });
        }
        file.touch()?;
        Ok(RunHandle { id, run: Run::of(file, meta, Arc::clone(&self.cache))? })
    }

    /// A file that was just written, for reading.
    fn new_file(&self, kind: FileKind, id: FileId) -> Result<BlockFile> {
        let (path, stats) = (self.path(kind, id), Arc::clone(&self.stats));
        BlockFile::open_lazily(&self.env, &path, self.identity(id), Access::Read, self.direct_io, stats)
    }

    /// Makes files and their names durable.
    pub(crate) fn sync_files(&self, names: &[String]) -> Result<()> {
        let synced = self.env.fs.sync_files(&self.dir, names);
        synced.map_err(|(path, error)| Error::io("sync", &path, error))?;
        self.stats.count_sync();
        Ok(())
    }

    /// Begins a value file.
    pub(crate) fn create_values(&self, id: FileId, compression: Compression) -> Result<ValueBuilder> {
        let (path, stats) = (self.path(FileKind::Values, id), Arc::clone(&self.stats));
        ValueBuilder::create(&self.env, &path, id, self.identity(id), compression, self.direct_io, stats)
    }

    /// Opens a value file, of which may be known how many bytes it has.
    pub(crate) fn open_values(&self, id: FileId, bytes: Option<u64>) -> Result<Arc<ValueFile>> {
        let (path, identity) = (self.path(FileKind::Values, id), self.identity(id));
        let (cache, stats) = (Arc::clone(&self.cache), Arc::clone(&self.stats));
        match bytes {
            None => ValueFile::open(&self.env, &path, id, identity, self.direct_io, cache, stats),
            Some(bytes) => ValueFile::untouched(&self.env, &path, (id, bytes), identity, self.direct_io, cache, stats),
        }
    }

    /// Opens a value file that was just written, as the cache knows it.
    pub(crate) fn open_new_values(&self, id: FileId, instance: u64) -> Result<Arc<ValueFile>> {
        let file = self.new_file(FileKind::Values, id)?;
        file.touch()?;
        ValueFile::of(file.as_instance(instance), id, Arc::clone(&self.cache))
    }

    /// Opens a B-tree that the manifest names, or is about to name; with `is_unread`, without a look at its file before
    /// it is first used.
    pub(crate) fn open_btree(
        &self,
        id: FileId,
        options: &TableOptions,
        meta: TreeMeta,
        is_unread: bool,
    ) -> Result<Arc<BTree>> {
        let (path, identity) = (self.path(FileKind::Tree, id), self.identity(id));
        let (cache, stats) = (Arc::clone(&self.cache), Arc::clone(&self.stats));
        let open = if is_unread { BTree::unread } else { BTree::open };
        open(&self.env, &path, identity, self.tree_options(options), meta, cache, stats)
    }

    fn tree_options(&self, options: &TableOptions) -> TreeOptions {
        let TableOptions { block_bytes, compression, .. } = *options;
        TreeOptions { block_bytes, compression, direct: self.direct_io }
    }

    /// Makes new names in the database's directory durable.
    pub(crate) fn sync_dir(&self) -> Result<()> {
        self.env.fs.sync_dir(&self.dir).map_err(|error| Error::io("sync", &self.dir, error))
    }

    /// Removes a file that the manifest does not name.
    pub(crate) fn remove(&self, kind: FileKind, id: FileId) {
        self.obsolete.lock().files.push((kind, id, self.leases.in_force()));
        self.remove_obsolete();
    }

    /// Removes files that the manifest does not name. If they are many, the background does: a file system that tells
    /// the device of each piece of free space takes milliseconds for a file.
    pub(crate) fn remove_many(&self, files: Vec<(FileKind, FileId)>) {
        if files.len() <= REMOVED_AT_ONCE {
            files.into_iter().for_each(|(kind, id)| self.remove(kind, id));
            return;
        }
        let in_force = self.leases.in_force();
        self.later.lock().extend(files.into_iter().map(|(kind, id)| (kind, id, in_force)));
    }

    /// Removes some of the files that were left to the background; whether there are more.
    pub(crate) fn remove_some(&self) -> bool {
        let mut later = self.later.lock();
        let rest = later.len().saturating_sub(REMOVED_AT_ONCE);
        let some = later.split_off(rest);
        let (is_last, is_none) = (later.is_empty(), some.is_empty());
        // Under both latches: who looks for unnamed files that are still there finds each in one of the two.
        self.obsolete.lock().files.extend(some);
        drop(later);
        if !is_none {
            self.remove_obsolete();
        }
        !is_last
    }

    /// Keeps the blocks of a root, which the manifest does not name any more, for readers in other processes.
    pub(crate) fn retire_root(&self, root: &Arc<TreeRoot>) {
        if !self.leases.held().is_empty() {
            self.keep_root(Arc::clone(root));
        }
    }

    /// Keeps the blocks of a root as long as a reader in another process may need them.
    pub(crate) fn keep_root(&self, root: Arc<TreeRoot>) {
        self.obsolete.lock().roots.push((root, self.leases.in_force()));
        self.leases.note_waiting();
    }

    /// Removes runs that the manifest does not name.
    pub(crate) fn remove_runs(&self, runs: impl IntoIterator<Item = FileId>) {
        runs.into_iter().for_each(|id| self.remove(FileKind::Run, id));
    }

    /// Removes value files to which nothing in the manifest refers.
    pub(crate) fn remove_values<'a>(&self, files: impl Iterator<Item = &'a Arc<ValueFile>>) {
        files.for_each(|file| self.remove(FileKind::Values, file.id()));
    }

    /// Removes runs that never became part of a table, or of one that was dropped, with all value files that they refer
    /// to.
    pub(crate) fn remove_output(&self, runs: &[RunHandle]) {
        self.remove_runs(runs.iter().map(|handle| handle.id));
        runs.iter().for_each(|handle| self.remove_values(handle.run.values().iter()));
    }

    /// Removes runs that did not become part of a table, with the value files that were written with them and not those
    /// that the table has already.
    pub(crate) fn remove_new(&self, runs: &[RunHandle], known: &ValueFiles) {
        self.remove_runs(runs.iter().map(|handle| handle.id));
        runs.iter().for_each(|handle| self.remove_values(handle.run.values().without(known)));
    }

    /// Removes what could not be removed before, and no reader in another process needs. The next open tries the rest
    /// again. Whether something is left for readers that was unnamed under the manifest in force: a reader that comes
    /// next would keep it too.
    pub(crate) fn remove_obsolete(&self) -> bool {
        let mut obsolete = self.obsolete.lock();
        let Obsolete { files, roots } = &mut *obsolete;
        if files.is_empty() && roots.is_empty() {
            return false;
        }
        // What is here was unnamed before this look.
        let (held, in_force) = (self.leases.held(), self.leases.in_force());
        files.retain(|&(kind, id, unnamed)| {
            let is_held = match kind {
                FileKind::Manifest | FileKind::ManifestCopy => held.keeps_manifest(id),
                FileKind::Run | FileKind::Values | FileKind::Tree => held.keeps_tree(id, unnamed),
            };
            let remove = || self.env.fs.remove(&self.path(kind, id));
            is_held || remove().is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
        });
        roots.retain(|(root, unnamed)| held.keeps_tree(root.named_from(), *unnamed));
        if held.is_empty() || files.is_empty() && roots.is_empty() {
            return false;
        }
        self.leases.note_waiting();
        let is_of_tree = |kind: FileKind| !matches!(kind, FileKind::Manifest | FileKind::ManifestCopy);
        let is_late = |unnamed: FileId| unnamed == in_force;
        files.iter().any(|(kind, _, unnamed)| is_of_tree(*kind) && is_late(*unnamed))
            || roots.iter().any(|(_, unnamed)| is_late(*unnamed))
    }

    /// A bulk load begins a file.
    pub(crate) fn begin_pending(&self, id: FileId) {
        self.pending.lock().insert(id);
    }

    /// The files of a bulk load are named by the manifest, or removed.
    pub(crate) fn end_pending(&self, is_ended: impl Fn(FileId) -> bool) {
        self.pending.lock().retain(|id| !is_ended(*id));
    }

    /// Calls `look` with the files that bulk loads are writing: none is begun or removed meanwhile.
    pub(crate) fn with_pending<T>(&self, look: impl FnOnce(&BTreeSet<FileId>) -> T) -> T {
        look(&self.pending.lock())
    }

    /// Removes what bulk loads have written that are not finished. The manifest names nothing more from now on.
    pub(crate) fn remove_pending(&self, catalog: &Catalog) {
        let (pending, named) = (std::mem::take(&mut *self.pending.lock()), NamedFiles::of(catalog));
        for id in pending {
            for kind in [FileKind::Run, FileKind::Values].into_iter().filter(|kind| !named.contain(*kind, id)) {
                // Each has one of the two, or none yet.
                drop(self.env.fs.remove(&self.path(kind, id)));
            }
        }
    }

    /// How many files have a descriptor of those that share a bounded number.
    #[cfg(test)]
    pub(in crate::db) fn descriptors(&self) -> usize {
        self.open.descriptors()
    }

    /// Closes all files of the database, whoever holds handles of them; later calls fail.
    pub(crate) fn close(&self) {
        self.open.revoke();
    }
}
