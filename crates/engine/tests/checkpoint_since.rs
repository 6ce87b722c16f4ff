//! Checkpoints on a file system of their own that share with the one before what did not change: each is complete and
//! stays what it is, whatever becomes of the others.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::env::{DirEntry, Env, File, FileLock, FileSystem, OpenOptions};
use spinney::{Batch, CheckpointReport, Database, Durability, ErrorKind, Layout, Options, Table, TableOptions};
use spinney_testkit::Rng;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DISK: &str = "/disk";
const DB: &str = "/disk/db";

/// File systems below `/disk` and elsewhere, between which nothing can be linked.
#[derive(Debug)]
struct TwoDisks(Arc<dyn FileSystem>);

impl FileSystem for TwoDisks {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        self.0.open(path, options)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if from.starts_with(DISK) != to.starts_with(DISK) {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.0.hard_link(from, to)
    }

    fn link_count(&self, path: &Path) -> io::Result<u64> {
        self.0.link_count(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.0.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.free_bytes(dir)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.absolute(path)
    }
}

fn env(sim: &SimEnv) -> Env {
    let env = sim.env();
    Env { fs: Arc::new(TwoDisks(Arc::clone(&env.fs))), ..env }
}

type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

const TABLES: [(&str, Layout, u32); 4] = [
    ("btree", Layout::BTree, 0),
    ("quiet btree", Layout::BTree, 0),
    ("lsm", Layout::Lsm, 300),
    ("tiered", Layout::LsmTiered, 0),
];

fn open(sim: &SimEnv, path: &str) -> Database {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10);
    Database::builder(path).env(env(sim)).options(options).open().unwrap()
}

fn create(db: &Database) -> Vec<Table> {
    let options = |layout, large| {
        TableOptions::default().layout(layout).large_value_bytes(large).run_bytes_max(16 << 10).fanout(3)
    };
    TABLES.iter().map(|(name, layout, large)| db.create_table(name, options(*layout, *large)).unwrap()).collect()
}

/// Puts and deletes in these tables.
fn change(rng: &mut Rng, db: &Database, tables: &[Table], count: u64) {
    for _ in 0..count {
        let mut batch = Batch::new();
        for table in tables {
            let (key, gone, bytes) = (rng.in_range(0..400), rng.in_range(0..400), rng.in_range(0..600));
            batch.delete(table, gone.to_be_bytes());
            batch.put(table, key.to_be_bytes(), rng.bytes(bytes));
        }
        db.write_with(&batch, Durability::Buffered).unwrap();
    }
}

/// The data files of a checkpoint, and their bytes.
fn data_files(sim: &SimEnv, dir: &str) -> (u64, u64) {
    let entries = sim.env().fs.list(dir.as_ref()).unwrap();
    let is_data = |name: &str| [".run", ".tree", ".values"].iter().any(|end| name.ends_with(end));
    let files = entries.iter().filter(|entry| is_data(&entry.name));
    let sizes = files.map(|entry| sim.read_file(format!("{dir}/{}", entry.name)).unwrap().len() as u64);
    sizes.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
}

/// The report counts each data file once.
fn assert_told(sim: &SimEnv, dir: &str, report: CheckpointReport) {
    let CheckpointReport { linked_files, linked_bytes, copied_files, copied_bytes, .. } = report;
    assert_eq!((linked_files + copied_files, linked_bytes + copied_bytes), data_files(sim, dir), "{dir}: {report:?}");
}

fn state(db: &Database) -> State {
    assert_eq!(db.verify().unwrap().problems, vec![]);
    let entries = |table: &Table| table.range(..).map(|entry| entry.map(|(key, value)| (key, value.to_vec())).unwrap());
    db.tables().unwrap().iter().map(|table| (table.name().to_owned(), entries(table).collect())).collect()
}

#[test]
fn what_did_not_change_is_shared_and_every_checkpoint_stays_what_it_is() {
    for seed in 0..12 {
        let (sim, mut rng) = (SimEnv::new(seed), Rng::new(seed));
        let db = open(&sim, DB);
        let tables = create(&db);
        change(&mut rng, &db, &tables, 300);
        db.checkpoint("/backup/0").unwrap();
        let mut states = vec![state(&db)];
        let mut last = CheckpointReport::default();
        for number in 1..6 {
            // One table is written, another never is.
            change(&mut rng, &db, &tables[2..3], 40);
            if number == 3 {
                change(&mut rng, &db, &tables[..1], 40);
            }
            for table in &tables {
                table.flush().unwrap();
                table.wait_idle().unwrap();
            }
            last = db.checkpoint_since(format!("/backup/{number}"), format!("/backup/{}", number - 1)).unwrap();
            assert_told(&sim, &format!("/backup/{number}"), last);
            // The table that was never written at the least.
            assert!(last.linked_files >= 1 && last.copied_files >= 1, "{seed}, {number}: {last:?}");
            states.push(state(&db));
        }
        // Nothing changed: nothing is copied.
        let none = db.checkpoint_since("/backup/6", "/backup/5").unwrap();
        assert_eq!(none.copied_files, 0, "{seed}: {none:?}, after {last:?}");
        states.push(states[5].clone());
        // Each is a database, which can be written and goes its own way, in any order, with power failures.
        let mut order: Vec<usize> = (0..7).collect();
        (1..7).for_each(|at| order.swap(at, rng.in_range(0..7)));
        for (at, number) in order.iter().enumerate() {
            let path = format!("/backup/{number}");
            let copy = open(&sim, &path);
            assert_eq!(state(&copy), states[*number], "{seed}: {path}");
            let tables = copy.tables().unwrap();
            change(&mut rng, &copy, &tables, 200);
            tables.iter().for_each(|table| table.compact().unwrap());
            copy.sync().unwrap();
            states[*number] = state(&copy);
            if at % 2 == 0 {
                copy.close().unwrap();
            } else {
                drop(copy);
            }
        }
        drop((tables, db));
        sim.power_crash(CrashProfile::EVERY[usize::try_from(seed).unwrap() % CrashProfile::EVERY.len()]);
        for (number, expected) in states.iter().enumerate() {
            let copy = open(&sim, &format!("/backup/{number}"));
            assert_eq!(state(&copy), *expected, "{seed}: {number} after a power failure");
        }
    }
}

/// Puts the same keys with values of the same length and other bytes, so that files are equal in all but content.
fn put_alike(rng: &mut Rng, db: &Database, tables: &[Table], count: u64) {
    for key in 0..count {
        let mut batch = Batch::new();
        tables.iter().for_each(|table| batch.put(table, key.to_be_bytes(), rng.bytes(350)));
        db.write_with(&batch, Durability::Buffered).unwrap();
    }
    tables.iter().for_each(|table| table.flush().unwrap());
}

/// A backup that became the database, and one of the old database made behind it: file ids mean two things.
#[test]
fn files_of_another_history_are_not_shared() {
    let mut same_names = 0;
    for seed in 0..12 {
        let (sim, mut rng) = (SimEnv::new(seed), Rng::new(seed));
        let db = open(&sim, DB);
        let tables = create(&db);
        put_alike(&mut rng, &db, &tables, 100);
        db.checkpoint("/disk/restored").unwrap();
        let restored = open(&sim, "/disk/restored");
        let other = restored.tables().unwrap();
        for round in 0..4 {
            put_alike(&mut rng, &db, &tables, 100);
            put_alike(&mut rng, &restored, &other, 100);
            let (old, new) = (format!("/backup/old{round}"), format!("/backup/new{round}"));
            db.checkpoint(&old).unwrap();
            restored.checkpoint_since(&new, &old).unwrap();
            let list = |path: &str| sim.env().fs.list(Path::new(path)).unwrap();
            let (of_old, of_new) = (list(&old), list(&new));
            let of_data = |entry: &&DirEntry| entry.name.ends_with(".run") || entry.name.ends_with(".values");
            let is_there =
                |entry: &&DirEntry| of_old.iter().any(|old| old.name == entry.name && old.bytes == entry.bytes);
            same_names += of_new.iter().filter(of_data).filter(is_there).count();
            let expected = state(&restored);
            assert_eq!(state(&open(&sim, &new)), expected, "{seed}");
        }
    }
    assert!(same_names > 50, "only {same_names} files have the same name and length");
}

#[test]
fn a_base_that_is_none_is_refused_and_left_as_it_is() {
    let sim = SimEnv::new(1);
    let db = open(&sim, DB);
    create(&db);
    let stranger = open(&sim, "/backup/stranger");
    stranger.close().unwrap();
    db.checkpoint("/backup/first").unwrap();
    let names = |path: &str| -> Vec<String> {
        sim.env().fs.list(Path::new(path)).unwrap().into_iter().map(|entry| entry.name).collect()
    };
    let kind = |base: &str| db.checkpoint_since("/backup/next", base).unwrap_err().kind();
    assert_eq!(kind("/backup/stranger"), ErrorKind::Invalid);
    assert_eq!(kind("/backup"), ErrorKind::NotFound);
    assert_eq!(kind(DB), ErrorKind::Locked);
    let opened = open(&sim, "/backup/first");
    assert_eq!(kind("/backup/first"), ErrorKind::Locked);
    opened.close().unwrap();
    assert_eq!(kind("/backup/missing"), ErrorKind::Io);
    assert!(sim.env().fs.list(Path::new("/backup/next")).is_err());
    db.checkpoint("/backup/second").unwrap();
    let before = names("/backup/second");
    db.checkpoint_since("/backup/third", "/backup/second").unwrap();
    assert_eq!(names("/backup/second"), before, "no lock is left");
}
