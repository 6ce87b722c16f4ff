//! `verify`, `flush`, `compact` and `checkpoint`.

use crate::args::{CheckpointArgs, CompactArgs, FlushArgs, VerifyArgs};
use crate::output::Output;
use crate::store::{tables, with_db};
use anyhow::{Result, bail};
use spinney_lab::progress;
use spinney_lab::text::{bytes, counted};
use std::io::Write as _;

/// Checks everything; fails if something is wrong.
pub(crate) fn verify(args: &VerifyArgs, out: &mut Output) -> Result<()> {
    let wheel = progress::wheel("verify");
    let report = with_db(&args.db, |db| Ok(db.verify()?))?;
    wheel.finish_and_clear();
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

/// Writes what is in memory.
pub(crate) fn flush(args: &FlushArgs) -> Result<()> {
    with_db(&args.db, |db| tables(db, args.table.as_deref())?.iter().try_for_each(|table| Ok(table.flush()?)))
}

/// Merges each table into one tree, or a level of one into the next.
pub(crate) fn compact(args: &CompactArgs) -> Result<()> {
    let wheel = progress::wheel("compact");
    let done = with_db(&args.db, |db| {
        tables(db, args.table.as_deref())?.iter().try_for_each(|table| {
            wheel.set_message(table.name().to_owned());
            match args.level {
                Some(level) => Ok(table.compact_level(level)?),
                None => Ok(table.compact()?),
            }
        })
    });
    wheel.finish_and_clear();
    done
}

/// Copies the database.
pub(crate) fn checkpoint(args: &CheckpointArgs) -> Result<()> {
    with_db(&args.db, |db| Ok(db.checkpoint(&args.dir)?))
}
