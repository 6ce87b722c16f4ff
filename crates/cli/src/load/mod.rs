//! `load`: a file of rows into a table, a batch at a time, or sorted ones all at once.
//!
//! # Invariants
//! 1. A batch is committed whole or not at all; the one that holds a wrong row is not, unless such rows are left out.
//! 2. A batch is acknowledged after its commit has returned.
//! 3. A sorted load adds all rows or none.
//! 4. A load that adds no row leaves no table that it made, and no database.
//! 5. A load into an unlogged table succeeds only after a flush of it.

pub(crate) mod args;
pub(crate) mod delimited;
mod fields;
#[cfg(test)]
mod fuzzed;
pub(crate) mod lines;
mod rows;
mod skipped;
pub(crate) mod step;

use crate::entries::counts;
use crate::escape::one_line;
use crate::failure::{self, Incomplete, Usage};
use crate::input::Input;
use crate::output::{Output, argument};
use crate::store::{in_new_or_old, log_options, refuse_documents, refuse_inside, refuse_member};
use anyhow::{Context as _, Error, Result, anyhow, bail};
use args::LoadArgs;
use indicatif::ProgressBar;
use rows::Rows;
use serde::Serialize;
use serde_json::json;
use skipped::Skipped;
use spinney::{Batch, Database, Durability, Layout, Options, Table, TableOptions};
use spinney_lab::signals;
use spinney_lab::text::{bytes, count, counted, digits};
use spinney_lab::{Stop, Stopwatch, progress};
use std::cell::Cell;
use std::error::Error as StdError;
use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::rc::Rc;
use step::Step;

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
    // The arguments and the input first, so that a wrong one leaves no database behind.
    let separator = argument(&args.key_separator, true)?;
    if args.escape && args.input.tsv.is_none() {
        bail!(Usage("--escape is for --tsv".to_owned()));
    }
    args.bad_rows.as_deref().map_or(Ok(()), |path| refuse_inside(path, &args.table.db.path))?;
    let input = Input::open(args.input_path())?;
    let stop = signals::stop()?;
    let shown = one_line(&args.table.table);
    let (loaded, layout, skipped) = in_new_or_old(&args.table.db, log_options(&args.commit), |db| {
        refuse_member(db)?;
        refuse_documents(db, &args.table.table, args.force.force)?;
        let (table, made) = table(db, args)?;
        let mut loaded = Loaded::default();
        let done = load(args, db, &table, (input, separator), stop, &mut loaded, out);
        if done.is_err() && made && loaded.rows == 0 {
            // What stays when this fails too is an empty table.
            db.drop_table(table.name()).ok();
        }
        Ok((loaded, table.options().layout, done?))
    })?;
    if args.json {
        let mut summary = serde_json::to_value(loaded)?;
        if args.skip_bad {
            summary["left_out"] = json!(skipped.count());
            summary["first_left_out"] = skipped.json();
        }
        out.json_line(&summary)?;
    } else {
        print(&loaded, &shown, layout, out)?;
        skipped.print(out)?;
    }
    match skipped.count() {
        0 => Ok(()),
        count => {
            let (rows, were) = (counted(count, "row", "rows"), if count == 1 { "was" } else { "were" });
            bail!(Incomplete(format!("{rows} of {} {were} left out", args.input_path().display())))
        }
    }
}

fn print(loaded: &Loaded, table: &str, layout: Layout, out: &mut Output) -> Result<()> {
    let layout = layout.name();
    if loaded.rows == 0 {
        return Ok(writeln!(out, "loaded 0 rows into `{table}` ({layout}): the input has none")?);
    }
    let (rows, size) = (counted(loaded.rows, "row", "rows"), bytes(loaded.bytes));
    let (seconds, rate) = (digits(loaded.seconds), digits(loaded.rows as f64 / loaded.seconds));
    Ok(writeln!(out, "loaded {rows} ({size}) into `{table}` ({layout}) in {seconds} s: {rate} rows/s")?)
}

/// Loads into a table; says what was left out, and in `loaded` how far it came, also when it fails.
fn load(
    args: &LoadArgs,
    db: &Database,
    table: &Table,
    (input, separator): (Input, Vec<u8>),
    stop: Stop,
    loaded: &mut Loaded,
    out: &mut Output,
) -> Result<Skipped> {
    let path = args.input_path();
    let failed = |rows, in_doubt, cause| Failed { input: path.to_owned(), rows, in_doubt, cause };
    let shown = one_line(table.name());
    let bar = input.total_bytes().map_or_else(|| progress::wheel(&shown), |total| progress::byte_bar(total, &shown));
    let position = input.position();
    let rows = Rows::new(input, args, separator, counts(table)).map_err(|cause| failed(0, false, cause))?;
    let skipped = Skipped::new(args.bad_rows.as_deref())?;
    let (in_doubt, last_key) = (false, Vec::new());
    let mut loader =
        Loader { args, db, table, stop, bar, position, rows, skipped, last_key, loaded: *loaded, in_doubt };
    let done = if args.sorted { loader.load_sorted() } else { loader.load(out) };
    loader.bar.finish_and_clear();
    let Loader { mut skipped, in_doubt, .. } = loader;
    *loaded = loader.loaded;
    let all_bad = skipped.first().filter(|_| loaded.rows == 0).map(|first| anyhow!("no row is right: {first}"));
    let done = done.and_then(|()| all_bad.map_or(Ok(()), Err)).and_then(|()| skipped.complete());
    done.map_err(|cause| failed(loaded.rows, in_doubt, cause))?;
    Ok(skipped)
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
    position: Rc<Cell<u64>>,
    rows: Rows<Input>,
    skipped: Skipped,
    /// Of a sorted load.
    last_key: Vec<u8>,
    loaded: Loaded,
    in_doubt: bool,
}

impl Loader<'_> {
    fn load(&mut self, out: &mut Output) -> Result<()> {
        let durability: Durability = self.args.commit.durability.into();
        let stopwatch = Stopwatch::start();
        loop {
            let (batch, rows, bytes) = self.batch()?;
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
            self.show(self.loaded.rows, self.loaded.seconds)?;
        }
        if !self.table.options().logged {
            self.table.flush()?;
            self.loaded.seconds = stopwatch.elapsed().as_secs_f64();
        }
        Ok(())
    }

    /// Loads rows that come in the order of their keys.
    fn load_sorted(&mut self) -> Result<()> {
        let stopwatch = Stopwatch::start();
        let mut load = self.table.bulk_load()?;
        let mut loaded = Loaded { batches: 1, ..Loaded::default() };
        while self.advance()? {
            let (key, value) = (self.rows.key(), self.rows.value());
            load.push(key, value).with_context(|| format!("line {}", self.rows.line_number()))?;
            loaded.rows += 1;
            loaded.bytes += (key.len() + value.len()) as u64;
            if loaded.rows.is_multiple_of(SORTED_ROWS) {
                self.show(loaded.rows, stopwatch.elapsed().as_secs_f64())?;
            }
        }
        self.in_doubt = true;
        load.finish()?;
        self.in_doubt = false;
        self.loaded = Loaded { seconds: stopwatch.elapsed().as_secs_f64(), ..loaded };
        Ok(())
    }

    /// Shows how far the load is; fails when it is to end.
    fn show(&self, rows: u64, seconds: f64) -> Result<()> {
        self.bar.set_position(self.position.get());
        self.bar.set_message(format!("{} rows {}/s", count(rows), digits(rows as f64 / seconds)));
        Ok(self.stop.check()?)
    }

    /// The next rows, with their number and bytes; none at the end of the input.
    fn batch(&mut self) -> Result<(Batch, u64, usize)> {
        let mut batch = Batch::new();
        let (mut rows, mut bytes) = (0, 0);
        let fits = self.commit_bytes_max().min(BATCH_BYTES);
        while rows < self.args.batch && self.advance()? {
            let (key, value) = (self.rows.key(), self.rows.value());
            if batch.bytes() + key.len() + value.len() + ROW_OVERHEAD_BYTES > fits && rows > 0 {
                self.rows.again();
                break;
            }
            batch.put(self.table, key, value);
            rows += 1;
            bytes += key.len() + value.len();
        }
        Ok((batch, rows, bytes))
    }

    /// Goes to the next row that is right; false at the end of the input.
    fn advance(&mut self) -> Result<bool> {
        loop {
            let why = match self.rows.advance()? {
                Step::End => return Ok(false),
                Step::Bad(why) => why,
                Step::Row => match self.check() {
                    Ok(()) => return Ok(true),
                    Err(why) => why,
                },
            };
            let line = self.rows.line_number();
            if !self.args.skip_bad {
                return Err(why.context(format!("line {line}")));
            }
            self.skipped.add(line, self.rows.text(), &why)?;
            if self.skipped.count().is_multiple_of(SORTED_ROWS) {
                self.stop.check()?;
            }
        }
    }

    /// Refuses a row that the load cannot take.
    fn check(&mut self) -> Result<()> {
        let (key, value) = (self.rows.key(), self.rows.value());
        if !self.args.sorted {
            let (row_bytes, fits) = (key.len() + value.len() + ROW_OVERHEAD_BYTES, self.commit_bytes_max());
            if row_bytes > fits {
                let (row, fits) = (bytes(row_bytes as u64), bytes(fits as u64));
                bail!("a row of {row} is larger than --memory allows (a quarter of it, {fits})");
            }
        } else if self.args.skip_bad {
            // The bulk load refuses such a key too, and ends with it.
            if *key <= *self.last_key {
                bail!("its key is not above the one before");
            }
            key.clone_into(&mut self.last_key);
        }
        Ok(())
    }

    /// The largest commit that the database takes: a quarter of its memory.
    fn commit_bytes_max(&self) -> usize {
        let memory = self.args.table.db.memory.unwrap_or(Options::default().memory_bytes);
        usize::try_from(memory / 4).unwrap_or(usize::MAX)
    }
}
