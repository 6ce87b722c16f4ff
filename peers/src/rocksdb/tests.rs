//! What the driver promises beyond what every driver does.

use super::*;
use spinney_lab::driver::{
    Batch, Client, Compression, Durability, Lacks, LogConfig, Outcome, Scan, TableId, conformance,
};
use std::fs;
use std::path::PathBuf;

const TABLE: TableId = TableId(0);
const TABLES: [TableSpec; 2] = [TableSpec::new("first"), TableSpec::new("second")];
const LEVELED: RocksDb = RocksDb { style: Style::Leveled, logs: Logs::Recycled };

/// A directory that is gone after the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self::within(&std::env::temp_dir(), name)
    }

    fn within(dir: &Path, name: &str) -> Self {
        let path = dir.join(format!("peers-rocksdb-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn open(&self, config: &Config) -> Box<dyn Store> {
        LEVELED.open(&self.0.join("db"), config, &TABLES).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn config() -> Config {
    Config {
        memory_bytes: 64 << 20,
        durability: Durability::Buffered,
        compression: Compression::None,
        direct_io: false,
        ..Config::default()
    }
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn put(client: &mut dyn Client, keys: impl IntoIterator<Item = u32>, value: &[u8]) -> Outcome {
    let mut batch = Batch::new();
    keys.into_iter().for_each(|n| batch.put(TABLE, &key(n), value));
    client.write(&batch).unwrap()
}

fn get(client: &mut dyn Client, n: u32) -> Option<Vec<u8>> {
    let mut found = None;
    let _ = client.get(TABLE, &key(n), &mut |value| found = Some(value.to_vec())).unwrap();
    found
}

/// The levels that hold anything, with their sorted runs.
fn levels(store: &dyn Store) -> Vec<(u64, u64)> {
    store.shape().unwrap()[0].levels.iter().map(|level| (level.level, level.sorted_runs)).collect()
}

/// The text of the options that RocksDB wrote for a database.
fn options_text(scratch: &Scratch) -> String {
    let files = fs::read_dir(scratch.0.join("db")).unwrap().map(|entry| entry.unwrap().path());
    let options = files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("OPTIONS-")).last();
    fs::read_to_string(options.unwrap()).unwrap()
}

#[test]
fn both_styles_conform() {
    for engine in engines().into_iter().filter(|engine| engine.other_log_of().is_none()) {
        let scratch = Scratch::new(&format!("conformance-{}", engine.name()));
        let lacking = conformance(&*engine, &scratch.0).unwrap();
        assert!(lacking.is_empty(), "{lacking:?}");
    }
}

#[test]
fn the_version_is_the_one_that_databases_are_made_by() {
    let scratch = Scratch::new("version");
    scratch.open(&config()).close().unwrap();
    let text = options_text(&scratch);
    assert!(
        text.contains(&format!("rocksdb_version={VERSION}\n")),
        "{}",
        text.lines().take(15).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn what_the_crate_has_no_names_for_is_set() {
    let scratch = Scratch::new("options");
    scratch.open(&config()).close().unwrap();
    let text = options_text(&scratch);
    for wanted in [
        "index_block_search_type=kAuto",
        "filter_policy=bloomfilter",
        "format_version=7",
        "unpartitioned_pinning=kAll",
        "compression=kNoCompression",
    ] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
}

/// The file of options does not name the bits of a filter that was set through the C interface; the files of the tables
/// show them.
#[test]
fn a_filter_has_the_bits_of_each_key_that_were_asked_for() {
    const KEYS: u32 = 10_000;
    let bytes = |filter_bits| {
        let scratch = Scratch::new("filter");
        let store = scratch.open(&Config { filter_bits, ..config() });
        assert_eq!(put(&mut *store.client().unwrap(), 0..KEYS, b"value"), Outcome::Done);
        store.flush().unwrap();
        store.counters().unwrap().flush_bytes.unwrap()
    };
    let bits = (bytes(10) - bytes(0)) * 8 / u64::from(KEYS);
    assert!((10..=11).contains(&bits), "{bits} bits");
}

#[test]
fn each_level_is_compacted_into_the_next() {
    let scratch = Scratch::new("levels");
    let store = scratch.open(&config());
    store.hold(true).unwrap();
    let mut client = store.client().unwrap();
    for round in 0..3 {
        assert_eq!(put(&mut *client, 0..1000, &[round; 100]), Outcome::Done);
        store.flush().unwrap();
    }
    assert_eq!(levels(&*store), [(0, 3)], "held");
    store.compact_level(0).unwrap();
    assert_eq!(levels(&*store), [(1, 1)]);
    store.compact_level(1).unwrap();
    assert_eq!(levels(&*store), [(1, 1)], "there is none below");
    assert_eq!(put(&mut *client, 500..700, b"new"), Outcome::Done);
    store.flush().unwrap();
    assert_eq!(levels(&*store), [(0, 1), (1, 1)]);
    store.compact_all().unwrap();
    assert_eq!(levels(&*store), [(1, 1)]);
    store.hold(false).unwrap();
    store.wait_idle().unwrap();
    assert_eq!((get(&mut *client, 600), get(&mut *client, 0)), (Some(b"new".to_vec()), Some(vec![2; 100])));
    let counters = store.counters().unwrap();
    let between = |bytes: Option<u64>, least: u64| (least..least * 5 / 4).contains(&bytes.unwrap());
    // Three times a thousand values and 200 short ones were flushed; a thousand values were left of them, and then 800.
    assert!(between(counters.flush_bytes, 320_000), "{counters:?}");
    assert!(between(counters.compaction_read_bytes, 420_000), "{counters:?}");
    assert!(between(counters.compaction_written_bytes, 190_000), "{counters:?}");
}

#[test]
fn the_log_is_counted_and_lies_where_it_was_told_to() {
    let scratch = Scratch::new("log");
    let dir = scratch.0.join("log");
    let store = scratch.open(&Config {
        durability: Durability::Sync,
        log: LogConfig { dir: Some(dir.clone()), ..LogConfig::default() },
        ..config()
    });
    let mut client = store.client().unwrap();
    for n in 0..20 {
        assert_eq!(put(&mut *client, [n], &[1; 10_000]), Outcome::Done);
    }
    let counters = store.counters().unwrap();
    assert_eq!(counters.log_syncs, Some(20));
    let written = counters.log_written_bytes.unwrap();
    assert!((190_000..230_000).contains(&written), "{written} bytes for 20 values of 10,000");
    let logs = fs::read_dir(&dir).unwrap().filter(|entry| store.is_log(&entry.as_ref().unwrap().path()));
    assert!(logs.count() > 0);
}

/// RocksDB's text about itself says `12K` from ten thousand on, so the column of syncs was empty in every long step.
#[test]
fn more_syncs_than_the_text_says_in_full_are_counted() {
    const COMMITS: u32 = 10_050;
    let memory = PathBuf::from("/dev/shm");
    let scratch = Scratch::within(&if memory.is_dir() { memory } else { std::env::temp_dir() }, "syncs");
    let store = scratch.open(&Config { durability: Durability::Sync, ..config() });
    let mut client = store.client().unwrap();
    for n in 0..COMMITS {
        assert_eq!(put(&mut *client, [n], &[1; 100]), Outcome::Done);
    }
    let counters = store.counters().unwrap();
    assert_eq!(counters.log_syncs, Some(u64::from(COMMITS)));
    let written = counters.log_written_bytes.unwrap();
    assert!((110..160).contains(&(written / u64::from(COMMITS))), "{written} bytes");
}

#[test]
fn by_default_log_files_are_always_new() {
    let recycled = |engine: RocksDb| {
        let scratch = Scratch::new(&format!("sync-{}", engine.name()));
        let config = Config { durability: Durability::Sync, ..config() };
        engine.open(&scratch.0.join("db"), &config, &TABLES).unwrap().close().unwrap();
        let lazy = Config { durability: Durability::Interval(100), ..config };
        let lazy = engine.open(&scratch.0.join("lazy"), &lazy, &TABLES);
        let text = options_text(&scratch);
        let line = text.lines().find_map(|line| line.trim().strip_prefix("recycle_log_file_num=")).unwrap().to_owned();
        (line, lazy.err().is_some_and(|error| Lacks::of(&error).is_some()))
    };
    assert_eq!(recycled(LEVELED), ("4".to_owned(), false));
    assert_eq!(recycled(RocksDb { logs: Logs::New, ..LEVELED }), ("0".to_owned(), true), "nothing else differs");
}

#[test]
fn logs_that_it_cannot_write_are_lacking() {
    let scratch = Scratch::new("lacks");
    let lacks = |log| {
        let opened = LEVELED.open(&scratch.0.join("db"), &Config { log, ..config() }, &TABLES);
        Lacks::of(&opened.err().expect("it does not open")).is_some()
    };
    assert!(lacks(LogConfig { compression: Some(Compression::Lz4), ..LogConfig::default() }));
}

#[test]
fn a_transaction_that_comes_second_conflicts() {
    let scratch = Scratch::new("conflict");
    let store = scratch.open(&Config { transactions: true, ..config() });
    let (mut a, mut b) = (store.client().unwrap(), store.client().unwrap());
    assert_eq!(put(&mut *a, [1], b"before"), Outcome::Done);
    b.begin().unwrap();
    assert_eq!(put(&mut *a, [1], b"first"), Outcome::Done);
    assert_eq!(get(&mut *b, 1), Some(b"before".to_vec()), "as of its beginning");
    assert_eq!(put(&mut *b, [1], b"second"), Outcome::Conflict);
    assert_eq!(get(&mut *b, 1), Some(b"first".to_vec()), "the transaction has ended");

    b.begin().unwrap();
    assert_eq!(put(&mut *a, [1], b"again"), Outcome::Done);
    let mut found = Vec::new();
    assert!(b.get_for_update(TABLE, &key(1), &mut |value| found = value.to_vec()).unwrap());
    assert_eq!(
        (found, b.commit().unwrap()),
        (b"first".to_vec(), Outcome::Conflict),
        "it could not lock what was changed"
    );

    b.begin().unwrap();
    assert!(b.get_for_update(TABLE, &key(1), &mut |_| ()).unwrap());
    assert_eq!(put(&mut *b, [1, 2], b"third"), Outcome::Done);
    assert_eq!(b.scan(&Scan::all(TABLE), &mut |_, value| assert_eq!(value, b"third")).unwrap(), 2);
    assert_eq!(get(&mut *a, 2), None);
    assert_eq!(b.commit().unwrap(), Outcome::Done);
    assert_eq!(get(&mut *a, 2), Some(b"third".to_vec()));
}

#[test]
fn scans_see_the_present_without_a_view_and_the_past_with_one() {
    let scratch = Scratch::new("view");
    let store = scratch.open(&config());
    let (mut reader, mut writer) = (store.client().unwrap(), store.client().unwrap());
    let count = |client: &mut dyn Client| client.scan(&Scan::all(TABLE), &mut |_, _| ()).unwrap();
    assert_eq!(count(&mut *reader), 0);
    assert_eq!(put(&mut *writer, 0..10, b"v"), Outcome::Done);
    assert_eq!(count(&mut *reader), 10, "the iterator is used again");
    reader.view().unwrap();
    assert_eq!(put(&mut *writer, 10..20, b"v"), Outcome::Done);
    assert_eq!((count(&mut *reader), count(&mut *reader)), (10, 10));
    reader.view().unwrap();
    assert_eq!(count(&mut *reader), 20);
}

#[test]
fn memory_is_divided_among_memtables() {
    let sizes = |config: &Config| options::Sizes::new(config);
    let big = sizes(&Config { memory_bytes: 1 << 30, ..config() });
    assert_eq!((big.memtable, big.memtables_total, big.level1, big.file), (64 << 20, 512 << 20, 256 << 20, 64 << 20));
    let little = sizes(&Config { memory_bytes: 4 << 20, ..config() });
    assert_eq!((little.memtable, little.memtables_total), (1 << 20, 4 << 20));
    let asked = sizes(&Config { memtable_bytes: Some(8 << 20), level1_bytes: Some(64 << 20), ..config() });
    assert_eq!((asked.memtable, asked.level1, asked.file), (8 << 20, 64 << 20, 16 << 20));
}
