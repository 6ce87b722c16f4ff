//! Single operations, with the names of `db_bench`, which readers of storage engines know.

mod data;
mod figures;
mod params;
mod reads;
mod session;
#[cfg(test)]
mod tests;
mod workload;
mod writes;

pub use params::Kv;
pub use workload::Workload;

use super::describe::Describe;
use crate::command::common::{Common, DurabilityArg};
use crate::driver::{Config, TableSpec, unless_lacking};
use crate::run::{Bench, Db};
use crate::text::{bytes, count};
use anyhow::{Result, bail};
use data::KEY_BYTES;
use session::Session;

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
            parameter("rounds of age", self.age.to_string()),
            parameter("settled before reads", if self.settle { "yes" } else { "no" }.to_owned()),
            parameter("memory", bytes(self.memory)),
        ]
    }

    fn resumes(&self) -> bool {
        true
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

impl Kv {
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
        let mut session = Session { kv: self, seed: common.seed, live: None, age: 0 };
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
                for workload in workloads {
                    if !bench.takes_over(&workload.name())? {
                        bench.skip(&workload.name(), workload.unit(), &lacks);
                    }
                }
                return Ok(());
            }
        };
        session.run_all(workloads, &config, &mut db)?;
        let mut again = vec![Workload::Overwrite];
        again.extend(workloads.iter().filter(|workload| workload.reads()));
        for age in 1..=self.age {
            session.age = age;
            session.run_all(&again, &config, &mut db)?;
        }
        db.close()
    }
}

impl Session<'_> {
    fn run_all(&mut self, workloads: &[Workload], config: &Config, db: &mut Db<'_, '_>) -> Result<()> {
        for (at, &workload) in workloads.iter().enumerate() {
            self.run(workload, config, db)?;
            if self.kv.settle && settles(&workloads[at..]) {
                db.settle(&self.with_age("settle".to_owned()))?;
            }
        }
        Ok(())
    }

    fn run(&mut self, workload: Workload, config: &Config, db: &mut Db<'_, '_>) -> Result<()> {
        let name = self.name(workload);
        match workload {
            Workload::Fillsync => self.fill_sync(config, db.bench()),
            Workload::Fillseq | Workload::Fillbatch | Workload::Fillrandom | Workload::Overwrite => {
                self.put(workload, db)
            }
            Workload::Deleteseq | Workload::Deleterandom => self.delete(workload, db),
            Workload::Warm | Workload::Readrandom | Workload::Readmissing | Workload::Readwhilewriting => {
                self.get(workload, db)
            }
            Workload::Multireadrandom => self.multi_get(workload, db),
            Workload::Readseq | Workload::Readreverse => self.scan(workload, db),
            Workload::Seekrandom | Workload::Seekrandomwhilewriting => self.seek(workload, db),
            Workload::Flush => db.verb(&name, |store| store.flush()).map(drop),
            Workload::Compact => db.verb(&name, |store| store.compact_all()).map(drop),
            Workload::Waitforcompaction => db.verb(&name, |store| store.wait_idle()).map(drop),
            Workload::Levelstats => db.record(&name).map(drop),
        }
    }
}
