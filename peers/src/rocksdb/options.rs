//! The options that RocksDB is opened with.

use super::kind::{Logs, RocksDb, Style};
use super::native::{Events, Tickers, WriteOptions};
use anyhow::Result;
use rocksdb::{
    BlockBasedOptions, BlockBasedTablePinningTier, Cache, DBCompactionStyle, DBCompressionType, DataBlockIndexType,
    Options, UniversalCompactOptions, WriteBufferManager,
};
use spinney_lab::driver::{Compression, Config, Durability, Lacks, TableSpec};
use spinney_lab::text;
use std::sync::Arc;

/// What an open and the work after it need.
pub(super) struct Chosen {
    pub(super) db: Options,
    /// One for each table, in order.
    pub(super) tables: Vec<Options>,
    pub(super) write: WriteOptions,
    pub(super) sizes: Sizes,
    pub(super) events: Arc<Events>,
    /// Where commits force the log, beside which the counting costs nothing.
    pub(super) tickers: Option<Tickers>,
    pub(super) settings: Vec<(String, String)>,
}

/// How memory and levels are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Bytes of a memtable.
    pub(super) memtable: u64,
    /// Memtables of one table, the one that takes writes included.
    pub(super) memtables: u64,
    /// Bytes of the memtables of all tables.
    pub(super) memtables_total: u64,
    /// Bytes of the first level below L0.
    pub(super) level1: u64,
    /// Bytes of a file.
    pub(super) file: u64,
}

/// What the setters of the crate have no names for: blocks of an index whose keys are spread evenly are searched by
/// interpolation, and universal compaction moves files that overlap nothing.
const MORE_OPTIONS: &str = "block_based_table_factory={index_block_search_type=kAuto;uniform_cv_threshold=0.2};\
                            compaction_options_universal={allow_trivial_move=true}";

/// The least that a memtable gets: with more, the memtables of the tables of an experiment on little memory would take
/// more than all of it.
const MEMTABLE_MIN: u64 = 1 << 20;

impl Sizes {
    pub(super) fn new(config: &Config) -> Self {
        // Sixteen memtables are the memory, four of them a table's, and all tables together have at most half of it.
        let memtable = config.memtable_bytes.unwrap_or((config.memory_bytes / 16).clamp(MEMTABLE_MIN, 128 << 20));
        let memtables = 4;
        let memtables_total = (config.memory_bytes / 2).max(memtables * memtable);
        // L0 is compacted when it has four files; a level of the same size below it makes that compaction the cheapest.
        let level1 = config.level1_bytes.unwrap_or(4 * memtable);
        Self { memtable, memtables, memtables_total, level1, file: (level1 / 4).max(2 << 20) }
    }
}

impl Chosen {
    pub(super) fn new(engine: RocksDb, config: &Config, tables: &[TableSpec]) -> Result<Self> {
        let RocksDb { style, logs } = engine;
        let sizes = Sizes::new(config);
        let cache = Cache::new_hyper_clock_cache(usize::try_from(config.memory_bytes)?, 0);
        let events = Arc::new(Events::default());
        let mut db = Options::default();
        set_database(&mut db, config, sizes, &cache)?;
        let write = set_log(&mut db, logs, config)?;
        let tickers = (config.durability == Durability::Sync).then(|| Tickers::enable(&mut db));
        // A database's options are kept apart from its tables' by RocksDB itself, but the crate has one type for both.
        let tables =
            tables.iter().map(|spec| table_options(&db, style, config, sizes, &cache, spec)).collect::<Result<_>>()?;
        events.listen(&db);
        Ok(Self { db, tables, write, sizes, events, tickers, settings: settings(engine, config, sizes) })
    }
}

fn set_database(db: &mut Options, config: &Config, sizes: Sizes, cache: &Cache) -> Result<()> {
    db.create_if_missing(true);
    db.create_missing_column_families(true);
    db.set_max_background_jobs(config.background_threads.max(2).try_into()?);
    db.set_max_subcompactions(config.background_threads.saturating_sub(1).clamp(1, 4));
    db.set_use_direct_reads(config.direct_io);
    db.set_use_direct_io_for_flush_and_compaction(config.direct_io);
    if !config.direct_io {
        // The pages of new files go to the device as they come, not all at once.
        db.set_bytes_per_sync(1 << 20);
    }
    // Files stay open, and with them their indexes and filters in the cache.
    db.set_max_open_files(-1);
    // Memtables are charged to the cache, so that both together are the memory.
    let total = usize::try_from(sizes.memtables_total)?;
    db.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(total, false, cache.clone()));
    // No text about itself while it is measured.
    db.set_stats_dump_period_sec(0);
    db.set_stats_persist_period_sec(0);
    Ok(())
}

fn set_log(db: &mut Options, logs: Logs, config: &Config) -> Result<WriteOptions> {
    match config.log.compression {
        None | Some(Compression::None) => {}
        Some(Compression::Lz4) => {
            return Err(Lacks::new("no compression of its redo log by LZ4, only by Zstandard").into());
        }
        Some(Compression::Zstd) => db.set_wal_compression_type(DBCompressionType::Zstd),
    }
    if let Some(dir) = &config.log.dir {
        db.set_wal_dir(dir);
    }
    match (config.durability, logs) {
        // A log file that is written again has its blocks already: a commit forces data only, no metadata.
        (Durability::Sync, Logs::Recycled) => db.set_recycle_log_file_num(4),
        (Durability::Sync, Logs::New) => {}
        (_, Logs::New) => return Err(Lacks::new("as `rocksdb` where commits do not force the log").into()),
        (Durability::Interval(_), _) => db.set_manual_wal_flush(true),
        (Durability::Buffered | Durability::NoLog, _) => {}
    }
    Ok(WriteOptions::new(config.durability == Durability::Sync, config.durability != Durability::NoLog))
}

fn table_options(
    db: &Options,
    style: Style,
    config: &Config,
    sizes: Sizes,
    cache: &Cache,
    spec: &TableSpec,
) -> Result<Options> {
    let mut table = db.clone();
    table.set_write_buffer_size(usize::try_from(sizes.memtable)?);
    table.set_max_write_buffer_number(sizes.memtables.try_into()?);
    table.set_target_file_size_base(sizes.file);
    table.set_compression_type(match config.compression {
        Compression::None => DBCompressionType::None,
        Compression::Lz4 => DBCompressionType::Lz4,
        Compression::Zstd => DBCompressionType::Zstd,
    });
    match style {
        Style::Leveled => {
            table.set_level_compaction_dynamic_level_bytes(true);
            table.set_max_bytes_for_level_base(sizes.level1);
            table.set_max_bytes_for_level_multiplier(f64::from(config.fanout.unwrap_or(10)));
        }
        Style::Universal => {
            table.set_compaction_style(DBCompactionStyle::Universal);
            let mut universal = UniversalCompactOptions::default();
            // All but the newest fifth is compressed: what is merged again soon is not worth it.
            universal.set_compression_size_percent(80);
            table.set_universal_compaction_options(&universal);
        }
    }
    table.set_block_based_table_factory(&block_options(config, cache, spec));
    Ok(table.get_options_from_string(MORE_OPTIONS)?)
}

fn block_options(config: &Config, cache: &Cache, spec: &TableSpec) -> BlockBasedOptions {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    blocks.set_format_version(7);
    // Indexes and filters are part of the memory, but nobody looks them up: they are pinned while their file is open.
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::All);
    if spec.point_reads {
        blocks.set_block_size(config.block_bytes.map_or(4 << 10, |bytes| bytes as usize));
        blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        blocks.set_data_block_hash_ratio(0.75);
        if config.filter_bits > 0 {
            blocks.set_bloom_filter(config.filter_bits.into(), false);
        }
    } else {
        blocks.set_block_size(8 << 10);
    }
    blocks
}

fn settings(engine: RocksDb, config: &Config, sizes: Sizes) -> Vec<(String, String)> {
    let mut settings = vec![
        ("memory", format!("{}, HyperClockCache, memtables charged to it", text::bytes(config.memory_bytes))),
        ("memtable", format!("{}, up to {} a table", text::bytes(sizes.memtable), sizes.memtables)),
        ("memtables", format!("up to {}", text::bytes(sizes.memtables_total))),
    ];
    match engine.style {
        Style::Leveled => {
            let fanout = config.fanout.unwrap_or(10);
            settings.push(("levels", format!("dynamic, L1 {}, fanout {fanout}", text::bytes(sizes.level1))));
        }
        Style::Universal => settings.push(("sorted runs", "universal, compaction from 4".to_owned())),
    }
    settings.extend([
        ("file", text::bytes(sizes.file)),
        (
            "block",
            "4.0 KiB with point reads, else 8.0 KiB; index searched by interpolation where keys are even".to_owned(),
        ),
        ("filter", format!("Bloom {} where there are point reads", config.filter_bits)),
        ("direct I/O", config.direct_io.to_string()),
        ("background jobs", config.background_threads.max(2).to_string()),
    ]);
    match config.durability {
        Durability::Sync => {
            let files =
                if engine.logs == Logs::Recycled { "4 files recycled" } else { "files always new (its default)" };
            settings.push(("log", format!("forced by each commit group, {files}")));
        }
        Durability::Interval(ms) => settings.push(("log", format!("manual_wal_flush, forced every {ms} ms"))),
        Durability::Buffered => settings.push(("log", "written by each commit group".to_owned())),
        Durability::NoLog => settings.push(("log", "disableWAL".to_owned())),
    }
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
