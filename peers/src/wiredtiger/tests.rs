//! The checks that every driver has to pass, and conflicts as WiredTiger tells them.

use super::{Tree, WiredTiger};
use anyhow::Result;
use spinney_lab::driver::{
    Batch, Client, Compression, Config, Durability, Engine, Outcome, Store, TableId, TableSpec, conformance,
};
use std::path::Path;

/// An engine without the compression that a default configuration asks for, and which Debian's build does not have.
#[derive(Debug)]
struct Plain(WiredTiger);

impl Engine for Plain {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn version(&self) -> String {
        self.0.version()
    }

    fn direct_io(&self) -> bool {
        self.0.direct_io()
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        self.0.open(dir, &Config { compression: Compression::None, ..config.clone() }, tables)
    }
}

/// Runs `test` on an engine in a directory of its own; what is not installed is skipped with the reason.
fn on(tree: Tree, test: impl Fn(&dyn Engine, &Path)) {
    let engine = WiredTiger { tree };
    if let Some(why) = engine.missing() {
        eprintln!("skipped: {} is missing: {why}", engine.name());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    test(&Plain(engine), dir.path());
}

#[test]
fn btrees_conform() {
    on(Tree::Btree, |engine, dir| drop(conformance(engine, dir).unwrap()));
}

#[test]
fn lsm_trees_conform() {
    on(Tree::Lsm, |engine, dir| drop(conformance(engine, dir).unwrap()));
}

fn get(client: &mut dyn Client, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    client.get(TableId(0), key, &mut |found| value = Some(found.to_vec())).unwrap();
    value
}

/// WiredTiger says it in a read for update, which has no way to say it to the workload.
#[test]
fn a_conflict_of_a_read_for_update_comes_with_the_commit() {
    for tree in [Tree::Btree, Tree::Lsm] {
        on(tree, |engine, dir| {
            let config = Config { durability: Durability::Buffered, direct_io: false, ..Config::default() };
            let store = engine.open(&dir.join("db"), &config, &[TableSpec::new("kv")]).unwrap();
            let (mut one, mut two) = (store.client().unwrap(), store.client().unwrap());
            let mut batch = Batch::new();
            batch.put(TableId(0), b"a", b"0");
            assert_eq!(one.write(&batch).unwrap(), Outcome::Done);
            one.begin().unwrap();
            two.begin().unwrap();
            assert_eq!(get(&mut *two, b"a"), Some(b"0".to_vec()));
            assert_eq!(one.write(&batch).unwrap(), Outcome::Done);
            assert!(two.get_for_update(TableId(0), b"a", &mut |_| ()).unwrap());
            assert_eq!(two.commit().unwrap(), Outcome::Conflict);
            assert_eq!(one.commit().unwrap(), Outcome::Done);
        });
    }
}
