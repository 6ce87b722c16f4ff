//! The arguments of `dump` and `restore`.

use crate::args::DbArgs;
use crate::complete;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use std::path::PathBuf;

/// Write tables as text, from which `restore` makes them again: all entries and all options
///
/// The tables are written as of one moment. The same entries and options give the same text, byte by byte: a dump of
/// what was restored is equal to what it was restored from. docs/dump.md describes the format. Merges that are pending
/// are written as the values that they make. How old entries are is not written: those of a table with a time to live
/// begin to live anew when they are restored.
///
/// The formats `jsonl` and `csv` are for other programs: entries without the options of their tables. A line has the
/// key and the value, and before them the table unless one table is named. In `jsonl` bytes that are not UTF-8 are
/// {"hex": "…"}; in `csv` they need --hex. Values of a table whose merge operator is `add` are numbers.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney dump shop -o shop.dump.zst
  spinney dump shop orders customers > some.dump
  spinney dump shop | ssh other spinney restore shop
  spinney dump shop orders --format csv -o orders.csv.gz
  spinney dump shop orders --format jsonl | jq .key")]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(super) db: DbArgs,
    /// The tables [default: all]
    #[arg(value_name = "TABLE", add = ArgValueCompleter::new(complete::tables))]
    pub(super) tables: Vec<String>,
    /// Write to this file, compressed if its name ends in .gz or .zst. It is replaced when the dump is complete
    /// [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// How tables are written
    #[arg(long, value_enum, default_value_t = DumpFormat::Dump)]
    pub(super) format: DumpFormat,
    /// Write keys and values as hexadecimal digits, in `jsonl` each as {"hex": "…"}; not for the format `dump`
    #[arg(long)]
    pub(super) hex: bool,
}

/// Make tables from a dump, and the database if need be
///
/// Restores what `dump` wrote, plain or compressed with gzip or zstd. A dump that is cut off, changed or out of order
/// is refused. A restore that fails leaves nothing of the tables and the database that it made. A table that is there
/// already must be empty and have the same options; with --replace what it holds is replaced as a whole, and stays as
/// it is until the dump of the table has been read to its end without an error. A process that is killed just then, or
/// a machine that loses power, may leave the table empty: then restore it again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney restore shop -i shop.dump.zst
  spinney restore shop orders -i shop.dump.zst
  spinney dump shop orders | spinney restore other
  spinney restore shop orders -i shop.dump.zst --replace")]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    pub(super) db: DbArgs,
    /// The tables of the dump to restore [default: all]
    #[arg(value_name = "TABLE")]
    pub(super) tables: Vec<String>,
    /// The dump; `-` is stdin
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(super) input: PathBuf,
    /// Replace the entries of tables that are there and not empty
    #[arg(long)]
    pub(super) replace: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// How tables are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// Text that `restore` reads
    Dump,
    /// A JSON object a line
    Jsonl,
    /// Comma-separated values with a header
    Csv,
}
