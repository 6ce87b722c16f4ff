//! Every bound of every range at both ends, every length by one, and every file that is too many or too few:
//! exhaustively, over few keys.

#![expect(clippy::unwrap_used, reason = "in a test a panic is a failure")]

use spinney::base::key::KEY_BYTES_MAX;
use spinney::env::sim::SimEnv;
use spinney::{
    Batch, Database, Durability, ErrorKind, Layout, Options, Range, Result, Snapshot, Table, TableOptions, Transaction,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

/// The keys that there are; bounds are these, and those between, before and behind them.
const KEYS: [&[u8]; 3] = [b"b", b"d", b"f"];
const ENDS: [&[u8]; 7] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"];

type Bounds = (Bound<&'static [u8]>, Bound<&'static [u8]>);

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

fn create(db: &Database, name: &str, layout: Layout) -> Table {
    db.create_table(name, TableOptions::default().layout(layout)).unwrap()
}

fn write(db: &Database, change: impl FnOnce(&mut Batch)) -> Result<()> {
    let mut batch = Batch::new();
    change(&mut batch);
    db.write_with(&batch, Durability::Buffered)
}

fn every_range() -> Vec<Bounds> {
    let ends = || {
        let ends = ENDS.into_iter().flat_map(|key| [Bound::Included(key), Bound::Excluded(key)]);
        ends.chain([Bound::Unbounded]).collect::<Vec<_>>()
    };
    ends().into_iter().flat_map(|low| ends().into_iter().map(move |high| (low, high))).collect()
}

fn holds((low, high): Bounds, key: &[u8]) -> bool {
    let above = match low {
        Bound::Included(low) => low <= key,
        Bound::Excluded(low) => low < key,
        Bound::Unbounded => true,
    };
    let below = match high {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    };
    above && below
}

fn all(range: Range) -> Vec<(Vec<u8>, Vec<u8>)> {
    range.map(|entry| entry.unwrap()).map(|(key, value)| (key, value.to_vec())).collect()
}

/// Reads every range both ways, by a snapshot and by a transaction, and each key.
fn check(snapshot: &Snapshot, txn: &Transaction, table: &Table, expected: &BTreeMap<Vec<u8>, Vec<u8>>, told: &str) {
    for range in every_range() {
        let there = expected.iter().filter(|(key, _)| holds(range, key));
        let mut there: Vec<_> = there.map(|(key, value)| (key.clone(), value.clone())).collect();
        assert_eq!(all(snapshot.range(table, range)), there, "{told}, {range:?}");
        assert_eq!(all(txn.range(table, range)), there, "{told}, {range:?}, in a transaction");
        there.reverse();
        assert_eq!(all(snapshot.range_rev(table, range)), there, "{told}, {range:?}, backward");
        assert_eq!(all(txn.range_rev(table, range)), there, "{told}, {range:?}, backward, in a transaction");
    }
    let together = snapshot.multi_get(table, &ENDS).unwrap();
    for (key, found) in ENDS.into_iter().zip(together) {
        let there = expected.get(key).map(Vec::as_slice);
        assert_eq!(found.as_deref(), there, "{told}, {key:?}");
        assert_eq!(txn.get(table, key).unwrap().as_deref(), there, "{told}, {key:?}");
    }
}

#[test]
fn a_range_holds_the_keys_between_its_bounds_wherever_they_lie() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        for (number, moves) in ["", "f", "c", "pfpf", "pcpfp", "pfpcdf"].into_iter().enumerate() {
            let table = create(&db, &format!("t{number}"), layout);
            let mut expected = BTreeMap::new();
            let mut put = |keys: &[&[u8]], value: &[u8]| {
                write(&db, |batch| keys.iter().for_each(|key| batch.put(&table, key, value))).unwrap();
                expected.extend(keys.iter().map(|key| (key.to_vec(), value.to_vec())));
            };
            put(&KEYS, b"old");
            for (turn, step) in moves.chars().enumerate() {
                match step {
                    'f' => table.flush().unwrap(),
                    'c' => table.compact().unwrap(),
                    'd' => write(&db, |batch| batch.delete(&table, b"c")).unwrap(),
                    _ => put(&[KEYS[turn % KEYS.len()]], moves.as_bytes()),
                }
            }
            // The reads of the first round may pay for a view, which the second uses.
            for round in 0..2 {
                let (snapshot, mut own) = (db.snapshot(), db.begin());
                check(&snapshot, &db.begin(), &table, &expected, &format!("{layout:?} {moves} {round}"));
                // Of these the transaction has some, erased some and has one again.
                own.delete_range(&table, ..=&b"e"[..]).unwrap();
                own.put(&table, b"d", b"own").unwrap();
                own.delete(&table, b"f").unwrap();
                for range in every_range() {
                    let there = if holds(range, b"d") { vec![(b"d".to_vec(), b"own".to_vec())] } else { Vec::new() };
                    assert_eq!(all(own.range(&table, range)), there, "{layout:?} {moves}, {range:?}");
                    assert_eq!(all(own.range_rev(&table, range)), there, "{layout:?} {moves}, {range:?}, backward");
                }
                table.wait_idle().unwrap();
            }
        }
        assert_eq!(db.verify().unwrap().problems, []);
    }
}

#[test]
fn a_deleted_range_takes_the_keys_between_its_bounds_and_no_others() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(2);
        let db = open(&sim);
        let table = create(&db, "t", layout);
        for (number, range) in every_range().into_iter().enumerate() {
            write(&db, |batch| KEYS.iter().for_each(|key| batch.put(&table, key, b"old"))).unwrap();
            if number % 3 == 1 {
                table.flush().unwrap();
            }
            let before = db.snapshot();
            if number % 2 == 0 {
                write(&db, |batch| batch.delete_range(&table, range)).unwrap();
            } else {
                let mut txn = db.begin();
                txn.delete_range(&table, range).unwrap();
                txn.commit_with(Durability::Buffered).unwrap();
            }
            let left: Vec<Vec<u8>> = KEYS.iter().filter(|key| !holds(range, key)).map(|key| key.to_vec()).collect();
            let keys = |snapshot: &Snapshot| all(snapshot.range(&table, ..)).into_iter().map(|(key, _)| key);
            let told = format!("{layout:?}, {range:?}");
            assert!(keys(&db.snapshot()).eq(left.iter().cloned()), "{told}");
            assert!(keys(&before).eq(KEYS.iter().map(|key| key.to_vec())), "{told}");
            drop(before);
            if number % 5 == 0 {
                table.flush().unwrap();
                assert!(keys(&db.snapshot()).eq(left.iter().cloned()), "{told}, flushed");
            }
            if number % 15 == 0 {
                table.compact().unwrap();
                assert!(keys(&db.snapshot()).eq(left.iter().cloned()), "{told}, compacted");
            }
        }
    }
}

/// What a commit does to neighbouring keys, by their numbers: from the first on, up to the last.
#[derive(Clone, Copy, Debug)]
enum Change {
    Put(usize),
    Erase(usize, usize),
    Load(usize, usize),
}

impl Change {
    fn keys(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Self::Put(key) => key..=key,
            Self::Erase(first, last) | Self::Load(first, last) => first..=last,
        }
    }
}

#[test]
fn two_changes_conflict_when_they_have_a_key_in_common() {
    const KEYS: usize = 4;
    let key = |number: usize| [b'k', u8::try_from(2 * number).unwrap()];
    let pairs = || (0..KEYS).flat_map(|first| (first..KEYS).map(move |last| (first, last)));
    let mine = (0..KEYS).map(Change::Put).chain(pairs().map(|(first, last)| Change::Erase(first, last)));
    let loads = pairs().map(|(first, last)| Change::Load(first, last));
    let mine: Vec<_> = mine.collect();
    for layout in LAYOUTS {
        let sim = SimEnv::new(3);
        let db = open(&sim);
        for (number, other) in mine.iter().copied().chain(loads.clone()).enumerate() {
            let table = create(&db, &format!("t{number}"), layout);
            for flushed in [false, true] {
                let transactions: Vec<_> = mine
                    .iter()
                    .map(|change| {
                        let mut txn = db.begin();
                        match *change {
                            Change::Put(at) => txn.put(&table, key(at), b"mine").unwrap(),
                            Change::Erase(first, last) => {
                                txn.delete_range(&table, &key(first)[..]..=&key(last)[..]).unwrap();
                            }
                            Change::Load(..) => unreachable!("a transaction loads nothing"),
                        }
                        (*change, txn)
                    })
                    .collect();
                match other {
                    Change::Put(at) => write(&db, |batch| batch.put(&table, key(at), b"other")).unwrap(),
                    Change::Erase(first, last) => {
                        write(&db, |batch| batch.delete_range(&table, &key(first)[..]..=&key(last)[..])).unwrap();
                    }
                    Change::Load(first, last) => {
                        let mut load = table.bulk_load().unwrap();
                        (first..=last).for_each(|at| load.push(&key(at), b"other").unwrap());
                        load.finish().unwrap();
                    }
                }
                if flushed {
                    table.flush().unwrap();
                }
                let mut taken: Vec<usize> = other.keys().collect();
                for (change, txn) in transactions {
                    let met = change.keys().any(|key| taken.contains(&key));
                    let committed = txn.commit_with(Durability::Buffered).map_err(|error| error.kind());
                    let expected = if met { Err(ErrorKind::Conflict) } else { Ok(()) };
                    assert_eq!(committed, expected, "{layout:?}, {change:?} after {other:?}, flushed {flushed}");
                    if !met {
                        taken.extend(change.keys());
                    }
                }
            }
            drop(table);
            db.drop_table(&format!("t{number}")).unwrap();
        }
    }
}

#[test]
fn a_key_that_cannot_be_stored_is_refused_by_every_call_and_the_longest_is_not() {
    let db = open(&SimEnv::new(4));
    let table = create(&db, "t", Layout::Lsm);
    let (none, longest, longer) = (vec![], vec![b'k'; KEY_BYTES_MAX], vec![b'k'; KEY_BYTES_MAX + 1]);
    for (key, is_refused) in [(&none, true), (&longest, false), (&longer, true)] {
        let (snapshot, mut txn) = (db.snapshot(), db.begin());
        // Own writes, and a range that has all keys, so that reads have something to say without looking further.
        txn.put(&table, b"own", b"own").unwrap();
        txn.delete_range(&table, ..).unwrap();
        let mut load = table.bulk_load().unwrap();
        let calls: Vec<(&str, Result<()>)> = vec![
            ("get", snapshot.get(&table, key).map(drop)),
            ("contains", snapshot.contains(&table, key).map(drop)),
            ("multi_get", snapshot.multi_get(&table, &[&b"a"[..], key]).map(drop)),
            ("get of a transaction", txn.get(&table, key).map(drop)),
            ("contains of a transaction", txn.contains(&table, key).map(drop)),
            ("multi_get of a transaction", txn.multi_get(&table, &[&b"a"[..], key]).map(drop)),
            ("put of a transaction", txn.put(&table, key, b"value")),
            ("delete of a transaction", txn.delete(&table, key)),
            ("put", write(&db, |batch| batch.put(&table, key, b"value"))),
            ("delete", write(&db, |batch| batch.delete(&table, key))),
            ("single_delete", write(&db, |batch| batch.single_delete(&table, key))),
            ("bulk load", load.push(key, b"value")),
        ];
        for (call, done) in calls {
            let refused = done.map_err(|error| error.kind());
            let expected = if is_refused { Err(ErrorKind::Invalid) } else { Ok(()) };
            assert_eq!(refused, expected, "{call}, a key of {} bytes", key.len());
        }
    }
}

#[test]
fn a_transaction_takes_a_quarter_of_the_memory_and_no_byte_more() {
    let db = open(&SimEnv::new(5));
    let table = create(&db, "t", Layout::BTree);
    let fits = |bytes: usize| db.begin().put(&table, b"key", vec![0; bytes]).map_err(|error| error.kind());
    let quarter = usize::try_from(db.options().memory_bytes / 4).unwrap();
    let most = (0..quarter + 1).collect::<Vec<_>>().partition_point(|bytes| fits(*bytes).is_ok()) - 1;
    assert!(quarter - most < 100, "{most} of {quarter}");
    assert_eq!((fits(most), fits(most + 1)), (Ok(()), Err(ErrorKind::TooLarge)));
    // What a write takes the place of counts no more, and a refused one changes nothing.
    let mut txn = db.begin();
    for _ in 0..3 {
        txn.put(&table, b"key", vec![1; most]).unwrap();
    }
    assert_eq!(txn.put(&table, b"key", vec![2; most + 1]).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(txn.put(&table, b"other", b"").unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(txn.delete_range(&table, &b"x"[..]..).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(txn.get(&table, b"key").unwrap().unwrap(), vec![1; most]);
    txn.delete(&table, b"key").unwrap();
    txn.put(&table, b"other", b"").unwrap();
    txn.commit().unwrap();
    assert_eq!(all(db.snapshot().range(&table, ..)), [(b"other".to_vec(), Vec::new())]);
}

/// The names of the files of trees and values.
fn files(sim: &SimEnv) -> Vec<String> {
    let names = sim.env().fs.list(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| [".run", ".values", ".tree"].iter().any(|end| name.ends_with(end))).collect()
}

/// Of small runs, and with files of every kind that the layout has.
fn with_values_apart(layout: Layout) -> TableOptions {
    let large_value_bytes = if layout == Layout::BTree { 0 } else { 100 };
    TableOptions::default().layout(layout).large_value_bytes(large_value_bytes).run_bytes_max(8 << 10)
}

#[test]
fn verify_names_each_file_that_is_missing_and_each_that_is_too_many() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(6);
        let db = open(&sim);
        let table = db.create_table("t", with_values_apart(layout)).unwrap();
        write(&db, |batch| KEYS.iter().for_each(|key| batch.put(&table, key, [7; 500]))).unwrap();
        table.flush().unwrap();
        assert_eq!(db.verify().unwrap().problems, []);
        let env = sim.env();
        for name in files(&sim) {
            let (path, moved) = (Path::new("/db").join(&name), Path::new("/db").join(format!("9{}", &name[1..])));
            env.fs.rename(&path, &moved).unwrap();
            let problems = db.verify().unwrap().problems;
            let tells = |path: &Path, what: &str| {
                let mut told = problems.iter().map(ToString::to_string);
                told.any(|problem| problem.contains(&*path.to_string_lossy()) && problem.contains(what))
            };
            assert!(tells(&path, "missing") && tells(&moved, "does not name"), "{layout:?} {name}: {problems:?}");
            env.fs.rename(&moved, &path).unwrap();
        }
        assert_eq!(db.verify().unwrap().problems, []);
    }
}

#[test]
fn a_dropped_table_leaves_no_file() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(7);
        let db = open(&sim);
        let table = db.create_table("t", with_values_apart(layout)).unwrap();
        for turn in 0..3u8 {
            let long = |number: u32| if number.is_multiple_of(10) { vec![turn; 500] } else { vec![turn; 50] };
            write(&db, |batch| (0..300u32).for_each(|number| batch.put(&table, number.to_be_bytes(), long(number))))
                .unwrap();
            if turn < 2 { table.flush().unwrap() } else { table.compact().unwrap() }
        }
        write(&db, |batch| batch.put(&table, b"more", [9; 500])).unwrap();
        table.flush().unwrap();
        assert!(!files(&sim).is_empty(), "{layout:?}");
        drop(table);
        db.drop_table("t").unwrap();
        assert_eq!(files(&sim), Vec::<String>::new(), "{layout:?}");
        assert_eq!(db.verify().unwrap().problems, []);
    }
}

/// A run that has keys on both sides of a range was read for none in it.
#[test]
fn changes_on_both_sides_of_a_range_do_not_conflict_with_it() {
    for (layout, flushed) in LAYOUTS.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
        let sim = SimEnv::new(4);
        let db = open(&sim);
        let table = create(&db, "t", layout);
        let (mut apart, mut met) = (db.begin(), db.begin());
        write(&db, |batch| [b"b", b"f"].iter().for_each(|key| batch.put(&table, key, b"other"))).unwrap();
        if flushed {
            table.flush().unwrap();
        }
        met.delete_range(&table, &b"c"[..]..=&b"f"[..]).unwrap();
        apart.delete_range(&table, &b"c"[..]..&b"f"[..]).unwrap();
        let met = met.commit_with(Durability::Buffered).map_err(|error| error.kind());
        assert_eq!(met, Err(ErrorKind::Conflict), "{layout:?}, flushed {flushed}");
        apart.commit_with(Durability::Buffered).unwrap();
    }
}

#[test]
fn a_memtable_is_flushed_when_it_has_its_bytes() {
    const BYTES: u64 = 256 << 10;
    for layout in LAYOUTS {
        let options = Options::default().memory_bytes(64 << 20).memtable_bytes(BYTES).log_bytes_max(1 << 30);
        let db = Database::builder("/db").env(SimEnv::new(5).env()).options(options).open().unwrap();
        let table = create(&db, "t", layout);
        for number in 0..2000_u32 {
            write(&db, |batch| batch.put(&table, number.to_be_bytes(), [7; 1000])).unwrap();
            let bytes = db.stats().memtable_bytes;
            assert!(bytes <= 2 * BYTES, "{layout:?}: {bytes} bytes after {number}");
        }
        assert_eq!(db.stats().stalls, 0, "memory has room for many");
    }
}

/// A log without a manifest is what is left of a database, and no place for another.
#[test]
fn a_database_is_made_where_nothing_is_that_another_has_left() {
    let made = |directories: &[&str]| {
        let sim = SimEnv::new(6);
        for name in directories {
            sim.env().fs.create_dir_all(&Path::new("/db").join(name)).unwrap();
        }
        Database::builder("/db").env(sim.env()).open().map(drop).map_err(|error| error.kind())
    };
    assert_eq!((made(&[]), made(&["lost+found"])), (Ok(()), Ok(())));
    assert_eq!(made(&["log"]), Err(ErrorKind::Corruption));
    assert_eq!(made(&["log", "lost+found"]), Err(ErrorKind::Corruption));
    assert_eq!(made(&["other"]), Err(ErrorKind::Invalid));
}
