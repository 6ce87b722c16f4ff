//! Our own engines do what the lab asks of every driver.

use anyhow::{Context as _, Result};
use spinney_lab::driver::{self, conformance};

fn conforms(name: &str) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let engine = driver::engines().into_iter().find(|engine| engine.name() == name).context("no such engine")?;
    assert_eq!(conformance(&*engine, dir.path())?, []);
    Ok(())
}

#[test]
fn the_btree_conforms() -> Result<()> {
    conforms("spinney-btree")
}

#[test]
fn the_leveled_lsm_conforms() -> Result<()> {
    conforms("spinney-lsm")
}

#[test]
fn the_tiered_lsm_conforms() -> Result<()> {
    conforms("spinney-lsm-tiered")
}
