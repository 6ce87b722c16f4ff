//! placeholder: the public face of the engine (signatures only; being written)
#![allow(
    missing_docs,
    unused_variables,
    clippy::unimplemented,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "skeleton"
)]

use crate::base::{Result, SeqNum, Value};
use crate::env::Env;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// budget for cache + memtables. Default 256 MiB. Range 8 MiB ..
    pub memory_bytes: u64,
    /// create the database when missing. Default true.
    pub create: bool,
    /// bypass the page cache for data files and synced log writes where possible. Default true.
    pub direct_io: bool,
    /// length of one redo log segment. Default 64 MiB. Range 64 KiB ..= 1 GiB.
    pub log_segment_bytes: u64,
    /// longest time that an `Interval` commit stays volatile. Default 100 ms.
    pub interval: Duration,
    /// durability of `commit()` . Default Sync.
    pub durability: Durability,
    /// bytes of a memtable at which its table is flushed; 0 (default) = derived from memory_bytes. (tests: tiny)
    pub memtable_bytes: u64,
    /// live redo log bytes that force the oldest memtables to be flushed. Default 1 GiB...
    pub log_bytes_max: u64,
    /// threads for compaction. Default 1.
    pub compaction_threads: usize,
}
impl Default for Options {
    fn default() -> Self {
        unimplemented!()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    BTree,
    #[default]
    Lsm,
    LsmTiered,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    #[default]
    Sync,
    Interval,
    Buffered,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    None,
    #[default]
    Lz4,
    Zstd,
}

#[derive(Clone, Debug)]
pub struct TableOptions {
    pub layout: Layout,
    /// uncompressed bytes of a leaf block; default 8 KiB, 512 ..= 1 MiB
    pub block_bytes: u32,
    pub compression: Compression,
    /// filter bits per key in runs; 0 = none; default 10
    pub filter_bits_per_key: u32,
    /// bytes of one run file; default 32 MiB
    pub run_bytes_max: u64,
    /// size ratio of neighbouring levels (lsm) or runs merged at once (tiered); default 8 , 2..=32
    pub fanout: u32,
    /// compaction in the background; default true
    pub auto_compact: bool,
}
impl Default for TableOptions {
    fn default() -> Self {
        unimplemented!()
    }
}

#[derive(Clone, Debug)]
pub struct Database;
#[derive(Debug)]
pub struct DatabaseBuilder;
impl Database {
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        unimplemented!()
    }
    /// `Database::builder(path).options(o).env(env).open()`
    pub fn builder(path: impl AsRef<Path>) -> DatabaseBuilder {
        unimplemented!()
    }
    /// fails with Invalid when the table exists (the message says with which layout)
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        unimplemented!()
    }
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        unimplemented!()
    }
    pub fn tables(&self) -> Result<Vec<Table>> {
        unimplemented!()
    }
    pub fn drop_table(&self, name: &str) -> Result<()> {
        unimplemented!()
    }
    pub fn begin(&self) -> Transaction {
        unimplemented!()
    }
    pub fn snapshot(&self) -> Snapshot {
        unimplemented!()
    }
    pub fn write(&self, batch: Batch, durability: Durability) -> Result<()> {
        unimplemented!()
    }
    /// everything committed so far is durable when it returns
    pub fn sync(&self) -> Result<()> {
        unimplemented!()
    }
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        unimplemented!()
    }
    pub fn verify(&self) -> Result<VerifyReport> {
        unimplemented!()
    }
    pub fn stats(&self) -> Stats {
        unimplemented!()
    }
    pub fn close(self) -> Result<()> {
        unimplemented!()
    }
    pub fn path(&self) -> &Path {
        unimplemented!()
    }
}
impl DatabaseBuilder {
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        unimplemented!()
    }
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        unimplemented!()
    }
    pub fn open(self) -> Result<Database> {
        unimplemented!()
    }
}

#[derive(Clone, Debug)]
pub struct Table;
impl Table {
    pub fn name(&self) -> &str {
        unimplemented!()
    }
    pub fn options(&self) -> &TableOptions {
        unimplemented!()
    }
    /// memtable to tree; returns when done
    pub fn flush(&self) -> Result<()> {
        unimplemented!()
    }
    /// flush, then everything into one tree (last level / one run / the B-tree)
    pub fn compact(&self) -> Result<()> {
        unimplemented!()
    }
    pub fn wait_idle(&self) -> Result<()> {
        unimplemented!()
    }
    pub fn shape(&self) -> Result<Shape> {
        unimplemented!()
    }
}

#[derive(Clone, Debug, serde::Serialize)]
pub struct Shape {
    pub table: String,
    pub layout: String,
    pub memtable_entries: u64,
    pub memtable_bytes: u64,
    pub immutable_memtables: u64,
    pub immutable_bytes: u64,
    /// newest first
    pub l0: Vec<RunShape>,
    /// levels below L0, from the top (level 1) down
    pub levels: Vec<LevelShape>,
    pub btree: Option<BTreeShape>,
    /// how many trees a get / a scan searches now at most
    pub trees: u64,
}
#[derive(Clone, Debug, serde::Serialize)]
pub struct RunShape {
    pub bytes: u64,
    pub entries: u64,
}
#[derive(Clone, Debug, serde::Serialize)]
pub struct LevelShape {
    pub level: u64,
    pub runs: u64,
    pub bytes: u64,
    pub entries: u64,
    pub target_bytes: u64,
}
#[derive(Clone, Debug, serde::Serialize)]
pub struct BTreeShape {
    pub height: u64,
    pub leaves: u64,
    pub branches: u64,
    pub entries: u64,
    pub file_bytes: u64,
    pub free_bytes: u64,
}

/// counters that never reset; all u64; serialisable (fields are added freely; print them through serde)
#[derive(Clone, Debug, serde::Serialize)]
pub struct Stats {
    pub log: LogStats,
    pub flush: FlushStats,
    pub cache: CacheStats,
    pub commits: u64,
    pub conflicts: u64,
    pub stall_us: u64,
    pub stalls: u64,
    pub memory_bytes: u64,
    pub memtable_bytes: u64,
}
#[derive(Clone, Debug, serde::Serialize)]
pub struct LogStats {
    pub record_bytes: u64,
    pub written_bytes: u64,
    pub writes: u64,
    pub syncs: u64,
    pub groups: u64,
    pub commits: u64,
}
#[derive(Clone, Debug, serde::Serialize)]
pub struct FlushStats {
    pub flushes: u64,
    pub flush_bytes: u64,
    pub compactions: u64,
    pub compaction_read_bytes: u64,
    pub compaction_write_bytes: u64,
}
#[derive(Clone, Debug, serde::Serialize)]
pub struct CacheStats {
    pub hits: u64,
    pub misses: u64,
    pub bytes: u64,
    pub capacity_bytes: u64,
    pub block_reads: u64,
    pub block_read_bytes: u64,
}

#[derive(Clone, Debug, serde::Serialize)]
pub struct VerifyReport {
    pub tables: u64,
    pub files: u64,
    pub blocks: u64,
    pub entries: u64,
    pub bytes: u64,
    pub problems: Vec<String>,
}

/// blind writes applied atomically, in order (a later change of a key wins)
#[derive(Clone, Debug, Default)]
pub struct Batch;
impl Batch {
    #[must_use]
    pub fn new() -> Self {
        unimplemented!()
    }
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) {
        unimplemented!()
    }
    pub fn delete(&mut self, table: &Table, key: &[u8]) {
        unimplemented!()
    }
    pub fn len(&self) -> usize {
        unimplemented!()
    }
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
    pub fn clear(&mut self) {
        unimplemented!()
    }
}

#[derive(Debug)]
pub struct Snapshot;
impl Snapshot {
    pub fn seqnum(&self) -> SeqNum {
        unimplemented!()
    }
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        unimplemented!()
    }
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        unimplemented!()
    }
    pub fn multi_get(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        unimplemented!()
    }
    pub fn range<'a>(&self, table: &Table, range: impl RangeBounds<&'a [u8]>) -> Range {
        unimplemented!()
    }
    pub fn range_rev<'a>(&self, table: &Table, range: impl RangeBounds<&'a [u8]>) -> Range {
        unimplemented!()
    }
}
/// Iterator<Item = Result<(Vec<u8>, Value)>>, fused after an error. NOTE: final `range` returns the Range itself (not a Result);
/// an error of the first seek comes as the first item.
#[derive(Debug)]
pub struct Range;
impl Iterator for Range {
    type Item = Result<(Vec<u8>, Value)>;
    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}

#[derive(Debug)]
pub struct Transaction;
impl Transaction {
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        unimplemented!()
    }
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        unimplemented!()
    }
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        unimplemented!()
    }
    pub fn range<'a>(&self, table: &Table, range: impl RangeBounds<&'a [u8]>) -> Range {
        unimplemented!()
    }
    pub fn range_rev<'a>(&self, table: &Table, range: impl RangeBounds<&'a [u8]>) -> Range {
        unimplemented!()
    }
    pub fn commit(self) -> Result<()> {
        unimplemented!()
    }
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        unimplemented!()
    }
    pub fn rollback(self) {
        unimplemented!()
    }
}
#[allow(unused)]
fn _path(_: PathBuf) {}
