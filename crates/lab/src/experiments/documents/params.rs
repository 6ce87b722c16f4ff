//! The parameters of the experiment.

use crate::experiments::connect::Connect;
use crate::text::{COUNT_MAX, counts, parse_memory_size};
use clap::Args;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench documents
  spinney bench documents --documents 1M --memory 2GiB --repeat 3 --html documents.html
  spinney bench documents --connect mongodb://127.0.0.1:27017 --clients 4")]
pub struct Documents {
    /// Documents in the collection
    #[arg(long, value_name = "N", default_value = "200K", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub documents: u64,
    /// Documents of them that are inserted one by one, before the others [default: a quarter]
    #[arg(long, value_name = "N", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub singles: Option<u64>,
    /// Documents in a bulk insert
    #[arg(long, value_name = "N", default_value = "1000", value_parser = counts::<u64>(1..=100_000))]
    pub batch: u64,
    /// Calls of find, covered and fetched, each
    #[arg(long, value_name = "N", default_value = "200K", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub reads: u64,
    /// Calls of inc, move and delete, each; no more are deleted than there are
    #[arg(long, value_name = "N", default_value = "50K", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub updates: u64,
    /// Calls of count, scan and group, each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub scans: u64,
    /// Clients of each step
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = counts::<u16>(1..=256))]
    pub clients: u16,
    /// Memory of the database, as in 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size, default_value = "2GiB")]
    pub memory: u64,
    /// The server, if it is one.
    #[command(flatten)]
    pub connect: Connect,
}

impl Documents {
    /// Documents that are inserted one by one.
    pub(super) fn singles(&self) -> u64 {
        self.singles.unwrap_or(self.documents.div_ceil(4)).min(self.documents)
    }

    /// Documents that are deleted.
    pub(super) fn deletes(&self) -> u64 {
        self.updates.min(self.documents)
    }
}
