//! What the checks share: where they open databases, and short forms of what clients do.

use crate::driver::batch::{Batch, Change};
use crate::driver::client::{Client, Outcome, Scan};
use crate::driver::config::{Config, Durability, TableId, TableSpec};
use crate::driver::engine::Engine;
use crate::driver::lacks::unless_lacking;
use crate::driver::model::Model;
use crate::driver::store::Store;
use crate::random::Random;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// What a check works with.
pub(super) struct Ground<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) dir: PathBuf,
}

const TABLES: [TableSpec; 2] = [TableSpec::new("first"), TableSpec::new("second")];

pub(super) const FIRST: TableId = TableId(0);

pub(super) const SECOND: TableId = TableId(1);

impl Ground<'_> {
    pub(super) fn open(&self) -> Result<Box<dyn Store>> {
        self.open_at(&self.dir, Durability::Buffered)
    }

    pub(super) fn open_for_transactions(&self) -> Result<Box<dyn Store>> {
        self.open_with(&self.dir, &Config { transactions: true, ..self.config(Durability::Buffered) })
    }

    pub(super) fn open_at(&self, dir: &Path, durability: Durability) -> Result<Box<dyn Store>> {
        self.open_with(dir, &self.config(durability))
    }

    pub(super) fn open_with(&self, dir: &Path, config: &Config) -> Result<Box<dyn Store>> {
        self.engine.open(dir, config, &TABLES).context("cannot open the database")
    }

    pub(super) fn config(&self, durability: Durability) -> Config {
        let direct_io = self.engine.direct_io();
        Config { memory_bytes: 64 << 20, durability, direct_io, ..Config::default() }
    }
}

pub(super) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

pub(super) fn put(client: &mut dyn Client, table: TableId, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(table, key, value);
    write(client, &batch)
}

/// A write that has nobody to conflict with.
pub(super) fn write(client: &mut dyn Client, batch: &Batch) -> Result<()> {
    let outcome = client.write(batch)?;
    ensure!(outcome == Outcome::Done, "a write without a rival ended in a conflict");
    Ok(())
}

/// As [`write()`], for a transaction's end.
pub(super) fn commit(client: &mut dyn Client) -> Result<()> {
    let outcome = client.commit()?;
    ensure!(outcome == Outcome::Done, "a commit without a rival ended in a conflict");
    Ok(())
}

/// From now on reads of the client see the present, whether or not it has views.
pub(super) fn look(client: &mut dyn Client) -> Result<()> {
    unless_lacking(client.view()).map(drop)
}

pub(super) fn get(client: &mut dyn Client, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut value = None;
    let there = client.get(table, key, &mut |found| value = Some(found.to_vec()))?;
    ensure!(there == value.is_some(), "a get says {there}, but its closure was called otherwise");
    Ok(value)
}

pub(super) fn scan(client: &mut dyn Client, scan: &Scan<'_>) -> Result<Entries> {
    let mut entries = Vec::new();
    let count = client.scan(scan, &mut |key, value| entries.push((key.to_vec(), value.to_vec())))?;
    ensure!(count == entries.len() as u64, "a scan visited {} entries and says {count}", entries.len());
    Ok(entries)
}

/// Both tables hold what the model holds.
pub(super) fn same(client: &mut dyn Client, model: &Model) -> Result<()> {
    for table in [FIRST, SECOND] {
        scans_alike(client, model, &Scan::all(table))?;
    }
    Ok(())
}

pub(super) fn scans_alike(client: &mut dyn Client, model: &Model, what: &Scan<'_>) -> Result<()> {
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

pub(super) fn gets_alike(client: &mut dyn Client, model: &Model, table: TableId, key: &[u8]) -> Result<()> {
    let (found, wanted) = (get(client, table, key)?, model.get(table, key));
    ensure!(found.as_deref() == wanted, "the value of {key:?} in table {} is {found:?}, not {wanted:?}", table.0);
    Ok(())
}

/// A short key, of which there are few enough that many come again, and seldom one of up to 500 bytes.
pub(super) fn random_key(random: &mut Random) -> Vec<u8> {
    let len = if random.below(20) == 0 { 1 + random.below(500) } else { 1 + random.below(4) };
    (0..len).map(|_| b"\x00\x01ak\x7f\x80\xff"[spinney::base::num::usize_of(random.below(7))]).collect()
}

/// Up to `changes_max` changes of both tables, a quarter of them deletes.
pub(super) fn random_batch(random: &mut Random, changes_max: u64) -> Batch {
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
pub(super) fn keys(batch: &Batch) -> impl Iterator<Item = (TableId, &[u8])> {
    batch.iter().map(|change| match change {
        Change::Put(table, key, _) | Change::Delete(table, key) => (table, key),
    })
}
