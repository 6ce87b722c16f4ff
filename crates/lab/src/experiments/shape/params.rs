//! The parameters of the experiment.

use super::data::KEY_BYTES;
use crate::text::{COUNT_MAX, counts, parse_memory_size, parse_seconds, sizes};
use clap::Args;
use serde::{Deserialize, Serialize};
use spinney::base::num::u64_of;

/// What to run.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench shape
  spinney bench shape --values 10M --fanout 8 --engines spinney-lsm
  spinney bench shape --values 1M,10M,100M,200M --memory 8GiB --seconds 60")]
pub struct Shape {
    /// Values to load; a database for each number, in which K and M stand for thousands and millions
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1M", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub values: Vec<u64>,
    /// How many times larger a level is than the one above it; a database for each
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "8,10", value_parser = counts::<u32>(2..=32))]
    pub fanout: Vec<u32>,
    /// Point reads in each step
    #[arg(long, value_name = "N", default_value = "1M", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub reads: u64,
    /// Range reads in each step, of eight values each
    #[arg(long, value_name = "N", default_value = "300K", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub ranges: u64,
    /// Read for so many seconds in each step, however many reads that makes
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub seconds: Option<f64>,
    /// Values of each of the six runs in L0; the memtable gets four fifths of it
    #[arg(long, value_name = "N", default_value = "48K", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub run_values: u64,
    /// The size at which the first level below L0 is full
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u64>(16 << 10..=16 << 30), default_value = "64MiB")]
    pub level1: u64,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = sizes::<u32>(0..=1 << 16))]
    pub value_bytes: u32,
    /// Memory of the database, as in 64MiB; the article's cache has 8 GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size, default_value = "4GiB")]
    pub memory: u64,
}

impl Shape {
    pub(super) fn live_bytes(&self, values: u64) -> u64 {
        values * self.entry_bytes()
    }

    pub(super) fn entry_bytes(&self) -> u64 {
        u64_of(KEY_BYTES) + u64::from(self.value_bytes)
    }

    /// Values in the memtable before it is flushed.
    pub(super) fn memtable_values(&self) -> u64 {
        self.run_values * 4 / 5
    }
}
