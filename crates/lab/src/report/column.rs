//! The columns of the tables: what they are called in the articles, and where in a step they stand.

use super::model::{Column, Figure, Report, Step, Wanted};
use super::summary::Summary;
use crate::driver::Counters;
use crate::measure::{BUCKETS_US, Percentiles};

/// A column that every experiment has.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its title: `wKB/o`.
    pub title: &'static str,
    /// What it says, with its unit.
    pub meaning: &'static str,
    /// Which values are better.
    pub wanted: Wanted,
    /// A ratio to a smaller value says nothing.
    pub floor: f64,
    /// The value.
    pub of: fn(&Step) -> Option<f64>,
}

/// A ratio to a smaller cost says nothing: both are next to nothing, and chance decides.
pub const RATIO_FLOOR: f64 = 1e-3;

const fn less(title: &'static str, meaning: &'static str, of: fn(&Step) -> Option<f64>) -> Measure {
    Measure { title, meaning, wanted: Wanted::Less, floor: RATIO_FLOOR, of }
}

const fn plain(title: &'static str, meaning: &'static str, of: fn(&Step) -> Option<f64>) -> Measure {
    Measure { title, meaning, wanted: Wanted::Either, floor: RATIO_FLOOR, of }
}

/// The columns that the articles have, in their order.
pub const COSTS: [Measure; 8] = [
    Measure {
        title: "ops",
        meaning: "operations per second",
        wanted: Wanted::More,
        floor: 0.0,
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
    less("sp-amp", "bytes on disk, the redo log included, per live byte of keys and values", |step| {
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
pub const READS: [Measure; 11] = [
    plain("hit%", "percent of the block lookups of the step that the cache answered", cache_hits),
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

fn cache_hits(step: &Step) -> Option<f64> {
    let (hits, misses) = (step.counters.cache_hits?, step.counters.cache_misses?);
    Some(100.0 * each(Some(hits), Some(hits + misses))?)
}

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

/// What the whole machine did in the step (`vmstat`, `iostat`), shares in percent of all processors.
pub const SYSTEM: [Measure; 11] = [
    plain("us", "percent of all processors in processes, whoever's", |step| Some(100.0 * step.system?.user)),
    plain("sy", "percent of all processors in the kernel", |step| Some(100.0 * step.system?.system)),
    plain("wa", "percent of all processors idle while a process waited for storage", |step| {
        Some(100.0 * step.system?.wait)
    }),
    plain("st", "percent of all processors taken by other virtual machines", |step| Some(100.0 * step.system?.steal)),
    plain(
        "others",
        "percent of all processors used by other processes, the kernel's own threads and other virtual machines; above 10 the step is marked `~`",
        |step| Some(100.0 * step.system?.others?),
    ),
    plain("r/s", "read requests per second of the whole device, by all processes", |step| {
        per_second(step, step.done()?.device_reads)
    }),
    plain("w/s", "write requests per second of the whole device, by all processes", |step| {
        per_second(step, step.done()?.device_writes)
    }),
    plain("MBr/s", "MB read per second from the whole device, by all processes", |step| {
        Some(per_second(step, step.done()?.device_read_kib)? * 1024.0 / 1e6)
    }),
    plain("MBw/s", "MB written per second to the whole device, by all processes", |step| {
        Some(per_second(step, step.done()?.device_written_kib)? * 1024.0 / 1e6)
    }),
    plain("GBr", "GB read from storage in the whole step", |step| gigabytes(step, step.done()?.read_kib)),
    plain("GBw", "GB written to storage in the whole step", |step| gigabytes(step, step.done()?.written_kib)),
];

/// What each second of a step costs, from what each operation does.
fn per_second(step: &Step, per_operation: Option<f64>) -> Option<f64> {
    let cost = step.done()?;
    Some(per_operation? * cost.operations.max(1) as f64 / cost.seconds).filter(|rate| rate.is_finite())
}

fn gigabytes(step: &Step, kib_per_operation: Option<f64>) -> Option<f64> {
    Some(kib_per_operation? * 1024.0 * step.done()?.operations.max(1) as f64 / 1e9)
}

/// A latency that tables show.
#[derive(Clone, Copy, Debug)]
pub struct Percentile {
    /// Its title: `p99`.
    pub title: &'static str,
    /// What it says.
    pub meaning: &'static str,
    /// With fewer calls it would be that of the longest call, or nearly so, and is not shown.
    pub calls_min: u64,
    of: fn(&Percentiles) -> f64,
}

const fn percentile(
    title: &'static str,
    meaning: &'static str,
    calls_min: u64,
    of: fn(&Percentiles) -> f64,
) -> Percentile {
    Percentile { title, meaning, calls_min, of }
}

/// The latencies that tables show, in their order; the last is of the longest call.
pub const LATENCIES: [Percentile; 5] = [
    percentile("p50", "half of the calls took no more microseconds; needs 2 calls", 2, |latency| latency.p50_us),
    percentile("p90", "9 of 10 calls took no more microseconds; needs 10 calls", 10, |latency| latency.p90_us),
    percentile("p99", "99 of 100 calls took no more microseconds; needs 100 calls", 100, |latency| latency.p99_us),
    percentile("p99.9", "999 of 1000 calls took no more microseconds; needs 1000 calls", 1000, |latency| {
        latency.p999_us
    }),
    percentile("max", "microseconds of the longest call", 1, |latency| latency.max_us),
];

impl Percentile {
    /// The value of a step's operations of a kind, as they took or corrected for the rate; `None` when there were too
    /// few.
    #[must_use]
    pub fn of(&self, step: &Step, kind: &str, corrected: bool) -> Option<f64> {
        let operation = step.operation(kind).filter(|operation| operation.calls >= self.calls_min)?;
        Some((self.of)(if corrected { operation.corrected.as_ref()? } else { &operation.latency }))
    }
}

/// How many calls of a kind there were, over the repetitions: the median.
#[must_use]
pub fn calls(summary: &Summary<'_>, (step, engine): (usize, usize), kind: &str) -> Option<f64> {
    Some(summary.spread(step, engine, &|step| Some(step.operation(kind)?.calls as f64))?.median)
}

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
    let spread = summary.spread(step, engine, &|step| LATENCIES[percentile].of(step, kind, corrected))?;
    Some(if percentile + 1 == LATENCIES.len() { spread.max } else { spread.median })
}

/// The titles of the columns of a histogram: `64us`, `4ms`, `1s`, and `more`.
#[must_use]
pub fn bucket_titles() -> Vec<String> {
    let title = |&us: &u64| match us {
        us if us < 1_000 => format!("{us}us"),
        us if us < 1_000_000 => format!("{}ms", us / 1_000),
        us => format!("{}s", us / 1_000_000),
    };
    BUCKETS_US.iter().map(title).chain(["more".to_owned()]).collect()
}

/// How many calls of a kind took how long, a number for each of [`bucket_titles`], of all repetitions together; `None`
/// where there were none.
#[must_use]
pub fn buckets(summary: &Summary<'_>, (step, engine): (usize, usize), kind: &str) -> Option<Vec<u64>> {
    let mut counts = vec![0; BUCKETS_US.len() + 1];
    let mut is_known = false;
    for operation in summary.all(step, engine).filter_map(|step| step.operation(kind)) {
        for (count, bucket) in counts.iter_mut().zip(&operation.histogram) {
            *count += bucket.calls;
            is_known = true;
        }
    }
    is_known.then_some(counts)
}

/// How many calls of a kind took longer than the limit that was given, over the repetitions: the median.
#[must_use]
pub fn over_limit(summary: &Summary<'_>, (step, engine): (usize, usize), kind: &str) -> Option<f64> {
    let over = |step: &Step| Some(step.operation(kind)?.over_limit? as f64);
    Some(summary.spread(step, engine, &over)?.median)
}

/// The title and the meaning of the column of [`over_limit`].
pub const OVER_LIMIT: (&str, &str) = (
    "over",
    "calls that took longer than the limit of --sla-ms; where a rate was wanted, from the moment they were due",
);

/// Titles and meanings of the columns for which a report has values: those of all experiments, then the experiment's
/// own.
#[must_use]
pub fn explanations(report: &Report, summary: &Summary<'_>) -> Vec<(String, String)> {
    let all = || (0..summary.steps.len()).flat_map(|step| (0..summary.engines.len()).map(move |engine| (step, engine)));
    let has =
        |of: &dyn Fn(&Step) -> Option<f64>| all().any(|(step, engine)| summary.spread(step, engine, of).is_some());
    let pair = |title: &str, meaning: &str| (title.to_owned(), meaning.to_owned());
    let mut found = Vec::new();
    for measure in COSTS.iter().filter(|measure| has(&measure.of)) {
        found.push(pair(measure.title, measure.meaning));
        if measure.title == "cpu/o" {
            found.push(pair(
                "fg+bg",
                "the same, split: threads that ask for operations + the engine's own threads and processes",
            ));
        }
    }
    if has(&|step| step.operations.first().map(|operation| operation.calls as f64)) {
        found.push(pair("calls", "calls whose response times were taken; one may do many operations"));
        found.extend(LATENCIES.iter().map(|percentile| pair(percentile.title, percentile.meaning)));
    }
    if has(&|step| step.operations.iter().find_map(|operation| operation.over_limit).map(|over| over as f64)) {
        found.push(pair(OVER_LIMIT.0, OVER_LIMIT.1));
    }
    let others = FACTORS.iter().chain(&READS).chain(&SYSTEM).filter(|measure| has(&measure.of));
    found.extend(others.map(|measure| pair(measure.title, measure.meaning)));
    found.extend(report.columns.iter().filter(|(title, _)| has(&|step| own_value(step, title))).cloned());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::Cost;

    #[test]
    fn requests_of_the_device_are_told_for_each_second() {
        let cost = Cost { operations: 10, seconds: 2.0, device_writes: Some(3.0), ..Cost::default() };
        let step = Step { cost: Some(cost), ..Step::default() };
        let of = |title| SYSTEM.iter().find(|measure| measure.title == title).and_then(|measure| (measure.of)(&step));
        assert_eq!((of("w/s"), of("r/s")), (Some(15.0), None));
    }

    /// The page that reports name must have every column that they can show.
    #[test]
    fn every_column_stands_on_its_page() {
        let page = include_str!("../../../../docs/lab/reports.md");
        let measures = COSTS.iter().chain(&FACTORS).chain(&SYSTEM).map(|measure| measure.title);
        for title in
            measures.chain(LATENCIES.iter().map(|percentile| percentile.title)).chain(["calls", "fg+bg", OVER_LIMIT.0])
        {
            assert!(page.contains(&format!("`{title}`")), "{title}");
        }
    }
}
