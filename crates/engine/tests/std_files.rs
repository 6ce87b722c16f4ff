//! The core on files by the standard library alone, which is what every system but Linux has.

use std::collections::BTreeMap;
use std::path::Path;

use spinney::env::Env;
use spinney::{Batch, Compression, Database, Durability, ErrorKind, Layout, Options, Result, TableOptions};
use spinney_testkit::Rng;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(path: &Path) -> Result<Database> {
    let options = Options::default().memory_bytes(2 << 20).log_segment_bytes(64 << 10).log_bytes_max(256 << 10);
    Database::builder(path).env(Env::std()).options(options).open()
}

fn assert_holds(db: &Database, model: &Model, when: &str) {
    let table = db.table("t").expect("it is open").expect("it was created");
    let found: Model =
        table.range(..).map(|entry| entry.expect("a read")).map(|(key, value)| (key, value.to_vec())).collect();
    assert!(found == *model, "{when}: {} rows of {}", found.len(), model.len());
    for key in model.keys().step_by(97) {
        assert_eq!(table.get(key).expect("a get").as_deref(), model.get(key).map(|value| &value[..]), "{when}");
    }
    let report = db.verify().expect("files that can be read");
    assert!(report.problems.is_empty(), "{when}: {:?}", report.problems);
}

#[test]
fn writes_flushes_compactions_and_opens_keep_what_was_written() {
    for (number, layout) in [(1, Layout::BTree), (2, Layout::Lsm), (3, Layout::LsmTiered)] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("db");
        let (mut rng, mut model) = (Rng::new(number), Model::new());
        for round in 0..4 {
            let db = open(&path).expect("a database");
            let options = TableOptions::default().layout(layout).run_bytes_max(64 << 10).compression(Compression::Lz4);
            let table = db.open_or_create_table("t", options).expect("a table");
            for _ in 0..60 {
                let mut batch = Batch::new();
                for _ in 0..100 {
                    let key = (rng.number() % 5000).to_be_bytes().to_vec();
                    if rng.chance(20) {
                        batch.delete(&table, &key);
                        model.remove(&key);
                    } else {
                        let value = rng.bytes(100);
                        batch.put(&table, &key, &value);
                        model.insert(key, value);
                    }
                }
                let durability = if rng.chance(10) { Durability::Sync } else { Durability::Buffered };
                db.write_with(&batch, durability).expect("a write");
            }
            table.wait_idle().expect("a machine in order");
            assert_holds(&db, &model, &format!("{layout:?}, round {round}"));
            assert_eq!(open(&path).unwrap_err().kind(), ErrorKind::Locked);
            if round == 1 {
                table.compact().expect("a machine in order");
                db.checkpoint(dir.path().join("copy")).expect("a machine in order");
                let copy = open(&dir.path().join("copy")).expect("a database");
                assert_holds(&copy, &model, "the checkpoint");
            }
            drop(table);
            // The log has what is not flushed, by a close or without.
            if round % 2 == 0 { db.close().expect("a machine in order") } else { drop(db) }
        }
        assert_holds(&open(&path).expect("a database"), &model, "in the end");
    }
}
