//! Updates of one or many documents, with upserts.

use std::sync::Arc;

use super::handle::{Collection, WriteOptions};
use super::parts::Tally;
use super::prepare::{Prepared, prepare};
use super::transaction::DocumentTransaction;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Checks, DOCUMENT_BYTES_MAX, Document, DocumentBuf, Value, ValueBuf};
use crate::exec::Match;
use crate::path::Sort;
use crate::plan::{Hint, Query};
use crate::query::Filter;
use crate::update::Update;

/// How an update is done.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// Whether a document is inserted when none matches.
    pub upsert: bool,
    /// The conditions that `$[name]` in paths stand for: an array of documents.
    pub array_filters: Option<ValueBuf>,
    /// Variables that the filter and the update may use as `$$name`.
    pub variables: Option<DocumentBuf>,
    /// How strings are compared, a document such as `{locale: "en", strength: 2}`. Default: as the collection says.
    pub collation: Option<DocumentBuf>,
    /// The index that must be used.
    pub hint: Option<Hint>,
    /// Which document is updated when several match: the first in this order.
    pub sort: Option<DocumentBuf>,
    /// How it is committed.
    pub write: WriteOptions,
}

/// An update, compiled.
#[derive(Debug)]
pub struct UpdateStatement {
    /// Which documents.
    pub query: Arc<Query>,
    /// What becomes of them.
    pub update: Update,
    /// Whether all of them are updated, or the first one.
    pub multi: bool,
    /// Whether a document is inserted when none matches.
    pub upsert: bool,
}

/// What an update did.
#[derive(Clone, Debug, Default)]
pub struct UpdateResult {
    /// The documents that matched.
    pub matched: u64,
    /// Those of them that are different now, or were replaced.
    pub modified: u64,
    /// The `_id` of the document that was inserted.
    pub upserted: Option<ValueBuf>,
}

/// What became of one document.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) new: DocumentBuf,
    pub(super) modified: bool,
}

impl Collection {
    /// Updates the first document that matches a filter.
    ///
    /// # Errors
    /// Those of the filter and the update, of the constraints as [`DocumentTransaction::insert`] tells them, and of
    /// the commit.
    pub fn update_one<'v>(&self, filter: Document<'_>, update: impl Into<Value<'v>>) -> Result<UpdateResult> {
        self.update_one_with(filter, update, &UpdateOptions::default())
    }

    /// As [`Self::update_one`], with options.
    ///
    /// # Errors
    /// As [`Self::update_one`].
    pub fn update_one_with<'v>(
        &self,
        filter: Document<'_>,
        update: impl Into<Value<'v>>,
        options: &UpdateOptions,
    ) -> Result<UpdateResult> {
        let statement = self.compile_update(filter, update.into(), false, options)?;
        self.run_update(&statement, options.write)
    }

    /// Updates all documents that match a filter, in transactions of up to a thousand. A document that is updated
    /// meanwhile by others is matched again. After an error the documents before it stay updated.
    ///
    /// # Errors
    /// As [`Self::update_one`]; `FailedToParse` (9) for a replacement.
    pub fn update_many<'v>(&self, filter: Document<'_>, update: impl Into<Value<'v>>) -> Result<UpdateResult> {
        self.update_many_with(filter, update, &UpdateOptions::default())
    }

    /// As [`Self::update_many`], with options.
    ///
    /// # Errors
    /// As [`Self::update_many`].
    pub fn update_many_with<'v>(
        &self,
        filter: Document<'_>,
        update: impl Into<Value<'v>>,
        options: &UpdateOptions,
    ) -> Result<UpdateResult> {
        let statement = self.compile_update(filter, update.into(), true, options)?;
        self.run_update(&statement, options.write)
    }

    /// Puts a document in the place of the first that matches a filter. It keeps the `_id`.
    ///
    /// # Errors
    /// As [`Self::update_one`]; `FailedToParse` (9) when `new` begins with an operator.
    pub fn replace_one(
        &self,
        filter: Document<'_>,
        new: Document<'_>,
        options: &UpdateOptions,
    ) -> Result<UpdateResult> {
        let statement = self.compile_update(filter, new.into(), false, options)?;
        if !statement.update.is_replacement() {
            let what = "a replacement document must not contain update operators";
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
        self.run_update(&statement, options.write)
    }

    fn compile_update(
        &self,
        filter: Document<'_>,
        update: Value<'_>,
        multi: bool,
        options: &UpdateOptions,
    ) -> Result<UpdateStatement> {
        let mut context = self.constants_with(options.collation.as_ref())?;
        if let Some(variables) = &options.variables {
            context = context.with_variables(variables.view());
        }
        let mut query = Query::new(Filter::parse(filter, &context)?);
        query.collation.clone_from(&context.collation);
        query.hint.clone_from(&options.hint);
        query.sort =
            options.sort.as_ref().map(|sort| Sort::parse(sort.view(), context.collation.as_ref())).transpose()?;
        let array_filters = options.array_filters.as_ref().and_then(|filters| filters.view().as_array());
        let update = Update::parse(update, array_filters, &context)?;
        UpdateStatement::new(query, update, multi, options.upsert)
    }

    /// Runs an update: one document in a transaction, or many in several.
    ///
    /// # Errors
    /// As [`Self::update_one`].
    pub fn run_update(&self, statement: &UpdateStatement, options: WriteOptions) -> Result<UpdateResult> {
        if !statement.multi {
            return self.transact_one(options, |txn| txn.update(self, statement));
        }
        let tally = self.for_each_match(&statement.query, options, |txn, matched| {
            let changed = txn.update_match(self, &statement.update, matched)?;
            Ok(Tally { matched: 1, changed: u64::from(changed.modified) })
        })?;
        if tally.matched == 0 && statement.upsert {
            return self.transact_one(options, |txn| txn.update(self, statement));
        }
        Ok(UpdateResult { matched: tally.matched, modified: tally.changed, upserted: None })
    }
}

impl UpdateStatement {
    /// An update of the documents that a query finds.
    ///
    /// # Errors
    /// `FailedToParse` (9) when many documents would be replaced, or sorted for nothing.
    pub fn new(mut query: Query, update: Update, multi: bool, upsert: bool) -> Result<Self> {
        if multi && update.is_replacement() {
            let what = "multi update is not supported for replacement-style update";
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
        if multi && query.sort.is_some() {
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, "Cannot specify sort with multi=true"));
        }
        query.limit = (!multi).then_some(1);
        Ok(Self { query: Arc::new(query), update, multi, upsert })
    }
}

impl DocumentTransaction {
    /// Runs an update within this transaction.
    ///
    /// # Errors
    /// Those of the filter and the update, of the constraints as [`Self::insert`] tells them; `WriteConflict` (112)
    /// when another transaction has changed a document that this one updates. What the statement did before an error
    /// is part of the transaction.
    pub fn update(&mut self, collection: &Collection, statement: &UpdateStatement) -> Result<UpdateResult> {
        let mut result = UpdateResult::default();
        let mut matches = self.matches(collection, &statement.query)?;
        while let Some(matched) = matches.next(self, collection)? {
            result.matched += 1;
            let changed = self.update_match(collection, &statement.update, &matched)?;
            // MongoDB does not look whether a replacement is the same.
            result.modified += u64::from(changed.modified || statement.update.is_replacement());
        }
        if result.matched == 0 && statement.upsert {
            let new = self.upsert(collection, &statement.query.filter, &statement.update)?;
            result.upserted = new.view().get("_id").map(ValueBuf::from);
        }
        Ok(result)
    }

    pub(super) fn update_match(
        &mut self,
        collection: &Collection,
        update: &Update,
        matched: &Match,
    ) -> Result<Changed> {
        let old = matched.document.view();
        let updated = update.apply(old, matched.position)?;
        if !updated.is_modified() {
            return Ok(Changed { new: updated.document, modified: false });
        }
        let new = checked(updated.document.view(), collection, update)?;
        let modified = self.put_over(collection.state(), old, new.view(), Some(&updated), !update.is_replacement())?;
        let new = match new {
            Prepared::Changed(new) => new,
            Prepared::Same(_) => updated.document,
        };
        Ok(Changed { new, modified })
    }

    /// Inserts the document of an upsert, and returns it.
    pub(super) fn upsert(&mut self, collection: &Collection, filter: &Filter, update: &Update) -> Result<DocumentBuf> {
        let document = update.insert(filter, collection.new_id())?;
        let prepared = checked(document.view(), collection, update)?;
        self.insert(collection.state(), prepared.view())?;
        Ok(prepared.view().into())
    }
}

/// A document that an update has made, ready to be stored.
fn checked<'d>(document: Document<'d>, collection: &Collection, update: &Update) -> Result<Prepared<'d>> {
    let len = document.as_bytes().len();
    if len > DOCUMENT_BYTES_MAX {
        let what = format!("Resulting document after update is larger than {DOCUMENT_BYTES_MAX}");
        return Err(Error::new(ErrorCode::new(17419), what));
    }
    // An update nests documents deeper than each of its parts is.
    let document = Document::parse_with(document.as_bytes(), Checks { utf8: false, ..Checks::default() })?;
    if update.is_replacement() { collection.prepare(document) } else { prepare(document, || collection.new_id()) }
}
