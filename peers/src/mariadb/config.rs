//! The server's options: what is asked for and what is best.

use super::kind::Kind;
use anyhow::Result;
use spinney_lab::driver::{Compression, Config, Durability, Lacks};

/// InnoDB refuses a smaller buffer pool with pages of 16 KiB.
const BUFFER_POOL_BYTES_MIN: u64 = 6 << 20;

/// Options as name and value, in the order in which the report shows them.
pub(super) type Options = Vec<(String, String)>;

/// Chooses the options.
///
/// # Errors
/// [`Lacks`] for what the storage engine does not have.
pub(super) fn options(kind: Kind, config: &Config) -> Result<Options> {
    if config.log.compression.is_some_and(|compression| compression != Compression::None) {
        return Err(Lacks::new("no compression of its log").into());
    }
    let mut options = match kind {
        Kind::InnoDb => innodb(config)?,
        Kind::MyRocks => myrocks(config)?,
    };
    options.insert(0, ("flush_log_at_trx_commit".to_owned(), config.durability.text()));
    Ok(options)
}

/// How far a commit's log goes: 0 into memory, 1 onto the device, 2 to the operating system.
pub(super) fn flush_at_commit(kind: Kind, durability: Durability) -> u32 {
    match (durability, kind) {
        (Durability::Sync, _) => 1,
        // What InnoDB's users have for it, and what the article on redo logs measured.
        (Durability::Interval(_), Kind::InnoDb) | (Durability::Buffered, _) => 2,
        (Durability::Interval(_), Kind::MyRocks) | (Durability::NoLog, _) => 0,
    }
}

fn innodb(config: &Config) -> Result<Options> {
    let lacks = |what: &str| Err(Lacks::new(what).into());
    if config.durability == Durability::NoLog {
        return lacks("no tables without redo log");
    }
    if config.compression != Compression::None {
        return lacks("no LZ4 or Zstandard without plugins of the server");
    }
    if config.memtable_bytes.is_some() || config.fanout.is_some() || config.level1_bytes.is_some() {
        return lacks("no memtables and no levels");
    }
    let log_bytes = config.memory_bytes.clamp(512 << 20, 4 << 30);
    let threads = config.background_threads.clamp(1, 32);
    Ok(named([
        ("innodb_flush_log_at_trx_commit", flush_at_commit(Kind::InnoDb, config.durability).to_string()),
        ("innodb_buffer_pool_size", config.memory_bytes.max(BUFFER_POOL_BYTES_MIN).to_string()),
        ("innodb_flush_method", if config.direct_io { "O_DIRECT" } else { "fsync" }.to_owned()),
        // Off would be faster and would leave torn pages behind after a loss of power.
        ("innodb_doublewrite", "ON".to_owned()),
        ("innodb_log_file_size", log_bytes.to_string()),
        ("innodb_log_buffer_size", (16_u64 << 20).to_string()),
        // When indexes are made.
        ("innodb_sort_buffer_size", (config.memory_bytes / 16).clamp(1 << 20, 64 << 20).to_string()),
        // Changes of leaves that are not in memory wait in a tree of their own.
        ("innodb_change_buffering", "all".to_owned()),
        ("innodb_flush_neighbors", "0".to_owned()),
        ("innodb_io_capacity", "2000".to_owned()),
        ("innodb_io_capacity_max", "20000".to_owned()),
        ("innodb_purge_threads", threads.to_string()),
        ("innodb_adaptive_hash_index", "OFF".to_owned()),
        ("innodb_buffer_pool_dump_at_shutdown", "OFF".to_owned()),
        ("innodb_buffer_pool_load_at_startup", "OFF".to_owned()),
        ("innodb_fast_shutdown", "1".to_owned()),
        ("default_storage_engine", "InnoDB".to_owned()),
    ]))
}

fn myrocks(config: &Config) -> Result<Options> {
    if config.memtable_bytes.is_some_and(|bytes| bytes < 64 << 10) {
        return Err(Lacks::new("no memtables under 64 KiB").into());
    }
    // All indexes share a column family. Two memtables, one of them being flushed, take an eighth of the memory.
    let memtable = config.memtable_bytes.unwrap_or((config.memory_bytes / 16).clamp(1 << 20, 64 << 20));
    let level1 = config.level1_bytes.unwrap_or(4 * memtable);
    let fanout = config.fanout.unwrap_or(10);
    let compression = match config.compression {
        Compression::None => "kNoCompression",
        Compression::Lz4 => "kLZ4Compression",
        Compression::Zstd => "kZSTDNotFinalCompression",
    };
    let filter = match config.filter_bits {
        0 => String::new(),
        bits => format!("filter_policy=bloomfilter:{bits}:false;whole_key_filtering=1;"),
    };
    let family = format!(
        "write_buffer_size={memtable};max_write_buffer_number=4;target_file_size_base={memtable};\
         max_bytes_for_level_base={level1};max_bytes_for_level_multiplier={fanout};\
         level_compaction_dynamic_level_bytes=true;level0_file_num_compaction_trigger=4;\
         level0_slowdown_writes_trigger=20;level0_stop_writes_trigger=30;compaction_pri=kMinOverlappingRatio;\
         compression={compression};bottommost_compression={compression};\
         block_based_table_factory={{{filter}cache_index_and_filter_blocks=1;pin_l0_filter_and_index_blocks_in_cache=1}}"
    );
    let cache = config.memory_bytes.saturating_sub(2 * memtable).max(1 << 20);
    let on_off = |on: bool| if on { "ON" } else { "OFF" }.to_owned();
    Ok(named([
        ("rocksdb_flush_log_at_trx_commit", flush_at_commit(Kind::MyRocks, config.durability).to_string()),
        // On, a commit's log stays in RocksDB's memory until it is forced.
        ("rocksdb_manual_wal_flush", on_off(config.durability != Durability::Buffered)),
        ("rocksdb_write_disable_wal", on_off(config.durability == Durability::NoLog)),
        ("rocksdb_block_cache_size", cache.to_string()),
        ("rocksdb_default_cf_options", family),
        ("rocksdb_block_size", "16384".to_owned()),
        ("rocksdb_max_background_jobs", config.background_threads.max(2).to_string()),
        ("rocksdb_max_open_files", "-1".to_owned()),
        ("rocksdb_use_direct_reads", on_off(config.direct_io)),
        ("rocksdb_use_direct_io_for_flush_and_compaction", on_off(config.direct_io)),
        ("rocksdb_compaction_readahead_size", (2_u64 << 20).to_string()),
        ("rocksdb_max_total_wal_size", config.memory_bytes.max(256 << 20).to_string()),
        ("plugin_load_add", "ha_rocksdb".to_owned()),
        ("default_storage_engine", "ROCKSDB".to_owned()),
        // The server's own tables stay in InnoDB's smallest pool.
        ("innodb_buffer_pool_size", BUFFER_POOL_BYTES_MIN.to_string()),
    ]))
}

fn named<const N: usize>(options: [(&str, String); N]) -> Options {
    options.map(|(name, value)| (name.to_owned(), value)).into()
}
