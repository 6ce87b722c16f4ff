//! Opening databases and finding tables.

use crate::args::{CommitArgs, DbArgs, TableArgs};
use crate::escape::one_line;
use crate::failure::Usage;
use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget};
use spinney::{Database, DatabaseBuilder, Options, Table};
use spinney_document::catalog::settle::is_of_documents;
use spinney_document::catalog::{MEMBER_TABLE, is_of_member};
use spinney_lab::progress;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Shorter work is not worth a bar.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// Opens a database that is there.
pub(crate) fn open(args: &DbArgs) -> Result<Database> {
    opened(args, Options::default(), false)
}

/// The options that say how the log is written.
pub(crate) fn log_options(commit: &CommitArgs) -> Options {
    Options::default().log_compression(commit.log_compression.into())
}

/// Opens a database that is there, whose log is to be written so.
pub(crate) fn open_to_commit(args: &DbArgs, commit: &CommitArgs) -> Result<Database> {
    opened(args, log_options(commit), false)
}

/// Opens a database, or makes it, and does something. When that fails and the database is new and has no table, nothing
/// is left of it.
pub(crate) fn in_new_or_old<T>(
    args: &DbArgs,
    options: Options,
    work: impl FnOnce(&Database) -> Result<T>,
) -> Result<T> {
    in_new_or_old_with(args, options, |builder| builder, work)
}

/// As [`in_new_or_old`] with what is registered before the database is opened.
pub(crate) fn in_new_or_old_with<T>(
    args: &DbArgs,
    options: Options,
    register: impl FnOnce(DatabaseBuilder) -> DatabaseBuilder,
    work: impl FnOnce(&Database) -> Result<T>,
) -> Result<T> {
    let made = Made::if_opened(args);
    let done = opened_with(args, options, true, register).and_then(|db| close_after(db, work));
    if done.is_err() {
        made.undo(args);
    }
    done
}

/// Refuses to change the entries of the database of a member.
pub(crate) fn refuse_member(db: &Database) -> Result<()> {
    if is_of_member(db)? {
        let what = format!(
            "the database is of a member of a replica set, and the others would not hear of the change: connect to the \
             set and change it there (to make a database of its own of it, drop its table `{MEMBER_TABLE}` with --force)"
        );
        return Err(Usage(what).into());
    }
    Ok(())
}

/// Refuses to change a table that holds the documents of a database, unless that is forced: a document, its indexes,
/// the counts and the log of changes must agree, and a table knows nothing of them.
pub(crate) fn refuse_documents(db: &Database, table: &str, forced: bool) -> Result<()> {
    if !forced && is_of_documents(db, table)? {
        let what = format!(
            "table `{}` is part of a document database: change its documents with a client of `spinney serve`, or with \
             `spinney doc`; --force changes the table all the same, and leaves indexes and counts as they are",
            one_line(table)
        );
        return Err(Usage(what).into());
    }
    Ok(())
}

/// What opening a database will make.
struct Made {
    /// The database, as there is none.
    database: bool,
    directories: Directories,
}

impl Made {
    fn if_opened(args: &DbArgs) -> Self {
        let paths = [Some(&args.path), args.log_dir.as_ref()];
        Self { database: is_vacant(&args.path), directories: Directories::missing(paths.into_iter().flatten()) }
    }

    /// Removes what was made, but no database with tables, and none that another process has open.
    fn undo(self, args: &DbArgs) {
        if self.database && Database::builder(&args.path).discard().is_ok() {
            fs::remove_dir(args.path.join("log")).ok();
            self.directories.remove();
        }
    }
}

/// Directories that were missing before a command made them; those inside of others first.
pub(crate) struct Directories(Vec<PathBuf>);

impl Directories {
    /// Those of these paths, and those above them.
    pub(crate) fn missing<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Self {
        let above = |path: &'a PathBuf| path.ancestors().filter(|above| !above.as_os_str().is_empty());
        Self(paths.flat_map(above).filter(|path| !path.exists()).map(Path::to_owned).collect())
    }

    /// Removes those that are empty.
    pub(crate) fn remove(self) {
        self.0.iter().for_each(|path| drop(fs::remove_dir(path)));
    }
}

/// Refuses a file or directory that would lie in a database, also where symbolic links lead there.
pub(crate) fn refuse_inside(path: &Path, db: &Path) -> Result<()> {
    if resolved(path)?.starts_with(resolved(db)?) {
        let (path, db) = (path.display(), db.display());
        bail!(Usage(format!("{path} lies in the database {db}: give a place outside of it")));
    }
    Ok(())
}

/// A path without symbolic links, as far as it is there.
fn resolved(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let there =
        path.ancestors().find_map(|above| Some((fs::canonicalize(above).ok()?, path.strip_prefix(above).ok()?)));
    Ok(there.map_or_else(|| path.clone(), |(there, rest)| there.join(rest)))
}

/// Whether a new database may be made there: nothing is there but what a file system makes for itself.
fn is_vacant(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == "lost+found")),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Opens a database with these options, or makes it if it may.
pub(crate) fn opened(args: &DbArgs, options: Options, create: bool) -> Result<Database> {
    opened_with(args, options, create, |builder| builder)
}

/// As [`opened`] with what is registered before.
fn opened_with(
    args: &DbArgs,
    options: Options,
    create: bool,
    register: impl FnOnce(DatabaseBuilder) -> DatabaseBuilder,
) -> Result<Database> {
    replayed(args, keeping_log(args, options), |builder| register(builder.create(create)).open())
}

/// The file of a database that says how many MiB of log a server with `--replSet` keeps.
const OPLOG_SIZE: &str = "OPLOG-SIZE";

/// Bytes of log that are kept where there is more than a recovery needs, and no such file: earlier versions wrote none.
const LOG_KEEP_BYTES: u64 = 1 << 30;

/// From now on a database keeps its log whoever opens it, for streams of changes.
pub(crate) fn keep_log(db: &Path, mebibytes: u32) -> Result<()> {
    let path = db.join(OPLOG_SIZE);
    fs::write(&path, format!("{mebibytes}\n")).with_context(|| format!("cannot write {}", path.display()))
}

/// The options, by which log is kept that was kept before: streams of changes go on in it. [`cut_log`] gives it up.
fn keeping_log(args: &DbArgs, options: Options) -> Options {
    if options.log_keep_bytes > 0 {
        return options;
    }
    let noted = fs::read_to_string(args.path.join(OPLOG_SIZE)).ok();
    match noted.and_then(|text| text.trim().parse::<u32>().ok()) {
        Some(mebibytes) => options.log_keep_bytes(u64::from(mebibytes) << 20),
        None => match spinney::kept_log_bytes(&args.path) {
            Ok(kept) if kept > 0 => options.log_keep_bytes(kept.max(LOG_KEEP_BYTES)),
            // The open tells what is wrong.
            _ => options,
        },
    }
}

/// Gives up the log that no recovery needs, and keeps none from now on.
pub(crate) fn cut_log(args: &DbArgs) -> Result<()> {
    let path = args.path.join(OPLOG_SIZE);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", path.display()));
        }
        _ => {}
    }
    close_after(replayed(args, Options::default(), |builder| builder.create(false).open())?, |_| Ok(()))
}

/// Opens a database, and shows how far the replay of its log is.
fn replayed(
    args: &DbArgs,
    options: Options,
    open: impl FnOnce(DatabaseBuilder) -> spinney::Result<Database>,
) -> Result<Database> {
    let memory_bytes = args.memory.unwrap_or(options.memory_bytes);
    let options = options.memory_bytes(memory_bytes).log_dir(args.log_dir.clone());
    let bar = progress::byte_bar(0, "recovery");
    bar.set_draw_target(ProgressDrawTarget::hidden());
    let told = bar.clone();
    let builder =
        Database::builder(&args.path).options(options).on_replay(move |now| show(&told, now.bytes, now.bytes_total));
    let db = open(builder);
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
        None => bail!("{} has no table `{}`", db.path().display(), one_line(name)),
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

/// Looks at a database without changing it, also while another process has it open and where nothing can be written.
pub(crate) fn look<T>(args: &DbArgs, work: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
    close_after(replayed(args, Options::default(), DatabaseBuilder::open_read_only)?, work)
}

/// As [`look`] with a table of it.
pub(crate) fn look_at_table<T>(args: &TableArgs, work: impl FnOnce(&Database, &Table) -> Result<T>) -> Result<T> {
    look(&args.db, |db| work(db, &table(db, &args.table)?))
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
