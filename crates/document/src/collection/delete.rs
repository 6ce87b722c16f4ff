//! Deletes of one or many documents.

use std::sync::Arc;

use super::handle::{Collection, WriteOptions};
use super::parts::Tally;
use super::transaction::DocumentTransaction;
use crate::base::Result;
use crate::bson::Document;
use crate::plan::Query;
use crate::query::Filter;

/// A delete, compiled.
#[derive(Debug)]
pub struct DeleteStatement {
    /// Which documents.
    pub query: Arc<Query>,
    /// Whether all of them are deleted, or the first one.
    pub multi: bool,
}

impl Collection {
    /// Deletes the first document that matches a filter; how many were deleted.
    ///
    /// # Errors
    /// Those of the filter and of the commit.
    pub fn delete_one(&self, filter: Document<'_>) -> Result<u64> {
        let query = Query::new(Filter::parse(filter, &self.constants())?);
        self.run_delete(&DeleteStatement::new(query, false), WriteOptions::default())
    }

    /// Deletes all documents that match a filter, in transactions of up to a thousand; how many were deleted.
    ///
    /// # Errors
    /// As [`Self::delete_one`]; what was deleted before stays deleted.
    pub fn delete_many(&self, filter: Document<'_>) -> Result<u64> {
        let query = Query::new(Filter::parse(filter, &self.constants())?);
        self.run_delete(&DeleteStatement::new(query, true), WriteOptions::default())
    }

    /// Runs a delete: one document in a transaction, or many in several.
    ///
    /// # Errors
    /// As [`Self::delete_one`].
    pub fn run_delete(&self, statement: &DeleteStatement, options: WriteOptions) -> Result<u64> {
        if !statement.multi {
            return self.transact(options, |txn| txn.delete_matches(self, statement));
        }
        let tally = self.for_each_match(&statement.query, options, |txn, matched| {
            txn.delete(self.state(), matched.document.view())?;
            Ok(Tally { matched: 1, changed: 1 })
        })?;
        Ok(tally.changed)
    }
}

impl DeleteStatement {
    /// A delete of the documents that a query finds.
    #[must_use]
    pub fn new(mut query: Query, multi: bool) -> Self {
        query.limit = (!multi).then_some(1);
        Self { query: Arc::new(query), multi }
    }
}

impl DocumentTransaction {
    /// Runs a delete within this transaction; how many documents were deleted.
    ///
    /// # Errors
    /// Those of the filter; `WriteConflict` (112) when another transaction has changed a document that this one
    /// deletes.
    pub fn delete_matches(&mut self, collection: &Collection, statement: &DeleteStatement) -> Result<u64> {
        let mut deleted = 0;
        let mut matches = self.matches(collection, &statement.query)?;
        while let Some(matched) = matches.next(self, collection)? {
            self.delete(collection.state(), matched.document.view())?;
            deleted += 1;
        }
        Ok(deleted)
    }
}
