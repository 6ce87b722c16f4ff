//! The parameters of the single operations.

use super::data::KEY_BYTES;
use super::workload::Workload;
use crate::run::End;
use crate::text::{COUNT_MAX, bytes, counts, parse_memory_size, parse_seconds, parse_size, sizes};
use clap::{ArgAction, Args};
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
    /// After all workloads of a database, put every key again in another order and repeat the reads, so many times
    #[arg(long, value_name = "ROUNDS", default_value_t = 0, value_parser = counts::<u32>(0..=1_000))]
    pub age: u32,
    /// Memory of the database, as in 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size, default_value = "1GiB")]
    pub memory: u64,
}

impl Kv {
    pub(super) fn reads(&self) -> u64 {
        self.reads.unwrap_or(self.num)
    }

    pub(super) fn deletes(&self) -> u64 {
        self.deletes.unwrap_or(self.num)
    }

    pub(super) fn clients(&self) -> usize {
        usize::from(self.threads)
    }

    /// Bytes of a key and its value.
    pub(super) fn entry_bytes(&self) -> u64 {
        KEY_BYTES as u64 + u64::from(self.value_bytes)
    }

    /// After so many calls, or after the time that was asked for.
    pub(super) fn end(&self, calls: u64) -> End {
        self.duration.map_or(End::Calls(calls), End::Seconds)
    }

    /// Calls per second of the writer beside readers.
    pub(super) fn write_rate(&self) -> Option<f64> {
        (self.write_rate_limit > 0).then(|| self.write_rate_limit as f64 / self.entry_bytes() as f64)
    }

    pub(super) fn writer_text(&self) -> String {
        match self.write_rate_limit {
            0 => "as fast as it can".to_owned(),
            limit => format!("{}/s", bytes(limit)),
        }
    }
}
