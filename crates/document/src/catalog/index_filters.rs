//! Index filters: the only indexes that queries of a shape may use. They are kept in memory, and go with the collection
//! and with the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use crate::bson::{Document, DocumentBuf, Value, equal};

/// The index filters of a collection.
#[derive(Debug, Default)]
pub struct IndexFilters {
    /// Whether there are any, so that queries of other collections need not know their shape.
    some: AtomicBool,
    filters: RwLock<Vec<Arc<IndexFilter>>>,
}

/// The indexes that queries of a shape may use.
#[derive(Clone, Debug)]
pub struct IndexFilter {
    /// The shape.
    pub shape: String,
    /// The fields of the command that set the filter, as they are listed.
    pub listed: DocumentBuf,
    /// The indexes; one that does not exist is never used.
    pub indexes: Vec<NamedIndex>,
}

/// How an index is named.
#[derive(Clone, Debug)]
pub enum NamedIndex {
    /// By its name.
    Name(String),
    /// By its key pattern.
    Pattern(DocumentBuf),
}

impl IndexFilter {
    /// Whether the index with a name and a key pattern may be used.
    #[must_use]
    pub fn allows(&self, name: &str, pattern: Document<'_>) -> bool {
        self.indexes.iter().any(|index| index.is(name, pattern))
    }
}

impl NamedIndex {
    /// Whether it names the index with a name and a key pattern.
    #[must_use]
    pub fn is(&self, name: &str, pattern: Document<'_>) -> bool {
        match self {
            Self::Name(allowed) => allowed == name,
            Self::Pattern(allowed) => equal(&Value::Document(allowed.view()), &Value::Document(pattern)),
        }
    }
}

impl IndexFilters {
    /// The filter of the queries of a shape, which is only asked for when there are filters.
    pub fn of(&self, shape: impl FnOnce() -> String) -> Option<Arc<IndexFilter>> {
        // A query that begins while a filter is set may run without it.
        if !self.some.load(Ordering::Relaxed) {
            return None;
        }
        let shape = shape();
        self.filters.read().iter().find(|filter| filter.shape == shape).cloned()
    }

    /// Sets the filter of a shape, in the place of the one that it had.
    pub fn set(&self, filter: IndexFilter) {
        let mut filters = self.filters.write();
        filters.retain(|other| other.shape != filter.shape);
        filters.push(Arc::new(filter));
        self.some.store(true, Ordering::Relaxed);
    }

    /// Removes the filter of a shape, or all of them.
    pub fn clear(&self, shape: Option<&str>) {
        let mut filters = self.filters.write();
        filters.retain(|filter| shape.is_some_and(|shape| filter.shape != shape));
        self.some.store(!filters.is_empty(), Ordering::Relaxed);
    }

    /// All filters in the order in which they were set.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<IndexFilter>> {
        self.filters.read().clone()
    }
}
