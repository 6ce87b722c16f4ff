//! Collections that a transaction has created for its documents.

use std::sync::Arc;

use crate::catalog::{Catalog, CollectionState};

/// Collections that go with the transaction that created them, unless that commits. One that others have written to
/// stays.
#[derive(Debug)]
pub(super) struct Created {
    catalog: Arc<Catalog>,
    collections: Vec<Arc<CollectionState>>,
}

impl Created {
    pub(super) const fn new(catalog: Arc<Catalog>) -> Self {
        Self { catalog, collections: Vec::new() }
    }

    pub(super) fn add(&mut self, collection: &Arc<CollectionState>) {
        self.collections.push(Arc::clone(collection));
    }

    /// The transaction has committed.
    pub(super) fn keep(mut self) {
        self.collections.clear();
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        for collection in &self.collections {
            // What cannot be dropped stays as an empty collection.
            self.catalog.drop_unused(collection).unwrap_or_default();
        }
    }
}
