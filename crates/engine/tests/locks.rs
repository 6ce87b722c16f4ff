//! Locks of keys and ranges: what waits for what, what is read under them, and threads that meet at few keys.

#![expect(clippy::disallowed_methods, reason = "the tests wait for threads and measure how long")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spinney::env::sim::SimEnv;
use spinney::{Database, Durability, ErrorKind, Isolation, Options, Result, Table, TableOptions, Transaction};
use spinney_testkit::Rng;

fn open() -> (Database, Table) {
    let db = Database::builder("/db").env(SimEnv::new(1).env()).open().expect("a machine in order");
    let table = db.create_table("t", TableOptions::default()).expect("a machine in order");
    (db, table)
}

fn begin(db: &Database) -> Transaction {
    let mut txn = db.begin();
    txn.set_lock_wait(Duration::ZERO);
    txn
}

fn kind<T>(told: Result<T>) -> Result<(), ErrorKind> {
    told.map(drop).map_err(|error| error.kind())
}

#[test]
fn a_lock_is_held_until_its_transaction_ends() {
    let (db, table) = open();
    let ends: [fn(Transaction); 3] = [|txn| txn.commit().expect("nothing is in the way"), Transaction::rollback, drop];
    for end in ends {
        let (mut first, mut second) = (begin(&db), begin(&db));
        first.get_for_update(&table, "k").expect("it is free");
        first.lock_range(&table, "p".."q").expect("it is free");
        let point = first.savepoint();
        first.get_for_update(&table, "later").expect("it is free");
        first.rollback_to(&point).expect("it is there");
        for key in ["k", "p", "later"] {
            assert_eq!(kind(second.get_for_update(&table, key)), Err(ErrorKind::Timeout), "{key}");
        }
        second.get_for_update(&table, "q").expect("it is free");
        second.lock_range(&table, "q"..).expect("it is free");
        assert_eq!(kind(second.lock_range(&table, ..)), Err(ErrorKind::Timeout));
        end(first);
        second.lock_range(&table, ..).expect("it is free");
    }
}

#[test]
fn what_is_locked_is_read_as_it_is_now_unless_something_else_was_read() {
    let (db, table) = open();
    table.put("k", "1").expect("a put");
    let read = |txn: &mut Transaction| txn.get_for_update(&table, "k").map(|value| value.map(|value| value.to_vec()));
    let mut txn = begin(&db);
    table.put("k", "2").expect("a put");
    assert_eq!(read(&mut txn).expect("it is free"), Some(b"2".to_vec()));
    table.put("other", "1").expect("a put");
    txn.get_for_update(&table, "other").expect("what is locked has not changed");
    txn.commit().expect("nothing is in the way");

    let mut txn = begin(&db);
    txn.get(&table, "other").expect("a read");
    table.put("k", "3").expect("a put");
    assert_eq!(kind(read(&mut txn)), Err(ErrorKind::Conflict), "two moments would be mixed");
    drop(txn);

    let mut txn = db.begin_with(Isolation::Serializable);
    txn.get(&table, "other").expect("a read");
    table.put("k", "4").expect("a put");
    assert_eq!(read(&mut txn).expect("what was read has not changed"), Some(b"4".to_vec()));
    table.put("other", "2").expect("a put");
    table.put("z", "2").expect("a put");
    assert_eq!(kind(txn.get_for_update(&table, "z")), Err(ErrorKind::Conflict));
    drop(txn);

    let mut txn = begin(&db);
    txn.put(&table, "w", "own").expect("a put");
    table.put("w", "other").expect("a put");
    table.put("k", "5").expect("a put");
    assert_eq!(kind(read(&mut txn)), Err(ErrorKind::Conflict), "what it wrote has changed");
}

#[test]
fn a_change_without_the_lock_makes_the_commit_conflict() {
    let (db, table) = open();
    let range = |txn: &mut Transaction, table: &Table| txn.lock_range(table, "a".."c").expect("it is free");
    let key = |txn: &mut Transaction, table: &Table| drop(txn.get_for_update(table, "b").expect("it is free"));
    for lock in [&range as &dyn Fn(&mut Transaction, &Table), &key] {
        for (changed, conflicts) in [("b", true), ("c", false)] {
            let mut txn = begin(&db);
            lock(&mut txn, &table);
            txn.put(&table, "elsewhere", "v").expect("a put");
            table.put(changed, "v").expect("a put");
            assert_eq!(txn.commit().is_err_and(|error| error.kind() == ErrorKind::Conflict), conflicts, "{changed}");
        }
    }
}

fn open_real(dir: &tempfile::TempDir) -> (Database, Table) {
    let options = Options::default().memory_bytes(32 << 20).durability(Durability::Buffered);
    let db = Database::open(dir.path().join("db"), options).expect("a machine in order");
    let table = db.create_table("t", TableOptions::default()).expect("a machine in order");
    (db, table)
}

fn amount(txn: &mut Transaction, table: &Table, key: &str) -> Result<u64> {
    let value = txn.get_for_update(table, key)?;
    Ok(value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().expect("a number"))))
}

/// Each waits for those before it and then finds the newest value: none conflicts.
#[test]
fn increments_under_a_lock_need_no_second_try() {
    const THREADS: u64 = 8;
    const EACH: u64 = 500;
    let dir = tempfile::tempdir().expect("a directory");
    let (db, table) = open_real(&dir);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let mut txn = db.begin();
                    let count = amount(&mut txn, &table, "counter").expect("the lock");
                    txn.put(&table, "counter", (count + 1).to_le_bytes()).expect("a put");
                    txn.commit().expect("nothing is in the way");
                }
            });
        }
    });
    let count = amount(&mut db.begin(), &table, "counter").expect("a read");
    assert_eq!(count, THREADS * EACH);
}

/// In whatever order they lock, one of those in a circle is told at once, and nothing is lost.
#[test]
fn transfers_that_lock_in_any_order_go_through() {
    const ACCOUNTS: usize = 5;
    let dir = tempfile::tempdir().expect("a directory");
    let (db, table) = open_real(&dir);
    let (deadlocks, names) = (AtomicU64::new(0), ["a", "b", "c", "d", "e"]);
    names.iter().for_each(|name| table.put(name, 1000_u64.to_le_bytes()).expect("a put"));
    let begun = Instant::now();
    thread::scope(|scope| {
        for seed in 0..6 {
            let (db, table, deadlocks) = (&db, &table, &deadlocks);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                for _ in 0..300 {
                    let from = rng.in_range(0..ACCOUNTS);
                    let to = (from + rng.in_range(1..ACCOUNTS)) % ACCOUNTS;
                    let transfer = |txn: &mut Transaction| {
                        txn.set_lock_wait(Duration::from_secs(60));
                        let from_amount = amount(txn, table, names[from])?;
                        thread::yield_now();
                        let to_amount = amount(txn, table, names[to]).inspect_err(|error| {
                            _ = (error.kind() == ErrorKind::Deadlock).then(|| deadlocks.fetch_add(1, Ordering::Relaxed))
                        })?;
                        let moved = from_amount.min(10);
                        txn.put(table, names[from], (from_amount - moved).to_le_bytes())?;
                        txn.put(table, names[to], (to_amount + moved).to_le_bytes())
                    };
                    db.transact(transfer).expect("it is tried again");
                }
            });
        }
    });
    let sum: u64 = names.iter().map(|name| amount(&mut db.begin(), &table, name).expect("a read")).sum();
    assert_eq!(sum, 1000 * ACCOUNTS as u64);
    assert!(deadlocks.load(Ordering::Relaxed) > 0, "none met");
    assert!(begun.elapsed() < Duration::from_secs(50), "none waited for its limit");
}

/// Others may not put a key into a range that is locked, if they ask.
#[test]
fn a_locked_range_has_no_phantoms() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, table) = open_real(&dir);
    thread::scope(|scope| {
        for name in 0..4_u8 {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                for round in 0..100_u8 {
                    let mut txn = db.begin();
                    txn.lock_range(table, ..).expect("the lock");
                    let count = txn.range(table, ..).count();
                    txn.put(table, [name, round], u64::try_from(count).expect("few").to_le_bytes()).expect("a put");
                    txn.commit().expect("nothing is in the way");
                }
            });
        }
    });
    let mut counts: Vec<u64> = table
        .range(..)
        .map(|entry| u64::from_le_bytes(entry.expect("a read").1[..].try_into().expect("a number")))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, (0..400).collect::<Vec<_>>());
}

#[test]
fn a_close_ends_the_wait_for_a_lock() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, table) = open_real(&dir);
    let mut holder = db.begin();
    holder.get_for_update(&table, "k").expect("it is free");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut txn = db.begin();
            txn.set_lock_wait(Duration::from_secs(60));
            kind(txn.get_for_update(&table, "k"))
        });
        thread::sleep(Duration::from_millis(50));
        let begun = Instant::now();
        db.clone().close().expect("a machine in order");
        assert_eq!(waiter.join().expect("no panic"), Err(ErrorKind::Closed));
        assert!(begun.elapsed() < Duration::from_secs(30));
    });
}
