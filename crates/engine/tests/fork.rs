//! A process that is forked from one with an open database can neither use nor harm it.
//!
//! The child used to get `Ok` for its writes, into files that the parent went on with: acknowledged commits were gone
//! at the next open.

#![expect(clippy::unwrap_used, reason = "in a test a panic is a failure")]

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use spinney::{
    Batch, BulkLoad, ChangeFeed, Database, Durability, ErrorKind, Layout, Options, Range, Snapshot, Table,
    TableOptions, Transaction,
};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A child that takes longer has met a latch that nobody will let go.
const CHILD_SECONDS: u32 = 120;

/// Runs `child` in a forked process, which then ends without a word to anything it has inherited; whether it did not
/// panic.
fn forked(child: impl FnOnce()) -> bool {
    // SAFETY: the child calls nothing but what this test is about, which takes no lock that a thread of the parent may
    // have held, and the allocator, whose locks the C library sees to.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => matches!(waitpid(child, None).unwrap(), WaitStatus::Exited(_, 0)),
        ForkResult::Child => {
            // SAFETY: the call takes a number and changes nothing but the timer of this process.
            unsafe { nix::libc::alarm(CHILD_SECONDS) };
            let ended = catch_unwind(AssertUnwindSafe(child));
            // SAFETY: it ends the process at once.
            unsafe { nix::libc::_exit(i32::from(ended.is_err())) }
        }
    }
}

#[track_caller]
fn assert_forked<T: Debug>(result: Result<T, spinney::Error>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Forked);
}

/// All kinds of handles.
struct Handles<'a> {
    db: Database,
    table: Table,
    snapshot: Snapshot,
    range: Range,
    txn: Transaction,
    feed: ChangeFeed,
    load: BulkLoad<'a>,
}

impl<'a> Handles<'a> {
    fn new(db: &Database, table: &'a Table) -> Self {
        let snapshot = db.snapshot();
        let mut range = snapshot.range(table, ..);
        range.next().unwrap().unwrap();
        let (txn, feed) = (db.begin(), db.changes(db.log_start()).unwrap());
        let mut load = table.bulk_load().unwrap();
        (0..5000_u32).for_each(|key| load.push(&key.to_be_bytes(), &[7; 300]).unwrap());
        Self { db: db.clone(), table: table.clone(), snapshot, range, txn, feed, load }
    }

    /// In the child, every call fails and no drop does anything.
    fn are_refused(mut self, dir: &Path) {
        let (db, table) = (&self.db, &self.table);
        for durability in [Durability::Buffered, Durability::Interval, Durability::Sync] {
            let mut batch = Batch::new();
            batch.put(table, b"child", b"value");
            assert_forked(db.write_with(&batch, durability));
        }
        assert_forked(db.sync());
        assert_forked(db.create_table("child", TableOptions::default()));
        assert_forked(db.drop_table(table.name()));
        assert_forked(db.table(table.name()));
        assert_forked(db.tables());
        assert_forked(db.checkpoint(dir.join("copy")));
        assert_forked(db.verify());
        assert_forked(db.changes(self.feed.resume_lsn()));
        assert_forked(db.snapshot().get(table, b"key"));
        assert_forked(db.begin().put(table, b"key", b"value"));
        assert_eq!((db.stats().commits, db.log_start()), Default::default());
        assert_forked(table.flush());
        assert_forked(table.compact());
        assert_forked(table.wait_idle());
        assert_forked(table.shape());
        assert_forked(self.snapshot.get(table, b"key"));
        assert_forked(self.snapshot.multi_get(table, &["key", "other"]));
        assert_forked(self.snapshot.range(table, ..).next().unwrap());
        assert_forked(self.range.next().unwrap());
        assert!(self.range.next().is_none());
        assert_forked(self.txn.put(table, b"key", b"value"));
        assert_forked(self.txn.get(table, b"key"));
        assert_forked(self.txn.commit());
        assert_forked(self.feed.poll());
        assert_forked(self.load.push(&[255; 4], b"value"));
        drop((self.snapshot, self.range, self.feed, self.load));
        assert_forked(self.db.clone().close());
        // Threads of the parent hold locks of the libraries here.
        assert_forked(Database::open(dir.join("db"), Options::default()).map(drop));
        assert_forked(Database::open(dir.join("child"), Options::default()).map(drop));
        assert!(!dir.join("child").exists());
    }
}

/// A database of the child's own is none of the parent's business.
fn opens_its_own(dir: &Path) {
    let own = Database::open(dir.join("child"), Options::default()).unwrap();
    let table = own.create_table("t", TableOptions::default()).unwrap();
    put(&own, &table, 0, Durability::Sync);
    assert_eq!(own.snapshot().range(&table, ..).count(), 1);
    own.close().unwrap();
    std::fs::remove_dir_all(dir.join("child")).unwrap();
}

fn put(db: &Database, table: &Table, number: u32, durability: Durability) {
    let mut batch = Batch::new();
    batch.put(table, number.to_be_bytes(), [7; 500]);
    db.write_with(&batch, durability).unwrap();
}

/// Held by a test: threads of another one are at work too.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn fork_beside_writers(layout: Layout) {
    const ROUNDS: u32 = 8;
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().memory_bytes(8 << 20);
    let db = Database::open(dir.path().join("db"), options.clone()).unwrap();
    let tables = ["a", "b"].map(|name| db.create_table(name, TableOptions::default().layout(layout)));
    let [table, busy] = tables.map(Result::unwrap);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..2_u32 {
            let (db, busy, ended) = (&db, &busy, &ended);
            // Holds this latch or that when the process forks.
            scope.spawn(move || {
                for number in (0..).take_while(|_| !ended.load(Ordering::Relaxed)) {
                    put(db, busy, number << 1 | thread, Durability::Buffered);
                    drop(db.snapshot().range(busy, ..).next());
                }
            });
        }
        for round in 0..ROUNDS {
            put(&db, &table, 2 * round, Durability::Sync);
            let handles = Handles::new(&db, &table);
            let is_refused = forked(|| {
                handles.are_refused(dir.path());
                // The child of a child has no more rights.
                assert!(forked(|| assert_forked(db.sync())));
            });
            put(&db, &table, 2 * round + 1, Durability::Sync);
            if !is_refused {
                ended.store(true, Ordering::Relaxed);
                panic!("a forked child did something");
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    let seen = db.snapshot().range(&busy, ..).count();
    assert!(forked(|| assert_forked(db.clone().close())));
    db.close().unwrap();
    // Its threads are gone.
    assert!(forked(|| opens_its_own(dir.path())));
    let db = Database::open(dir.path().join("db"), options).unwrap();
    assert_eq!(db.verify().unwrap().problems, []);
    let [table, busy] = ["a", "b"].map(|name| db.table(name).unwrap().unwrap());
    let snapshot = db.snapshot();
    let found: Vec<_> = snapshot.range(&table, ..).map(|entry| entry.unwrap().0).collect();
    assert_eq!(found, (0..2 * ROUNDS).map(|number| number.to_be_bytes().to_vec()).collect::<Vec<_>>());
    assert_eq!(snapshot.range(&busy, ..).count(), seen);
}

#[test]
fn a_forked_child_is_refused_and_leaves_an_lsm_table_of_its_parent_as_it_is() {
    fork_beside_writers(Layout::Lsm);
}

#[test]
fn a_forked_child_is_refused_and_leaves_a_btree_of_its_parent_as_it_is() {
    fork_beside_writers(Layout::BTree);
}
