//! What a find asks for, compiled.

use std::sync::Arc;

use super::allowed::AllowedIndexes;
use crate::aggregate::Memory;
use crate::bson::DocumentBuf;
use crate::collation::Collated;
use crate::path::Sort;
use crate::projection::Projection;
use crate::query::Filter;

/// A query over one collection.
#[derive(Clone, Debug)]
pub struct Query {
    /// Which documents.
    pub filter: Filter,
    /// How strings are compared, as the parts of the query were compiled.
    pub collation: Collated,
    /// In which order; any when there is none.
    pub sort: Option<Sort>,
    /// How many of the first ones are left out.
    pub skip: u64,
    /// How many follow at most.
    pub limit: Option<u64>,
    /// What is shown of each: a part of the answer, which every way to take the documents applies.
    pub projection: Option<Projection>,
    /// The fields that the caller reads, where these are not all, and where no projection says more. A hint: documents
    /// may have more fields, and an index that has these needs no documents.
    pub needed: Option<Projection>,
    /// The index that must be used.
    pub hint: Option<Hint>,
    /// The only indexes that are considered, where one of them gives a plan; stronger than the hint. With `min` or
    /// `max` there are no such.
    pub allowed: Option<Arc<AllowedIndexes>>,
    /// The least key of the hinted index, included.
    pub min: Option<DocumentBuf>,
    /// The greatest key of the hinted index, excluded.
    pub max: Option<DocumentBuf>,
    /// Whether the fields of the index are shown instead of the document.
    pub return_key: bool,
    /// Whether only the number of documents is asked for.
    pub counts: bool,
    /// Whether documents are read also where the keys of an index have all that is asked for.
    pub fetches: bool,
    /// The memory for a sort, and for what a search has met. Without it 100 MiB, beyond which the query fails with code
    /// 292.
    pub memory: Option<Arc<Memory>>,
}

/// The index that a query must use.
#[derive(Clone, Debug, PartialEq)]
pub enum Hint {
    /// The index with a name.
    Name(String),
    /// The index with a key pattern.
    Pattern(DocumentBuf),
    /// No index: the documents in the order of `_id`, or, with `true`, in the reverse order.
    Natural {
        /// Whether the last comes first.
        reverse: bool,
    },
}

impl Query {
    /// All documents that match a filter.
    #[must_use]
    pub const fn new(filter: Filter) -> Self {
        Self {
            filter,
            collation: None,
            sort: None,
            skip: 0,
            limit: None,
            projection: None,
            needed: None,
            hint: None,
            allowed: None,
            min: None,
            max: None,
            return_key: false,
            counts: false,
            fetches: false,
            memory: None,
        }
    }

    /// The same query, which goes on in a table of a database when it needs more than the usual memory.
    #[must_use]
    pub fn with_spill(mut self, engine: &spinney::Database) -> Self {
        self.memory = Some(Arc::new(Memory::default().with_spill(engine.clone())));
        self
    }

    /// The fields that documents have at least, by the projection or by what the caller reads.
    #[must_use]
    pub fn kept(&self) -> Option<&Projection> {
        self.projection.as_ref().or(self.needed.as_ref())
    }

    /// The memory for a sort, and for what a search has met.
    #[must_use]
    pub fn memory(&self) -> Arc<Memory> {
        self.memory.clone().unwrap_or_default()
    }
}
