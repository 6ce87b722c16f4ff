//! The arguments of `bench`.

use super::common::Common;
use crate::experiments::Experiment;
use crate::text::counts;
use clap::{Args, Subcommand, ValueEnum};
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

/// Where results and data go.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Repetition, data and results of all experiments")]
pub struct OutputArgs {
    /// Run everything so many times, engines in turns; tables show medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = counts::<u32>(1..=100))]
    pub repeat: u32,
    /// Directory for the data, empty or left over from a benchmark; when insert or kv is interrupted it keeps what
    /// --resume needs [default: a new one in ./target or $TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Go on with the run that was interrupted in --dir, at the step where it was stopped and with the database that is
    /// there: insert and kv, with the same options
    #[arg(long, requires = "dir")]
    pub resume: bool,
    /// Leave the data when done
    #[arg(long)]
    pub keep: bool,
    /// Also write the result to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write the result to a file as a page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print more tables; the JSON and the page have them always
    #[arg(long, value_enum, value_name = "TABLES", value_delimiter = ',')]
    pub show: Vec<Part>,
    /// Print what each column means that was shown
    #[arg(long)]
    pub explain: bool,
}

/// A table that is printed where it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// How many calls of each step took how long
    Histograms,
    /// What flushes and compactions did for each level in each step
    Levels,
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
    /// How cost grows with the data: Spinney's own policies on tables of which only the sizes are there
    Scale(With<crate::experiments::scale::Scale>),
    /// The six core workloads of YCSB
    Ycsb(With<crate::experiments::ycsb::Ycsb>),
    /// The operations of a document database, on documents of 1 KB with three indexes
    Documents(With<crate::experiments::documents::Documents>),
    /// The insert benchmark on documents, as in iibench for `MongoDB`
    InsertDocuments(With<crate::experiments::insert::InsertDocuments>),
    /// `LinkBench` on documents, as in `LinkBenchX`
    LinkDocuments(With<crate::experiments::link::LinkDocuments>),
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
            Self::Scale(with) => (Experiment::Scale(with.experiment), with.common, with.output),
            Self::Ycsb(with) => (Experiment::Ycsb(with.experiment), with.common, with.output),
            Self::Documents(with) => (Experiment::Documents(with.experiment), with.common, with.output),
            Self::InsertDocuments(with) => (Experiment::InsertDocuments(with.experiment), with.common, with.output),
            Self::LinkDocuments(with) => (Experiment::LinkDocuments(with.experiment), with.common, with.output),
        }
    }
}
