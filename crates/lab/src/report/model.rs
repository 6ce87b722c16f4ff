//! The result of a benchmark, as `--json` writes it and `compare` reads it.
//!
//! A [`Report`] has a [`Run`] for each engine and repetition, a run has a [`Step`] for each measured piece of work in
//! the order in which they ran, and a step says what its operations cost. What could not be measured is absent
//! (`null`), never zero.

use super::build::Build;
use super::machine::Machine;
use crate::driver::{Counters, LevelWork, TableShape};
use crate::measure::{Bucket, Percentiles, Size, SystemUse};
use serde::{Deserialize, Serialize};

/// The form of results that this code writes and reads.
pub const FORMAT: u32 = 1;

/// Other processes that use a larger share of the processors disturb a step.
const OTHERS_MAX: f64 = 0.1;

/// A raw device that is so many times slower than at its best disturbs a step.
const SLOWED_MAX: f64 = 2.0;

/// A benchmark's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The form of the file: [`FORMAT`].
    pub format: u32,
    /// The name of the experiment: `insert`.
    pub benchmark: String,
    /// The command that repeats it.
    pub command: String,
    /// When it began: seconds since 1970 UTC.
    pub began: u64,
    /// What was measured: the build of this program.
    #[serde(default)]
    pub build: Build,
    /// Where it ran.
    pub machine: Machine,
    /// The experiment's parameters, name and value, in the order in which reports show them.
    pub parameters: Vec<(String, String)>,
    /// What the experiment's own columns mean: title and meaning.
    #[serde(default)]
    pub columns: Vec<(String, String)>,
    /// It was interrupted: some runs or steps are missing or short.
    pub partial: bool,
    /// Engines that were asked for and could not run.
    pub missing: Vec<Missing>,
    /// What tables cannot say, as they print it below: disturbed steps, missed rates, what was skipped or failed.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Runs in the order in which they ran: with repetitions A B A B.
    pub runs: Vec<Run>,
}

/// An engine that could not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Its name.
    pub engine: String,
    /// Why, and what would install it.
    pub why: String,
}

/// One engine's run of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The engine.
    pub engine: EngineInfo,
    /// Which repetition this is, from 0.
    pub repetition: u32,
    /// It ended early: it was interrupted, or its worker process was killed.
    pub partial: bool,
    /// Why it ended early, if not by interruption.
    pub error: Option<String>,
    /// Remarks for the reader, as how the page cache was bounded.
    pub notes: Vec<String>,
    /// With verification: a hash of the operations that the clients asked for, the same for all engines that were asked
    /// for the same.
    #[serde(default)]
    pub operations_hash: Option<String>,
    /// What was measured.
    pub steps: Vec<Step>,
}

/// Which engine, and how it was set up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Operations went to a server process.
    pub client_server: bool,
    /// The durability of commits, in words.
    pub durability: String,
    /// The settings that were chosen for it.
    pub settings: Vec<(String, String)>,
}

/// A measured piece of work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name: `l.i0`.
    pub name: String,
    /// What its operations are, in the singular: `row`.
    pub unit: String,
    /// Why the engine did not do it; all else is empty then.
    pub skipped: Option<String>,
    /// It was interrupted.
    pub partial: bool,
    /// What it cost.
    pub cost: Option<Cost>,
    /// The operations by kind, the most important first.
    pub operations: Vec<Operation>,
    /// What happened in each second.
    pub seconds: Vec<Second>,
    /// The database before.
    pub before: State,
    /// The database after.
    pub after: State,
    /// What the engine counted in the step.
    pub counters: Counters,
    /// What flushes and compactions did for each level in the step; empty when the engine does not say.
    #[serde(default)]
    pub level_work: Vec<LevelWork>,
    /// The columns of the experiment's own table, in their order.
    pub figures: Vec<Figure>,
    /// What the whole machine did meanwhile, where the kernel shows it.
    #[serde(default)]
    pub system: Option<SystemUse>,
    /// The mean time of a write to the raw device in microseconds, in each slice of such writes that was measured
    /// beside the step.
    #[serde(default)]
    pub device_us: Vec<f64>,
}

/// What the operations of a step cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Operations done; those of the kind that the step is about.
    pub operations: u64,
    /// Time that passed, in seconds.
    pub seconds: f64,
    /// Operations per second.
    pub rate: f64,
    /// Read requests to storage per operation.
    pub reads: Option<f64>,
    /// KiB fetched from storage per operation.
    pub read_kib: Option<f64>,
    /// KiB sent to storage per operation.
    pub written_kib: Option<f64>,
    /// Context switches per operation.
    pub switches: Option<f64>,
    /// Microseconds of CPU per operation, of all threads and processes.
    pub cpu_us: f64,
    /// The part of it in the threads that ask for the operations.
    pub foreground_cpu_us: f64,
    /// The part of it in the engine's own threads and processes.
    pub background_cpu_us: f64,
    /// The lab's own part of the foreground: microseconds to make an operation and to record it.
    pub overhead_us: Option<f64>,
    /// Peak of resident memory in bytes.
    pub rss_bytes: Option<u64>,
    /// Bytes sent to storage per byte of keys and values that the step wrote.
    pub write_amplification: Option<f64>,
    /// Bytes fetched from storage per byte of keys and values that the step read.
    pub read_amplification: Option<f64>,
    /// Bytes on disk, the redo log's included, per byte of live keys and values.
    pub space_amplification: Option<f64>,
    /// KiB fetched from the whole device per operation, by all processes.
    pub device_read_kib: Option<f64>,
    /// KiB sent to the whole device per operation, by all processes.
    pub device_written_kib: Option<f64>,
    /// Read requests to the whole device per operation, by all processes.
    #[serde(default)]
    pub device_reads: Option<f64>,
    /// Write requests to the whole device per operation, by all processes.
    #[serde(default)]
    pub device_writes: Option<f64>,
}

/// Operations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The kind: `get`.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Operations done in them: a commit of 100 rows is one call and 100 operations.
    pub operations: u64,
    /// Calls per second that were wanted, if a rate was given.
    pub wanted_rate: Option<f64>,
    /// Calls per second that were made, of all kinds that this rate was given for together, if one was given.
    #[serde(default)]
    pub achieved_rate: Option<f64>,
    /// How long calls took.
    pub latency: Percentiles,
    /// As `latency`, from the moment at which the call should have begun by the rate that was given.
    pub corrected: Option<Percentiles>,
    /// The share of calls that took at most so many microseconds, for a curve: pairs of share and microseconds.
    pub curve: Vec<(f64, f64)>,
    /// How many calls took how long; where a rate was given, from the moment at which the call should have begun.
    #[serde(default)]
    pub histogram: Vec<Bucket>,
    /// Calls that took longer than the limit that was given (`--sla-ms`), measured as `histogram` is; `None` without a
    /// limit.
    #[serde(default)]
    pub over_limit: Option<u64>,
}

/// One second of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Operations done in it.
    pub operations: u64,
    /// The slowest call that ended in it, in microseconds.
    pub max_us: f64,
    /// Bytes that the database took on disk at its end.
    pub disk_bytes: Option<u64>,
    /// Resident memory at its end.
    pub rss_bytes: Option<u64>,
    /// Bytes sent to storage since the step began.
    pub written_bytes: Option<u64>,
    /// Bytes that background work was behind at its end, as the engine reckons them.
    #[serde(default)]
    pub debt_bytes: Option<u64>,
}

/// A database at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Its size on disk.
    pub size: Option<Size>,
    /// The shape of its tables; empty when the engine does not say.
    pub shape: Vec<TableShape>,
}

/// A column of an experiment's own table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The column.
    #[serde(flatten)]
    pub column: Column,
    /// The value; `None` where the engine does not say.
    pub value: Option<f64>,
}

/// What a figure is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its title: `bpd`.
    pub name: String,
    /// Its unit: `bytes`; empty for a ratio.
    pub unit: String,
    /// Which values are better.
    pub wanted: Wanted,
}

/// Which values of a figure are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// Neither.
    #[default]
    Either,
    /// Larger ones, as operations per second.
    More,
    /// Smaller ones, as bytes written.
    Less,
}

impl Cost {
    /// Makes this, the cost of a whole, the cost of each of `operations`.
    pub fn scale(&mut self, operations: u64) {
        let before = self.operations.max(1) as f64;
        let factor = before / operations.max(1) as f64;
        self.operations = operations;
        self.rate /= factor;
        self.cpu_us *= factor;
        self.foreground_cpu_us *= factor;
        self.background_cpu_us *= factor;
        let optional = [
            &mut self.reads,
            &mut self.read_kib,
            &mut self.written_kib,
            &mut self.switches,
            &mut self.device_read_kib,
            &mut self.device_written_kib,
            &mut self.device_reads,
            &mut self.device_writes,
        ];
        for value in optional.into_iter().flatten() {
            *value *= factor;
        }
    }
}

impl Figure {
    /// A figure of which less is better.
    #[must_use]
    pub fn less(name: &str, unit: &str, value: impl Into<Option<f64>>) -> Self {
        Self::new(name, unit, Wanted::Less, value.into())
    }

    /// A figure of which more is better.
    #[must_use]
    pub fn more(name: &str, unit: &str, value: impl Into<Option<f64>>) -> Self {
        Self::new(name, unit, Wanted::More, value.into())
    }

    /// A figure that is neither good nor bad.
    #[must_use]
    pub fn plain(name: &str, unit: &str, value: impl Into<Option<f64>>) -> Self {
        Self::new(name, unit, Wanted::Either, value.into())
    }

    fn new(name: &str, unit: &str, wanted: Wanted, value: Option<f64>) -> Self {
        Self { column: Column { name: name.to_owned(), unit: unit.to_owned(), wanted }, value }
    }
}

impl Column {
    /// The unit where the title does not say it already, as `MB/s` does.
    #[must_use]
    pub fn unit_beside_name(&self) -> Option<&str> {
        Some(&*self.unit).filter(|unit| !unit.is_empty() && *unit != self.name)
    }
}

/// The units of these columns in parentheses, for a heading: ` (bpd bytes, secs s)`; nothing where the titles say all.
#[must_use]
pub fn units(columns: &[&Column]) -> String {
    let units: Vec<String> =
        columns.iter().filter_map(|column| Some(format!("{} {}", column.name, column.unit_beside_name()?))).collect();
    if units.is_empty() { String::new() } else { format!(" ({})", units.join(", ")) }
}

impl Operation {
    /// Less than 95 % of the calls that were wanted were made: what it says of latency and cost is of another load.
    #[must_use]
    pub fn missed_rate(&self) -> bool {
        self.wanted_rate.zip(self.achieved_rate).is_some_and(|(wanted, achieved)| achieved < 0.95 * wanted)
    }
}

impl Size {
    /// The space without the redo log.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.allocated_bytes.saturating_sub(self.log_bytes)
    }
}

impl Step {
    /// A step that the engine did not do.
    #[must_use]
    pub fn skipped(name: &str, unit: &str, why: String) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), skipped: Some(why), ..Self::default() }
    }

    /// Bytes sent to storage in it, where they are counted.
    #[must_use]
    pub fn written_bytes(&self) -> Option<f64> {
        let cost = self.cost?;
        Some(cost.written_kib? * 1024.0 * cost.operations.max(1) as f64)
    }

    /// What was measured; `None` for a step that was skipped.
    #[must_use]
    pub fn done(&self) -> Option<&Cost> {
        if self.skipped.is_some() { None } else { self.cost.as_ref() }
    }

    /// The share of the processors that others used while it ran, if it is so large that its figures mean little.
    #[must_use]
    pub fn others_busy(&self) -> Option<f64> {
        self.system?.others.filter(|&others| others > OTHERS_MAX)
    }

    /// How many times slower the raw device was beside it than at its best, if that is so much that its figures mean
    /// little.
    #[must_use]
    pub fn device_slowed(&self, best_us: f64) -> Option<f64> {
        let slowest = self.device_us.iter().copied().fold(0.0, f64::max);
        Some(slowest / best_us).filter(|&times| times.is_finite() && times > SLOWED_MAX)
    }

    /// Its operations of a kind.
    #[must_use]
    pub fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }
}
