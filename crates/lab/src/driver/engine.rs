//! An engine: a way to open a database.

use super::config::{Config, TableSpec};
use super::store::Store;
use anyhow::Result;
use std::fmt::Debug;
use std::path::Path;

/// A way to open a database.
pub trait Engine: Debug + Send + Sync {
    /// The name that users give and reports show, in lower case: `spinney-lsm`.
    fn name(&self) -> &'static str;

    /// The version of the engine's code that would run: `11.8.1`.
    fn version(&self) -> String;

    /// Why the engine cannot run on this machine and the command that would install it; `None` when it can.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Whether operations travel to a server process, which costs what embedded engines do not pay.
    fn client_server(&self) -> bool {
        false
    }

    /// The engine from which this one differs in its redo log only: it takes part in the experiment on commits, and in
    /// no other.
    fn other_log_of(&self) -> Option<&'static str> {
        None
    }

    /// Whether the engine keeps documents, and no tables: it takes part in the experiments on documents, and in no
    /// other. It is opened without tables, and its clients have [`Documents`](super::documents::Documents).
    fn documents(&self) -> bool {
        false
    }

    /// Whether the engine can pass the page cache by, so that its memory is all the memory that its data gets.
    fn direct_io(&self) -> bool;

    /// Whether the engine's transactions can be serializable.
    fn serializable(&self) -> bool {
        false
    }

    /// Makes a database with `tables` in `dir`, which does not exist yet, or opens the one that this engine left there
    /// with the same tables.
    ///
    /// # Errors
    /// [`Lacks`](super::lacks::Lacks) when the engine has no way to do what `config` asks for; else what the engine
    /// says.
    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>>;
}
