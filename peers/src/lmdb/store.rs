//! The open database, as its clients see it.

use super::env::Env;
use crate::ticker::Ticker;
use lmdb_master_sys as ffi;
use std::sync::Arc;

pub(super) struct LmdbStore {
    pub(super) env: Arc<Env>,
    pub(super) tables: Vec<Table>,
    pub(super) ticker: Option<Ticker>,
    pub(super) settings: Vec<(String, String)>,
}

pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) dbi: ffi::MDB_dbi,
}
