//! Tables.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use spinney::{Error, ErrorKind};

use crate::bytes::{Bytes, Value, ends, found, text};
use crate::database::Database;
use crate::json::json;
use crate::options::TableOptions;
use crate::status::{Given as _, Status, call, done};

/// A table. Any thread may use it. Its calls that write are a commit each, durable as the database's options say.
#[derive(Debug)]
pub struct Table(pub(crate) spinney::Table);

impl From<spinney::Table> for Table {
    fn from(table: spinney::Table) -> Self {
        Self(table)
    }
}

fn options(options: Option<&TableOptions>) -> spinney::TableOptions {
    options.cloned().unwrap_or_default().0
}

/// Gives the table that `find` finds or makes in a database.
fn give_table(
    database: Option<&Database>,
    name: *const c_char,
    table: Option<&mut MaybeUninit<Box<Table>>>,
    find: impl FnOnce(&spinney::Database, &str) -> spinney::Result<spinney::Table>,
) -> Status {
    done(|| {
        let (db, name, out) = (database.given("database")?, text(name, "name")?, table.given("table")?);
        out.write(Box::new(Table(find(&db.0, name)?)));
        Ok(())
    })
}

/// Opens the table `name`, which is there. Free it with `spinney_table_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_table_open(
    database: Option<&Database>,
    name: *const c_char,
    table: Option<&mut MaybeUninit<Box<Table>>>,
) -> Status {
    give_table(database, name, table, |db, name| {
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no table '{name}'"));
        db.table(name)?.ok_or_else(missing)
    })
}

/// Makes the table `name`. `options` may be `NULL`. Free it with `spinney_table_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_table_create(
    database: Option<&Database>,
    name: *const c_char,
    options: Option<&TableOptions>,
    table: Option<&mut MaybeUninit<Box<Table>>>,
) -> Status {
    give_table(database, name, table, |db, name| db.create_table(name, self::options(options)))
}

/// Opens the table `name`, and makes it when it is not there. Free it with `spinney_table_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_table_open_or_create(
    database: Option<&Database>,
    name: *const c_char,
    options: Option<&TableOptions>,
    table: Option<&mut MaybeUninit<Box<Table>>>,
) -> Status {
    give_table(database, name, table, |db, name| db.open_or_create_table(name, self::options(options)))
}

/// Frees the handle of a table. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_table_free(table: Option<Box<Table>>) {
    drop(table);
}

/// Drops the table `name` with all that is in it.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_table_drop(database: Option<&Database>, name: *const c_char) -> Status {
    done(|| database.given("database")?.0.drop_table(text(name, "name")?))
}

/// Gives the value of a key; `SPINNEY_STATUS_NONE` when there is none. Free it with `spinney_value_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_get(table: Option<&Table>, key: Bytes, value: Option<&mut MaybeUninit<Value>>) -> Status {
    call(|| Ok(found(value.given("value")?, table.given("table")?.0.get(key.get()?)?)))
}

/// Sets the value of a key.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_put(table: Option<&Table>, key: Bytes, value: Bytes) -> Status {
    done(|| table.given("table")?.0.put(key.get()?, value.get()?))
}

/// Removes a key, if it is there.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_delete(table: Option<&Table>, key: Bytes) -> Status {
    done(|| table.given("table")?.0.delete(key.get()?))
}

/// Removes all keys from `from` on and before `to`; `NULL` is no limit.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_delete_range(table: Option<&Table>, from: Option<&Bytes>, to: Option<&Bytes>) -> Status {
    done(|| table.given("table")?.0.delete_range(ends(from, to)?))
}

/// Merges an operand into the value of a key by the table's merge operator. That of `add` is 8 bytes, little-endian.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_merge(table: Option<&Table>, key: Bytes, operand: Bytes) -> Status {
    done(|| table.given("table")?.0.merge(key.get()?, operand.get()?))
}

/// Merges all of a table into one tree.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_compact(table: Option<&Table>) -> Status {
    done(|| table.given("table")?.0.compact())
}

/// Gives the trees of a table as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_shape(table: Option<&Table>, shape: Option<&mut MaybeUninit<Value>>) -> Status {
    done(|| json(shape.given("shape")?, &table.given("table")?.0.shape()?))
}
