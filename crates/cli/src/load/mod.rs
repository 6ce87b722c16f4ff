//! `load`: a file of JSON lines into a table, a batch at a time, or sorted ones all at once.
//!
//! # Invariants
//! 1. A batch is committed whole or not at all; the one that holds a wrong line is not.
//! 2. A batch is acknowledged after its commit has returned.
//! 3. A sorted load adds all rows or none.
//! 4. A load that adds no row leaves no table that it made, and no database.
//! 5. A load into an unlogged table succeeds only after a flush of it.

#[cfg(test)]
mod fuzzed;
mod key;
mod lines;

use crate::args::LoadArgs;
use crate::entries::{counts, number};
use crate::escape::one_line;
use crate::failure;
use crate::input::Input;
use crate::output::Output;
use crate::store::{in_new_or_old, log_options};
use anyhow::{Context as _, Error, Result, anyhow, bail};
use indicatif::ProgressBar;
use lines::Lines;
use serde::Serialize;
use spinney::{Batch, Database, Durability, Layout, Options, Table, TableOptions};
use spinney_lab::signals;
use spinney_lab::text::{self, bytes, count, counted, digits};
use spinney_lab::{Stop, Stopwatch, progress};
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;

/// Bytes of keys and values at which a batch is committed before it has its number of rows.
const BATCH_BYTES: usize = 4 << 20;
/// What a row takes in a commit beside its key and value: its table, its kind and their lengths.
const ROW_OVERHEAD_BYTES: usize = 16;
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
    let shown = one_line(&args.table.table);
    let (loaded, layout) = in_new_or_old(&args.table.db, log_options(&args.commit), |db| {
        let (table, made) = table(db, args)?;
        let bar = match input.total_bytes() {
            Some(total) => progress::byte_bar(total, &shown),
            None => progress::wheel(&shown),
        };
        let mut loader = Loader { args, db, table: &table, stop, bar, loaded: Loaded::default(), in_doubt: false };
        let done = if args.sorted { loader.load_sorted(input) } else { loader.load(input, out) };
        loader.bar.finish_and_clear();
        let Loader { loaded, in_doubt, .. } = loader;
        if done.is_err() && made && loaded.rows == 0 {
            // What stays when this fails too is an empty table.
            db.drop_table(table.name()).ok();
        }
        match done {
            Ok(()) => Ok((loaded, table.options().layout)),
            Err(cause) => Err(Failed { input: args.jsonl.clone(), rows: loaded.rows, in_doubt, cause }.into()),
        }
    })?;
    if args.json {
        return out.json_line(&loaded);
    }
    if loaded.rows == 0 {
        return Ok(writeln!(out, "loaded 0 rows into `{shown}` ({}): the input has none", layout.name())?);
    }
    writeln!(
        out,
        "loaded {} ({}) into `{shown}` ({}) in {} s: {} rows/s",
        counted(loaded.rows, "row", "rows"),
        bytes(loaded.bytes),
        layout.name(),
        digits(loaded.seconds),
        digits(loaded.rows as f64 / loaded.seconds),
    )?;
    Ok(())
}

/// The table to load into, and whether it was made for that.
fn table(db: &Database, args: &LoadArgs) -> Result<(Table, bool)> {
    let (name, shown) = (&args.table.table, one_line(&args.table.table));
    let wanted: Option<Layout> = args.layout.map(Into::into);
    let Some(table) = db.table(name)? else {
        let layout = wanted.unwrap_or_default();
        let options = TableOptions::default().layout(layout).logged(!args.unlogged);
        return Ok((db.create_table(name, options)?, true));
    };
    let TableOptions { layout, logged, .. } = *table.options();
    if args.unlogged && logged {
        bail!("table `{shown}` exists with redo log, and that cannot change: leave out --unlogged");
    }
    if counts(&table) && args.value.is_none() {
        bail!("table `{shown}` holds counters: say with --value which field is the number");
    }
    match wanted {
        Some(wanted) if wanted != layout => {
            bail!("table `{shown}` exists with layout {}, not {}", layout.name(), wanted.name())
        }
        _ => Ok((table, false)),
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
            self.db.write_with(&batch, durability)?;
            self.in_doubt = false;
            self.loaded.rows += rows;
            self.loaded.bytes += bytes as u64;
            self.loaded.batches += 1;
            self.loaded.seconds = stopwatch.elapsed().as_secs_f64();
            if self.args.ack {
                // A load that nobody listens to any more is not done: not the pipe's error, which would pass for
                // success.
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
            let (key, value) = self.row(line).with_context(|| format!("line {number}"))?;
            load.push(&key, &value).with_context(|| format!("line {number}"))?;
            loaded.rows += 1;
            loaded.bytes += (key.len() + value.len()) as u64;
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
        let fits = self.commit_bytes_max();
        while rows < self.args.batch {
            let Some((number, line)) = lines.next()? else { break };
            let (key, value) = self.row(line).with_context(|| format!("line {number}"))?;
            let row_bytes = key.len() + value.len() + ROW_OVERHEAD_BYTES;
            if row_bytes > fits {
                let (row, fits) = (text::bytes(row_bytes as u64), text::bytes(fits as u64));
                bail!("line {number}: a row of {row} is larger than --memory allows (a quarter of it, {fits})");
            }
            if batch.bytes() + row_bytes > fits.min(BATCH_BYTES) && rows > 0 {
                lines.again();
                break;
            }
            batch.put(self.table, &key, &value);
            rows += 1;
            bytes += key.len() + value.len();
        }
        Ok((batch, rows, bytes))
    }

    /// The largest commit that the database takes: a quarter of its memory.
    fn commit_bytes_max(&self) -> usize {
        let memory = self.args.table.db.memory.unwrap_or(Options::default().memory_bytes);
        usize::try_from(memory / 4).unwrap_or(usize::MAX)
    }

    /// The key of a line, and its value as the table has it.
    fn row<'l>(&self, line: &'l [u8]) -> Result<(Vec<u8>, Cow<'l, [u8]>)> {
        let (key, value) = key::row(line, &self.args.key, self.args.value.as_deref())?;
        let value = match value {
            None => Cow::Borrowed(line),
            Some(text) if counts(self.table) => Cow::Owned(number(&text)?.to_vec()),
            Some(text) => Cow::Owned(text.into_bytes()),
        };
        Ok((key, value))
    }
}
