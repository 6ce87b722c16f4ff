//! A thread's connection to SQLite.

use super::SqliteStore;
use anyhow::Result;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection};
use spinney_lab::driver::{Batch, Change, Client, Outcome, Scan, TableId};

pub(super) struct SqliteClient<'a> {
    store: &'a SqliteStore,
    connection: Connection,
    state: State,
}

/// SQLite's own transaction of a connection.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// None: each read is at its own present.
    None,
    /// One of reads, which keeps a view.
    View,
    /// One of writes.
    Transaction,
}

impl<'a> SqliteClient<'a> {
    pub(super) fn new(store: &'a SqliteStore, connection: Connection) -> Self {
        Self { store, connection, state: State::None }
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

    /// Begins to read at the present. `BEGIN` alone does not: the first read does.
    fn look(&mut self) -> Result<()> {
        self.run("BEGIN")?;
        self.state = State::View;
        let mut first = self.connection.prepare_cached("SELECT rootpage FROM sqlite_schema LIMIT 1")?;
        first.query(())?.next()?;
        Ok(())
    }

    fn end(&mut self, how: &str) -> Result<()> {
        self.state = State::None;
        self.run(how)
    }
}

impl Client for SqliteClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        if self.state == State::Transaction {
            self.apply(batch)?;
            return Ok(Outcome::Done);
        }
        // A connection has one transaction, so the view makes room for the write and is at the present afterwards.
        let had_view = self.state == State::View;
        if had_view {
            self.end("COMMIT")?;
        }
        if batch.len() == 1 {
            self.apply(batch)?;
        } else {
            self.run("BEGIN IMMEDIATE")?;
            if let Err(error) = self.apply(batch) {
                self.run("ROLLBACK")?;
                return Err(error);
            }
            self.run("COMMIT")?;
        }
        if had_view {
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
        if self.state == State::View {
            self.end("COMMIT")?;
        }
        self.look()
    }

    fn begin(&mut self) -> Result<()> {
        if self.state == State::View {
            self.end("COMMIT")?;
        }
        self.run("BEGIN IMMEDIATE")?;
        self.state = State::Transaction;
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
