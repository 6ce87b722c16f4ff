//! What our engine is opened with, and what it says of itself: for tables and for documents alike.

use super::config::{Compression, Config, Durability};
use super::state::{Counters, LevelShape, LevelWork, TableShape};
use anyhow::Result;
use spinney::env::Env;
use spinney::{Database, LogCompression, Options, Shape};
use std::path::Path;
use std::time::Duration;

/// The options that a configuration asks for, and the durability of each commit.
pub(super) fn options(config: &Config) -> (Options, spinney::Durability) {
    let (durability, interval) = durability(config.durability);
    let defaults = Options::default();
    let options = Options::default()
        .memory_bytes(config.memory_bytes)
        .direct_io(config.direct_io)
        .durability(durability)
        .interval(interval.unwrap_or(defaults.interval))
        .log_segment_bytes(config.log.segment_bytes.unwrap_or(defaults.log_segment_bytes))
        .log_dir(config.log.dir.clone())
        .log_compression(log_compression(config.log.compression.unwrap_or(Compression::None)))
        .log_keep_bytes(config.log.keep_bytes)
        .memtable_bytes(config.memtable_bytes.unwrap_or(0))
        .compaction_threads(config.background_threads.saturating_sub(1).max(1));
    (options, durability)
}

/// The environment that a configuration asks for.
pub(super) fn env(config: &Config) -> Result<Env> {
    Ok(if config.poll_reads { Env::os_polling()? } else { Env::os() })
}

fn log_compression(wanted: Compression) -> LogCompression {
    match wanted {
        Compression::None => LogCompression::Off,
        Compression::Lz4 => LogCompression::Lz4,
        Compression::Zstd => LogCompression::Zstd,
    }
}

fn durability(wanted: Durability) -> (spinney::Durability, Option<Duration>) {
    match wanted {
        Durability::Sync => (spinney::Durability::Sync, None),
        Durability::Interval(ms) => (spinney::Durability::Interval, Some(Duration::from_millis(ms.into()))),
        // The tables are unlogged: their commits write and force nothing, whatever they ask for.
        Durability::Buffered | Durability::NoLog => (spinney::Durability::Buffered, None),
    }
}

/// What the engine has counted.
pub(super) fn counters(db: &Database) -> Counters {
    let stats = db.stats();
    Counters {
        log_record_bytes: Some(stats.log.record_bytes),
        log_written_bytes: Some(stats.log.written_bytes),
        log_ahead_bytes: Some(stats.log.spare_bytes),
        log_syncs: Some(stats.log.syncs),
        log_compression_us: Some(stats.log.compression_us),
        flush_bytes: Some(stats.flush.flush_bytes),
        compaction_read_bytes: Some(stats.flush.compaction_read_bytes),
        compaction_written_bytes: Some(stats.flush.compaction_write_bytes),
        stall_us: Some(stats.delay_us + stats.stall_us),
        stalls: Some(stats.delays + stats.stalls),
        cache_hits: Some(stats.cache.hits),
        cache_misses: Some(stats.cache.misses),
        gets: Some(stats.reads.gets),
        get_trees: Some(stats.reads.get_trees),
        get_filters: Some(stats.reads.get_filters),
        get_filter_misses: Some(stats.reads.get_filter_misses),
        get_blocks: Some(stats.reads.get_blocks),
        get_blocks_read: Some(stats.reads.get_blocks_read),
        seeks: Some(stats.reads.seeks),
        seek_trees: Some(stats.reads.seek_trees),
        seek_blocks: Some(stats.reads.seek_blocks),
        seek_blocks_read: Some(stats.reads.seek_blocks_read),
        seek_filters: Some(stats.reads.seek_filters),
        seek_filter_misses: Some(stats.reads.seek_filter_misses),
        ..Counters::default()
    }
}

/// What flushes, compactions and merges did for each level.
pub(super) fn level_work(db: &Database) -> Vec<LevelWork> {
    let work = |level: spinney::LevelStats| LevelWork {
        level: level.place,
        jobs: level.jobs,
        in_bytes: Some(level.in_bytes),
        rewritten_bytes: Some(level.rewritten_bytes),
        written_bytes: level.written_bytes,
        time_us: Some(level.time_us),
        debt_bytes: Some(level.debt_bytes),
    };
    db.stats().levels.into_iter().map(work).collect()
}

/// Bytes that levels hold above their targets.
pub(super) fn compaction_debt(db: &Database) -> u64 {
    db.stats().levels.iter().map(|level| level.debt_bytes).sum()
}

/// Segments, and the files that wait to become one.
pub(super) fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".log", ".spare"].iter().any(|suffix| name.trim_end_matches(".new").ends_with(suffix))
}

/// The trees of a table.
pub(super) fn shape(shape: Shape) -> TableShape {
    let mut levels = Vec::new();
    if !shape.l0.is_empty() {
        let runs = shape.l0.len() as u64;
        levels.push(LevelShape {
            level: 0,
            sorted_runs: runs,
            files: runs,
            bytes: shape.l0.iter().map(|run| run.bytes).sum(),
            entries: Some(shape.l0.iter().map(|run| run.entries).sum()),
        });
    }
    for (at, level) in shape.levels.iter().filter(|level| level.runs > 0).enumerate() {
        levels.push(LevelShape {
            level: at as u64 + 1,
            sorted_runs: 1,
            files: level.runs,
            bytes: level.bytes,
            entries: Some(level.entries),
        });
    }
    TableShape {
        table: shape.table,
        memtable_entries: Some(shape.memtable_entries),
        memtable_bytes: Some(shape.memtable_bytes),
        immutable_memtables: Some(shape.immutable_memtables),
        levels,
        btree_height: shape.btree.as_ref().map(|btree| btree.height),
        btree_bytes: shape.btree.as_ref().map(|btree| btree.file_bytes),
        trees: Some(shape.trees),
    }
}
