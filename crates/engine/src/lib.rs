//! Spinney: an embedded, transactional storage engine.
//!
//! A [`Database`] holds tables, each laid out as a B-tree or an LSM tree ([`Layout`]), under one redo log, one
//! transaction manager, one cache and one memory budget. Start at [`Database`].
//!
//! The modules from [`base`] to [`txn`] are the engine's inner layers. They are public for the project's own tests,
//! benches and tools, and change without notice; the items at the top of this page are the interface.

pub mod base;
pub mod block;
pub mod cache;
mod db;
pub mod env;
pub mod log;
pub mod store;
pub mod table;
pub mod tree;
pub mod txn;

pub use base::{Error, ErrorKind, Kind, Lsn, Result, SeqNum, TableId, Value};
pub use block::Compression;
pub use db::{
    Batch, BulkLoad, CacheStats, ChangeFeed, Commit, Database, DatabaseBuilder, Durability, FlushStats, Histogram,
    LogEntry, LogFollower, LogStats, Options, Problem, Range, ReadStats, ReplayProgress, SalvageMode, SalvageProgress,
    SalvageReport, SalvagedCopy, SalvagedTable, Snapshot, Stats, StorageStats, Table, TableAhead, TableLoss,
    Transaction, VerifyReport, read_log,
};
pub use log::{LogCompression, LogPadding};
pub use table::shape::{BTreeShape, LevelShape, RunShape, Shape, ValuesShape};
pub use table::{Layout, TableOptions};
pub use tree::compaction_filter::{CompactionFilter, Decision};
pub use tree::operator::MergeOperator;
pub use tree::prefix::Prefix;
pub use tree::salvage::LostRange;
pub use txn::batch::Change;

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
