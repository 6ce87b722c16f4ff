//! Many threads at once, on the real file system: no update is lost, and every snapshot is of one moment.

use spinney::{Batch, Database, Durability, ErrorKind, Layout, Options, Result, Snapshot, Table, TableOptions};
use spinney_testkit::{Config, Rng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const ACCOUNTS: u64 = 40;
const START: u64 = 100;
const THREADS: u64 = 4;
const TRANSFERS: usize = 1500;

#[test]
fn transfers_between_accounts_keep_the_sum() {
    for layout in [Layout::BTree, Layout::Lsm, Layout::LsmTiered] {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let opened = open(folder.path(), layout, "tiny-everything").expect("an empty folder");
        let (database, tables) = &opened;
        let mut batch = Batch::new();
        for account in 0..ACCOUNTS {
            batch.put(table_of(tables, account), account.to_be_bytes(), START.to_le_bytes());
        }
        database.write_with(&batch, Durability::Sync).expect("the start");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(sum(&database.snapshot(), tables), ACCOUNTS * START);
                }
            });
            let verifier = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(database.verify().expect("verify reads").problems, vec![]);
                    tables.iter().for_each(|table| table.compact().expect("compaction"));
                }
            });
            let writers: Vec<_> =
                (0..THREADS).map(|seed| scope.spawn(move || transfer(database, tables, seed))).collect();
            let done: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(done.iter().chain([&reader.join(), &verifier.join()]).all(|result| result.is_ok()), "{layout:?}");
        });
        assert_eq!(sum(&database.snapshot(), tables), ACCOUNTS * START);
        drop(opened);
        let (database, tables) = open(folder.path(), layout, "plain").expect("it was closed well");
        assert_eq!(sum(&database.snapshot(), &tables), ACCOUNTS * START);
    }
}

#[test]
fn no_increment_is_lost() {
    for layout in [Layout::BTree, Layout::Lsm] {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let (database, tables) = open(folder.path(), layout, "tiny-memtables").expect("an empty folder");
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (database, tables) = (&database, &tables);
                scope.spawn(move || {
                    let ballast = vec![u8::try_from(thread).expect("few threads"); 200];
                    for number in 0..500_u64 {
                        let key = [b"counter", &[u8::try_from(number % 3).expect("below 3")][..]].concat();
                        while !is_committed(increment(database, &tables[0], &key)) {}
                        // Fills memtables, so that they are switched while counters are in them.
                        let mut batch = Batch::new();
                        batch.put(&tables[0], [thread.to_be_bytes(), number.to_be_bytes()].concat(), &ballast);
                        database.write_with(&batch, Durability::Buffered).expect("a batch never conflicts");
                    }
                });
            }
        });
        let snapshot = database.snapshot();
        let counters = snapshot.range(&tables[0], &b"counter"[..]..&b"countes"[..]);
        let total: u64 = counters.map(|entry| number_of(&entry.expect("readable").1)).sum();
        assert_eq!(total, THREADS * 500, "{layout:?}");
        assert_eq!(snapshot.range(&tables[0], ..).count(), 3 + usize::try_from(THREADS * 500).expect("small"));
    }
}

/// Workers take in the log in no order, in batches; a small memory makes them wait for a flush now and then.
#[test]
fn a_replay_on_all_processors_gives_what_was_committed() {
    for (layout, memory) in [(Layout::Lsm, 1 << 20), (Layout::BTree, 1 << 20), (Layout::Lsm, 256 << 20)] {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let (whole, copy) = (folder.path().join("whole"), folder.path().join("copy"));
        let database = Database::open(&whole, Options::default().log_bytes_max(1 << 30)).expect("new");
        let tables = [("sums", Some("add")), ("values", None)].map(|(name, merge)| {
            let options = TableOptions::default().layout(layout).merge(merge);
            database.create_table(name, options).expect("new")
        });
        let mut rng = Rng::new(7);
        for number in 0..40_000_u64 {
            let mut batch = Batch::new();
            batch.merge(&tables[0], (rng.number() % 50).to_be_bytes(), number.to_le_bytes());
            match rng.number() % 400 {
                0 => batch
                    .delete_range(&tables[1], &(number / 2).to_be_bytes()[..]..&(number / 2 + 90).to_be_bytes()[..]),
                1 => batch.put(&tables[1], number.to_be_bytes(), vec![1; 100_000]),
                _ => batch.put(&tables[1], (rng.number() % (number + 1)).to_be_bytes(), [2; 100]),
            }
            database.write_with(&batch, Durability::Buffered).expect("committed");
        }
        // What the process has handed to the kernel, as after a kill.
        copy_files(&whole, &copy);
        let replayed = Database::open(&copy, Options::default().memory_bytes(memory)).expect("sound");
        let all = |database: &Database, name: &str| -> Vec<_> {
            let table = database.table(name).expect("open").expect("there");
            database.snapshot().range(&table, ..).map(|entry| entry.expect("readable")).collect()
        };
        for name in ["sums", "values"] {
            assert!(all(&database, name) == all(&replayed, name), "{layout:?} {name}");
        }
        let is_flushed = replayed.stats().flush.flushes > 1;
        assert_eq!(is_flushed, memory == 1 << 20, "{layout:?}: memory makes flushes necessary, or does not");
        assert_eq!(replayed.verify().expect("verify reads").problems, vec![]);
    }
}

#[test]
fn a_checkpoint_amid_writers_is_of_one_moment() {
    for layout in [Layout::BTree, Layout::Lsm, Layout::LsmTiered] {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let (database, tables) = open(&folder.path().join("db"), layout, "tiny-everything").expect("an empty folder");
        let mut batch = Batch::new();
        for account in 0..ACCOUNTS {
            batch.put(table_of(&tables, account), account.to_be_bytes(), START.to_le_bytes());
        }
        database.write_with(&batch, Durability::Sync).expect("the start");
        let copies: Vec<_> = (0..6).map(|number| folder.path().join(format!("copy{number}"))).collect();
        thread::scope(|scope| {
            for seed in 0..2 {
                let (database, tables) = (&database, &tables);
                scope.spawn(move || transfer(database, tables, seed));
            }
            for copy in &copies {
                database.checkpoint(copy).expect("a new directory");
            }
        });
        for copy in &copies {
            for _ in 0..2 {
                let (database, tables) = open(copy, layout, "tiny-everything").expect("a database by itself");
                assert_eq!(sum(&database.snapshot(), &tables), ACCOUNTS * START, "{layout:?}");
                assert_eq!(database.verify().expect("verify reads").problems, vec![]);
                (0..20)
                    .for_each(|_| assert!(is_committed(move_money(&database, &tables, [1, 2], 1, Durability::Sync))));
            }
        }
    }
}

#[test]
fn a_table_dropped_amid_compactions_leaves_nothing_behind() {
    for layout in [Layout::BTree, Layout::Lsm, Layout::LsmTiered] {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let (database, _) = open(folder.path(), layout, "tiny-everything").expect("an empty folder");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let verifier = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(database.verify().expect("verify reads").problems, vec![]);
                }
            });
            for round in 0..15_u64 {
                let options = Config::named(layout, "tiny-everything").table_options(0);
                let table = database.create_table("brief", options).expect("a free name");
                let compactor = scope.spawn({
                    let table = table.clone();
                    move || while table.compact().is_ok() {}
                });
                for number in 0..300_u64 {
                    let mut batch = Batch::new();
                    batch.put(&table, (number * 7919 % 1000).to_be_bytes(), [7; 200]);
                    database.write_with(&batch, Durability::Buffered).expect("a batch never conflicts");
                }
                let snapshot = database.snapshot();
                let range = snapshot.range(&table, ..);
                database.drop_table("brief").expect("it is there");
                assert_eq!(range.filter(Result::is_ok).count(), 300, "round {round}");
                assert_eq!(snapshot.get(&table, b"k").expect_err("dropped").kind(), ErrorKind::Dropped);
                compactor.join().expect("it ends with the table");
            }
            is_over.store(true, Ordering::Relaxed);
            verifier.join().expect("no problem");
        });
        assert!(database.stats().memtable_bytes < 1 << 20, "what was dropped is not counted");
    }
}

/// Opens a database with two tables of the layout's configuration.
fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).expect("a new directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_files(&path, &target);
        } else {
            // A segment being prepared may have got its name meanwhile.
            let copied = std::fs::copy(&path, &target);
            assert!(copied.is_ok() || !path.exists(), "{}", path.display());
        }
    }
}

fn open(path: &std::path::Path, layout: Layout, set: &str) -> Result<(Database, Vec<Table>)> {
    let mut config = Config { merges: false, ..Config::named(layout, set) };
    config.options.compaction_threads = 4;
    let database = config.builder(path).open()?;
    let table = |number| {
        let name = format!("accounts{number}");
        match database.table(&name)? {
            Some(table) => Ok(table),
            None => database.create_table(&name, config.table_options(number)),
        }
    };
    let tables = (0..2).map(table).collect::<Result<_>>()?;
    Ok((database, tables))
}

fn table_of(tables: &[Table], account: u64) -> &Table {
    &tables[usize::try_from(account % 2).expect("below 2")]
}

fn transfer(database: &Database, tables: &[Table], seed: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..TRANSFERS {
        let (from, to) = (rng.number() % ACCOUNTS, rng.number() % ACCOUNTS);
        let amount = rng.number() % 10;
        let durability = if rng.chance(5) { Durability::Sync } else { Durability::Buffered };
        while from != to && !is_committed(move_money(database, tables, [from, to], amount, durability)) {}
    }
}

fn move_money(
    database: &Database,
    tables: &[Table],
    [from, to]: [u64; 2],
    amount: u64,
    durability: Durability,
) -> Result<()> {
    let mut txn = database.begin();
    let balance = |account: u64| -> Result<u64> {
        let value = txn.get(table_of(tables, account), account.to_be_bytes())?;
        Ok(number_of(&value.expect("no account is ever removed")))
    };
    let (rich, poor) = (balance(from)?, balance(to)?);
    let amount = amount.min(rich);
    txn.put(table_of(tables, from), from.to_be_bytes(), (rich - amount).to_le_bytes())?;
    txn.put(table_of(tables, to), to.to_be_bytes(), (poor + amount).to_le_bytes())?;
    txn.commit_with(durability)
}

fn increment(database: &Database, table: &Table, key: &[u8]) -> Result<()> {
    let mut txn = database.begin();
    let count = txn.get(table, key)?.map_or(0, |value| number_of(&value));
    txn.put(table, key, (count + 1).to_le_bytes())?;
    txn.commit_with(Durability::Buffered)
}

/// False when the transaction is to be tried again.
fn is_committed(result: Result<()>) -> bool {
    match result {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::Conflict => false,
        Err(error) => panic!("{error}"),
    }
}

/// The sum over all accounts, read forward in one table and backward in the other.
fn sum(snapshot: &Snapshot, tables: &[Table]) -> u64 {
    let entries = snapshot.range(&tables[0], ..).chain(snapshot.range_rev(&tables[1], ..));
    entries.map(|entry| number_of(&entry.expect("readable").1)).sum()
}

fn number_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("eight bytes"))
}
