//! The arguments of `doc`.

use crate::args::{DbArgs, DurabilityArg, number};
use crate::complete;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use std::path::PathBuf;

/// Import, export, find and aggregate the documents of a database, and look at their indexes
///
/// Documents are those that `spinney serve` serves. A collection is named with its database, as in shop.orders.
/// Filters, pipelines and so on are extended JSON. The commands that only read work beside a running server. A view is
/// read by `doc aggregate`.
#[derive(Debug, Args)]
pub(crate) struct DocArgs {
    #[command(subcommand)]
    pub(super) command: DocCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DocCommand {
    Import(ImportArgs),
    Export(ExportArgs),
    Find(FindArgs),
    Aggregate(AggregateArgs),
    Explain(ExplainArgs),
    Indexes(IndexesArgs),
    Stats(StatsArgs),
}

/// A collection of a database.
#[derive(Debug, Args)]
pub(crate) struct CollectionArgs {
    #[command(flatten)]
    pub(super) db: DbArgs,
    /// The collection with its database, as in shop.orders
    #[arg(value_name = "NS", value_parser = namespace, add = ArgValueCompleter::new(complete::collections))]
    pub(super) namespace: String,
}

fn namespace(text: &str) -> Result<String, &'static str> {
    if text.contains('.') { Ok(text.to_owned()) } else { Err("it has its database before a dot, as in shop.orders") }
}

/// How documents are written in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// JSON objects, one behind the other or in an array, on any number of lines
    Json,
    /// JSON objects, one a line
    Jsonl,
    /// Comma-separated values with a header. Numbers are numbers, empty fields are missing, and a column a.b is the
    /// field b of the document a
    Csv,
    /// BSON documents, one behind the other, as mongodump writes them
    Bson,
}

/// Import a file of documents into a collection
///
/// Makes the database and the collection if need be. Documents without an _id get one. Those that cannot be inserted,
/// such as ones whose _id is there, are left out and told; the exit code is 3 then. At a document that cannot be read
/// the import ends, and the message says how many were imported before; if there were none, nothing is made.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney doc import shop shop.orders orders.jsonl
  spinney doc import shop shop.orders orders.json.zst --replace
  spinney doc import shop shop.prices prices.csv.gz
  mongodump --db=shop --collection=orders --out=- | spinney doc import shop shop.orders - --format bson")]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(super) collection: CollectionArgs,
    /// The file, plain or compressed with zstd or gzip; `-` is stdin
    pub(super) file: PathBuf,
    /// How the documents are written [default: as the name of the file ends]
    #[arg(long, value_enum)]
    pub(super) format: Option<FormatArg>,
    /// Put documents in the place of those that have their _id
    #[arg(long)]
    pub(super) replace: bool,
    /// What a commit of up to 1000 documents waits for
    #[arg(long, value_enum, default_value_t = DurabilityArg::Sync)]
    pub(super) durability: DurabilityArg,
    /// Print the summary as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Export documents of a collection to a file
///
/// The format bson keeps every byte. In the others strings that are not UTF-8, which some clients store, have the
/// replacement character in place of what is wrong.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney doc export shop shop.orders orders.jsonl
  spinney doc export shop shop.orders new.jsonl.zst --filter '{\"year\": {\"$gte\": 2024}}'
  spinney doc export shop shop.orders - --canonical
  spinney doc export shop shop.orders orders.csv --fields _id,customer.name,total")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(super) collection: CollectionArgs,
    /// The file, compressed as its name ends (.zst, .gz); `-` is stdout
    pub(super) file: PathBuf,
    /// How the documents are written [default: as the name of the file ends, else jsonl]
    #[arg(long, value_enum)]
    pub(super) format: Option<FormatArg>,
    /// Which documents [default: all]
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(super) filter: String,
    /// The columns of --format csv: paths, with commas
    #[arg(long, value_name = "PATHS", value_delimiter = ',')]
    pub(super) fields: Vec<String>,
    /// Write JSON from which every type can be read back
    #[arg(long)]
    pub(super) canonical: bool,
}

/// Find documents of a collection
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney doc find shop shop.orders '{\"total\": {\"$gt\": 100}}' --sort '{\"total\": -1}' --limit 10
  spinney doc find shop shop.orders '{\"name\": \"ada\"}' --collation '{\"locale\": \"en\", \"strength\": 2}'
  spinney doc find shop shop.orders --projection '{\"total\": 1, \"_id\": 0}'")]
pub(crate) struct FindArgs {
    #[command(flatten)]
    pub(super) query: QueryArgs,
    /// Print JSON from which every type can be read back
    #[arg(long)]
    pub(super) canonical: bool,
}

/// A query over a collection.
#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(super) collection: CollectionArgs,
    /// Which documents
    #[arg(value_name = "FILTER", default_value = "{}")]
    pub(super) filter: String,
    /// The order
    #[arg(long, value_name = "JSON")]
    pub(super) sort: Option<String>,
    /// What is shown of each
    #[arg(long, value_name = "JSON")]
    pub(super) projection: Option<String>,
    /// How many of the first are left out
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number())]
    pub(super) skip: u64,
    /// How many at most
    #[arg(long, value_name = "N", value_parser = number())]
    pub(super) limit: Option<u64>,
    /// The name of the index to use
    #[arg(long, value_name = "INDEX")]
    pub(super) hint: Option<String>,
    /// How strings are compared, as in {"locale": "en", "strength": 2} [default: as the collection says]
    #[arg(long, value_name = "JSON")]
    pub(super) collation: Option<String>,
}

/// Run a pipeline over a collection
///
/// The stages $out and $merge write; other pipelines work beside a running server.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney doc aggregate shop shop.orders '[{\"$group\": {\"_id\": \"$customer\", \"sum\": {\"$sum\": \"$total\"}}}]'")]
pub(crate) struct AggregateArgs {
    #[command(flatten)]
    pub(super) collection: CollectionArgs,
    /// The stages, an array
    #[arg(value_name = "PIPELINE")]
    pub(super) pipeline: String,
    /// Print JSON from which every type can be read back
    #[arg(long)]
    pub(super) canonical: bool,
}

/// Show how a query is done, and what it costs
///
/// Runs the query and shows its plan as a tree, with the entries and documents that it looked at.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney doc explain shop shop.orders '{\"total\": {\"$gt\": 100}}' --sort '{\"total\": -1}'")]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(super) query: QueryArgs,
    /// Print the plan as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// List the indexes of a collection, make some or drop one
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney doc indexes shop shop.orders
  spinney doc indexes shop shop.orders --create '{\"customer\": 1, \"total\": -1}'
  spinney doc indexes shop shop.orders --create '{\"email\": 1}' --unique
  spinney doc indexes shop shop.orders --drop customer_1_total_-1")]
pub(crate) struct IndexesArgs {
    #[command(flatten)]
    pub(super) collection: CollectionArgs,
    /// Make an index with these keys
    #[arg(long, value_name = "KEYS", conflicts_with = "drop")]
    pub(super) create: Option<String>,
    /// Refuse two documents with the same keys
    #[arg(long, requires = "create")]
    pub(super) unique: bool,
    /// Drop the index with this name
    #[arg(long, value_name = "INDEX")]
    pub(super) drop: Option<String>,
    /// Print the list as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Show the collections with their documents, sizes and indexes
///
/// Entries are counted as the trees hold them: a document that was changed or deleted counts more than once until it is
/// compacted. `disk` is of the documents; `memory` is what documents and indexes have in memory, and in the redo log
/// only.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney doc stats shop
  spinney doc stats shop --json")]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(super) db: DbArgs,
    /// Print the list as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl FormatArg {
    /// The format that the name of a file tells, before the ending of a compression.
    pub(super) fn of(path: &std::path::Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let name = name.strip_suffix(".zst").or_else(|| name.strip_suffix(".gz")).unwrap_or(name);
        match name.rsplit_once('.')?.1 {
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "bson" => Some(Self::Bson),
            _ => None,
        }
    }
}
