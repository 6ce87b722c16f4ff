//! Verification finds what is wrong, and nothing else.

use super::Checked;
use crate::driver::{
    Batch, Client, Config, Direction, Engine, Outcome, Scan, Store, TableId, TableSpec, Wrong, engines, unless_lacking,
};
use crate::random::Random;
use anyhow::Result;
use std::path::Path;

const TABLES: [TableSpec; 2] = [TableSpec::new("rows"), TableSpec::new("index")];

fn engine(name: &str) -> Box<dyn Engine> {
    engines().into_iter().find(|engine| engine.name() == name).unwrap()
}

fn open(engine: &dyn Engine, dir: &Path) -> Box<dyn Store> {
    let config = Config { memory_bytes: 64 << 20, transactions: true, ..Config::default() };
    engine.open(&dir.join("db"), &config, &TABLES).unwrap()
}

fn ignore(_: &[u8], _: &[u8]) {}

/// Reads and writes of all kinds, chosen by a seed.
fn work(client: &mut dyn Client, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let mut batch = Batch::new();
    for round in 0..200_u64 {
        let in_transaction = round % 3 == 0;
        if in_transaction {
            client.begin()?;
        }
        let key = random.below(100).to_be_bytes();
        batch.clear();
        batch.put(TableId(0), &key, &round.to_be_bytes());
        batch.put(TableId(1), &random.below(20).to_be_bytes(), b"");
        batch.delete(TableId(1), &random.below(20).to_be_bytes());
        assert_eq!(client.write(&batch)?, Outcome::Done);
        client.get(TableId(0), &random.below(100).to_be_bytes(), &mut |_| {})?;
        client.get_for_update(TableId(1), &random.below(20).to_be_bytes(), &mut |_| {})?;
        let direction = if round % 2 == 0 { Direction::Forward } else { Direction::Backward };
        let scan = Scan { table: TableId(0), from: Some(&key), until: None, direction, limit: random.below(20) };
        client.scan(&scan, &mut ignore)?;
        if !in_transaction {
            client.multi_get(TableId(0), &[&key, b"none"], &mut |_, _| {})?;
        } else if round % 2 == 0 {
            client.rollback()?;
        } else {
            assert_eq!(client.commit()?, Outcome::Done);
        }
    }
    Ok(())
}

#[test]
fn a_right_engine_passes_with_many_clients_and_its_neighbour_sees_the_same_operations() {
    let mut hashes = Vec::new();
    for name in ["spinney-btree", "spinney-lsm"] {
        let (engine, dir) = (engine(name), tempfile::tempdir().unwrap());
        let checked = Checked::new(&*engine);
        let store = open(&checked, dir.path());
        std::thread::scope(|scope| {
            let store = &*store;
            for seed in 0..3 {
                scope.spawn(move || work(&mut *store.client().unwrap(), seed).unwrap());
            }
        });
        store.close().unwrap();
        assert!(checked.reads() >= 3 * 200 * 3);
        hashes.push(checked.operations_hash());
    }
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn other_operations_or_another_order_give_another_hash() {
    let hash = |keys: &[&[u8]]| {
        let (engine, dir) = (engine("spinney-lsm"), tempfile::tempdir().unwrap());
        let checked = Checked::new(&*engine);
        let store = open(&checked, dir.path());
        let mut client = store.client().unwrap();
        for key in keys {
            client.get(TableId(0), key, &mut |_| {}).unwrap();
        }
        drop(client);
        checked.operations_hash()
    };
    assert_eq!(hash(&[b"a", b"b"]), hash(&[b"a", b"b"]));
    assert_ne!(hash(&[b"a", b"b"]), hash(&[b"b", b"a"]));
    assert_ne!(hash(&[b"a", b"b"]), hash(&[b"a"]));
    assert_ne!(hash(&[b"a", b"b"]), hash(&[b"ab"]));
}

#[test]
fn a_lost_key_is_found_by_every_kind_of_read() {
    let wrong = Wrong { engine: engine("spinney-lsm"), lost: b"lost" };
    let dir = tempfile::tempdir().unwrap();
    let checked = Checked::new(&wrong);
    let store = open(&checked, dir.path());
    let mut client = store.client().unwrap();
    let mut batch = Batch::new();
    for key in [&b"a"[..], b"lost", b"z"] {
        batch.put(TableId(1), key, b"value");
    }
    assert_eq!(client.write(&batch).unwrap(), Outcome::Done);
    let table = TableId(1);
    let text = |result: Result<()>| result.unwrap_err().to_string();
    let key = "key 0x6c6f7374";
    let get = text(client.get(table, b"lost", &mut |_| {}).map(drop));
    assert!(
        get.contains("table `index`") && get.contains(key) && get.contains("expected 0x76616c7565, found no value"),
        "{get}"
    );
    let get = text(client.get_for_update(table, b"lost", &mut |_| {}).map(drop));
    assert!(get.contains(key), "{get}");
    let many = text(client.multi_get(table, &[b"a", b"lost"], &mut |_, _| {}));
    assert!(many.contains(key), "{many}");
    let scan = text(client.scan(&Scan::all(table), &mut ignore).map(drop));
    assert!(scan.contains(&format!("expected {key}, found key 0x7a")), "{scan}");
    let scan = text(client.scan(&Scan { until: Some(b"m"), ..Scan::all(table) }, &mut ignore).map(drop));
    assert!(scan.contains(&format!("expected {key}, found the end")), "{scan}");
    client.scan(&Scan { until: Some(b"b"), ..Scan::all(table) }, &mut ignore).unwrap();
    client.begin().unwrap();
    assert!(client.get(table, b"lost", &mut |_| {}).is_err());
}

#[test]
fn the_model_outlives_a_reopen_and_a_known_directory_that_is_new_starts_empty() {
    let (engine, dir) = (engine("spinney-btree"), tempfile::tempdir().unwrap());
    let checked = Checked::new(&*engine);
    for round in 0..2 {
        let store = open(&checked, dir.path());
        work(&mut *store.client().unwrap(), round).unwrap();
        store.close().unwrap();
    }
    // Behind its back another key comes in.
    let store = open(&*engine, dir.path());
    let mut batch = Batch::new();
    batch.put(TableId(0), b"foreign", b"");
    assert_eq!(store.client().unwrap().write(&batch).unwrap(), Outcome::Done);
    store.close().unwrap();
    let store = open(&checked, dir.path());
    let error = store.client().unwrap().get(TableId(0), b"foreign", &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("expected no value, found 0x"), "{error}");
    store.close().unwrap();
    // One that was never seen is taken as it is.
    let fresh = Checked::new(&*engine);
    let store = open(&fresh, dir.path());
    assert!(store.client().unwrap().get(TableId(0), b"foreign", &mut |_| {}).unwrap());
    store.close().unwrap();
    std::fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = open(&checked, dir.path());
    assert!(!store.client().unwrap().get(TableId(0), b"foreign", &mut |_| {}).unwrap());
    store.close().unwrap();
}

#[test]
fn a_transaction_that_is_dropped_leaves_nothing_in_the_model() {
    let (engine, dir) = (engine("spinney-lsm"), tempfile::tempdir().unwrap());
    let checked = Checked::new(&*engine);
    let store = open(&checked, dir.path());
    let mut batch = Batch::new();
    batch.put(TableId(0), b"k", b"v");
    let mut client = store.client().unwrap();
    client.begin().unwrap();
    assert_eq!(client.write(&batch).unwrap(), Outcome::Done);
    drop(client);
    let mut client = store.client().unwrap();
    assert!(unless_lacking(client.view()).unwrap().is_ok());
    assert!(!client.get(TableId(0), b"k", &mut |_| {}).unwrap());
}
