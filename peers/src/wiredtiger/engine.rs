//! The two engines.

use super::config;
use super::kind::Tree;
use super::library::Library;
use super::store::WiredTigerStore;
use anyhow::{Context as _, Result};
use spinney_lab::driver::{Config, Engine, Store, TableSpec};
use std::path::Path;
use std::sync::Arc;

/// WiredTiger with one kind of tree for all tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WiredTiger {
    /// The kind.
    pub(crate) tree: Tree,
}

impl WiredTiger {
    fn library(self) -> Result<Library> {
        match self.tree {
            Tree::Btree => Library::newest(),
            // LSM trees are still in 11.3's code, but nobody looked after them any more.
            Tree::Lsm => Library::system(),
        }
    }
}

impl Engine for WiredTiger {
    fn name(&self) -> &'static str {
        match self.tree {
            Tree::Btree => "wiredtiger-btree",
            Tree::Lsm => "wiredtiger-lsm",
        }
    }

    fn version(&self) -> String {
        self.library().map_or_else(|_| "-".to_owned(), |library| library.version_text())
    }

    fn missing(&self) -> Option<String> {
        let error = self.library().err()?;
        Some(format!("{error:#}; `apt-get install libwiredtiger0` brings one"))
    }

    fn direct_io(&self) -> bool {
        true
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        let library = Arc::new(self.library()?);
        let plan = config::plan(self.tree, &library, config, tables)?;
        for dir in [Some(dir), config.log.dir.as_deref()].into_iter().flatten() {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot make the directory {}", dir.display()))?;
        }
        Ok(Box::new(WiredTigerStore::open(library, self.tree, dir, config, tables, plan)?))
    }
}
