//! What every driver must do, as checks that any engine can be put through.
//!
//! Keys have 1 to 500 bytes, since some engines take no more and none takes an empty one.

mod opening;
mod reads;
mod transactions;
mod views;
mod writes;

use super::batch::{Batch, Change};
use super::client::{Client, Scan};
use super::config::{Config, Durability, TableId, TableSpec};
use super::lacks::{Lacks, unless_lacking};
use super::model::Model;
use super::{Engine, Store};
use crate::random::Random;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// A check of a driver.
#[derive(Clone, Copy)]
struct Check {
    /// What is true of a driver that passes.
    name: &'static str,
    /// An engine may answer with [`Lacks`].
    may_lack: bool,
    run: fn(&Ground<'_>) -> Result<()>,
}

const CHECKS: &[Check] = &[
    must("what is put is got", writes::what_is_put_is_got),
    must("changes of a batch apply in their order", writes::changes_apply_in_order),
    must("small and large keys and values come back", writes::sizes),
    may("a batch of two tables is seen whole", writes::batches_are_seen_whole),
    must("scans visit what a model has", reads::scans),
    may("a read of many keys finds what single reads find", reads::many_keys),
    may("a view stays as others write, and moves on", views::stays_and_moves_on),
    may("a transaction sees its own writes, and nobody else does", transactions::isolated),
    may("a rollback leaves nothing", transactions::rollback),
    may("reads in a transaction match a model", transactions::model),
    may("transactions of two threads lose no update", transactions::threads),
    must("what was synced is there after a reopen", opening::reopen),
    must("the store's verbs do no harm", opening::verbs),
    must("every durability opens or is lacking", opening::durabilities),
];

const fn must(name: &'static str, run: fn(&Ground<'_>) -> Result<()>) -> Check {
    Check { name, may_lack: false, run }
}

const fn may(name: &'static str, run: fn(&Ground<'_>) -> Result<()>) -> Check {
    Check { name, may_lack: true, run }
}

/// Puts an engine through all checks, with databases in new directories below `dir`, which exists. Returns the checks
/// that it had no way to do, with what it lacks.
///
/// # Errors
/// All checks that failed, by name, and how.
pub fn conformance(engine: &dyn Engine, dir: &Path) -> Result<Vec<(&'static str, Lacks)>> {
    let (mut lacking, mut failed) = (Vec::new(), Vec::new());
    for (number, check) in CHECKS.iter().enumerate() {
        let ground = Ground { engine, dir: dir.join(format!("{}-{number}", engine.name())) };
        match unless_lacking((check.run)(&ground)) {
            Ok(Ok(())) => {}
            Ok(Err(lacks)) if check.may_lack => lacking.push((check.name, lacks)),
            Ok(Err(lacks)) => failed.push(format!("{}: {lacks}", check.name)),
            Err(error) => failed.push(format!("{}: {error:#}", check.name)),
        }
    }
    if failed.is_empty() {
        return Ok(lacking);
    }
    bail!("{} does not conform:\n  {}", engine.name(), failed.join("\n  "))
}

/// What a check works with.
struct Ground<'a> {
    engine: &'a dyn Engine,
    dir: PathBuf,
}

const TABLES: [TableSpec; 2] = [TableSpec::new("first"), TableSpec::new("second")];
const FIRST: TableId = TableId(0);
const SECOND: TableId = TableId(1);

impl Ground<'_> {
    fn open(&self) -> Result<Box<dyn Store>> {
        self.open_at(&self.dir, Durability::Buffered)
    }

    fn open_for_transactions(&self) -> Result<Box<dyn Store>> {
        self.open_with(&self.dir, &Config { transactions: true, ..self.config(Durability::Buffered) })
    }

    fn open_at(&self, dir: &Path, durability: Durability) -> Result<Box<dyn Store>> {
        self.open_with(dir, &self.config(durability))
    }

    fn open_with(&self, dir: &Path, config: &Config) -> Result<Box<dyn Store>> {
        self.engine.open(dir, config, &TABLES).context("cannot open the database")
    }

    fn config(&self, durability: Durability) -> Config {
        let direct_io = self.engine.direct_io();
        Config { memory_bytes: 64 << 20, durability, direct_io, ..Config::default() }
    }
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn put(client: &mut dyn Client, table: TableId, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(table, key, value);
    write(client, &batch)
}

/// A write that has nobody to conflict with.
fn write(client: &mut dyn Client, batch: &Batch) -> Result<()> {
    let outcome = client.write(batch)?;
    ensure!(outcome == super::Outcome::Done, "a write without a rival ended in a conflict");
    Ok(())
}

/// As [`write()`], for a transaction's end.
fn commit(client: &mut dyn Client) -> Result<()> {
    let outcome = client.commit()?;
    ensure!(outcome == super::Outcome::Done, "a commit without a rival ended in a conflict");
    Ok(())
}

/// From now on reads of the client see the present, whether or not it has views.
fn look(client: &mut dyn Client) -> Result<()> {
    unless_lacking(client.view()).map(drop)
}

fn get(client: &mut dyn Client, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut value = None;
    let there = client.get(table, key, &mut |found| value = Some(found.to_vec()))?;
    ensure!(there == value.is_some(), "a get says {there}, but its closure was called otherwise");
    Ok(value)
}

fn scan(client: &mut dyn Client, scan: &Scan<'_>) -> Result<Entries> {
    let mut entries = Vec::new();
    let count = client.scan(scan, &mut |key, value| entries.push((key.to_vec(), value.to_vec())))?;
    ensure!(count == entries.len() as u64, "a scan visited {} entries and says {count}", entries.len());
    Ok(entries)
}

/// Both tables hold what the model holds.
fn same(client: &mut dyn Client, model: &Model) -> Result<()> {
    for table in [FIRST, SECOND] {
        scans_alike(client, model, &Scan::all(table))?;
    }
    Ok(())
}

fn scans_alike(client: &mut dyn Client, model: &Model, what: &Scan<'_>) -> Result<()> {
    let found = scan(client, what)?;
    let wanted: Vec<_> = model.scan(what).collect();
    let first_wrong = found.iter().zip(&wanted).position(|((key, value), wanted)| (&key[..], &value[..]) != *wanted);
    if first_wrong.is_some() || found.len() != wanted.len() {
        let at = first_wrong.unwrap_or(found.len().min(wanted.len()));
        let (found_at, wanted_at) = (found.get(at).map(|entry| &entry.0), wanted.get(at).map(|entry| entry.0));
        bail!(
            "{what:?} visited {} entries, {} are right; entry {at} is {found_at:?} for {wanted_at:?}",
            found.len(),
            wanted.len()
        );
    }
    Ok(())
}

fn gets_alike(client: &mut dyn Client, model: &Model, table: TableId, key: &[u8]) -> Result<()> {
    let (found, wanted) = (get(client, table, key)?, model.get(table, key));
    ensure!(found.as_deref() == wanted, "the value of {key:?} in table {} is {found:?}, not {wanted:?}", table.0);
    Ok(())
}

/// A short key, of which there are few enough that many come again, and seldom one of up to 500 bytes.
fn random_key(random: &mut Random) -> Vec<u8> {
    let len = if random.below(20) == 0 { 1 + random.below(500) } else { 1 + random.below(4) };
    (0..len).map(|_| b"\x00\x01ak\x7f\x80\xff"[spinney::base::num::usize_of(random.below(7))]).collect()
}

/// Up to `changes_max` changes of both tables, a quarter of them deletes.
fn random_batch(random: &mut Random, changes_max: u64) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..=random.below(changes_max) {
        let table = if random.below(4) == 0 { SECOND } else { FIRST };
        let key = random_key(random);
        if random.below(4) == 0 {
            batch.delete(table, &key);
        } else {
            let mut value = vec![0; spinney::base::num::usize_of(random.below(200))];
            random.fill(&mut value);
            batch.put(table, &key, &value);
        }
    }
    batch
}

/// The keys of a batch, with their tables.
fn keys(batch: &Batch) -> impl Iterator<Item = (TableId, &[u8])> {
    batch.iter().map(|change| match change {
        Change::Put(table, key, _) | Change::Delete(table, key) => (table, key),
    })
}
