//! Single operations, with the names of `db_bench`, which readers of storage engines know.

mod data;

use super::Describe;
use crate::command::{Common, DurabilityArg};
use crate::driver::{Batch, Client, TableId, TableSpec};
use crate::random::Random;
use crate::run::{Bench, Db, Did, End, Plan, Role};
use crate::text::{bytes, count, parse_size};
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use data::{KEY_BYTES, Keys, Values};
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench kv
  spinney bench kv --workloads fillrandom,readrandom --num 5000000 --memory 2GiB")]
pub struct Kv {
    /// What to do, in this order
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Workload::Fillrandom, Workload::Readrandom])]
    pub workloads: Vec<Workload>,
    /// Keys to put
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub num: u64,
    /// Keys to get
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub reads: u64,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub value_bytes: u32,
    /// Memory of the database, as in 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GiB")]
    pub memory: u64,
}

/// What to do with the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Put every key once, in random order
    Fillrandom,
    /// Get random keys, all of which are there
    Readrandom,
}

const TABLE: TableId = TableId(0);

impl Describe for Kv {
    const NAME: &'static str = "kv";

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        vec![
            parameter("keys", count(self.num)),
            parameter("key", format!("{KEY_BYTES} B")),
            parameter("value", format!("{} B", self.value_bytes)),
            parameter("memory", bytes(self.memory)),
        ]
    }

    fn disk_bytes(&self) -> u64 {
        4 * self.live_bytes() + (1 << 30)
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        let config = common.config(self.memory, DurabilityArg::Buffered);
        let mut db = bench.open("kv", &config, &[TableSpec::new("kv")])?;
        for &workload in &self.workloads {
            match workload {
                Workload::Fillrandom => self.fill(common, &mut db)?,
                Workload::Readrandom => self.read_random(common, &mut db)?,
            }
        }
        db.close()
    }
}

impl Kv {
    fn live_bytes(&self) -> u64 {
        self.num * (KEY_BYTES as u64 + u64::from(self.value_bytes))
    }

    fn fill(&self, common: &Common, db: &mut Db<'_, '_>) -> Result<()> {
        let work = |_client| {
            let (mut values, mut batch) = (Values::new(common.seed, self.value_bytes as usize), Batch::new());
            move |client: &mut dyn Client, at: u64| {
                batch.clear();
                batch.put(TABLE, &Keys::Scattered.key(at), values.next());
                let _ = client.write(&batch)?;
                Ok(Did::wrote(batch.bytes() as u64))
            }
        };
        let role = Role::new(&["put"], 1, End::Calls(self.num), work);
        let plan =
            Plan { name: "fillrandom".to_owned(), unit: "put", roles: vec![role], live_bytes: Some(self.live_bytes()) };
        db.step(&plan).map(drop)
    }

    fn read_random(&self, common: &Common, db: &mut Db<'_, '_>) -> Result<()> {
        let work = |client_number: usize| {
            let mut random = Random::of(common.seed ^ 1, client_number as u64);
            move |client: &mut dyn Client, _at: u64| {
                let mut len = 0;
                let key = Keys::Scattered.key(random.below(self.num));
                let there = client.get(TABLE, &key, &mut |value| len = value.len())?;
                ensure!(there, "a key is not there: `readrandom` needs a fill of the same --num before it");
                Ok(Did::read((KEY_BYTES + len) as u64))
            }
        };
        let role = Role::new(&["get"], 1, End::Calls(self.reads), work);
        let plan =
            Plan { name: "readrandom".to_owned(), unit: "get", roles: vec![role], live_bytes: Some(self.live_bytes()) };
        db.step(&plan).map(drop)
    }
}
