//! Statements that change one document and return it, as it was or as it is.

use std::sync::Arc;

use super::handle::{Collection, WriteOptions};
use super::transaction::DocumentTransaction;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, Value, ValueBuf};
use crate::path::Sort;
use crate::plan::{Hint, Query};
use crate::projection::{Projection, Use};
use crate::query::Filter;
use crate::update::Update;

/// How a document is found, changed and returned.
#[derive(Clone, Debug, Default)]
pub struct FindOneOptions {
    /// Which document is taken when several match: the first in this order.
    pub sort: Option<DocumentBuf>,
    /// What is shown of it.
    pub projection: Option<DocumentBuf>,
    /// Whether a document is inserted when none matches.
    pub upsert: bool,
    /// Whether the document is returned as it is after the change.
    pub return_new: bool,
    /// The conditions that `$[name]` in paths stand for: an array of documents.
    pub array_filters: Option<ValueBuf>,
    /// Variables that the filter and the update may use as `$$name`.
    pub variables: Option<DocumentBuf>,
    /// How strings are compared, a document such as `{locale: "en", strength: 2}`. Default: as the collection says.
    pub collation: Option<DocumentBuf>,
    /// The index that must be used.
    pub hint: Option<Hint>,
    /// How it is committed.
    pub write: WriteOptions,
}

/// A statement that changes one document and returns it, compiled.
#[derive(Debug)]
pub struct FindAndModify {
    /// Which document. It has no projection, so that the whole document is found.
    pub query: Arc<Query>,
    /// What is shown of it.
    projection: Option<Projection>,
    /// What becomes of it.
    pub action: Action,
}

/// What becomes of the document that was found.
#[derive(Debug)]
pub enum Action {
    /// It is deleted.
    Remove,
    /// It is updated.
    Update {
        /// How.
        update: Update,
        /// Whether a document is inserted when none matches.
        upsert: bool,
        /// Whether the document is returned as it is after the change.
        return_new: bool,
    },
}

/// What a [`FindAndModify`] did.
#[derive(Clone, Debug, Default)]
pub struct FoundAndModified {
    /// The document, before or after the change; nothing when none matched, or when it was inserted and the document
    /// before was asked for.
    pub value: Option<DocumentBuf>,
    /// Whether a document matched.
    pub matched: bool,
    /// The `_id` of the document that was inserted.
    pub upserted: Option<ValueBuf>,
}

impl Collection {
    /// Updates the first document that matches a filter, and returns it as it was, or, with `return_new`, as it is.
    ///
    /// # Errors
    /// As [`Collection::update_one`], and those of the projection.
    pub fn find_one_and_update<'v>(
        &self,
        filter: Document<'_>,
        update: impl Into<Value<'v>>,
        options: &FindOneOptions,
    ) -> Result<Option<DocumentBuf>> {
        let statement = self.compile_find(filter, Some(update.into()), options)?;
        Ok(self.run_find_and_modify(&statement, options.write)?.value)
    }

    /// Puts a document in the place of the first that matches a filter, and returns one of the two.
    ///
    /// # Errors
    /// As [`Collection::replace_one`], and those of the projection.
    pub fn find_one_and_replace(
        &self,
        filter: Document<'_>,
        new: Document<'_>,
        options: &FindOneOptions,
    ) -> Result<Option<DocumentBuf>> {
        let statement = self.compile_find(filter, Some(new.into()), options)?;
        if matches!(&statement.action, Action::Update { update, .. } if !update.is_replacement()) {
            let what = "a replacement document must not contain update operators";
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
        Ok(self.run_find_and_modify(&statement, options.write)?.value)
    }

    /// Deletes the first document that matches a filter, and returns it.
    ///
    /// # Errors
    /// As [`Collection::delete_one`], and those of the projection.
    pub fn find_one_and_delete(&self, filter: Document<'_>, options: &FindOneOptions) -> Result<Option<DocumentBuf>> {
        let statement = self.compile_find(filter, None, options)?;
        Ok(self.run_find_and_modify(&statement, options.write)?.value)
    }

    fn compile_find(
        &self,
        filter: Document<'_>,
        update: Option<Value<'_>>,
        options: &FindOneOptions,
    ) -> Result<FindAndModify> {
        let mut context = self.constants_with(options.collation.as_ref())?;
        if let Some(variables) = &options.variables {
            context = context.with_variables(variables.view());
        }
        let mut query = Query::new(Filter::parse(filter, &context)?);
        query.collation.clone_from(&context.collation);
        query.hint.clone_from(&options.hint);
        query.sort =
            options.sort.as_ref().map(|sort| Sort::parse(sort.view(), context.collation.as_ref())).transpose()?;
        let parse = |projection: &DocumentBuf| Projection::parse(projection.view(), Use::Find, &context);
        query.projection = options.projection.as_ref().map(parse).transpose()?;
        let action = match update {
            None => Action::Remove,
            Some(update) => {
                let array_filters = options.array_filters.as_ref().and_then(|filters| filters.view().as_array());
                let update = Update::parse(update, array_filters, &context)?;
                Action::Update { update, upsert: options.upsert, return_new: options.return_new }
            }
        };
        Ok(FindAndModify::new(query, action))
    }

    /// Runs a statement that changes one document and returns it.
    ///
    /// # Errors
    /// As [`Collection::update_one`], and those of the projection.
    pub fn run_find_and_modify(&self, statement: &FindAndModify, options: WriteOptions) -> Result<FoundAndModified> {
        self.transact_one(options, |txn| txn.find_and_modify(self, statement))
    }
}

impl FindAndModify {
    /// A statement for the first document that a query finds, of which its projection is shown.
    #[must_use]
    pub fn new(mut query: Query, action: Action) -> Self {
        query.limit = Some(1);
        let projection = query.projection.take();
        Self { query: Arc::new(query), projection, action }
    }

    fn shown(&self, document: Document<'_>, position: Option<usize>) -> Result<DocumentBuf> {
        match &self.projection {
            Some(projection) => projection.apply(document, position),
            None => Ok(document.into()),
        }
    }
}

impl DocumentTransaction {
    /// Runs a statement that changes one document and returns it, within this transaction.
    ///
    /// # Errors
    /// As [`DocumentTransaction::update`], and those of the projection.
    pub fn find_and_modify(&mut self, collection: &Collection, statement: &FindAndModify) -> Result<FoundAndModified> {
        let mut found = FoundAndModified::default();
        let Some(matched) = self.matches(collection, &statement.query)?.next(self, collection)? else {
            if let Action::Update { update, upsert: true, return_new } = &statement.action {
                let new = self.upsert(collection, &statement.query.filter, update)?;
                found.upserted = new.view().get("_id").map(ValueBuf::from);
                if *return_new {
                    found.value = Some(statement.shown(new.view(), None)?);
                }
            }
            return Ok(found);
        };
        found.matched = true;
        let old = matched.document.view();
        match &statement.action {
            Action::Remove => {
                found.value = Some(statement.shown(old, matched.position)?);
                self.delete(collection.state(), old)?;
            }
            Action::Update { update, return_new, .. } => {
                let changed = self.update_match(collection, update, &matched)?;
                let shown = if *return_new { changed.new.view() } else { old };
                found.value = Some(statement.shown(shown, matched.position)?);
            }
        }
        Ok(found)
    }
}
