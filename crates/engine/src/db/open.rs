//! Opening: lock, sync, manifest, trees, then the log.
//!
//! # Recovery
//! 1. The lock is taken; a second process is refused.
//! 2. Every live file and the directory are synced before anything is read, so that no decision rests on bytes that a
//!    power failure could still take back.
//! 3. The manifest in force is read, the log's directory is found (`db/log_place.rs`), the trees that it names are
//!    opened, and a new manifest that says the same is put in force.
//! 4. The log is replayed into memtables (`db/recover.rs`), which are flushed on the way when memory asks for it.
//! 5. The log goes on in a new segment. What the manifest does not name is removed only now, unless the disk was too
//!    full for the new manifest: then it goes earlier, and with it the log's spare segments, which the durable manifest
//!    in force does not name either.
//!
//! Where the disk has no room for the manifest or the segment, both are left to the first write that finds it
//! (`db/finish.rs`).
//!
//! A crash at any point leaves a state from which the same steps lead to the same result.

use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use crate::base::sync::{Mutex, RwLock};

use crate::base::{Error, ErrorKind, FileId, Result, SeqNum, TableId};
use crate::cache::Cache;
use crate::env::{Access, DatabaseFiles, DirEntry, Env, FileLock, OpenOptions};
use crate::store::StoreStats;
use crate::table::Level;
use crate::table::catalog::Catalog;
use crate::table::edit::Edit;
use crate::table::files::{self, FileKind};
use crate::table::manifest::Manifest;
use crate::table::record::{RunRecord, TableRecord};
use crate::table::{RunHandle, Trees};
use crate::tree::btree::BTree;
use crate::tree::run::Run;
use crate::tree::values::{ValueFile, ValueFiles};
use crate::txn::publish::Publisher;
use crate::txn::snapshots::Snapshots;

use super::core::{CommitState, Core, Ledger, Registered, TableState, Tables, identity};
use super::database::OnReplay;
use super::finish::Unfinished;
use super::health::Health;
use super::log_place::LogPlace;
use super::memory::Memory;
use super::options::Options;
use super::room::Room;
use super::space::Space;
use super::stats::Counters;
use super::tables::tree_options;
use super::turns::Turns;

/// Seqnums that an open leaves unused above those it has seen: more than could have been given out and lost in a crash.
pub(super) const SEQNUM_GAP: u64 = 1 << 32;

/// What the builder hands over beside the options.
pub(crate) struct Parts<'a> {
    /// The database is created where there is none.
    pub(crate) create: bool,
    pub(crate) registered: Registered,
    pub(crate) on_replay: Option<&'a OnReplay>,
}

/// More room than this that earlier opens left in the log is given back by a flush, if it is the larger part of the
/// log.
const ROOM_LEFT_BYTES_MAX: u64 = 16 << 20;

/// Opens or creates the database in `path`.
pub(crate) fn open(env: Env, path: &Path, options: Options, parts: Parts<'_>) -> Result<Core> {
    options.check()?;
    let (env, files) = DatabaseFiles::of(env)?;
    let dir = env.fs.absolute(path).map_err(|error| Error::io("find", path, error))?;
    // Before the lock, whose file would be the first of ours in a directory of somebody else.
    check_place(&dir, &list_or_create(&env, &dir, parts.create)?, parts.create)?;
    let lock = lock_file(&env, &dir)?;
    let entries = env.fs.list(&dir).map_err(|error| Error::io("list", &dir, error))?;
    sync_all(&env, &dir, &entries)?;
    let (mut catalog, log_place) = load_catalog(&env, &dir, &options)?;
    let manifest_id = unused_file(&catalog, &entries);
    catalog.next_file = FileId(manifest_id.0 + 1);
    let opener = Opener {
        env: &env,
        dir: &dir,
        options: &options,
        registered: &parts.registered,
        database_id: catalog.database_id,
        cache: Arc::new(Cache::new(Memory::new(options.memory_bytes).cache_bytes())),
        stats: Arc::new(StoreStats::default()),
    };
    let tables = opener.tables(&catalog)?;
    let (cache, store_stats) = (opener.cache, opener.stats);
    let exists = entries.iter().any(|entry| entry.name == files::CURRENT);
    let manifest = match create_manifest(&env, &dir, manifest_id, &mut catalog, &entries, &log_place.dir) {
        // What there is can be read under the one that is in force.
        Err(error) if error.kind() == ErrorKind::Full && exists => None,
        created => Some(created?),
    };
    let core = Core {
        dir,
        registered: parts.registered,
        database_id: catalog.database_id,
        cache,
        store_stats,
        log_place,
        log: OnceLock::new(),
        replayed_to: AtomicU64::new(catalog.log_from.0),
        health: Arc::new(Health::new(env.threads.origin())),
        unfinished: Mutex::default(),
        memory: Memory::new(options.memory_bytes),
        space: Space::default(),
        turns: Turns::default(),
        counters: Counters::default(),
        snapshots: Snapshots::default(),
        publisher: Publisher::default(),
        next_file: AtomicU64::new(catalog.next_file.0),
        log_from: AtomicU64::new(catalog.log_from.0),
        frozen_for_log: AtomicU64::new(0),
        flush_gate: Mutex::new(()),
        commit: Mutex::new(CommitState::new(catalog.seqnum_floor)),
        tables: RwLock::new(tables),
        ledger: Mutex::new(Ledger { catalog, manifest }),
        room: Room::default(),
        open_transactions: AtomicUsize::new(0),
        erasures_wait: AtomicBool::new(false),
        interval_pending: AtomicBool::new(false),
        interval_due: Mutex::default(),
        loading: Mutex::default(),
        left_behind: Mutex::new(Vec::new()),
        workers: OnceLock::new(),
        lock: Mutex::new(Some(lock)),
        env,
        files,
        options,
    };
    let recovered = core.recover(parts.on_replay)?;
    core.end_open(Unfinished { recovered, entries }, exists)?;
    Ok(core)
}

/// An id that no file has and none had.
fn unused_file(catalog: &Catalog, entries: &[DirEntry]) -> FileId {
    let highest = entries.iter().filter_map(|entry| files::parse(&entry.name)).map(|(_, id)| id.0).max();
    FileId(catalog.next_file.0.max(highest.map_or(0, |highest| highest + 1)))
}

/// The catalog, a new one for a new database, and where the redo log is.
fn load_catalog(env: &Env, dir: &Path, options: &Options) -> Result<(Catalog, LogPlace)> {
    let advise = |error: Error| match error.kind() {
        ErrorKind::Corruption => error
            .advice(format_args!("to go on with its copy or another manifest, run spinney salvage {}", dir.display())),
        _ => error,
    };
    if let Some((catalog, _)) = Manifest::load(env, dir).map_err(advise)? {
        catalog.check_built()?;
        let place = LogPlace::find(env, dir, options, &catalog)?;
        return Ok((catalog, place));
    }
    let mut catalog = new_catalog(env, dir)?;
    let place = LogPlace::create(env, dir, options, &mut catalog)?;
    Ok((catalog, place))
}

/// What opening trees needs.
struct Opener<'a> {
    env: &'a Env,
    dir: &'a Path,
    options: &'a Options,
    registered: &'a Registered,
    database_id: u64,
    cache: Arc<Cache>,
    stats: Arc<StoreStats>,
}

impl Opener<'_> {
    fn tables(&self, catalog: &Catalog) -> Result<Tables> {
        let open =
            |(id, record): (&TableId, &TableRecord)| Ok((record.name.clone(), Arc::new(self.table(*id, record)?)));
        catalog.tables.iter().map(open).collect()
    }

    fn table(&self, id: TableId, record: &TableRecord) -> Result<TableState> {
        let values = self.values(record)?;
        let range_tombstones = Arc::clone(&record.range_tombstones);
        let mut trees = Trees { l0: self.runs(&record.l0, &values)?, range_tombstones, ..Trees::default() };
        for (level, runs) in trees.levels.iter_mut().zip(&record.levels) {
            *level = Level::new(self.runs(runs, &values)?);
        }
        trees.values = values;
        let mut btree = None;
        if let Some((file, meta)) = &record.tree {
            let path = FileKind::Tree.path(self.dir, *file);
            let options = tree_options(&record.options, self.options.direct_io);
            let seed = identity(self.database_id, *file);
            let tree =
                BTree::open(self.env, &path, seed, options, *meta, Arc::clone(&self.cache), Arc::clone(&self.stats))?;
            trees.btree = Some(tree.root());
            btree = Some((*file, tree));
        }
        let (name, options) = (record.name.clone(), record.options.clone());
        Ok(TableState::new(id, name, options, self.registered, trees, btree, record.seqnum_to_time.clone()))
    }

    fn values(&self, record: &TableRecord) -> Result<ValueFiles> {
        let open = |id: FileId| {
            let path = FileKind::Values.path(self.dir, id);
            let (seed, direct) = (identity(self.database_id, id), self.options.direct_io);
            ValueFile::open(self.env, &path, id, seed, direct, Arc::clone(&self.cache), Arc::clone(&self.stats))
        };
        record.values().into_iter().map(open).collect::<Result<_>>().map(ValueFiles::new)
    }

    fn runs(&self, records: &[RunRecord], values: &ValueFiles) -> Result<Vec<RunHandle>> {
        let open = |record: &RunRecord| {
            let path = FileKind::Run.path(self.dir, record.id);
            let (seed, direct) = (identity(self.database_id, record.id), self.options.direct_io);
            let (cache, stats) = (Arc::clone(&self.cache), Arc::clone(&self.stats));
            let run = Run::open(self.env, &path, seed, direct, record.meta.clone(), cache, stats)?;
            run.refer_to(values)?;
            Ok(RunHandle { id: record.id, run })
        };
        records.iter().map(open).collect()
    }
}

impl Core {
    /// Lets seqnums go on above all that were ever given out, and gives up the log that recovery found nothing in to
    /// keep.
    pub(super) fn begin(&self) -> Result<()> {
        let log_from = self.log_needed_from(&[]);
        let mut commit = self.commit.lock();
        let mut ledger = self.ledger.lock();
        let seqnum_floor = SeqNum(commit.next_seqnum.0.max(1) + SEQNUM_GAP);
        self.record(&mut ledger, &Edit::Opened { seqnum_floor, log_from })?;
        commit.next_seqnum = SeqNum(commit.next_seqnum.0.max(1));
        drop((ledger, commit));
        self.release_log(log_from)?;
        self.rotate_after_short_sessions();
        Ok(())
    }

    /// Freezes what was replayed when it keeps a log that is mostly room: each open begins a segment, so many short
    /// ones leave many behind with little in them. The first thing that the flush worker does is to flush it.
    fn rotate_after_short_sessions(&self) {
        let (kept, left) = self.log().room_left_behind();
        if left > ROOM_LEFT_BYTES_MAX && left > kept / 2 {
            for table in self.all_tables().iter().filter(|table| table.options.logged) {
                self.rotate(&mut self.commit.lock(), table);
            }
        }
    }
}

/// The names in the directory, which is created when there is none and that is allowed.
fn list_or_create(env: &Env, dir: &Path, create: bool) -> Result<Vec<DirEntry>> {
    match env.fs.list(dir) {
        Ok(entries) => Ok(entries),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && create => {
            env.fs.create_dir_all(dir).map_err(|error| Error::io("create directory", dir, error))?;
            Ok(Vec::new())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(files::no_database(dir)),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            Err(Error::invalid(format!("{} is not a directory: a database is a directory", dir.display())))
        }
        Err(error) => Err(Error::io("list", dir, error)),
    }
}

/// Takes the lock of the database in `dir`.
pub(super) fn lock_file(env: &Env, dir: &Path) -> Result<Box<dyn FileLock>> {
    let path = dir.join(files::LOCK);
    env.fs.lock(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            Error::new(ErrorKind::Locked, format!("{}: the database is open in another process", dir.display()))
        }
        _ => Error::io("lock", &path, error),
    })
}

/// Makes durable what a process that died may have left in the page cache.
pub(super) fn sync_all(env: &Env, dir: &Path, entries: &[DirEntry]) -> Result<()> {
    for entry in entries.iter().filter(|entry| entry.name == files::CURRENT || files::parse(&entry.name).is_some()) {
        let path = dir.join(&entry.name);
        let file = env.fs.open(&path, OpenOptions { access: Access::Read, direct: false });
        file.and_then(|file| file.sync()).map_err(|error| Error::io("sync", &path, error))?;
    }
    env.fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))
}

/// Refuses a directory that has no database, unless one may be created and nothing else is there but what a crash
/// during creation can leave.
fn check_place(dir: &Path, entries: &[DirEntry], create: bool) -> Result<()> {
    if entries.iter().any(|entry| entry.name == files::CURRENT) {
        return Ok(());
    }
    // The log and the trees come after the first `CURRENT` is durable.
    let of_database = |entry: &&DirEntry| {
        (create && entry.is_dir && entry.name == files::LOG_DIR)
            || matches!(files::parse(&entry.name), Some((FileKind::Run | FileKind::Values | FileKind::Tree, _)))
    };
    if let Some(entry) = entries.iter().find(of_database) {
        let what = format!("the file is missing, though the directory holds '{}' of a database", entry.name);
        return Err(Error::corruption(&dir.join(files::CURRENT), 0, what));
    }
    if !create {
        return Err(files::no_database(dir));
    }
    let left_by_crash = |entry: &DirEntry| {
        [files::LOCK, files::CURRENT_NEW].contains(&entry.name.as_str())
            || is_lost_and_found(entry)
            || is_of_manifest(&entry.name)
    };
    if let Some(stranger) = entries.iter().find(|entry| !left_by_crash(entry)) {
        let message = format!(
            "{}: the directory holds '{}' and no database: give an empty or new directory",
            dir.display(),
            stranger.name
        );
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Whether an entry is of the file system itself, and none of anybody's files.
pub(super) fn is_lost_and_found(entry: &DirEntry) -> bool {
    entry.is_dir && entry.name == files::LOST_AND_FOUND
}

/// Makes the name of a directory, and of those above it, durable.
pub(super) fn sync_above(env: &Env, dir: &Path) -> Result<()> {
    for above in dir.ancestors().skip(1) {
        match env.fs.sync_dir(above) {
            Err(error) if error.kind() != std::io::ErrorKind::PermissionDenied => {
                return Err(Error::io("sync", above, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The catalog of a new database, in a directory whose name is durable.
fn new_catalog(env: &Env, dir: &Path) -> Result<Catalog> {
    // A process that died may have made the directory, and those above it, and not have synced them.
    sync_above(env, dir)?;
    Ok(Catalog { database_id: env.random.next(), next_table: TableId(1), next_file: FileId(1), ..Catalog::default() })
}

/// Puts a new manifest in force that says what the old one did. On a full disk it first gives back what the old one
/// does not name.
fn create_manifest(
    env: &Env,
    dir: &Path,
    id: FileId,
    catalog: &mut Catalog,
    entries: &[DirEntry],
    log_dir: &Path,
) -> Result<Manifest> {
    match Manifest::create(env, dir, id, catalog) {
        Err(error) if error.kind() == ErrorKind::Full => {}
        other => return other,
    }
    if let Some(old) = Manifest::in_force(env, dir)?.filter(|old| *old != id) {
        Manifest::give_reserve_back(env, dir, old)?;
    }
    for entry in entries.iter().filter(|entry| is_stranger(entry, catalog)) {
        let is_old_manifest = is_of_manifest(&entry.name);
        if !is_old_manifest {
            drop(env.fs.remove(&dir.join(&entry.name)));
        }
    }
    // What failed may have been the sync of the directory, when the switch was made already: then this one goes when
    // the next is in force.
    let failed = id;
    let is_in_force = Manifest::in_force(env, dir)? == Some(id);
    if !is_in_force {
        Manifest::remove(env, dir, failed);
    }
    crate::log::remove_spares(env, log_dir);
    let id = catalog.next_file;
    catalog.next_file = FileId(id.0 + 1);
    let manifest = Manifest::create(env, dir, id, catalog);
    let current = Manifest::in_force(env, dir)?;
    if is_in_force && current == Some(id) {
        Manifest::remove(env, dir, failed);
    } else if current.is_some_and(|current| current != id) {
        Manifest::remove(env, dir, id);
    }
    manifest
}

/// Removes the files of ours that the manifest does not name: what a flush, compaction or drop left behind when the
/// process died.
pub(super) fn remove_strangers(core: &Core, entries: &[DirEntry]) {
    let ledger = core.ledger.lock();
    let in_force = ledger.manifest.as_ref().map(Manifest::id);
    let is_in_force = |name| is_of_manifest(name) && files::parse(name).map(|(_, id)| id) == in_force;
    for entry in entries.iter().filter(|entry| !is_in_force(&entry.name) && is_stranger(entry, &ledger.catalog)) {
        core.remove(&core.dir.join(&entry.name));
    }
}

/// Whether a file is one of the two of a manifest.
fn is_of_manifest(name: &str) -> bool {
    matches!(files::parse(name), Some((FileKind::Manifest | FileKind::ManifestCopy, _)))
}

/// Whether a file is one of ours that the catalog does not name, as it names no manifest.
fn is_stranger(entry: &DirEntry, catalog: &Catalog) -> bool {
    files::parse(&entry.name).is_some_and(|(kind, id)| !is_named(kind, id, catalog))
}

/// Whether the catalog names a file. It names no manifest.
pub(super) fn is_named(kind: FileKind, id: FileId, catalog: &Catalog) -> bool {
    catalog.tables.values().any(|table| match kind {
        FileKind::Manifest | FileKind::ManifestCopy => false,
        FileKind::Run => table.runs().any(|run| run.id == id),
        FileKind::Values => table.values().contains(&id),
        FileKind::Tree => table.tree.as_ref().is_some_and(|(file, _)| *file == id),
    })
}
