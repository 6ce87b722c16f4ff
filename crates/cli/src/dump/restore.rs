//! `restore`: the tables of a dump, each all at once.
//!
//! # Invariants
//! 1. A table gets its entries by one bulk load, after all that the dump has of them was read and compared.
//! 2. A restore that fails drops the tables that it made, and what tables held that were there stays, but for tables
//!    that were replaced before as a whole, which the message names.
//!
//! A replaced table is emptied by a commit and then gets its entries by another: a crash between the two leaves it
//! empty, which the help of the command says.

use super::args::RestoreArgs;
use super::reader::DumpReader;
use super::stand_ins;
use crate::escape::one_line;
use crate::failure;
use crate::input::Input;
use crate::output::Output;
use crate::store::{in_new_or_old_with, refuse_member, show};
use anyhow::{Context as _, Error, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;
use spinney::{Batch, Database, Durability, Options, Table, TableOptions};
use spinney_lab::text::{bytes, counted, digits};
use spinney_lab::{Stop, Stopwatch, progress, signals};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::rc::Rc;

/// Entries between two looks at the clock.
const LOOK_ENTRIES: u64 = 1000;

/// What was restored.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Restored {
    tables: u64,
    entries: u64,
    bytes: u64,
    seconds: f64,
}

/// A restore that failed.
#[derive(Debug)]
struct Failed {
    input: PathBuf,
    /// Tables that were replaced before.
    replaced: Vec<String>,
    cause: Error,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input, replaced, cause } = self;
        write!(f, "{}: {}; ", input.display(), failure::message(cause))?;
        let names: Vec<String> = replaced.iter().map(|name| format!("`{}`", one_line(name))).collect();
        match names.len() {
            0 => write!(f, "nothing was restored"),
            1 => write!(f, "only table {} was restored", names[0]),
            _ => write!(f, "only tables {} were restored", names.join(", ")),
        }
    }
}

impl StdError for Failed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.cause.as_ref())
    }
}

/// Restores tables.
pub(crate) fn run(args: &RestoreArgs, out: &mut Output) -> Result<()> {
    // The input first, so that a wrong one leaves no database behind.
    let failed = |cause| Failed { input: args.input.clone(), replaced: Vec::new(), cause };
    let input = Input::open(&args.input)?;
    let (position, input_bytes) = (input.position(), input.total_bytes());
    let dump = DumpReader::new(input).map_err(failed)?;
    let wanted = wanted(args, dump.tables()).map_err(failed)?;
    let tables: Vec<_> = dump.tables().iter().filter(|(name, _)| wanted.contains(name)).cloned().collect();
    let stop = signals::stop()?;
    let register = |builder| stand_ins::register(builder, tables.iter().map(|(_, options)| options));
    let restored = in_new_or_old_with(&args.db, Options::default(), register, |db| {
        refuse_member(db)?;
        check_existing(db, args, &tables)?;
        let bar = input_bytes.map_or_else(|| progress::wheel("restore"), |total| progress::byte_bar(total, "restore"));
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let (made, replaced) = (Vec::new(), Vec::new());
        let restored = Restored::default();
        let mut restorer = Restorer { db, stop: &stop, bar, position, input_bytes, restored, made, replaced };
        let done = restorer.all(dump, &wanted);
        restorer.bar.finish_and_clear();
        if let Err(cause) = done {
            // What stays when this fails too is a table that was there when the dump was found to be damaged.
            restorer.made.iter().for_each(|name| drop(db.drop_table(name)));
            return Err(Failed { input: args.input.clone(), replaced: restorer.replaced, cause }.into());
        }
        Ok(restorer.restored)
    })?;
    if args.json {
        return out.json_line(&restored);
    }
    writeln!(
        out,
        "restored {}: {} ({}) in {} s",
        counted(restored.tables, "table", "tables"),
        counted(restored.entries, "entry", "entries"),
        bytes(restored.bytes),
        digits(restored.seconds),
    )?;
    Ok(())
}

/// The names of the tables to restore.
fn wanted(args: &RestoreArgs, tables: &[(String, TableOptions)]) -> Result<BTreeSet<String>> {
    let there: BTreeSet<String> = tables.iter().map(|(name, _)| name.clone()).collect();
    if let Some(missing) = args.tables.iter().find(|name| !there.contains(*name)) {
        bail!("the dump has no table `{}`", one_line(missing));
    }
    Ok(if args.tables.is_empty() { there } else { args.tables.iter().cloned().collect() })
}

/// Refuses tables that are there and cannot take the entries.
fn check_existing(db: &Database, args: &RestoreArgs, tables: &[(String, TableOptions)]) -> Result<()> {
    for (name, options) in tables {
        let Some(table) = db.table(name)? else { continue };
        let shown = one_line(name);
        if table.options() != options {
            bail!("table `{shown}` is there with other options than in the dump: drop it first");
        }
        if !args.replace && !is_empty(&table)? {
            bail!("table `{shown}` is there and not empty: with --replace its entries are replaced");
        }
    }
    Ok(())
}

fn is_empty(table: &Table) -> Result<bool> {
    Ok(table.range(..).advance_key()?.is_none())
}

struct Restorer<'a> {
    db: &'a Database,
    stop: &'a Stop,
    bar: ProgressBar,
    position: Rc<Cell<u64>>,
    input_bytes: Option<u64>,
    restored: Restored,
    made: Vec<String>,
    replaced: Vec<String>,
}

impl Restorer<'_> {
    fn all(&mut self, mut dump: DumpReader<Input>, wanted: &BTreeSet<String>) -> Result<()> {
        let stopwatch = Stopwatch::start();
        while let Some((name, options)) = dump.next_table()? {
            if wanted.contains(&name) {
                self.table(&mut dump, &name, options)?;
            } else {
                while dump.next_entry()?.is_some() {
                    self.stop.check()?;
                }
            }
        }
        self.restored.seconds = stopwatch.elapsed().as_secs_f64();
        Ok(())
    }

    fn table(&mut self, dump: &mut DumpReader<Input>, name: &str, options: TableOptions) -> Result<()> {
        let table = match self.db.table(name)? {
            Some(table) => table,
            None => {
                self.made.push(name.to_owned());
                self.db.create_table(name, options)?
            }
        };
        let (mut load, mut bytes) = (table.bulk_load()?, 0);
        while let Some((key, value)) = dump.next_entry()? {
            bytes += (key.len() + value.len()) as u64;
            let pushed = load.push(key, value);
            pushed.with_context(|| format!("line {}", dump.line_number()))?;
            if load.entries().is_multiple_of(LOOK_ENTRIES) {
                self.stop.check()?;
                let read = self.position.get();
                show(&self.bar, read, self.input_bytes.unwrap_or(read));
            }
        }
        let entries = load.entries();
        if !is_empty(&table)? {
            let mut batch = Batch::new();
            batch.delete_range(&table, ..);
            self.db.write_with(&batch, Durability::Sync)?;
            load.finish().with_context(|| format!("table `{}` is empty now", one_line(name)))?;
            self.replaced.push(name.to_owned());
        } else {
            load.finish()?;
        }
        let Restored { tables, entries: all, bytes: all_bytes, .. } = self.restored;
        self.restored = Restored { tables: tables + 1, entries: all + entries, bytes: all_bytes + bytes, seconds: 0.0 };
        Ok(())
    }
}
