//! An open database, and the model that its clients share.

use crate::driver::model::Model;
use crate::driver::store::Store;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

/// What was seen of all databases.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// The sum of the clients' hashes, which does not depend on their order. Each client that ends adds its own.
    pub(super) hash: AtomicU64,
    /// Reads that were compared; a statistic.
    pub(super) reads: AtomicU64,
}

pub(super) struct CheckedStore {
    pub(super) store: Box<dyn Store>,
    pub(super) engine: &'static str,
    pub(super) tables: Vec<&'static str>,
    pub(super) model: Arc<Mutex<Model>>,
    pub(super) totals: Arc<Totals>,
}

impl CheckedStore {
    pub(super) fn lock(&self) -> MutexGuard<'_, Model> {
        self.model.lock().expect("no client panics with the model")
    }
}
