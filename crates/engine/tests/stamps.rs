//! Commits that a clock stamps: their times are in the order of the log.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::thread;

use spinney::env::sim::SimEnv;
use spinney::{
    Batch, CommitClock, Database, Durability, ErrorKind, LogCompression, Lsn, Options, Table, TableOptions, Transaction,
};

const THREADS: u64 = 4;
const COMMITS: u64 = 50;

fn open(compression: LogCompression) -> (Database, Table) {
    let options = Options::default().memory_bytes(16 << 20).log_compression(compression).log_keep_bytes(64 << 20);
    let db = Database::builder("/db").options(options).env(SimEnv::new(1).env()).open().unwrap();
    let table = db.create_table("t", TableOptions::default()).unwrap();
    (db, table)
}

fn clock() -> Arc<CommitClock> {
    Arc::new(CommitClock::new(|| 1_700_000_000 << 32))
}

/// The times in the notes of the log: each in bytes 1 to 9, behind those that say which commit it is.
fn times(db: &Database, from: Lsn) -> Vec<u64> {
    let notes = db.changes(from).unwrap().map(|commit| commit.unwrap().note().to_vec());
    notes.filter(|note| !note.is_empty()).map(|note| u64::from_le_bytes(note[1..9].try_into().unwrap())).collect()
}

fn stamped(txn: &mut Transaction, clock: &Arc<CommitClock>) {
    txn.note([b"x", &[0; 8][..], b" and the rest of the note"].concat());
    txn.stamp(clock, 1);
}

#[test]
fn times_are_in_the_order_of_the_log_in_logs_of_every_compression() {
    for compression in [LogCompression::Off, LogCompression::Lz4, LogCompression::Zstd] {
        let ((db, table), clock) = (open(compression), clock());
        let start = db.log_end();
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (db, table, clock) = (&db, &table, &clock);
                scope.spawn(move || {
                    for at in 0..COMMITS {
                        let shown = db.visible_time(clock, true).time;
                        let mut txn = db.begin();
                        let long = if at % 5 == 0 { 9000 } else { 10 };
                        txn.put(table, format!("{number} {at}"), "value ".repeat(long)).unwrap();
                        stamped(&mut txn, clock);
                        txn.commit_with(if at % 3 == 0 { Durability::Sync } else { Durability::Buffered }).unwrap();
                        assert!(db.visible_time(clock, true).time > shown);
                    }
                });
            }
        });
        db.sync().unwrap();
        let times = times(&db, start);
        assert_eq!(times.len() as u64, THREADS * COMMITS, "{compression:?}");
        assert!(times.is_sorted_by(|first, second| first < second), "{compression:?}: {times:?}");
        assert!(db.visible_time(&clock, true).time >= *times.last().unwrap());
    }
}

#[test]
fn a_prepared_commit_has_its_time_when_it_is_stamped_and_shows_it_when_it_is_applied() {
    let ((db, table), clock) = (open(LogCompression::Off), clock());
    let start = db.log_end();
    let prepare = |key: &str| {
        let mut txn = db.begin();
        txn.put(&table, key, "value").unwrap();
        stamped(&mut txn, &clock);
        txn.prepare().unwrap()
    };
    let (mut first, mut second) = (prepare("a"), prepare("b"));
    // The second one has the first place.
    let given = [second.stamp().unwrap(), first.stamp().unwrap()];
    assert!(given[0] < given[1]);
    assert_eq!(db.visible_time(&clock, false).time, 0, "none is applied");
    for (prepared, time) in [(second, given[0]), (first, given[1])] {
        let mut batch = Batch::new();
        let note = batch.append_record(prepared.record(), |_| Ok(table.clone())).unwrap().to_vec();
        batch.note(note);
        batch.stamp_given(&clock, time);
        db.write_with(&batch, Durability::Buffered).unwrap();
        assert_eq!(db.visible_time(&clock, false).time, time);
        assert_eq!(db.snapshot_with_time(&clock, false).1.time, time);
    }
    db.sync().unwrap();
    assert_eq!(times(&db, start), given);
}

#[test]
fn a_time_beyond_the_note_is_refused_and_a_later_note_forgets_it() {
    let ((db, table), clock) = (open(LogCompression::Off), clock());
    let mut txn = db.begin();
    txn.put(&table, "a", "1").unwrap();
    txn.note([0; 8]);
    txn.stamp(&clock, 1);
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Invalid);
    let mut txn = db.begin();
    txn.put(&table, "a", "1").unwrap();
    txn.note([0; 8]);
    txn.stamp(&clock, 0);
    txn.note([7; 9]);
    txn.commit().unwrap();
    assert_eq!(clock.newest_commit(), 0);
}
