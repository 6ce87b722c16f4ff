//! A real database that operations can be applied to, beside the model.

use crate::config::Config;
use crate::filters::{doomed, is_doomed, shown};
use crate::ops::{Change, Key, Leave, Op, SLOTS, Span, View, Write, ranges_between};
use crate::outcome::{Outcome, Pair};
use crate::subject::Subject;
use spinney::env::Env;
use spinney::{
    Batch, Database, Error, ErrorKind, Layout, Range, Ranges, Result, Savepoint, Snapshot, Table, Transaction,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The longest key that can be stored.
const KEY_BYTES_MAX: usize = 64 << 10;

/// A database with open slots. Panics of the engine become outcomes.
#[derive(Debug)]
pub struct Engine {
    // Dropped before the database, in this order.
    scans: [Option<Range>; SLOTS],
    transactions: [Option<(Transaction, Vec<Savepoint>)>; SLOTS],
    snapshots: [Option<Snapshot>; SLOTS],
    tables: Vec<Table>,
    database: Option<Database>,
    config: Config,
    path: PathBuf,
    env: Env,
    table_count: usize,
    /// What the names of its copies begin with.
    copies: &'static str,
}

impl Engine {
    /// Opens, or creates, the database at `path` with so many tables.
    ///
    /// # Errors
    /// What the engine says.
    pub fn open(path: &Path, env: Env, config: &Config, table_count: usize) -> Result<Self> {
        let mut engine = Self {
            scans: Default::default(),
            transactions: Default::default(),
            snapshots: Default::default(),
            tables: Vec::new(),
            database: None,
            config: config.clone(),
            path: path.to_owned(),
            env,
            table_count,
            copies: "copy",
        };
        engine.reopen()?;
        Ok(engine)
    }

    /// Whether the database is open: it is not when opening it again failed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.database.is_some()
    }

    /// The open database.
    ///
    /// # Panics
    /// When opening it failed before.
    #[must_use]
    pub fn database(&self) -> &Database {
        self.database.as_ref().expect("a database that could not be opened is not used")
    }

    /// One of its tables, by number.
    #[must_use]
    pub fn table(&self, number: usize) -> &Table {
        &self.tables[number]
    }

    /// What the database was opened with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All entries of all tables, as a snapshot of now sees them.
    ///
    /// # Errors
    /// What the engine says.
    pub fn state(&self) -> Result<Vec<Vec<Pair>>> {
        state(self.database(), &self.tables)
    }

    /// Opens the database and its tables; creates what is missing.
    fn reopen(&mut self) -> Result<()> {
        let database = self.open_at(&self.path)?;
        self.tables = self.tables_of(&database)?;
        self.database = Some(database);
        Ok(())
    }

    /// Its tables; creates those that are missing.
    fn tables_of(&self, database: &Database) -> Result<Vec<Table>> {
        let table = |number: usize| {
            let name = format!("t{number}");
            match database.table(&name)? {
                Some(table) => Ok(table),
                None => database.create_table(&name, self.config.table_options(number)),
            }
        };
        (0..self.table_count).map(table).collect()
    }

    /// Looks its tables up again, one of which was dropped and may not have been created anew.
    ///
    /// # Errors
    /// What the engine says.
    pub fn renew_tables(&mut self) -> Result<()> {
        self.tables = self.tables_of(self.database())?;
        Ok(())
    }

    /// Another user of the same database, with slots of its own.
    ///
    /// # Errors
    /// What the engine says.
    pub fn beside(&self) -> Result<Self> {
        let database = self.database().clone();
        Ok(Self {
            scans: Default::default(),
            transactions: Default::default(),
            snapshots: Default::default(),
            tables: self.tables_of(&database)?,
            database: Some(database),
            config: self.config.clone(),
            path: self.path.clone(),
            env: self.env.clone(),
            table_count: self.table_count,
            copies: "another",
        })
    }

    fn open_at(&self, path: &Path) -> Result<Database> {
        self.config.builder(path).env(self.env.clone()).open()
    }

    /// Closes the database.
    ///
    /// # Errors
    /// What the engine says.
    pub fn close(mut self) -> Result<()> {
        self.leave(Leave::Close)
    }

    /// Returns when no table has work to do; helps with it.
    ///
    /// # Errors
    /// What the engine says.
    pub fn wait_idle(&self) -> Result<()> {
        self.tables.iter().try_for_each(Table::wait_idle)
    }

    /// Scans the first entry of a table again and again, so that its reads pay for merges and views.
    ///
    /// # Errors
    /// What the engine says.
    pub fn read_often(&self, table: usize, times: usize) -> Result<()> {
        let snapshot = self.database().snapshot();
        (0..times).try_for_each(|_| snapshot.range(&self.tables[table], ..).next().transpose().map(drop))
    }

    /// Drops all scans, transactions and snapshots.
    pub fn drop_slots(&mut self) {
        self.scans = Default::default();
        self.transactions = Default::default();
        self.snapshots = Default::default();
    }

    fn leave(&mut self, how: Leave) -> Result<()> {
        self.drop_slots();
        self.tables.clear();
        match (self.database.take(), how) {
            (Some(database), Leave::Close) => database.close(),
            _ => Ok(()),
        }
    }

    /// Drops a table and creates it again. What was committed before is made durable first: a table that is dropped is
    /// gone in every crash, commits to others may be lost then as always.
    fn recreate(&mut self, number: usize) -> Result<()> {
        self.drop_slots();
        self.database().sync()?;
        let name = self.tables[number].name().to_owned();
        self.database().drop_table(&name)?;
        self.tables[number] = self.database().create_table(&name, self.config.table_options(number))?;
        Ok(())
    }

    /// Recreates a table and loads it below changes, which are made durable first.
    fn load_below(&mut self, number: usize, pairs: &[Pair], changes: &[Change]) -> Result<()> {
        self.drop_slots();
        self.database().sync()?;
        let name = self.tables[number].name().to_owned();
        self.database().drop_table(&name)?;
        let snapshot = self.database().snapshot();
        self.tables[number] = self.database().create_table(&name, self.config.table_options(number))?;
        let table = self.tables[number].clone();
        let mut load = table.bulk_load_below(&snapshot)?;
        self.write(changes, spinney::Durability::Sync)?;
        for (key, value) in pairs {
            load.push(key, value)?;
        }
        let mut written = Vec::new();
        load.finish_with(|key, _, _| {
            written.push(key.to_vec());
            Ok(())
        })?;
        let expected = pairs.iter().map(|(key, _)| key);
        let expected: Vec<_> = expected.filter(|key| changes.iter().any(|change| change.key == **key)).collect();
        agree("a load below changes", &written.iter().collect(), &expected)
    }

    /// Drops all tables and creates them again, each by one call. What was committed before is made durable first.
    fn recreate_all(&mut self) -> Result<()> {
        self.drop_slots();
        let database = self.database();
        database.sync()?;
        let names: Vec<_> = self.tables.iter().map(|table| table.name().to_owned()).collect();
        database.drop_tables(names.iter().map(String::as_str))?;
        let options = (0..).map(|number| self.config.table_options(number));
        self.tables = database.create_tables(names.into_iter().zip(options))?;
        Ok(())
    }

    /// Copies the database, reads the copy, and removes nothing: a later copy goes elsewhere.
    fn checkpoint(&mut self) -> Result<Outcome> {
        let copy = self.free_path()?;
        self.database().checkpoint(&copy)?;
        let database = self.open_at(&copy)?;
        let mut tables = Vec::new();
        for table in &self.tables {
            let missing = || Error::invalid(format!("the copy has no table {}", table.name()));
            tables.push(database.table(table.name())?.ok_or_else(missing)?);
        }
        let copied = state(&database, &tables)?;
        drop(tables);
        database.close()?;
        Ok(Outcome::Tables(copied))
    }

    /// Where there is no copy yet.
    fn free_path(&self) -> Result<PathBuf> {
        let mut number = 1;
        loop {
            let path = self.path.with_extension(format!("{}{number}", self.copies));
            match self.env.fs.list(&path) {
                Ok(_) => number += 1,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(path),
                Err(error) => return Err(Error::io("list", &path, error)),
            }
        }
    }

    fn write(&self, changes: &[Change], durability: spinney::Durability) -> Result<()> {
        let mut batch = Batch::new();
        // Which keys have a value, as far as the batch decides it.
        let mut written = BTreeMap::new();
        for Change { table: number, key, write } in changes {
            let table = &self.tables[*number];
            match write {
                Write::Put(value) => batch.put(table, key, value),
                Write::Delete if is_filtered(table) => batch.put(table, key, doomed(key)),
                Write::Delete => batch.delete(table, key),
                Write::Merge(operand) => batch.merge(table, key, operand),
                Write::SingleDelete => batch.single_delete(table, key),
                Write::PutNew(value) => {
                    let is_there = match written.get(&(*number, key)) {
                        Some(is_there) => *is_there,
                        None => shown(self.database().snapshot().get(table, key)?).is_some(),
                    };
                    if !is_there {
                        batch.put(table, key, value);
                    }
                }
                Write::Erase(high) => batch.delete_range(table, between(key, high.as_ref())),
            }
            written.insert((*number, key), !matches!(write, Write::Delete | Write::SingleDelete | Write::Erase(_)));
        }
        self.database().write_with(&batch, durability)
    }

    /// Reads a key; nothing when the view's slot is empty.
    fn get(&self, view: View, table: usize, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        let table = &self.tables[table];
        let value = match view {
            View::Now => self.database().snapshot().get(table, key)?,
            View::Snapshot(slot) => match &self.snapshots[slot] {
                Some(snapshot) => snapshot.get(table, key)?,
                None => return Ok(None),
            },
            View::Transaction(slot) => match &self.transactions[slot] {
                Some((txn, _)) => txn.get(table, key)?,
                None => return Ok(None),
            },
        };
        Ok(Some(shown(value)))
    }

    fn contains(&self, view: View, number: usize, key: &[u8]) -> Result<Outcome> {
        let table = &self.tables[number];
        let found = match view {
            View::Now => self.database().snapshot().contains(table, key)?,
            View::Snapshot(slot) => match &self.snapshots[slot] {
                Some(snapshot) => snapshot.contains(table, key)?,
                None => return Ok(Outcome::Nothing),
            },
            View::Transaction(slot) => match &self.transactions[slot] {
                Some((txn, _)) => txn.contains(table, key)?,
                None => return Ok(Outcome::Nothing),
            },
        };
        // A doomed value is there, and yet is none.
        let is_there = found && (!is_filtered(table) || self.get(view, number, key)?.flatten().is_some());
        Ok(Outcome::Contains(is_there))
    }

    fn multi_get(&self, view: View, table: usize, keys: &[Key]) -> Result<Outcome> {
        let table = &self.tables[table];
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let values = match view {
            View::Now => self.database().snapshot().multi_get(table, &keys)?,
            View::Snapshot(slot) => match &self.snapshots[slot] {
                Some(snapshot) => snapshot.multi_get(table, &keys)?,
                None => return Ok(Outcome::Nothing),
            },
            View::Transaction(slot) => match &self.transactions[slot] {
                Some((txn, _)) => txn.multi_get(table, &keys)?,
                None => return Ok(Outcome::Nothing),
            },
        };
        Ok(Outcome::Values(values.into_iter().map(shown).collect()))
    }

    /// Opens a range; nothing when the view's slot is empty.
    fn range(&self, view: View, span: &Span) -> Option<Range> {
        let table = &self.tables[span.table];
        let bounds = (as_slice(&span.from), as_slice(&span.to));
        Some(match (view, span.reverse) {
            (View::Now, false) => self.database().snapshot().range(table, bounds),
            (View::Now, true) => self.database().snapshot().range_rev(table, bounds),
            (View::Snapshot(slot), false) => self.snapshots[slot].as_ref()?.range(table, bounds),
            (View::Snapshot(slot), true) => self.snapshots[slot].as_ref()?.range_rev(table, bounds),
            (View::Transaction(slot), false) => self.transactions[slot].as_ref()?.0.range(table, bounds),
            (View::Transaction(slot), true) => self.transactions[slot].as_ref()?.0.range_rev(table, bounds),
        })
    }

    /// Walks over ranges by one cursor; nothing when the view's slot is empty.
    fn ranges(&self, view: View, table: usize, ranges: Vec<(Key, Key)>, reverse: bool) -> Option<Ranges> {
        let table = &self.tables[table];
        let ranges = ranges.into_iter().map(|(low, high)| low..high);
        Some(match (view, reverse) {
            (View::Now, false) => self.database().snapshot().ranges(table, ranges),
            (View::Now, true) => self.database().snapshot().ranges_rev(table, ranges),
            (View::Snapshot(slot), false) => self.snapshots[slot].as_ref()?.ranges(table, ranges),
            (View::Snapshot(slot), true) => self.snapshots[slot].as_ref()?.ranges_rev(table, ranges),
            (View::Transaction(slot), false) => self.transactions[slot].as_ref()?.0.ranges(table, ranges),
            (View::Transaction(slot), true) => self.transactions[slot].as_ref()?.0.ranges_rev(table, ranges),
        })
    }

    /// Adds a change to a transaction.
    fn change(&mut self, slot: usize, Change { table, key, write }: &Change) -> Result<Outcome> {
        let Some((txn, _)) = &mut self.transactions[slot] else { return Ok(Outcome::Nothing) };
        match write {
            Write::Put(value) => txn.put(&self.tables[*table], key, value)?,
            Write::Delete if is_filtered(&self.tables[*table]) => txn.put(&self.tables[*table], key, doomed(key))?,
            Write::Delete => txn.delete(&self.tables[*table], key)?,
            Write::Merge(operand) => txn.merge(&self.tables[*table], key, operand)?,
            Write::SingleDelete => txn.single_delete(&self.tables[*table], key)?,
            Write::PutNew(_) if shown(txn.get(&self.tables[*table], key)?).is_some() => {}
            Write::PutNew(value) => txn.put(&self.tables[*table], key, value)?,
            Write::Erase(high) => txn.delete_range(&self.tables[*table], between(key, high.as_ref()))?,
        }
        Ok(Outcome::Done)
    }

    /// Does an operation that reads; nothing when it is none.
    fn read(&mut self, op: &Op) -> Result<Outcome> {
        let entries = |range: Option<Result<Vec<Pair>>>| {
            range.map_or(Ok(Outcome::Nothing), |entries| entries.map(Outcome::Entries))
        };
        Ok(match op {
            Op::Get(view, table, key) => self.get(*view, *table, key)?.map_or(Outcome::Nothing, Outcome::Value),
            Op::Contains(view, table, key) => self.contains(*view, *table, key)?,
            Op::MultiGet(view, table, keys) => self.multi_get(*view, *table, keys)?,
            Op::Range(view, span, limit) => entries(self.range(*view, span).map(|range| lent(range, *limit)))?,
            Op::Ranges(view, table, cuts, reverse) => {
                let ranges = self.ranges(*view, *table, ranges_between(cuts, *reverse), *reverse);
                entries(ranges.map(|ranges| collect(ranges, usize::MAX)))?
            }
            Op::Scan(slot, view, span) => match self.range(*view, span) {
                Some(range) => {
                    self.scans[*slot] = Some(range);
                    Outcome::Done
                }
                None => Outcome::Nothing,
            },
            Op::Next(slot, count) => entries(self.scans[*slot].as_mut().map(|range| collect(range, *count)))?,
            _ => Outcome::Nothing,
        })
    }

    fn try_apply(&mut self, op: &Op) -> Result<Outcome> {
        let options = self.config.options.durability;
        match op {
            Op::Write(changes, durability) => self.write(changes, durability.unwrap_or(options))?,
            Op::Begin(slot) => self.transactions[*slot] = Some((self.database().begin(), Vec::new())),
            Op::Change(slot, change) => return self.change(*slot, change),
            Op::Commit(slot, durability) => match (self.transactions[*slot].take(), durability) {
                (Some((txn, _)), Some(durability)) => txn.commit_with(*durability)?,
                (Some((txn, _)), None) => txn.commit()?,
                (None, _) => return Ok(Outcome::Nothing),
            },
            Op::Rollback(slot) => match self.transactions[*slot].take() {
                Some((txn, _)) => txn.rollback(),
                None => return Ok(Outcome::Nothing),
            },
            Op::Savepoint(slot) => match &mut self.transactions[*slot] {
                Some((txn, savepoints)) => savepoints.push(txn.savepoint()),
                None => return Ok(Outcome::Nothing),
            },
            Op::RollbackTo(slot) => {
                let Some((txn, savepoints)) = &mut self.transactions[*slot] else { return Ok(Outcome::Nothing) };
                let Some(savepoint) = savepoints.pop() else { return Ok(Outcome::Nothing) };
                txn.rollback_to(&savepoint)?;
                txn.release(savepoint)?;
            }
            Op::Snapshot(slot) => self.snapshots[*slot] = Some(self.database().snapshot()),
            Op::Release(slot) if self.snapshots[*slot].take().is_none() => return Ok(Outcome::Nothing),
            Op::Release(_) => {}
            Op::Flush(table) => self.tables[*table].flush()?,
            Op::Compact(table) => self.tables[*table].compact()?,
            Op::CompactLevel(table, place) => compact_level(&self.tables[*table], *place)?,
            Op::Hold(table, true) => self.tables[*table].hold()?,
            Op::Hold(table, false) => self.tables[*table].release()?,
            Op::WaitIdle(table) => self.tables[*table].wait_idle()?,
            Op::Load(table, pairs) => {
                let mut load = self.tables[*table].bulk_load()?;
                for (key, value) in pairs {
                    load.push(key, value)?;
                }
                load.finish()?;
            }
            Op::LoadBelow(table, pairs, changes) => self.load_below(*table, pairs, changes)?,
            Op::Recreate(table) => self.recreate(*table)?,
            Op::RecreateAll => self.recreate_all()?,
            Op::Sync => self.database().sync()?,
            Op::Verify => match self.database().verify()?.problems.as_slice() {
                [] => {}
                problems => {
                    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                    return Ok(Outcome::Failed(problems.join("; ")));
                }
            },
            Op::Checkpoint => return self.checkpoint(),
            Op::Reopen(how) => {
                self.leave(*how)?;
                self.reopen()?;
            }
            Op::Get(..)
            | Op::Contains(..)
            | Op::MultiGet(..)
            | Op::Range(..)
            | Op::Ranges(..)
            | Op::Scan(..)
            | Op::Next(..) => return self.read(op),
        }
        Ok(Outcome::Done)
    }
}

impl Subject for Engine {
    fn apply(&mut self, op: &Op) -> Outcome {
        match catch_unwind(AssertUnwindSafe(|| self.try_apply(op))) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) if error.kind() == ErrorKind::Conflict => Outcome::Conflict,
            Ok(Err(error)) => Outcome::Failed(format!("{:?}: {error}", error.kind())),
            Err(panic) => Outcome::Failed(format!("panicked: {}", panic_message(&*panic))),
        }
    }
}

/// Compacts L0, or the level that is the `place`-th to hold anything. A B-tree must refuse.
fn compact_level(table: &Table, place: usize) -> Result<()> {
    let levels = table.shape()?.levels;
    let number = place.checked_sub(1).and_then(|at| levels.get(at)).map_or(0, |level| level.level);
    let done = table.compact_level(usize::try_from(number).expect("a level's number is small"));
    match (table.options().layout, done) {
        (Layout::BTree, Err(error)) if error.kind() == ErrorKind::Unsupported => Ok(()),
        (Layout::BTree, Ok(())) => Err(Error::invalid("a B-tree has no levels")),
        (_, done) => done,
    }
}

/// Whether its values are shown to a compaction filter.
fn is_filtered(table: &Table) -> bool {
    table.options().compaction_filter.is_some()
}

/// What a panic said.
#[must_use]
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}

/// All entries of some tables, as a snapshot of now sees them.
///
/// # Errors
/// What the engine says.
pub fn state(database: &Database, tables: &[Table]) -> Result<Vec<Vec<Pair>>> {
    let snapshot = database.snapshot();
    tables.iter().map(|table| entries(&snapshot, table)).collect()
}

/// All entries of a table that have a value. Whichever way they are read, they are the same. A doomed value has none: a
/// compaction beside the reads may take it away between two of them.
fn entries(snapshot: &Snapshot, table: &Table) -> Result<Vec<Pair>> {
    let with_value = |mut pairs: Vec<Pair>| {
        pairs.retain(|(_, value)| !is_doomed(value));
        pairs
    };
    let pairs = with_value(all(snapshot.range(table, ..))?);
    let mut reversed = with_value(all(snapshot.range_rev(table, ..))?);
    reversed.reverse();
    agree("a walk backward", &reversed, &pairs)?;
    let expected = |key: &[u8]| {
        let place = pairs.binary_search_by(|(known, _)| known.as_slice().cmp(key)).ok()?;
        Some(pairs[place].1.clone())
    };
    let (mut range, mut keys) = (snapshot.range(table, ..), Vec::new());
    while let Some(key) = range.advance_key()? {
        keys.push(key.to_vec());
    }
    // And keys that are not there, right behind those that are.
    let asked: Vec<Key> = keys.iter().flat_map(|key| [key.clone(), [&**key, &[0]].concat()]).collect();
    let asked: Vec<&[u8]> = asked.iter().map(Vec::as_slice).filter(|key| key.len() <= KEY_BYTES_MAX).collect();
    let found: Vec<Option<Vec<u8>>> =
        asked.iter().map(|key| Ok(shown(snapshot.get(table, key)?))).collect::<Result<_>>()?;
    agree("a get of each key", &found, &asked.iter().map(|key| expected(key)).collect())?;
    let together = snapshot.multi_get(table, &asked)?;
    agree("a get of all keys", &together.into_iter().map(shown).collect(), &found)?;
    if is_filtered(table) {
        keys.retain(|key| expected(key).is_some());
    }
    agree("a walk over keys", &keys, &pairs.iter().map(|(key, _)| key.clone()).collect())?;
    Ok(pairs)
}

fn agree<T: PartialEq + std::fmt::Debug>(what: &str, found: &Vec<T>, expected: &Vec<T>) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let place = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    let (found, expected) = (found.get(place), expected.get(place));
    Err(Error::invalid(format!("{what} shows {found:?} and not {expected:?} in place {place}")))
}

/// All entries of a range, doomed ones too.
fn all(range: Range) -> Result<Vec<Pair>> {
    range.map(|entry| entry.map(|(key, value)| (key, Vec::from(value)))).collect()
}

/// As [`collect`], by the other way to walk.
fn lent(mut range: Range, limit: usize) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    while pairs.len() < limit
        && let Some((key, value)) = range.advance()?
    {
        if !is_doomed(value) {
            pairs.push((key.to_vec(), value.to_vec()));
        }
    }
    Ok(pairs)
}

fn collect(range: impl Iterator<Item = Result<(Key, spinney::Value)>>, limit: usize) -> Result<Vec<Pair>> {
    let is_shown = |entry: &Result<(Key, spinney::Value)>| !entry.as_ref().is_ok_and(|(_, value)| is_doomed(value));
    range.filter(is_shown).take(limit).map(|entry| entry.map(|(key, value)| (key, Vec::from(value)))).collect()
}

/// The keys from `low` on, up to `high` or to the last.
fn between<'a>(low: &'a Key, high: Option<&'a Key>) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(low), high.map_or(Bound::Unbounded, |high| Bound::Excluded(high)))
}

fn as_slice(bound: &Bound<Key>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
