//! An engine every read of which is compared with a model.
//!
//! # Concurrency
//! One lock per database guards its model. It is held over an operation and the model's step, and from the begin of a
//! transaction to its end, so that clients run one after another and the model is exact. A thread must therefore not
//! use a second client of a database while the first is in a transaction.
//!
//! # Invariants
//! 1. Outside a transaction a read sees the present: [`Client::view`] is called again before it.
//! 2. The hash of the operations depends on what each client asked for and in which order, not on how clients
//!    interleaved, not on what they were told.

mod client;
mod hash;
mod store;
#[cfg(test)]
mod tests;

use super::client::{Client, Scan};
use super::config::{Config, TableId, TableSpec};
use super::engine::Engine;
use super::model::Model;
use super::state::{Counters, IndexSize, LevelWork, TableShape};
use super::store::Store;
use anyhow::{Context as _, Result};
use client::CheckedClient;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use store::{CheckedStore, Totals};

/// An engine that fails when a read is not what a model in memory says.
#[derive(Debug)]
pub struct Checked<'e> {
    engine: &'e dyn Engine,
    /// The models of all databases, kept over reopens.
    models: Mutex<HashMap<PathBuf, Arc<Mutex<Model>>>>,
    totals: Arc<Totals>,
}

impl<'e> Checked<'e> {
    /// The engine with every read compared.
    #[must_use]
    pub fn new(engine: &'e dyn Engine) -> Self {
        Self { engine, models: Mutex::default(), totals: Arc::default() }
    }

    /// The hash of the operations that clients asked for; the same for all engines that were asked for the same.
    /// Operations of clients that are still open are not in it.
    #[must_use]
    pub fn operations_hash(&self) -> String {
        format!("{:016x}", self.totals.hash.load(Ordering::Relaxed))
    }

    /// How many reads were compared.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.totals.reads.load(Ordering::Relaxed)
    }

    /// The model of a database: that of the last open, an empty one for a new database, or else what the database
    /// holds.
    fn model(&self, dir: &Path, is_new: bool, tables: &[TableSpec], store: &dyn Store) -> Result<Arc<Mutex<Model>>> {
        let mut models = self.models.lock().expect("nothing panics with the map of models");
        let known = models.get(dir).filter(|_| !is_new);
        if let Some(model) = known {
            return Ok(Arc::clone(model));
        }
        let mut model = Model::new(tables.len());
        if !is_new {
            let mut client = store.client()?;
            for table in (0..tables.len()).map(TableId) {
                let mut add = |key: &[u8], value: &[u8]| drop(model.set(table, key.to_vec(), Some(value.to_vec())));
                client.scan(&Scan::all(table), &mut add)?;
            }
        }
        let model = Arc::new(Mutex::new(model));
        models.insert(dir.to_owned(), Arc::clone(&model));
        Ok(model)
    }
}

impl Engine for Checked<'_> {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn version(&self) -> String {
        self.engine.version()
    }

    fn missing(&self) -> Option<String> {
        self.engine.missing()
    }

    fn client_server(&self) -> bool {
        self.engine.client_server()
    }

    fn direct_io(&self) -> bool {
        self.engine.direct_io()
    }

    fn serializable(&self) -> bool {
        self.engine.serializable()
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        let is_new = !dir.exists();
        let store = self.engine.open(dir, config, tables)?;
        let model = self.model(dir, is_new, tables, &*store).context("cannot read what the database holds")?;
        let tables = tables.iter().map(|table| table.name).collect();
        let totals = Arc::clone(&self.totals);
        Ok(Box::new(CheckedStore { store, engine: self.name(), tables, model, totals }))
    }
}

impl Store for CheckedStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(CheckedClient::new(self, self.store.client()?)))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.store.settings()
    }

    fn sync(&self) -> Result<()> {
        self.store.sync()
    }

    fn flush(&self) -> Result<()> {
        self.store.flush()
    }

    fn build_indexes(&self) -> Result<()> {
        self.store.build_indexes()
    }

    fn compact_level(&self, level: usize) -> Result<()> {
        self.store.compact_level(level)
    }

    fn compact_all(&self) -> Result<()> {
        self.store.compact_all()
    }

    fn hold(&self, hold: bool) -> Result<()> {
        self.store.hold(hold)
    }

    fn wait_idle(&self) -> Result<()> {
        self.store.wait_idle()
    }

    fn shape(&self) -> Result<Vec<TableShape>> {
        self.store.shape()
    }

    fn counters(&self) -> Result<Counters> {
        self.store.counters()
    }

    fn level_work(&self) -> Result<Vec<LevelWork>> {
        self.store.level_work()
    }

    fn compaction_debt(&self) -> Result<Option<u64>> {
        self.store.compaction_debt()
    }

    fn index_size(&self) -> Result<IndexSize> {
        self.store.index_size()
    }

    fn is_log(&self, path: &Path) -> bool {
        self.store.is_log(path)
    }

    fn data_dir(&self) -> Option<PathBuf> {
        self.store.data_dir()
    }

    fn processes(&self) -> Vec<u32> {
        self.store.processes()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.store.close()
    }
}
