//! What users call of a table.

use std::sync::Arc;

use crate::base::{Error, Result, TableId, Value};
use crate::table::TableOptions;
use crate::table::shape::{IndexShape, Shape};

use super::batch::Batch;
use super::bulk_load::BulkLoad;
use super::key_range::KeyRange;
use super::range::Range;
use super::shape::{index_shape_of, shape_of};
use super::snapshot::Snapshot;
use super::table_handle::Table;

impl Table {
    /// The table's id, which changes and log entries name. It is never used for another table.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.state().id
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state().name
    }

    /// The options it was created with.
    #[must_use]
    pub fn options(&self) -> &TableOptions {
        &self.state().options
    }

    /// The value of a key, as it is now.
    ///
    /// Reads of several keys that belong together take a [snapshot](crate::Database::snapshot) or a
    /// [transaction](crate::Database::begin).
    ///
    /// # Errors
    /// As [`Snapshot::get`](crate::Snapshot::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.snapshot().get(self, key)
    }

    /// Whether a key has a value now.
    ///
    /// # Errors
    /// As [`Snapshot::get`](crate::Snapshot::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.snapshot().contains(self, key)
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
        self.snapshot().range(self, range)
    }

    /// The entries whose keys begin with `prefix`, as they are now, ascending.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.snapshot().prefix(self, prefix)
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    /// As [`Range::advance`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.snapshot().first(self)
    }

    /// The entry with the largest key.
    ///
    /// # Errors
    /// As [`Range::advance`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.snapshot().last(self)
    }

    /// Sets a key's value, as a commit of its own, with the database's [durability](crate::Options::durability).
    /// Changes that belong together, and many changes, go into a [`Batch`] or a
    /// [transaction](crate::Transaction).
    ///
    /// # Errors
    /// As [`Database::write`](crate::Database::write).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(|batch| batch.put(self, key, value))
    }

    /// Removes a key, whether it exists or not. See [`Table::put`].
    ///
    /// # Errors
    /// As [`Database::write`](crate::Database::write).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(|batch| batch.delete(self, key))
    }

    /// Removes all keys of a range, as [`Batch::delete_range`] does. See [`Table::put`].
    ///
    /// # Errors
    /// As [`Database::write`](crate::Database::write).
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.write(|batch| batch.delete_range(self, range))
    }

    /// Merges an operand into a key's value, as [`Batch::merge`] does. See [`Table::put`].
    ///
    /// # Errors
    /// As [`Database::write`](crate::Database::write).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.write(|batch| batch.merge(self, key, operand))
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.db().clone())
    }

    fn write(&self, fill: impl FnOnce(&mut Batch)) -> Result<()> {
        let mut batch = Batch::new();
        fill(&mut batch);
        batch.commit_owned(self.db(), self.core().state.options.durability, None)
    }

    /// Begins a load of entries that come in ascending order of their keys: they go straight to disk, without redo log
    /// and memtable, and all become visible at once. See [`BulkLoad`].
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `Dropped` when the table was dropped.
    pub fn bulk_load(&self) -> Result<BulkLoad<'_>> {
        BulkLoad::new(self.core(), self.open_state()?)
    }

    /// Begins a load of sorted entries that takes the place in history that a snapshot has, which was taken before the
    /// table was created: what was written to the table since is newer, whenever it was written, and stays. So an index
    /// is built while writers go on, without undoing what they do to it:
    ///
    /// 1. While no writer commits, a snapshot is taken and the table created; from then on writers change both, the
    ///    rows and the index.
    /// 2. The rows of the snapshot are read, their index entries sorted and loaded.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let people = db.create_table("people", TableOptions::default())?;
    /// people.put("1", "ann")?;
    /// people.put("2", "bob")?;
    /// let (snapshot, by_name) = (db.snapshot(), db.create_table("by name", TableOptions::default())?);
    /// // A writer renames ann while the index is built.
    /// let mut txn = db.begin();
    /// txn.put(&people, "1", "zoe")?;
    /// txn.delete(&by_name, "ann")?;
    /// txn.put(&by_name, "zoe", "1")?;
    /// txn.commit()?;
    /// let mut load = by_name.bulk_load_below(&snapshot)?;
    /// load.push(b"ann", b"1")?;
    /// load.push(b"bob", b"2")?;
    /// load.finish()?;
    /// let names: Vec<_> = db.snapshot().range(&by_name, ..).map(|entry| entry.unwrap().0).collect();
    /// assert_eq!(names, [b"bob", b"zoe"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The entries are as old as the snapshot: when the load is finished, every snapshot that was taken since sees
    /// them, and no transaction conflicts with them. Until then the table shows only what was written since, so it is
    /// no index yet; and it is not compacted. A crash, or dropping the load unfinished, leaves nothing of the load.
    ///
    /// # Errors
    /// `Invalid` when the snapshot was not taken before the table was created, or in another database; when the table
    /// was flushed or loaded already, for then it may not know any more what was deleted: create it again, and begin
    /// the load at once; while another such load is under way. `Poisoned`, `Closed`, `Dropped` when the table was
    /// dropped.
    pub fn bulk_load_below(&self, snapshot: &Snapshot) -> Result<BulkLoad<'_>> {
        if !Arc::ptr_eq(snapshot.db().core(), self.core()) {
            return Err(Error::invalid("the snapshot is of another database than the table"));
        }
        BulkLoad::below(self.core(), self.open_state()?, snapshot)
    }

    /// Writes the table's memtables to disk and returns when they are there: durably, also those of an unlogged table.
    ///
    /// # Errors
    /// `Io`, `Full`, `Poisoned`, `Closed`.
    pub fn flush(&self) -> Result<()> {
        self.core().flusher.flush_all(self.open_state()?)
    }

    /// Flushes, then merges everything into one tree: a single sorted sequence in the last level, or a B-tree of full
    /// leaves. Drops what no snapshot sees, and reclaims the space of dead values that are kept apart.
    ///
    /// # Errors
    /// `Io`, `Full`, `Corruption`, `Poisoned`, `Closed`.
    pub fn compact(&self) -> Result<()> {
        self.core().compactor.compact_all(self.open_state()?)
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
        self.core().compactor.compact_level(self.open_state()?, level)
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
    /// `Closed`, `Dropped` when the table was dropped.
    pub fn hold(&self) -> Result<()> {
        self.core().compactor.hold(self.open_state()?, true);
        Ok(())
    }

    /// Lets the compactions of a table that was [held](Table::hold) go on. See there for an example.
    ///
    /// # Errors
    /// `Closed`, `Dropped` when the table was dropped.
    pub fn release(&self) -> Result<()> {
        self.core().compactor.hold(self.open_state()?, false);
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
        self.core().compactor.wait_idle(self.open_state()?)
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
    /// `Closed`, `Dropped` when the table was dropped.
    pub fn shape(&self) -> Result<Shape> {
        Ok(shape_of(self.open_state()?))
    }

    /// The leaves, indexes and filters that the table's trees have now: how much memory lookups need so that they read
    /// leaves only. It reads the end of each run that was not used since the database was opened.
    ///
    /// ```
    /// # fn main() -> spinney::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = spinney::Database::open(dir.path().join("db"), spinney::Options::default())?;
    /// # let table = db.create_table("t", spinney::TableOptions::default())?;
    /// let mut batch = spinney::Batch::new();
    /// for key in 0..10_000_u32 {
    ///     batch.put(&table, &key.to_be_bytes(), &[7; 100]);
    /// }
    /// db.write_with(&batch, spinney::Durability::Buffered)?;
    /// table.flush()?;
    /// let shape = table.index_shape()?;
    /// // Filters have ten bits for each key, and indexes a few bytes for each leaf.
    /// assert!((12_000..15_000).contains(&shape.filter_bytes));
    /// assert!(shape.leaves > 100 && shape.index_bytes < 40 * shape.leaves);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Io`, `Corruption`, `Closed`, `Dropped` when the table was dropped.
    pub fn index_shape(&self) -> Result<IndexShape> {
        index_shape_of(self.open_state()?)
    }
}
