//! Round trips.

use super::{Tree, WiredTiger};
use spinney_lab::driver::{
    Batch, Client, Config, Direction, Durability, Engine, Outcome, Scan, Store, TableId, TableSpec,
};
use std::path::Path;

const TABLES: [TableSpec; 2] = [TableSpec::new("kv"), TableSpec::index("other", TableId(0))];
const KV: TableId = TableId(0);

/// Runs `test` on both engines, each in a directory of its own; what is not installed is skipped with the reason.
fn each(test: impl Fn(&dyn Engine, &Path)) {
    for tree in [Tree::Btree, Tree::Lsm] {
        let engine = WiredTiger { tree };
        if let Some(why) = engine.missing() {
            eprintln!("skipped: {} is missing: {why}", engine.name());
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        test(&engine, dir.path());
    }
}

fn config(durability: Durability) -> Config {
    Config {
        durability,
        direct_io: false,
        memory_bytes: 32 << 20,
        compression: spinney_lab::driver::Compression::None,
        ..Config::default()
    }
}

fn open(engine: &dyn Engine, dir: &Path, durability: Durability) -> Box<dyn Store> {
    engine.open(&dir.join("db"), &config(durability), &TABLES).unwrap()
}

fn put(client: &mut dyn Client, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(KV, key, value);
    assert_eq!(client.write(&batch).unwrap(), Outcome::Done);
}

fn get(client: &mut dyn Client, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    let there = client.get(KV, key, &mut |found| value = Some(found.to_vec())).unwrap();
    assert_eq!(there, value.is_some());
    value
}

fn keys(client: &mut dyn Client, scan: &Scan<'_>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let visited = client.scan(scan, &mut |key, _| keys.push(key.to_vec())).unwrap();
    assert_eq!(visited, keys.len() as u64);
    keys
}

#[test]
fn what_is_written_comes_back_also_after_the_next_open() {
    each(|engine, dir| {
        let durabilities = [Durability::Sync, Durability::Interval(5), Durability::Buffered, Durability::NoLog];
        for (round, durability) in durabilities.into_iter().enumerate() {
            let dir = dir.join(round.to_string());
            std::fs::create_dir(&dir).unwrap();
            let store = open(engine, &dir, durability);
            let mut client = store.client().unwrap();
            let mut batch = Batch::new();
            for key in 0..100_u8 {
                batch.put(KV, &[1, key], &[key; 9]);
                batch.put(TableId(1), &[key], b"");
            }
            batch.delete(KV, &[1, 50]);
            batch.delete(KV, b"never there");
            assert_eq!(client.write(&batch).unwrap(), Outcome::Done);
            drop(client);
            store.sync().unwrap();
            store.flush().unwrap();
            assert!(store.counters().unwrap().flush_bytes.is_some());
            assert_eq!(store.shape().unwrap().len(), 2);
            store.close().unwrap();
            let store = open(engine, &dir, durability);
            let mut client = store.client().unwrap();
            assert_eq!(get(&mut *client, &[1, 7]), Some(vec![7; 9]), "{}", engine.name());
            assert_eq!(get(&mut *client, &[1, 50]), None);
            assert_eq!(keys(&mut *client, &Scan::all(TableId(1))).len(), 100);
            drop(client);
            store.close().unwrap();
        }
    });
}

#[test]
fn scans_begin_and_end_where_they_are_told_in_both_directions() {
    each(|engine, dir| {
        let store = open(engine, dir, Durability::Buffered);
        let mut client = store.client().unwrap();
        for key in [b"b", b"d", b"f", b"h"] {
            put(&mut *client, key, key);
        }
        let scan = |from: Option<&'static [u8]>, until: Option<&'static [u8]>, direction| Scan {
            table: KV,
            from,
            until,
            direction,
            limit: u64::MAX,
        };
        let cases: [(Scan<'_>, &str); 9] = [
            (scan(None, None, Direction::Forward), "bdfh"),
            (scan(None, None, Direction::Backward), "hfdb"),
            (scan(Some(b"c"), None, Direction::Forward), "dfh"),
            (scan(Some(b"d"), Some(b"h"), Direction::Forward), "df"),
            (scan(Some(b"g"), None, Direction::Backward), "fdb"),
            (scan(Some(b"f"), Some(b"b"), Direction::Backward), "fd"),
            (scan(Some(b"i"), None, Direction::Forward), ""),
            (scan(Some(b"a"), None, Direction::Backward), ""),
            (Scan { limit: 2, ..scan(Some(b"a"), None, Direction::Forward) }, "bd"),
        ];
        for (scan, expected) in cases {
            let found: String = keys(&mut *client, &scan).iter().map(|key| char::from(key[0])).collect();
            assert_eq!(found, expected, "{}: {scan:?}", engine.name());
        }
    });
}

#[test]
fn a_view_stays_while_its_client_writes() {
    each(|engine, dir| {
        let store = open(engine, dir, Durability::Buffered);
        let mut client = store.client().unwrap();
        put(&mut *client, b"a", b"1");
        client.view().unwrap();
        put(&mut *client, b"a", b"2");
        put(&mut *client, b"b", b"2");
        assert_eq!(get(&mut *client, b"a"), Some(b"1".to_vec()));
        assert_eq!(keys(&mut *client, &Scan::all(KV)).len(), 1);
        client.view().unwrap();
        assert_eq!(get(&mut *client, b"a"), Some(b"2".to_vec()));
        assert_eq!(keys(&mut *client, &Scan::all(KV)).len(), 2);
    });
}

#[test]
fn of_two_transactions_that_write_a_key_one_conflicts() {
    each(|engine, dir| {
        let store = open(engine, dir, Durability::Buffered);
        let (mut one, mut two) = (store.client().unwrap(), store.client().unwrap());
        put(&mut *one, b"a", b"0");
        let mut batch = Batch::new();
        batch.put(KV, b"a", b"1");
        one.begin().unwrap();
        two.begin().unwrap();
        assert_eq!(get(&mut *two, b"a"), Some(b"0".to_vec()));
        assert_eq!(one.write(&batch).unwrap(), Outcome::Done);
        assert_eq!(get(&mut *one, b"a"), Some(b"1".to_vec()), "a transaction reads its writes");
        assert_eq!(get(&mut *two, b"a"), Some(b"0".to_vec()));
        // The second learns of it when it reads for update, at the latest when it commits.
        assert!(two.get_for_update(KV, b"a", &mut |_| ()).unwrap());
        assert_eq!(two.commit().unwrap(), Outcome::Conflict);
        assert_eq!(one.commit().unwrap(), Outcome::Done);
        two.begin().unwrap();
        assert_eq!(two.write(&batch).unwrap(), Outcome::Done);
        two.rollback().unwrap();
        assert_eq!(get(&mut *two, b"a"), Some(b"1".to_vec()));
    });
}
