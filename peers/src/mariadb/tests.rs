//! Round trips.

use super::{Kind, MariaDb};
use spinney_lab::driver::{
    Batch, Client, Compression, Config, Direction, Durability, Engine, Outcome, Scan, Store, TableId, TableSpec,
};
use std::path::Path;

const ROWS: TableId = TableId(0);
const TABLES: [TableSpec; 3] =
    [TableSpec::new("rows"), TableSpec::index("market", ROWS), TableSpec::index("price", ROWS)];

/// Runs `test` on both engines, each in a directory of its own; what is not installed is skipped with the reason.
fn each(test: impl Fn(&dyn Engine, &Path)) {
    for kind in [Kind::InnoDb, Kind::MyRocks] {
        let engine = MariaDb { kind };
        if let Some(why) = engine.missing() {
            eprintln!("skipped: {} is missing: {why}", engine.name());
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        test(&engine, dir.path());
    }
}

fn open(engine: &dyn Engine, dir: &Path, durability: Durability) -> Box<dyn Store> {
    let config = Config {
        durability,
        direct_io: false,
        memory_bytes: 32 << 20,
        compression: Compression::None,
        ..Config::default()
    };
    engine.open(&dir.join("db"), &config, &TABLES).unwrap()
}

/// Columns of row `pk`: time, register, customer, product, price.
fn row(pk: u64) -> ([u8; 8], Vec<u8>, Vec<u8>) {
    let (customer, product, price) = (3_u32, u32::try_from(pk % 5).unwrap(), 1_000_u32);
    let mut value = (pk * 10).to_be_bytes().to_vec();
    for number in [7, customer, product, price] {
        value.extend_from_slice(&u32::to_be_bytes(number));
    }
    value.extend_from_slice(b"filler\0\xff");
    let mut market = Vec::new();
    for number in [product, customer, price] {
        market.extend_from_slice(&number.to_be_bytes());
    }
    market.extend_from_slice(&pk.to_be_bytes());
    (pk.to_be_bytes(), value, market)
}

fn keys(client: &mut dyn Client, scan: &Scan<'_>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    client.scan(scan, &mut |key, _| keys.push(key.to_vec())).unwrap();
    keys
}

fn put(client: &mut dyn Client, pks: std::ops::Range<u64>) {
    let mut batch = Batch::new();
    for pk in pks {
        let (key, value, _) = row(pk);
        batch.put(ROWS, &key, &value);
    }
    assert_eq!(client.write(&batch).unwrap(), Outcome::Done);
}

#[test]
fn rows_and_their_index_entries_come_back_in_our_bytes() {
    each(|engine, dir| {
        let store = open(engine, dir, Durability::Interval(20));
        let mut client = store.client().unwrap();
        put(&mut *client, 0..1_200);
        store.build_indexes().unwrap();
        client.view().unwrap();
        let mut batch = Batch::new();
        batch.delete(ROWS, &row(4).0);
        batch.delete(ROWS, &row(9).0);
        batch.delete(TableId(1), &row(4).2);
        batch.put(ROWS, &row(5_000).0, &row(5_000).1);
        batch.put(ROWS, &row(3).0, &row(3).1);
        assert_eq!(client.write(&batch).unwrap(), Outcome::Done);
        assert_eq!(keys(&mut *client, &Scan::all(TableId(1))).len(), 1_200, "the view stays");
        client.view().unwrap();
        let mut expected: Vec<Vec<u8>> =
            (0..1_200).filter(|pk| ![4, 9].contains(pk)).chain([5_000]).map(|pk| row(pk).2).collect();
        expected.sort();
        assert_eq!(keys(&mut *client, &Scan::all(TableId(1))), expected);
        let from = row(14).2;
        let place = expected.iter().position(|entry| *entry == from).unwrap();
        assert_eq!(keys(&mut *client, &Scan::from(TableId(1), &from, 10)), expected[place..][..10]);
        let backward = Scan {
            direction: Direction::Backward,
            until: Some(&expected[place - 3]),
            ..Scan::from(TableId(1), &from, 99)
        };
        let before: Vec<_> = expected[place - 2..=place].iter().rev().cloned().collect();
        assert_eq!(keys(&mut *client, &backward), before);
        let mut value = Vec::new();
        assert!(client.get(ROWS, &row(77).0, &mut |found| value = found.to_vec()).unwrap());
        assert_eq!(value, row(77).1);
        assert!(!client.get(ROWS, &row(4).0, &mut |_| ()).unwrap());
        assert!(store.counters().unwrap().log_written_bytes.unwrap() > 0);
        assert_eq!(store.processes().len(), 1);
        drop(client);
        store.flush().unwrap();
        store.close().unwrap();
    });
}

#[test]
fn a_killed_server_still_has_what_was_committed() {
    each(|engine, dir| {
        let store = open(engine, dir, Durability::Buffered);
        put(&mut *store.client().unwrap(), 0..10);
        drop(store);
        let store = open(engine, dir, Durability::Sync);
        let mut client = store.client().unwrap();
        let all = keys(&mut *client, &Scan::all(ROWS));
        assert_eq!(all, (0..10).map(|pk| row(pk).0.to_vec()).collect::<Vec<_>>());
        // Changes of an index make it.
        let mut batch = Batch::new();
        batch.put(TableId(1), &row(0).2, b"");
        assert_eq!(client.write(&batch).unwrap(), Outcome::Done);
        assert_eq!(keys(&mut *client, &Scan::all(TableId(1))).len(), 10);
    });
}
