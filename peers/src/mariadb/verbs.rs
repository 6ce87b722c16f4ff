//! What the lab asks of an open database.

use super::client::MariaDbClient;
use super::config::flush_at_commit;
use super::forcer;
use super::kind::Kind;
use super::store::MariaDbStore;
use crate::quiet;
use crate::ticker::Ticker;
use anyhow::{Context as _, Result};
use mysql::prelude::Queryable as _;
use spinney_lab::driver::{Client, Counters, Durability, Store};
use std::path::Path;

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
