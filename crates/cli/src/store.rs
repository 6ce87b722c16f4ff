//! Opening databases and finding tables.

use crate::args::{DbArgs, TableArgs};
use anyhow::{Result, bail};
use spinney::{Database, Options, Table};

/// Opens a database that is there.
pub(crate) fn open(args: &DbArgs) -> Result<Database> {
    Ok(Database::open(&args.path, Options { create: false, ..options(args) })?)
}

/// Opens a database, or makes it.
pub(crate) fn open_or_create(args: &DbArgs) -> Result<Database> {
    Ok(Database::open(&args.path, Options { create: true, ..options(args) })?)
}

fn options(args: &DbArgs) -> Options {
    let defaults = Options::default();
    Options { memory_bytes: args.memory.unwrap_or(defaults.memory_bytes), ..defaults }
}

/// A table that is there.
pub(crate) fn table(db: &Database, name: &str) -> Result<Table> {
    match db.table(name)? {
        Some(table) => Ok(table),
        None => bail!("{} has no table `{name}`", db.path().display()),
    }
}

/// The named table, or all.
pub(crate) fn tables(db: &Database, name: Option<&str>) -> Result<Vec<Table>> {
    match name {
        Some(name) => Ok(vec![table(db, name)?]),
        None => Ok(db.tables()?),
    }
}

/// Opens a database that is there, does something, and closes it whatever came of it.
pub(crate) fn with_db<T>(args: &DbArgs, work: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
    close_after(open(args)?, work)
}

/// As [`with_db`] with a table of it.
pub(crate) fn with_table<T>(args: &TableArgs, work: impl FnOnce(&Database, &Table) -> Result<T>) -> Result<T> {
    with_db(&args.db, |db| work(db, &table(db, &args.table)?))
}

/// Does something with a database and closes it; of two errors the first is told.
pub(crate) fn close_after<T>(db: Database, work: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
    let done = work(&db);
    let closed = db.close();
    let done = done?;
    closed?;
    Ok(done)
}
