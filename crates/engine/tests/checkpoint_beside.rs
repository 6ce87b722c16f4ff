//! Checkpoints of a database that is open elsewhere, made without its process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use spinney::{Batch, CheckpointReport, Database, ErrorKind, Layout, Options, Result, TableOptions, checkpoint_beside};

const KEYS: u32 = 20_000;

fn options() -> Options {
    Options::default().memory_bytes(4 << 20)
}

fn open(path: &Path) -> Database {
    Database::open(path, options()).unwrap()
}

fn create(path: &Path) -> Database {
    let db = open(path);
    for (name, layout) in [("btree", Layout::BTree), ("lsm", Layout::Lsm)] {
        db.create_table(name, TableOptions::default().layout(layout)).unwrap();
    }
    db
}

fn beside(db: &Path, dir: &Path, base: Option<&Path>) -> Result<CheckpointReport> {
    checkpoint_beside(db, dir, base, options())
}

/// Puts `round` into all keys of both tables, by commits of 1,000 keys.
fn put(db: &Database, round: u32) {
    let tables = ["btree", "lsm"].map(|name| db.table(name).unwrap().unwrap());
    for first in (0..KEYS).step_by(1000) {
        let mut batch = Batch::new();
        for key in first..first + 1000 {
            let value = [round.to_be_bytes(); 30].concat();
            tables.iter().for_each(|table| batch.put(table, key.to_be_bytes(), &value));
        }
        db.write(&batch).unwrap();
    }
}

/// The rounds of the first key of each commit, in both tables, of a copy that is sound.
fn rounds(dir: &Path) -> [Vec<u32>; 2] {
    let copy = open(dir);
    assert_eq!(copy.verify().unwrap().problems, []);
    let rounds = ["btree", "lsm"].map(|name| {
        let entries: Vec<_> = copy.table(name).unwrap().unwrap().range(..).map(Result::unwrap).collect();
        assert_eq!(entries.len(), KEYS as usize, "{name}");
        let round = |at: usize| u32::from_be_bytes(*entries[at].1.first_chunk().unwrap());
        (0..entries.len()).for_each(|at| assert_eq!(round(at), round(at / 1000 * 1000), "a commit is whole: {at}"));
        (0..entries.len()).step_by(1000).map(round).collect()
    });
    copy.close().unwrap();
    rounds
}

#[test]
fn a_copy_beside_a_writer_has_what_was_written_by_then_and_the_writer_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let [db_dir, first, second] = ["db", "first", "second"].map(|name| place.path().join(name));
    let db = create(&db_dir);
    put(&db, 0);
    db.flush().unwrap();
    put(&db, 1);
    let report = beside(&db_dir, &first, None).unwrap();
    assert!(report.linked_files > 0 && report.copied_files > 0, "{report:?}");
    let current = std::fs::read(db_dir.join("CURRENT")).unwrap();
    put(&db, 2);
    beside(&db_dir, &second, Some(&first)).unwrap();
    assert_eq!(std::fs::read(db_dir.join("CURRENT")).unwrap(), current, "nothing of the database was changed");
    let refused = beside(&db_dir, &second, None).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
    // What the copies share with the database stays as it is.
    put(&db, 9);
    ["btree", "lsm"].iter().for_each(|name| db.table(name).unwrap().unwrap().compact().unwrap());
    for (dir, round) in [(&first, 1), (&second, 2)] {
        assert_eq!(rounds(dir), [vec![round; 20], vec![round; 20]]);
    }
    db.close().unwrap();
    assert_eq!(rounds(&db_dir), [vec![9; 20], vec![9; 20]]);
}

/// Ends the writer, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn copies_beside_a_busy_writer_are_each_of_one_moment() {
    let place = tempfile::tempdir().unwrap();
    let db_dir = place.path().join("db");
    let db = create(&db_dir);
    put(&db, 0);
    let (round, ended) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let ends = Ends(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                put(&db, round.fetch_add(1, Ordering::Relaxed) + 1);
            }
        });
        let mut base = None;
        for copy in 0..6 {
            let dir = place.path().join(format!("copy-{copy}"));
            let before = round.load(Ordering::Relaxed);
            beside(&db_dir, &dir, base.as_deref()).unwrap();
            let [btree, lsm] = rounds(&dir);
            assert_eq!(btree, lsm, "both tables are of one moment");
            // Commits of a round come in the order of their keys: one round, and behind some key the one before.
            let (newest, oldest) = (btree[0], btree[btree.len() - 1]);
            assert!(newest - oldest <= 1 && btree.is_sorted_by(|a, b| a >= b), "{btree:?}");
            assert!(newest + 1 >= before, "{newest} is older than the call, {before}");
            base = Some(dir);
        }
        drop(ends);
    });
}

#[test]
fn what_is_no_database_is_refused_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("copy");
    let refused = beside(&place.path().join("none"), &dir, None).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    assert!(!dir.exists());
}
