//! The open database.

use super::client::MariaDbClient;
use super::config::{Options, flush_at_commit};
use super::engine::Kind;
use super::forcer;
use super::schema::{self, Table};
use super::server::Server;
use crate::quiet;
use crate::ticker::Ticker;
use anyhow::{Context as _, Result};
use mysql::Conn;
use mysql::prelude::Queryable as _;
use spinney_lab::driver::{Client, Config, Counters, Durability, Store};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const DATABASE: &str = "lab";

/// A server with the table of rows.
#[derive(Debug)]
pub(super) struct MariaDbStore {
    // The thread that forces the log ends before the server does.
    ticker: Option<Ticker>,
    server: Server,
    kind: Kind,
    pub(super) tables: Vec<Table>,
    durability: Durability,
    options: Options,
    /// Held while indexes are made.
    building: Mutex<()>,
    /// Whether all indexes are there; it publishes nothing else.
    built: AtomicBool,
}

impl MariaDbStore {
    pub(super) fn open(
        kind: Kind,
        server: Server,
        config: &Config,
        tables: Vec<Table>,
        options: Options,
    ) -> Result<Self> {
        let mut connection = server.connect(None)?;
        connection.query_drop(format!("CREATE DATABASE IF NOT EXISTS {DATABASE}"))?;
        connection.query_drop(format!("USE {DATABASE}"))?;
        let engine = match kind {
            Kind::InnoDb => "InnoDB",
            Kind::MyRocks => "ROCKSDB",
        };
        connection.query_drop(schema::create(engine))?;
        forcer::prepare(&mut connection, kind)?;
        let durability = config.durability;
        let ticker = match durability {
            Durability::Interval(ms) => {
                let force = move || forcer::force(&mut connection, kind, flush_at_commit(kind, durability));
                Some(Ticker::start(ms, force))
            }
            Durability::Sync | Durability::Buffered | Durability::NoLog => None,
        };
        let (building, built) = (Mutex::new(()), AtomicBool::new(false));
        let store = Self { ticker, server, kind, tables, durability, options, building, built };
        let made = store.missing_indexes(&mut store.connect()?)?.is_empty();
        store.built.store(made, Ordering::Relaxed);
        Ok(store)
    }

    /// A connection of the workload.
    pub(super) fn connect(&self) -> Result<Conn> {
        self.server.connect(Some(DATABASE))
    }

    /// Makes the indexes that are not there yet.
    pub(super) fn have_indexes(&self) -> Result<()> {
        if self.built.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _building = self.building.lock().expect("no holder of the lock panics");
        let mut connection = self.connect()?;
        let missing = self.missing_indexes(&mut connection)?;
        let index = |table: &Table| format!("ADD INDEX `{}` ({})", table.index, table.own_columns());
        if !missing.is_empty() {
            let indexes: Vec<String> = missing.iter().map(index).collect();
            connection.query_drop(format!("ALTER TABLE `rows` {}", indexes.join(", ")))?;
        }
        self.built.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn missing_indexes(&self, connection: &mut Conn) -> Result<Vec<Table>> {
        let names: Vec<String> = connection.query(
            "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'rows'",
        )?;
        let missing = |table: &&Table| !table.is_rows() && !names.iter().any(|name| name == table.index);
        Ok(self.tables.iter().filter(missing).copied().collect())
    }

    fn status(&self) -> Result<Status> {
        let rows: Vec<(String, String)> = self.connect()?.query("SHOW GLOBAL STATUS")?;
        Ok(Status(rows.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect()))
    }

    /// What changes while background work is done.
    fn progress(&self) -> Result<Vec<u64>> {
        let status = self.status()?;
        let names: &[&str] = match self.kind {
            Kind::InnoDb => &["innodb_history_list_length", "innodb_data_written", "innodb_ibuf_size"],
            Kind::MyRocks => {
                &["rocksdb_compact_read_bytes", "rocksdb_compact_write_bytes", "rocksdb_flush_write_bytes"]
            }
        };
        let mut progress: Vec<u64> = names.iter().map(|name| status.number(name).unwrap_or(0)).collect();
        if self.kind == Kind::MyRocks {
            let pending: Option<u64> = self.connect()?.query_first(
                "SELECT CAST(SUM(value) AS UNSIGNED) FROM information_schema.rocksdb_cfstats \
                 WHERE stat_type IN ('COMPACTION_PENDING', 'MEM_TABLE_FLUSH_PENDING')",
            )?;
            progress.push(pending.unwrap_or(0));
        }
        Ok(progress)
    }

    /// Writes all dirty pages of InnoDB.
    fn flush_pages(&self) -> Result<()> {
        let mut connection = self.connect()?;
        connection
            .query_drop("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0, GLOBAL innodb_max_dirty_pages_pct = 0")?;
        quiet::wait_until(|| Ok(self.status()?.number("innodb_buffer_pool_pages_dirty").unwrap_or(0) == 0))?;
        Ok(connection.query_drop("SET GLOBAL innodb_max_dirty_pages_pct = 90")?)
    }
}

/// `SHOW GLOBAL STATUS`.
struct Status(HashMap<String, String>);

impl Status {
    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.parse().ok()
    }

    fn sum(&self, names: &[&str]) -> Option<u64> {
        names.iter().map(|name| self.number(name)).sum()
    }
}

impl Store for MariaDbStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(MariaDbClient::new(self)?))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.options.clone()
    }

    fn sync(&self) -> Result<()> {
        match self.durability {
            Durability::Sync => Ok(()),
            Durability::NoLog => self.flush(),
            durability => forcer::force(&mut self.connect()?, self.kind, flush_at_commit(self.kind, durability)),
        }
    }

    fn flush(&self) -> Result<()> {
        match self.kind {
            Kind::InnoDb => self.flush_pages(),
            Kind::MyRocks => Ok(self.connect()?.query_drop("SET GLOBAL rocksdb_force_flush_memtable_now = 1")?),
        }
    }

    fn compact_all(&self) -> Result<()> {
        let verb = match self.kind {
            Kind::InnoDb => "OPTIMIZE TABLE `rows`",
            Kind::MyRocks => "SET GLOBAL rocksdb_compact_cf = 'default'",
        };
        Ok(self.connect()?.query_drop(verb)?)
    }

    fn wait_idle(&self) -> Result<()> {
        quiet::wait_until_quiet(|| self.progress())
    }

    fn build_indexes(&self) -> Result<()> {
        self.have_indexes()
    }

    fn counters(&self) -> Result<Counters> {
        let status = self.status()?;
        let number = |name| status.number(name);
        Ok(match self.kind {
            Kind::InnoDb => {
                let misses = number("innodb_buffer_pool_reads");
                Counters {
                    log_written_bytes: number("innodb_os_log_written"),
                    flush_bytes: number("innodb_buffer_pool_pages_flushed").map(|pages| pages << 14),
                    stalls: status.sum(&["innodb_log_waits", "innodb_buffer_pool_wait_free"]),
                    cache_hits: number("innodb_buffer_pool_read_requests")
                        .zip(misses)
                        .map(|(all, misses)| all.saturating_sub(misses)),
                    cache_misses: misses,
                    ..Counters::default()
                }
            }
            Kind::MyRocks => Counters {
                log_written_bytes: number("rocksdb_wal_bytes"),
                log_syncs: number("rocksdb_wal_synced"),
                flush_bytes: number("rocksdb_flush_write_bytes"),
                compaction_read_bytes: number("rocksdb_compact_read_bytes"),
                compaction_written_bytes: number("rocksdb_compact_write_bytes"),
                stall_us: number("rocksdb_stall_micros"),
                stalls: status.sum(&["rocksdb_stall_total_stops", "rocksdb_stall_total_slowdowns"]),
                cache_hits: number("rocksdb_block_cache_hit"),
                cache_misses: number("rocksdb_block_cache_miss"),
                ..Counters::default()
            },
        })
    }

    fn is_log(&self, path: &Path) -> bool {
        match self.kind {
            Kind::InnoDb => path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ib_logfile")),
            Kind::MyRocks => path.extension().is_some_and(|extension| extension == "log"),
        }
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.server.id()]
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { ticker, server, .. } = *self;
        ticker.map_or(Ok(()), Ticker::stop).context("the log was not forced")?;
        server.stop()
    }
}
