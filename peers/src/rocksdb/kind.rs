//! The variants of RocksDB that are engines of their own.

/// RocksDB with one style of compaction for all tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RocksDb {
    pub(super) style: Style,
    pub(super) logs: Logs,
}

/// How files are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Into levels, each larger than the one above: least space.
    Leveled,
    /// Into sorted runs of all keys: least written.
    Universal,
}

/// What becomes of log files that are not needed any more, where commits force the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logs {
    /// They are written again.
    Recycled,
    /// They are removed, as RocksDB does by default.
    New,
}
