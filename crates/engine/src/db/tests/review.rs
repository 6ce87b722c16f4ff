//! Faults that a reading of the database's paths has found, each by a test that failed before it was mended.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::base::ErrorKind;
use crate::db::{Batch, Database, Durability, Options, Table};
use crate::env::sim::{CrashProfile, Fault, SimEnv};
use crate::env::{DirEntry, Env, File, FileLock, FileSystem, OpenOptions};
use crate::table::{Layout, TableOptions};

fn open(env: Env) -> Database {
    let options = Options { memory_bytes: 8 << 20, log_segment_bytes: 64 << 10, ..Options::default() };
    Database::builder("/db").env(env).options(options).open().unwrap()
}

fn create(db: &Database, layout: Layout) -> Table {
    db.create_table("t", TableOptions { layout, ..TableOptions::default() }).unwrap()
}

fn lay_down_run(db: &Database, table: &Table, value: u8) {
    let mut batch = Batch::new();
    (0..500_u32).for_each(|key| batch.put(table, key.to_be_bytes(), [value; 100]));
    db.write_with(&batch, Durability::Buffered).unwrap();
    table.flush().unwrap();
}

/// It had one, for whatever capacity.
#[test]
fn the_cache_of_an_open_database_has_as_many_shards_as_its_memory_asks_for() {
    let sim = SimEnv::new(1);
    let options = Options { memory_bytes: 256 << 20, ..Options::default() };
    let db = Database::builder("/db").env(sim.env()).options(options).open().unwrap();
    let cache = format!("{:?}", db.core().state.cache);
    assert!(cache.contains("shards: 16") || cache.contains("shards: 32") || cache.contains("shards: 64"), "{cache}");
}

/// A file system that sometimes cannot say how much space there is.
#[derive(Debug)]
struct Unmeasured {
    inner: Arc<dyn FileSystem>,
    fails: Arc<AtomicBool>,
}

impl FileSystem for Unmeasured {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        self.inner.open(path, options)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        if self.fails.load(Ordering::Relaxed) { Err(io::ErrorKind::Other.into()) } else { self.inner.free_bytes(dir) }
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.absolute(path)
    }
}

/// In a pause of a long compaction it poisoned the database.
#[test]
fn a_disk_that_cannot_be_measured_ends_a_compaction_and_nothing_else() {
    for layout in [Layout::Lsm, Layout::BTree] {
        let (sim, fails) = (SimEnv::new(1), Arc::new(AtomicBool::new(false)));
        let mut env = sim.env();
        env.fs = Arc::new(Unmeasured { inner: Arc::clone(&env.fs), fails: Arc::clone(&fails) });
        let db = open(env);
        let table = create(&db, layout);
        table.hold().unwrap();
        (0..4).for_each(|value| lay_down_run(&db, &table, value));
        fails.store(true, Ordering::Relaxed);
        let compacted = table.compact();
        assert!(compacted.is_err() || layout == Layout::BTree, "{layout:?}");
        db.core().state.health.check_writable().unwrap();
        fails.store(false, Ordering::Relaxed);
        table.put("k", "v").unwrap();
        table.compact().unwrap();
        assert!(db.verify().unwrap().problems.is_empty(), "{layout:?}");
    }
}

/// The commit took back what the load had put, without a word.
#[test]
fn a_merge_that_commutes_conflicts_with_a_bulk_load() {
    for compacts in [false, true] {
        let db = open(SimEnv::new(1).env());
        let options = TableOptions { merge: Some("add".to_owned()), ..TableOptions::default() };
        let table = db.create_table("t", options).unwrap();
        table.put("other", 1_u64.to_le_bytes()).unwrap();
        let mut txn = db.begin();
        txn.merge(&table, "k", 1_u64.to_le_bytes()).unwrap();
        let mut load = table.bulk_load().unwrap();
        load.push(b"k", &100_u64.to_le_bytes()).unwrap();
        load.finish().unwrap();
        if compacts {
            table.compact().unwrap();
        }
        assert!(txn.would_conflict(&table, "k").unwrap());
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict, "compacted: {compacts}");
    }
}

/// It kept the log from being written.
#[test]
fn a_close_that_cannot_flush_an_unlogged_table_keeps_what_is_in_the_log() {
    let sim = SimEnv::new(1);
    let db = open(sim.env());
    let table = create(&db, Layout::Lsm);
    let unlogged = db.create_table("u", TableOptions { logged: false, ..TableOptions::default() }).unwrap();
    sim.set_lazy_workers(true);
    unlogged.put("lost", vec![7; 100_000]).unwrap();
    let mut batch = Batch::new();
    batch.put(&table, "kept", "v");
    db.write_with(&batch, Durability::Interval).unwrap();
    sim.set_free(0);
    drop((table, unlogged));
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Full);
    sim.set_space(u64::MAX);
    sim.set_lazy_workers(false);
    sim.power_crash(CrashProfile::EVERY[0]);
    let db = open(sim.env());
    assert_eq!(db.table("t").unwrap().unwrap().get("kept").unwrap().as_deref(), Some(&b"v"[..]));
}

/// It waited for the next flush, which an idle database never has.
#[test]
fn a_compaction_in_the_background_that_met_a_full_disk_is_tried_again() {
    let mut met = 0;
    for at in 0..30 {
        let sim = SimEnv::new(1);
        let db = open(sim.env());
        let table = create(&db, Layout::Lsm);
        table.hold().unwrap();
        (0..8).for_each(|value| lay_down_run(&db, &table, value));
        sim.fail_at(sim.op_count() + at, Fault::NoSpace);
        table.release().unwrap();
        if sim.struck().is_none() || db.core().state.health.check_poison().is_err() {
            continue;
        }
        sim.clear_faults();
        met += u32::from(table.shape().unwrap().l0.len() == 8);
        sim.advance(Duration::from_secs(2));
        assert!(table.shape().unwrap().l0.len() < 8, "the fault at {at} left it uncompacted");
    }
    assert!(met > 3, "{met}");
}

/// Runs gathered, checkpoint by checkpoint.
#[test]
fn what_a_checkpoint_flushes_is_compacted() {
    let sim = SimEnv::new(1);
    let db = open(sim.env());
    let table = create(&db, Layout::Lsm);
    for round in 0..30_u8 {
        let mut batch = Batch::new();
        (0..500_u32).for_each(|key| batch.put(&table, key.to_be_bytes(), [round; 100]));
        db.write_with(&batch, Durability::Buffered).unwrap();
        db.checkpoint(format!("/copy{round}")).unwrap();
    }
    assert!(table.shape().unwrap().l0.len() < 15, "{}", table.shape().unwrap().l0.len());
}

/// Each left a manifest and its copy.
#[test]
fn opens_that_fail_leave_no_more_files_each_time() {
    let sim = SimEnv::new(1);
    let db = open(sim.env());
    let table = create(&db, Layout::Lsm);
    (0..200_u32).for_each(|key| table.put(key.to_be_bytes(), [7; 1000]).unwrap());
    drop((table, db));
    sim.process_crash();
    let log = sim.env().fs.list(Path::new("/db/log")).unwrap();
    let segment = log.iter().find(|entry| entry.name.ends_with(".log")).unwrap();
    sim.corrupt(Path::new("/db/log").join(&segment.name), 5000, 1).unwrap();
    let files = || sim.env().fs.list(Path::new("/db")).unwrap().len();
    let options = Options { memory_bytes: 8 << 20, log_segment_bytes: 64 << 10, ..Options::default() };
    let fails = || {
        let opened = Database::builder("/db").env(sim.env()).options(options.clone()).open();
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::Corruption);
        files()
    };
    let first = fails();
    (0..5).for_each(|_| assert_eq!(fails(), first));
}
