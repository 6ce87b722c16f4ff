//! `dump`: tables as text, as of one moment; `restore` makes them again.
//!
//! # Invariants
//! 1. The text follows from the entries and the options of the tables alone.
//! 2. A dump takes memory for one entry, whatever the tables hold.
//! 3. A file that was there is replaced by a complete dump or stays as it is.

pub(crate) mod args;
mod format;
mod reader;
pub(crate) mod restore;
mod rows;
mod stand_ins;
mod writer;

use crate::escape::one_line;
use crate::failure::Usage;
use crate::out_file::OutFile;
use crate::output::Output;
use crate::store::{look, refuse_inside, show, table};
use anyhow::{Result, bail};
use args::{DumpArgs, DumpFormat};
use indicatif::{ProgressBar, ProgressDrawTarget};
use rows::RowWriter;
use spinney::{Database, Snapshot, Table};
use spinney_lab::{Stop, progress, signals};
use std::io::Write;
use writer::DumpWriter;

/// Entries between two looks at the clock.
const LOOK_ENTRIES: u64 = 1000;

/// Dumps tables.
pub(crate) fn run(args: &DumpArgs, out: &mut Output) -> Result<()> {
    if args.hex && args.format == DumpFormat::Dump {
        bail!(Usage("--hex is for --format jsonl and csv: a dump has escapes".to_owned()));
    }
    let output = args.output.as_deref().filter(|path| *path != "-");
    output.map_or(Ok(()), |path| refuse_inside(path, &args.db.path))?;
    let stop = signals::stop()?;
    look(&args.db, |db| {
        let tables = chosen(db, &args.tables)?;
        match output {
            None => write(args, db, &tables, &stop, out).map(drop),
            Some(path) => write(args, db, &tables, &stop, OutFile::create(path)?)?.complete(),
        }
    })
}

/// The named tables, or all, in the order of their names.
fn chosen(db: &Database, names: &[String]) -> Result<Vec<Table>> {
    names.iter().try_for_each(|name| table(db, name).map(drop))?;
    let mut tables = db.tables()?;
    tables.retain(|table| names.is_empty() || names.iter().any(|name| name == table.name()));
    Ok(tables)
}

/// Writes tables; gives back what they were written to.
fn write<W: Write>(args: &DumpArgs, db: &Database, tables: &[Table], stop: &Stop, out: W) -> Result<W> {
    let mut walk = Walk::begin(db, tables, stop)?;
    if args.format != DumpFormat::Dump {
        let mut rows = RowWriter::begin(out, args.format, args.hex, args.tables.len() != 1)?;
        for table in tables {
            walk.entries(table, |key, value| rows.entry(table, key, value))?;
        }
        return Ok(rows.done());
    }
    let mut dump = DumpWriter::begin(out, tables.iter().map(|table| (table.name(), table.options())))?;
    for table in tables {
        dump.begin_table(table.name())?;
        walk.entries(table, |key, value| Ok(dump.entry(key, value)?))?;
        dump.end_table()?;
    }
    Ok(dump.done()?)
}

/// A walk over the entries of tables, beside a bar.
struct Walk<'a> {
    snapshot: Snapshot,
    stop: &'a Stop,
    bar: ProgressBar,
    done: u64,
    total: u64,
}

impl<'a> Walk<'a> {
    fn begin(db: &Database, tables: &[Table], stop: &'a Stop) -> Result<Self> {
        let snapshot = db.snapshot();
        let estimates = tables.iter().map(|table| Ok(snapshot.estimate(table, ..)?.entries));
        let total = estimates.sum::<Result<u64>>()?;
        let bar = progress::bar(total, "dump", "entries");
        bar.set_draw_target(ProgressDrawTarget::hidden());
        Ok(Self { snapshot, stop, bar, done: 0, total })
    }

    /// Gives each entry of a table to `each`.
    fn entries(&mut self, table: &Table, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.bar.set_prefix(one_line(table.name()).chars().take(12).collect::<String>());
        let mut range = self.snapshot.range(table, ..);
        while let Some((key, value)) = range.advance()? {
            each(key, value)?;
            self.done += 1;
            if self.done.is_multiple_of(LOOK_ENTRIES) {
                self.stop.check()?;
                show(&self.bar, self.done.min(self.total), self.total);
            }
        }
        Ok(())
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
