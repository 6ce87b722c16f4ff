//! The arguments of `load`.

use super::fields::{self, KeyFields, parse_columns, parse_key, parse_path};
use crate::args::{CommitArgs, ForceArgs, LayoutArg, TableArgs, number_within};
use clap::Args;
use std::path::{Path, PathBuf};

/// Load a file of JSON lines, comma-separated or tab-separated values into a table
///
/// Makes the database and the table if need be. Each batch of rows is one atomic commit. A row whose key is there
/// already replaces it. A string is the key itself; a number is its text. At a row that is wrong the load ends, and the
/// message says how many rows were loaded before; if there were none, the table and the database that it made are
/// removed again. With --skip-bad wrong rows are left out and told.
///
/// The value of a row of JSON is its line; of a row of --csv or --tsv a JSON object of strings, one for each column.
/// With --value it is one field of the row: the text of a string, and what else there is as it is written. A table
/// whose merge operator is `add` needs --value, and takes whole numbers.
///
/// A field of a nested object is written with dots, as in a.b; a key of several fields with commas, as in a.b,c: its
/// fields are joined by --key-separator, which only the last of them may contain. In a name itself a dot, comma or
/// backslash has a backslash before it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney load shop orders --jsonl orders.jsonl --key id
  spinney load shop orders --jsonl orders.jsonl.zst --key id --layout btree --durability interval
  spinney load shop orders --jsonl orders.jsonl --key customer.city,id
  spinney load shop prices --csv prices.csv.gz --key sku --value price
  spinney load shop prices --csv prices.csv --key sku --skip-bad --bad-rows bad.jsonl
  spinney load shop prices --tsv prices.tsv --columns sku,price --key sku --value price
  generate | spinney load shop orders --jsonl - --key id --batch 100 --ack
  spinney load shop orders --jsonl orders.jsonl --key id --log-compression lz4
  spinney load shop scratch --jsonl orders.jsonl --key id --unlogged
  spinney load shop visits --jsonl pages.jsonl --key page --value count
  spinney load shop orders --jsonl by_id.jsonl.zst --key id --sorted")]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(super) table: TableArgs,
    #[command(flatten)]
    pub(super) force: ForceArgs,
    #[command(flatten)]
    pub(super) input: InputArgs,
    /// The fields of a row that are its key
    #[arg(long, value_name = "FIELDS", value_parser = parse_key)]
    pub(super) key: KeyFields,
    /// What is between the fields of a key of several, with escapes such as \x00
    #[arg(long, value_name = "TEXT", default_value = "/")]
    pub(super) key_separator: String,
    /// The field of a row that is the value [default: the whole row]
    #[arg(long, value_name = "FIELD", value_parser = parse_path)]
    pub(super) value: Option<fields::Path>,
    /// The names of the columns, with commas, of --csv and --tsv without a header [default: the first row has them]
    #[arg(long, value_name = "NAMES", value_parser = parse_columns, conflicts_with = "jsonl")]
    pub(super) columns: Option<Columns>,
    /// The fields of --tsv have escapes, as `scan --escape` writes them
    #[arg(short, long)]
    pub(super) escape: bool,
    /// Leave out rows that are wrong, and tell how many and the first of them; exit code 3 if there are any
    #[arg(long)]
    pub(super) skip_bad: bool,
    /// Write every row that --skip-bad leaves out to this file, as a JSON object with its line and what is wrong
    #[arg(long, value_name = "FILE", requires = "skip_bad")]
    pub(super) bad_rows: Option<PathBuf>,
    /// Layout of the table if it must be made [default: lsm]; an existing one must have it
    #[arg(long, value_enum)]
    pub(super) layout: Option<LayoutArg>,
    /// Make the table without redo log; an existing one must be so. The load ends with a flush, and what a crash before
    /// it takes back may have been acknowledged
    #[arg(long)]
    pub(super) unlogged: bool,
    /// The rows come in ascending order of their keys, bytewise: write them straight to disk, past the redo log. All
    /// become visible together at the end, or, after a row that is wrong or a key that does not ascend, none
    #[arg(long, conflicts_with_all = ["batch", "durability", "ack"])]
    pub(super) sorted: bool,
    /// Rows per commit (fewer when they exceed 4 MiB or a quarter of --memory)
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = number_within::<u64>((1, u64::MAX)))]
    pub(super) batch: u64,
    #[command(flatten)]
    pub(super) commit: CommitArgs,
    /// Print `acknowledged N` after each commit, N being the rows of the file loaded so far
    #[arg(long)]
    pub(super) ack: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The file to load: UTF-8, plain or compressed with zstd or gzip.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct InputArgs {
    /// A file of JSON objects, one a line, UTF-8, plain or compressed with zstd or gzip; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub(super) jsonl: Option<PathBuf>,
    /// A file of comma-separated values (RFC 4180), likewise
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// A file of tab-separated values, without quotes, likewise
    #[arg(long, value_name = "FILE")]
    pub(super) tsv: Option<PathBuf>,
}

impl LoadArgs {
    /// The file to load.
    pub(super) fn input_path(&self) -> &Path {
        let InputArgs { jsonl, csv, tsv } = &self.input;
        // One of them is given.
        jsonl.as_ref().or(csv.as_ref()).or(tsv.as_ref()).map_or_else(|| Path::new("-"), PathBuf::as_path)
    }
}

/// The names of columns, in their order.
pub(crate) type Columns = Box<[String]>;
