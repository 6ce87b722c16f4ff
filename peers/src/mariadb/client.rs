//! A thread's connections.

use super::schema::{self, ROW, ROWS, Table};
use super::store::MariaDbStore;
use anyhow::{Result, ensure};
use mysql::prelude::Queryable as _;
use mysql::{Conn, Params, Row, Statement, Value};
use spinney_lab::driver::{Batch, Change, Client, Direction, Outcome, Scan, TableId};
use std::collections::HashMap;

/// Rows of one statement at most. A statement of more has more parameters than it gains by being one.
const ROWS_MAX: usize = 1_000;

const DUPLICATE_KEY: u16 = 1062;
const LOCK_TIMEOUT: u16 = 1205;
const DEADLOCK: u16 = 1213;

/// A connection for writes and transactions, and one whose open transaction is the view.
#[derive(Debug)]
pub(super) struct MariaDbClient<'s> {
    store: &'s MariaDbStore,
    main: Link,
    view: Option<Link>,
    in_transaction: bool,
    runs: Vec<Run>,
}

/// Changes of one kind in a row.
#[derive(Debug)]
struct Run {
    put: bool,
    rows: usize,
    values: Vec<Value>,
}

/// A connection and its prepared statements.
#[derive(Debug)]
struct Link {
    connection: Conn,
    statements: HashMap<Sql, Statement>,
}

/// A statement that is prepared once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sql {
    Insert(usize),
    Replace(usize),
    Delete(usize),
    Get,
    Select { table: usize, backward: bool, from: bool, until: bool },
}

impl Link {
    fn new(store: &MariaDbStore) -> Result<Self> {
        Ok(Self { connection: store.connect()?, statements: HashMap::new() })
    }

    fn prepared(&mut self, store: &MariaDbStore, sql: Sql) -> Result<Statement> {
        if let Some(statement) = self.statements.get(&sql) {
            return Ok(statement.clone());
        }
        let text = match sql {
            Sql::Insert(rows) => schema::insert("INSERT", rows),
            Sql::Replace(rows) => schema::insert("REPLACE", rows),
            Sql::Delete(rows) => schema::delete(rows),
            Sql::Get => schema::get(),
            Sql::Select { table, backward, from, until } => {
                let direction = if backward { Direction::Backward } else { Direction::Forward };
                schema::select(store.tables[table], direction, from, until)
            }
        };
        let statement = self.connection.prep(text)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn run(&mut self, store: &MariaDbStore, sql: Sql, values: &[Value]) -> Result<(), mysql::Error> {
        let statement = self.prepared(store, sql).map_err(into_mysql)?;
        self.connection.exec_drop(&statement, Params::Positional(values.to_vec()))
    }

    /// Makes the changes of a run. A put is an `INSERT`, which becomes a `REPLACE` only when a key was there already.
    fn change(&mut self, store: &MariaDbStore, run: &Run) -> Result<(), mysql::Error> {
        let width = run.values.len() / run.rows;
        for values in run.values.chunks(ROWS_MAX * width) {
            let rows = values.len() / width;
            if !run.put {
                self.run(store, Sql::Delete(rows), values)?;
                continue;
            }
            match self.run(store, Sql::Insert(rows), values) {
                Err(mysql::Error::MySqlError(error)) if error.code == DUPLICATE_KEY => {
                    self.run(store, Sql::Replace(rows), values)?;
                }
                result => result?,
            }
        }
        Ok(())
    }

    fn scan(&mut self, store: &MariaDbStore, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let table: Table = store.tables[scan.table.0];
        let mut values = Vec::with_capacity(24);
        for bound in [scan.from, scan.until].into_iter().flatten() {
            schema::bound_values(table.key, bound, &mut values)?;
        }
        values.push(Value::UInt(scan.limit));
        let sql = Sql::Select {
            table: scan.table.0,
            backward: scan.direction == Direction::Backward,
            from: scan.from.is_some(),
            until: scan.until.is_some(),
        };
        let statement = self.prepared(store, sql)?;
        let (mut key, mut value, mut visited) = (Vec::new(), Vec::new(), 0);
        for row in self.connection.exec_iter(&statement, Params::Positional(values))? {
            key.clear();
            value.clear();
            let columns = row?.unwrap();
            if table.is_rows() {
                lay_row(&columns, &mut key, &mut value)?;
            } else {
                schema::lay(table.key, &columns, &mut key)?;
            }
            visit(&key, &value);
            visited += 1;
        }
        Ok(visited)
    }
}

/// A row of the table of rows as key and value.
fn lay_row(columns: &[Value], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<()> {
    ensure!(columns.len() == ROW.len() + 1, "a row has {} columns", columns.len());
    schema::lay(&ROW[..1], columns, key)?;
    schema::lay(&ROW[1..], &columns[1..], value)?;
    if let Value::Bytes(filler) = &columns[ROW.len()] {
        value.extend_from_slice(filler);
    }
    Ok(())
}

/// An error of preparing among those of running.
fn into_mysql(error: anyhow::Error) -> mysql::Error {
    error.downcast().unwrap_or_else(|error| mysql::Error::IoError(std::io::Error::other(error)))
}

/// Whether another transaction was first.
fn is_conflict(error: &mysql::Error) -> bool {
    matches!(error, mysql::Error::MySqlError(error) if error.code == DEADLOCK || error.code == LOCK_TIMEOUT)
}

impl<'s> MariaDbClient<'s> {
    pub(super) fn new(store: &'s MariaDbStore) -> Result<Self> {
        Ok(Self { store, main: Link::new(store)?, view: None, in_transaction: false, runs: Vec::new() })
    }

    fn reader(&mut self) -> &mut Link {
        match &mut self.view {
            Some(view) if !self.in_transaction => view,
            _ => &mut self.main,
        }
    }

    /// Sorts the changes of rows into runs. Index entries follow from the rows.
    fn gather(&mut self, batch: &Batch) -> Result<()> {
        self.runs.clear();
        for change in batch.iter() {
            let (put, table) = match change {
                Change::Put(table, ..) => (true, table),
                Change::Delete(table, _) => (false, table),
            };
            if !self.store.tables[table.0].is_rows() {
                self.store.have_indexes()?;
                continue;
            }
            if self.runs.last().is_none_or(|run| run.put != put) {
                self.runs.push(Run { put, rows: 0, values: Vec::new() });
            }
            let Some(run) = self.runs.last_mut() else { continue };
            run.rows += 1;
            match change {
                Change::Put(_, key, value) => schema::row_values(key, value, &mut run.values)?,
                Change::Delete(_, key) => schema::bound_values(ROWS.key, key, &mut run.values)?,
            }
        }
        Ok(())
    }

    /// Makes the changes of all runs: alone, one statement is a transaction of its own.
    fn apply(&mut self) -> Result<(), mysql::Error> {
        let own = !self.in_transaction && (self.runs.len() > 1 || self.runs.iter().any(|run| run.rows > ROWS_MAX));
        if own {
            self.main.connection.query_drop("START TRANSACTION")?;
        }
        for run in &self.runs {
            if let Err(error) = self.main.change(self.store, run) {
                if own {
                    self.main.connection.query_drop("ROLLBACK")?;
                }
                return Err(error);
            }
        }
        if own { self.main.connection.query_drop("COMMIT") } else { Ok(()) }
    }
}

impl Client for MariaDbClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        self.gather(batch)?;
        loop {
            match self.apply() {
                Ok(()) => return Ok(Outcome::Done),
                Err(error) if is_conflict(&error) && self.in_transaction => {
                    self.rollback()?;
                    return Ok(Outcome::Conflict);
                }
                // Changes that read nothing have nothing to lose by a deadlock.
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn get(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let store = self.store;
        ensure!(store.tables[table.0].is_rows(), "only rows are read by key");
        let mut values = Vec::new();
        schema::bound_values(ROWS.key, key, &mut values)?;
        let link = self.reader();
        let statement = link.prepared(store, Sql::Get)?;
        let row: Option<Row> = link.connection.exec_first(&statement, Params::Positional(values))?;
        let Some(row) = row else { return Ok(false) };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        lay_row(&row.unwrap(), &mut key, &mut value)?;
        found(&value);
        Ok(true)
    }

    fn scan(&mut self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let store = self.store;
        self.reader().scan(store, scan, visit)
    }

    fn view(&mut self) -> Result<()> {
        let view = match self.view.take() {
            Some(view) => view,
            None => Link::new(self.store)?,
        };
        // It ends the transaction before.
        self.view.insert(view).connection.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.main.connection.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
        self.in_transaction = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<Outcome> {
        self.in_transaction = false;
        match self.main.connection.query_drop("COMMIT") {
            Ok(()) => Ok(Outcome::Done),
            Err(error) if is_conflict(&error) => Ok(Outcome::Conflict),
            Err(error) => Err(error.into()),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        self.in_transaction = false;
        Ok(self.main.connection.query_drop("ROLLBACK")?)
    }
}
