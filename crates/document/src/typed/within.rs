//! A collection of a type within a transaction.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::condition::IntoDocument;
use crate::base::Result;
use crate::bson::convert::{from_document, to_document};
use crate::bson::{Value, ValueBuf};
use crate::collection::delete::DeleteStatement;
use crate::collection::prepare::prepare;
use crate::collection::update::{UpdateResult, UpdateStatement};
use crate::collection::{Collection, DocumentTransaction};
use crate::plan::Query;
use crate::query::Filter;
use crate::update::Update;

/// A collection within a transaction: reads see the transaction's writes, and nothing is seen by others before its
/// commit.
pub struct Within<'t, T> {
    pub(super) collection: &'t Collection,
    pub(super) txn: &'t mut DocumentTransaction,
    pub(super) shown: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> Within<'_, T> {
    /// Inserts a value, and returns its `_id`, which is made when it has none.
    ///
    /// # Errors
    /// As [`Collection::insert_one`].
    pub fn insert_one(&mut self, value: &T) -> Result<ValueBuf> {
        let document = to_document(value)?;
        let prepared = prepare(document.view(), || self.collection.new_id())?;
        self.txn.insert(self.collection.state(), prepared.view())?;
        Ok(ValueBuf::from(prepared.id()))
    }

    /// The value with an `_id`.
    ///
    /// # Errors
    /// As [`super::TypedCollection::find_by_id`].
    pub fn find_by_id<'v>(&self, id: impl Into<Value<'v>>) -> Result<Option<T>> {
        let found = self.txn.find_by_id(self.collection.state(), &id.into())?;
        found.map(|document| from_document(document.view())).transpose()
    }

    /// The values that match a filter.
    ///
    /// # Errors
    /// Those of the filter and the engine; `BadValue` (2) when a document is not what the type needs.
    pub fn find(&self, filter: impl IntoDocument) -> Result<Vec<T>> {
        let query = Arc::new(Query::new(self.filter(filter)?));
        let found = self.collection.search(Box::new(self.txn.engine()), &query)?;
        found.map(|document| from_document(document?.view())).collect()
    }

    /// Updates the first document that matches a filter.
    ///
    /// # Errors
    /// As [`Collection::update_one`]; `WriteConflict` (112) when another transaction has changed it.
    pub fn update_one(&mut self, filter: impl IntoDocument, change: impl IntoDocument) -> Result<UpdateResult> {
        self.update(filter, change, false)
    }

    /// Updates all documents that match a filter.
    ///
    /// # Errors
    /// As [`Self::update_one`].
    pub fn update_many(&mut self, filter: impl IntoDocument, change: impl IntoDocument) -> Result<UpdateResult> {
        self.update(filter, change, true)
    }

    fn update(&mut self, filter: impl IntoDocument, change: impl IntoDocument, multi: bool) -> Result<UpdateResult> {
        let change = change.into_document()?;
        let update = Update::parse(Value::Document(change.view()), None, &self.collection.constants())?;
        let statement = UpdateStatement::new(Query::new(self.filter(filter)?), update, multi, false)?;
        self.txn.update(self.collection, &statement)
    }

    /// Deletes the documents that match a filter; how many those were.
    ///
    /// # Errors
    /// As [`Self::update_one`].
    pub fn delete_many(&mut self, filter: impl IntoDocument) -> Result<u64> {
        let statement = DeleteStatement::new(Query::new(self.filter(filter)?), true);
        self.txn.delete_matches(self.collection, &statement)
    }

    fn filter(&self, filter: impl IntoDocument) -> Result<Filter> {
        Filter::parse(filter.into_document()?.view(), &self.collection.constants())
    }
}

impl<T> fmt::Debug for Within<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within").field("collection", &self.collection.namespace()).finish_non_exhaustive()
    }
}
