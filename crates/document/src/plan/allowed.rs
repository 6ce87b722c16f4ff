//! Index hints of query settings: the only indexes that are considered for queries of a shape, where one of them gives
//! a plan.

use std::sync::Arc;

use crate::bson::Document;
use crate::catalog::{NamedIndex, Namespace};

/// The indexes of a collection that are considered.
#[derive(Clone, Debug)]
pub struct AllowedIndexes {
    /// The collection.
    pub namespace: Namespace,
    /// The indexes; one that does not exist is never used.
    pub indexes: Vec<NamedIndex>,
    /// Whether a scan of the collection is considered.
    pub natural: bool,
}

/// Index hints for several collections.
#[derive(Debug)]
pub struct IndexHints(pub Vec<Arc<AllowedIndexes>>);

impl IndexHints {
    /// The indexes of a collection that are considered, if there are such.
    #[must_use]
    pub fn of(&self, namespace: &Namespace) -> Option<Arc<AllowedIndexes>> {
        self.0.iter().find(|allowed| allowed.namespace == *namespace).cloned()
    }
}

impl AllowedIndexes {
    /// Whether the index with a name and a key pattern is considered.
    #[must_use]
    pub fn has(&self, name: &str, pattern: Document<'_>) -> bool {
        self.indexes.iter().any(|index| index.is(name, pattern))
    }
}
