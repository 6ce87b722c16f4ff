//! RocksDB as an engine of the laboratory: leveled and universal compaction.

mod client;
mod kind;
mod native;
mod options;
mod shape;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod verbs;

use anyhow::Result;
use kind::{Logs, RocksDb, Style};
use options::Chosen;
use spinney_lab::driver::{Config, Engine, Store, TableSpec};
use std::path::Path;
use store::RocksStore;

/// RocksDB's own version, which its C interface does not tell; a test compares it with what a database says.
const VERSION: &str = "11.8.1";

/// Both styles as engines, and the first with the redo log that RocksDB has by default.
pub(crate) fn engines() -> Vec<Box<dyn Engine>> {
    let engine = |style, logs| -> Box<dyn Engine> { Box::new(RocksDb { style, logs }) };
    vec![
        engine(Style::Leveled, Logs::Recycled),
        engine(Style::Universal, Logs::Recycled),
        engine(Style::Leveled, Logs::New),
    ]
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        match (self.logs, self.style) {
            (Logs::New, _) => "rocksdb-default",
            (Logs::Recycled, Style::Leveled) => "rocksdb",
            (Logs::Recycled, Style::Universal) => "rocksdb-universal",
        }
    }

    fn other_log_of(&self) -> Option<&'static str> {
        (self.logs == Logs::New).then_some("rocksdb")
    }

    fn version(&self) -> String {
        VERSION.to_owned()
    }

    fn direct_io(&self) -> bool {
        true
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        let chosen = Chosen::new(*self, config, tables)?;
        Ok(Box::new(RocksStore::open(dir, config, tables, chosen)?))
    }
}
