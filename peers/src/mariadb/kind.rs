//! The storage engines of MariaDB that are engines of the lab.

/// A storage engine of MariaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// B-trees, updated in place.
    InnoDb,
    /// RocksDB.
    MyRocks,
}
