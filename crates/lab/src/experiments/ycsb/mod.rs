//! The six core workloads of YCSB: reads, updates, inserts, short scans and read-modify-writes of records that are not
//! equally popular (Cooper et al., "Benchmarking cloud serving systems with YCSB", `SoCC` 2010).

mod data;
mod operations;
#[cfg(test)]
mod tests;
mod workload;

pub use workload::{Distribution, Workload};

use super::describe::Describe;
use super::tally::Tallies;
use crate::command::common::{Common, DurabilityArg};
use crate::driver::{Batch, Client, Outcome, TableSpec, unless_lacking};
use crate::report::{Figure, Step};
use crate::run::{Bench, Db, Did, End, Plan, Role};
use crate::text::{COUNT_MAX, bytes, count, counts, parse_memory_size};
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum as _};
use data::{FIELD_BYTES, FIELDS, RECORD_BYTES, write_key, write_record};
use operations::{Inserted, Operations, SCAN_MAX, Shared, TABLE};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use workload::{Chooser, INSERT, KINDS, READ, SCAN};

/// What to run.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench ycsb
  spinney bench ycsb --workloads a,f --threads 4 --durability sync --operations 100000
  spinney bench ycsb --records 100000000 --operations 10000000 --memory 16GiB --threads 8")]
pub struct Ycsb {
    /// The core workloads to run, in this order; the first, and each after one that inserts, begins with a load of its
    /// own
    #[arg(long, value_enum, value_name = "LETTERS", value_delimiter = ',', ignore_case = true,
          default_values_t = [Workload::A, Workload::B, Workload::C, Workload::F, Workload::D, Workload::E])]
    pub workloads: Vec<Workload>,
    /// Records that are loaded
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub records: u64,
    /// Operations of a workload, all threads together
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub operations: u64,
    /// Threads that share the operations of a workload
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = counts::<u16>(1..=256))]
    pub threads: u16,
    /// Which records are asked for [default: as the workload has it]
    #[arg(long, value_enum)]
    pub distribution: Option<Distribution>,
    /// Read every record once after each load, in a step of its own: the workloads then find in memory what fits there
    #[arg(long)]
    pub warm: bool,
    /// Memory of the database, as in 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size, default_value = "1GiB")]
    pub memory: u64,
}

impl Describe for Ycsb {
    const NAME: &'static str = "ycsb";
    const COLUMNS: &[(&str, &str)] = &[
        ("MB/s", "millions of bytes of keys and values read or written per second"),
        ("records/scan", "records that a scan read"),
        ("conflicts/rmw", "transactions run again after a conflict, per read-modify-write"),
    ];

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let names: Vec<&str> = self.workloads.iter().map(|workload| workload.name()).collect();
        let distribution = self.distribution.and_then(|distribution| distribution.to_possible_value());
        vec![
            parameter("workloads", names.join(", ")),
            parameter("records", count(self.records)),
            parameter("record", format!("{FIELDS} fields of {FIELD_BYTES} B")),
            parameter("operations", count(self.operations)),
            parameter("threads", self.threads.to_string()),
            parameter(
                "distribution",
                distribution.map_or("of the workload".to_owned(), |name| name.get_name().to_owned()),
            ),
            parameter("records per scan", format!("1 to {SCAN_MAX}")),
            parameter("read once after a load", if self.warm { "yes" } else { "no" }.to_owned()),
            parameter("memory", bytes(self.memory)),
        ]
    }

    fn disk_bytes(&self) -> u64 {
        4 * (self.records + self.operations / 10) * RECORD_BYTES as u64 + (1 << 30)
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        let groups: Vec<&[Workload]> = self.workloads.split_inclusive(|workload| workload.inserts()).collect();
        for (at, workloads) in groups.iter().enumerate() {
            let name = format!("ycsb-{at}");
            // Steps have different names.
            let load = if at == 0 { "load".to_owned() } else { format!("load {}", workloads[0].name()) };
            self.run_group(workloads, (&name, &load), common, bench)?;
            // The last one stays, for runs that are to keep it.
            if at + 1 < groups.len() {
                bench.remove(&name)?;
            }
        }
        Ok(())
    }
}

impl Ycsb {
    fn clients(&self) -> usize {
        usize::from(self.threads)
    }

    /// Loads a database and runs workloads on it.
    fn run_group(
        &self,
        workloads: &[Workload],
        (name, load): (&str, &str),
        common: &Common,
        bench: &mut Bench<'_>,
    ) -> Result<()> {
        let config = common.config(self.memory, DurabilityArg::Buffered);
        let mut db = match unless_lacking(bench.open(name, &config, &[TableSpec::new("usertable")]))? {
            Ok(db) => db,
            Err(lacks) => {
                bench.skip(load, "insert", &lacks);
                if self.warm {
                    bench.skip(&warm_name(load), "operation", &lacks);
                }
                workloads.iter().for_each(|workload| bench.skip(workload.name(), "operation", &lacks));
                return Ok(());
            }
        };
        let live_bytes = self.load(load, common.seed, &mut db)?;
        if self.warm {
            self.read_all(&warm_name(load), live_bytes, &mut db)?;
        }
        for &workload in workloads {
            self.run_workload(workload, common.seed, live_bytes, &mut db)?;
        }
        db.close()
    }

    /// Inserts all records in the order of their numbers; returns their bytes.
    fn load(&self, name: &str, seed: u64, db: &mut Db<'_, '_>) -> Result<u64> {
        let tallies = Tallies::new(self.clients());
        let work = |client_number| {
            let mut tally = tallies.of(client_number);
            let (mut key, mut record, mut batch) = (Vec::new(), Vec::new(), Batch::new());
            move |client: &mut dyn Client, at: u64| {
                write_key(at, &mut key);
                write_record(seed, at, &mut record);
                batch.clear();
                batch.put(TABLE, &key, &record);
                ensure!(client.write(&batch)? == Outcome::Done, "a write outside transactions had a conflict");
                tally.add([batch.bytes() as u64, 0, 0]);
                Ok(Did::wrote(batch.bytes() as u64))
            }
        };
        let role = Role::new(&KINDS[INSERT..=INSERT], self.clients(), End::Calls(self.records), work);
        let plan = Plan { name: name.to_owned(), unit: "insert", roles: vec![role], live_bytes: None };
        let step = db.step(&plan)?;
        let [live_bytes, ..] = tallies.totals();
        add_figures(step, tallies.totals());
        set_space(step, live_bytes);
        Ok(live_bytes)
    }

    /// Reads all records in the order of their numbers.
    fn read_all(&self, name: &str, live_bytes: u64, db: &mut Db<'_, '_>) -> Result<()> {
        let tallies = Tallies::new(self.clients());
        let work = |client_number| {
            let mut tally = tallies.of(client_number);
            let mut key = Vec::new();
            move |client: &mut dyn Client, at: u64| {
                write_key(at, &mut key);
                let mut read_bytes = key.len() as u64;
                ensure!(client.get(TABLE, &key, &mut |value| read_bytes += value.len() as u64)?, "no record {at}");
                tally.add([read_bytes, 0, 0]);
                Ok(Did { operations: 1, read_bytes, ..Did::default() })
            }
        };
        let role = Role::new(&KINDS[READ..=READ], self.clients(), End::Calls(self.records), work);
        let plan = Plan { name: name.to_owned(), unit: "operation", roles: vec![role], live_bytes: Some(live_bytes) };
        add_figures(db.step(&plan)?, tallies.totals());
        Ok(())
    }

    fn run_workload(&self, workload: Workload, seed: u64, live_bytes: u64, db: &mut Db<'_, '_>) -> Result<()> {
        let inserted = Inserted::new(self.records, self.clients());
        let without_transactions = AtomicBool::new(false);
        let shared = Shared { workload, seed, inserted: &inserted, without_transactions: &without_transactions };
        let tallies = Tallies::new(self.clients());
        let distribution = self.distribution.unwrap_or(workload.distribution());
        // Made once: a zipfian distribution takes its time.
        let chooser = Chooser::new(distribution, self.records, workload, self.operations);
        let work = |client: usize| Operations::new(shared, client, chooser.clone(), tallies.of(client));
        // Not in the call itself, which is also made of nothing, to see what the lab costs.
        let publish = |client: usize, did: &Did| {
            if did.kind == INSERT {
                inserted.add(client);
            }
        };
        let role = Role::new(KINDS, self.clients(), End::Calls(self.operations), work).then(publish);
        let plan = Plan { name: workload.name().to_owned(), unit: "operation", roles: vec![role], live_bytes: None };
        let step = db.step(&plan)?;
        let inserts = step.operation(KINDS[INSERT]).map_or(0, |insert| insert.operations);
        add_figures(step, tallies.totals());
        // A new record has the size of the others, on average.
        set_space(step, live_bytes + inserts * (live_bytes / self.records));
        if without_transactions.load(Ordering::Relaxed) {
            db.bench().note("read-modify-writes are a get and a put: the engine has no transactions");
        }
        Ok(())
    }
}

/// The name of the step that reads all records after a load.
fn warm_name(load: &str) -> String {
    load.replacen("load", "warm", 1)
}

/// The columns of the experiment from what clients found: bytes, entries of scans, and transactions run again.
fn add_figures(step: &mut Step, [bytes, entries, again]: [u64; 3]) {
    let seconds = step.cost.map(|cost| cost.seconds).filter(|&seconds| seconds > 0.0);
    let calls = |kind: &str| step.operation(kind).map(|operation| operation.calls.max(1) as f64);
    step.figures = vec![
        Figure::more("MB/s", "MB/s", seconds.map(|seconds| bytes as f64 / 1e6 / seconds)),
        Figure::plain("records/scan", "", calls(KINDS[SCAN]).map(|calls| entries as f64 / calls)),
        Figure::less("conflicts/rmw", "", calls(KINDS[KINDS.len() - 1]).map(|calls| again as f64 / calls)),
    ];
}

/// Says how much larger the database is than its live keys and values, whose bytes are known only after the step.
fn set_space(step: &mut Step, live_bytes: u64) {
    if let (Some(cost), Some(size)) = (&mut step.cost, step.after.size) {
        cost.space_amplification = Some(size.allocated_bytes as f64 / live_bytes.max(1) as f64);
    }
}
