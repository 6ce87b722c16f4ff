//! RocksDB as an engine of the laboratory: leveled and universal compaction.

mod client;
mod native;
mod options;
mod shape;
mod stats;
mod store;
#[cfg(test)]
mod tests;

use anyhow::Result;
use options::Chosen;
use spinney_lab::driver::{Config, Engine, Store, TableSpec};
use std::path::Path;
use store::RocksStore;

/// RocksDB with one style of compaction for all tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RocksDb {
    style: Style,
}

/// RocksDB's own version, which its C interface does not tell; a test compares it with what a database says.
const VERSION: &str = "11.8.1";

/// How files are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Into levels, each larger than the one above: least space.
    Leveled,
    /// Into sorted runs of all keys: least written.
    Universal,
}

/// Both styles as engines.
pub(crate) fn engines() -> Vec<Box<dyn Engine>> {
    vec![Box::new(RocksDb { style: Style::Leveled }), Box::new(RocksDb { style: Style::Universal })]
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        match self.style {
            Style::Leveled => "rocksdb",
            Style::Universal => "rocksdb-universal",
        }
    }

    fn version(&self) -> String {
        VERSION.to_owned()
    }

    fn direct_io(&self) -> bool {
        true
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        let chosen = Chosen::new(self.style, config, tables)?;
        Ok(Box::new(RocksStore::open(dir, config, tables, chosen)?))
    }
}
