//! A whole database under thousands of schedules of its users: commits, snapshots, flushes, compactions, dropped tables
//! and its end. Run by `cargo xtask schedules`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread;

use crate::base::sync::{Condvar, Mutex, check};
use crate::base::{ErrorKind, Result};
use crate::db::jobs::job::{Job, JobContext};
use crate::db::jobs::sorted_view::MakeView;
use crate::db::throttle::budget::WriteBudget;
use crate::db::throttle::stall_queue::StallQueue;
use crate::db::{Batch, Database, Durability, Options, Snapshot, Table};
use crate::env::sim::{CrashProfile, SimEnv};
use crate::table::{Layout, TableOptions};

const WRITERS: u64 = 2;
const COMMITS: u64 = 4;

/// A database of two tables, and which commits of each writer were acknowledged as durable: they are bits.
#[derive(Clone)]
struct Shared {
    sim: SimEnv,
    db: Database,
    tables: [Table; 2],
    acknowledged: Arc<[AtomicU64; WRITERS as usize]>,
}

fn options() -> Options {
    Options { memory_bytes: 1 << 20, memtable_bytes: 4096, log_segment_bytes: 64 << 10, ..Options::default() }
}

impl Shared {
    fn new(layouts: [Layout; 2]) -> Self {
        let sim = SimEnv::new(1);
        let db = Database::builder("/db").env(sim.env()).options(options()).open().unwrap();
        let table = |(name, layout)| {
            let options = TableOptions { layout, block_bytes: 512, ..TableOptions::default() };
            db.create_table(name, options).unwrap()
        };
        let tables = [("a", layouts[0]), ("b", layouts[1])].map(table);
        Self { sim, db, tables, acknowledged: Arc::default() }
    }

    /// Runs the users beside each other, and gives the database back when all are done.
    fn run(self, users: &[fn(&Self, u64)]) -> Self {
        let start = |(number, user): (usize, &fn(&Self, u64))| {
            let (shared, user) = (self.clone(), *user);
            thread::spawn(move || user(&shared, number as u64))
        };
        let users: Vec<_> = users.iter().enumerate().map(start).collect();
        users.into_iter().for_each(|user| user.join().unwrap());
        self
    }

    /// Commits to both tables at once, under keys that all writers share but for the last byte.
    fn write(&self, writer: u64) {
        for number in 0..COMMITS {
            let durability = if number % 2 == 0 { Durability::Sync } else { Durability::Buffered };
            match self.commit(writer, number, durability) {
                Ok(()) if durability == Durability::Sync => {
                    self.acknowledged[writer as usize].fetch_or(1 << number, Ordering::SeqCst);
                }
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
            }
        }
    }

    fn commit(&self, writer: u64, number: u64, durability: Durability) -> Result<()> {
        let mut batch = Batch::new();
        // The larger ones are memtables by themselves.
        let value = vec![7; if number % 2 == 1 { 5000 } else { 900 }];
        for table in &self.tables {
            batch.put(table, &key(writer, number), &value);
            // What the last commit left is replaced.
            batch.put(table, &key(writer, COMMITS), &number.to_be_bytes());
        }
        self.db.write_with(&batch, durability)
    }

    /// A snapshot shows whole commits, all before the last of each writer, and always the same.
    fn read(&self, _number: u64) {
        for _ in 0..2 {
            let snapshot = self.db.snapshot();
            let Ok(seen) = commits(&snapshot, &self.tables) else { return };
            thread::yield_now();
            let Ok(again) = commits(&snapshot, &self.tables) else { return };
            assert_eq!(seen, again);
        }
    }

    fn flush_and_compact(&self, _number: u64) {
        for table in &self.tables {
            let _closed = table.flush();
            let _closed = table.compact();
        }
    }

    fn close(&self, _number: u64) {
        thread::yield_now();
        self.db.clone().close().unwrap();
    }

    fn drop_second(&self, _number: u64) {
        thread::yield_now();
        self.db.drop_table("b").unwrap();
    }

    /// What was acknowledged survives the worst power failure, whole.
    fn check(self) {
        let acknowledged = self.acknowledged.each_ref().map(|bits| bits.load(Ordering::SeqCst));
        let fork = self.sim.fork();
        drop(self);
        fork.power_crash(CrashProfile::Strict);
        let db = Database::builder("/db").env(fork.env()).options(options()).open().unwrap();
        assert_eq!(db.verify().unwrap().problems, vec![]);
        let tables = ["a", "b"].map(|name| db.table(name).unwrap().unwrap());
        let found = commits(&db.snapshot(), &tables).unwrap();
        for (found, acknowledged) in found.iter().zip(acknowledged) {
            assert!(64 - acknowledged.leading_zeros() <= *found, "{found:?} of {acknowledged:b}");
        }
    }
}

fn key(writer: u64, number: u64) -> Vec<u8> {
    [number.to_be_bytes(), writer.to_be_bytes()].concat()
}

/// How many commits of each writer a snapshot shows, in both tables the same.
fn commits(snapshot: &Snapshot, tables: &[Table]) -> Result<[u32; WRITERS as usize]> {
    let mut found = [[0; WRITERS as usize]; 2];
    for (table, found) in tables.iter().zip(&mut found) {
        for entry in snapshot.range(table, ..) {
            let (key, value) = entry?;
            let (number, writer) = (key[7], key[15] as usize);
            if u64::from(number) == COMMITS {
                assert_eq!(u32::from(value[7]) + 1, found[writer], "the newest of what each commit replaces");
            } else {
                assert_eq!(u32::from(number), found[writer], "no commit is missing before it");
                found[writer] += 1;
            }
        }
    }
    assert_eq!(found[0], found[1], "commits are whole");
    Ok(found[0])
}

const COPIES: [&str; 3] = ["/copy1", "/copy2", "/copy3"];
const LAYOUTS: [[Layout; 2]; 2] = [[Layout::BTree, Layout::Lsm], [Layout::LsmTiered, Layout::BTree]];

#[test]
fn commits_and_snapshots_beside_flushes_and_compactions_are_whole() {
    for layouts in LAYOUTS {
        check(move || {
            Shared::new(layouts).run(&[Shared::write, Shared::write, Shared::read, Shared::flush_and_compact]).check();
        });
    }
}

#[test]
fn a_close_ends_beside_whatever_goes_on_and_loses_nothing() {
    for layouts in LAYOUTS {
        check(move || {
            Shared::new(layouts).run(&[Shared::write, Shared::write, Shared::read, Shared::close]).check();
        });
    }
}

#[test]
fn a_table_dropped_beside_its_users_leaves_the_others_whole() {
    check(|| {
        let write_first: fn(&Shared, u64) = |shared, writer| {
            for number in 0..COMMITS {
                let mut batch = Batch::new();
                batch.put(&shared.tables[0], &key(writer, number), &[7; 900]);
                shared.db.write_with(&batch, Durability::Sync).unwrap();
            }
        };
        let use_second: fn(&Shared, u64) = |shared, _| {
            let mut batch = Batch::new();
            batch.put(&shared.tables[1], b"key", &[7; 5000]);
            let used = shared.db.write_with(&batch, Durability::Buffered).and_then(|()| shared.tables[1].flush());
            assert!(used.is_ok() || used.is_err_and(|error| error.kind() == ErrorKind::Dropped));
        };
        let shared = Shared::new(LAYOUTS[0]).run(&[write_first, use_second, Shared::drop_second]);
        let snapshot = shared.db.snapshot();
        assert_eq!(snapshot.range(&shared.tables[0], ..).count() as u64, COMMITS);
        drop(snapshot);
        assert_eq!(shared.db.verify().unwrap().problems, vec![]);
    });
}

#[test]
fn checkpoints_beside_tables_created_and_dropped_end_and_have_whole_commits() {
    check(|| {
        let create_and_drop: fn(&Shared, u64) = |shared, number| {
            let name = number.to_string();
            for layout in [Layout::Lsm, Layout::BTree, Layout::Lsm] {
                shared.db.create_table(&name, TableOptions { layout, ..TableOptions::default() }).unwrap();
                shared.db.drop_table(&name).unwrap();
            }
        };
        let copy: fn(&Shared, u64) = |shared, _| {
            for dir in COPIES {
                shared.db.checkpoint(dir).unwrap();
            }
        };
        let shared = Shared::new(LAYOUTS[0]);
        shared.commit(0, 0, Durability::Buffered).unwrap();
        // What merges into a B-tree takes no gate.
        let shared = shared.run(&[copy, create_and_drop, create_and_drop, Shared::flush_and_compact]);
        for dir in COPIES {
            let db = Database::builder(dir).env(shared.sim.env()).options(options()).open().unwrap();
            assert_eq!(db.verify().unwrap().problems, vec![]);
            let tables = ["a", "b"].map(|name| db.table(name).unwrap().unwrap());
            assert_eq!(commits(&db.snapshot(), &tables).unwrap(), [1, 0]);
        }
    });
}

/// A copy has each commit in all tables or in none, and none without those before it.
#[test]
fn checkpoints_beside_writers_have_whole_commits() {
    for layouts in LAYOUTS {
        check(move || {
            let copy: fn(&Shared, u64) = |shared, _| {
                for dir in &COPIES[..2] {
                    shared.db.checkpoint(dir).unwrap();
                }
            };
            let shared = Shared::new(layouts).run(&[Shared::write, Shared::write, copy]);
            for dir in &COPIES[..2] {
                let db = Database::builder(dir).env(shared.sim.env()).options(options()).open().unwrap();
                let tables = ["a", "b"].map(|name| db.table(name).unwrap().unwrap());
                commits(&db.snapshot(), &tables).unwrap();
            }
        });
    }
}

/// A user of the tables.
type User = fn(&Shared, u64);

/// Jobs of the first table, which looks in its pauses after the second one too.
const JOBS: [User; 8] = [
    |shared, _| ends(shared.tables[0].flush()),
    |shared, _| ends(shared.db.flush()),
    |shared, _| ends(shared.tables[0].compact()),
    |shared, _| ends(shared.tables[0].wait_idle()),
    |shared, _| ends((0..4).try_for_each(|_| shared.db.core().compactor.step().map(drop))),
    |shared, _| {
        let core = shared.db.core();
        let context = JobContext { state: &core.state, throttle: &core.throttle };
        let table = shared.tables[0].state();
        let viewable = table.trees().view_candidate();
        ends(MakeView { table, viewable }.run(context).map(drop));
    },
    |shared, _| {
        let load = || {
            let mut load = shared.tables[0].bulk_load()?;
            (0..20_u64).try_for_each(|number| load.push(&number.to_be_bytes(), &[9; 900]))?;
            load.finish()
        };
        ends(load());
    },
    |shared, _| {
        let deleted = shared.tables[0].delete_range(&key(0, 1)[..]..&key(0, 9)[..]);
        ends(deleted.and_then(|()| shared.tables[0].flush()).and_then(|()| shared.tables[0].compact()));
    },
];

/// What is done beside a job.
const ACTS: [User; 6] = [
    |shared, _| ends(shared.db.drop_table("a")),
    |shared, _| ends(shared.db.drop_table("b")),
    |shared, _| ends(shared.db.drop_tables(["a", "b"])),
    |shared, _| {
        let options = TableOptions { layout: Layout::Lsm, ..TableOptions::default() };
        ends(shared.db.drop_table("b").and_then(|()| shared.db.create_table("b", options).map(drop)));
    },
    |shared, _| ends(shared.db.clone().close()),
    |shared, _| ends(shared.db.checkpoint(COPIES[0]).map(drop)),
];

/// A call has ended; it may have found its table dropped or the database closed.
fn ends(result: Result<()>) {
    let Err(error) = result else { return };
    assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::Dropped | ErrorKind::NotFound), "{error}");
}

/// A table that was dropped while its runs in L0 were merged in the pause of another compaction was picked again and
/// again, with its latch held: the drop never ended, nor any change of tables behind it, nor the close.
#[test]
fn drops_closes_and_checkpoints_in_the_pauses_of_jobs_end() {
    check(|| {
        let draw = |end: usize| shuttle::rand::Rng::gen_range(&mut shuttle::rand::thread_rng(), 0..end);
        let shared = Shared::new([[Layout::BTree, Layout::Lsm], [Layout::Lsm, Layout::Lsm]][draw(2)]);
        shared.sim.set_lazy_workers(true);
        for (table, runs) in shared.tables.iter().zip([2 + draw(2), 12 + draw(2)]) {
            for run in 0..runs as u64 {
                // One entry of these is a pause.
                let value = vec![7; if run == 0 { 70_000 } else { 20 }];
                let mut batch = Batch::new();
                (0..3).for_each(|number| batch.put(table, &key(0, run % 4 + number), &value));
                shared.db.write_with(&batch, Durability::Buffered).unwrap();
                table.flush().unwrap();
            }
        }
        let shared = shared.run(&[JOBS[draw(JOBS.len())], ACTS[draw(ACTS.len())], |shared, _| {
            let mut batch = Batch::new();
            batch.put(&shared.tables[0], &key(0, 3), &[7; 900]);
            ends(shared.db.write_with(&batch, Durability::Buffered).and_then(|()| shared.tables[0].flush()));
        }]);
        // What is left for the background.
        while shared.sim.work(0) {}
        shared.db.clone().close().unwrap();
    });
}

/// Writers wait for a flusher, which sleeps until memory is sealed: none waits for ever, and memory grows over its
/// limit by no more than what the writers beside each other write.
#[test]
fn every_writer_that_waits_for_room_is_admitted() {
    const THREADS: u64 = 3;
    const BYTES: u64 = 3;
    /// Of a budget of 16, writers wait when there are more than 10.
    const BUDGET: u64 = 16;
    #[derive(Debug)]
    struct Writers {
        room: StallQueue,
        memory: WriteBudget,
        running: Mutex<u64>,
        sealed: Condvar,
        /// Held by the thread that seals memory.
        sealing: Mutex<()>,
    }
    let write = |shared: &Writers| {
        for _ in 0..4 {
            let closed = shared.room.is_closed(&shared.memory);
            let admission = closed.then(|| shared.room.wait(BYTES, &shared.memory, || Ok(())).unwrap());
            shared.memory.grow(BYTES);
            let sealing = shared.sealing.lock();
            assert!(shared.memory.memtable_bytes() <= BUDGET / 8 * 5 + THREADS * BYTES);
            let sealed = shared.memory.seal(2 * BYTES);
            drop(sealing);
            if sealed {
                let _running = shared.running.lock();
                shared.sealed.notify_one();
            }
            drop(admission);
        }
        *shared.running.lock() -= 1;
        shared.sealed.notify_one();
    };
    check(move || {
        let (running, sealed, sealing) = (Mutex::new(THREADS), Condvar::new(), Mutex::new(()));
        let (room, memory) = (StallQueue::default(), WriteBudget::new(BUDGET, Arc::default()));
        let shared = Arc::new(Writers { room, memory, running, sealed, sealing });
        let start = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || write(&shared))
        };
        let writers: Vec<_> = (0..THREADS).map(start).collect();
        let mut running = shared.running.lock();
        while *running > 0 {
            if shared.memory.is_sealed() {
                drop(running);
                shared.memory.set_immutable(0);
                shared.room.flushed(&shared.memory);
                running = shared.running.lock();
            } else {
                shared.sealed.wait(&mut running);
            }
        }
        drop(running);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        shared.memory.set_immutable(0);
        assert!(!shared.room.is_closed(&shared.memory), "nobody waits");
    });
}
