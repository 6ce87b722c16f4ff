//! What a workload asks for when it opens a database.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The place of a table in the list that the database was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub usize);

/// A table that a workload needs.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// Its name: letters only.
    pub name: &'static str,
    /// For a secondary index: the table whose rows it belongs to. An engine that keeps secondary indexes itself ignores
    /// the changes of such a table, and derives them from the rows.
    pub index_of: Option<TableId>,
    /// Point reads are asked of it, so filters are worth their memory.
    pub point_reads: bool,
}

/// What a database is opened with. Where a field is `None` the driver takes what is best for its engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Memory for cache, memtables, filters and indexes together.
    pub memory_bytes: u64,
    /// The durability of each commit.
    pub durability: Durability,
    /// How blocks on disk are compressed.
    pub compression: Compression,
    /// From so many bytes on a value is kept apart from its key, where the engine can.
    pub large_value_bytes: Option<u32>,
    /// Bytes of a leaf block in tables with point reads.
    pub block_bytes: Option<u32>,
    /// Pass the page cache by where the engine can.
    pub direct_io: bool,
    /// Stay awake for direct reads where the engine can.
    pub poll_reads: bool,
    /// The redo log.
    pub log: LogConfig,
    /// Bytes of a memtable.
    pub memtable_bytes: Option<u64>,
    /// How much larger each level is than the one above it.
    pub fanout: Option<u32>,
    /// The largest that the first level below L0 gets before it is compacted.
    pub level1_bytes: Option<u64>,
    /// Bits of filter for a key of tables with point reads; 0 for no filters.
    pub filter_bits: u32,
    /// Threads for background work.
    pub background_threads: u32,
    /// The workload uses transactions.
    pub transactions: bool,
    /// They are to be serializable, not only isolated by snapshots.
    pub serializable: bool,
    /// The server, as in `mongodb://127.0.0.1:27017`, of an engine that is a client of one.
    pub connect: Option<String>,
}

/// The redo log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LogConfig {
    /// How it is compressed.
    pub compression: Option<Compression>,
    /// A directory of its own.
    pub dir: Option<PathBuf>,
    /// Bytes of one of its files, for an engine whose log is made of files of one size; others take no notice.
    pub segment_bytes: Option<u64>,
    /// Bytes of it that stay though no recovery needs them, for change streams, in a database that has them.
    pub keep_bytes: u64,
}

/// What a commit survives once it has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// A loss of power.
    Sync,
    /// A loss of power after so many milliseconds.
    Interval(u32),
    /// The end of the process.
    Buffered,
    /// Nothing: there is no redo log. What was flushed to the trees survives.
    NoLog,
}

/// A compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// None
    None,
    /// Fast
    Lz4,
    /// Smaller
    Zstd,
}

impl TableSpec {
    /// A table with point reads and no indexes.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, index_of: None, point_reads: true }
    }

    /// A secondary index of the rows of `table`, read by ranges.
    #[must_use]
    pub const fn index(name: &'static str, table: TableId) -> Self {
        Self { name, index_of: Some(table), point_reads: false }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            durability: Durability::Interval(100),
            compression: Compression::Lz4,
            large_value_bytes: None,
            block_bytes: None,
            direct_io: true,
            poll_reads: false,
            log: LogConfig::default(),
            memtable_bytes: None,
            fanout: None,
            level1_bytes: None,
            filter_bits: 10,
            background_threads: 2,
            transactions: false,
            serializable: false,
            connect: None,
        }
    }
}

impl Durability {
    /// The durability in words, for reports.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Sync => "sync".to_owned(),
            Self::Interval(ms) => format!("interval {ms} ms"),
            Self::Buffered => "buffered".to_owned(),
            Self::NoLog => "no log".to_owned(),
        }
    }
}
