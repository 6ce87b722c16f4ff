//! LMDB: a copy-on-write B-tree in a memory map, with one writer at a time.
//!
//! The binding is the one below `heed`, which itself does not expose what LMDB's users are told to do on reads: renew a
//! read transaction and its cursors instead of making new ones.

mod client;
mod env;
mod store;

use crate::log_options;
use crate::ticker::Ticker;
use anyhow::{Context as _, Result};
use client::LmdbClient;
use env::{Env, Txn};
use lmdb_master_sys as ffi;
use spinney_lab::driver::{Client, Config, Durability, Engine, Lacks, Store, TableShape, TableSpec};
use std::ffi::c_uint;
use std::path::Path;
use std::sync::Arc;
use store::{LmdbStore, Table};

/// Address space of the map, of which only what is written takes room on disk.
const MAP_BYTES: usize = 1 << 40;

/// LMDB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lmdb;

impl Engine for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn version(&self) -> String {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: the function writes three numbers and returns a static string.
        unsafe { ffi::mdb_version(&raw mut major, &raw mut minor, &raw mut patch) };
        format!("{major}.{minor}.{patch}")
    }

    fn direct_io(&self) -> bool {
        false
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        log_options::refuse(config)?;
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let (flags, flags_text) = flags(config.durability);
        let env = Arc::new(Env::open(dir, MAP_BYTES, u32::try_from(tables.len())?, flags)?);
        let txn = Txn::begin(&env, 0)?;
        let tables = tables
            .iter()
            .map(|spec| Ok(Table { name: spec.name, dbi: txn.table(spec.name)? }))
            .collect::<Result<_>>()?;
        txn.commit()?;
        let ticker = match config.durability {
            Durability::Interval(ms) => {
                let env = Arc::clone(&env);
                Some(Ticker::start(ms, move || env.sync()))
            }
            _ => None,
        };
        let settings = vec![
            ("flags".to_owned(), flags_text.to_owned()),
            ("map".to_owned(), "1 TiB of address space".to_owned()),
            ("page".to_owned(), "4 KiB".to_owned()),
            ("memory".to_owned(), "the page cache, which only a memory limit bounds".to_owned()),
            ("compression".to_owned(), "none: LMDB has none".to_owned()),
        ];
        Ok(Box::new(LmdbStore { env, tables, ticker, settings }))
    }
}

/// LMDB's flags for a durability, and how a report shows them.
fn flags(durability: Durability) -> (c_uint, &'static str) {
    let always = ffi::MDB_NOTLS | ffi::MDB_NORDAHEAD;
    match durability {
        Durability::Sync => (always | ffi::MDB_NOMEMINIT, "NOTLS NORDAHEAD NOMEMINIT"),
        Durability::Interval(_) | Durability::Buffered | Durability::NoLog => (
            always | ffi::MDB_WRITEMAP | ffi::MDB_NOSYNC | ffi::MDB_NOMETASYNC,
            "NOTLS NORDAHEAD WRITEMAP NOSYNC NOMETASYNC (a loss of power may corrupt it)",
        ),
    }
}

impl Store for LmdbStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(LmdbClient::new(self)))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn sync(&self) -> Result<()> {
        self.env.sync()
    }

    fn flush(&self) -> Result<()> {
        self.env.sync()
    }

    fn compact_all(&self) -> Result<()> {
        Err(Lacks::new("no verb that compacts in place, only one that copies").into())
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn shape(&self) -> Result<Vec<TableShape>> {
        let txn = Txn::begin(&self.env, ffi::MDB_RDONLY)?;
        let shape = |table: &Table| {
            let stat = txn.stat(table.dbi)?;
            let pages = stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
            Ok(TableShape {
                table: table.name.to_owned(),
                btree_height: Some(stat.ms_depth.into()),
                btree_bytes: Some(pages as u64 * u64::from(stat.ms_psize)),
                trees: Some(1),
                ..TableShape::default()
            })
        };
        self.tables.iter().map(shape).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.ticker.map_or(Ok(()), Ticker::stop)
    }
}
