//! Databases.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use spinney::Error;

use crate::SPINNEY_ABI_VERSION;
use crate::batch::Batch;
use crate::bytes::{Value, give_value, text};
use crate::options::{CommitDurability, Options};
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

/// Checks the version that a program was compiled with.
pub(crate) fn check_abi(version: u32) -> spinney::Result<()> {
    if version == SPINNEY_ABI_VERSION {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the program was compiled for version {version} of the interface, and the library has version \
         {SPINNEY_ABI_VERSION}: compile it with the header of the installed library"
    )))
}

/// The version of the library, as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The version of the library's interface, which is `SPINNEY_ABI_VERSION` of its header.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_abi_version() -> u32 {
    SPINNEY_ABI_VERSION
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

/// Commits the changes of a batch at once. The batch stays as it is.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_write(
    database: Option<&Database>,
    batch: Option<&Batch>,
    durability: CommitDurability,
) -> Status {
    done(|| {
        let db = &database.given("database")?.0;
        db.write_with(&batch.given("batch")?.0, durability.get(db.options().durability))
    })
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
            return db.checkpoint(path);
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

pub(crate) fn json<T: serde::Serialize>(out: &mut MaybeUninit<Value>, value: &T) -> spinney::Result<()> {
    let text = serde_json::to_vec(value).map_err(|error| Error::invalid(error.to_string()))?;
    give_value(out, spinney::Value::owned(&text));
    Ok(())
}
