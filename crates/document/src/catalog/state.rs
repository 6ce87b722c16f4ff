//! Collections and indexes in memory.
//!
//! # Concurrency
//! A [`CollectionState`] has a lock that every transaction which writes to the collection holds shared until it has
//! committed, and a change of the schema alone: it waits for those that do not know the new indexes. A second lock,
//! held for a moment only, guards the pointer to the [`Schema`]; a third is held while a commit of another member of a
//! replica set is written, so that counts agree with what is there.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{ArcMutexGuard, Mutex, MutexGuard, RawMutex, RwLock};
use spinney::{SeqNum, Snapshot, Table};

use super::capped::Capped;
use super::damage::DamagedIndex;
use super::index_filters::IndexFilters;
use super::index_spec::{ID_INDEX, IndexSpec};
use super::latch::{Alone, Latch, Shared};
use super::namespace::Namespace;
use super::options::CollectionOptions;
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::{Document, DocumentBuf};
use crate::collation::{Collated, Collation};
use crate::keys::{Direction, field_len};
use crate::path::Path;

/// How long a count waits for the transactions that write to the collection, where nothing else waits for it.
pub const COUNT_WAIT: Duration = Duration::from_millis(100);

/// Holds a collection's schema as it is until a transaction has committed.
#[derive(Debug)]
pub struct SchemaGuard {
    _shared: Shared,
    schema: Arc<Schema>,
    current: Arc<RwLock<Arc<Schema>>>,
}

impl SchemaGuard {
    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Whether the collection has no other schema by now: one that another member of a replica set has made replaces it
    /// whatever guards there are.
    #[must_use]
    pub fn is_current(&self) -> bool {
        Arc::ptr_eq(&self.schema, &self.current.read())
    }
}

/// A collection: the table of its documents, and its schema.
#[derive(Debug)]
pub struct CollectionState {
    /// The number in the names of its tables.
    pub number: u64,
    /// The documents: key = encoded `_id`, or, in a capped collection, the record id; value = the document.
    pub table: Table,
    /// What a capped collection has beside.
    pub capped: Option<Capped>,
    /// Shared by transactions that write, alone by a change of the schema.
    writers: Arc<Latch>,
    /// Held while a commit of another member of a replica set is written.
    followed: Mutex<()>,
    schema: Arc<RwLock<Arc<Schema>>>,
    /// How many documents there are.
    pub documents: DocumentCount,
    /// The default collation, which the keys of the documents are in; it stays as it is.
    collation: Collated,
    /// How many searches by `_id` there were since the collection was opened.
    pub id_uses: Uses,
    /// How many searches of all documents there were since the collection was opened.
    pub scans: Uses,
    /// The only indexes that queries of some shapes may use.
    pub filters: IndexFilters,
}

/// How often an index was used. It orders nothing.
#[derive(Debug, Default)]
pub struct Uses(AtomicU64);

impl Uses {
    /// Counts a search.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many documents a collection has: how many there were at a moment at which no transaction that writes was open,
/// and what commits have added since the collection was opened. The first is what the catalog's row says (see the file
/// `counts.rs`), or is counted when it is first asked for.
#[derive(Debug, Default)]
pub struct DocumentCount {
    before: OnceLock<i64>,
    added: Arc<AtomicI64>,
    /// Whether the catalog's row is not as memory is, or a transaction is open that will change it.
    changed: AtomicBool,
}

/// A collection at a moment.
#[derive(Debug)]
pub struct AtRest {
    /// How many documents there are, if that is known without counting.
    pub count: Option<i64>,
    /// What is committed.
    pub snapshot: Snapshot,
    /// What the collection is.
    pub schema: Arc<Schema>,
}

/// What a collection is at a time. A change makes a new one.
#[derive(Clone, Debug)]
pub struct Schema {
    /// The name.
    pub namespace: Namespace,
    /// The UUID, which stays when the collection is renamed.
    pub uuid: [u8; 16],
    /// The options.
    pub options: CollectionOptions,
    /// The indexes that have tables, in the order in which they were created: all but that of `_id`, which only a
    /// capped collection has as the first of them.
    pub indexes: Vec<Arc<Index>>,
    /// The indexes that cannot be used: no document is written while there are any.
    pub damaged: Vec<Arc<DamagedIndex>>,
    /// Whether the collection was dropped.
    pub dropped: bool,
}

/// An index: the table of its entries.
#[derive(Debug)]
pub struct Index {
    /// The number in the name of its table.
    pub number: u64,
    /// The entries. Unique: key = fields, value = key of the document, type bits. Else: key = fields, key of the
    /// document; value = type bits.
    pub table: Table,
    /// Whether the keys of documents are their encoded `_id`s, which those of a capped collection are not.
    pub has_ids: bool,
    /// The specification.
    pub spec: IndexSpec,
    /// Whether it has all entries; before, writers maintain it, and queries do not use it.
    pub ready: bool,
    /// The newest change of the engine when it got the last of the entries that were there before it: older snapshots
    /// do not see them all.
    pub ready_at: SeqNum,
    /// The paths of the fields.
    pub paths: Vec<Path>,
    /// One for all states of the index that follow each other: what a build or a writer finds counts for all of them.
    multikey: Arc<[Multikey]>,
    /// How many searches have used it since it was opened.
    pub uses: Arc<Uses>,
    /// Held by the thread that builds it, until it is ready or was dropped.
    building: Arc<Mutex<()>>,
}

/// Held while an index is built: a thread that asks for the same index waits for it.
pub struct IndexBuild {
    _held: ArcMutexGuard<RawMutex, ()>,
}

impl fmt::Debug for IndexBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexBuild").finish_non_exhaustive()
    }
}

/// The components of a field's path that were an array in some document, a bit each from the lowest. Bits are only ever
/// set.
#[derive(Debug)]
struct Multikey {
    /// What readers plan with: set before the document is committed.
    seen: AtomicU64,
    /// What the catalog's row holds: set when the row is committed.
    stored: AtomicU64,
}

impl CollectionState {
    /// A collection with its first schema.
    #[must_use]
    pub fn new(number: u64, table: Table, schema: Schema) -> Self {
        Self {
            number,
            table,
            collation: schema.options.collation.clone(),
            capped: schema.options.capped.map(|_| Capped::default()),
            writers: Arc::default(),
            followed: Mutex::default(),
            schema: Arc::new(RwLock::new(Arc::new(schema))),
            documents: DocumentCount::default(),
            id_uses: Uses::default(),
            scans: Uses::default(),
            filters: IndexFilters::default(),
        }
    }

    /// How many documents there are in what is committed. Where no row of the catalog tells it the first call counts
    /// them; later ones know.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn count(&self, engine: &spinney::Database) -> Result<u64> {
        let known = self.documents.before.get().copied();
        let before = match known {
            Some(before) => before,
            None => {
                // Alone for a moment: what is committed and what was added agree then.
                let alone = self.alone(COUNT_WAIT)?;
                let (snapshot, added) = (engine.snapshot(), self.documents.added.load(Ordering::Acquire));
                let agree = alone.is_some();
                drop(alone);
                let (mut entries, mut count) = (snapshot.range(&self.table, ..), 0_i64);
                while entries.advance_key()?.is_some() {
                    count += 1;
                }
                if !agree {
                    return Ok(u64::try_from(count).unwrap_or_default());
                }
                self.documents.change();
                *self.documents.before.get_or_init(|| count - added)
            }
        };
        let count = before + self.documents.added.load(Ordering::Acquire);
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Waits until no transaction that writes is open, and keeps others from writing.
    fn alone(&self, wait: Duration) -> Result<Option<(Alone<'_>, MutexGuard<'_, ()>)>> {
        let Some(alone) = self.writers.take_alone(wait)? else { return Ok(None) };
        let followed = interrupt::wait_within(wait, |nap| self.followed.try_lock_for(nap))?;
        Ok(followed.map(|followed| (alone, followed)))
    }

    /// The collection at a moment at which no transaction that writes to it is open; nothing when one is open for
    /// longer than `wait`.
    ///
    /// # Errors
    /// As [`Self::hold`].
    pub fn at_rest(&self, engine: &spinney::Database, wait: Duration) -> Result<Option<AtRest>> {
        let Some(_alone) = self.alone(wait)? else { return Ok(None) };
        let before = self.documents.before.get();
        let count = before.map(|before| before + self.documents.added.load(Ordering::Acquire));
        Ok(Some(AtRest { count, snapshot: engine.snapshot(), schema: self.schema() }))
    }

    /// The collation of the collection, in whose order its `_id`s are.
    #[must_use]
    pub fn collation(&self) -> Option<&Collation> {
        self.collation.as_deref()
    }

    /// The key of the document with an encoded `_id`: that itself, or, in a capped collection, the record id that the
    /// index of `_id` has, which `get` reads; nothing when there is no such document there.
    ///
    /// # Errors
    /// Those of `get`; `DataCorruptionDetected` (374).
    pub fn key_of<V: AsRef<[u8]>>(
        &self,
        id: &[u8],
        get: impl FnOnce(&Table, &[u8]) -> spinney::Result<Option<V>>,
    ) -> Result<Option<Vec<u8>>> {
        if self.capped.is_none() {
            return Ok(Some(id.to_vec()));
        }
        let schema = self.schema();
        let corrupt = || Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, "the index of _id is missing or malformed");
        let index = schema.index(ID_INDEX).ok_or_else(corrupt)?;
        let Some(entry) = get(&index.table, id)? else { return Ok(None) };
        let entry = entry.as_ref();
        let len = field_len(entry, Direction::Ascending).ok_or_else(corrupt)?;
        Ok(Some(entry.get(..len).ok_or_else(corrupt)?.to_vec()))
    }

    /// The schema as it is now.
    #[must_use]
    pub fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema.read())
    }

    /// The schema, which stays as it is while the guard lives. Waits for the changes of it that are under way.
    ///
    /// # Errors
    /// `Interrupted` (11601) and the like, when the thread's operation is to end.
    pub fn hold(&self) -> Result<SchemaGuard> {
        self.writers.share().map(|shared| self.held(shared))
    }

    /// As [`Self::hold`]; nothing when the changes take longer than `wait`.
    pub fn hold_for(&self, wait: Duration) -> Option<SchemaGuard> {
        self.writers.share_for(wait).map(|shared| self.held(shared))
    }

    fn held(&self, shared: Shared) -> SchemaGuard {
        SchemaGuard { _shared: shared, schema: self.schema(), current: Arc::clone(&self.schema) }
    }

    /// Runs `body` while no count of these collections begins.
    pub(super) fn hold_all<T>(collections: &[Arc<Self>], body: impl FnOnce() -> T) -> T {
        let guards: Vec<_> = collections.iter().map(|collection| collection.followed.lock()).collect();
        let result = body();
        drop(guards);
        result
    }

    /// Another member of a replica set has changed the schema. What transactions hold stays, and does not commit.
    pub(super) fn follow(&self, schema: Schema) {
        *self.schema.write() = Arc::new(schema);
    }

    /// Runs `change` when no transaction that writes to the collection is open, with all later ones waiting; the schema
    /// that it returns replaces the one that it is given.
    ///
    /// # Errors
    /// `LockTimeout` (24) when a transaction is open for longer than `wait`; `NamespaceNotFound` (26) when the
    /// collection was dropped; `Interrupted` (11601) and the like; what `change` says. Each leaves the schema as it
    /// was.
    pub fn change<T>(&self, wait: Duration, change: impl FnOnce(&Schema) -> Result<(Schema, T)>) -> Result<T> {
        let Some(_alone) = self.writers.take_alone(wait)? else {
            let what = "a transaction that writes to the collection has been open for too long";
            return Err(Error::new(ErrorCode::LOCK_TIMEOUT, what));
        };
        let schema = self.schema();
        if schema.dropped {
            let what = format!("collection {} was dropped", schema.namespace);
            return Err(Error::new(ErrorCode::NAMESPACE_NOT_FOUND, what));
        }
        let (changed, result) = change(&schema)?;
        *self.schema.write() = Arc::new(changed);
        Ok(result)
    }
}

/// A collection that no transaction writes to, and whose schema stays as it is.
pub(super) struct AtRestAlone<'s> {
    _alone: Alone<'s>,
    pub(super) state: &'s Arc<CollectionState>,
    pub(super) schema: Arc<Schema>,
}

impl<'s> AtRestAlone<'s> {
    /// Nothing when a transaction writes to the collection now, or it was dropped.
    ///
    /// # Errors
    /// As [`CollectionState::hold`].
    pub(super) fn of(state: &'s Arc<CollectionState>) -> Result<Option<Self>> {
        let Some(alone) = state.writers.take_alone(Duration::ZERO)? else { return Ok(None) };
        let schema = state.schema();
        Ok((!schema.dropped).then_some(Self { _alone: alone, state, schema }))
    }

    /// The collection is dropped.
    pub(super) fn dropped(self) {
        *self.state.schema.write() = Arc::new(Schema { dropped: true, ..Schema::clone(&self.schema) });
    }
}

impl DocumentCount {
    /// Where commits add how many documents they have added, less those that they removed.
    #[must_use]
    pub fn added(&self) -> &Arc<AtomicI64> {
        &self.added
    }

    /// Takes what there was when the collection was opened, unless that is known.
    pub(super) fn start(&self, before: i64) {
        let _is_known = self.before.set(before);
    }

    /// The collection is new.
    pub(super) fn start_empty(&self) {
        self.start(0);
        self.change();
    }

    /// A transaction that is not committed yet is going to change the count.
    pub fn change(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Whether the count has changed, or was going to, since this was last asked.
    pub(super) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// A commit has added documents, less those that it removed.
    pub fn add(&self, added: i64) {
        self.added.fetch_add(added, Ordering::AcqRel);
    }
}

impl Schema {
    /// The indexes but that of `_id`.
    pub fn others(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| !index.spec.is_id())
    }

    /// How many indexes there are, that of `_id` among them.
    #[must_use]
    pub fn index_count(&self) -> usize {
        self.others().count() + self.damaged.len() + 1
    }

    /// Refuses what would have to maintain an index that is damaged.
    ///
    /// # Errors
    /// `DataCorruptionDetected` (374).
    pub fn check_indexes(&self) -> Result<()> {
        match self.damaged.first() {
            Some(damaged) => Err(Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, damaged.sentence(&self.namespace))),
            None => Ok(()),
        }
    }

    /// Whether there is an index of a name, usable or damaged.
    #[must_use]
    pub fn has_index(&self, name: &str) -> bool {
        self.index(name).is_some() || self.damaged(name).is_some()
    }

    /// The damaged index of a name.
    #[must_use]
    pub fn damaged(&self, name: &str) -> Option<&Arc<DamagedIndex>> {
        self.damaged.iter().find(|index| index.name == name)
    }

    /// The index of a name among those that have tables.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| index.spec.name == name)
    }
}

impl Index {
    /// An index with the multikey paths that the catalog's row has. With `has_ids`, the keys of documents are their
    /// encoded `_id`s.
    #[must_use]
    pub fn new(number: u64, table: Table, spec: IndexSpec, has_ids: bool, ready: bool, multikey: &[u64]) -> Self {
        let bits = |field: usize| multikey.get(field).copied().unwrap_or_default();
        let fields = 0..spec.pattern.fields().len();
        let multikey = fields.map(|field| Multikey { seen: bits(field).into(), stored: bits(field).into() }).collect();
        let paths = spec.pattern.fields().iter().map(|field| Path::new(&field.path)).collect();
        let (ready_at, uses, building) = (SeqNum::default(), Arc::default(), Arc::default());
        Self { number, table, spec, has_ids, ready, ready_at, paths, multikey, uses, building }
    }

    /// Begins the build of an index that no other thread has seen.
    pub(super) fn begin_build(&self) -> IndexBuild {
        IndexBuild { _held: self.building.lock_arc() }
    }

    /// Waits until no thread builds the index: it is ready then, or was dropped, or is what an earlier build has left.
    ///
    /// # Errors
    /// `Interrupted` (11601) and the like, when the thread's operation is to end.
    pub fn wait_for_build(&self) -> Result<()> {
        interrupt::wait(|nap| self.building.try_lock_for(nap)).map(drop)
    }

    /// The same index, ready for snapshots from a change on. No transaction that writes to it may be open.
    #[must_use]
    pub fn to_ready(&self, at: SeqNum) -> Self {
        let ready = Self::new(self.number, self.table.clone(), self.spec.clone(), self.has_ids, true, &[]);
        let (multikey, building) = (Arc::clone(&self.multikey), Arc::clone(&self.building));
        Self { ready_at: at, multikey, building, ..ready }
    }

    /// The same index with other options, which change nothing of its entries. No transaction that writes to it may be
    /// open.
    #[must_use]
    pub fn with_spec(&self, spec: IndexSpec) -> Self {
        let changed = Self::new(self.number, self.table.clone(), spec, self.has_ids, self.ready, &[]);
        let (uses, multikey) = (Arc::clone(&self.uses), Arc::clone(&self.multikey));
        let building = Arc::clone(&self.building);
        Self { ready_at: self.ready_at, uses, multikey, building, ..changed }
    }

    /// For each field, the components of its path that were an array in some document, a bit each from the lowest.
    #[must_use]
    pub fn multikey(&self) -> Vec<u64> {
        self.multikey.iter().map(|bits| bits.seen.load(Ordering::Acquire)).collect()
    }

    /// The bits of one field, as [`Self::multikey`] has them.
    #[must_use]
    pub fn multikey_of(&self, field: usize) -> u64 {
        self.multikey.get(field).map_or(0, |bits| bits.seen.load(Ordering::Acquire))
    }

    /// Whether some document has several keys, or might have.
    #[must_use]
    pub fn is_multikey(&self) -> bool {
        self.multikey.iter().any(|bits| bits.seen.load(Ordering::Acquire) != 0)
    }

    /// Adds the paths of a document that were arrays. Whether the catalog's row lacks one of them, so that the
    /// transaction that writes the document must add it there: another transaction that has added it may still fail.
    #[must_use]
    pub fn see_multikey(&self, found: &[u64]) -> bool {
        let mut lacking = false;
        for (bits, found) in self.multikey.iter().zip(found).filter(|(_, found)| **found != 0) {
            // Released to the readers that plan with these bits before they read the document's entries.
            if bits.seen.load(Ordering::Acquire) & found != *found {
                bits.seen.fetch_or(*found, Ordering::AcqRel);
            }
            lacking |= bits.stored.load(Ordering::Acquire) & found != *found;
        }
        lacking
    }

    /// Notes that the catalog's row has these bits now.
    pub fn stored_multikey(&self, stored: &[u64]) {
        for (bits, stored) in self.multikey.iter().zip(stored) {
            bits.stored.fetch_or(*stored, Ordering::AcqRel);
        }
    }

    /// Whether a document belongs to the index.
    ///
    /// # Errors
    /// Those of the filter of a partial index.
    pub fn takes(&self, document: Document<'_>) -> Result<bool> {
        self.spec.filter.as_ref().map_or(Ok(true), |filter| filter.matches(document))
    }

    /// The wildcard projection.
    #[must_use]
    pub fn projection(&self) -> Option<&DocumentBuf> {
        self.spec.wildcard_projection.as_ref()
    }
}
