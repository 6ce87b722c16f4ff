//! A collection as a program uses it: each call is a transaction of its own.

use std::sync::Arc;
use std::time::Duration;

use spinney::Durability;

use super::prepare::{Prepared, prepare, stamped};
use super::transaction::DocumentTransaction;
use super::validate::{OnValidated, Validation, validate};
use crate::base::{Environment, Result, interrupt};
use crate::bson::{Document, DocumentBuf, ObjectIds, Value, ValueBuf};
use crate::catalog::{Catalog, CollectionState, Namespace, Schema};
use crate::collation::Collation;
use crate::exec::stored::{Documents, StoredDocument};
use crate::exec::{Execution, Reader};
use crate::expr::Context;
use crate::keys::encode_id;
use crate::plan::Query;

/// How often a statement is tried that conflicts with others.
const TRIES: u32 = 100;

/// How a write is committed.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// What a commit survives. Default: what the engine's options say.
    pub durability: Option<Durability>,
    /// Whether documents need not match the collection's validator.
    pub bypass_validation: bool,
}

/// A collection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Collection {
    catalog: Arc<Catalog>,
    state: Arc<CollectionState>,
    ids: Arc<ObjectIds>,
    environment: Arc<dyn Environment>,
}

impl Collection {
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        state: Arc<CollectionState>,
        ids: Arc<ObjectIds>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        Self { catalog, state, ids, environment }
    }

    /// A search for the documents of a write.
    ///
    /// # Errors
    /// Those of [`Execution::open`].
    pub(crate) fn search<'r>(&self, reader: Box<dyn Reader + 'r>, query: &Arc<Query>) -> Result<Execution<'r>> {
        // What a search over arrays has met may be more than memory holds.
        let may_meet_twice = || self.schema().indexes.iter().any(|index| index.is_multikey());
        let query = match query.memory.is_none() && may_meet_twice() {
            true => Arc::new(Query::clone(query).with_spill(self.catalog.engine())),
            false => Arc::clone(query),
        };
        Execution::open(reader, &self.state, query)
    }

    /// The name.
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        self.schema().namespace.clone()
    }

    /// The engine's database.
    pub(crate) fn engine(&self) -> &spinney::Database {
        self.catalog.engine()
    }

    /// What the collection is now: its options and indexes.
    #[must_use]
    pub fn schema(&self) -> Arc<Schema> {
        self.state.schema()
    }

    /// What a handle of another collection of the same database is made of.
    pub(crate) fn parts(&self) -> (Arc<Catalog>, Arc<ObjectIds>, Arc<dyn Environment>) {
        (Arc::clone(&self.catalog), Arc::clone(&self.ids), Arc::clone(&self.environment))
    }

    /// The collection as transactions know it.
    #[must_use]
    pub fn state(&self) -> &Arc<CollectionState> {
        &self.state
    }

    /// Inserts a document, and returns its `_id`, which is made when it has none.
    ///
    /// # Errors
    /// `DuplicateKey` (11000), `DocumentValidationFailure` (121), and those of
    /// [`DocumentTransaction::insert`] and [`prepare`].
    pub fn insert_one(&self, document: Document<'_>) -> Result<ValueBuf> {
        self.insert_one_with(document, WriteOptions::default())
    }

    /// As [`Self::insert_one`], with options.
    ///
    /// # Errors
    /// As [`Self::insert_one`].
    pub fn insert_one_with(&self, document: Document<'_>, options: WriteOptions) -> Result<ValueBuf> {
        let prepared = self.prepare(document)?;
        self.transact_one(options, |txn| txn.insert(&self.state, prepared.view()))?;
        Ok(ValueBuf::from(prepared.id()))
    }

    /// The document with an `_id`.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn find_by_id<'v>(&self, id: impl Into<Value<'v>>) -> Result<Option<StoredDocument>> {
        let mut key = Vec::with_capacity(32);
        encode_id(&mut key, &id.into(), self.state.collation());
        let Some(key) = self.state.key_of(&key, |table, id| table.get(id))? else { return Ok(None) };
        Ok(self.state.table.get(key)?.map(StoredDocument::new))
    }

    /// Runs a query on the documents as they are now. A sort that needs more memory than 100 MiB goes on on disk,
    /// unless the query has a memory of its own.
    ///
    /// # Errors
    /// Those of [`Execution::open`].
    pub fn find(&self, query: Query) -> Result<Execution<'static>> {
        let query = if query.memory.is_none() { query.with_spill(self.catalog.engine()) } else { query };
        Execution::open(Box::new(self.catalog.engine().snapshot()), &self.state, Arc::new(query))
    }

    /// How many documents there are: known at once. They are counted the first time in a copy of a database, and after
    /// a crash when the log does not reach back to where the count was stored, which is rare.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn count(&self) -> Result<u64> {
        self.state.count(self.catalog.engine())
    }

    /// All documents in the order of `_id`, those of a capped collection in that of their inserts, as they are now.
    #[must_use]
    pub fn documents(&self) -> Documents {
        Documents::new(self.catalog.engine().snapshot().range(&self.state.table, ..))
    }

    /// Puts a document in the place of the one with an `_id`; whether there was one, and whether it was different. The
    /// replacement gets the `_id` when it has none.
    ///
    /// # Errors
    /// `ImmutableField` (66) when the replacement has another `_id`; else as [`Self::insert_one`].
    pub fn replace_by_id<'v>(&self, id: impl Into<Value<'v>>, new: Document<'_>) -> Result<(bool, bool)> {
        let id = id.into();
        self.transact(WriteOptions::default(), |txn| {
            let Some(old) = txn.find_by_id(&self.state, &id)? else { return Ok((false, false)) };
            let own = old.view().element("_id").filter(|_| new.element("_id").is_none());
            let new = match own {
                None => self.prepare(new)?,
                Some(id) => {
                    let mut builder = crate::bson::DocumentBuilder::new();
                    builder.append_element(&id).append_all(new);
                    Prepared::Changed(builder.finish())
                }
            };
            Ok((true, txn.replace(&self.state, old.view(), new.view())?))
        })
    }

    /// Removes the document with an `_id`; whether there was one.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn delete_by_id<'v>(&self, id: impl Into<Value<'v>>) -> Result<bool> {
        let id = id.into();
        self.transact(WriteOptions::default(), |txn| match txn.find_by_id(&self.state, &id)? {
            Some(old) => txn.delete(&self.state, old.view()).map(|()| true),
            None => Ok(false),
        })
    }

    /// Proves that the collection and its indexes agree, and changes nothing. [`Database::repair`] does.
    ///
    /// # Errors
    /// Those of the engine; what is wrong with the collection is in the result.
    ///
    /// [`Database::repair`]: crate::Database::repair
    pub fn validate(&self) -> Result<Validation> {
        self.validate_with(&mut |_| Ok(()))
    }

    /// As [`Self::validate`]; `told` gets the number of documents and entries that were read so far, now and then.
    ///
    /// # Errors
    /// Those of `told`, and as [`Self::validate`].
    pub fn validate_with(&self, told: &mut OnValidated<'_>) -> Result<Validation> {
        validate(&self.catalog, &self.state, told)
    }

    /// Runs `body` in a transaction and commits it; both again, after a growing pause, when another transaction was in
    /// the way.
    ///
    /// # Errors
    /// What `body` says; `WriteConflict` (112) when the hundredth try conflicts too; those of the commit.
    pub fn transact<T>(
        &self,
        options: WriteOptions,
        body: impl FnMut(&mut DocumentTransaction) -> Result<T>,
    ) -> Result<T> {
        transact(&self.catalog, Some(&self.state), options, body)
    }

    /// As [`Self::transact`], where `body` changes or inserts one document at most, and reads nothing afterwards.
    ///
    /// # Errors
    /// As [`Self::transact`].
    pub(crate) fn transact_one<T>(
        &self,
        options: WriteOptions,
        mut body: impl FnMut(&mut DocumentTransaction) -> Result<T>,
    ) -> Result<T> {
        self.transact(options, |txn| {
            txn.change_one(&self.state);
            body(txn)
        })
    }

    /// A document ready to be stored, with the time in the place of timestamps that are 0.
    pub(super) fn prepare<'d>(&self, document: Document<'d>) -> Result<Prepared<'d>> {
        match stamped(document, || self.catalog.recorder().tick()) {
            None => prepare(document, || self.new_id()),
            Some(document) => Ok(Prepared::Changed(prepare(document.view(), || self.new_id())?.view().into())),
        }
    }

    /// A snapshot of the engine.
    pub(super) fn snapshot(&self) -> spinney::Snapshot {
        self.catalog.engine().snapshot()
    }

    /// The constants of a statement that begins now.
    pub(crate) fn constants(&self) -> Context {
        let mut context = Context::new(self.environment.now_ms());
        context.seed = self.environment.random();
        context.collated(self.schema().options.collation.clone())
    }

    /// The same with the collation of a statement, if it has one.
    ///
    /// # Errors
    /// Those of [`Collation::parse`].
    pub(crate) fn constants_with(&self, collation: Option<&DocumentBuf>) -> Result<Context> {
        let given = Collation::of_operation(collation.map(|collation| Value::Document(collation.view())))?;
        let context = self.constants();
        Ok(match given {
            Some(collation) => context.collated(collation),
            None => context,
        })
    }

    /// A new `_id`.
    pub(crate) fn new_id(&self) -> crate::bson::ObjectId {
        let seconds = u32::try_from(self.environment.now_ms() / 1000).unwrap_or_default();
        self.ids.next(seconds)
    }
}

/// Runs `body` in a transaction and commits it, as [`Collection::transact`] does. The transaction may write to
/// `collection` if that is capped, and to no other that is.
///
/// # Errors
/// As [`Collection::transact`].
pub fn transact<T>(
    catalog: &Arc<Catalog>,
    collection: Option<&Arc<CollectionState>>,
    options: WriteOptions,
    mut body: impl FnMut(&mut DocumentTransaction) -> Result<T>,
) -> Result<T> {
    let mut tries = 1;
    loop {
        let mut txn = DocumentTransaction::of_statement(Arc::clone(catalog), collection)?;
        txn.bypass_validation(options.bypass_validation);
        let done = body(&mut txn).and_then(|value| {
            txn.finish(options.durability)?;
            Ok(value)
        });
        match done {
            Err(error) if error.is_conflict() && tries < TRIES => {
                interrupt::check()?;
                pause(tries);
            }
            done => return done,
        }
        tries += 1;
    }
}

/// Waits before another try: not at all at first, then up to 20 ms.
fn pause(tries: u32) {
    if tries > 2 {
        interrupt::rest(Duration::from_micros(100 << tries.min(8)).min(Duration::from_millis(20)));
    }
}
