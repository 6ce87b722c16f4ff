//! Queries whose documents are values of a type.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use super::condition::IntoDocument;
use crate::base::Result;
use crate::bson::convert::from_document;
use crate::bson::{Document, DocumentBuf};
use crate::collection::Collection;
use crate::exec::Execution;
use crate::path::Sort;
use crate::plan::{Hint, Query};
use crate::projection::{Projection, Use};
use crate::query::Filter;

/// A query that is being put together. It runs when it is iterated over, or by [`Self::run`], [`Self::first`] and
/// [`Self::count`].
#[must_use = "a query does nothing until it is run"]
pub struct Find<'c, T> {
    collection: &'c Collection,
    filter: Result<DocumentBuf>,
    sort: Option<DocumentBuf>,
    projection: Option<DocumentBuf>,
    skip: u64,
    limit: Option<u64>,
    hint: Option<Hint>,
    collation: Option<DocumentBuf>,
    shown: PhantomData<fn() -> T>,
}

/// The documents of a query that runs.
pub struct Documents<T> {
    execution: Execution<'static>,
    shown: PhantomData<fn() -> T>,
}

impl<'c, T: DeserializeOwned> Find<'c, T> {
    pub(super) fn new(collection: &'c Collection, filter: impl IntoDocument) -> Self {
        Self {
            collection,
            filter: filter.into_document(),
            sort: None,
            projection: None,
            skip: 0,
            limit: None,
            hint: None,
            collation: None,
            shown: PhantomData,
        }
    }

    /// In the order of a pattern such as `doc! {"age": -1, "name": 1}`.
    pub fn sort(self, pattern: DocumentBuf) -> Self {
        Self { sort: Some(pattern), ..self }
    }

    /// Without the first so many documents.
    pub fn skip(self, count: u64) -> Self {
        Self { skip: count, ..self }
    }

    /// At most so many documents.
    pub fn limit(self, count: u64) -> Self {
        Self { limit: Some(count), ..self }
    }

    /// With strings compared by a collation such as `doc! {"locale": "en", "strength": 2}`, instead of that of the
    /// collection.
    pub fn collation(self, collation: DocumentBuf) -> Self {
        Self { collation: Some(collation), ..self }
    }

    /// By the index with a name.
    pub fn hint(self, index: impl Into<String>) -> Self {
        Self { hint: Some(Hint::Name(index.into())), ..self }
    }

    /// Shows of each document what a projection such as `doc! {"name": 1}` says, as values of another type. An index
    /// that has all these fields and those of the filter answers without reading documents.
    pub fn project<U: DeserializeOwned>(self, projection: DocumentBuf) -> Find<'c, U> {
        Find {
            collection: self.collection,
            filter: self.filter,
            sort: self.sort,
            projection: Some(projection),
            skip: self.skip,
            limit: self.limit,
            hint: self.hint,
            collation: self.collation,
            shown: PhantomData,
        }
    }

    fn query(self) -> Result<Query> {
        let context = &self.collection.constants_with(self.collation.as_ref())?;
        let mut query = Query::new(Filter::parse(self.filter?.view(), context)?);
        query.sort = self
            .sort
            .filter(|sort| !is_empty(sort))
            .map(|sort| Sort::parse(sort.view(), context.collation.as_ref()))
            .transpose()?;
        let projection = self.projection.map(|spec| Projection::parse(spec.view(), Use::Find, context));
        query.projection = projection.transpose()?;
        query.collation.clone_from(&context.collation);
        (query.skip, query.limit, query.hint) = (self.skip, self.limit, self.hint);
        Ok(query)
    }

    /// Runs the query on the documents as they are now.
    ///
    /// # Errors
    /// Those of the filter, the sort pattern, the projection and the hint; those of the engine.
    pub fn run(self) -> Result<Documents<T>> {
        let collection = self.collection;
        let query = self.query()?;
        Ok(Documents { execution: collection.find(query)?, shown: PhantomData })
    }

    /// The first document.
    ///
    /// # Errors
    /// As [`Self::run`], and `BadValue` (2) when the document is not what the type needs.
    pub fn first(self) -> Result<Option<T>> {
        self.limit(1).run()?.next().transpose()
    }

    /// How many documents there are.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn count(self) -> Result<u64> {
        let collection = self.collection;
        let mut query = self.query()?;
        (query.counts, query.projection, query.sort) = (true, None, None);
        collection.find(query)?.count()
    }
}

fn is_empty(document: &DocumentBuf) -> bool {
    document.view() == Document::empty()
}

impl<T: DeserializeOwned> Iterator for Documents<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.execution.next()?.and_then(|document| from_document(document.view())))
    }
}

impl<T> fmt::Debug for Find<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Find").field("filter", &self.filter).field("sort", &self.sort).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Documents<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Documents").field("plan", self.execution.plan()).finish_non_exhaustive()
    }
}
