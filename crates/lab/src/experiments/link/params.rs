//! The parameters.

use super::requests::{Phase, Stream};
use crate::run::End;
use crate::text::{COUNT_MAX, counts, sizes};
use clap::Args;
use serde::{Deserialize, Serialize};

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

impl Link {
    /// The phase with a number, beside a change stream or not.
    pub(super) fn phase(&self, number: u64, stream: Stream) -> Phase {
        let end = self.requests.map_or(End::Seconds(self.seconds.into()), End::Calls);
        Phase { number, requesters: self.requesters as usize, end, stream }
    }
}
