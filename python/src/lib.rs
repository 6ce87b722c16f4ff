//! The module `spinney._spinney`, which the Python package `spinney` is built on: the engine's tables as mappings, and
//! the commands of the document database.
//!
//! The interpreter lock is released in every call that may wait for storage, a lock or another thread.

mod at;
mod batch;
mod bytes;
mod changes;
mod database;
mod documents;
mod error;
mod json;
mod load;
mod options;
mod range;
mod snapshot;
mod table;
mod transaction;

/// The compiled part of the package `spinney`.
#[pyo3::pymodule(name = "_spinney")]
mod module {
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::changes::{Change, ChangeFeed, Commit};
    #[pymodule_export]
    use super::database::Database;
    #[pymodule_export]
    use super::documents::Documents;
    #[pymodule_export]
    use super::range::{Range, Walk};
    #[pymodule_export]
    use super::snapshot::Snapshot;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::transaction::{Savepoint, Transaction};
}
