//! Commits that repeat records of earlier notes: the log has their changes once, and everything that reads it shows
//! them as if it had them twice.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{
    Batch, Change, Database, Durability, ErrorKind, Kind, Lsn, Options, SalvageMode, StoredNote, Table, TableOptions,
    decode_record, read_log,
};
use spinney_testkit::Rng;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10).log_bytes_max(256 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

fn table(db: &Database, name: &str) -> Table {
    db.table(name).unwrap().unwrap_or_else(|| db.create_table(name, TableOptions::default()).unwrap())
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The value of row `number`: its length depends on the number.
fn value(number: u64) -> Vec<u8> {
    let bytes = [10, 300, 40, 5000, 0, 700, 100, 20_000, 60, 90_000][usize::try_from(number % 10).unwrap()];
    (0..bytes).map(|at: u64| u8::try_from((number * 31 + at * 7) % 253).unwrap()).collect()
}

/// The record of a commit that puts row `number` of a table with another id, and has a note.
fn record(number: u64) -> &'static [u8] {
    static RECORDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let db = Database::builder("/other").env(SimEnv::new(1).env()).open().unwrap();
        (0..130).for_each(|other| drop(table(&db, &format!("t{other}"))));
        let rows = table(&db, "t129");
        let record = |number| {
            let mut txn = db.begin();
            txn.put(&rows, key(number), value(number)).unwrap();
            txn.note(format!("the note of row {number}"));
            txn.prepare().unwrap().record().to_vec()
        };
        (0..50).map(record).collect()
    });
    &RECORDS[usize::try_from(number).unwrap()]
}

/// Where a record is stored that waits to be committed.
type Waiting = VecDeque<(u64, Arc<StoredNote>, Range<usize>)>;

/// Stores records in a note.
fn store(db: &Database, numbers: Range<u64>, waiting: &mut Waiting) {
    let (mut note, mut places) = (b"records".to_vec(), Vec::new());
    for number in numbers {
        let (at, record) = (note.len(), record(number));
        note.extend_from_slice(record);
        places.push((number, at..note.len()));
    }
    let mut batch = Batch::new();
    batch.put(&table(db, "stored"), "stored", key(places.len() as u64));
    batch.note(&note);
    let stored = Arc::new(db.write_note(&batch, Durability::Interval).unwrap());
    assert_eq!(stored.bytes(), note);
    waiting.extend(places.into_iter().map(|(number, place)| (number, Arc::clone(&stored), place)));
}

/// Commits the record that waits first, with a row that tells how many are committed.
fn apply(db: &Database, waiting: &mut Waiting, durability: Durability) {
    let Some((number, stored, place)) = waiting.pop_front() else { return };
    let mut batch = Batch::new();
    let note = batch.append_record(&stored.bytes()[place.clone()], |_| Ok(table(db, "rows"))).unwrap();
    batch.put(&table(db, "state"), "applied", key(number + 1));
    batch.note([note, b", applied"].concat());
    batch.repeat(&stored, place);
    db.write_with(&batch, durability).unwrap();
}

fn applied(db: &Database) -> u64 {
    let row = table(db, "state").get("applied").unwrap();
    row.map_or(0, |row| u64::from_be_bytes(row.as_ref().try_into().unwrap()))
}

/// Checks that the rows that are committed are there, and no others; how many they are.
fn check_rows(db: &Database) -> u64 {
    let applied = applied(db);
    let rows: Vec<_> = db.snapshot().range(&table(db, "rows"), ..).map(|row| row.unwrap()).collect();
    assert_eq!(rows.len() as u64, applied);
    for (number, (at, bytes)) in rows.iter().enumerate() {
        assert!(*at == key(number as u64) && *bytes == value(number as u64), "row {number}");
    }
    applied
}

/// Checks what the log shows of the commits from `from` on, whose rows are up to `last`.
fn check_feed(db: &Database, from: Lsn, last: u64) {
    let (mut next, rows) = (None, table(db, "rows").id());
    for commit in db.changes(from).unwrap() {
        let commit = commit.unwrap();
        let changes = commit.changes();
        let Some(Change { key, value, kind, .. }) = changes.iter().find(|change| change.table == rows) else {
            continue;
        };
        let number = u64::from_be_bytes((*key).try_into().unwrap());
        assert!(*kind == Kind::Put && *value == self::value(number), "row {number}");
        assert_eq!(commit.note(), format!("the note of row {number}, applied").as_bytes());
        assert_eq!((changes.len(), commit.count), (2, 2));
        assert!(next.is_none_or(|next| next == number), "in their order");
        next = Some(number + 1);
    }
    assert!(next.is_none_or(|next| next == last), "{next:?} of {last}");
}

/// Runs a workload, to row `rows`.
fn run(sim: &SimEnv, seed: u64, rows: u64) {
    let (mut rng, db, mut waiting) = (Rng::new(seed), open(sim), Waiting::new());
    let mut stored = 0;
    while applied(&db) < rows {
        match rng.in_range(0..12) {
            0..3 if stored < rows => {
                let more = (stored + 1 + rng.number() % 3).min(rows);
                store(&db, stored..more, &mut waiting);
                stored = more;
            }
            3 => db.sync().unwrap(),
            4 => table(&db, "rows").flush().unwrap(),
            5 => db.flush().unwrap(),
            _ => {
                let durability = *rng.pick(&[Durability::Interval, Durability::Buffered, Durability::Sync]);
                apply(&db, &mut waiting, durability);
            }
        }
    }
    db.close().unwrap();
}

#[test]
fn power_lost_at_any_moment_leaves_a_prefix_of_the_commits() {
    for seed in 0..6 {
        let sim = SimEnv::new(seed);
        let failures = Arc::new(Mutex::new(Vec::new()));
        let (told, mut moment) = (Arc::clone(&failures), 0u64);
        sim.observe(Some(Box::new(move |fork| {
            moment += 1;
            if moment % 5 != seed % 5 {
                return;
            }
            let profiles = [CrashProfile::Strict, CrashProfile::Prefix, CrashProfile::Random, CrashProfile::Hostile];
            let profile = profiles[usize::try_from(moment / 5 % 4).unwrap()];
            fork.power_crash(profile);
            let checked = catch_unwind(AssertUnwindSafe(|| {
                let db = open(&fork);
                let (from, rows) = (db.log_start(), check_rows(&db));
                check_feed(&db, from, rows);
                // It goes on, and loses power again.
                let mut waiting = Waiting::new();
                store(&db, rows..rows + 2, &mut waiting);
                apply(&db, &mut waiting, Durability::Sync);
                apply(&db, &mut waiting, Durability::Interval);
                drop(db);
                fork.power_crash(CrashProfile::Strict);
                let db = open(&fork);
                let again = check_rows(&db);
                assert!(again > rows && again <= rows + 2);
                check_feed(&db, from.max(db.log_start()), again);
            }));
            if checked.is_err() {
                told.lock().unwrap().push(moment);
            }
        })));
        run(&sim, seed, 40);
        sim.observe(None);
        assert_eq!(*failures.lock().unwrap(), [0_u64; 0], "seed {seed}");
        let db = open(&sim);
        assert_eq!(check_rows(&db), 40);
        check_feed(&db, db.log_start(), 40);
    }
}

#[test]
fn the_log_has_changes_once_and_all_readers_show_them() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let (mut waiting, from) = (Waiting::new(), db.log_end());
    store(&db, 3..4, &mut waiting);
    apply(&db, &mut waiting, Durability::Sync);
    let bytes = db.log_end().0 - from.0;
    assert!(bytes < 5200, "{bytes} bytes for a row of 5000");
    check_feed(&db, from, 4);
    let reader = Database::builder("/db").env(sim.env()).open_read_only().unwrap();
    assert_eq!(reader.table("rows").unwrap().unwrap().get(key(3)).unwrap().as_deref(), Some(&value(3)[..]));
    drop(reader);
    drop(db);
    sim.power_crash(CrashProfile::Strict);
    let db = open(&sim);
    assert_eq!(table(&db, "rows").get(key(3)).unwrap().as_deref(), Some(&value(3)[..]));
    // A checkpoint has no log: what was repeated is in its trees.
    db.checkpoint("/copy").unwrap();
    let copy = Database::builder("/copy").env(sim.env()).open().unwrap();
    assert_eq!(copy.table("rows").unwrap().unwrap().get(key(3)).unwrap().as_deref(), Some(&value(3)[..]));
}

#[test]
fn a_note_of_a_segment_that_is_full_or_gone_is_written_again() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let mut waiting = Waiting::new();
    store(&db, 3..4, &mut waiting);
    // The log goes on, and what it had is given up.
    for number in 0..20 {
        table(&db, "other").put(key(number), vec![7; 20_000]).unwrap();
    }
    db.sync().unwrap();
    db.flush().unwrap();
    let (before, begins) = (db.log_end(), db.log_start());
    assert!(waiting[0].1.position() < begins, "the note is gone");
    apply(&db, &mut waiting, Durability::Sync);
    assert!(db.log_end().0 - before.0 > 5000);
    check_feed(&db, before, 4);
    drop(db);
    sim.power_crash(CrashProfile::Strict);
    let db = open(&sim);
    assert_eq!(table(&db, "rows").get(key(3)).unwrap().as_deref(), Some(&value(3)[..]));
}

#[test]
fn a_damaged_note_ends_the_log_before_what_repeats_it() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let mut waiting = Waiting::new();
    store(&db, 0..1, &mut waiting);
    apply(&db, &mut waiting, Durability::Sync);
    store(&db, 1..2, &mut waiting);
    let position = waiting[0].1.position();
    apply(&db, &mut waiting, Durability::Sync);
    db.sync().unwrap();
    table(&db, "other").put("later", "proves that it was durable").unwrap();
    db.sync().unwrap();
    let segments = sim.env().fs.list(Path::new("/db/log")).unwrap();
    let segment = segments.iter().map(|file| &file.name).find(|name| name.ends_with(".log")).unwrap().clone();
    drop(db);
    sim.power_crash(CrashProfile::Strict);
    // The first segment of a log begins at position 4096, behind a header of as many bytes.
    let path = Path::new("/db/log").join(segment);
    let note = sim.read_file(&path).unwrap();
    let text = b"the note of row 1";
    let at = note.windows(text.len()).position(|bytes| bytes == text).unwrap() as u64;
    assert!(at > position.0);
    sim.corrupt(&path, at, 1).unwrap();
    let builder = || Database::builder("/db").env(sim.env());
    let error = builder().open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let report = builder().salvage(SalvageMode::Repair).unwrap();
    assert!(!report.is_complete());
    let db = open(&sim);
    assert_eq!(check_rows(&db), 1, "what stands before the damage is kept");
}

#[test]
fn a_batch_that_repeats_nothing_of_use_is_written_as_it_is() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let rows = table(&db, "rows");
    let mut waiting = Waiting::new();
    store(&db, 3..4, &mut waiting);
    let (_, stored, place) = waiting.pop_front().unwrap();
    for range in [place.start + 1..place.end, 0..0, 0..7, place.start..place.end - 1, place.clone()] {
        let mut batch = Batch::new();
        batch.put(&rows, "mine", value(5));
        batch.note("mine");
        batch.repeat(&stored, range);
        db.write_with(&batch, Durability::Sync).unwrap();
    }
    let mut batch = Batch::new();
    batch.repeat(&stored, place.start..place.end + 1);
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(db.write_note(&Batch::new(), Durability::Sync).unwrap_err().kind(), ErrorKind::Invalid);
    // A note of another database, or of this one before it was opened again.
    db.close().unwrap();
    let db = open(&sim);
    let mut batch = Batch::new();
    batch.append_record(&stored.bytes()[place.clone()], |_| Ok(table(&db, "rows"))).unwrap();
    batch.repeat(&stored, place);
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::Invalid);
    let last = db.changes(db.log_start()).unwrap().last().unwrap().unwrap();
    assert_eq!((last.note(), last.changes()[0].value), (&b"mine"[..], &value(5)[..]));
}

#[test]
fn the_log_of_a_directory_is_read_with_what_was_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("db"), Options::default()).unwrap();
    let mut waiting = Waiting::new();
    store(&db, 0..6, &mut waiting);
    (0..6).for_each(|_| apply(&db, &mut waiting, Durability::Buffered));
    let (rows, mut shown) = (table(&db, "rows").id(), 0);
    read_log(dir.path().join("db"), Lsn(0), &mut |change| {
        if change.table == rows {
            assert!(change.key == key(shown) && change.value == value(shown));
            shown += 1;
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(shown, 6);
    assert_eq!(decode_record(record(3)).unwrap().0[0].value, value(3));
}
