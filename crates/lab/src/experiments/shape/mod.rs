//! Reads by the shape of the tree: an LSM tree is put into five shapes, one after the other, and read in each.

mod data;
mod setup;
mod stages;
#[cfg(test)]
mod tests;

use super::Describe;
use crate::command::{Common, DurabilityArg};
use crate::driver::{Config, Lacks};
use crate::run::Bench;
use crate::text::{COUNT_MAX, bytes, count, counts, parse_memory_size, parse_seconds, sizes};
use anyhow::Result;
use clap::Args;
use data::KEY_BYTES;
use serde::{Deserialize, Serialize};
use spinney::base::num::u64_of;

/// What to run.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench shape
  spinney bench shape --values 10M --fanout 8 --engines spinney-lsm
  spinney bench shape --values 1M,10M,100M,200M --memory 8GiB --seconds 60")]
pub struct Shape {
    /// Values to load; a database for each number, in which K and M stand for thousands and millions
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1M", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub values: Vec<u64>,
    /// How many times larger a level is than the one above it; a database for each
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "8,10", value_parser = counts::<u32>(2..=32))]
    pub fanout: Vec<u32>,
    /// Point reads in each step
    #[arg(long, value_name = "N", default_value = "1M", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub reads: u64,
    /// Range reads in each step, of eight values each
    #[arg(long, value_name = "N", default_value = "300K", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub ranges: u64,
    /// Read for so many seconds in each step, however many reads that makes
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub seconds: Option<f64>,
    /// Values of each of the six runs in L0; the memtable gets four fifths of it
    #[arg(long, value_name = "N", default_value = "48K", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub run_values: u64,
    /// The size at which the first level below L0 is full
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u64>(16 << 10..=16 << 30), default_value = "64MiB")]
    pub level1: u64,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = sizes::<u32>(0..=1 << 16))]
    pub value_bytes: u32,
    /// Memory of the database, as in 64MiB; the article's cache has 8 GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size, default_value = "4GiB")]
    pub memory: u64,
}

/// One data set with one fanout.
#[derive(Debug)]
struct Case<'a> {
    args: &'a Shape,
    common: &'a Common,
    values: u64,
    fanout: u32,
}

impl Describe for Shape {
    const NAME: &'static str = "shape";
    const COLUMNS: &[(&str, &str)] = &[
        ("memtable", "values in the memtable"),
        ("L0", "sorted runs in L0"),
        ("levels", "sorted sequences below L0"),
        ("trees", "trees that a range, or a point read without filters, searches"),
        ("relative", "operations per second over those of the same reads at `compact_all`"),
    ];

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let list = |numbers: Vec<String>| numbers.join(", ");
        vec![
            parameter("values", list(self.values.iter().map(|&values| count(values)).collect())),
            parameter("fanout", list(self.fanout.iter().map(u32::to_string).collect())),
            parameter("key", format!("{KEY_BYTES} B")),
            parameter("value", format!("{} B", self.value_bytes)),
            parameter("values of a run in L0", count(self.run_values)),
            parameter("first level", bytes(self.level1)),
            parameter("memory", bytes(self.memory)),
        ]
    }

    fn disk_bytes(&self) -> u64 {
        // Databases are removed when they have been read: the largest, twice while it is compacted, and the redo log.
        3 * self.values.iter().map(|&values| self.live_bytes(values)).max().unwrap_or(0) + (2 << 30)
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        for &values in &self.values {
            let mut first_without_levels = None;
            for &fanout in &self.fanout {
                let case = Case { args: self, common, values, fanout };
                if let Some(first) = &first_without_levels {
                    case.skip(bench, &Lacks::new(format!("no levels, for which the fanout is: see {first}")));
                } else if !case.run(bench)? {
                    first_without_levels = Some(format!("fanout {fanout}"));
                }
            }
        }
        Ok(())
    }
}

impl Shape {
    fn live_bytes(&self, values: u64) -> u64 {
        values * self.entry_bytes()
    }

    fn entry_bytes(&self) -> u64 {
        u64_of(KEY_BYTES) + u64::from(self.value_bytes)
    }

    /// Values in the memtable before it is flushed.
    fn memtable_values(&self) -> u64 {
        self.run_values * 4 / 5
    }
}

impl Case<'_> {
    /// Runs all stages, first with filters, then with a database that has none. Says whether the engine has levels.
    fn run(&self, bench: &mut Bench<'_>) -> Result<bool> {
        let first_step = bench.steps().len();
        let mut has_levels = false;
        for filters in [true, false] {
            let name = format!("shape-{}-{}-{}", self.values, self.fanout, if filters { "filters" } else { "bare" });
            let config = self.config(filters);
            self.load(bench, &name, &config)?;
            let mut db = self.reopen(bench, &name, &config)?;
            has_levels |=
                db.store().shape()?.iter().any(|table| table.btree_height.is_none() && !table.levels.is_empty());
            self.stages(&mut db, filters)?;
            db.close()?;
            bench.remove(&name)?;
        }
        self.compare(&mut bench.steps()[first_step..]);
        Ok(has_levels)
    }

    fn config(&self, filters: bool) -> Config {
        let config = self.common.config(self.args.memory, DurabilityArg::Buffered);
        Config {
            // Every engine takes more memory for a value than its bytes: the memtables must not be full before they are
            // flushed.
            memtable_bytes: Some((self.args.run_values * (2 * self.args.entry_bytes() + 64)).clamp(4 << 10, 64 << 30)),
            fanout: Some(self.fanout),
            level1_bytes: Some(self.args.level1),
            filter_bits: if filters { config.filter_bits } else { 0 },
            ..config
        }
    }

    /// What the names of steps begin with, where there is more than one case.
    fn prefix(&self) -> String {
        if self.args.values.len() * self.args.fanout.len() == 1 {
            return String::new();
        }
        format!("{} f{} ", short(self.values), self.fanout)
    }
}

/// A count as people write it: `10M`.
fn short(count: u64) -> String {
    match count {
        count if count > 0 && count.is_multiple_of(1_000_000) => format!("{}M", count / 1_000_000),
        count if count > 0 && count.is_multiple_of(1_000) => format!("{}K", count / 1_000),
        count => count.to_string(),
    }
}
