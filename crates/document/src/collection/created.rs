//! Collections that a transaction has created.

use std::sync::Arc;

use crate::base::{Result, interrupt};
use crate::bson::DocumentBuf;
use crate::catalog::{Catalog, CollectionState, Namespace};

/// Collections that the transaction that created them alone sees, and that go with it, unless that commits.
#[derive(Debug)]
pub(super) struct Created {
    catalog: Arc<Catalog>,
    collections: Vec<Arc<CollectionState>>,
    /// What readers of the log are told.
    events: Vec<DocumentBuf>,
}

impl Created {
    pub(super) const fn new(catalog: Arc<Catalog>) -> Self {
        Self { catalog, collections: Vec::new(), events: Vec::new() }
    }

    /// The collection with a name.
    pub(super) fn find(&self, namespace: &Namespace) -> Option<&Arc<CollectionState>> {
        self.collections.iter().find(|state| state.schema().namespace == *namespace)
    }

    /// Whether a collection is one of them.
    pub(super) fn has(&self, collection: &CollectionState) -> bool {
        self.collections.iter().any(|state| state.number == collection.number)
    }

    /// Adds a collection, or puts it in the place of what it was before, and what is told of that.
    pub(super) fn put(&mut self, collection: &Arc<CollectionState>, event: DocumentBuf) {
        self.collections.retain(|state| state.number != collection.number);
        self.collections.push(Arc::clone(collection));
        self.events.push(event);
    }

    pub(super) fn take_events(&mut self) -> Vec<DocumentBuf> {
        std::mem::take(&mut self.events)
    }

    /// Commits the transaction by `commit`, which waits until its fate is known: then all sessions see the collections.
    /// With an error they go.
    pub(super) fn commit(mut self, commit: impl FnOnce() -> Result<()>) -> Result<()> {
        let catalog = Arc::clone(&self.catalog);
        let arrivals = catalog.arrivals()?;
        let committed = commit();
        if committed.is_ok() {
            catalog.arrive(&self.collections, &arrivals);
            self.collections.clear();
        }
        drop(arrivals);
        committed
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        // Tables that cannot be dropped are dropped at the next open.
        interrupt::shielded(|| self.catalog.drop_uncommitted(&self.collections)).unwrap_or_default();
    }
}
