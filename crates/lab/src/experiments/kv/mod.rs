//! Single operations, with the names of `db_bench`, which readers of storage engines know.

mod data;
mod figures;
mod reads;
#[cfg(test)]
mod tests;
mod workload;
mod writes;

pub use workload::Workload;

use super::Describe;
use crate::command::{Common, DurabilityArg};
use crate::driver::{Config, TableId, TableSpec, unless_lacking};
use crate::run::{Bench, Db, End, Plan};
use crate::text::{COUNT_MAX, bytes, count, counts, parse_memory_size, parse_seconds, parse_size, sizes};
use anyhow::{Result, bail};
use clap::{ArgAction, Args};
use data::KEY_BYTES;
use figures::Figures;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench kv
  spinney bench kv --workloads fillrandom,flush,compact,readrandom --num 5000000 --memory 2GiB
  spinney bench kv --workloads fillseq,readwhilewriting --threads 4 --duration 60 --write-rate-limit 0")]
pub struct Kv {
    /// What to do, in this order; each fill but fillsync begins a new database, the others go on with it
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',', default_values_t = Workload::DEFAULTS)]
    pub workloads: Vec<Workload>,
    /// Keys of a fill; of a thousandth of them for fillsync
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub num: u64,
    /// Keys, entries or seeks of a workload that reads, all threads together [default: as many as --num]
    #[arg(long, value_name = "N", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub reads: Option<u64>,
    /// Keys of a workload that deletes [default: as many as --num]
    #[arg(long, value_name = "N", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub deletes: Option<u64>,
    /// Run overwrite and each workload that reads for so many seconds instead
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub duration: Option<f64>,
    /// Threads that share the operations of a workload
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = counts::<u16>(1..=256))]
    pub threads: u16,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = sizes::<u32>(0..=1 << 20))]
    pub value_bytes: u32,
    /// Puts or deletes in a commit
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = counts::<u64>(1..=1_000_000))]
    pub batch: u64,
    /// Keys in a call of multireadrandom
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = counts::<u64>(1..=65_536))]
    pub read_batch: u64,
    /// Entries that seekrandom reads after the one that it seeks
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = counts::<u32>(0..=1 << 30))]
    pub seek_nexts: u32,
    /// Bytes that the writer beside readers puts each second; 0 for as many as it can
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "2MiB")]
    pub write_rate_limit: u64,
    /// Draw the keys of fillrandom, overwrite and deleterandom with replacement: about a third of the keys is never put
    #[arg(long)]
    pub with_replacement: bool,
    /// Before the first workload that reads what others wrote, write what is in memory to the trees and wait until no
    /// background work is left, as a step of its own; not where --workloads has flush or compact in between
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true)]
    pub settle: bool,
    /// Memory of the database, as in 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size, default_value = "1GiB")]
    pub memory: u64,
}

const TABLE: TableId = TableId(0);

/// Bytes on disk that a database may need however few keys it has: redo log, and files written ahead.
const DISK_BYTES_MIN: u64 = 1 << 30;

impl Describe for Kv {
    const NAME: &'static str = "kv";
    const COLUMNS: &[(&str, &str)] = &[
        ("MB/s", "millions of bytes of keys and values read or written per second"),
        ("found", "share of the keys asked for that were there"),
        ("x floor", "mean time of a call over the mean time of a durable write of 4 KiB to the raw device"),
    ];

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let names: Vec<String> = self.workloads.iter().map(|workload| workload.name()).collect();
        let seconds = |seconds: f64| format!("{seconds} s each");
        vec![
            parameter("workloads", names.join(", ")),
            parameter("keys", count(self.num)),
            parameter("reads", self.duration.map_or_else(|| count(self.reads()), seconds)),
            parameter("deletes", count(self.deletes())),
            parameter("threads", self.threads.to_string()),
            parameter("key", format!("{KEY_BYTES} B")),
            parameter("value", format!("{} B", self.value_bytes)),
            parameter("puts per commit", count(self.batch)),
            parameter(
                "random keys of puts",
                if self.with_replacement { "with replacement" } else { "each once" }.to_owned(),
            ),
            parameter("keys per multi-get", count(self.read_batch)),
            parameter("entries per seek", count(u64::from(self.seek_nexts) + 1)),
            parameter("writer beside readers", self.writer_text()),
            parameter("settled before reads", if self.settle { "yes" } else { "no" }.to_owned()),
            parameter("memory", bytes(self.memory)),
        ]
    }

    fn disk_bytes(&self) -> u64 {
        4 * self.num * self.entry_bytes() + DISK_BYTES_MIN
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        let groups = self.groups();
        for (at, workloads) in groups.iter().enumerate() {
            let name = format!("kv-{at}");
            self.run_group(workloads, &name, common, bench)?;
            // The last one stays, for runs that are to keep it.
            if at + 1 < groups.len() {
                bench.remove(&name)?;
            }
        }
        Ok(())
    }
}

/// Whether to settle after the first of these workloads: the last one that writes before one that reads.
fn settles(workloads: &[Workload]) -> bool {
    let Some((first, rest)) = workloads.split_first() else { return false };
    let next = rest.iter().find(|next| next.writes() || next.reads() || next.settles());
    first.writes() && next.is_some_and(|next| next.reads())
}

/// The workloads of one database while they run.
struct Session<'a> {
    kv: &'a Kv,
    seed: u64,
    /// Keys that are there, if it is known.
    live: Option<u64>,
}

impl Kv {
    fn reads(&self) -> u64 {
        self.reads.unwrap_or(self.num)
    }

    fn deletes(&self) -> u64 {
        self.deletes.unwrap_or(self.num)
    }

    fn clients(&self) -> usize {
        usize::from(self.threads)
    }

    /// Bytes of a key and its value.
    fn entry_bytes(&self) -> u64 {
        KEY_BYTES as u64 + u64::from(self.value_bytes)
    }

    /// After so many calls, or after the time that was asked for.
    fn end(&self, calls: u64) -> End {
        self.duration.map_or(End::Calls(calls), End::Seconds)
    }

    /// Calls per second of the writer beside readers.
    fn write_rate(&self) -> Option<f64> {
        (self.write_rate_limit > 0).then(|| self.write_rate_limit as f64 / self.entry_bytes() as f64)
    }

    fn writer_text(&self) -> String {
        match self.write_rate_limit {
            0 => "as fast as it can".to_owned(),
            limit => format!("{}/s", bytes(limit)),
        }
    }

    /// The workloads that share a database, in order: a fill begins a new one.
    fn groups(&self) -> Vec<&[Workload]> {
        let mut groups = Vec::new();
        let mut rest = &self.workloads[..];
        while !rest.is_empty() {
            let len = rest.iter().skip(1).position(|workload| workload.begins_a_database());
            let (group, others) = rest.split_at(len.map_or(rest.len(), |len| len + 1));
            groups.push(group);
            rest = others;
        }
        groups
    }

    fn run_group(&self, workloads: &[Workload], name: &str, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        let config = common.config(self.memory, DurabilityArg::Buffered);
        let mut session = Session { kv: self, seed: common.seed, live: None };
        if workloads.iter().all(|&workload| workload == Workload::Fillsync) {
            return workloads.iter().try_for_each(|_| session.fill_sync(&config, bench));
        }
        let first = workloads.iter().find(|&&workload| workload != Workload::Fillsync);
        if let Some(first) = first.filter(|first| !first.begins_a_database()) {
            bail!("`{}` needs a database: begin with a fill, as in --workloads fillrandom,{0}", first.name());
        }
        let mut db = match unless_lacking(bench.open(name, &config, &[TableSpec::new("kv")]))? {
            Ok(db) => db,
            Err(lacks) => {
                workloads.iter().for_each(|workload| bench.skip(&workload.name(), workload.unit(), &lacks));
                return Ok(());
            }
        };
        for (at, &workload) in workloads.iter().enumerate() {
            session.run(workload, &config, &mut db)?;
            if self.settle && settles(&workloads[at..]) {
                db.settle("settle")?;
            }
        }
        db.close()
    }
}

impl Session<'_> {
    fn run(&mut self, workload: Workload, config: &Config, db: &mut Db<'_, '_>) -> Result<()> {
        let name = workload.name();
        match workload {
            Workload::Fillsync => self.fill_sync(config, db.bench()),
            Workload::Fillseq | Workload::Fillbatch | Workload::Fillrandom | Workload::Overwrite => {
                self.put(workload, db)
            }
            Workload::Deleteseq | Workload::Deleterandom => self.delete(workload, db),
            Workload::Readrandom | Workload::Readmissing | Workload::Readwhilewriting => self.get(workload, db),
            Workload::Multireadrandom => self.multi_get(workload, db),
            Workload::Readseq | Workload::Readreverse => self.scan(workload, db),
            Workload::Seekrandom | Workload::Seekrandomwhilewriting => self.seek(workload, db),
            Workload::Flush => db.verb(&name, |store| store.flush()).map(drop),
            Workload::Compact => db.verb(&name, |store| store.compact_all()).map(drop),
            Workload::Waitforcompaction => db.verb(&name, |store| store.wait_idle()).map(drop),
            Workload::Levelstats => db.record(&name).map(drop),
        }
    }

    /// Whether all keys are there.
    fn is_full(&self) -> bool {
        self.live == Some(self.kv.num)
    }

    /// Bytes of all keys that are there and their values.
    fn live_bytes(&self) -> Option<u64> {
        self.live.filter(|&live| live > 0).map(|live| live * self.kv.entry_bytes())
    }

    /// Runs a step and gives it its figures; what the engine lacks for it makes it a skipped one, and the answer no.
    fn step(&self, plan: &Plan<'_>, db: &mut Db<'_, '_>, figures: impl FnOnce(u64) -> Figures) -> Result<bool> {
        match unless_lacking(db.step(plan))? {
            Ok(step) => {
                let operations = step.cost.map_or(0, |cost| cost.operations);
                figures(operations).add_to(step);
                Ok(true)
            }
            Err(lacks) => {
                db.bench().skip(&plan.name, plan.unit, &lacks);
                Ok(false)
            }
        }
    }
}
