//! Prepared transactions: their keys are locked and checked, nothing of them is visible, and their records are applied
//! by batches, here or to another database.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{
    Batch, Database, Durability, ErrorKind, Isolation, Layout, Options, Prepared, Result, Table, TableId, TableOptions,
    decode_record,
};

fn open(seed: u64) -> (SimEnv, Database) {
    let sim = SimEnv::new(seed);
    let options = Options::default().memory_bytes(8 << 20);
    let db = Database::builder("/db").options(options).env(sim.env()).open().expect("a simulated disk opens");
    (sim, db)
}

fn apply(db: &Database, prepared: &Prepared) -> Result<()> {
    let mut batch = Batch::new();
    let name = |id: TableId| prepared.tables().find(|(known, _)| *known == id).map(|(_, name)| name.to_owned());
    let note = batch.append_record(prepared.record(), |id| {
        let name = name(id).ok_or_else(|| spinney::Error::invalid("an unknown table"))?;
        db.table(&name)?.ok_or_else(|| spinney::Error::invalid("no such table"))
    })?;
    batch.note(note);
    db.write_with(&batch, Durability::Buffered)
}

#[test]
fn nothing_is_visible_before_it_is_applied_and_the_record_makes_the_same_of_another_database() {
    let ((_, db), (_, copy)) = (open(1), open(2));
    // Other ids there.
    copy.create_table("x", TableOptions::default()).unwrap();
    let names = ["a", "b"];
    let options = || TableOptions::default().layout(Layout::BTree).merge("add");
    let tables = names.map(|name| db.create_table(name, options()).unwrap());
    let copies = names.map(|name| copy.create_table(name, options()).unwrap());
    assert_ne!(tables[0].id(), copies[0].id());
    for table in [&tables[0], &copies[0]] {
        for key in ["1", "2", "3", "9"] {
            table.put(key, 1_u64.to_le_bytes()).unwrap();
        }
    }
    let mut txn = db.begin();
    assert!(!txn.has_writes());
    txn.put(&tables[0], "1", 5_u64.to_le_bytes()).unwrap();
    assert!(txn.has_writes());
    txn.delete(&tables[0], "2").unwrap();
    txn.merge(&tables[0], "3", 4_u64.to_le_bytes()).unwrap();
    txn.delete_range(&tables[0], "7".."99").unwrap();
    txn.put(&tables[1], "k", 7_u64.to_le_bytes()).unwrap();
    txn.single_delete(&tables[1], "gone").unwrap();
    txn.note("why");
    let prepared = txn.prepare().unwrap();
    assert_eq!(db.snapshot().range(&tables[0], ..).count(), 4);
    let (changes, note) = decode_record(prepared.record()).unwrap();
    assert_eq!((changes.len(), note), (6, &b"why"[..]));
    let mut feeds = [&db, &copy].map(|db| db.changes(db.log_end()).unwrap());
    apply(&db, &prepared).unwrap();
    apply(&copy, &prepared).unwrap();
    [&db, &copy].into_iter().for_each(|db| db.sync().unwrap());
    for (table, other) in tables.iter().zip(&copies) {
        let all = |db: &Database, table: &Table| {
            let entries = db.snapshot().range(table, ..).map(|entry| entry.unwrap());
            entries.map(|(key, value)| (key, value.to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(all(&db, table), all(&copy, other));
    }
    assert_eq!(tables[0].get("3").unwrap().as_deref(), Some(&5_u64.to_le_bytes()[..]));
    assert!(feeds.iter_mut().all(|feed| feed.poll().unwrap().unwrap().note() == b"why"));
}

#[test]
fn keys_stay_locked_until_it_is_dropped_and_a_later_one_conflicts_with_what_was_applied() {
    let (_sim, db) = open(3);
    let table = db.create_table("t", TableOptions::default().merge("add")).unwrap();
    let prepared = {
        let mut txn = db.begin();
        txn.put(&table, "k", 1_u64.to_le_bytes()).unwrap();
        txn.delete_range(&table, "r".."s").unwrap();
        txn.prepare().unwrap()
    };
    let refused = |write: &dyn Fn(&mut spinney::Transaction) -> Result<()>| {
        let mut txn = db.begin();
        txn.set_lock_wait(Duration::ZERO);
        write(&mut txn).unwrap();
        txn.prepare().err().map(|error| error.kind())
    };
    let before = db.begin();
    for (write, expected) in [
        (&(|txn: &mut spinney::Transaction| txn.put(&table, "k", 2_u64.to_le_bytes())) as &dyn Fn(&mut _) -> _, true),
        (&|txn: &mut spinney::Transaction| txn.merge(&table, "k", 2_u64.to_le_bytes()), true),
        (&|txn: &mut spinney::Transaction| txn.delete(&table, "rr"), true),
        (&|txn: &mut spinney::Transaction| txn.delete_range(&table, "a".."l"), true),
        (&|txn: &mut spinney::Transaction| txn.delete(&table, "s"), false),
    ] {
        assert_eq!(refused(write), expected.then_some(ErrorKind::Timeout));
    }
    apply(&db, &prepared).unwrap();
    drop(prepared);
    let mut late = before;
    late.put(&table, "k", 3_u64.to_le_bytes()).unwrap();
    assert_eq!(late.prepare().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(refused(&|txn| txn.put(&table, "k", 3_u64.to_le_bytes())), None);
    // A dropped one leaves no locks, and nothing else.
    assert_eq!(table.get("k").unwrap().as_deref(), Some(&1_u64.to_le_bytes()[..]));
}

#[test]
fn what_cannot_be_prepared_is_refused() {
    let (_sim, db) = open(4);
    let table = db.create_table("t", TableOptions::default()).unwrap();
    let unlogged = db.create_table("u", TableOptions::default().logged(false)).unwrap();
    let mut txn = db.begin_with(Isolation::Serializable);
    txn.get(&table, "a").unwrap();
    txn.put(&table, "b", "1").unwrap();
    assert_eq!(txn.prepare().unwrap_err().kind(), ErrorKind::Unsupported);
    let mut blind = db.begin_with(Isolation::Serializable);
    blind.put(&table, "b", "1").unwrap();
    drop(blind.prepare().unwrap());
    let mut txn = db.begin();
    txn.put(&unlogged, "a", "1").unwrap();
    assert_eq!(txn.prepare().unwrap_err().kind(), ErrorKind::Unsupported);
    // What was locked and read must be unchanged.
    let mut txn = db.begin();
    txn.get_for_update(&table, "a").unwrap();
    txn.put(&table, "c", "1").unwrap();
    table.put("a", "2").unwrap();
    assert_eq!(txn.prepare().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn records_from_anywhere_are_refused_or_applied_whole() {
    let (_sim, db) = open(5);
    let table = db.create_table("t", TableOptions::default()).unwrap();
    let mut txn = db.begin();
    txn.put(&table, "key", "value").unwrap();
    txn.delete(&table, "other").unwrap();
    txn.note("note");
    let record = txn.prepare().unwrap().record().to_vec();
    for at in 0..record.len() {
        let mut batch = Batch::new();
        let cut = batch.append_record(&record[..at], |_| Ok(table.clone()));
        // Without its note it is one.
        assert!(cut.is_err() || at == record.len() - 5, "{at}");
        for bit in 0..8 {
            let (mut damaged, mut batch) = (record.clone(), Batch::new());
            damaged[at] ^= 1 << bit;
            let resolve = |id| if id == table.id() { Ok(table.clone()) } else { Err(spinney::Error::invalid("none")) };
            match batch.append_record(&damaged, resolve) {
                Err(_) => assert!(batch.is_empty()),
                Ok(_) => _ = db.write(&batch),
            }
        }
    }
    let mut batch = Batch::new();
    assert_eq!(batch.append_record(&[], |_| Ok(table.clone())).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(
        batch.append_record(&record, |_| Err(spinney::Error::invalid("none"))).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert!(batch.is_empty());
}

#[test]
fn a_note_alone_is_a_commit_that_outlives_a_crash() {
    let (sim, db) = open(6);
    let options = Options::default().memory_bytes(8 << 20).log_keep_bytes(1 << 20);
    drop(db);
    let db = Database::builder("/db").options(options.clone()).env(sim.env()).open().unwrap();
    let table = db.create_table("t", TableOptions::default()).unwrap();
    let start = db.log_end();
    for number in 0..10_u8 {
        let mut batch = Batch::new();
        batch.note([number; 40]);
        db.write_with(&batch, Durability::Sync).unwrap();
        table.put([number], [number]).unwrap();
    }
    let read = |db: &Database| {
        let commits = db.changes(start).unwrap().map(|commit| commit.unwrap());
        commits.map(|commit| (commit.seqnum, commit.count, commit.note().to_vec())).collect::<Vec<_>>()
    };
    let before = read(&db);
    assert_eq!(before.len(), 20);
    assert!(before.windows(2).all(|two| two[0].0 < two[1].0));
    assert_eq!((before[6].1, &*before[6].2), (0, &[3; 40][..]));
    let mut last = Batch::new();
    last.note("the last");
    db.write_with(&last, Durability::Sync).unwrap();
    let seqnum = db.snapshot().seqnum();
    sim.power_crash(CrashProfile::EVERY[0]);
    drop((db, table));
    let db = Database::builder("/db").options(options).env(sim.env()).open().unwrap();
    assert_eq!(read(&db)[..20], before);
    assert_eq!(read(&db)[20].2, b"the last");
    assert!(db.snapshot().seqnum() >= seqnum);
    let table = db.table("t").unwrap().unwrap();
    table.put("after", "1").unwrap();
    assert!(db.snapshot().seqnum() > seqnum);
    assert_eq!(db.snapshot().range(&table, ..).count(), 11);
}

/// Threads move amounts between accounts: each prepares, and one after the other applies.
#[test]
fn prepared_transfers_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("db"), Options::default().memory_bytes(16 << 20)).unwrap();
    let table = db.create_table("accounts", TableOptions::default()).unwrap();
    let accounts = 8_u64;
    (0..accounts).for_each(|account| table.put(account.to_be_bytes(), 100_u64.to_le_bytes()).unwrap());
    let (applying, done, conflicts) = (Mutex::new(()), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for worker in 0..4_u64 {
            let (db, table, applying, done, conflicts) = (&db, &table, &applying, &done, &conflicts);
            scope.spawn(move || {
                let mut random = worker + 1;
                for _ in 0..500 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (from, to) = (random >> 33 & 7, random >> 40 & 7);
                    let mut txn = db.begin();
                    let read = |txn: &spinney::Transaction, account: u64| {
                        let value = txn.get(table, account.to_be_bytes()).unwrap().unwrap();
                        u64::from_le_bytes(*value.first_chunk().unwrap())
                    };
                    let (a, b) = (read(&txn, from), read(&txn, to));
                    if from == to || a == 0 {
                        continue;
                    }
                    txn.put(table, from.to_be_bytes(), (a - 1).to_le_bytes()).unwrap();
                    txn.put(table, to.to_be_bytes(), (b + 1).to_le_bytes()).unwrap();
                    match txn.prepare() {
                        Ok(prepared) => {
                            thread::yield_now();
                            let _alone = applying.lock().unwrap();
                            apply(db, &prepared).unwrap();
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) if error.kind() == ErrorKind::Conflict => {
                            _ = conflicts.fetch_add(1, Ordering::Relaxed)
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let values = db.snapshot().range(&table, ..).map(|entry| entry.unwrap().1);
    let sum: u64 = values.map(|value| u64::from_le_bytes(*value.first_chunk().unwrap())).sum();
    assert_eq!(sum, accounts * 100);
    assert!(done.load(Ordering::Relaxed) > 100);
}
