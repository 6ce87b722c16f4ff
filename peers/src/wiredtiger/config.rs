//! The settings: what is asked for and what is best, as WiredTiger's configuration strings.

use super::kind::Tree;
use super::library::Library;
use anyhow::{Result, ensure};
use spinney_lab::driver::{Compression, Config, Durability, Lacks, TableSpec};
use spinney_lab::text::bytes;
use std::path::Path;

/// Configuration strings for a database and its tables.
#[derive(Debug)]
pub(super) struct Plan {
    /// For `wiredtiger_open`.
    pub(super) connection: String,
    /// For each table's creation, in their order.
    pub(super) tables: Vec<String>,
    /// What was chosen, for the report.
    pub(super) settings: Vec<(String, String)>,
}

/// Sessions of clients and of WiredTiger's own threads.
const SESSION_MAX: u32 = 1_100;
/// Bytes of a log file, as is the default. Files are made ahead, and each open reads those that are there.
const LOG_FILE_BYTES: u64 = 100 << 20;
/// Smaller where files are filled with zeros, which costs as much as to write them.
const ZEROED_LOG_FILE_BYTES: u64 = 32 << 20;
/// Dirty bytes in percent of the cache from which eviction threads write. High, so that a leaf gathers more changes
/// before each write.
pub(super) const DIRTY_TARGET_PERCENT: u64 = 50;
const DIRTY_TRIGGER_PERCENT: u64 = 80;

/// Chooses the settings.
///
/// # Errors
/// [`Lacks`] for what WiredTiger, or this build of it, does not have.
pub(super) fn plan(tree: Tree, library: &Library, config: &Config, tables: &[TableSpec]) -> Result<Plan> {
    refuse(tree, config)?;
    let mut extensions = Vec::new();
    let block_compressor = compressor(library, config.compression, &mut extensions)?;
    let log_compressor = compressor(library, config.log.compression.unwrap_or(Compression::None), &mut extensions)?;
    let mut settings = Vec::new();
    let mut setting = |name: &str, value: String| settings.push((name.to_owned(), value));
    let mut parts = vec![
        "create".to_owned(),
        format!("session_max={SESSION_MAX}"),
        format!("cache_size={}", config.memory_bytes.max(1 << 20)),
        format!("eviction_dirty_target={DIRTY_TARGET_PERCENT},eviction_dirty_trigger={DIRTY_TRIGGER_PERCENT}"),
        format!("eviction=(threads_min=1,threads_max={})", config.background_threads.clamp(1, 20)),
        "checkpoint=(wait=60)".to_owned(),
        "statistics=(fast)".to_owned(),
    ];
    setting("cache_size", bytes(config.memory_bytes));
    setting(
        "eviction",
        format!("dirty {DIRTY_TARGET_PERCENT}/{DIRTY_TRIGGER_PERCENT} %, threads 1 to {}", config.background_threads),
    );
    setting("checkpoint", "wait=60".to_owned());
    if config.direct_io {
        // A checkpoint's files are those that are open for reading only, which chunks on disk are.
        parts.push("direct_io=[data,checkpoint],mmap=false".to_owned());
    }
    setting("direct_io", if config.direct_io { "[data,checkpoint]" } else { "none" }.to_owned());
    let log = log(config, log_compressor)?;
    setting("log", log.clone());
    parts.push(log);
    if tree == Tree::Lsm {
        let workers = config.background_threads.saturating_add(2).clamp(4, 20);
        parts.push(format!("lsm_manager=(worker_thread_max={workers})"));
        setting("lsm_manager", format!("worker_thread_max={workers}"));
    }
    if !extensions.is_empty() {
        parts.push(format!("extensions=[{}]", extensions.join(",")));
    }
    let tables: Vec<String> = match tree {
        Tree::Btree => tables.iter().map(|table| btree(config, table, block_compressor)).collect(),
        Tree::Lsm => tables.iter().map(|table| lsm(config, table, tables.len(), block_compressor)).collect(),
    };
    if let Some(first) = tables.first() {
        setting("table", first.clone());
    }
    Ok(Plan { connection: parts.join(","), tables, settings })
}

/// Says no to what WiredTiger has no setting for.
fn refuse(tree: Tree, config: &Config) -> Result<()> {
    let lacks = |what: &str| Err(Lacks::new(what).into());
    if config.level1_bytes.is_some() {
        return lacks("no levels with sizes");
    }
    match tree {
        Tree::Btree if config.memtable_bytes.is_some() => lacks("no memtables"),
        Tree::Btree if config.fanout.is_some() => lacks("no levels"),
        Tree::Btree | Tree::Lsm => Ok(()),
    }
}

/// The compressor's name; its library is added to `extensions`.
fn compressor(library: &Library, wanted: Compression, extensions: &mut Vec<String>) -> Result<&'static str> {
    let name = match wanted {
        Compression::None => return Ok("none"),
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    };
    let Some(path) = library.extension(name) else {
        return Err(Lacks::new(format!("no {name} in this build ({})", library.version_text())).into());
    };
    let path = quoted(&path)?;
    if !extensions.contains(&path) {
        extensions.push(path);
    }
    Ok(name)
}

fn log(config: &Config, compressor: &str) -> Result<String> {
    let (sync, method) = match config.durability {
        Durability::NoLog => return Ok("log=(enabled=false)".to_owned()),
        Durability::Sync => (true, "fsync"),
        // Written to the file at each commit, and forced with the next checkpoint.
        Durability::Buffered => (true, "none"),
        // Gathered in memory; a thread of ours writes and forces.
        Durability::Interval(_) => (false, "fsync"),
    };
    // Zeros written ahead make a sync one of data alone; where syncs are rare they would only double the bytes.
    let zero_fill = config.durability == Durability::Sync;
    let file_max = if zero_fill { ZEROED_LOG_FILE_BYTES } else { LOG_FILE_BYTES };
    let mut log =
        format!("log=(enabled=true,file_max={file_max},prealloc=true,zero_fill={zero_fill},compressor={compressor}");
    if let Some(dir) = &config.log.dir {
        log.push_str(&format!(",path={}", quoted(&std::path::absolute(dir)?)?));
    }
    log.push_str(&format!("),transaction_sync=(enabled={sync},method={method})"));
    Ok(log)
}

/// Pages as in MongoDB's index tables; with direct I/O leaves of point reads are the 4 KiB that a read needs at least.
fn btree(config: &Config, table: &TableSpec, compressor: &str) -> String {
    let leaf = if config.direct_io && table.point_reads { "4KB" } else { "16KB" };
    let prefix_compression = table.index_of.is_some();
    format!(
        "type=file,leaf_page_max={leaf},internal_page_max=16KB,memory_page_max=10MB,split_pct=90,checksum=on,\
         prefix_compression={prefix_compression},block_compressor={compressor}"
    )
}

fn lsm(config: &Config, table: &TableSpec, tables: usize, compressor: &str) -> String {
    let chunk = chunk_bytes(config, tables);
    let bits = if table.point_reads { config.filter_bits } else { 0 };
    let bloom = match bits {
        0 => "bloom=false".to_owned(),
        // ln 2 hashes for each bit give the fewest false positives.
        bits => {
            format!("bloom=true,bloom_bit_count={},bloom_hash_count={}", bits.max(2), (bits * 69 / 100).clamp(2, 100))
        }
    };
    let merge_max = config.fanout.unwrap_or(15).clamp(2, 100);
    format!(
        "type=lsm,lsm=(chunk_size={chunk},chunk_max=5GB,merge_max={merge_max},auto_throttle=true,{bloom}),\
         leaf_page_max={},internal_page_max=16KB,checksum=on,block_compressor={compressor}",
        if config.direct_io && table.point_reads { "4KB" } else { "16KB" }
    )
}

/// Chunks of all tables, three each, take three quarters of the cache.
fn chunk_bytes(config: &Config, tables: usize) -> u64 {
    let share = config.memory_bytes / (4 * tables.max(1) as u64);
    config.memtable_bytes.unwrap_or(share.min(100 << 20)).clamp(512 << 10, 500 << 20)
}

/// A path as a string of the configuration.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().filter(|text| !text.contains(['"', '\\']));
    ensure!(text.is_some(), "WiredTiger's configuration cannot take the path {}", path.display());
    Ok(format!("\"{}\"", text.unwrap_or_default()))
}
