//! The parameters of the model.

use crate::text::{COUNT_MAX, counts, parse_memory_size, sizes};
use clap::Args;
use serde::{Deserialize, Serialize};

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;

/// The parameters.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench scale
  spinney bench scale --measure 1M,10M,100M --value-bytes 16
  spinney bench scale --engines spinney-lsm --rows 1G --memory 4GiB --measure 1M")]
pub struct Scale {
    /// Rows of which the model tells what they cost
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = counts::<u64>(1_000..=COUNT_MAX), default_value = "10M,100M,1G")]
    pub rows: Vec<u64>,
    /// Rows with which a table is really made, beside the model
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = counts::<u64>(1_000..=COUNT_MAX), default_value = "1M,10M")]
    pub measure: Vec<u64>,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = sizes::<u32>(0..=1 << 16))]
    pub value_bytes: u32,
    /// Bytes of keys and values that are flushed together
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u64>(64 << 10..=1 << 32), default_value = "16MiB")]
    pub flush_bytes: u64,
    /// Bytes of one file of a run [default: the engine's]
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u64>(64 << 10..=1 << 32))]
    pub run_bytes: Option<u64>,
    /// Memory for reads: indexes and filters first, leaves with what is left
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size, default_value = "1GiB")]
    pub memory: u64,
}

impl Scale {
    /// Bytes of a key and its value.
    pub(super) fn row_bytes(&self) -> u64 {
        KEY_BYTES as u64 + u64::from(self.value_bytes)
    }

    /// Rows that are flushed together.
    pub(super) fn flush_rows(&self) -> u64 {
        (self.flush_bytes / self.row_bytes()).max(1)
    }
}

/// Bytes in millions.
pub(super) fn mb(bytes: f64) -> f64 {
    bytes / 1e6
}
