//! What the redo log costs: items in transactions of a hundred, sequential and random, with each form of log.
//!
//! Each pair of an order of keys and a form of log is a database of its own and a step: `seq`, `random`, `random lz4`.
//! The step `… sync` after it makes the last commits durable, and counts as part of it in the experiment's own columns;
//! what is left to write to the trees then is the step `… settle`. After Eini, "Reducing the cost of writing to disk"
//! (2013), where the time of commits is split into log I/O, compression, and the work on data structures in memory
//! (collections).

mod data;
mod figures;
#[cfg(test)]
mod tests;

use super::describe::Describe;
use crate::command::common::{Common, DurabilityArg};
use crate::driver::{Batch, Client, Compression, Config, LogConfig, Outcome, TableId, TableSpec, unless_lacking};
use crate::run::{Bench, Did, End, Plan, Role};
use crate::scratch::Scratch;
use crate::text::{COUNT_MAX, bytes, count, counts, parse_memory_size, sizes};
use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use data::{KEY_BYTES, ValueMaker, key, lz4_factor};
use figures::Figures;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The parameters.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench journal
  spinney bench journal --durability sync --logs plain,lz4
  spinney bench journal --orders random --logs plain,logdir --log-dir MOUNTPOINT")]
pub struct Journal {
    /// Orders of the keys
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [Order::Seq, Order::Random])]
    pub orders: Vec<Order>,
    /// Forms of the redo log, each with each order
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [Log::Plain, Log::Lz4, Log::Zstd, Log::Logdir])]
    pub logs: Vec<Log>,
    /// Items
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub items: u64,
    /// Items before those of each step, which are not measured: an engine that uses log files again has some then
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = counts::<u64>(0..=COUNT_MAX))]
    pub warm_items: u64,
    /// Items in a transaction
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub batch: u64,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = sizes::<u32>(0..=1 << 20))]
    pub value_bytes: u32,
    /// How often the random part of a value is in it: values compress by a little less
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = counts::<u32>(1..=1024))]
    pub repeats: u32,
    /// Memory of the database
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size, default_value = "256MiB")]
    pub memory: u64,
    /// Where the log of `logdir` goes, as on another device: a directory is made there and removed
    /// [default: beside the database]
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
}

/// An order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Ascending
    Seq,
    /// All over the key space
    Random,
}

/// A form of the redo log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Log {
    /// Not compressed, where the engine has it
    Plain,
    /// Compressed with LZ4
    Lz4,
    /// Compressed with zstd
    Zstd,
    /// In another directory
    Logdir,
}

const TABLE: TableId = TableId(0);

impl Describe for Journal {
    const NAME: &'static str = "journal";
    const COLUMNS: &[(&str, &str)] = &[
        ("MBw", "MB sent to storage until all commits are durable"),
        ("MBall", "MBw and what `settle` wrote: log and trees"),
        ("logMB", "MB written to the redo log, after compression and with padding"),
        ("recMB", "MB of redo log before compression and padding"),
        ("secs", "seconds, the sync's included"),
        ("cpu/i", "microseconds of CPU for each item, all threads"),
        ("logio/i", "microseconds in writing and forcing the log for each item"),
        ("comp/i", "microseconds in compressing the log for each item"),
        (
            "coll/i",
            "microseconds of the client's CPU for each item less log I/O and compression: work on data structures in memory",
        ),
    ];

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let items = self.batch.min(self.items);
        let factor = |scattered| lz4_factor(scattered, items, self.values(1));
        vec![
            parameter("items", count(self.items)),
            parameter("items before", count(self.warm_items)),
            parameter("transaction", format!("{} items", count(self.batch))),
            parameter("key", format!("{KEY_BYTES} B")),
            parameter("value", format!("{} B, one byte of {} random", self.value_bytes, self.repeats)),
            parameter("LZ4 factor", format!("{:.2} (sequential), {:.2} (random)", factor(false), factor(true))),
            parameter("memory", bytes(self.memory)),
        ]
    }

    fn disk_bytes(&self) -> u64 {
        // One database at a time.
        6 * self.live_bytes(self.warm_items + self.items) + (2 << 30)
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        let mut done = Vec::new();
        for &order in &self.orders {
            for &log in &self.logs {
                if !done.contains(&(order, log)) {
                    done.push((order, log));
                    self.run_log(common, bench, order, log)?;
                }
            }
        }
        Ok(())
    }
}

impl Journal {
    fn live_bytes(&self, items: u64) -> u64 {
        items * (KEY_BYTES as u64 + u64::from(self.value_bytes))
    }

    fn values(&self, seed: u64) -> ValueMaker {
        ValueMaker::new(seed, self.value_bytes as usize, self.repeats)
    }

    /// Runs one form of log with one order of keys in a database of its own.
    fn run_log(&self, common: &Common, bench: &mut Bench<'_>, order: Order, log: Log) -> Result<()> {
        let name = log.step(order);
        let beside = bench.path(LOG_DIR);
        let elsewhere = self.log_dir.as_ref().filter(|_| log == Log::Logdir);
        let elsewhere = elsewhere.map(|dir| Scratch::new(Some(&dir.join("spinney-journal")), false)).transpose()?;
        let log_dir = elsewhere.as_ref().map_or_else(|| Ok(beside), |scratch| scratch.fresh(LOG_DIR))?;
        let written = self.write(common, bench, &name, order, &log.config(&log_dir));
        add_figures(bench, &name, log);
        bench.remove(&name)?;
        bench.remove(LOG_DIR)?;
        if let Err(lacks) = unless_lacking(written)? {
            bench.skip(&name, "item", &lacks);
        }
        Ok(())
    }

    /// The steps of one database: all items, the sync of the last commits, and what is left to write.
    fn write(&self, common: &Common, bench: &mut Bench<'_>, name: &str, order: Order, log: &LogConfig) -> Result<()> {
        if let Some(dir) = &log.dir {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot make the directory {}", dir.display()))?;
        }
        let config = Config { log: log.clone(), ..common.config(self.memory, DurabilityArg::Buffered) };
        let mut db = bench.open(name, &config, &[TableSpec::new("items")])?;
        let mut fill = |name: &str, items: Range<u64>| {
            let (calls, live_bytes) =
                (End::Calls((items.end - items.start).div_ceil(self.batch)), Some(self.live_bytes(items.end)));
            let role = Role::new(&["commit"], 1, calls, |_client| self.work(common.seed, order, items.clone()));
            db.step(&Plan { name: name.to_owned(), unit: "item", roles: vec![role], live_bytes })?;
            db.verb(&sync(name), |store| store.sync())?;
            db.settle(&settle(name)).map(drop)
        };
        let wanted = self.warm_items + self.items;
        if self.warm_items > 0 {
            fill(&format!("{name} warm"), 0..self.warm_items)?;
        }
        fill(name, self.warm_items..wanted)?;
        let there = db.count(TABLE)?;
        ensure!(there == wanted, "{name}: {} items are there, {} were committed", count(there), count(wanted));
        db.close()
    }

    /// Commits those of `items` that belong to the transaction with the call's number.
    fn work(
        &self,
        seed: u64,
        order: Order,
        items: Range<u64>,
    ) -> impl FnMut(&mut dyn Client, u64) -> Result<Did> + use<> {
        let (mut values, mut changes) = (self.values(seed), Batch::new());
        let batch = self.batch;
        move |client, at| {
            changes.clear();
            let first = items.start + at * batch;
            for index in first..items.end.min(first + batch) {
                changes.put(TABLE, &key(order == Order::Random, index), values.make(index));
            }
            ensure!(client.write(&changes)? == Outcome::Done, "a commit that touches new keys only had a conflict");
            Ok(Did::wrote(changes.bytes() as u64).operations(changes.len() as u64))
        }
    }
}

/// The directory of the log in `logdir`.
const LOG_DIR: &str = "log";

impl Log {
    /// The step of this form with an order of keys: `random lz4`, and the order alone for a plain log.
    fn step(self, order: Order) -> String {
        let order = match order {
            Order::Seq => "seq",
            Order::Random => "random",
        };
        let log = match self {
            Self::Plain => return order.to_owned(),
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Logdir => "logdir",
        };
        format!("{order} {log}")
    }

    /// What the database is opened with. A form changes one thing of the plain one.
    fn config(self, dir: &Path) -> LogConfig {
        let plain = LogConfig { compression: Some(Compression::None), ..LogConfig::default() };
        match self {
            Self::Plain => plain,
            Self::Lz4 => LogConfig { compression: Some(Compression::Lz4), ..plain },
            Self::Zstd => LogConfig { compression: Some(Compression::Zstd), ..plain },
            Self::Logdir => LogConfig { dir: Some(dir.to_owned()), ..plain },
        }
    }

    fn compresses(self) -> bool {
        matches!(self, Self::Lz4 | Self::Zstd)
    }
}

fn sync(name: &str) -> String {
    format!("{name} sync")
}

fn settle(name: &str) -> String {
    format!("{name} settle")
}

/// Gives the step of all items its columns, from it and from the steps after it as far as they ran.
fn add_figures(bench: &mut Bench<'_>, name: &str, log: Log) {
    let steps = bench.steps();
    let find = |name: &str| steps.iter().find(|step| step.name == name);
    let (sync, settle) = (find(&sync(name)).cloned(), find(&settle(name)).cloned());
    if let Some(step) = steps.iter_mut().find(|step| step.name == name) {
        step.figures = Figures::of(step, sync.as_ref(), settle.as_ref(), log.compresses()).columns();
    }
}
