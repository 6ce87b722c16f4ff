//! Filters as the catalog knows them: whether a document is in a partial index, or valid.

use std::fmt::Debug;
use std::sync::Arc;

use crate::base::{Error, ErrorCode, Result};
use crate::bson::Document;

/// A filter of documents.
pub trait Predicate: Debug + Send + Sync {
    /// Whether a document matches.
    fn matches(&self, document: Document<'_>) -> bool;
}

/// Makes a filter of its expression.
pub type PredicateParser = fn(Document<'_>) -> Result<Arc<dyn Predicate>>;

/// The parser of a database without a query language.
///
/// # Errors
/// `NotImplemented` (238), always.
pub fn refuse_predicates(_expression: Document<'_>) -> Result<Arc<dyn Predicate>> {
    Err(Error::new(ErrorCode::NOT_IMPLEMENTED, "filters of partial indexes and validators are not supported yet"))
}
