//! Databases.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use crate::abi::check_abi;
use crate::bytes::{Value, text};
use crate::json::json;
use crate::options::Options;
use crate::status::{Given as _, Status, done};

/// An open database. Any thread may use it.
#[derive(Debug)]
pub struct Database(pub(crate) spinney::Database);

/// How a database is opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum OpenMode {
    /// Opens the database that is there.
    Existing = 0,
    /// Opens it, and makes it when it is not there.
    Create = 1,
    /// Looks at it, also beside the process that has it open, and changes nothing.
    ReadOnly = 2,
}

/// Opens the database in the directory `path`. `abi` is `SPINNEY_ABI_VERSION`; `options` may be `NULL` and still belong
/// to the caller afterwards. The database is closed, and freed, by `spinney_close`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_open(
    abi: u32,
    path: *const c_char,
    mode: OpenMode,
    options: Option<&Options>,
    database: Option<&mut MaybeUninit<Box<Database>>>,
) -> Status {
    done(|| {
        check_abi(abi)?;
        let out = database.given("database")?;
        out.write(Box::new(Database(open(path, mode, options)?)));
        Ok(())
    })
}

pub(crate) fn open(
    path: *const c_char,
    mode: OpenMode,
    options: Option<&Options>,
) -> spinney::Result<spinney::Database> {
    let mut builder = spinney::Database::builder(text(path, "path")?);
    if let Some(options) = options {
        builder = builder.options(options.0.clone());
    }
    match mode {
        OpenMode::Existing => builder.create(false).open(),
        OpenMode::Create => builder.open(),
        OpenMode::ReadOnly => builder.open_read_only(),
    }
}

/// Closes a database and frees its handle, also when it returns an error. What was committed is in the trees or in the
/// log. Tables, ranges and snapshots of it must still be freed; calls with them are `SPINNEY_STATUS_CLOSED`. `NULL` is
/// ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_close(database: Option<Box<Database>>) -> Status {
    done(|| database.map_or(Ok(()), |database| database.0.close()))
}

/// Writes what memory holds of all tables to their trees.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_flush(database: Option<&Database>) -> Status {
    done(|| database.given("database")?.0.flush())
}

/// Makes all commits durable that have returned.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_sync(database: Option<&Database>) -> Status {
    done(|| database.given("database")?.0.sync())
}

/// Copies the database, as of one moment, to the new directory `path`. With `since`, which may be `NULL`, it shares
/// files with the earlier copy there.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_checkpoint(database: Option<&Database>, path: *const c_char, since: *const c_char) -> Status {
    done(|| {
        let (db, path) = (&database.given("database")?.0, text(path, "path")?);
        if since.is_null() {
            return db.checkpoint(path).map(drop);
        }
        db.checkpoint_since(path, text(since, "since")?).map(drop)
    })
}

/// Reads every block and compares its checksum. Gives the report as JSON; damage stands in its `problems`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_verify(database: Option<&Database>, report: Option<&mut MaybeUninit<Value>>) -> Status {
    done(|| json(report.given("report")?, &database.given("database")?.0.verify()?))
}

/// Gives every counter of the database as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_stats(database: Option<&Database>, stats: Option<&mut MaybeUninit<Value>>) -> Status {
    done(|| json(stats.given("stats")?, &database.given("database")?.0.stats()))
}

/// Gives the names of all tables as a JSON array.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_tables(database: Option<&Database>, names: Option<&mut MaybeUninit<Value>>) -> Status {
    done(|| {
        let tables = database.given("database")?.0.tables()?;
        json(names.given("names")?, &tables.iter().map(spinney::Table::name).collect::<Vec<_>>())
    })
}
