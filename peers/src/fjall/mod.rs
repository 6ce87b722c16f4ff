//! fjall: an LSM-tree with a journal that all its trees share, in its variant with optimistic transactions.

mod client;
mod store;

use crate::log_options;
use crate::ticker::Ticker;
use ::fjall::config::{
    BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, HashRatioPolicy, PinningPolicy,
};
use ::fjall::{AbstractTree as _, CompressionType, KeyspaceCreateOptions, OptimisticTxDatabase, PersistMode};
use anyhow::{Result, ensure};
use client::FjallClient;
use spinney_lab::driver::{
    Client, Compression, Config, Durability, Engine, Lacks, LevelShape, Store, TableShape, TableSpec,
};
use spinney_lab::text::bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{FjallStore, Table};

/// fjall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fjall;

/// How the memory is divided, and what else is chosen for all tables.
struct Choice {
    memtable_bytes: u64,
    cache_bytes: u64,
    journal_bytes: u64,
    compression: CompressionPolicy,
    compression_text: &'static str,
}

impl Engine for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn version(&self) -> String {
        env!("FJALL_VERSION").to_owned()
    }

    fn direct_io(&self) -> bool {
        false
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        log_options::refuse(config)?;
        ensure!(config.durability != Durability::NoLog, Lacks::new("no writes without its journal"));
        let choice = Choice::new(config, tables.len() as u64)?;
        let workers = usize::try_from(config.background_threads.max(1))?;
        let db = OptimisticTxDatabase::builder(dir)
            .cache_size(choice.cache_bytes)
            .max_journaling_size(choice.journal_bytes)
            .journal_compression(CompressionType::None)
            .worker_threads(workers)
            .open()?;
        let table = |spec: &TableSpec| -> Result<Table> {
            let keyspace = db.keyspace(spec.name, || choice.options(config, spec))?;
            Ok(Table { name: spec.name, keyspace })
        };
        let tables = tables.iter().map(table).collect::<Result<_>>()?;
        let ticker = match config.durability {
            Durability::Interval(ms) => {
                let db = db.clone();
                Some(Ticker::start(ms, move || Ok(db.persist(PersistMode::SyncData)?)))
            }
            _ => None,
        };
        let settings = [
            ("cache", bytes(choice.cache_bytes)),
            ("memtable", format!("{} for each table", bytes(choice.memtable_bytes))),
            ("journals", bytes(choice.journal_bytes)),
            ("compression", choice.compression_text.to_owned()),
            ("block", "4 KiB, hash index 0.75".to_owned()),
            ("filters", format!("{} bits per key", config.filter_bits)),
            ("pinned", "filters and indexes of all levels".to_owned()),
            ("workers", workers.to_string()),
            ("compaction", "leveled".to_owned()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let (durability, transactions) = (config.durability, config.transactions);
        Ok(Box::new(FjallStore { db, tables, durability, transactions, ticker, settings }))
    }
}

impl Choice {
    fn new(config: &Config, tables: u64) -> Result<Self> {
        // A full memtable waits for its flush while the next one fills: half of the memory at most is theirs.
        let share = (config.memory_bytes / (4 * tables.max(1))).clamp(4 << 20, 128 << 20);
        let memtable_bytes = config.memtable_bytes.unwrap_or(share);
        let memtables = 2 * tables * memtable_bytes;
        let (compression, compression_text) = match config.compression {
            Compression::None => (CompressionPolicy::disabled(), "none"),
            Compression::Lz4 => (CompressionPolicy::all(CompressionType::Lz4), "LZ4"),
            Compression::Zstd => return Err(Lacks::new("no zstd").into()),
        };
        Ok(Self {
            memtable_bytes,
            cache_bytes: config.memory_bytes.saturating_sub(memtables).max(config.memory_bytes / 4),
            journal_bytes: (4 * memtables).max(2 << 30),
            compression,
            compression_text,
        })
    }

    fn options(&self, config: &Config, spec: &TableSpec) -> KeyspaceCreateOptions {
        let filters = if spec.point_reads && config.filter_bits > 0 {
            let bits = BloomConstructionPolicy::BitsPerKey(config.filter_bits as f32);
            FilterPolicy::all(FilterPolicyEntry::Bloom(bits))
        } else {
            FilterPolicy::disabled()
        };
        let mut leveled = ::fjall::compaction::Leveled::default();
        if let Some(fanout) = config.fanout {
            leveled = leveled.with_level_ratio_policy(vec![fanout as f32]);
        }
        if let Some(level1) = config.level1_bytes {
            // The first level holds as many tables as L0 when it is compacted.
            leveled = leveled.with_table_target_size(level1 / 4);
        }
        KeyspaceCreateOptions::default()
            .max_memtable_size(self.memtable_bytes)
            .data_block_compression_policy(self.compression.clone())
            .data_block_hash_ratio_policy(HashRatioPolicy::all(if spec.point_reads { 0.75 } else { 0.0 }))
            .filter_policy(filters)
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .index_block_pinning_policy(PinningPolicy::all(true))
            .compaction_strategy(Arc::new(leveled))
    }
}

impl Store for FjallStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(FjallClient::new(self)))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn flush(&self) -> Result<()> {
        self.tables.iter().try_for_each(|table| Ok(table.keyspace.inner().rotate_memtable_and_wait()?))
    }

    fn compact_all(&self) -> Result<()> {
        self.flush()?;
        self.tables.iter().try_for_each(|table| Ok(table.keyspace.inner().major_compact()?))
    }

    #[expect(clippy::disallowed_methods, reason = "fjall has no verb that waits, so we look again and again")]
    fn wait_idle(&self) -> Result<()> {
        let db = self.db.inner();
        // A flush that ends asks for a compaction a moment later: quiet is to be seen more than once.
        let mut quiet = 0;
        while quiet < 3 {
            let busy = db.outstanding_flushes() > 0 || db.active_compactions() > 0;
            quiet = if busy { 0 } else { quiet + 1 };
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn shape(&self) -> Result<Vec<TableShape>> {
        Ok(self.tables.iter().map(Table::shape).collect())
    }

    fn is_log(&self, path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "jnl")
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { db, tables, ticker, .. } = *self;
        let ended = ticker.map_or(Ok(()), Ticker::stop);
        // The last handle to go ends the workers.
        drop((tables, db));
        ended
    }
}

impl Table {
    fn shape(&self) -> TableShape {
        let tree = &self.keyspace.inner().tree;
        let version = tree.current_version();
        let levels = version.iter_levels().enumerate().filter(|(_, level)| !level.is_empty()).map(|(number, level)| {
            LevelShape {
                level: number as u64,
                sorted_runs: level.run_count() as u64,
                files: level.table_count() as u64,
                bytes: level.size(),
                entries: None,
            }
        });
        let levels: Vec<LevelShape> = levels.collect();
        let memtable = tree.active_memtable();
        TableShape {
            table: self.name.to_owned(),
            memtable_entries: Some(memtable.len() as u64),
            memtable_bytes: Some(memtable.size()),
            immutable_memtables: Some(tree.sealed_memtable_count() as u64),
            trees: Some(
                1 + tree.sealed_memtable_count() as u64 + levels.iter().map(|level| level.sorted_runs).sum::<u64>(),
            ),
            levels,
            ..TableShape::default()
        }
    }
}
