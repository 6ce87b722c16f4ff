//! A thread's connection to SQLite.

use super::store::SqliteStore;
use anyhow::Result;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection};
use spinney_lab::driver::{Batch, Change, Client, Outcome, Scan, TableId};

pub(super) struct SqliteClient<'a> {
    store: &'a SqliteStore,
    connection: Connection,
    /// SQLite's transaction of this connection is one of writes.
    in_transaction: bool,
    /// There was a view: outside transactions of writes the connection is in one of reads.
    has_view: bool,
}

impl<'a> SqliteClient<'a> {
    pub(super) fn new(store: &'a SqliteStore, connection: Connection) -> Self {
        Self { store, connection, in_transaction: false, has_view: false }
    }

    fn run(&self, statement: &str) -> Result<()> {
        self.connection.prepare_cached(statement)?.execute(())?;
        Ok(())
    }

    fn apply(&self, batch: &Batch) -> Result<()> {
        for change in batch.iter() {
            match change {
                Change::Put(table, key, value) => {
                    self.connection.prepare_cached(&self.store.tables[table.0].put)?.execute((key, value))?;
                }
                Change::Delete(table, key) => {
                    self.connection.prepare_cached(&self.store.tables[table.0].delete)?.execute((key,))?;
                }
            }
        }
        Ok(())
    }

    /// Begins to read at the present, if there is a view. `BEGIN` alone does not: the first read does.
    fn look(&self) -> Result<()> {
        if self.has_view {
            self.run("BEGIN")?;
            let mut first = self.connection.prepare_cached("SELECT rootpage FROM sqlite_schema LIMIT 1")?;
            first.query(())?.next()?;
        }
        Ok(())
    }

    /// Ends the transaction of reads, if there is one: a connection has one transaction at a time.
    fn look_away(&self) -> Result<()> {
        if self.has_view { self.run("COMMIT") } else { Ok(()) }
    }

    fn write_alone(&self, batch: &Batch) -> Result<()> {
        if batch.len() == 1 {
            return self.apply(batch);
        }
        self.run("BEGIN IMMEDIATE")?;
        if let Err(error) = self.apply(batch) {
            self.run("ROLLBACK")?;
            return Err(error);
        }
        self.run("COMMIT")
    }

    fn end(&mut self, how: &str) -> Result<()> {
        self.in_transaction = false;
        self.run(how)?;
        self.look()
    }
}

impl Client for SqliteClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        if self.in_transaction {
            self.apply(batch)?;
        } else {
            self.look_away()?;
            self.write_alone(batch)?;
            self.look()?;
        }
        Ok(Outcome::Done)
    }

    fn get(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut statement = self.connection.prepare_cached(&self.store.tables[table.0].get)?;
        let mut rows = statement.query((key,))?;
        let row = rows.next()?;
        if let Some(row) = row {
            found(blob(row.get_ref(0)?)?);
        }
        Ok(row.is_some())
    }

    fn scan(&mut self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut statement = self.connection.prepare_cached(self.store.tables[scan.table.0].scan(scan))?;
        bind(&mut statement, scan)?;
        let mut rows = statement.raw_query();
        let mut visited = 0;
        while let Some(row) = rows.next()? {
            visit(blob(row.get_ref(0)?)?, blob(row.get_ref(1)?)?);
            visited += 1;
        }
        Ok(visited)
    }

    fn view(&mut self) -> Result<()> {
        self.look_away()?;
        self.has_view = true;
        self.look()
    }

    fn begin(&mut self) -> Result<()> {
        self.look_away()?;
        self.run("BEGIN IMMEDIATE")?;
        self.in_transaction = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<Outcome> {
        self.end("COMMIT")?;
        Ok(Outcome::Done)
    }

    fn rollback(&mut self) -> Result<()> {
        self.end("ROLLBACK")
    }
}

fn bind(statement: &mut CachedStatement<'_>, scan: &Scan<'_>) -> Result<()> {
    for (number, end) in [(1, scan.from), (2, scan.until)] {
        if let Some(end) = end {
            statement.raw_bind_parameter(number, end)?;
        }
    }
    Ok(statement.raw_bind_parameter(3, i64::try_from(scan.limit).unwrap_or(i64::MAX))?)
}

fn blob(value: ValueRef<'_>) -> Result<&[u8]> {
    Ok(value.as_blob()?)
}
