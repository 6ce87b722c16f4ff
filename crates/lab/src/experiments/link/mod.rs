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
mod params;
mod payload;
mod requests;
mod rows;
mod setting;
mod shuffle;
mod store;
#[cfg(test)]
mod tests;

pub use on_documents::LinkDocuments;
pub use params::Link;
pub use requests::Stream;

use super::describe::Describe;
use crate::command::common::{Common, DurabilityArg};
use crate::run::{Bench, Db};
use crate::text::{bytes, count};
use anyhow::Result;
use form::Form;
use graph::LINK_TYPES;
use setting::Setting;

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
                Some(lacks) => db.bench().skip(&requests::name(number, Stream::Without), "request", lacks),
                None => requests::run(&setting, self.phase(number, Stream::Without), &mut db)?,
            }
        }
        verify(&setting, &mut db)?;
        db.close()
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
