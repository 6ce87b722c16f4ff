//! The open database.

use super::config::{Options, flush_at_commit};
use super::forcer;
use super::kind::Kind;
use super::schema::{self, Table};
use super::server::Server;
use crate::quiet;
use crate::ticker::Ticker;
use anyhow::Result;
use mysql::Conn;
use mysql::prelude::Queryable as _;
use spinney_lab::driver::{Config, Durability};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const DATABASE: &str = "lab";

/// A server with the table of rows.
#[derive(Debug)]
pub(super) struct MariaDbStore {
    // The thread that forces the log ends before the server does.
    pub(super) ticker: Option<Ticker>,
    pub(super) server: Server,
    pub(super) kind: Kind,
    pub(super) tables: Vec<Table>,
    pub(super) durability: Durability,
    pub(super) options: Options,
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

    pub(super) fn status(&self) -> Result<Status> {
        let rows: Vec<(String, String)> = self.connect()?.query("SHOW GLOBAL STATUS")?;
        Ok(Status(rows.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect()))
    }

    /// What changes while background work is done.
    pub(super) fn progress(&self) -> Result<Vec<u64>> {
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
    pub(super) fn flush_pages(&self) -> Result<()> {
        let mut connection = self.connect()?;
        connection
            .query_drop("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0, GLOBAL innodb_max_dirty_pages_pct = 0")?;
        quiet::wait_until(|| Ok(self.status()?.number("innodb_buffer_pool_pages_dirty").unwrap_or(0) == 0))?;
        Ok(connection.query_drop("SET GLOBAL innodb_max_dirty_pages_pct = 90")?)
    }
}

/// `SHOW GLOBAL STATUS`.
pub(super) struct Status(HashMap<String, String>);

impl Status {
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.parse().ok()
    }

    pub(super) fn sum(&self, names: &[&str]) -> Option<u64> {
        names.iter().map(|name| self.number(name)).sum()
    }
}
