//! The configurations that must all give the same history: every layout with every set of options.

use crate::filters::{REMOVE, RemoveDoomed};
use crate::operators::{APPEND, Append, SUM, Sum, adds};
use crate::ops::{self, Op, Write};
use crate::rng::Rng;
use spinney::{
    Compression, Database, DatabaseBuilder, Durability, Layout, LogCompression, Options, Prefix, TableOptions,
};
use std::path::Path;
use std::time::Duration;

/// The layouts a table can have.
pub const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

/// Less than an empty memtable has: each commit is flushed.
const EVERY_COMMIT: u64 = 4 << 10;

/// A memtable is flushed when its first 16 KiB are used up.
const SOME_COMMITS: u64 = 24 << 10;

/// How long entries live where they do not for ever: longer than any run takes, but so short that the manifest gets
/// marks of their age.
const LIFE: Duration = Duration::from_secs(300);

/// Options of a database and of its tables.
#[derive(Clone, Debug)]
pub struct Config {
    /// Layout and option set, for messages.
    pub name: String,
    /// Options of the database.
    pub options: Options,
    /// Options of its tables; see [`Config::table_options`] for their layouts.
    pub table: TableOptions,
    /// Its tables take operands. A compaction of those that do not puts its result in place slice by slice, and only
    /// they have a compaction filter or a time to live, where the options say so.
    pub merges: bool,
}

/// What a set changes in the options.
type Change = fn(&mut Options, &mut TableOptions);

/// The option sets by name.
const SETS: [(&str, Change); 23] = [
    ("plain", |_, _| {}),
    ("tiny-blocks", |_, table| table.block_bytes = 512),
    ("large-blocks", |_, table| table.block_bytes = 256 << 10),
    ("tiny-memtables", |options, _| options.memtable_bytes = EVERY_COMMIT),
    ("no-compression", |_, table| table.compression = Compression::None),
    ("zstd", |_, table| table.compression = Compression::Zstd),
    ("no-filters", |_, table| table.filter_bits_per_key = 0),
    ("prefixes", |options, table| {
        options.memtable_bytes = EVERY_COMMIT;
        table.run_bytes_max = 4 << 10;
        table.prefix_filter = Some(Prefix::Bytes(2));
    }),
    ("prefixes-up-to", |options, table| {
        options.memtable_bytes = SOME_COMMITS;
        table.prefix_filter = Some(Prefix::UpTo(b'/'));
    }),
    ("fanout-2", |options, table| {
        options.memtable_bytes = SOME_COMMITS;
        table.fanout = 2;
    }),
    ("tiny-runs", |_, table| table.run_bytes_max = 4 << 10),
    ("tiny-log", |options, _| {
        options.log_segment_bytes = 64 << 10;
        options.log_bytes_max = 128 << 10;
    }),
    ("compressed-log", |options, _| {
        options.log_segment_bytes = 64 << 10;
        options.log_compression = LogCompression::Lz4;
    }),
    ("zstd-log", |options, _| options.log_compression = LogCompression::Zstd),
    ("unlogged", |_, table| table.logged = false),
    ("values-apart", |_, table| table.large_value_bytes = 100),
    ("filtered", |options, table| {
        options.memtable_bytes = SOME_COMMITS;
        table.run_bytes_max = 4 << 10;
        table.compaction_filter = Some(REMOVE.to_owned());
    }),
    ("time-to-live", |options, table| {
        options.memtable_bytes = SOME_COMMITS;
        options.compaction_threads = 4;
        table.run_bytes_max = 4 << 10;
        table.time_to_live = Some(LIFE);
    }),
    ("small-memory", |options, _| options.memory_bytes = 8 << 20),
    ("page-cache", |options, _| options.direct_io = false),
    ("buffered-commits", |options, _| options.durability = Durability::Buffered),
    ("tiny-everything", |options, table| {
        options.memory_bytes = 8 << 20;
        options.memtable_bytes = SOME_COMMITS;
        options.log_segment_bytes = 64 << 10;
        options.durability = Durability::Interval;
        table.block_bytes = 512;
        table.run_bytes_max = 4 << 10;
        table.fanout = 2;
    }),
    ("tiny-values-apart", |options, table| {
        options.memory_bytes = 8 << 20;
        options.memtable_bytes = EVERY_COMMIT;
        options.log_segment_bytes = 64 << 10;
        table.block_bytes = 512;
        table.run_bytes_max = 4 << 10;
        table.fanout = 2;
        table.large_value_bytes = 64;
    }),
];

impl Config {
    /// All configurations, neighbours of different layouts. Their tables take operands.
    #[must_use]
    pub fn all() -> Vec<Self> {
        SETS.iter().flat_map(|set| LAYOUTS.map(|layout| Self::new(layout, *set))).collect()
    }

    /// All configurations, with tables that take no operands.
    #[must_use]
    pub fn all_without_merges() -> Vec<Self> {
        Self::all().into_iter().map(|config| Self { merges: false, ..config }).collect()
    }

    /// Options drawn at random, most of them as small as they can be.
    #[must_use]
    pub fn random(rng: &mut Rng) -> Self {
        let layout = *rng.pick(&LAYOUTS);
        let segment = *rng.pick(&[64 << 10, 64 << 10, 256 << 10]);
        let options = Options::default()
            .memory_bytes(*rng.pick(&[1 << 20, 8 << 20, 16 << 20]))
            .memtable_bytes(*rng.pick(&[EVERY_COMMIT, SOME_COMMITS, SOME_COMMITS, 64 << 10]))
            .log_segment_bytes(segment)
            .log_bytes_max(segment * rng.pick(&[2, 4, 64]))
            .durability(*rng.pick(&[Durability::Sync, Durability::Buffered, Durability::Interval]))
            .log_compression(*rng.pick(&[LogCompression::Off, LogCompression::Lz4, LogCompression::Zstd]))
            .direct_io(rng.chance(50))
            .compaction_threads(*rng.pick(&[1, 1, 4]));
        let filter_bits_per_key = *rng.pick(&[0, 1, 4, 10]);
        let table = TableOptions::default()
            .layout(layout)
            .block_bytes(*rng.pick(&[512, 512, 4096, 64 << 10]))
            .compression(*rng.pick(&[Compression::None, Compression::Lz4, Compression::Zstd]))
            .filter_bits_per_key(filter_bits_per_key)
            .run_bytes_max(*rng.pick(&[4 << 10, 4 << 10, 4 << 10, 16 << 10, 128 << 10]))
            .fanout(*rng.pick(&[2, 2, 4, 10]))
            .large_value_bytes(*rng.pick(&[0, 64, 64, 200]))
            .prefix_filter(Some(Prefix::Bytes(2)).filter(|_| filter_bits_per_key > 0 && rng.chance(30)))
            .compaction_filter(Some(REMOVE).filter(|_| rng.chance(40)))
            .time_to_live(Some(LIFE).filter(|_| rng.chance(30)));
        let merges = rng.chance(60);
        Self { name: format!("{layout:?}/random"), options, table, merges }
    }

    /// A layout with the option set of a name.
    ///
    /// # Panics
    /// When there is no such set.
    #[must_use]
    pub fn named(layout: Layout, set: &str) -> Self {
        let set = SETS.iter().find(|(name, _)| *name == set).expect("a name of an option set");
        Self::new(layout, *set)
    }

    /// Small files all over, so that short runs have many of them; on top of that what the set changes.
    fn new(layout: Layout, (set, change): (&str, Change)) -> Self {
        let mut options =
            Options::default().memory_bytes(16 << 20).memtable_bytes(64 << 10).log_segment_bytes(256 << 10);
        let mut table = TableOptions::default().layout(layout).run_bytes_max(128 << 10).fanout(4);
        change(&mut options, &mut table);
        Self { name: format!("{layout:?}/{set}"), options, table, merges: true }
    }

    /// An operation as the tables of this configuration take it: values for operands, where they take none.
    #[must_use]
    pub fn fit(&self, mut op: Op) -> Op {
        let fit = |change: &mut ops::Change| {
            if let Write::Merge(operand) = &mut change.write {
                change.write = Write::PutNew(std::mem::take(operand));
            }
        };
        match &mut op {
            Op::Write(changes, _) if !self.merges => changes.iter_mut().for_each(fit),
            Op::Change(_, change) if !self.merges => fit(change),
            _ => {}
        }
        op
    }

    /// The database at `path`, about to be opened with these options and with the operators and filters that its tables
    /// name.
    #[must_use]
    pub fn builder(&self, path: &Path) -> DatabaseBuilder {
        Database::builder(path)
            .options(self.options.clone())
            .merge_operator(APPEND, Append)
            .merge_operator(SUM, Sum)
            .compaction_filter(REMOVE, RemoveDoomed)
    }

    /// The options of a table: tables with even numbers have the configuration's layout, the others the next one, so
    /// that each database has more than one. Of unlogged tables only those with odd numbers are. B-trees keep no values
    /// apart, and their entries live for ever.
    #[must_use]
    pub fn table_options(&self, number: usize) -> TableOptions {
        let own = LAYOUTS.iter().position(|layout| *layout == self.table.layout).unwrap_or_default();
        // So that commits are mixed.
        let logged = self.table.logged || number.is_multiple_of(2);
        let merge = self.merges.then(|| if adds(number) { SUM } else { APPEND });
        let layout = LAYOUTS[(own + number % 2) % LAYOUTS.len()];
        // A B-tree has no filters and keeps values with their keys, and refuses to be asked for what it cannot do.
        let prefix_filter = self.table.prefix_filter.filter(|_| layout != Layout::BTree);
        let large_value_bytes = if layout == Layout::BTree { 0 } else { self.table.large_value_bytes };
        let time_to_live = self.table.time_to_live.filter(|_| layout != Layout::BTree && !self.merges);
        // Operands over what the filter may have removed or not would tell which it was.
        let compaction_filter = self.table.compaction_filter.as_deref().filter(|_| !self.merges);
        self.table
            .clone()
            .layout(layout)
            .logged(logged)
            .merge(merge)
            .prefix_filter(prefix_filter)
            .large_value_bytes(large_value_bytes)
            .compaction_filter(compaction_filter)
            .time_to_live(time_to_live)
    }
}
