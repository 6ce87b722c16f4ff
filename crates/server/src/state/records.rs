//! Documents of one kind in a collection of `admin`, each under its name: users and roles, so that dumps move them.
//!
//! # Concurrency
//!
//! Each change is a transaction of its own and raises the generation behind it, so that connections look at what they
//! may do again. A change that is not made here, such as a restored dump, is seen by the next login.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Value, ValueBuf};
use spinney_document::{Collection, Database, Error, ErrorCode, Result};

use super::auth_schema;

/// What such a document is.
pub trait Record: Sized {
    /// The collection.
    const COLLECTION: &str;
    /// The fields that the record has; others are kept as they are.
    const FIELDS: &[&str];

    /// The record that a document is.
    ///
    /// # Errors
    /// When it makes no sense.
    fn parse(document: Document<'_>) -> Result<Self>;

    /// The document.
    fn document(&self) -> DocumentBuf;

    /// The database that it is of, which is not where it is kept.
    fn database(&self) -> &str;

    /// The error that there is none with a key.
    fn missing(key: &str) -> Error;

    /// The error that there is one already.
    fn exists(&self) -> Error;
}

/// The records of one kind.
#[derive(Debug)]
pub struct Records<T> {
    database: Database,
    /// How often records of any kind were changed; published after the change is.
    generation: Arc<AtomicU64>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Record> Records<T> {
    /// The records in a database.
    #[must_use]
    pub fn new(database: Database, generation: Arc<AtomicU64>) -> Self {
        Self { database, generation, kind: PhantomData }
    }

    fn collection(&self) -> Result<Option<Collection>> {
        self.database.collection(T::COLLECTION)
    }

    /// The record with a key, if there is one.
    ///
    /// # Errors
    /// Those of the engine and of [`Record::parse`].
    pub fn find(&self, key: &str) -> Result<Option<T>> {
        let Some(collection) = self.collection()? else { return Ok(None) };
        match collection.find_by_id(key)? {
            Some(stored) => T::parse(stored.view()).map(Some),
            None => Ok(None),
        }
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn are_none(&self) -> Result<bool> {
        match self.collection()? {
            Some(collection) => Ok(collection.documents().next().transpose()?.is_none()),
            None => Ok(true),
        }
    }

    /// All records of a database, or of all.
    ///
    /// # Errors
    /// Those of the engine and of [`Record::parse`].
    pub fn list(&self, database: Option<&str>) -> Result<Vec<T>> {
        let Some(collection) = self.collection()? else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for document in collection.documents() {
            let record = T::parse(document?.view())?;
            if database.is_none_or(|database| record.database() == database) {
                all.push(record);
            }
        }
        Ok(all)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`Record::exists`]; those of the engine.
    pub fn add(&self, record: &T) -> Result<()> {
        auth_schema::store(&self.database)?;
        let collection = self.database.collection_or_create(T::COLLECTION)?;
        let added = collection.insert_one(record.document().view());
        self.changed();
        match added {
            Err(error) if error.code() == ErrorCode::DUPLICATE_KEY => Err(record.exists()),
            added => added.map(drop),
        }
    }

    /// Changes a record; fields of the document that this server does not know stay.
    ///
    /// # Errors
    /// [`Record::missing`], those of `change` and of the engine.
    pub fn change(&self, key: &str, change: impl Fn(&mut T) -> Result<()>) -> Result<()> {
        let collection = self.collection()?.ok_or_else(|| T::missing(key))?;
        let changed = collection.transact(spinney_document::collection::WriteOptions::default(), |txn| {
            let stored = txn.find_by_id(collection.state(), &key.into())?.ok_or_else(|| T::missing(key))?;
            let mut record = T::parse(stored.view())?;
            change(&mut record)?;
            let new = with_unknown_fields(record.document().view(), stored.view(), T::FIELDS);
            txn.replace(collection.state(), stored.view(), new.view()).map(drop)
        });
        self.changed();
        changed
    }

    /// Removes a record.
    ///
    /// # Errors
    /// [`Record::missing`]; those of the engine.
    pub fn remove(&self, key: &str) -> Result<()> {
        let removed = match self.collection()? {
            Some(collection) => collection.delete_by_id(key)?,
            None => false,
        };
        self.changed();
        if removed { Ok(()) } else { Err(T::missing(key)) }
    }

    /// Takes in the records of another collection, of a database or of all, in one transaction: those that are there
    /// are replaced. With `drop` all others go.
    ///
    /// # Errors
    /// Those of the engine and of [`Record::parse`].
    pub fn merge(&self, from: &Collection, database: Option<&str>, drop: bool) -> Result<()> {
        let is_meant = |record: &T| database.is_none_or(|database| record.database() == database);
        let mut new = Vec::new();
        for document in from.documents() {
            let document = document?;
            let record = T::parse(document.view())?;
            if is_meant(&record) {
                new.push(with_unknown_fields(record.document().view(), document.view(), T::FIELDS));
            }
        }
        auth_schema::store(&self.database)?;
        let collection = self.database.collection_or_create(T::COLLECTION)?;
        let id = |document: Document<'_>| {
            document.get("_id").map(ValueBuf::from).map(|id| (id.kind().number(), id.payload().to_vec()))
        };
        let ids: HashSet<_> = new.iter().map(|record| id(record.view())).collect();
        let merged = collection.transact(spinney_document::collection::WriteOptions::default(), |txn| {
            for old in collection.documents().filter(|_| drop) {
                let old = old?;
                let stays = ids.contains(&id(old.view()));
                if !stays && is_meant(&T::parse(old.view())?) {
                    txn.delete(collection.state(), old.view())?;
                }
            }
            for record in &new {
                let id = record.view().get("_id").unwrap_or(Value::Null);
                match txn.find_by_id(collection.state(), &id)? {
                    Some(old) => txn.replace(collection.state(), old.view(), record.view()).map(std::mem::drop)?,
                    None => txn.insert(collection.state(), record.view())?,
                }
            }
            Ok(())
        });
        self.changed();
        merged
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }
}

/// The fields of `new`, and those of `old` that are not among the known ones.
fn with_unknown_fields(new: Document<'_>, old: Document<'_>, known: &[&str]) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append_all(new);
    for element in old.elements().filter(|element| !known.iter().any(|name| element.name == *name)) {
        builder.append_element(&element);
    }
    builder.finish()
}
