//! What the benchmark of single operations prints, and the same figures for programs.

use super::{Config, KEY_BYTES};
use crate::durability_name;
use crate::measure::{Latency, Percentiles};
use crate::text::{bytes, count};
use anyhow::Result;
use serde::Serialize;
use spinney::Layout;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// The result of one workload on one layout.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The workload.
    pub workload: &'static str,
    /// The layout of the table.
    pub layout: &'static str,
    /// Operations done.
    pub operations: u64,
    /// Time that they took.
    pub seconds: f64,
    /// Operations per second.
    pub operations_per_second: f64,
    /// Bytes of keys and values moved per second.
    pub bytes_per_second: f64,
    /// Latency of an operation.
    pub latency: Percentiles,
    /// For durable commits: their mean time as a multiple of a plain durable write's in the same run.
    pub times_raw: Option<f64>,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `kv`.
    pub benchmark: &'static str,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Memory of the database.
    pub memory_bytes: u64,
    /// Durability of the fills.
    pub durability: &'static str,
    /// Whether the page cache was passed by.
    pub direct_io: bool,
    /// One result for each workload and layout.
    pub lines: Vec<Line>,
}

impl Line {
    pub(super) fn new(
        workload: &'static str,
        layout: Layout,
        operations: u64,
        time: Duration,
        latency: &Latency,
    ) -> Self {
        let seconds = time.as_secs_f64();
        Self {
            workload,
            layout: layout.name(),
            operations,
            seconds,
            operations_per_second: operations as f64 / seconds,
            bytes_per_second: 0.0,
            latency: latency.percentiles(),
            times_raw: None,
        }
    }

    /// The line of operations that move `bytes` each.
    pub(super) fn moving(mut self, bytes: usize) -> Self {
        self.bytes_per_second = self.operations_per_second * bytes as f64;
        self
    }

    /// The line with its mean time as a multiple of another's.
    pub(super) fn relative_to(mut self, raw: &Self) -> Self {
        self.times_raw = Some(raw.operations_per_second / self.operations_per_second);
        self
    }

    /// Prints the line as `db_bench` does.
    pub(super) fn print(&self, out: &mut dyn Write) -> Result<()> {
        let name = format!("{}/{}", self.workload, self.layout);
        let micros = self.seconds * 1e6 / self.operations as f64;
        write!(
            out,
            "{name:<21} : {micros:>11.3} micros/op {:>7.0} ops/sec {:>7.3} s {:>9} ops;",
            self.operations_per_second, self.seconds, self.operations
        )?;
        // In a line of few operations the rate would read as none.
        if self.bytes_per_second >= 1e5 {
            write!(out, " {:>5.1} MB/s", self.bytes_per_second / f64::from(1 << 20))?;
        }
        if self.latency.max_us > 0.0 {
            let Percentiles { p50_us, p99_us, max_us } = self.latency;
            write!(out, "\n{:<21}   P50: {p50_us:.2} P99: {p99_us:.2} Max: {max_us:.0} (us)", "")?;
        }
        if let Some(times) = self.times_raw {
            write!(out, "; {times:.2} times a plain durable write")?;
        }
        writeln!(out)?;
        Ok(out.flush()?)
    }
}

impl Report {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            benchmark: "kv",
            key_bytes: KEY_BYTES,
            value_bytes: config.value_bytes,
            memory_bytes: config.memory_bytes,
            durability: durability_name(config.durability),
            direct_io: config.direct_io,
            lines: Vec::new(),
        }
    }
}

pub(super) fn print_header(config: &Config, dir: &Path, out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "kv benchmark: keys of {KEY_BYTES} B, values of {} B, {} keys, {} reads, {} syncs, 1 thread",
        config.value_bytes,
        count(config.num),
        count(config.reads),
        count(config.syncs),
    )?;
    writeln!(
        out,
        "durability of fills {}, memory {}, {} I/O, seed {}, data in {}\n",
        durability_name(config.durability),
        bytes(config.memory_bytes),
        if config.direct_io { "direct" } else { "buffered" },
        config.seed,
        dir.display(),
    )?;
    Ok(out.flush()?)
}
