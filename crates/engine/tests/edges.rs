//! The smallest options and the largest keys and values.

use spinney::{Batch, Database, Durability, ErrorKind, Layout, Options, TableOptions};

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

#[test]
fn the_smallest_options_take_the_longest_keys() {
    for layout in LAYOUTS {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let options = Options::default()
            .memory_bytes(1 << 20)
            .memtable_bytes(4 << 10)
            .log_segment_bytes(64 << 10)
            .log_bytes_max(128 << 10);
        let table = TableOptions::default().layout(layout).block_bytes(512).run_bytes_max(4 << 10).fanout(2);
        let open = || Database::open(folder.path().join("db"), options.clone()).expect("it opens");
        let key = |number: u8| [vec![number; (64 << 10) - 1], vec![7]].concat();
        let database = open();
        let opened = database.create_table("t", table).expect("a new name");
        for round in 0..3_u8 {
            for number in 0..20_u8 {
                let mut batch = Batch::new();
                batch.put(&opened, key(number), [round; 70_000]);
                batch.put(&opened, [number, round], b"short");
                database.write_with(&batch, Durability::Buffered).expect("it fits");
            }
        }
        let mut batch = Batch::new();
        batch.put(&opened, b"large", vec![1; 300 << 10]);
        assert_eq!(
            database.write_with(&batch, Durability::Sync).expect_err("over a quarter").kind(),
            ErrorKind::TooLarge
        );
        opened.compact().expect("compaction");
        drop(opened);
        database.close().expect("it closes");
        let database = open();
        let opened = database.table("t").expect("open").expect("it was created");
        let snapshot = database.snapshot();
        assert_eq!(snapshot.range(&opened, ..).filter(Result::is_ok).count(), 20 + 60);
        assert_eq!(snapshot.get(&opened, key(13)).expect("readable").expect("written").len(), 70_000);
        assert_eq!(database.verify().expect("verify reads").problems, vec![]);
    }
}

#[test]
fn a_value_larger_than_a_log_segment_comes_back_whole() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let options = Options::default().memory_bytes(1 << 30).log_segment_bytes(4 << 20);
    let value: Vec<u8> = (0..100_u32 << 20).map(|at| at.wrapping_mul(0x9e37_79b1).to_be_bytes()[0]).collect();
    let open = || Database::open(folder.path().join("db"), options.clone()).expect("it opens");
    let database = open();
    let tables: Vec<_> = [Layout::BTree, Layout::Lsm]
        .into_iter()
        .map(|layout| database.create_table(layout.name(), TableOptions::default().layout(layout)).expect("new"))
        .collect();
    for table in &tables {
        let mut batch = Batch::new();
        batch.put(table, b"large", &value);
        database.write_with(&batch, Durability::Sync).expect("it fits");
    }
    tables[0].flush().expect("flushed");
    drop(tables);
    drop(database);
    // One comes from the log, the other from its tree.
    let database = open();
    for table in database.tables().expect("open") {
        table.flush().expect("flushed");
        assert!(database.snapshot().get(&table, b"large").expect("readable").expect("written")[..] == value[..]);
    }
    assert_eq!(database.verify().expect("verify reads").problems, vec![]);
}
