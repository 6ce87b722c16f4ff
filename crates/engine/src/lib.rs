//! Spinney: an embedded, transactional storage engine.
//!
//! A [`Database`] holds tables, each laid out as a B-tree or an LSM tree ([`Layout`]), under one redo log, one
//! transaction manager, one cache and one memory budget. Start at [`Database`].
//!
//! Modules that this page does not show are the engine's inner layers. They are public for the project's own tests,
//! benches and tools only, and change without notice.

#[doc(hidden)]
pub mod base;
#[doc(hidden)]
pub mod block;
#[doc(hidden)]
pub mod cache;
mod db;
#[doc(hidden)]
pub mod env;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod table;
#[doc(hidden)]
pub mod tree;
#[doc(hidden)]
pub mod txn;

pub use base::{Error, ErrorKind, Kind, Lsn, NamedOption, OptionKind, Result, SeqNum, TableId, Value};
pub use block::Compression;
pub use db::{
    Batch, BulkLoad, CacheStats, ChangeFeed, CheckpointReport, Commit, Database, DatabaseBuilder, Durability, Event,
    EventListener, FeedWaker, FlushStats, Histogram, History, Isolation, KeyCodec, KeyFor, KeyRange, LevelStats,
    LiveStats, LogEntry, LogFollower, LogStats, Options, Prepared, Problem, Range, Ranges, ReadStats, ReplayProgress,
    SalvageMode, SalvageProgress, SalvageReport, SalvagedCopy, SalvagedTable, Savepoint, Snapshot, Stats, StorageStats,
    StoredNote, Table, TableAhead, TableLoss, Transaction, TypedRange, TypedTable, ValueCodec, ValueFor, VerifyReport,
    checkpoint_beside, kept_log_bytes, prefix_range, read_log,
};
pub use log::LogCompression;
pub use table::estimate::Estimate;
pub use table::shape::{BTreeShape, IndexShape, LevelShape, RunShape, Shape, ValuesShape};
pub use table::{Layout, TableOptions};
pub use tree::compaction_filter::{CompactionFilter, Decision};
pub use tree::operator::{Add, MergeOperator};
pub use tree::prefix::Prefix;
pub use tree::salvage::LostRange;
pub use txn::batch::{Change, decode_record};
pub use txn::commit_clock::{CommitClock, VisibleTime};
pub use txn::log_points::LogPoints;

/// The examples of README and guide are tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/README.md")]
    struct Guide;
    #[doc = include_str!("../../../docs/guide/secondary-indexes.md")]
    struct SecondaryIndexes;
    #[doc = include_str!("../../../docs/guide/transactions.md")]
    struct Transactions;
    #[doc = include_str!("../../../docs/guide/readers.md")]
    struct Readers;
    #[doc = include_str!("../../../docs/guide/backup.md")]
    struct Backup;
}
