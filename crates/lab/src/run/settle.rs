//! What experiments do with a database when its work is done: let it settle, count what is there, remove it.

use super::bench::{Bench, Db};
use crate::driver::{Scan, TableId, unless_lacking};
use crate::report::Step;
use anyhow::{Context as _, Result};

impl Db<'_, '_> {
    /// A step in which all commits are made durable, what is in memory only is written to the trees, and background
    /// work ends. What the engine lacks of it is left out.
    ///
    /// # Errors
    /// What the engine says; [`crate::Interrupted`].
    pub fn settle(&mut self, name: &str) -> Result<&mut Step> {
        self.verb(name, |store| {
            drop(unless_lacking(store.sync())?);
            drop(unless_lacking(store.flush())?);
            store.wait_idle()
        })
    }

    /// The number of entries of a table, by a scan that is no part of any step.
    ///
    /// # Errors
    /// What the engine says.
    pub fn count(&self, table: TableId) -> Result<u64> {
        self.store().client()?.scan(&Scan::all(table), &mut |_, _| {})
    }
}

impl Bench<'_> {
    /// Removes the database with this name, which is closed, if there is one: its space is free for the next, and the
    /// kernel does not write what of it is dirty while the next is measured.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }
}
