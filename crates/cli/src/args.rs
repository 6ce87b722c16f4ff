//! The arguments of the commands, and how they are written.

use crate::complete;
use clap::{Args, ValueEnum};
use clap_complete::{ArgValueCompleter, PathCompleter};
use spinney::{
    Compression, Durability, Layout, LogCompression, NamedOption, OptionKind, Options, Prefix, TableOptions,
};
use spinney_lab::text::parse_size;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

/// A database, and how it is opened.
#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    /// Directory of the database
    #[arg(value_name = "DB", add = ArgValueCompleter::new(PathCompleter::dir()))]
    pub(crate) path: PathBuf,
    /// Memory for cache and changes not yet written: bytes, or with a unit as in 64MiB or 2GiB; from 1MiB
    /// [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = size_within(range(Options::named(), "memory_bytes")))]
    pub(crate) memory: Option<u64>,
    /// Directory of the redo log, for a new database or a log that was moved
    /// [default: where the log is; DB/log for a new database]
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
}

/// A table of a database.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// Name of the table: 1 to 255 bytes
    #[arg(value_parser = parse_table, add = ArgValueCompleter::new(complete::tables))]
    pub(crate) table: String,
}

/// Whether tables of documents may be changed.
#[derive(Debug, Args)]
pub(crate) struct ForceArgs {
    /// Change the table also when it is part of a document database; its documents, indexes and counts may disagree
    /// then
    #[arg(long)]
    pub(crate) force: bool,
}

/// How commits are made durable.
#[derive(Debug, Args)]
pub(crate) struct CommitArgs {
    /// What a commit waits for
    #[arg(long, value_enum, default_value_t = DurabilityArg::Sync)]
    pub(crate) durability: DurabilityArg,
    /// How each commit is compressed in the redo log, if that saves a block of 4 KiB
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = LogCompressionArg::Off)]
    pub(crate) log_compression: LogCompressionArg,
}

/// The parts of a table that a command reads.
#[derive(Debug, Args)]
pub(crate) struct RangeArgs {
    /// First key
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<String>,
    /// Key before which to end
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<String>,
    /// Only keys that start with this
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<String>,
}

const ESCAPE_HELP: &str = "Write and read keys and values with escapes: \\n \\r \\t \\\\ and \\xNN for a byte";
const HEX_HELP: &str = "Print keys and values as hexadecimal digits; in JSON each as {\"hex\": \"…\"}";

/// Print the value of a key, or the entries of several keys: key, tab, value
///
/// The value of one key goes to a file or pipe as it is, with nothing behind it: what `put` took from a file comes
/// back. On a terminal, and printed as text (with --escape, --hex or --json, or as a number), it is a line.
///
/// Several keys are looked up together and printed in the order of the arguments, each as a line: key, tab, value.
/// Values that hold tabs or line ends want --escape, --hex or --json. Keys that are not there are named on stderr, and
/// the exit code is 4. In a table whose merge operator is `add` a value is printed as a signed number; with --escape or
/// --hex as its 8 bytes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney get shop orders 4711
  spinney get shop visits /index.html
  spinney get shop orders 4711 | jq .total
  spinney get shop pictures front > front.png
  spinney get shop orders 4711 4712 4720 --json
  spinney get --escape blobs index '\\x00\\x2a'")]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    #[arg(short, long, help = ESCAPE_HELP)]
    pub(crate) escape: bool,
    #[arg(long, help = HEX_HELP)]
    pub(crate) hex: bool,
    /// Print each key with its value as a JSON object
    #[arg(long, conflicts_with = "escape")]
    pub(crate) json: bool,
}

/// Give a key a value
///
/// The value is taken as it is, byte by byte. In a table whose merge operator is `add` it is a whole number, below zero
/// too, as `merge` takes it; with --escape its 8 bytes, little-endian.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney put shop orders 4711 '{\"total\": 12}'
  spinney put shop pictures front < front.png
  spinney put shop visits front-page 0
  spinney put --escape blobs index '\\x00\\x2a' 'a\\tb'")]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
    /// The key
    pub(crate) key: String,
    /// The value; without it the value is what stdin holds
    #[arg(allow_negative_numbers = true)]
    pub(crate) value: Option<String>,
    #[arg(short, long, help = ESCAPE_HELP)]
    pub(crate) escape: bool,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

/// Merge an operand into the value of a key, without reading it; for tables made with --merge
///
/// The table's merge operator says what becomes of the value. `add` takes a whole number, below zero too, and keeps
/// sums in 8 bytes, little-endian; beyond 64 bits they wrap around.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney create shop visits --merge add
  spinney merge shop visits front-page 1
  spinney merge shop visits front-page -3
  spinney get shop visits front-page")]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
    /// The key
    pub(crate) key: String,
    /// The operand
    #[arg(allow_negative_numbers = true)]
    pub(crate) operand: String,
    #[arg(short, long, help = "Write the key with escapes: \\n \\r \\t \\\\ and \\xNN for a byte")]
    pub(crate) escape: bool,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

/// Delete a key, or all keys of a range at once; one that is not there is no error
///
/// A range costs as much as one key; which one was deleted is printed. What it took on disk is given back as the table
/// is flushed and compacted. An empty --prefix, --from or --to, as a script's variable that is not set, is refused:
/// --all deletes all.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney delete shop orders 4711
  spinney delete shop orders-by-city oslo/4711 --single
  spinney delete shop orders --from 4000 --to 5000
  spinney delete shop orders --prefix 47
  spinney delete shop orders --all")]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
    /// The key
    #[arg(required_unless_present_any = ["from", "to", "prefix", "all"], conflicts_with_all = ["from", "to", "prefix"])]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// All keys of the table
    #[arg(long, conflicts_with_all = ["key", "from", "to", "prefix", "single"])]
    pub(crate) all: bool,
    /// The key was put at most once since it was last deleted, and is always deleted with this flag: the put and the
    /// delete go together when they meet on disk. Where that is not true, an older value can come back
    #[arg(long, conflicts_with_all = ["from", "to", "prefix"])]
    pub(crate) single: bool,
    #[arg(short, long, help = ESCAPE_HELP)]
    pub(crate) escape: bool,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

/// Print the entries of a table in key order: key, tab, value
///
/// Bytes are printed as they are, unless stdout is a terminal or escapes are asked for. Values of a table whose merge
/// operator is `add` are printed as `get` prints them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney scan shop orders --from 4000 --to 5000
  spinney scan shop orders --reverse --limit 10 --keys-only
  spinney scan shop orders --prefix 47 | cut -f2 | jq .total
  spinney scan shop orders --json
  spinney scan blobs index --hex")]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Print at most so many entries
    #[arg(long, value_name = "N", value_parser = number())]
    pub(crate) limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Print keys without values
    #[arg(long)]
    pub(crate) keys_only: bool,
    #[arg(short, long, help = ESCAPE_HELP)]
    pub(crate) escape: bool,
    #[arg(long, help = HEX_HELP)]
    pub(crate) hex: bool,
    /// Print each entry as a JSON object; bytes that are not UTF-8 are {"hex": "…"}
    #[arg(long, conflicts_with = "escape")]
    pub(crate) json: bool,
}

/// Count the entries of a table by reading them
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney count shop orders
  spinney count shop orders --prefix 2026-")]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[arg(short, long, help = ESCAPE_HELP)]
    pub(crate) escape: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "escape")]
    pub(crate) json: bool,
}

/// List the tables: how they are laid out, how many entries they hold, and what they take on disk and in memory
///
/// Entries are counted as the trees hold them, so that a key that was deleted or written again counts more than once
/// until it is compacted; `count` counts exactly.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney tables shop")]
pub(crate) struct TablesArgs {
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make a table, and the database if need be
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney create shop orders
  spinney create shop customers --layout btree --compression zstd
  spinney create shop sessions --unlogged
  spinney create shop visits --merge add
  spinney create shop lines --prefix-filter upto:/
  spinney create shop pictures --large-values 4KiB
  spinney create shop carts --time-to-live 7d")]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
    /// How the table is laid out
    #[arg(long, value_enum, default_value_t = LayoutArg::Lsm)]
    pub(crate) layout: LayoutArg,
    /// How blocks are compressed
    #[arg(long, value_enum, default_value_t = CompressionArg::Lz4)]
    pub(crate) compression: CompressionArg,
    /// Size of a block before compression: 512B to 1MiB [default: 8KiB]
    #[arg(long, value_name = "SIZE", value_parser = size_within(range(TableOptions::named(), "block_bytes")))]
    pub(crate) block: Option<u64>,
    /// Filter bits for each key of a run, up to 32; 0 for no filters [default: 10]
    #[arg(long, value_name = "BITS", value_parser = number_within::<u32>(range(TableOptions::named(), "filter_bits_per_key")))]
    pub(crate) filter_bits: Option<u32>,
    /// Let filters know prefixes too, for scans within one: `bytes:N`, the first N bytes of a key, or `upto:C`, up to
    /// the first character C (or byte 0xNN) of it
    #[arg(long, value_name = "RULE", value_parser = Prefix::from_str)]
    pub(crate) prefix_filter: Option<Prefix>,
    /// How much larger each level is than the one above it, or how many runs are merged at once: 2 to 32 [default: 8]
    #[arg(long, value_name = "N", value_parser = number_within::<u32>(range(TableOptions::named(), "fanout")))]
    pub(crate) fanout: Option<u32>,
    /// Keep its changes out of the redo log: a crash takes the table back to its last flush. Cannot be changed later
    #[arg(long)]
    pub(crate) unlogged: bool,
    /// The merge operator of the table: `add` for counters. A program can register others; this command cannot read
    /// what they merge
    #[arg(long, value_name = "NAME", value_parser = ["add"])]
    pub(crate) merge: Option<String>,
    /// Keep values of this size or larger apart from their keys, in files of their own: compactions then do not rewrite
    /// them. 64B to 512MiB; not for B-trees [default: never]
    #[arg(long, value_name = "SIZE", value_parser = size_within(range(TableOptions::named(), "large_value_bytes")))]
    pub(crate) large_values: Option<u64>,
    /// How long entries live after they were last put: a number and s, m, h or d. Not for B-trees, nor beside --merge
    /// [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) time_to_live: Option<Duration>,
}

/// Drop a table and all that is in it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney drop shop orders")]
pub(crate) struct DropArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
}

/// Show the tree shape of tables: how many trees of what size a read must search
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney shape shop
  spinney shape shop orders --json")]
pub(crate) struct ShapeArgs {
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// Name of the table [default: all]
    #[arg(add = ArgValueCompleter::new(complete::tables))]
    pub(crate) table: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print all counters of the database: while a process has it open, those of that process, not older than a second
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney stat shop
  spinney stat shop --json | jq .log
  spinney stat shop --prometheus | grep log_sync")]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
}

/// Print the changes in the redo log, oldest first; changes nothing
///
/// Shows what a recovery would look at: where each commit stands in the log (lsn), the order of visibility (seqnum),
/// and the change. Long keys and values are cut short; --json prints them whole. The database may be in use: then the
/// log ends where it ended when it was read, or with --follow goes on. A commit is shown as soon as it is in the log's
/// files: when it is durable, or a moment before.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney log shop
  spinney log shop --table orders --limit 20
  spinney log shop --from 1073750016
  spinney log shop --follow --json | jq .key
  spinney log shop --json | jq .key")]
pub(crate) struct LogArgs {
    /// Directory of the database
    pub(crate) db: PathBuf,
    /// Only changes of commits that end after this position, as the lsn column tells it; one behind the end of the log
    /// is refused
    #[arg(long, value_name = "LSN", value_parser = number())]
    pub(crate) from: Option<u64>,
    /// Only changes of this table
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::tables))]
    pub(crate) table: Option<String>,
    /// Print at most so many changes
    #[arg(long, value_name = "N", value_parser = number())]
    pub(crate) limit: Option<u64>,
    /// Go on with what another process commits, until ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Print each change as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Mend a damaged redo log or manifest, or copy what can be read of a damaged database
///
/// Without OUT the log is cut at the damage, so that the database can be opened again: every commit before the damage
/// is kept, what is behind it is given up and printed. The files that lose something are kept in a directory `lost-N`
/// beside the log. A manifest is written anew from its copy. Tables are not read.
///
/// With OUT nothing of the database is changed. What can be read of its tables and its log is copied to a new database
/// there; of what cannot be, it is printed which keys it may have held: each of these is lost, or older than it was.
///
/// In a database of documents, as `spinney serve` has them, lost documents are named by collection and _id. Indexes
/// that disagree with what is left are built again; one that cannot be, such as a unique one of which two documents
/// have a key, is left out and printed. In place this is done when commits were given up.
///
/// Exit codes: 0 nothing is lost, 3 something is lost (with --dry-run: would be), 1 nothing was done: there is nothing
/// to salvage in place, no database, another process has it open, or nothing can be read.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney salvage shop --dry-run
  spinney salvage shop
  spinney salvage shop --json | jq .lost
  spinney salvage shop shop-saved
  spinney salvage shop shop-saved --json | jq '.tables[].lost'")]
pub(crate) struct SalvageArgs {
    /// Directory of the database
    pub(crate) db: PathBuf,
    /// Directory of the copy: a new or an empty one, or what a salvage left that was killed. A copy that fails is
    /// removed again
    pub(crate) out: Option<PathBuf>,
    /// Print what would be lost, and change nothing
    #[arg(long, conflicts_with = "out")]
    pub(crate) dry_run: bool,
    /// Name each file that is kept
    #[arg(short, long, conflicts_with_all = ["json", "out"])]
    pub(crate) verbose: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check every block of every tree, the redo log and the manifest
///
/// All damage is told, with the table and the keys that it may have held. No byte of the database is changed, and
/// another process may have it open. With --documents every document is compared with the entries of its indexes,
/// every entry with its document, and counts with what is there. Exit codes: 0 all is sound, 1 something is damaged,
/// disagrees or cannot be read.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney verify shop && echo sound
  spinney verify shop --documents
  spinney verify shop --documents --json | jq '.documents[] | select(.valid | not)'")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// Compare documents with their indexes, too
    #[arg(long)]
    pub(crate) documents: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write the changes that are in memory to the trees on disk
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney flush shop
  spinney flush shop orders")]
pub(crate) struct FlushArgs {
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// Name of the table [default: all]
    #[arg(add = ArgValueCompleter::new(complete::tables))]
    pub(crate) table: Option<String>,
}

/// Merge each table into one tree, so that reads search only one; or one level of a table into the next; or what its
/// layout wants
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney compact shop
  spinney compact shop orders
  spinney compact shop orders --level 0
  spinney compact shop --until-idle")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// Name of the table [default: all]
    #[arg(add = ArgValueCompleter::new(complete::tables))]
    pub(crate) table: Option<String>,
    /// Merge only this level into the next one below: 0 for the runs that flushes lay down, else a number that `shape`
    /// shows
    #[arg(long, value_name = "N", requires = "table", value_parser = number_within::<usize>((0, u64::MAX)))]
    pub(crate) level: Option<usize>,
    /// Merge no more than the tables' layouts want by themselves, and end when there is nothing left to do
    #[arg(long, conflicts_with = "level")]
    pub(crate) until_idle: bool,
}

/// Make a copy of the database as it is now, sharing files where the file system can
///
/// Another process may have the database open, such as a server: it goes on, and the copy has what it had written by
/// one moment. A copy that fails is removed again; one that was interrupted is no database, and the same command begins
/// anew.
///
/// With --since the copy shares with an earlier one what did not change: runs and value files that cannot be linked
/// from the database because it is on another file system, and B-trees that were not written since. It is complete all
/// the same: the earlier one can be removed, and each of them opened as a database, which first copies the B-trees that
/// it shares. A damaged file of the earlier one would be shared too: `verify` checks the copy.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney checkpoint shop /backup/monday
  spinney checkpoint shop /backup/tuesday --since /backup/monday
  spinney verify /backup/tuesday")]
pub(crate) struct CheckpointArgs {
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// Directory of the copy: a new or an empty one
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Directory of an earlier copy of this database, with which this one shares what did not change
    #[arg(long, value_name = "DIR")]
    pub(crate) since: Option<PathBuf>,
    /// Print what --since shared as JSON
    #[arg(long, requires = "since")]
    pub(crate) json: bool,
}

/// A layout as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArg {
    /// One tree, updated in batches: fewest trees to search, least space
    Btree,
    /// Levels of sorted runs: cheap random writes, little space
    Lsm,
    /// Sorted runs of similar size: the cheapest writes, more trees to search
    LsmTiered,
}

/// Units of time, with their seconds.
const TIMES: [(&str, u64); 4] = [("d", 24 * 3600), ("h", 3600), ("m", 60), ("s", 1)];

const TABLE_BYTES_MAX: usize = 255;

/// The range of an option of the engine that is a number.
fn range<O>(options: &[NamedOption<O>], name: &str) -> (u64, u64) {
    match options.iter().find(|option| option.name() == name).map(NamedOption::kind) {
        Some(OptionKind::Number(low, high) | OptionKind::NumberOrZero(low, high)) => (low, high),
        other => unreachable!("the engine has a number {name}, and not {other:?}"),
    }
}

/// A parser of whole numbers from the first to the second.
pub(crate) fn number_within<T: TryFrom<u64>>(
    (low, high): (u64, u64),
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| (low..=high).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("it must be a whole number from {low} to {high}"))
    }
}

/// A parser of whole numbers.
pub(crate) fn number() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    number_within((0, u64::MAX))
}

/// A parser of sizes from the first to the second.
pub(crate) fn size_within(
    (low, high): (u64, u64),
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let size = parse_size(text)?;
        let fits = (low..=high).contains(&size);
        if fits { Ok(size) } else { Err(format!("it must be between {} and {}", in_unit(low), in_unit(high))) }
    }
}

/// A size that is a whole number of its unit.
fn in_unit(size: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units.iter().find(|(_, bits)| size > 0 && size.is_multiple_of(1 << bits));
    whole.map_or_else(|| format!("{size} B"), |(unit, bits)| format!("{} {unit}", size >> bits))
}

/// Reads the name of a table.
fn parse_table(text: &str) -> Result<String, String> {
    match text.len() {
        1..=TABLE_BYTES_MAX => Ok(text.to_owned()),
        len => Err(format!("the name of a table has 1 to {TABLE_BYTES_MAX} bytes, not {len}")),
    }
}

/// The longest time that the entries of a table may live.
fn life_max() -> Duration {
    match TableOptions::named().iter().find(|option| option.name() == "time_to_live").map(NamedOption::kind) {
        Some(OptionKind::Seconds(_, high)) => high,
        other => unreachable!("time_to_live is a time, and not {other:?}"),
    }
}

/// Reads a time: a number with its unit.
fn parse_time(text: &str) -> Result<Duration, String> {
    let time = TIMES.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    let time = time.map(Duration::from_secs);
    let time = time.ok_or_else(|| {
        format!("'{text}' is not a time: write a whole number and its unit, such as 90s, 15m, 12h or 7d")
    })?;
    let days = life_max().as_secs() / (24 * 3600);
    let fits = !time.is_zero() && time <= life_max();
    if fits { Ok(time) } else { Err(format!("it must be between 1s and {days}d")) }
}

/// A durability as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// The device: a commit survives the machine
    Sync,
    /// Nothing; the device has it a moment later
    Interval,
    /// Nothing: a commit survives the process, not the machine
    Buffered,
}

/// A compression of the redo log as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogCompressionArg {
    /// Not at all
    Off,
    /// Fast
    Lz4,
    /// Smaller
    Zstd,
}

/// A compression as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionArg {
    /// None
    None,
    /// Fast
    Lz4,
    /// Smaller
    Zstd,
}

impl From<LayoutArg> for Layout {
    fn from(arg: LayoutArg) -> Self {
        match arg {
            LayoutArg::Btree => Self::BTree,
            LayoutArg::Lsm => Self::Lsm,
            LayoutArg::LsmTiered => Self::LsmTiered,
        }
    }
}

impl From<DurabilityArg> for Durability {
    fn from(arg: DurabilityArg) -> Self {
        match arg {
            DurabilityArg::Sync => Self::Sync,
            DurabilityArg::Interval => Self::Interval,
            DurabilityArg::Buffered => Self::Buffered,
        }
    }
}

impl From<LogCompressionArg> for LogCompression {
    fn from(arg: LogCompressionArg) -> Self {
        match arg {
            LogCompressionArg::Off => Self::Off,
            LogCompressionArg::Lz4 => Self::Lz4,
            LogCompressionArg::Zstd => Self::Zstd,
        }
    }
}

impl From<CompressionArg> for Compression {
    fn from(arg: CompressionArg) -> Self {
        match arg {
            CompressionArg::None => Self::None,
            CompressionArg::Lz4 => Self::Lz4,
            CompressionArg::Zstd => Self::Zstd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_out_of_range_is_told_in_units() {
        let block = size_within(range(TableOptions::named(), "block_bytes"));
        let memory = size_within(range(Options::named(), "memory_bytes"));
        assert_eq!(block("5").unwrap_err(), "it must be between 512 B and 1 MiB");
        assert_eq!(memory("1KiB").unwrap_err(), "it must be between 1 MiB and 1 TiB");
        assert_eq!(block("512"), Ok(512));
        assert_eq!(parse_time("0s").unwrap_err(), "it must be between 1s and 36600d");
        assert_eq!(number_within::<u16>((1, 64))("65").unwrap_err(), "it must be a whole number from 1 to 64");
        assert_eq!(number()("18446744073709551615"), Ok(u64::MAX));
    }
}
