//! The columns of the tables: what they are called in the articles, and where in a step they stand.

use super::{Column, Figure, Step, Summary, Wanted};
use crate::driver::Counters;
use crate::measure::Percentiles;

/// A column that every experiment has.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its title: `wKB/o`.
    pub title: &'static str,
    /// What it says, with its unit.
    pub meaning: &'static str,
    /// Which values are better.
    pub wanted: Wanted,
    /// The value.
    pub of: fn(&Step) -> Option<f64>,
}

const fn less(title: &'static str, meaning: &'static str, of: fn(&Step) -> Option<f64>) -> Measure {
    Measure { title, meaning, wanted: Wanted::Less, of }
}

/// The columns that the articles have, in their order.
pub const COSTS: [Measure; 8] = [
    Measure {
        title: "ops",
        meaning: "operations per second",
        wanted: Wanted::More,
        of: |step| Some(step.done()?.rate),
    },
    less("db.gb", "GB on disk after the step", |step| Some(step.after.size?.allocated_bytes as f64 / 1e9)),
    less("r/o", "read requests per operation", |step| step.done()?.reads),
    less("rKB/o", "KiB read from storage per operation", |step| step.done()?.read_kib),
    less("wKB/o", "KiB written to storage per operation", |step| step.done()?.written_kib),
    less("cs/o", "context switches per operation", |step| step.done()?.switches),
    less("cpu/o", "microseconds of CPU per operation", |step| Some(step.done()?.cpu_us)),
    less("rss", "MB of memory at the peak", |step| Some(step.done()?.rss_bytes? as f64 / 1e6)),
];

/// The columns beside the latencies.
pub const FACTORS: [Measure; 6] = [
    less("w-amp", "bytes written to storage per byte of keys and values put", |step| step.done()?.write_amplification),
    less("r-amp", "bytes read from storage per byte of keys and values got", |step| step.done()?.read_amplification),
    less("sp-amp", "bytes on disk per live byte of keys and values, redo log left out", |step| {
        step.done()?.space_amplification
    }),
    less("stall.s", "seconds for which writers were slowed or stopped", |step| {
        Some(step.counters.stall_us? as f64 / 1e6)
    }),
    less("lab/o", "the lab's own microseconds of CPU per operation, which cpu/o includes", |step| {
        step.done()?.overhead_us
    }),
    less("secs", "seconds that the step took", |step| Some(step.done()?.seconds)),
];

/// What a get and what a range read ask of the trees, as the engine counts it.
pub const READS: [Measure; 10] = [
    less("get.trees", "trees that a get searches", |step| per_get(step, |counters| counters.get_trees)),
    less("get.filt", "filters that it asks", |step| per_get(step, |counters| counters.get_filters)),
    less("get.false", "filters that let its key pass in vain", |step| {
        per_get(step, |counters| counters.get_filter_misses)
    }),
    less("get.blk", "blocks that it looks at, in memory or not", |step| per_get(step, |counters| counters.get_blocks)),
    less("get.read", "blocks that it reads from files", |step| per_get(step, |counters| counters.get_blocks_read)),
    less("seek.trees", "trees that a range read walks over", |step| per_seek(step, |counters| counters.seek_trees)),
    less("seek.filt", "filters that it asks", |step| per_seek(step, |counters| counters.seek_filters)),
    less("seek.false", "filters that let its range pass in vain", |step| {
        per_seek(step, |counters| counters.seek_filter_misses)
    }),
    less("seek.blk", "blocks that it looks at, in memory or not", |step| {
        per_seek(step, |counters| counters.seek_blocks)
    }),
    less("seek.read", "blocks that it reads from files", |step| per_seek(step, |counters| counters.seek_blocks_read)),
];

fn per_get(step: &Step, count: fn(&Counters) -> Option<u64>) -> Option<f64> {
    each(count(&step.counters), step.counters.gets)
}

fn per_seek(step: &Step, count: fn(&Counters) -> Option<u64>) -> Option<f64> {
    each(count(&step.counters), step.counters.seeks)
}

/// What each of so many costs.
fn each(cost: Option<u64>, reads: Option<u64>) -> Option<f64> {
    Some(cost? as f64 / reads.filter(|&reads| reads > 0)? as f64)
}

/// Whether any engine counted reads in a step.
#[must_use]
pub fn has_reads(summary: &Summary<'_>, step: usize) -> bool {
    let counted = |engine: usize| READS.iter().any(|measure| summary.spread(step, engine, &measure.of).is_some());
    (0..summary.engines.len()).any(counted)
}

/// A title, and where the value stands.
pub type Percentile = (&'static str, fn(&Percentiles) -> f64);

/// The latencies that tables show, in their order; the last is of the longest call.
pub const LATENCIES: [Percentile; 5] = [
    ("p50", |latency| latency.p50_us),
    ("p90", |latency| latency.p90_us),
    ("p99", |latency| latency.p99_us),
    ("p99.9", |latency| latency.p999_us),
    ("max", |latency| latency.max_us),
];

/// The columns of the experiment's own that any engine has in a step, in their order.
#[must_use]
pub fn own_columns<'r>(summary: &Summary<'r>, step: usize) -> Vec<&'r Column> {
    let mut columns: Vec<&Column> = Vec::new();
    for engine in 0..summary.engines.len() {
        for figure in summary.all(step, engine).flat_map(|step| &step.figures) {
            if !columns.iter().any(|column| column.name == figure.column.name) {
                columns.push(&figure.column);
            }
        }
    }
    columns
}

/// The value of an experiment's own column.
#[must_use]
pub fn own_value(step: &Step, name: &str) -> Option<f64> {
    step.figures.iter().find(|figure: &&Figure| figure.column.name == name)?.value
}

/// The kinds of operations that any engine has in a step, in their order.
#[must_use]
pub fn kinds<'r>(summary: &Summary<'r>, step: usize) -> Vec<&'r str> {
    let mut kinds: Vec<&str> = Vec::new();
    for engine in 0..summary.engines.len() {
        for operation in summary.all(step, engine).flat_map(|step| &step.operations) {
            if !kinds.contains(&operation.name.as_str()) {
                kinds.push(&operation.name);
            }
        }
    }
    kinds
}

/// One of [`LATENCIES`] of a kind of operation over the repetitions: the median, and of the longest calls the longest.
#[must_use]
pub fn latency(
    summary: &Summary<'_>,
    (step, engine): (usize, usize),
    kind: &str,
    corrected: bool,
    percentile: usize,
) -> Option<f64> {
    let of = LATENCIES[percentile].1;
    let value = |step: &Step| {
        let operation = step.operation(kind)?;
        Some(of(if corrected { operation.corrected.as_ref()? } else { &operation.latency }))
    };
    let spread = summary.spread(step, engine, &value)?;
    Some(if percentile + 1 == LATENCIES.len() { spread.max } else { spread.median })
}
