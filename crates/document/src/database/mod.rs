//! A document database: collections and their indexes in one database of the engine.

use std::path::Path;
use std::sync::Arc;

use crate::aggregate::Rows;
use crate::base::{Environment, Error, ErrorCode, Result, System, interrupt};
use crate::bson::{Array, Document, DocumentBuf, DocumentBuilder, ObjectIds, ValueBuf};
use crate::catalog::index_spec::ID_INDEX;
use crate::catalog::{
    Added, Catalog, CollectionOptions, CollectionState, Committer, Entry, Index, IndexChanges, IndexSpec, Namespace,
    is_of_member,
};
use crate::collection::build::build;
use crate::collection::duplicate::shared_keys;
use crate::collection::handle::transact;
use crate::collection::{Collection, DocumentTransaction, WriteOptions};
use crate::pipeline::aggregation::{AggregateOptions, aggregate_now};
use crate::pipeline::{Parts, Target, view};

/// A document database. Cheap to clone.
///
/// ```
/// use spinney_document::{Database, doc};
///
/// # let dir = tempfile::tempdir()?;
/// let db = Database::open(dir.path().join("db"), spinney::Options::default())?;
/// let people = db.collection_or_create("app.people")?;
/// db.create_indexes("app.people", &[doc! {"key": &doc! {"name": 1}, "name": "name_1", "unique": true}])?;
/// people.insert_one(doc! {"_id": 1, "name": "Ada"}.view())?;
/// let again = people.insert_one(doc! {"_id": 2, "name": "Ada"}.view());
/// assert_eq!(again.unwrap_err().code().number(), 11000);
/// assert_eq!(people.find_by_id(1)?.unwrap().view().to_json(), r#"{"_id":1,"name":"Ada"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Database {
    catalog: Arc<Catalog>,
    ids: Arc<ObjectIds>,
    environment: Arc<dyn Environment>,
}

impl Database {
    /// Opens the database in a directory, or creates it.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn open(path: impl AsRef<Path>, options: spinney::Options) -> Result<Self> {
        Self::with_engine(spinney::Database::open(path, options)?)
    }

    /// The document database in an open database of the engine.
    ///
    /// # Errors
    /// Those of the engine; `DataCorruptionDetected` (374) when the catalog makes no sense; `IllegalOperation` (20)
    /// when the database is of a member of a replica set ([`is_of_member`]) and not opened for reading only: the other
    /// members would not hear of its changes.
    pub fn with_engine(engine: spinney::Database) -> Result<Self> {
        Self::with_parts(engine, Arc::new(System))
    }

    /// The document database in an open database of the engine, with a source of time and randomness.
    ///
    /// # Errors
    /// As [`Self::with_engine`].
    pub fn with_parts(engine: spinney::Database, environment: Arc<dyn Environment>) -> Result<Self> {
        Self::of_parts(engine, environment, None)
    }

    /// The document database in an open database of the engine, with what commits in place of the engine. What an
    /// earlier process has left half done stays until [`Catalog::clean_up`].
    ///
    /// # Errors
    /// As [`Self::with_engine`]; `InvalidOptions` (72) when the options of the engine do not keep the log
    /// ([`log_keep_bytes`](spinney::Options::log_keep_bytes)), which tells what other members have done.
    pub fn with_committer(
        engine: spinney::Database,
        environment: Arc<dyn Environment>,
        committer: Arc<dyn Committer>,
    ) -> Result<Self> {
        let database = Self::of_parts(engine, environment, Some(committer))?;
        if !database.catalog.recorder().is_on() {
            let what = "a member of a replica set keeps its log: set log_keep_bytes or log_keep_time";
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        }
        Ok(database)
    }

    fn of_parts(
        engine: spinney::Database,
        environment: Arc<dyn Environment>,
        committer: Option<Arc<dyn Committer>>,
    ) -> Result<Self> {
        if committer.is_none() && !engine.is_read_only() && is_of_member(&engine)? {
            let what = "the database is of a member of a replica set, whose changes the set decides on";
            return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
        }
        let catalog = Arc::new(Catalog::open(engine, Arc::clone(&environment), committer)?);
        let ids = Arc::new(ObjectIds::new(environment.random()));
        Ok(Self { catalog, ids, environment })
    }

    /// The engine's database.
    #[must_use]
    pub fn engine(&self) -> &spinney::Database {
        self.catalog.engine()
    }

    /// What collections, views and indexes there are.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Where time and random numbers come from.
    #[must_use]
    pub fn environment(&self) -> &Arc<dyn Environment> {
        &self.environment
    }

    /// The collection with a name such as `app.people`, if there is one.
    ///
    /// # Errors
    /// `InvalidNamespace` (73); `CommandNotSupportedOnView` (166) when the name is a view's.
    pub fn collection(&self, namespace: &str) -> Result<Option<Collection>> {
        let namespace = Namespace::parse(namespace)?;
        match self.catalog.find(&namespace) {
            Some(Entry::Collection(state)) => Ok(Some(self.handle(state))),
            Some(Entry::View(_)) => {
                let what = format!("Namespace {namespace} is a view, not a collection");
                Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW, what))
            }
            Some(Entry::Damaged(damage)) => Err(damage.error()),
            None => Ok(None),
        }
    }

    /// The collection with a name, created without options when there is none.
    ///
    /// # Errors
    /// As [`Self::collection`] and [`Self::create_collection`].
    pub fn collection_or_create(&self, namespace: &str) -> Result<Collection> {
        loop {
            if let Some(collection) = self.collection(namespace)? {
                return Ok(collection);
            }
            match self.create_collection(namespace, Document::empty()) {
                // Another thread was first, with options.
                Err(error) if error.code() == ErrorCode::NAMESPACE_EXISTS => {}
                Err(error) => return Err(error),
                Ok(()) => {}
            }
        }
    }

    /// Creates a collection, or a view with the options `viewOn` and `pipeline`, unless there is one with the same
    /// options.
    ///
    /// # Errors
    /// `NamespaceExists` (48) when there is one with other options, `InvalidNamespace` (73), and those of
    /// [`CollectionOptions::parse`].
    pub fn create_collection(&self, namespace: &str, options: Document<'_>) -> Result<()> {
        let namespace = Namespace::parse(namespace)?;
        let options = CollectionOptions::parse(options)?;
        view::check(&self.catalog, &namespace, &options)?;
        self.catalog.create(&namespace, options).map(drop)
    }

    /// Gives a view other options, `viewOn` and `pipeline`.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26) when there is no such view, and as [`Self::create_collection`].
    pub fn replace_view(&self, namespace: &str, options: Document<'_>) -> Result<()> {
        let (namespace, options) = (Namespace::parse(namespace)?, CollectionOptions::parse(options)?);
        view::check(&self.catalog, &namespace, &options)?;
        self.catalog.replace_view(&namespace, options)
    }

    /// Drops a collection with its indexes, or a view; whether there was one.
    ///
    /// # Errors
    /// `LockTimeout` (24) while a transaction writes to the collection; those of the engine.
    pub fn drop_collection(&self, namespace: &str) -> Result<bool> {
        self.catalog.drop_namespace(&Namespace::parse(namespace)?)
    }

    /// Drops all collections and views of a database.
    ///
    /// # Errors
    /// As [`Self::drop_collection`]; some may be dropped then.
    pub fn drop_database(&self, database: &str) -> Result<()> {
        self.catalog.drop_database(database)
    }

    /// Gives a collection another name; with `drop_target`, in place of the collection that has it.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26), `NamespaceExists` (48), and those of [`Self::drop_collection`].
    pub fn rename_collection(&self, from: &str, to: &str, drop_target: bool) -> Result<()> {
        self.catalog.rename(&Namespace::parse(from)?, &Namespace::parse(to)?, drop_target)
    }

    /// Creates a capped collection of up to `size` bytes with the newest documents of another collection.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26), and those of [`Collection::clone_as_capped`].
    pub fn clone_as_capped(&self, from: &str, to: &str, size: i64) -> Result<()> {
        self.existing(from)?.clone_as_capped(&Namespace::parse(to)?, size)
    }

    /// Makes a collection a capped one of up to `size` bytes with its newest documents.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26), and those of [`Collection::convert_to_capped`].
    pub fn convert_to_capped(&self, namespace: &str, size: i64) -> Result<()> {
        self.existing(namespace)?.convert_to_capped(size)
    }

    /// The names of the databases.
    #[must_use]
    pub fn list_databases(&self) -> Vec<String> {
        self.catalog.databases()
    }

    /// The collections and views of a database as `listCollections` shows them: `{name, type, options, info}`.
    #[must_use]
    pub fn list_collections(&self, database: &str) -> Vec<DocumentBuf> {
        let listed = self.catalog.list(Some(database)).into_iter().map(|(namespace, entry)| {
            let mut builder = DocumentBuilder::new();
            builder.append("name", namespace.collection());
            match entry {
                Entry::View(options) => {
                    builder.append("type", "view").append("options", options.document());
                    builder.open_document("info").append("readOnly", true).close();
                }
                Entry::Collection(state) => {
                    let schema = state.schema();
                    builder.append("type", "collection").append("options", schema.options.document());
                    builder.open_document("info").append("readOnly", false);
                    builder.append("uuid", crate::bson::Value::Binary(4, &schema.uuid)).close();
                    let id_index = IndexSpec::of_id(schema.options.collation.as_deref());
                    builder.append("idIndex", id_index.document());
                }
                Entry::Damaged(damage) => {
                    builder.append("type", "collection").open_document("options").close();
                    builder.open_document("info").append("readOnly", true).append("damaged", damage.error().message());
                    builder.close();
                }
            }
            builder.finish()
        });
        listed.collect()
    }

    /// Creates indexes by specifications such as `{key: {a: 1}, name: "a_1"}`, while writers go on, and returns how
    /// many were not there yet. The collection is created when there is none. An index without a collation gets that of
    /// the collection.
    ///
    /// # Errors
    /// Those of [`IndexSpec::parse`]; `IndexOptionsConflict` (85), `IndexKeySpecsConflict` (86); `DuplicateKey` (11000)
    /// when documents break the constraint of a unique index. No index is created then.
    pub fn create_indexes(&self, namespace: &str, specs: &[DocumentBuf]) -> Result<usize> {
        let collation = self.catalog.collation(&Namespace::parse(namespace)?);
        let specs = IndexSpec::parse_all(specs, collation.as_deref())?;
        let collection = self.collection_or_create(namespace)?;
        let mut count = 0;
        loop {
            count += self.add_and_build(&collection, &specs)?;
            // Those that other threads build are waited for: a build that fails is done again here.
            let schema = collection.schema();
            let is_asked_for = |index: &&Arc<Index>| specs.iter().any(|spec| spec.name == index.spec.name);
            let others: Vec<_> = schema.indexes.iter().filter(|index| !index.ready).filter(is_asked_for).collect();
            if others.is_empty() {
                return Ok(count);
            }
            others.iter().try_for_each(|index| index.wait_for_build())?;
            // What nobody builds any more was left by a thread that could not drop it.
            let schema = collection.schema();
            let is_left = |index: &&Arc<Index>| !index.ready && others.iter().any(|other| other.number == index.number);
            let left: Vec<_> = schema.indexes.iter().filter(is_left).map(|index| index.number).collect();
            self.catalog.drop_indexes(collection.state(), &left)?;
        }
    }

    /// Adds the indexes that are not there, and builds them; how many those were.
    fn add_and_build(&self, collection: &Collection, specs: &[IndexSpec]) -> Result<usize> {
        let Added { indexes, snapshot, builds } = self.catalog.add_indexes(collection.state(), specs)?;
        if indexes.is_empty() {
            return Ok(0);
        }
        let built = build(&self.catalog, collection.state(), &indexes, &snapshot)
            .and_then(|()| self.catalog.finish_indexes(collection.state(), &indexes));
        if let Err(error) = built {
            let numbers: Vec<_> = indexes.iter().map(|index| index.number).collect();
            interrupt::shielded(|| self.catalog.drop_indexes(collection.state(), &numbers))?;
            return Err(error);
        }
        drop(builds);
        Ok(indexes.len())
    }

    /// Drops the index with a name, or all but that of `_id` for `*`.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26), `IndexNotFound` (27), `InvalidOptions` (72) for the index of `_id`.
    pub fn drop_indexes(&self, namespace: &str, name: &str) -> Result<()> {
        let collection = self.existing(namespace)?;
        let schema = collection.schema();
        let numbers: Vec<u64> = match name {
            "*" => {
                let damaged = schema.damaged.iter().map(|index| index.number);
                schema.others().map(|index| index.number).chain(damaged).collect()
            }
            ID_INDEX => return Err(Error::new(ErrorCode::INVALID_OPTIONS, "cannot drop _id index")),
            _ => {
                match schema.index(name).map(|index| index.number).or(schema.damaged(name).map(|index| index.number)) {
                    Some(number) => vec![number],
                    None => {
                        let what = format!("index not found with name [{name}]");
                        return Err(Error::new(ErrorCode::INDEX_NOT_FOUND, what));
                    }
                }
            }
        };
        self.catalog.drop_indexes(collection.state(), &numbers)
    }

    /// Changes options of an index that change nothing of its entries.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26), `IndexNotFound` (27), and those of [`IndexSpec::parse`].
    pub fn modify_index(&self, namespace: &str, name: &str, changes: &IndexChanges) -> Result<()> {
        let collection = self.existing(namespace)?;
        self.catalog.modify(collection.state(), |schema| {
            let index = schema.indexes.iter_mut().find(|index| index.spec.name == name);
            let index = index.ok_or_else(|| no_index(namespace, name))?;
            *index = Arc::new(index.with_spec(index.spec.with(changes)?));
            Ok(())
        })
    }

    /// Builds an index again, with the constraint of a unique one when `unique` is told, and puts the new one in the
    /// place of the old one. Writers go on, and the old one is used meanwhile.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26), `IndexNotFound` (27); `DuplicateKey` (11000) when two documents have the same key, the
    /// old index stays then; those of the engine.
    pub fn rebuild_index(&self, namespace: &str, name: &str, unique: Option<bool>) -> Result<()> {
        let collection = self.existing(namespace)?;
        if let Some(damaged) = collection.schema().damaged(name) {
            let spec = DocumentBuf::from(damaged.spec());
            // Refused before the damaged one goes.
            IndexSpec::parse(spec.view())?;
            self.catalog.drop_indexes(collection.state(), &[damaged.number])?;
            return self.create_indexes(namespace, &[spec]).map(drop);
        }
        let old = collection.schema().index(name).cloned().ok_or_else(|| no_index(namespace, name))?;
        // A name that no other index has, for as long as both are there.
        let other_name = format!("{name}_rebuilt_{}", old.number);
        let spec = old.spec.rebuilt(&other_name, unique)?;
        let Added { indexes: added, snapshot, builds: _builds } = self.catalog.add_again(collection.state(), &spec)?;
        let built = build(&self.catalog, collection.state(), &added, &snapshot)
            .and_then(|()| self.catalog.finish_indexes(collection.state(), &added))
            .and_then(|()| {
                self.catalog.modify(collection.state(), |schema| {
                    for index in &mut schema.indexes {
                        let name = match index.number {
                            number if number == old.number => &other_name,
                            number if number == added[0].number => name,
                            _ => continue,
                        };
                        *index = Arc::new(index.with_spec(index.spec.rebuilt(name, None)?));
                    }
                    Ok(())
                })
            });
        let gone = if built.is_ok() { old.number } else { added[0].number };
        self.catalog.drop_indexes(collection.state(), &[gone])?;
        built
    }

    /// The `_id`s of documents that have the same key of an index, a group for each such key, of up to `max` groups.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26), `IndexNotFound` (27); those of the engine.
    pub fn shared_keys(&self, namespace: &str, name: &str, max: usize) -> Result<Vec<Vec<ValueBuf>>> {
        let collection = self.existing(namespace)?;
        let index = collection.schema().index(name).cloned().ok_or_else(|| no_index(namespace, name))?;
        shared_keys(self.catalog.engine(), collection.state(), &index, max)
    }

    /// Changes options of a collection, such as `{validator: .., validationLevel: "off"}`; one that is null is taken
    /// away.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26), `InvalidOptions` (72) for an option that cannot be changed, and those of
    /// [`CollectionOptions::parse`].
    pub fn modify_collection(&self, namespace: &str, changes: Document<'_>) -> Result<()> {
        let changeable = [
            "validator",
            "validationLevel",
            "validationAction",
            "changeStreamPreAndPostImages",
            "size",
            "max",
            "expireAfterSeconds",
        ];
        if let Some(other) = changes.elements().find(|element| !changeable.iter().any(|name| element.name == *name)) {
            let what = format!("the option '{}' of a collection cannot be changed", other.name);
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        }
        let collection = self.existing(namespace)?;
        self.catalog.modify(collection.state(), |schema| {
            schema.options = schema.options.with(changes)?;
            Ok(())
        })
    }

    /// Removes the documents of all collections that have expired by now, and returns how many those were. A program
    /// calls it every minute or so.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn expire(&self) -> Result<u64> {
        let (now, mut expired) = (self.environment.now_ms(), 0);
        for (_, entry) in self.catalog.list(None) {
            if let Entry::Collection(state) = entry {
                match self.handle(state).expire(now) {
                    // Dropped meanwhile.
                    Err(error) if error.code() == ErrorCode::NAMESPACE_NOT_FOUND => {}
                    done => expired += done?,
                }
            }
        }
        Ok(expired)
    }

    /// The specifications of a collection's indexes, that of `_id` first.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26).
    pub fn list_indexes(&self, namespace: &str) -> Result<Vec<DocumentBuf>> {
        let schema = self.existing(namespace)?.schema();
        let damaged = schema.damaged.iter().map(|index| DocumentBuf::from(index.spec()));
        let others = schema.others().map(|index| DocumentBuf::from(index.spec.document())).chain(damaged);
        let id_index = IndexSpec::of_id(schema.options.collation.as_deref());
        Ok(std::iter::once(DocumentBuf::from(id_index.document())).chain(others).collect())
    }

    /// The documents that a pipeline gives which begins with a stage such as `$documents`.
    ///
    /// # Errors
    /// `InvalidNamespace` (73) for another first stage; else as [`Collection::aggregate`].
    pub fn aggregate(&self, database: &str, stages: Array<'_>) -> Result<Rows> {
        aggregate_now(self.parts(), Target::Database(database.to_owned()), stages, AggregateOptions::default())
    }

    /// The documents that a pipeline gives over a collection or view as it is now. One that does not exist has no
    /// documents.
    ///
    /// # Errors
    /// As [`Collection::aggregate`].
    pub fn aggregate_on(&self, namespace: &str, stages: Array<'_>, options: AggregateOptions) -> Result<Rows> {
        aggregate_now(self.parts(), Target::Collection(Namespace::parse(namespace)?), stages, options)
    }

    /// What pipelines need of the database.
    #[must_use]
    pub fn parts(&self) -> Parts {
        let (catalog, ids) = (Arc::clone(&self.catalog), Arc::clone(&self.ids));
        Parts { catalog, ids, environment: Arc::clone(&self.environment) }
    }

    /// Begins a transaction over documents of any number of collections.
    #[must_use]
    pub fn begin(&self) -> DocumentTransaction {
        DocumentTransaction::new(Arc::clone(&self.catalog))
    }

    /// Runs `body` in a transaction over documents of any number of collections and commits it; both again, after a
    /// growing pause, when another transaction was in the way.
    ///
    /// # Errors
    /// What `body` says; `WriteConflict` (112) when the hundredth try conflicts too; those of the commit.
    pub fn transact<T>(&self, body: impl FnMut(&mut DocumentTransaction) -> Result<T>) -> Result<T> {
        transact(&self.catalog, None, WriteOptions::default(), body)
    }

    /// The collection with a name.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26), and as [`Self::collection`].
    pub(crate) fn existing(&self, namespace: &str) -> Result<Collection> {
        self.collection(namespace)?
            .ok_or_else(|| Error::new(ErrorCode::NAMESPACE_NOT_FOUND, format!("ns does not exist: {namespace}")))
    }

    fn handle(&self, state: Arc<CollectionState>) -> Collection {
        Collection::new(Arc::clone(&self.catalog), state, Arc::clone(&self.ids), Arc::clone(&self.environment))
    }
}

fn no_index(namespace: &str, name: &str) -> Error {
    Error::new(ErrorCode::INDEX_NOT_FOUND, format!("cannot find index {name} for ns {namespace}"))
}
