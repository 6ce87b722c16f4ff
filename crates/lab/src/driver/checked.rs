//! Placeholder.

use super::{Config, Engine, Store, TableSpec};
use anyhow::Result;
use std::path::Path;

/// Placeholder.
#[derive(Debug)]
pub struct Checked<'e>(&'e dyn Engine);

impl<'e> Checked<'e> {
    /// Placeholder.
    #[must_use]
    pub fn new(engine: &'e dyn Engine) -> Self {
        Self(engine)
    }
}

impl Engine for Checked<'_> {
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
        self.0.open(dir, config, tables)
    }
}
