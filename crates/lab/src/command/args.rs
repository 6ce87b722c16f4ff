//! The arguments of `bench`.

use crate::driver::{Compression, Config, Durability};
use crate::experiments::Experiment;
use crate::text::{counts, sizes};
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Measure speed, and what each operation costs
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  spinney bench insert --html insert.html
  spinney bench kv --engines spinney-lsm --workloads fillrandom,readrandom --num 5000000
  spinney bench commit --repeat 3 --json commit.json
  spinney bench compare before.json after.json")]
pub struct BenchArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// What `bench` can do.
#[derive(Clone, Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of them in a process")]
pub enum BenchCommand {
    /// An experiment.
    #[command(flatten)]
    Run(RunArgs),
    /// List the engines: their versions, and how to get those that are missing (others are in peers/)
    Engines,
    /// Show results of one experiment side by side
    Compare(CompareArgs),
    /// Run one engine of an experiment, which is described on stdin
    #[command(hide = true)]
    Worker,
}

/// Show results of one experiment side by side
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  spinney bench compare before.json after.json
  spinney bench compare v1.json v2.json v3.json --format markdown
  spinney bench compare before.json after.json --format csv > rates.csv")]
pub struct CompareArgs {
    /// Results, as written by --json; the others are shown relative to the first
    #[arg(required = true, num_args = 2..=26, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// How to show them
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub format: CompareFormat,
}

/// A form of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// Tables for a terminal
    Text,
    /// Tables in Markdown
    Markdown,
    /// A line for each value: step, engine, column, file, median, smallest, largest, runs, ratio to the first file
    Csv,
}

/// What all experiments take.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Options of all experiments")]
pub struct Common {
    /// Engines to run one after the other; the first is what the others are compared with [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// What a commit survives [default: as the experiment has it]
    #[arg(long, value_enum)]
    pub durability: Option<DurabilityArg>,
    /// Milliseconds for which an interval commit may stay volatile
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = counts::<u32>(1..=60_000))]
    pub interval: u32,
    /// How blocks on disk are compressed, by engines that compress
    #[arg(long, value_enum, default_value_t = Compression::None)]
    pub compression: Compression,
    /// Keep values of this size or larger apart from their keys, where the engine can [default: never]
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u32>(64..=512 << 20))]
    pub large_values: Option<u32>,
    /// Size of a leaf block in tables of which points are read, where the engine lets one choose: 512 B to 1 MiB
    /// [default: the engine's best]
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u32>(512..=1 << 20))]
    pub block: Option<u32>,
    /// Pass the page cache by, where the engine can
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true)]
    pub direct_io: bool,
    /// Have threads stay awake for direct reads, where the engine can: more reads at once, for all the time of the
    /// processors
    #[arg(long)]
    pub poll_reads: bool,
    /// Threads for background work, where the engine asks
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = counts::<u32>(1..=64))]
    pub background_threads: u32,
    /// Limit all memory of a run, page cache included, with a control group (needs the right to make one): 64 MiB or
    /// more
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u64>(64 << 20..=1 << 50))]
    pub memory_limit: Option<u64>,
    /// Seed of data and operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Compare every read with a model; speed means nothing then
    #[arg(long)]
    pub verify: bool,
}

/// Where results and data go.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Repetition, data and results of all experiments")]
pub struct OutputArgs {
    /// Run everything so many times, engines in turns; tables show medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = counts::<u32>(1..=100))]
    pub repeat: u32,
    /// Directory for the data, empty or left over from a benchmark [default: a new one in ./target or $TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Leave the data when done
    #[arg(long)]
    pub keep: bool,
    /// Also write the result to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write the result to a file as a page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print what each column means that was shown
    #[arg(long)]
    pub explain: bool,
}

/// An experiment to run.
#[derive(Clone, Debug, Subcommand)]
pub enum RunArgs {
    /// The insert benchmark: rows in key order with three secondary indexes on random values, as in iibench
    Insert(With<crate::experiments::insert::Insert>),
    /// Reads by the shape of the tree: short ranges and points, with filters and without
    Shape(With<crate::experiments::shape::Shape>),
    /// What a commit costs: the redo log beside the raw device
    Commit(With<crate::experiments::commit::Commit>),
    /// What the redo log costs: bytes, time and CPU for sequential and random items
    Journal(With<crate::experiments::journal::Journal>),
    /// `LinkBench`: a social graph, with transactions
    Link(With<crate::experiments::link::Link>),
    /// Single operations, with the names of `db_bench`
    Kv(With<crate::experiments::kv::Kv>),
    /// The six core workloads of YCSB
    Ycsb(With<crate::experiments::ycsb::Ycsb>),
}

/// An experiment's own arguments with those of all.
#[derive(Clone, Debug, Args)]
pub struct With<E: Args> {
    /// Its own.
    #[command(flatten)]
    pub experiment: E,
    /// Those that a worker needs.
    #[command(flatten)]
    pub common: Common,
    /// The others.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A durability as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityArg {
    /// The device has a commit when it returns: it survives the machine
    Sync,
    /// The device has it a moment later
    Interval,
    /// The operating system has it: it survives the process, not the machine
    Buffered,
    /// There is no redo log
    NoLog,
}

impl RunArgs {
    /// The experiment, and the arguments of all.
    #[must_use]
    pub fn split(self) -> (Experiment, Common, OutputArgs) {
        match self {
            Self::Insert(with) => (Experiment::Insert(with.experiment), with.common, with.output),
            Self::Shape(with) => (Experiment::Shape(with.experiment), with.common, with.output),
            Self::Commit(with) => (Experiment::Commit(with.experiment), with.common, with.output),
            Self::Journal(with) => (Experiment::Journal(with.experiment), with.common, with.output),
            Self::Link(with) => (Experiment::Link(with.experiment), with.common, with.output),
            Self::Kv(with) => (Experiment::Kv(with.experiment), with.common, with.output),
            Self::Ycsb(with) => (Experiment::Ycsb(with.experiment), with.common, with.output),
        }
    }
}

impl Common {
    /// The configuration that engines get, with an experiment's own memory and the durability that it has unless asked
    /// otherwise.
    #[must_use]
    pub fn config(&self, memory_bytes: u64, durability: DurabilityArg) -> Config {
        Config {
            memory_bytes,
            durability: self.durability_of(self.durability.unwrap_or(durability)),
            compression: self.compression,
            large_value_bytes: self.large_values,
            block_bytes: self.block,
            direct_io: self.direct_io,
            poll_reads: self.poll_reads,
            background_threads: self.background_threads,
            ..Config::default()
        }
    }

    /// A durability with the interval that was asked for.
    #[must_use]
    pub fn durability_of(&self, durability: DurabilityArg) -> Durability {
        match durability {
            DurabilityArg::Sync => Durability::Sync,
            DurabilityArg::Interval => Durability::Interval(self.interval),
            DurabilityArg::Buffered => Durability::Buffered,
            DurabilityArg::NoLog => Durability::NoLog,
        }
    }
}
