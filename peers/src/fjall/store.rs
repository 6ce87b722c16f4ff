//! The open database, as its clients see it.

use crate::ticker::Ticker;
use ::fjall::{OptimisticTxDatabase, OptimisticTxKeyspace};
use spinney_lab::driver::Durability;

pub(super) struct FjallStore {
    pub(super) db: OptimisticTxDatabase,
    pub(super) tables: Vec<Table>,
    pub(super) durability: Durability,
    /// The workload has transactions, so those who look for conflicts must know of all writes.
    pub(super) transactions: bool,
    pub(super) ticker: Option<Ticker>,
    pub(super) settings: Vec<(String, String)>,
}

pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) keyspace: OptimisticTxKeyspace,
}
