//! `LinkBench` (Facebook, 2013): a social graph of nodes, links and counts of links, with transactions.

mod access;
mod check;
mod distributions;
mod documents;
mod form;
mod graph;
mod load;
mod on_documents;
mod operations;
mod payload;
mod requests;
mod rows;
mod setting;
mod shuffle;
mod store;
#[cfg(test)]
mod tests;

pub use on_documents::{LinkDocuments, Stream};

use super::describe::Describe;
use crate::command::common::{Common, DurabilityArg};
use crate::run::{Bench, Db, End};
use crate::text::{COUNT_MAX, bytes, count, counts, sizes};
use anyhow::Result;
use clap::Args;
use form::Form;
use graph::LINK_TYPES;
use requests::Phase;
use serde::{Deserialize, Serialize};
use setting::Setting;

/// The graph, and how long it is asked.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench link
  spinney bench link --nodes 1000000 --phases 6 --seconds 60 --requesters 8 --memory 256MiB
The article, cached and not:
  spinney bench link --nodes 50000000 --loaders 12 --requesters 12 --phases 12 --seconds 3600 --memory 32GiB
  spinney bench link --nodes 250000000 --loaders 12 --requesters 12 --phases 24 --seconds 3600 --memory 8GiB --memory-limit 40GiB")]
pub struct Link {
    /// Nodes to load; the original's maxid1 is one more
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub nodes: u64,
    /// Threads that load
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = counts::<u32>(1..=1024))]
    pub loaders: u32,
    /// Threads that send requests
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = counts::<u32>(1..=1024))]
    pub requesters: u32,
    /// Request phases after the load
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = counts::<u32>(0..=255))]
    pub phases: u32,
    /// Seconds of a phase
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = counts::<u32>(1..=10_000_000))]
    pub seconds: u32,
    /// End a phase after so many requests of all requesters together, not by time
    #[arg(long, value_name = "N", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub requests: Option<u64>,
    /// Memory of the database, as in 64MiB: a commit of the load has 1,024 rows, which must fit in a quarter of it
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u64>(MEMORY_MIN..=1 << 40), default_value = "1GiB")]
    pub memory: u64,
}

/// A load whose commits have 1,024 rows needs so much memory.
const MEMORY_MIN: u64 = 4 << 20;

impl Describe for Link {
    const NAME: &'static str = "link";
    const COLUMNS: &[(&str, &str)] = &[
        ("nodes/s", "nodes loaded per second"),
        ("links/s", "links loaded per second"),
        ("nodes", "nodes loaded"),
        ("links", "links loaded"),
        ("counts", "counts of links loaded"),
        ("r/node", "read requests to storage per node"),
        ("wKB/node", "KiB sent to storage per node"),
        ("cs/node", "context switches per node"),
        ("cpu/node", "microseconds of CPU per node"),
        ("un", "milliseconds: p99 of updatenode"),
        ("gn", "milliseconds: p99 of getnode"),
        ("ul", "milliseconds: p99 of updatelink"),
        ("gl", "milliseconds: p99 of getlinklist"),
        ("retries/o", "transactions run again after a conflict, per request"),
        ("links/list", "links in a list that was read"),
        ("history", "lists that went on where an earlier one met its limit"),
    ];

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let length = match self.requests {
            Some(requests) => format!("{} requests", count(requests)),
            None => format!("{} s", self.seconds),
        };
        vec![
            parameter("nodes", count(self.nodes)),
            parameter("link types", LINK_TYPES.to_string()),
            parameter("loaders", self.loaders.to_string()),
            parameter("requesters", self.requesters.to_string()),
            parameter("phases", format!("{} of {length}", self.phases)),
            parameter("memory", bytes(self.memory)),
        ]
    }

    fn disk_bytes(&self) -> u64 {
        // About 900 bytes of rows for each node with its links, and room for what is not yet compacted.
        3 * 900 * self.nodes + (1 << 30)
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        let mut config = common.config(self.memory, DurabilityArg::Interval);
        config.transactions = true;
        let setting = Setting::new(Form::Entries, self.nodes, common.seed);
        let mut db = bench.open("link", &config, &rows::TABLES)?;
        load::run(&setting, self.loaders as usize, "load", &mut db)?;
        let lacks = store::lacks_transactions(&mut *db.store().client()?)?;
        for number in 1..=u64::from(self.phases) {
            match &lacks {
                Some(lacks) => db.bench().skip(&requests::name(number, false), "request", lacks),
                None => requests::run(&setting, self.phase(number, false), &mut db)?,
            }
        }
        verify(&setting, &mut db)?;
        db.close()
    }
}

impl Link {
    fn phase(&self, number: u64, stream: bool) -> Phase {
        let end = self.requests.map_or(End::Seconds(self.seconds.into()), End::Calls);
        Phase { number, requesters: self.requesters as usize, end, stream }
    }
}

/// Checks that counts, links and index agree once all clients have ended.
fn verify(setting: &Setting, db: &mut Db<'_, '_>) -> Result<()> {
    let nodes = setting.graph.nodes();
    let checked = check::check(&mut *db.store().client()?, nodes, setting.seed)?;
    let which = if checked.nodes == nodes { "all" } else { "a sample of" };
    db.bench().note(format!(
        "after the run counts, links and index of {which} nodes agree: {} counts, {} links",
        count(checked.counts),
        count(checked.links)
    ));
    Ok(())
}
