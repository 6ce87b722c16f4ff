//! `verify`, `flush`, `compact` and `checkpoint`.

use crate::args::{CheckpointArgs, CompactArgs, FlushArgs, VerifyArgs};
use crate::output::{Output, one_line};
use crate::store::{Directories, tables, with_db};
use anyhow::{Result, bail};
use spinney::{Database, Shape, Table};
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
    let report = with_db(&args.db, |db| beside_reading_bar("verify", db, || Ok(db.verify()?)))?;
    if args.json {
        out.json(&report)?;
    } else {
        for problem in &report.problems {
            writeln!(out, "{problem}")?;
        }
        writeln!(
            out,
            "{}, {}, {}, {}, {}",
            counted(report.tables, "table", "tables"),
            counted(report.files, "file", "files"),
            counted(report.blocks, "block", "blocks"),
            counted(report.entries, "entry", "entries"),
            bytes(report.bytes),
        )?;
        if report.dead_value_bytes > 0 {
            writeln!(out, "{} of dead values, which compactions reclaim", bytes(report.dead_value_bytes))?;
        }
    }
    match report.problems.len() {
        0 => Ok(()),
        n => bail!("{} is damaged: {}", args.db.path.display(), counted(n as u64, "problem", "problems")),
    }
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
    with_db(&args.db, |db| tables(db, args.table.as_deref())?.iter().try_for_each(|table| Ok(table.flush()?)))
}

/// Merges each table into one tree, or a level of one into the next, or waits for what the layouts want.
pub(crate) fn compact(args: &CompactArgs) -> Result<()> {
    let wheel = progress::wheel("compact");
    let done = with_db(&args.db, |db| {
        tables(db, args.table.as_deref())?.iter().try_for_each(|table| {
            wheel.set_message(one_line(table.name()));
            match args.level {
                Some(level) => Ok(table.compact_level(level)?),
                None if args.until_idle => Ok(table.wait_idle()?),
                None => Ok(table.compact()?),
            }
        })
    });
    wheel.finish_and_clear();
    done
}

/// Copies the database.
pub(crate) fn checkpoint(args: &CheckpointArgs) -> Result<()> {
    let made = Directories::missing([&args.dir].into_iter());
    let done = with_db(&args.db, |db| Ok(db.checkpoint(&args.dir)?));
    if done.is_err() {
        made.remove();
    }
    done
}
