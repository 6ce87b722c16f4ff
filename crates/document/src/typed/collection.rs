//! A collection of a type.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::condition::IntoDocument;
use super::find::Find;
use super::within::Within;
use crate::base::Result;
use crate::bson::convert::{from_document, from_value, to_document};
use crate::bson::{DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::collection::find_and_modify::FindOneOptions;
use crate::collection::update::{UpdateOptions, UpdateResult};
use crate::collection::{Collection, DocumentTransaction, InsertMany, WriteOptions};
use crate::database::Database;

/// A collection whose documents are values of a type. Cheap to clone.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use spinney_document::typed::{field, update};
/// use spinney_document::{Database, doc};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct Person {
///     #[serde(rename = "_id")]
///     id: u32,
///     name: String,
///     age: u8,
/// }
///
/// # let dir = tempfile::tempdir()?;
/// let db = Database::open(dir.path().join("db"), spinney::Options::default())?;
/// let people = db.typed::<Person>("app.people")?;
/// people.insert_one(&Person { id: 1, name: "Ada".into(), age: 36 })?;
/// let others = [Person { id: 2, name: "Alan".into(), age: 41 }, Person { id: 3, name: "Grace".into(), age: 85 }];
/// people.insert_many(&others)?;
/// people.update_one(field("name").eq("Ada"), update().inc("age", 1))?;
/// let names = people.find(field("age").lt(50)).sort(doc! {"age": -1}).run()?;
/// let names = names.map(|person| Ok(person?.name)).collect::<spinney_document::Result<Vec<_>>>()?;
/// assert_eq!(names, ["Alan", "Ada"]);
/// assert_eq!(people.find_by_id(1)?.unwrap().age, 37);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedCollection<T> {
    collection: Collection,
    database: Database,
    shown: PhantomData<fn(T) -> T>,
}

impl Database {
    /// The collection with a name such as `app.people`, of values of a type; created when there is none.
    ///
    /// # Errors
    /// As [`Database::collection_or_create`].
    pub fn typed<T: Serialize + DeserializeOwned>(&self, namespace: &str) -> Result<TypedCollection<T>> {
        let collection = self.collection_or_create(namespace)?;
        Ok(TypedCollection { collection, database: self.clone(), shown: PhantomData })
    }
}

impl<T: Serialize + DeserializeOwned> TypedCollection<T> {
    /// The collection as documents.
    #[must_use]
    pub const fn documents(&self) -> &Collection {
        &self.collection
    }

    /// Inserts a value, and returns its `_id`, which is made when it has none.
    ///
    /// # Errors
    /// `BadValue` (2) for what is no document; as [`Collection::insert_one`].
    pub fn insert_one(&self, value: &T) -> Result<ValueBuf> {
        self.collection.insert_one(to_document(value)?.view())
    }

    /// Inserts values, in transactions of up to a thousand; how many, and which could not be inserted.
    ///
    /// # Errors
    /// As [`Collection::insert_many`].
    pub fn insert_many<'v>(&self, values: impl IntoIterator<Item = &'v T>) -> Result<InsertMany>
    where
        T: 'v,
    {
        let documents = values.into_iter().map(to_document).collect::<Result<Vec<_>>>()?;
        self.collection.insert_many(documents.iter().map(DocumentBuf::view), true, WriteOptions::default())
    }

    /// The value with an `_id`.
    ///
    /// # Errors
    /// Those of the engine; `BadValue` (2) when the document is not what the type needs.
    pub fn find_by_id<'v>(&self, id: impl Into<Value<'v>>) -> Result<Option<T>> {
        self.collection.find_by_id(id)?.map(|document| from_document(document.view())).transpose()
    }

    /// A query for the values that match a filter.
    pub fn find(&self, filter: impl IntoDocument) -> Find<'_, T> {
        Find::new(&self.collection, filter)
    }

    /// The first value that matches a filter.
    ///
    /// # Errors
    /// As [`Find::first`].
    pub fn find_one(&self, filter: impl IntoDocument) -> Result<Option<T>> {
        self.find(filter).first()
    }

    /// How many documents match a filter.
    ///
    /// # Errors
    /// As [`Find::count`].
    pub fn count(&self, filter: impl IntoDocument) -> Result<u64> {
        self.find(filter).count()
    }

    /// Updates the first document that matches a filter.
    ///
    /// # Errors
    /// As [`Collection::update_one`].
    pub fn update_one(&self, filter: impl IntoDocument, change: impl IntoDocument) -> Result<UpdateResult> {
        let (filter, change) = (filter.into_document()?, change.into_document()?);
        self.collection.update_one(filter.view(), change.view())
    }

    /// As [`Self::update_one`]; inserts a document when none matches.
    ///
    /// # Errors
    /// As [`Self::update_one`].
    pub fn upsert_one(&self, filter: impl IntoDocument, change: impl IntoDocument) -> Result<UpdateResult> {
        let (filter, change) = (filter.into_document()?, change.into_document()?);
        let options = UpdateOptions { upsert: true, ..UpdateOptions::default() };
        self.collection.update_one_with(filter.view(), change.view(), &options)
    }

    /// Updates all documents that match a filter.
    ///
    /// # Errors
    /// As [`Collection::update_many`].
    pub fn update_many(&self, filter: impl IntoDocument, change: impl IntoDocument) -> Result<UpdateResult> {
        let (filter, change) = (filter.into_document()?, change.into_document()?);
        self.collection.update_many(filter.view(), change.view())
    }

    /// Puts a value in the place of the first document that matches a filter.
    ///
    /// # Errors
    /// As [`Collection::replace_one`].
    pub fn replace_one(&self, filter: impl IntoDocument, value: &T) -> Result<UpdateResult> {
        let (filter, value) = (filter.into_document()?, to_document(value)?);
        self.collection.replace_one(filter.view(), value.view(), &UpdateOptions::default())
    }

    /// Updates the first document that matches a filter, and returns it as it was, or, with
    /// [`return_new`](FindOneOptions::return_new), as it is.
    ///
    /// # Errors
    /// As [`Collection::find_one_and_update`].
    pub fn find_one_and_update(
        &self,
        filter: impl IntoDocument,
        change: impl IntoDocument,
        options: &FindOneOptions,
    ) -> Result<Option<T>> {
        let (filter, change) = (filter.into_document()?, change.into_document()?);
        let found = self.collection.find_one_and_update(filter.view(), change.view(), options)?;
        found.map(|document| from_document(document.view())).transpose()
    }

    /// Deletes the first document that matches a filter; how many were deleted.
    ///
    /// # Errors
    /// As [`Collection::delete_one`].
    pub fn delete_one(&self, filter: impl IntoDocument) -> Result<u64> {
        self.collection.delete_one(filter.into_document()?.view())
    }

    /// Deletes all documents that match a filter; how many were deleted.
    ///
    /// # Errors
    /// As [`Collection::delete_many`].
    pub fn delete_many(&self, filter: impl IntoDocument) -> Result<u64> {
        self.collection.delete_many(filter.into_document()?.view())
    }

    /// The values that a pipeline of stages gives, as another type.
    ///
    /// # Errors
    /// Those of the pipeline; `BadValue` (2) when a document is not what the type needs.
    pub fn aggregate<U: DeserializeOwned>(&self, stages: &[DocumentBuf]) -> Result<Vec<U>> {
        let stages = ValueBuf::array(stages.iter().map(|stage| Value::Document(stage.view())));
        let Value::Array(stages) = stages.view() else { return Ok(Vec::new()) };
        let rows = self.collection.aggregate(stages)?;
        rows.map(|document| from_document(document?.view())).collect()
    }

    /// The different values of a field in the documents that match a filter, arrays taken apart, in ascending order.
    ///
    /// # Errors
    /// As [`Self::aggregate`].
    pub fn distinct<U: DeserializeOwned>(&self, path: &str, filter: impl IntoDocument) -> Result<Vec<U>> {
        let name = format!("${path}");
        let filter = filter.into_document()?;
        let stages = [
            doc! {"$match": filter.view()},
            doc! {"$unwind": &*name},
            doc! {"$group": &doc! {"_id": &*name}},
            doc! {"$sort": &doc! {"_id": 1}},
        ];
        let found: Vec<DocumentBuf> = self.aggregate(&stages)?;
        found.iter().filter_map(|document| document.view().get("_id")).map(from_value).collect()
    }

    /// Creates an index with keys such as `doc! {"name": 1, "age": -1}`, unless there is one. Its name is made of the
    /// keys. Options are those of `createIndexes`, such as `doc! {"unique": true}`.
    ///
    /// # Errors
    /// As [`Database::create_indexes`].
    pub fn create_index(&self, keys: &DocumentBuf, options: &DocumentBuf) -> Result<()> {
        let name = crate::keys::KeyPattern::parse(keys.view())?.default_name();
        let mut spec = DocumentBuilder::new();
        spec.append("key", keys.view());
        if options.view().get("name").is_none() {
            spec.append("name", &*name);
        }
        spec.append_all(options.view());
        self.database.create_indexes(self.collection.namespace().as_str(), &[spec.finish()]).map(drop)
    }

    /// The collection within a transaction, as of [`Database::transact`].
    pub fn within<'t>(&'t self, txn: &'t mut DocumentTransaction) -> Within<'t, T> {
        Within { collection: &self.collection, txn, shown: PhantomData }
    }
}

impl<T> Clone for TypedCollection<T> {
    fn clone(&self) -> Self {
        Self { collection: self.collection.clone(), database: self.database.clone(), shown: PhantomData }
    }
}

impl<T> fmt::Debug for TypedCollection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedCollection").field("collection", &self.collection.namespace()).finish_non_exhaustive()
    }
}
