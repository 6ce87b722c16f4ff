//! Opening: lock, sync, manifest, trees, then the log.
//!
//! # Recovery
//! 1. The lock is taken; a second process is refused.
//! 2. The manifest's files, every file of a tree, and the directory are synced before anything is read, so that no
//!    decision rests on bytes that a power failure could still take back. The log's segments are synced by the replay,
//!    each before it is read.
//! 3. The manifest in force is read, the log's directory is found (`state/log_dir.rs`), B-trees that are shared with a
//!    checkpoint are copied (`own_trees.rs`), the trees that the manifest names are opened, and a new manifest that
//!    says the same is put in force. On a full disk what the old one does not name goes first, and with it the log's
//!    spare segments, which no manifest names.
//! 4. The log is replayed into memtables (`recovery.rs`), which are flushed on the way when memory asks for it.
//! 5. What is recovered becomes a database: the log goes on in a new segment, and what the manifest does not name is
//!    removed only now.
//!
//! A crash at any point, or an error, leaves a state from which the same steps lead to the same result.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::trace::span;
use crate::base::{Error, ErrorKind, FileId, Result, SeqNum, TableId};
use crate::cache::Cache;
use crate::db::commit::pipeline::CommitPipeline;
use crate::db::state::State;
use crate::db::state::counters::Counters;
use crate::db::state::directory::{NamedFiles, is_lost_and_found, is_of_manifest, lock_file, sync_above, sync_all};
use crate::db::state::events::Event;
use crate::db::state::files::DataFiles;
use crate::db::state::health::Health;
use crate::db::state::leases::Leases;
use crate::db::state::log_dir::LogDir;
use crate::db::state::manifest_store::{ManifestStore, SEQNUM_GAP};
use crate::db::state::options::Options;
use crate::db::state::registered::Registered;
use crate::db::state::tables::TableSet;
use crate::db::state::wakers::Wakers;
use crate::db::throttle::Throttle;
use crate::db::throttle::budget::WriteBudget;
use crate::env::{DatabaseFiles, DirEntry, Env, FileLock};
use crate::log::{LogHistory, LogOptions, LogWriter, ReplayMode};
use crate::table::catalog::Catalog;
use crate::table::edit::Edit;
use crate::table::files::{self, FileKind};
use crate::table::manifest::{Manifest, RESERVE_BYTES};
use crate::txn::publish::Publisher;
use crate::txn::snapshots::Snapshots;

use super::advice;
use super::core::Core;
use super::own_trees::own_trees;
use super::recovery::{OnReplay, Recovery, Replay};
use super::tree_opener::TreeOpener;

/// What the builder hands over beside the options.
pub(crate) struct Parts<'a> {
    /// The database is created where there is none.
    pub(crate) create: bool,
    pub(crate) registered: Registered,
    pub(crate) on_replay: Option<&'a OnReplay>,
}

/// If earlier opens left more unused bytes than this in the log's segments, and more than half of the log, a flush
/// gives them back.
const UNUSED_LOG_BYTES_MAX: u64 = 16 << 20;

/// Opens or creates the database in `path`.
pub(crate) fn open(env: Env, path: &Path, options: Options, parts: Parts<'_>) -> Result<Core> {
    options.check()?;
    span!("open", path = %path.display());
    let start = env.clock.now();
    let Parts { create, registered, on_replay } = parts;
    let found = Found::in_directory(env, path, create)?;
    let needs = options.log_segment_bytes + 2 * RESERVE_BYTES;
    let advise = |error: Error| {
        match error.kind() {
        ErrorKind::Full => error.advice(format_args!(
            "nothing is lost, and the database opens when there is room: a log segment and a manifest take {needs} bytes"
        )),
        _ => error,
    }
    };
    let loaded = found.load(options, registered).map_err(advise)?;
    let Loaded { state, throttle, log_dir, .. } = &loaded;
    let mode = ReplayMode::Recover;
    let replay = Recovery { state, throttle, log_dir: &log_dir.path, on_replay, mode }.run();
    // Each open puts a manifest in force: without this, opens that fail would leave ever more of them.
    let replay = replay.inspect_err(|_| remove_obsolete(state, &loaded.entries, is_of_manifest)).map_err(advise)?;
    let log_bytes = replay.log.summary().bytes;
    let core = loaded.into_database(replay).map_err(advise)?;
    let duration = core.state.env.clock.now().saturating_sub(start);
    core.state.counters.events.tell(&Event::Opened { log_bytes, duration });
    Ok(core)
}

/// A directory that is locked, and whose files are durable.
pub(super) struct Found {
    pub(super) env: Env,
    pub(super) files: Arc<DatabaseFiles>,
    pub(super) dir: PathBuf,
    /// None where nothing is written.
    pub(super) lock: Option<Box<dyn FileLock>>,
    pub(super) entries: Vec<DirEntry>,
    /// The manifest to read; none for the one in force.
    pub(super) manifest: Option<FileId>,
}

/// A database whose trees are open, under a manifest of this open.
pub(super) struct Loaded {
    pub(super) state: Arc<State>,
    pub(super) throttle: Arc<Throttle>,
    pub(super) log_dir: LogDir,
    pub(super) lock: Option<Box<dyn FileLock>>,
    /// The files in the directory when the open began.
    entries: Vec<DirEntry>,
}

impl Found {
    fn in_directory(env: Env, path: &Path, create: bool) -> Result<Self> {
        let (env, files) = DatabaseFiles::of(env)?;
        let dir = env.fs.absolute(path).map_err(|error| Error::io("find", path, error))?;
        // Before the lock, whose file would be the first of ours in a directory of somebody else.
        check_directory(&env, &dir, &list_or_create(&env, &dir, create)?, create)?;
        let lock = Some(lock_file(&env, &dir)?);
        let entries = env.fs.list(&dir).map_err(|error| Error::io("list", &dir, error))?;
        sync_all(&env, &dir, &entries)?;
        Ok(Self { env, files, dir, lock, entries, manifest: None })
    }

    /// Opens the trees that the manifest names, and puts a new manifest in force.
    pub(super) fn load(self, options: Options, registered: Registered) -> Result<Loaded> {
        let Self { env, files, dir, lock, entries, manifest } = self;
        let (mut catalog, log_dir) = load_catalog(&env, &dir, &options, manifest)?;
        let manifest_id = unused_file(&catalog, &entries);
        catalog.next_file = FileId(manifest_id.0 + 1);
        own_trees(&env, &dir, &catalog, catalog.next_file)?;
        let cache = Arc::new(Cache::new(WriteBudget::new(options.memory_bytes, Arc::default()).cache_bytes()));
        let ids = (catalog.database_id, catalog.next_file);
        let leases = Arc::new(Leases::new(env.clone(), dir.clone(), &entries));
        let file_system = (env.clone(), files);
        let files =
            DataFiles::new(file_system, dir.clone(), ids, options.direct_io, Arc::clone(&cache), Arc::clone(&leases));
        let wakers = Arc::<Wakers>::default();
        let events = registered.events.clone();
        let tables = TableSet::new(registered, Arc::clone(&wakers));
        let opener = TreeOpener::new(&files, &tables, &dir, &catalog, &entries);
        opener.open(&catalog).map_err(|error| advice::of_trees(error, &dir))?;
        let place = (&env, &*dir, &*leases);
        let manifest = create_manifest(place, manifest_id, &mut catalog, &entries, &log_dir.path)?;
        files.skip_ids(catalog.next_file);
        keep_for_readers(&files, &tables)?;
        let (files, health) = (Arc::new(files), Arc::new(Health::new(env.threads.origin())));
        let place = (env.clone(), dir.clone());
        let manifest = ManifestStore::new(place, Arc::clone(&health), Arc::clone(&files), (catalog, manifest));
        let state = Arc::new(State {
            env,
            dir,
            options,
            health,
            counters: Counters::new(events),
            cache,
            files,
            manifest,
            tables,
            snapshots: Snapshots::default(),
            publisher: Publisher::default(),
            wakers,
        });
        let throttle = Arc::new(Throttle::new(Arc::clone(&state)));
        Ok(Loaded { state, throttle, log_dir, lock, entries })
    }
}

impl Loaded {
    /// Has the log go on in a new segment, gives seqnums out above all that were ever given out, removes what the
    /// manifest does not name, and starts the workers.
    fn into_database(self, replay: Replay) -> Result<Core> {
        let Self { state, throttle, log_dir, lock, entries } = self;
        let Replay { log: mut recovered, next_seqnum } = replay;
        let options = log_options(&state.options);
        recovered.prepare(&state.env, options).inspect_err(|_| remove_obsolete(&state, &entries, is_of_manifest))?;
        let log = LogWriter::open(&state.env, &log_dir.path, options, recovered)?;
        log_dir.record((&state.env, &state.dir), &state.manifest)?;
        let next_seqnum = SeqNum(next_seqnum.0.max(1));
        let log_from = state.manifest.lock().catalog().log_from;
        let commits = CommitPipeline::new(Arc::clone(&state), Arc::clone(&throttle), log, (next_seqnum, log_from));
        let (_, log_from) = commits.log_needed_from(&[]);
        let seqnum_floor = SeqNum(next_seqnum.0 + SEQNUM_GAP);
        state.manifest.lock().record(&Edit::Opened { seqnum_floor, log_from })?;
        commits.release_log(log_from)?;
        seal_after_short_sessions(&state, &commits);
        let core = Core::new(state, throttle, commits, log_dir, lock, None);
        // What was replayed is dated, and nothing is shown that has expired meanwhile.
        core.expirer.step()?;
        remove_obsolete(&core.state, &entries, |_| true);
        core.start()?;
        Ok(core)
    }
}

/// How the log is written.
pub(super) fn log_options(options: &Options) -> LogOptions {
    LogOptions {
        segment_bytes: options.log_segment_bytes,
        direct: options.direct_io,
        compression: options.log_compression,
        history: LogHistory {
            bytes: options.log_keep_bytes,
            time: options.log_keep_time,
            bytes_max: options.log_bytes_max,
        },
    }
}

/// Seals what was replayed when it keeps a log that is mostly unused: each open begins a segment, so many short ones
/// leave many behind with little in them. The first thing that the flush worker does is to flush it.
fn seal_after_short_sessions(state: &State, commits: &CommitPipeline) {
    let (kept, unused) = commits.log.room_left_behind();
    if unused > UNUSED_LOG_BYTES_MAX && unused > kept / 2 {
        let tables = state.tables.all();
        for table in tables.iter().filter(|table| table.options.logged) {
            commits.seal(&mut commits.order.lock(), table);
        }
    }
}

/// Removes the files that the manifest does not name, if `goes` says so of their name: what a flush, compaction or drop
/// left behind when the process died.
fn remove_obsolete(state: &State, entries: &[DirEntry], goes: impl Fn(&str) -> bool) {
    let manifest = state.manifest.lock();
    let in_force = manifest.manifest().map(Manifest::id);
    let named = NamedFiles::of(manifest.catalog());
    let left = entries.iter().filter(|entry| goes(&entry.name) && named.leave_out(entry));
    let left = left.filter_map(|entry| Some((entry, files::parse(&entry.name)?)));
    let left = left.filter(|(entry, (_, id))| !is_of_manifest(&entry.name) || Some(*id) != in_force);
    state.files.remove_many(left.map(|(_, file)| file).collect());
}

/// An id that no file has and none had.
fn unused_file(catalog: &Catalog, entries: &[DirEntry]) -> FileId {
    let highest = entries.iter().filter_map(|entry| files::parse(&entry.name)).map(|(_, id)| id.0).max();
    FileId(catalog.next_file.0.max(highest.map_or(0, |highest| highest + 1)))
}

/// The catalog, a new one for a new database, and where the redo log is.
fn load_catalog(env: &Env, dir: &Path, options: &Options, manifest: Option<FileId>) -> Result<(Catalog, LogDir)> {
    let loaded = match manifest {
        Some(id) => Manifest::load_by_id(env, dir, id).map(Some),
        None => Manifest::load(env, dir).map(|loaded| loaded.map(|(catalog, _)| catalog)),
    };
    if let Some(catalog) = loaded.map_err(|error| advice::of_manifest(error, env, dir))? {
        catalog.check_built()?;
        let log_dir = LogDir::find(env, dir, options, &catalog)?;
        return Ok((catalog, log_dir));
    }
    let mut catalog = new_catalog(env, dir)?;
    let log_dir = LogDir::create(env, dir, options, &mut catalog)?;
    Ok((catalog, log_dir))
}

/// Keeps the free space of B-trees as it is for readers in other processes, which may still read what was there.
fn keep_for_readers(files: &DataFiles, tables: &TableSet) -> Result<()> {
    if !files.leases().held().is_empty() {
        for tree in tables.all().iter().filter_map(|table| table.btree()) {
            tree.keep_free()?.into_iter().for_each(|root| files.keep_root(root));
        }
    }
    Ok(())
}

/// The names in the directory, which is created when there is none and that is allowed.
pub(super) fn list_or_create(env: &Env, dir: &Path, create: bool) -> Result<Vec<DirEntry>> {
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

/// Refuses a directory that has no database, unless one may be created and nothing else is there but what a crash
/// during creation can leave.
pub(super) fn check_directory(env: &Env, dir: &Path, entries: &[DirEntry], create: bool) -> Result<()> {
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
        return Err(advice::of_manifest(Error::corruption(&dir.join(files::CURRENT), 0, what), env, dir));
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

/// The catalog of a new database, in a directory whose name is durable.
fn new_catalog(env: &Env, dir: &Path) -> Result<Catalog> {
    // A process that died may have made the directory, and those above it, and not have synced them.
    sync_above(env, dir)?;
    Ok(Catalog { database_id: env.random.next(), next_table: TableId(1), next_file: FileId(1), ..Catalog::default() })
}

/// Puts a new manifest in force that says what the old one did. On a full disk it first gives back what the old one
/// does not name.
fn create_manifest(
    (env, dir, leases): (&Env, &Path, &Leases),
    id: FileId,
    catalog: &mut Catalog,
    entries: &[DirEntry],
    log_dir: &Path,
) -> Result<Manifest> {
    match leases.switch(id, || Manifest::create(env, dir, id, catalog)) {
        Err(error) if error.kind() == ErrorKind::Full => {}
        other => return other,
    }
    if let Some(old) = Manifest::in_force(env, dir)?.filter(|old| *old != id) {
        Manifest::give_reserve_back(env, dir, old)?;
    }
    let named = NamedFiles::of(catalog);
    for entry in entries.iter().filter(|entry| named.leave_out(entry)) {
        let is_old_manifest = is_of_manifest(&entry.name);
        // A full disk stays full as long as readers in other processes need what is on it.
        if !is_old_manifest && leases.held().is_empty() {
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
    let manifest = leases.switch(id, || Manifest::create(env, dir, id, catalog));
    let current = Manifest::in_force(env, dir)?;
    if is_in_force && current == Some(id) {
        Manifest::remove(env, dir, failed);
    } else if current.is_some_and(|current| current != id) {
        Manifest::remove(env, dir, id);
    }
    manifest
}
