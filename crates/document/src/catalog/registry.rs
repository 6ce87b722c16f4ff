//! The catalog of a database that is open, and its changes.
//!
//! # Concurrency
//! A change of a collection first takes the lock of that collection, which may take as long as its transactions do.
//! Inside it `changing` is held by each change from its checks to its end, so changes are one after the other, and none
//! waits for the transactions of another one's collection. Inside that `arrivals`, and then, shortly, the names are
//! locked. A rename that replaces a collection locks the two in the order of their numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};
use spinney::{Durability, Layout, Table, TableOptions, Transaction};

use super::committer::{Applied, Committer, Pending};
use super::counts::Counts;
use super::index_spec::{IndexSpec, StorageSpec};
use super::names::{Entry, Names};
use super::namespace::Namespace;
use super::options::CollectionOptions;
use super::own::{Own, is_own_number, refuse_own};
use super::record::{Past, Recorder, database_event, event, is_record};
use super::row::{self, Expected, NUMBER_KEY};
use super::state::{CollectionState, Index, Schema};
use super::tables::{CATALOG, collection_table, index_table, table_number, table_options};
use crate::base::{Environment, Error, ErrorCode, Result, interrupt};
use crate::bson::{DocumentBuf, Timestamp};
use crate::collation::Collated;
use crate::notes::Note;

/// How many milliseconds a change of a collection waits for transactions, unless set otherwise.
const CHANGE_WAIT_MS: u64 = 10_000;

/// What the names of collections begin with that are filled to replace others. They are dropped at open.
pub(super) const TEMPORARY_PREFIX: &str = "tmp.agg_out.";

/// Held by the only change of the catalog that is under way.
pub(super) type Changing<'c> = MutexGuard<'c, ()>;

/// The next number of a table, as its row has it, but one that no table and no count has at the least: where the row is
/// missing or malformed, it is found by them.
pub(super) fn next_number(engine: &spinney::Database, table: &Table) -> Result<u64> {
    let stored = table.get(NUMBER_KEY)?.and_then(|bytes| bytes.first_chunk().copied());
    if let Some(stored) = stored {
        return Ok(u64::from_le_bytes(stored));
    }
    let mut next = 1;
    for known in engine.tables()? {
        next = next.max(table_number(known.name()).map_or(0, |number| number + 1));
    }
    Ok(next)
}

/// Those of some tables that the engine has. The table of a damaged collection or index may be what is missing.
pub(super) fn known_tables<'n, N: AsRef<str>>(engine: &spinney::Database, names: &'n [N]) -> Result<Vec<&'n str>> {
    let mut known = Vec::with_capacity(names.len());
    for name in names {
        if engine.table(name.as_ref())?.is_some() {
            known.push(name.as_ref());
        }
    }
    Ok(known)
}

/// All collections, views and indexes.
#[derive(Debug)]
pub struct Catalog {
    engine: spinney::Database,
    pub(super) table: Table,
    environment: Arc<dyn Environment>,
    /// What commits in place of the engine.
    committer: Option<Arc<dyn Committer>>,
    pub(super) names: RwLock<Names>,
    /// Held by a change from its checks to its end: see [`Self::begin_change`].
    changing: Mutex<()>,
    /// A number that no table has had.
    pub(super) next: AtomicU64,
    /// Held from before the row of a new name is committed to when `names` has it. Nothing else is waited for within it
    /// but the commit.
    pub(super) arrivals: Mutex<()>,
    pub(super) own: Mutex<Own>,
    /// How many milliseconds a change of a collection waits for transactions. It orders nothing.
    change_wait_ms: AtomicU64,
    /// How many transactions are open that lock what they write.
    locking: Arc<AtomicUsize>,
    recorder: Recorder,
    pub(super) counts: Counts,
    /// Collections, and what counts the commits of other members that change them.
    pub(super) watched: Mutex<Vec<(Namespace, Arc<AtomicU64>)>>,
}

impl Drop for Catalog {
    fn drop(&mut self) {
        self.store_last_counts();
        self.recorder.store_last_notes(&self.engine, &self.table, self.random());
    }
}

impl Catalog {
    /// Reads the catalog of a database, and drops the tables that a crash has left without a row, and indexes that were
    /// not built to their end. With a committer that is left to [`Self::clean_up`].
    ///
    /// # Errors
    /// Those of the engine; `NamespaceNotFound` (26) for a database without documents that is open for reading only. A
    /// row that cannot be used fails no start: see [`Self::damages`].
    pub fn open(
        engine: spinney::Database,
        environment: Arc<dyn Environment>,
        committer: Option<Arc<dyn Committer>>,
    ) -> Result<Self> {
        let read_only = engine.is_read_only();
        let table = match engine.table(CATALOG)? {
            Some(table) => table,
            None if read_only => {
                let what = format!("{} has no documents", engine.path().display());
                return Err(Error::new(ErrorCode::NAMESPACE_NOT_FOUND, what));
            }
            None => engine.open_or_create_table(CATALOG, TableOptions::default().layout(Layout::BTree))?,
        };
        let next = next_number(&engine, &table)?;
        let mut rows = Vec::new();
        let mut entries = table.range(..);
        while let Some((key, value)) = entries.advance()? {
            if key != NUMBER_KEY && !is_record(key) {
                rows.push((key.to_vec(), value.to_vec()));
            }
        }
        drop(entries);
        let names = RwLock::default();
        let recorder = Recorder::open(&engine, &table, &environment, committer.is_some())?;
        let (changing, locking) = (Mutex::default(), Arc::default());
        let catalog = Self {
            engine,
            table,
            environment,
            committer,
            names,
            changing,
            next: AtomicU64::new(next),
            arrivals: Mutex::default(),
            own: Mutex::default(),
            change_wait_ms: AtomicU64::new(CHANGE_WAIT_MS),
            locking,
            recorder,
            counts: Counts::default(),
            watched: Mutex::default(),
        };
        let tables = catalog.load_rows(rows)?;
        catalog.recover_counts()?;
        catalog.open_own()?;
        if !read_only {
            catalog.drop_left(tables.as_ref())?;
        }
        Ok(catalog)
    }

    /// Begins a change, which is the only one until the answer is dropped. What takes long is waited for before.
    ///
    /// # Errors
    /// `Interrupted` (11601) and the like, when the thread's operation is to end.
    pub(super) fn begin_change(&self) -> Result<Changing<'_>> {
        interrupt::wait(|nap| self.changing.try_lock_for(nap))
    }

    /// Changes the schema of a collection while no transaction that writes to it is open.
    ///
    /// # Errors
    /// Those of [`CollectionState::change`], [`Self::begin_change`] and `change`.
    pub(super) fn change<T>(
        &self,
        state: &CollectionState,
        change: impl FnOnce(&Schema) -> Result<(Schema, T)>,
    ) -> Result<T> {
        state.change(self.change_wait(), |schema| {
            let _changing = self.begin_change()?;
            change(schema)
        })
    }

    /// A transaction of the engine, whose waits for locks end with the thread's operation.
    #[must_use]
    pub fn begin(&self) -> Transaction {
        let mut txn = self.engine.begin();
        txn.set_lock_check(|| interrupt::check().is_ok());
        txn
    }

    /// Commits a transaction by the committer, or else by the engine. See [`Pending`] for what `applied` is.
    ///
    /// # Errors
    /// `WriteConflict` (112); those of the committer and of the engine.
    pub fn commit_transaction(
        &self,
        txn: Transaction,
        durability: Option<Durability>,
        applied: Option<Applied>,
    ) -> Result<()> {
        // Where nothing is written there is nothing to agree on.
        if let Some(committer) = self.committer.as_ref().filter(|_| txn.has_writes()) {
            let commit = Pending::new(txn, durability, applied);
            let fate = commit.fate();
            return match committer.commit(commit) {
                // Unless it was applied meanwhile.
                Err(error) if fate.abandon() => Err(error),
                _ => Ok(()),
            };
        }
        match durability {
            Some(durability) => txn.commit_with(durability)?,
            None => txn.commit()?,
        }
        applied.into_iter().for_each(|applied| applied());
        Ok(())
    }

    /// What commits in place of the engine.
    #[must_use]
    pub const fn committer(&self) -> Option<&Arc<dyn Committer>> {
        self.committer.as_ref()
    }

    pub(super) fn create_table(&self, name: &str, storage: StorageSpec) -> Result<Table> {
        match &self.committer {
            Some(committer) => committer.create_table(name, storage.layout),
            None => Ok(self.engine.create_table(name, table_options(storage.layout))?),
        }
    }

    pub(super) fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_tables(&[name.to_owned()])
    }

    /// Drops tables at once.
    pub(super) fn drop_tables(&self, names: &[String]) -> Result<()> {
        match &self.committer {
            _ if names.is_empty() => Ok(()),
            Some(committer) => committer.drop_tables(names),
            None => match known_tables(&self.engine, names)? {
                known if known.is_empty() => Ok(()),
                known => Ok(self.engine.drop_tables(known)?),
            },
        }
    }

    /// A table that a row of the catalog names.
    pub(super) fn table_of(&self, namespace: &Namespace, name: &str) -> Result<Table> {
        self.engine.table(name)?.ok_or_else(|| row::corrupt(namespace.as_str(), name))
    }

    /// The engine's database.
    #[must_use]
    pub fn engine(&self) -> &spinney::Database {
        &self.engine
    }

    /// How many transactions are open that lock what they write.
    #[must_use]
    pub const fn locking(&self) -> &Arc<AtomicUsize> {
        &self.locking
    }

    /// What gives commits their times, and tells readers of the log what collections were called.
    #[must_use]
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// What a namespace names.
    #[must_use]
    pub fn find(&self, namespace: &Namespace) -> Option<Entry> {
        self.names.read().get(namespace).cloned()
    }

    /// The collation of a collection or view.
    #[must_use]
    pub fn collation(&self, namespace: &Namespace) -> Collated {
        self.names.read().get(namespace)?.collation()
    }

    /// All names of a database, or of all databases, in their order.
    #[must_use]
    pub fn list(&self, database: Option<&str>) -> Vec<(Namespace, Entry)> {
        let names = self.names.read();
        let owned = |(name, entry): (&Namespace, &Entry)| (name.clone(), entry.clone());
        match database {
            Some(database) => names.of_database(database).map(owned).collect(),
            None => names.iter().map(owned).collect(),
        }
    }

    /// The names of the databases.
    #[must_use]
    pub fn databases(&self) -> Vec<String> {
        self.names.read().databases()
    }

    /// The collection with a number.
    #[must_use]
    pub fn by_number(&self, number: u64) -> Option<Arc<CollectionState>> {
        self.names.read().by_number(number).cloned()
    }

    /// Creates a collection or a view, unless there is one with the same options.
    ///
    /// # Errors
    /// `NamespaceExists` (48) when there is one with other options; `DatabaseDifferCase` (13297); those of the engine.
    pub fn create(&self, namespace: &Namespace, options: CollectionOptions) -> Result<Entry> {
        if self.is_created_own(namespace) {
            return self.create_own(namespace, options);
        }
        let _changing = self.begin_change()?;
        let _arriving = self.arrivals()?;
        if let Some(entry) = self.find(namespace).filter(|entry| entry.has_options(&options)) {
            return Ok(entry);
        }
        self.check_new(namespace)?;
        let entry = if options.view.is_some() {
            let uuid = self.new_uuid();
            let row = row::encode_view(uuid, &options);
            let created = created_event(namespace, uuid, &options);
            self.commit(Some(created), |txn, _| self.add_row(txn, namespace, &row))?;
            Entry::View(Arc::new(options))
        } else {
            let (state, created) = self.make(namespace, options)?;
            let row = row::encode(state.number, &state.schema());
            self.commit(Some(created), |txn, _| self.add_row(txn, namespace, &row))?;
            Entry::Collection(state)
        };
        self.names.write().insert(namespace.clone(), entry.clone());
        Ok(entry)
    }

    /// The tables of a new collection, which no row names yet, and the event that tells of it.
    pub(super) fn make(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<(Arc<CollectionState>, DocumentBuf)> {
        let uuid = self.new_uuid();
        let created = created_event(namespace, uuid, &options);
        let number = self.take_number()?;
        let table = self.create_table(&collection_table(number), options.storage)?;
        let mut schema = Schema {
            namespace: namespace.clone(),
            uuid,
            options,
            indexes: Vec::new(),
            damaged: Vec::new(),
            dropped: false,
        };
        if schema.options.capped.is_some() {
            let (number, spec) = (self.take_number()?, IndexSpec::of_id(schema.options.collation.as_deref()));
            let table = self.create_table(&index_table(number), schema.options.storage)?;
            schema.indexes.push(Arc::new(Index::new(number, table, spec, false, true, &[])));
        }
        let state = CollectionState::new(number, table, schema);
        state.documents.start_empty();
        Ok((Arc::new(state), created))
    }

    /// Creates a collection that is filled to replace another one of a database. It is dropped at open.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn create_temporary(
        &self,
        database: &str,
        options: CollectionOptions,
    ) -> Result<(Namespace, Arc<CollectionState>)> {
        let name = Namespace::new(database, &format!("{TEMPORARY_PREFIX}{:016x}", self.environment.random()))?;
        match self.create(&name, options)? {
            Entry::Collection(state) => Ok((name, state)),
            Entry::View(_) | Entry::Damaged(_) => {
                Err(Error::new(ErrorCode::INTERNAL_ERROR, "a temporary collection is a view"))
            }
        }
    }

    /// Gives a view other options.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26) when there is no such view; those of the engine.
    pub fn replace_view(&self, namespace: &Namespace, options: CollectionOptions) -> Result<()> {
        let _changing = self.begin_change()?;
        if !matches!(self.find(namespace), Some(Entry::View(_))) {
            return Err(not_found(&format!("view {namespace} does not exist")));
        }
        let row = row::encode_view(self.new_uuid(), &options);
        self.commit(None, |txn, _| self.change_view_row(txn, namespace, &row))?;
        self.names.write().insert(namespace.clone(), Entry::View(Arc::new(options)));
        Ok(())
    }

    /// How long a change of a collection waits for the transactions that write to it: 10 seconds by default.
    pub fn change_wait(&self) -> Duration {
        Duration::from_millis(self.change_wait_ms.load(Ordering::Relaxed))
    }

    /// Changes [`Self::change_wait`], from the next change on.
    pub fn set_change_wait(&self, ms: u64) {
        self.change_wait_ms.store(ms, Ordering::Relaxed);
    }

    /// Drops a collection or view; whether there was one.
    ///
    /// # Errors
    /// `LockTimeout` (24) while a transaction writes to the collection; those of the engine.
    pub fn drop_namespace(&self, namespace: &Namespace) -> Result<bool> {
        loop {
            let Some(entry) = self.find(namespace) else { return Ok(false) };
            if let Some(tables) = self.drop_entry(namespace, &entry)? {
                self.drop_tables(&tables)?;
                return Ok(true);
            }
        }
    }

    /// Drops what a namespace named a moment ago, and returns the tables that nothing names any more; nothing when the
    /// name means something else by now.
    fn drop_entry(&self, namespace: &Namespace, entry: &Entry) -> Result<Option<Vec<String>>> {
        let state = match entry {
            Entry::Collection(state) if is_own_number(state.number) => {
                return self.drop_own(namespace, state).map(|()| Some(Vec::new()));
            }
            Entry::Damaged(damage) if damage.is_own => {
                return self.drop_own_row(namespace).map(|()| Some(Vec::new()));
            }
            Entry::Collection(state) => state,
            Entry::View(_) | Entry::Damaged(_) => return self.drop_alone(namespace, entry),
        };
        let gone = state.change(self.change_wait(), |schema| {
            if schema.namespace != *namespace {
                return Err(not_found(&format!("ns does not exist: {namespace}")));
            }
            let changing = self.begin_change()?;
            let told = event("drop", namespace.as_str(), schema.uuid).finish();
            let until = self.commit(Some(told), |txn, until| {
                self.put_past(txn.makes_room(), state, schema, until)?;
                self.remove_row(txn, namespace, Expected::Collection(state.number, &schema.uuid))
            })?;
            self.recorder.ended(past_of(state, schema, until));
            Ok((dropped(schema), (tables_of(state, schema), changing)))
        });
        match gone {
            Ok((tables, _changing)) => {
                self.names.write().remove(namespace);
                Ok(Some(tables))
            }
            // Dropped or renamed while its lock was waited for.
            Err(error) if error.code() == ErrorCode::NAMESPACE_NOT_FOUND && !self.is_still(namespace, entry) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// As [`Self::drop_entry`], of what no transaction writes to.
    fn drop_alone(&self, namespace: &Namespace, entry: &Entry) -> Result<Option<Vec<String>>> {
        let _changing = self.begin_change()?;
        if !self.is_still(namespace, entry) {
            return Ok(None);
        }
        let tables = match entry {
            Entry::Damaged(damage) => {
                self.commit(None, |txn, _| self.remove_row(txn.makes_room(), namespace, Expected::Any))?;
                damage.tables().cloned().unwrap_or_default()
            }
            Entry::View(_) | Entry::Collection(_) => {
                self.commit(None, |txn, _| self.remove_row(txn, namespace, Expected::View))?;
                Vec::new()
            }
        };
        self.names.write().remove(namespace);
        Ok(Some(tables))
    }

    /// Whether a name means what it meant before.
    pub(super) fn is_still(&self, namespace: &Namespace, entry: &Entry) -> bool {
        match (self.find(namespace), entry) {
            (Some(Entry::Collection(now)), Entry::Collection(before)) => Arc::ptr_eq(&now, before),
            (Some(Entry::View(_)), Entry::View(_)) | (Some(Entry::Damaged(_)), Entry::Damaged(_)) => true,
            _ => false,
        }
    }

    /// Gives a collection another name, in the same database or another.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26); `NamespaceExists` (48) when the new name is taken and `drop_target` is not set;
    /// `CommandNotSupportedOnView` (166); those of the engine.
    pub fn rename(&self, from: &Namespace, to: &Namespace, drop_target: bool) -> Result<()> {
        let state = match self.find(from) {
            Some(Entry::Collection(state)) => state,
            Some(Entry::View(_)) => {
                let what = format!("cannot rename view: {from}");
                return Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW, what));
            }
            Some(Entry::Damaged(damage)) => return Err(damage.error()),
            None => return Err(not_found(&format!("Source collection {from} does not exist"))),
        };
        if from == to {
            return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, "Can't rename a collection to itself"));
        }
        refuse_own(&state, "a change of the name")?;
        if self.is_created_own(to) {
            let what = format!("{to} is not possible as a name: each member has a collection of this name for itself");
            return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
        }
        let target = self.find(to).filter(|_| drop_target);
        if target.is_none() {
            self.check_new(to).map_err(target_exists)?;
        }
        // The row of the new name replaces that of the target, if there is one, in the same commit.
        match target {
            Some(Entry::Collection(target)) if target.number < state.number => {
                self.rename_over(&state, from, &target, to, || Ok(()))
            }
            Some(Entry::Collection(target)) => {
                let tables = state.change(self.change_wait(), |schema| {
                    target.change(self.change_wait(), |replaced| {
                        let renamed = self.rename_row((&state, schema), from, to, Some((&target, replaced)))?;
                        Ok((dropped(replaced), (renamed, tables_of(&target, replaced))))
                    })
                })?;
                self.drop_tables(&tables)
            }
            Some(Entry::Damaged(damage)) => Err(damage.error()),
            _ => {
                state.change(self.change_wait(), |schema| Ok((self.rename_row((&state, schema), from, to, None)?, ())))
            }
        }
    }

    /// Fills a collection while no transaction writes to another one, and then puts it in the place of that.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26); what `fill` says; those of the engine.
    pub fn replace(&self, with: &Namespace, name: &Namespace, fill: impl FnOnce() -> Result<()>) -> Result<()> {
        match (self.find(with), self.find(name)) {
            (Some(Entry::Collection(state)), Some(Entry::Collection(target))) => {
                refuse_own(&target, "a replacement")?;
                self.rename_over(&state, with, &target, name, fill)
            }
            _ => Err(not_found(&format!("ns does not exist: {name}"))),
        }
    }

    /// Renames a collection to the name of another one, which is dropped.
    fn rename_over(
        &self,
        state: &Arc<CollectionState>,
        from: &Namespace,
        target: &Arc<CollectionState>,
        to: &Namespace,
        before: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let tables: Vec<String> = target.change(self.change_wait(), |replaced| {
            before()?;
            state.change(self.change_wait(), |schema| {
                Ok((self.rename_row((state, schema), from, to, Some((target, replaced)))?, ()))
            })?;
            Ok((dropped(replaced), tables_of(target, replaced)))
        })?;
        self.drop_tables(&tables)
    }

    /// Commits the new name of a collection, of which and of what it replaces no transaction is open; the schema with
    /// the new name.
    fn rename_row(
        &self,
        (state, schema): (&Arc<CollectionState>, &Schema),
        from: &Namespace,
        to: &Namespace,
        replaced: Option<(&Arc<CollectionState>, &Schema)>,
    ) -> Result<Schema> {
        let _changing = self.begin_change()?;
        let _arriving = self.arrivals()?;
        // What was found before the locks were waited for.
        if schema.namespace != *from || replaced.is_some_and(|(_, target)| target.namespace != *to) {
            return Err(not_found(&format!("a collection was renamed while it was to be renamed: {from} to {to}")));
        }
        if replaced.is_none() {
            self.check_new(to).map_err(target_exists)?;
        }
        let renamed = Schema { namespace: to.clone(), ..schema.clone() };
        let mut told = event("rename", from.as_str(), schema.uuid);
        told.append("to", to.as_str());
        if let Some((_, target)) = replaced {
            told.append("dropTarget", crate::bson::Value::Binary(4, &target.uuid));
        }
        let until = self.commit(Some(told.finish()), |txn, until| {
            for (state, schema) in replaced.into_iter().chain([(state, schema)]) {
                self.put_past(txn, state, schema, until)?;
            }
            match replaced {
                Some((target, schema)) => {
                    self.remove_row(txn, to, Expected::Collection(target.number, &schema.uuid))?;
                }
                None => self.check_no_row(txn, to)?,
            }
            self.change_row(txn, state.number, (schema, &renamed))
        })?;
        for (state, schema) in replaced.into_iter().chain([(state, schema)]) {
            self.recorder.ended(past_of(state, schema, until));
        }
        let mut names = self.names.write();
        names.remove(from);
        names.insert(to.clone(), Entry::Collection(Arc::clone(state)));
        Ok(renamed)
    }

    /// Changes options of a collection or its indexes, but neither which indexes there are nor what is in them.
    ///
    /// # Errors
    /// What `change` says; those of [`CollectionState::change`] and of the engine.
    pub fn modify(&self, state: &CollectionState, change: impl FnOnce(&mut Schema) -> Result<()>) -> Result<()> {
        if is_own_number(state.number) {
            return self.modify_own(state, change);
        }
        self.change(state, |schema| {
            let mut changed = schema.clone();
            change(&mut changed)?;
            let mut told = event("modify", schema.namespace.as_str(), schema.uuid);
            told.append("operationDescription", changed.options.document());
            told.append("stateBeforeChange", schema.options.document());
            self.put_row(state.number, (schema, &changed), Some(told.finish()))?;
            Ok((changed, ()))
        })
    }

    /// Reports to readers of the log that a whole database was dropped.
    pub(super) fn database_dropped(&self, database: &str) -> Result<()> {
        let _changing = self.begin_change()?;
        // Written as it is: a set agrees on no commit that writes nothing.
        let number = self.next.load(Ordering::Relaxed).to_le_bytes();
        let told = Some(database_event("dropDatabase", database));
        self.commit(told, |txn, _| Ok(txn.makes_room().put(&self.table, NUMBER_KEY, number)?)).map(drop)
    }

    pub(super) fn put_past(
        &self,
        txn: &mut Transaction,
        state: &CollectionState,
        schema: &Schema,
        until: Timestamp,
    ) -> Result<()> {
        if !self.recorder.is_on() {
            return Ok(());
        }
        Ok(Recorder::put_past(txn, &self.table, &past_of(state, schema, until))?)
    }

    pub(super) fn check_new(&self, namespace: &Namespace) -> Result<()> {
        let names = self.names.read();
        match names.get(namespace) {
            None => {}
            Some(Entry::Damaged(damage)) => return Err(damage.error()),
            Some(_) => {
                let what = format!("Collection {namespace} already exists.");
                return Err(Error::new(ErrorCode::NAMESPACE_EXISTS, what));
            }
        }
        let wanted = namespace.database();
        if let Some(other) = names.alike(wanted) {
            let what =
                format!("db already exists with different case already have: [{other}] trying to create [{wanted}]");
            return Err(Error::new(ErrorCode::DATABASE_DIFFER_CASE, what));
        }
        Ok(())
    }

    /// A number that no table has had. It is durable with the row that is put next, or never seen.
    pub(super) fn take_number(&self) -> Result<u64> {
        // Relaxed: only changed while `changing` is held, or no change of this process is under way.
        let number = self.next.load(Ordering::Relaxed);
        self.commit(None, |txn, _| Ok(txn.put(&self.table, NUMBER_KEY, (number + 1).to_le_bytes())?))?;
        self.next.store(number + 1, Ordering::Relaxed);
        Ok(number)
    }

    /// The next number of a table, as the catalog's row has it.
    pub(super) fn stored_number(&self) -> Result<u64> {
        next_number(&self.engine, &self.table)
    }

    pub(super) fn random(&self) -> u64 {
        self.environment.random()
    }

    pub(super) fn new_uuid(&self) -> [u8; 16] {
        let bits = u128::from(self.environment.random()) << 64 | u128::from(self.environment.random());
        // Version 4, variant 1.
        let bits = bits & !(0xF << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
        bits.to_be_bytes()
    }

    /// Makes the row of a collection that of its schema after a change.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26) when the collection has no row any more.
    pub(super) fn put_row(&self, number: u64, schemas: (&Schema, &Schema), event: Option<DocumentBuf>) -> Result<()> {
        self.commit(event, |txn, _| self.change_row(txn, number, schemas)).map(drop)
    }

    /// Commits a change of the catalog durably, with a note of it, and returns a time just before its own, which is
    /// later than what is written to the collections that it locks. A write of multikey paths may be in the way, which
    /// is then tried again.
    pub(super) fn commit(
        &self,
        event: Option<DocumentBuf>,
        write: impl FnMut(&mut Transaction, Timestamp) -> Result<()>,
    ) -> Result<Timestamp> {
        self.commit_events(&event.into_iter().collect::<Vec<_>>(), write)
    }

    /// As [`Self::commit`], with a note of several changes.
    pub(super) fn commit_events(
        &self,
        events: &[DocumentBuf],
        mut write: impl FnMut(&mut Transaction, Timestamp) -> Result<()>,
    ) -> Result<Timestamp> {
        loop {
            let mut txn = self.begin();
            let time = self.recorder.tick();
            write(&mut txn, time)?;
            if self.recorder.is_on() && !events.is_empty() {
                self.recorder.note(&mut txn, &Note { time: Some(time), events: events.to_vec(), ..Note::default() });
            }
            match self.commit_transaction(txn, Some(Durability::Sync), None) {
                Err(error) if error.is_conflict() => interrupt::check()?,
                committed => return committed.map(|()| time),
            }
        }
    }
}

fn created_event(namespace: &Namespace, uuid: [u8; 16], options: &CollectionOptions) -> DocumentBuf {
    let mut created = event("create", namespace.as_str(), uuid);
    created.append("operationDescription", options.document());
    created.finish()
}

/// The schema of a collection that was dropped.
pub(super) fn dropped(schema: &Schema) -> Schema {
    Schema { dropped: true, ..schema.clone() }
}

fn target_exists(error: Error) -> Error {
    match error.code() {
        ErrorCode::NAMESPACE_EXISTS => Error::new(ErrorCode::NAMESPACE_EXISTS, "target namespace exists"),
        _ => error,
    }
}

pub(super) fn past_of(state: &CollectionState, schema: &Schema, until: Timestamp) -> Past {
    Past {
        table: state.table.id(),
        number: state.number,
        uuid: schema.uuid,
        namespace: schema.namespace.as_str().to_owned(),
        until,
    }
}

/// The tables of a collection and its indexes.
pub(super) fn tables_of(state: &CollectionState, schema: &Schema) -> Vec<String> {
    let damaged = schema.damaged.iter().map(|index| index.number);
    let indexes = schema.indexes.iter().map(|index| index.number).chain(damaged).map(index_table);
    indexes.chain([collection_table(state.number)]).collect()
}

pub(super) fn not_found(what: &str) -> Error {
    Error::new(ErrorCode::NAMESPACE_NOT_FOUND, what)
}
