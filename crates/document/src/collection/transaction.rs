//! Transactions over documents of any number of collections.
//!
//! # Concurrency
//! A transaction holds the schemas of the collections that it writes to until it ends, so that no index appears or
//! goes meanwhile. What it does about others that change the same documents is in the file `claims.rs`. A statement
//! whose snapshot is older than a change of an index fails with a conflict of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use smallvec::SmallVec;
use spinney::{Durability, Transaction};

use super::capped_write::CappedWrite;
use super::claims::{Claims, Counted, SHARE_WAIT};
use super::created::Created;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{DocumentBuf, Timestamp, Value};
use crate::catalog::index_entry::{EncodedId, IndexEntry};
use crate::catalog::own::is_own_number;
use crate::catalog::{Catalog, CollectionOptions, CollectionState, Index, IndexSpec, Namespace, Schema, SchemaGuard};
use crate::exec::stored::{Documents, StoredDocument};
use crate::keys::{KeySet, encode_id};
use crate::notes::{Journal, Note, SessionNote};

/// A transaction: it sees the documents as they were when it began, with its own writes on top. Dropping it rolls it
/// back.
#[derive(Debug)]
pub struct DocumentTransaction {
    pub(super) catalog: Arc<Catalog>,
    pub(super) txn: Transaction,
    held: SmallVec<[(u64, SchemaGuard); 2]>,
    /// Paths that were arrays and that the catalog's rows have when this commits.
    pub(super) multikey: Vec<(Arc<Index>, SmallVec<[u64; 4]>)>,
    pub(super) buffers: Buffers,
    pub(super) claims: Claims,
    pub(super) bypass_validation: bool,
    pub(super) reads_back: ReadsBack,
    /// Nothing when the log is not kept.
    pub(super) journal: Option<Journal>,
    /// Whether something was written.
    pub(super) has_written: bool,
    session: Option<SessionNote>,
    /// The capped collection that the transaction may write to.
    pub(super) capped: Option<CappedWrite>,
    /// Behind the engine's transaction, which has written to their tables when these are dropped.
    created: Option<Box<Created>>,
    /// For each collection, how many documents the transaction adds, less those that it removes.
    added: SmallVec<[(u64, Arc<AtomicI64>, i64); 2]>,
}

/// What a transaction reads of the documents and entries that it puts: the others it writes unseen, which costs less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadsBack {
    /// All of them.
    All,
    /// Documents, and entries of unique indexes.
    Unique,
    /// None of them.
    Nothing,
}

/// Memory that the writes of a transaction share.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) id: EncodedId,
    pub(super) entry: IndexEntry,
    /// For each index, the keys of the document that goes and of the one that comes.
    pub(super) keys: Vec<(KeySet, KeySet)>,
}

impl DocumentTransaction {
    /// A transaction that a program begins: a conflict with what others have committed fails the write.
    pub(crate) fn new(catalog: Arc<Catalog>) -> Self {
        Self::with(catalog, Claims::Probe, None)
    }

    /// A transaction that stays open between commands: it locks what it writes, so that the second of two that change
    /// the same document fails at once.
    #[must_use]
    pub fn locking(catalog: Arc<Catalog>) -> Self {
        let claims = Claims::Lock { _counted: Counted::new(catalog.locking()) };
        Self::with(catalog, claims, None)
    }

    /// A transaction of one statement, which is tried again when its commit conflicts. Only such a transaction may
    /// write to a capped collection, which is then the one of the statement.
    ///
    /// # Errors
    /// `Interrupted` (11601) and the like, while it waits for the lock of a capped collection.
    pub(super) fn of_statement(catalog: Arc<Catalog>, collection: Option<&Arc<CollectionState>>) -> Result<Self> {
        let claims = if catalog.locking().load(Ordering::Acquire) == 0 { Claims::AtCommit } else { Claims::Patient };
        let capped = collection.map(CappedWrite::begin).transpose()?.flatten();
        Ok(Self::with(catalog, claims, capped))
    }

    fn with(catalog: Arc<Catalog>, claims: Claims, capped: Option<CappedWrite>) -> Self {
        let mut txn = catalog.begin();
        if !matches!(claims, Claims::AtCommit | Claims::Probe) {
            txn.set_lock_wait(claims.wait());
        }
        let journal = catalog.recorder().is_on().then(Journal::default);
        Self {
            catalog,
            txn,
            held: SmallVec::new(),
            multikey: Vec::new(),
            buffers: Buffers::default(),
            claims,
            bypass_validation: false,
            reads_back: ReadsBack::All,
            journal,
            has_written: false,
            session: None,
            capped,
            created: None,
            added: SmallVec::new(),
        }
    }

    /// Whether documents that are written from now on need not match their collection's validator.
    pub fn bypass_validation(&mut self, bypass: bool) {
        self.bypass_validation = bypass;
    }

    /// From now on the transaction does nothing but insert documents into a collection.
    pub(super) fn insert_only(&mut self, collection: &CollectionState) {
        self.read_back(ReadsBack::Unique, collection);
    }

    /// From now on the transaction does nothing but change one document of a collection, or insert one.
    pub(super) fn change_one(&mut self, collection: &CollectionState) {
        self.read_back(ReadsBack::Nothing, collection);
    }

    fn read_back(&mut self, what: ReadsBack, collection: &CollectionState) {
        // A capped collection is walked over for what goes.
        self.reads_back = if collection.capped.is_some() { ReadsBack::All } else { what };
    }

    /// The document with an `_id`.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn find_by_id(&self, collection: &CollectionState, id: &Value<'_>) -> Result<Option<StoredDocument>> {
        let mut key = Vec::with_capacity(32);
        encode_id(&mut key, id, collection.collation());
        let Some(key) = collection.key_of(&key, |table, id| self.txn.get(table, id))? else { return Ok(None) };
        Ok(self.txn.get(&collection.table, key)?.map(StoredDocument::new))
    }

    /// All documents in the order of `_id`, those of a capped collection in that of their inserts.
    #[must_use]
    pub fn documents(&self, collection: &CollectionState) -> Documents {
        Documents::new(self.txn.range(&collection.table, ..))
    }

    /// The collection with a name that this transaction has created, and that it alone sees.
    #[must_use]
    pub fn find_created(&self, namespace: &Namespace) -> Option<Arc<CollectionState>> {
        self.created.as_ref()?.find(namespace).cloned()
    }

    /// Creates a collection that this transaction alone sees until it commits, and that goes when it does not.
    ///
    /// # Errors
    /// Those of [`Catalog::create_uncommitted`]; `WriteConflict` (112) at the commit when another transaction has
    /// created a collection of the name.
    pub fn create_collection(
        &mut self,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Arc<CollectionState>> {
        if self.find_created(namespace).is_some() {
            let what = format!("Collection {namespace} already exists.");
            return Err(Error::new(ErrorCode::NAMESPACE_EXISTS, what));
        }
        let (state, event) = self.catalog.create_uncommitted(&mut self.txn, namespace, options)?;
        self.put_created(&state, event);
        Ok(state)
    }

    /// Adds indexes to a collection that this transaction has created and that has no documents; how many were not
    /// there.
    ///
    /// # Errors
    /// `OperationNotSupportedInTransaction` (263) for another collection and for one that has documents; those of
    /// [`Catalog::add_indexes`].
    pub fn create_indexes(&mut self, collection: &CollectionState, specs: &[IndexSpec]) -> Result<usize> {
        let refused = |what: &str| {
            let namespace = &collection.schema().namespace;
            let what =
                format!("Cannot create new indexes on {what} collection {namespace} in a multi-document transaction.");
            Err(Error::new(ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, what))
        };
        if self.catalog.has_indexes(collection, specs)? {
            return Ok(0);
        }
        if !self.created.as_ref().is_some_and(|created| created.has(collection)) {
            return refused("existing");
        }
        if self.txn.range(&collection.table, ..).advance_key()?.is_some() {
            return refused("non-empty");
        }
        let before = collection.schema().indexes.len();
        let Some((state, event)) = self.catalog.add_uncommitted_indexes(&mut self.txn, collection, specs)? else {
            return Ok(0);
        };
        // Statements from here on write to the indexes too.
        self.held.retain(|(number, _)| *number != state.number);
        self.put_created(&state, event);
        Ok(state.schema().indexes.len() - before)
    }

    fn put_created(&mut self, state: &Arc<CollectionState>, event: DocumentBuf) {
        self.created.get_or_insert_with(|| Box::new(Created::new(Arc::clone(&self.catalog)))).put(state, event);
        self.has_written = true;
    }

    /// The session for the note of the commit.
    pub fn set_session(&mut self, session: SessionNote) {
        self.session = Some(session);
    }

    /// Whether the transaction has written something.
    #[must_use]
    pub const fn has_written(&self) -> bool {
        self.has_written
    }

    /// The engine's transaction, for reads of indexes.
    #[must_use]
    pub fn engine(&self) -> &Transaction {
        &self.txn
    }

    /// Commits.
    ///
    /// # Errors
    /// `WriteConflict` (112) when another transaction has changed a document or key that this one wrote: begin again.
    pub fn commit(self) -> Result<()> {
        self.finish(None)
    }

    /// Commits with a durability.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.finish(Some(durability))
    }

    pub(super) fn finish(self, durability: Option<Durability>) -> Result<()> {
        let Self {
            mut created,
            catalog,
            mut txn,
            held,
            multikey,
            claims,
            journal,
            has_written,
            session,
            capped,
            added,
            ..
        } = self;
        let is_own = held.iter().any(|(number, _)| is_own_number(*number));
        if is_own && !held.iter().all(|(number, _)| is_own_number(*number)) {
            let what = "a transaction writes to a collection that each member has for itself, and to another one";
            return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
        }
        if has_written && !is_own {
            let changes = journal.map(Journal::finish);
            let note = Note {
                time: changes.is_some().then(Timestamp::default),
                session,
                changes: changes.flatten(),
                events: created.as_mut().map(|created| created.take_events()).unwrap_or_default(),
                counts: added.iter().filter(|counted| counted.2 != 0).map(|counted| (counted.0, counted.2)).collect(),
                ..Note::default()
            };
            catalog.recorder().note(&mut txn, &note);
        }
        let is_agreed_on = catalog.committer().is_some() && !is_own;
        if (is_agreed_on || is_own) && !held.iter().all(|(_, guard)| guard.is_current()) {
            let what = "another member of the replica set has changed a collection meanwhile, or a profile was dropped";
            return Err(claims.labeled(Error::new(ErrorCode::WRITE_CONFLICT, what)));
        }
        let applied = move || {
            multikey.iter().for_each(|(index, found)| index.stored_multikey(found));
            // Before others may change the collection's schema, or count.
            added.iter().for_each(|(_, documents, added)| {
                documents.fetch_add(*added, Ordering::AcqRel);
            });
            drop(held);
            capped.into_iter().for_each(CappedWrite::committed);
        };
        let committed = match created {
            // The names of collections are to be known before anything else is told of them.
            Some(created) => created.commit(|| catalog.commit_transaction(txn, durability, None).map(|()| applied())),
            None if is_own => catalog.commit_own(txn, durability).map(|()| applied()),
            None if is_agreed_on => catalog.commit_transaction(txn, durability, Some(Box::new(applied))),
            None => catalog.commit_transaction(txn, durability, None).map(|()| applied()),
        };
        catalog.store_when_due();
        // Others may be committed after all.
        let is_lost = |error: &Error| error.is_conflict() || !is_agreed_on;
        committed.map_err(|error| if is_lost(&error) { claims.labeled(error) } else { error })
    }

    /// Notes that the transaction adds documents to a collection, or removes some.
    pub(super) fn count(&mut self, collection: &CollectionState, added: i64) {
        let documents = collection.documents.added();
        match self.added.iter_mut().find(|(_, known, _)| Arc::ptr_eq(known, documents)) {
            Some((_, _, sum)) => *sum += added,
            None => {
                collection.documents.change();
                self.added.push((collection.number, Arc::clone(documents), added));
            }
        }
    }

    /// Shares a collection. A transaction that shares another one may be what a change of the collection waits for, by
    /// others that wait for it in turn: it waits for a moment only, gives up, and is tried again.
    fn share(&self, collection: &CollectionState) -> Result<SchemaGuard> {
        if self.held.is_empty() {
            return collection.hold();
        }
        collection.hold_for(SHARE_WAIT).ok_or_else(|| self.claims.gives_way(&collection.schema().namespace))
    }

    /// The schema of a collection, which stays as it is until the transaction ends.
    pub(super) fn hold(&mut self, collection: &CollectionState) -> Result<Arc<Schema>> {
        let held = self.held.iter().find(|(number, _)| *number == collection.number);
        let schema = match held {
            Some((_, guard)) => Arc::clone(guard.schema()),
            None => {
                let guard = self.share(collection)?;
                let schema = Arc::clone(guard.schema());
                self.held.push((collection.number, guard));
                schema
            }
        };
        if schema.dropped {
            let what = format!("collection {} was dropped", schema.namespace);
            return Err(Error::new(ErrorCode::NAMESPACE_NOT_FOUND, what));
        }
        schema.check_indexes()?;
        self.check_capped(collection, &schema)?;
        Ok(schema)
    }
}
