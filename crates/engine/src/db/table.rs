//! The handle of a table.

use std::fmt;
use std::sync::Arc;

use arc_swap::Guard;

use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Result, TableId, Value};
use crate::table::Level;
use crate::table::shape::{BTreeShape, LevelShape, RunShape, Shape, ValuesShape};
use crate::table::{TableOptions, Trees, Version, policy};

use super::batch::Batch;
use super::bulk_load::BulkLoad;
use super::compact::Step;
use super::core::{Core, TableState};
use super::database::Database;
use super::key_range::KeyRange;
use super::range::Range;
use super::retry::Retry;

/// What a read needs of a table.
pub(crate) type Reader<'a> = (&'a Arc<TableState>, Guard<Arc<Version>>);

/// A table of an open database. Cheap to clone; keeps the database open.
#[derive(Clone)]
pub struct Table(Arc<Handle>);

/// One for all clones of a handle: each batch has such.
struct Handle {
    db: Database,
    state: Arc<TableState>,
}

impl Table {
    pub(crate) fn new(db: Database, state: Arc<TableState>) -> Self {
        Self(Arc::new(Handle { db, state }))
    }

    /// The table's state, if it belongs to this database and was not dropped.
    pub(crate) fn state_in(&self, core: &Arc<Core>) -> Result<&Arc<TableState>> {
        if !Arc::ptr_eq(self.0.db.core(), core) {
            return Err(Error::invalid(format!("table '{}' belongs to another open database", self.0.state.name)));
        }
        self.0.state.check()?;
        Ok(&self.0.state)
    }

    /// The table's state and what a reader sees of it, if it belongs to this database, which is open, and was not
    /// dropped.
    #[inline]
    pub(crate) fn reader_in(&self, core: &Arc<Core>) -> Result<Reader<'_>> {
        let version = self.0.state.version.load();
        // In this order: a table that is dropped meanwhile, or whose database is closed, is empty only after it says
        // so.
        core.health.check_open()?;
        Ok((self.state_in(core)?, version))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.0.db.core()
    }

    pub(crate) fn state(&self) -> &Arc<TableState> {
        &self.0.state
    }

    fn open_state(&self) -> Result<&Arc<TableState>> {
        self.0.db.core().health.check_open()?;
        self.0.state.check()?;
        Ok(&self.0.state)
    }

    /// The table's id, which changes and log entries name. It is never used for another table.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.0.state.id
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.state.name
    }

    /// The options it was created with.
    #[must_use]
    pub fn options(&self) -> &TableOptions {
        &self.0.state.options
    }

    /// The value of a key, as it is now.
    ///
    /// Reads of several keys that belong together take a [snapshot](Database::snapshot) or a
    /// [transaction](Database::begin).
    ///
    /// # Errors
    /// As [`Snapshot::get`](crate::Snapshot::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.0.db.snapshot().get(self, key)
    }

    /// Whether a key has a value now.
    ///
    /// # Errors
    /// As [`Snapshot::get`](crate::Snapshot::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.0.db.snapshot().contains(self, key)
    }

    /// The entries of a key range as they are now, ascending; `.rev()` makes them descend.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let table = db.open_or_create_table("t", TableOptions::default())?;
    /// for year in 2020..2030_u32 {
    ///     table.put(year.to_be_bytes(), format!("the year {year}"))?;
    /// }
    /// let newest = table.range(..2028_u32.to_be_bytes()).rev().next().transpose()?;
    /// assert_eq!(newest.unwrap().1, *b"the year 2027");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.0.db.snapshot().range(self, range)
    }

    /// The entries whose keys begin with `prefix`, as they are now, ascending.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.0.db.snapshot().prefix(self, prefix)
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    /// As [`Range::advance`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.0.db.snapshot().first(self)
    }

    /// The entry with the largest key.
    ///
    /// # Errors
    /// As [`Range::advance`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.0.db.snapshot().last(self)
    }

    /// Sets a key's value, as a commit of its own, with the database's [durability](crate::Options::durability).
    /// Changes that belong together, and many changes, go into a [`Batch`] or a
    /// [transaction](crate::Transaction).
    ///
    /// # Errors
    /// As [`Database::write`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(|batch| batch.put(self, key, value))
    }

    /// Removes a key, whether it exists or not. See [`Table::put`].
    ///
    /// # Errors
    /// As [`Database::write`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(|batch| batch.delete(self, key))
    }

    /// Removes all keys of a range, as [`Batch::delete_range`] does. See [`Table::put`].
    ///
    /// # Errors
    /// As [`Database::write`].
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.write(|batch| batch.delete_range(self, range))
    }

    /// Merges an operand into a key's value, as [`Batch::merge`] does. See [`Table::put`].
    ///
    /// # Errors
    /// As [`Database::write`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.write(|batch| batch.merge(self, key, operand))
    }

    fn write(&self, fill: impl FnOnce(&mut Batch)) -> Result<()> {
        let mut batch = Batch::new();
        fill(&mut batch);
        batch.commit_owned(&self.0.db, self.0.db.options().durability, None)
    }

    /// Begins a load of entries that come in ascending order of their keys: they go straight to disk, without redo log
    /// and memtable, and all become visible at once. See [`BulkLoad`].
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `Invalid` when the table was dropped.
    pub fn bulk_load(&self) -> Result<BulkLoad<'_>> {
        BulkLoad::new(self.0.db.core(), self.open_state()?)
    }

    /// Writes the table's memtables to disk and returns when they are there: durably, also those of an unlogged table.
    ///
    /// # Errors
    /// `Io`, `Full`, `Poisoned`, `Closed`.
    pub fn flush(&self) -> Result<()> {
        self.0.db.core().flush_all(self.open_state()?)
    }

    /// Flushes, then merges everything into one tree: a single sorted sequence in the last level, or a B-tree of full
    /// leaves. Drops what no snapshot sees, and reclaims the space of dead values that are kept apart.
    ///
    /// # Errors
    /// `Io`, `Full`, `Corruption`, `Poisoned`, `Closed`.
    pub fn compact(&self) -> Result<()> {
        self.0.db.core().compact_all(self.open_state()?)
    }

    /// Merges all runs of a level into the next level below that holds any, and returns when that is done: level 0 is
    /// L0, the others have the numbers that [`Table::shape`] shows. So a table can be put into a wanted shape. With
    /// [`Layout::Lsm`](crate::Layout::Lsm) L0 goes into the first level that its layout uses now, with
    /// [`Layout::LsmTiered`](crate::Layout::LsmTiered) into the next older sorted sequence. A level that is empty, or
    /// has nothing below it, stays as it is; memtables do too (see [`Table::flush`]). What the layout wants next it
    /// does in the background, unless that is [held](Table::hold).
    ///
    /// ```
    /// # fn main() -> spinney::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = spinney::Database::open(dir.path().join("db"), spinney::Options::default())?;
    /// let table = db.create_table("t", spinney::TableOptions::default())?;
    /// table.hold()?;
    /// for key in [b"a", b"b"] {
    ///     let mut batch = spinney::Batch::new();
    ///     batch.put(&table, key, b"value");
    ///     db.write_with(&batch, spinney::Durability::Buffered)?;
    ///     table.flush()?;
    /// }
    /// assert_eq!(table.shape()?.l0.len(), 2);
    /// table.compact_level(0)?;
    /// let shape = table.shape()?;
    /// assert_eq!((shape.l0.len(), shape.levels.len()), (0, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Unsupported` for a B-tree, which has no levels; `Invalid` when no level can have that number; `Io`, `Full`,
    /// `Corruption`, `Poisoned`, `Closed`.
    pub fn compact_level(&self, level: usize) -> Result<()> {
        self.0.db.core().compact_level(self.open_state()?, level)
    }

    /// From now on no compaction of the table begins by itself, until [`Table::release`] or the database is closed: the
    /// shape changes by flushes and by the verbs of this handle only. Returns when a compaction that is under way has
    /// ended. Meanwhile runs gather in L0 and reads have more to search; writers are not slowed for it. To hold a table
    /// twice is to hold it once.
    ///
    /// ```
    /// # fn main() -> spinney::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = spinney::Database::open(dir.path().join("db"), spinney::Options::default())?;
    /// # let table = db.create_table("t", spinney::TableOptions::default())?;
    /// table.hold()?;
    /// for round in 0..20_u8 {
    ///     let mut batch = spinney::Batch::new();
    ///     batch.put(&table, b"key", &[round]);
    ///     db.write_with(&batch, spinney::Durability::Buffered)?;
    ///     table.flush()?;
    /// }
    /// let shape = table.shape()?;
    /// assert!(shape.held && shape.l0.len() == 20);
    /// table.release()?;
    /// table.wait_idle()?;
    /// assert!(table.shape()?.l0.len() < 20);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed`, `Invalid` when the table was dropped.
    pub fn hold(&self) -> Result<()> {
        self.0.db.core().hold(self.open_state()?, true);
        Ok(())
    }

    /// Lets the compactions of a table that was [held](Table::hold) go on. See there for an example.
    ///
    /// # Errors
    /// `Closed`, `Invalid` when the table was dropped.
    pub fn release(&self) -> Result<()> {
        self.0.db.core().hold(self.open_state()?, false);
        Ok(())
    }

    /// Returns when no flush or compaction is due any more; helps with the work. Compactions of a table that is
    /// [held](Table::hold) are not due.
    ///
    /// ```
    /// # fn main() -> spinney::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = spinney::Database::open(dir.path().join("db"), spinney::Options::default())?;
    /// # let table = db.create_table("t", spinney::TableOptions::default())?;
    /// let mut batch = spinney::Batch::new();
    /// (0..1000_u32).for_each(|key| batch.put(&table, &key.to_be_bytes(), b"value"));
    /// db.write_with(&batch, spinney::Durability::Buffered)?;
    /// table.wait_idle()?;
    /// assert_eq!(table.shape()?.immutable_memtables, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Io`, `Full`, `Corruption`, `Poisoned`, `Closed`.
    pub fn wait_idle(&self) -> Result<()> {
        let core = self.0.db.core();
        let state = self.open_state()?;
        core.flush(state)?;
        [&state.compaction_retry, &state.merge_retry].into_iter().for_each(Retry::end_rest);
        loop {
            match core.compact_step(state)? {
                Step::Done => {}
                Step::NoRoom(bytes) => {
                    let message = format!(
                        "table '{}': a compaction is due and needs {bytes} bytes more of free space",
                        state.name
                    );
                    return Err(Error::new(ErrorKind::Full, message));
                }
                Step::Nothing if !core.memory.is_pressed() && core.paid_step(state)? => {}
                Step::Nothing => return state.merge_retry.check(),
            }
        }
    }

    /// The trees that the table has now.
    ///
    /// ```
    /// # fn main() -> spinney::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = spinney::Database::open(dir.path().join("db"), spinney::Options::default())?;
    /// # let table = db.create_table("t", spinney::TableOptions::default())?;
    /// table.hold()?;
    /// for key in [b"a", b"b", b"c"] {
    ///     let mut batch = spinney::Batch::new();
    ///     batch.put(&table, key, b"value");
    ///     db.write_with(&batch, spinney::Durability::Buffered)?;
    ///     table.flush()?;
    /// }
    /// // Three runs, and no key that can lie in two of them.
    /// let shape = table.shape()?;
    /// assert_eq!((shape.trees, shape.trees_of_get), (3, 1));
    /// table.compact()?;
    /// assert_eq!(table.shape()?.trees, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed`, `Invalid` when the table was dropped.
    pub fn shape(&self) -> Result<Shape> {
        let state = self.open_state()?;
        let version = state.version.load();
        let trees = &version.trees;
        let targets = policy::targets(trees, &state.options);
        let level = |index: usize, level: &Level| LevelShape {
            level: u64_of(index + 1),
            runs: u64_of(level.runs.len()),
            bytes: level.bytes(),
            entries: level.runs.iter().map(|run| run.meta().entries).sum(),
            target_bytes: if targets[index] == u64::MAX { 0 } else { targets[index] },
        };
        let levels = trees.levels.iter().enumerate().filter(|(_, level)| !level.runs.is_empty());
        let in_memory = version.memtables().filter(|mem| !mem.entries.is_empty()).count();
        let run = |handle: &crate::table::RunHandle| RunShape {
            bytes: handle.run.meta().bytes,
            entries: handle.run.meta().entries,
        };
        Ok(Shape {
            table: state.name.clone(),
            layout: state.options.layout.name().to_owned(),
            memtable_entries: version.active.entries.entries(),
            memtable_bytes: u64_of(version.active.entries.bytes()),
            immutable_memtables: u64_of(version.immutables.len()),
            immutable_bytes: version.immutables.iter().map(|mem| u64_of(mem.entries.bytes())).sum(),
            l0: trees.l0.iter().map(run).collect(),
            levels: levels.map(|(index, found)| level(index, found)).collect(),
            btree: trees.btree.as_ref().map(|root| btree_shape(root.meta())),
            values: values_shape(trees),
            range_tombstones: u64_of(version.range_tombstones.len()),
            trees: u64_of(trees.count() + in_memory),
            trees_of_get: u64_of(trees.overlap() + in_memory),
            viewed: version.view.as_ref().map_or(0, |view| u64_of(view.count())),
            held: !state.compacts_itself(),
        })
    }
}

/// The value files of a table.
pub(super) fn values_shape(trees: &Trees) -> ValuesShape {
    let bytes = policy::ValueBytes::of(trees);
    ValuesShape { files: u64_of(trees.values.iter().count()), bytes: bytes.total, live_bytes: bytes.live }
}

fn btree_shape(meta: &crate::tree::btree::TreeMeta) -> BTreeShape {
    BTreeShape {
        height: u64::from(meta.height),
        leaves: meta.leaves,
        branches: meta.branches,
        entries: meta.entries,
        file_bytes: meta.file_bytes,
        free_bytes: meta.free_bytes,
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.0.state.name)
            .field("layout", &self.0.state.options.layout)
            .finish_non_exhaustive()
    }
}
