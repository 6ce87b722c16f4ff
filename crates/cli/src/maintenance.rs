//! `verify`, `flush`, `compact` and `checkpoint`.

use crate::args::{CheckpointArgs, CompactArgs, FlushArgs, VerifyArgs};
use crate::check::documents::Documents;
use crate::escape::one_line;
use crate::output::{Output, json_of};
use crate::store::{Directories, close_after, look, open, refuse_inside, tables, with_db};
use anyhow::{Result, bail};
use serde_json::{Value as Json, json};
use spinney::base::num::u64_of;
use spinney::{CheckpointReport, Database, Options, Problem, Shape, Table, VerifyReport, checkpoint_beside};
use spinney_lab::progress;
use spinney_lab::text::{bytes, counted};
use std::io::Write as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How often a bar looks how far the work is.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Checks everything; fails if something is wrong.
pub(crate) fn verify(args: &VerifyArgs, out: &mut Output) -> Result<()> {
    look(&args.db, |db| verify_in(db, args, out))
}

/// Checks everything in a database that is open, and prints it; fails if something is wrong.
pub(crate) fn verify_in(db: &Database, args: &VerifyArgs, out: &mut Output) -> Result<()> {
    let report = beside_reading_bar("verify", db, || Ok(db.verify()?))?;
    print_verified(&report, &Documents::of(db, args.documents)?, args, out)
}

/// Prints what a check found; fails if something is wrong.
fn print_verified(report: &VerifyReport, documents: &Documents, args: &VerifyArgs, out: &mut Output) -> Result<()> {
    let db = args.db.path.display();
    if args.json {
        out.json(&json_of_report(report, documents))?
    } else {
        print_report(report, out)?;
        documents.print(&db.to_string(), out)?;
    }
    let problems = counted(report.problem_count, "problem", "problems");
    let told = u64_of(report.problems.len());
    if report.problem_count == 0 {
        return match documents.problem_count() {
            0 => Ok(()),
            disagreements => {
                let problems = counted(disagreements, "problem", "problems");
                bail!(
                    "the documents and indexes of {db} have {problems}: what is printed says which. Indexes are built \
                     again by the command reIndex or validate with {{repair: true}} of `spinney serve`, or, without a \
                     server, in a copy: spinney salvage {db} OUT"
                )
            }
        };
    }
    if report.problem_count == told && report.problems.iter().all(|problem| problem.is_mended_by_open) {
        bail!("{db} has {problems}, and nothing is lost: spinney flush {db} mends it")
    }
    bail!("{db} is damaged: {problems}: spinney salvage {db} OUT copies what can be read to a new database")
}

fn print_report(report: &VerifyReport, out: &mut Output) -> Result<()> {
    for problem in &report.problems {
        writeln!(out, "{problem}")?;
    }
    let more = report.problem_count - u64_of(report.problems.len());
    if more > 0 {
        writeln!(out, "and {} more", counted(more, "problem", "problems"))?;
    }
    let tables = counted(report.tables, "table", "tables");
    let memory = match report.memory_entries {
        0 => "nothing".to_owned(),
        entries => counted(entries, "entry", "entries"),
    };
    let (commits, log) = (counted(report.log_commits, "commit", "commits"), bytes(report.log_bytes));
    writeln!(out, "{tables}: {memory} in memory (redo log checked: {commits}, {log})")?;
    writeln!(
        out,
        "on disk: {}, {}, {}, {}",
        counted(report.files, "file", "files"),
        counted(report.blocks, "block", "blocks"),
        counted(report.entries, "entry", "entries"),
        bytes(report.bytes),
    )?;
    if report.dead_value_bytes > 0 {
        writeln!(out, "{} of dead values, which compactions reclaim", bytes(report.dead_value_bytes))?;
    }
    Ok(())
}

fn json_of_report(report: &VerifyReport, documents: &Documents) -> Json {
    let problem = |problem: &Problem| {
        let key = |key: &Vec<u8>| json_of(key);
        let (from, to) = problem.keys.as_ref().map_or((None, None), |(from, to)| (Some(from), to.as_ref()));
        json!({
            "table": problem.table,
            "file": problem.file,
            "offset": problem.offset,
            "from": from.map(key),
            "to": to.map(key),
            "damage": problem.what,
            "mended_by_open": problem.is_mended_by_open,
        })
    };
    json!({
        "tables": report.tables,
        "memory_entries": report.memory_entries,
        "log_commits": report.log_commits,
        "log_bytes": report.log_bytes,
        "files": report.files,
        "blocks": report.blocks,
        "entries": report.entries,
        "bytes": report.bytes,
        "dead_value_bytes": report.dead_value_bytes,
        "problem_count": report.problem_count,
        "problems": report.problems.iter().map(problem).collect::<Vec<_>>(),
        "documents": documents.json(),
    })
}

/// Does work that reads all that the tables have on disk, beside a bar that tells how far it is.
fn beside_reading_bar<T>(what: &str, db: &Database, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let shapes = db.tables()?.iter().map(Table::shape).collect::<Result<Vec<_>, _>>()?;
    let (total, before) = (shapes.iter().map(bytes_on_disk).sum(), db.stats().storage.read_bytes);
    let bar = progress::byte_bar(total, what);
    let (working, ends) = mpsc::channel::<()>();
    let done = thread::scope(|scope| {
        let bar = &bar;
        scope.spawn(move || {
            // Until the other end is gone.
            while ends.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                bar.set_position(db.stats().storage.read_bytes.saturating_sub(before).min(total));
            }
        });
        let done = work();
        drop(working);
        done
    });
    bar.finish_and_clear();
    done
}

fn bytes_on_disk(shape: &Shape) -> u64 {
    let runs: u64 = shape.l0.iter().map(|run| run.bytes).chain(shape.levels.iter().map(|level| level.bytes)).sum();
    let btree = shape.btree.as_ref().map_or(0, |btree| btree.file_bytes - btree.free_bytes);
    runs + btree + shape.values.live_bytes
}

/// Writes what is in memory.
pub(crate) fn flush(args: &FlushArgs) -> Result<()> {
    with_db(&args.db, |db| flush_in(db, args))
}

/// As [`flush`] in a database that is open.
pub(crate) fn flush_in(db: &Database, args: &FlushArgs) -> Result<()> {
    tables(db, args.table.as_deref())?.iter().try_for_each(|table| Ok(table.flush()?))
}

/// Merges each table into one tree, or a level of one into the next, or waits for what the layouts want.
pub(crate) fn compact(args: &CompactArgs) -> Result<()> {
    with_db(&args.db, |db| compact_in(db, args))
}

/// As [`compact`] in a database that is open.
pub(crate) fn compact_in(db: &Database, args: &CompactArgs) -> Result<()> {
    let wheel = progress::wheel("compact");
    let done = tables(db, args.table.as_deref())?.iter().try_for_each(|table| {
        wheel.set_message(one_line(table.name()));
        match args.level {
            Some(level) => Ok(table.compact_level(level)?),
            None if args.until_idle => Ok(table.wait_idle()?),
            None => Ok(table.compact()?),
        }
    });
    wheel.finish_and_clear();
    done
}

/// Copies the database, also while another process has it open.
pub(crate) fn checkpoint(args: &CheckpointArgs, out: &mut Output) -> Result<()> {
    let is_open = |error: &anyhow::Error| {
        error.downcast_ref::<spinney::Error>().is_some_and(|error| error.kind() == spinney::ErrorKind::Locked)
    };
    match open(&args.db) {
        Err(error) if is_open(&error) => {
            let options = Options::default();
            let memory_bytes = args.db.memory.unwrap_or(options.memory_bytes);
            copied(args, out, || {
                checkpoint_beside(&args.db.path, &args.dir, args.since.as_deref(), options.memory_bytes(memory_bytes))
            })
        }
        db => close_after(db?, |db| checkpoint_of(db, args, out)),
    }
}

/// As [`checkpoint`] of a database that is open.
pub(crate) fn checkpoint_of(db: &Database, args: &CheckpointArgs, out: &mut Output) -> Result<()> {
    copied(args, out, || match &args.since {
        Some(base) => db.checkpoint_since(&args.dir, base),
        None => db.checkpoint(&args.dir),
    })
}

/// Makes a copy, and tells what it shares with an earlier one.
fn copied(
    args: &CheckpointArgs,
    out: &mut Output,
    make: impl FnOnce() -> spinney::Result<CheckpointReport>,
) -> Result<()> {
    refuse_inside(&args.dir, &args.db.path)?;
    let made = Directories::missing([&args.dir].into_iter());
    let done = make();
    if done.is_err() {
        made.remove();
    }
    let report = done?;
    if args.since.is_none() {
        return Ok(());
    }
    if args.json {
        return out.json_line(&report);
    }
    let (linked, copied) = (counted(report.linked_files, "file", "files"), report.copied_files);
    let (linked_bytes, copied_bytes) = (bytes(report.linked_bytes), bytes(report.copied_bytes));
    Ok(writeln!(out, "{linked} linked ({linked_bytes}), {copied} copied ({copied_bytes})")?)
}
