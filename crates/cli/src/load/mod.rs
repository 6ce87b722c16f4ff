//! `load`: a file of JSON lines into a table, a batch at a time, or sorted ones all at once.
//!
//! # Invariants
//! 1. A batch is committed whole or not at all; the one that holds a wrong line is not.
//! 2. A batch is acknowledged after its commit has returned.
//! 3. A sorted load adds all rows or none.
//! 4. A load into an unlogged table succeeds only after a flush of it.

#[cfg(test)]
mod fuzzed;
mod input;
mod key;
mod lines;

use crate::args::LoadArgs;
use crate::failure;
use crate::output::Output;
use crate::store::{close_after, open_to_commit};
use anyhow::{Context as _, Error, Result, anyhow, bail};
use indicatif::ProgressBar;
use input::Input;
use lines::Lines;
use serde::Serialize;
use spinney::{Batch, Database, Durability, Layout, Table, TableOptions};
use spinney_lab::signals;
use spinney_lab::text::{bytes, count, counted, digits};
use spinney_lab::{Stop, Stopwatch, progress};
use std::error::Error as StdError;
use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;

/// Bytes of keys and values at which a batch is committed before it has its number of rows.
const BATCH_BYTES: usize = 4 << 20;
/// Rows of a sorted load between two looks at the clock.
const SORTED_ROWS: u64 = 1000;

/// What was loaded.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Loaded {
    rows: u64,
    bytes: u64,
    batches: u64,
    seconds: f64,
}

/// A load that ended early; the rows of all batches before were loaded.
#[derive(Debug)]
struct Failed {
    input: PathBuf,
    rows: u64,
    /// The last commit failed, and may yet be on the device.
    in_doubt: bool,
    cause: Error,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input, rows, in_doubt, cause } = self;
        let at_least = if *in_doubt { "at least " } else { "" };
        let were = if *rows == 1 { "row was" } else { "rows were" };
        write!(f, "{}: {}; {at_least}{rows} {were} loaded", input.display(), failure::message(cause))
    }
}

impl StdError for Failed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.cause.as_ref())
    }
}

/// Loads a file.
pub(crate) fn run(args: &LoadArgs, out: &mut Output) -> Result<()> {
    // The input first, so that a wrong name leaves no database behind.
    let input = Input::open(&args.jsonl)?;
    let stop = signals::stop()?;
    let db = open_to_commit(&args.table.db, &args.commit, true)?;
    let (loaded, layout) = close_after(db, |db| {
        let table = table(db, args)?;
        let bar = match input.total_bytes() {
            Some(total) => progress::byte_bar(total, &args.table.table),
            None => progress::wheel(&args.table.table),
        };
        let mut loader = Loader { args, db, table: &table, stop, bar, loaded: Loaded::default(), in_doubt: false };
        let done = if args.sorted { loader.load_sorted(input) } else { loader.load(input, out) };
        loader.bar.finish_and_clear();
        let Loader { loaded, in_doubt, .. } = loader;
        match done {
            Ok(()) => Ok((loaded, table.options().layout)),
            Err(cause) => Err(Failed { input: args.jsonl.clone(), rows: loaded.rows, in_doubt, cause }.into()),
        }
    })?;
    if args.json {
        return out.json_line(&loaded);
    }
    writeln!(
        out,
        "loaded {} ({}) into `{}` ({}) in {} s: {} rows/s",
        counted(loaded.rows, "row", "rows"),
        bytes(loaded.bytes),
        args.table.table,
        layout.name(),
        digits(loaded.seconds),
        digits(loaded.rows as f64 / loaded.seconds),
    )?;
    Ok(())
}

/// The table to load into, made if it is not there.
fn table(db: &Database, args: &LoadArgs) -> Result<Table> {
    let name = &args.table.table;
    let wanted: Option<Layout> = args.layout.map(Into::into);
    let Some(table) = db.table(name)? else {
        let layout = wanted.unwrap_or_default();
        return Ok(db.create_table(name, TableOptions { layout, logged: !args.unlogged, ..TableOptions::default() })?);
    };
    let TableOptions { layout, logged, .. } = *table.options();
    if args.unlogged && logged {
        bail!("table `{name}` exists with redo log, and that cannot change: leave out --unlogged");
    }
    match wanted {
        Some(wanted) if wanted != layout => {
            bail!("table `{name}` exists with layout {}, not {}", layout.name(), wanted.name())
        }
        _ => Ok(table),
    }
}

struct Loader<'a> {
    args: &'a LoadArgs,
    db: &'a Database,
    table: &'a Table,
    stop: Stop,
    bar: ProgressBar,
    loaded: Loaded,
    in_doubt: bool,
}

impl Loader<'_> {
    fn load(&mut self, input: Input, out: &mut Output) -> Result<()> {
        let durability: Durability = self.args.commit.durability.into();
        let stopwatch = Stopwatch::start();
        let position = input.position();
        let mut lines = Lines::new(input);
        loop {
            let (batch, rows, bytes) = self.batch(&mut lines)?;
            if rows == 0 {
                break;
            }
            self.in_doubt = true;
            self.db.write(batch, durability)?;
            self.in_doubt = false;
            self.loaded.rows += rows;
            self.loaded.bytes += bytes as u64;
            self.loaded.batches += 1;
            self.loaded.seconds = stopwatch.elapsed().as_secs_f64();
            if self.args.ack {
                // A load that nobody listens to any more is not done: not the pipe's error, which would pass for success.
                let acknowledged = writeln!(out, "acknowledged {}", self.loaded.rows).and_then(|()| out.flush());
                acknowledged.map_err(|error| anyhow!("cannot acknowledge: {error}"))?;
            }
            self.bar.set_position(position.get());
            let rate = digits(self.loaded.rows as f64 / self.loaded.seconds);
            self.bar.set_message(format!("{} rows {rate}/s", count(self.loaded.rows)));
            self.stop.check()?;
        }
        if !self.table.options().logged {
            self.table.flush()?;
            self.loaded.seconds = stopwatch.elapsed().as_secs_f64();
        }
        Ok(())
    }

    /// Loads rows that come in the order of their keys.
    fn load_sorted(&mut self, input: Input) -> Result<()> {
        let stopwatch = Stopwatch::start();
        let position = input.position();
        let mut lines = Lines::new(input);
        let mut load = self.table.bulk_load()?;
        let mut loaded = Loaded { batches: 1, ..Loaded::default() };
        while let Some((number, line)) = lines.next()? {
            let key = key::of_line(line, &self.args.key).with_context(|| format!("line {number}"))?;
            load.push(&key, line).with_context(|| format!("line {number}"))?;
            loaded.rows += 1;
            loaded.bytes += (key.len() + line.len()) as u64;
            if loaded.rows.is_multiple_of(SORTED_ROWS) {
                self.bar.set_position(position.get());
                let rate = digits(loaded.rows as f64 / stopwatch.elapsed().as_secs_f64());
                self.bar.set_message(format!("{} rows {rate}/s", count(loaded.rows)));
                self.stop.check()?;
            }
        }
        self.in_doubt = true;
        load.finish()?;
        self.in_doubt = false;
        self.loaded = Loaded { seconds: stopwatch.elapsed().as_secs_f64(), ..loaded };
        Ok(())
    }

    /// The next rows, with their number and bytes; none at the end of the input.
    fn batch(&self, lines: &mut Lines<Input>) -> Result<(Batch, u64, usize)> {
        let mut batch = Batch::new();
        let (mut rows, mut bytes) = (0, 0);
        while rows < self.args.batch && bytes < BATCH_BYTES {
            let Some((number, line)) = lines.next()? else { break };
            let key = key::of_line(line, &self.args.key).with_context(|| format!("line {number}"))?;
            batch.put(self.table, &key, line);
            rows += 1;
            bytes += key.len() + line.len();
        }
        Ok((batch, rows, bytes))
    }
}
