//! The insert benchmark at the level of keys and values: rows in the order of their primary key, and entries of secondary
//! indexes on random values, written blindly.
//!
//! A B-tree that updates its leaves in place is fast here while the indexes fit in its cache, and reads a leaf for nearly every
//! entry once they do not; the benchmark shows what that costs, for each layout, in one run.

mod load;
mod report;
mod rows;
mod target;

use crate::measure::{DirectorySize, MemoryPeak, Meter, Percentiles};
use crate::progress;
use crate::scratch::Scratch;
use crate::stop::Stop;
use anyhow::Result;
use spinney::{Durability, Layout};
use std::io::Write;

pub use report::{Cost, LayoutReport, Report};
pub use rows::{INDEXES, RowMaker};

/// What to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Rows to insert. At least 1.
    pub rows: u64,
    /// Rows in one atomic commit. At least 1.
    pub batch_rows: u64,
    /// Threads that insert. At least 1.
    pub threads: usize,
    /// Secondary indexes, 0 to 3.
    pub indexes: usize,
    /// Random bytes in a row beside its columns.
    pub row_bytes: usize,
    /// Layouts to run, one after the other; the first is what the others are compared with.
    pub layouts: Vec<Layout>,
    /// Memory of the database.
    pub memory_bytes: u64,
    /// Durability of each commit.
    pub durability: Durability,
    /// Pass the page cache by.
    pub direct_io: bool,
    /// The seed of the data.
    pub seed: u64,
    /// Rows after which a line is printed.
    pub interval_rows: u64,
}

/// Runs the benchmark on each layout in turn, printing results to `out` as they come.
///
/// # Errors
/// What the database, the measuring or `out` says; [`crate::Interrupted`] when `stop` was asked for.
pub fn run(config: &Config, scratch: &Scratch, stop: &Stop, out: &mut dyn Write) -> Result<Report> {
    report::print_header(config, scratch.path(), out)?;
    let mut layouts = Vec::new();
    for &layout in &config.layouts {
        layouts.push(run_layout(config, layout, scratch, stop, out)?);
    }
    let report = Report::new(config, layouts);
    report.print_summary(out)?;
    Ok(report)
}

fn run_layout(
    config: &Config,
    layout: Layout,
    scratch: &Scratch,
    stop: &Stop,
    out: &mut dyn Write,
) -> Result<LayoutReport> {
    let name = layout.name();
    let dir = scratch.fresh(name)?;
    let memory = MemoryPeak::watch()?;
    let meter = Meter::start()?;
    let target = target::Target::open(&dir, config, layout)?;

    let before = meter.read()?;
    let bar = progress::bar(config.rows, name, "rows");
    let mut intervals = Vec::new();
    let latency = load::load(config, &target, &meter, stop, &bar, |rows, cost| {
        let printed = bar.suspend(|| report::print_cost(name, &crate::text::count(rows), &cost, out));
        intervals.push(cost);
        printed
    })?;
    let loaded = meter.read()?;
    bar.finish_and_clear();

    let wheel = progress::wheel("settling");
    target.settle()?;
    wheel.finish_and_clear();
    let settled = meter.read()?;

    let commits = latency.percentiles();
    let (whole, size) = (settled - before, DirectorySize::of(&dir)?);
    let logical_bytes = config.rows * rows::logical_bytes(config.row_bytes, config.indexes);
    let (shapes, stats) = target.finish()?;
    let report = LayoutReport {
        layout: name,
        intervals,
        load: Cost::new(config.rows, loaded - before, commits),
        settle: Cost::new(config.rows, settled - loaded, Percentiles::default()),
        total: Cost::new(config.rows, whole, commits),
        logical_bytes,
        size,
        space_amplification: size.data_bytes() as f64 / logical_bytes as f64,
        write_amplification: whole.written_bytes as f64 / logical_bytes as f64,
        rss_bytes: memory.bytes()?,
        shapes,
        stats,
    };
    report.print_steps(out)?;
    Ok(report)
}
