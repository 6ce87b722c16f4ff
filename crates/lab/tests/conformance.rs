//! Our own engines do what the lab asks of every driver.

use spinney_lab::driver::{self, conformance};

fn conforms(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let engine = driver::engines().into_iter().find(|engine| engine.name() == name).unwrap();
    let lacking = conformance(&*engine, dir.path()).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(lacking, []);
}

#[test]
fn the_btree_conforms() {
    conforms("spinney-btree");
}

#[test]
fn the_leveled_lsm_conforms() {
    conforms("spinney-lsm");
}

#[test]
fn the_tiered_lsm_conforms() {
    conforms("spinney-lsm-tiered");
}
