//! Opening databases and finding tables.

use crate::args::{CommitArgs, DbArgs, TableArgs};
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget};
use spinney::{Database, Options, Table};
use spinney_lab::progress;
use std::time::Duration;

/// Shorter work is not worth a bar.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// Opens a database that is there.
pub(crate) fn open(args: &DbArgs) -> Result<Database> {
    opened(args, Options::default(), false)
}

/// Opens a database, or makes it.
pub(crate) fn open_or_create(args: &DbArgs) -> Result<Database> {
    opened(args, Options::default(), true)
}

/// Opens a database whose log is to be written so, or makes it if it may.
pub(crate) fn open_to_commit(args: &DbArgs, commit: &CommitArgs, create: bool) -> Result<Database> {
    let (log_compression, log_padding) = (commit.log_compression.into(), commit.log_padding.into());
    opened(args, Options { log_compression, log_padding, ..Options::default() }, create)
}

/// Opens a database with these options, or makes it if it may.
pub(crate) fn opened(args: &DbArgs, options: Options, create: bool) -> Result<Database> {
    let memory_bytes = args.memory.unwrap_or(options.memory_bytes);
    let options = Options { memory_bytes, log_dir: args.log_dir.clone(), ..options };
    let bar = progress::byte_bar(0, "recovery");
    bar.set_draw_target(ProgressDrawTarget::hidden());
    let told = bar.clone();
    let db = Database::builder(&args.path)
        .options(options)
        .create(create)
        .on_replay(move |now| show(&told, now.bytes, now.bytes_total))
        .open();
    bar.finish_and_clear();
    Ok(db?)
}

/// Shows how far work is that takes its time.
pub(crate) fn show(bar: &ProgressBar, bytes: u64, bytes_total: u64) {
    if bar.is_hidden() && bar.elapsed() > SHOWN_AFTER {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    bar.set_length(bytes_total);
    bar.set_position(bytes);
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
