//! What the insert benchmark prints, and the same figures for programs.

use super::Config;
use crate::measure::{DirectorySize, Percentiles, Usage};
use crate::text::{Table, bytes, count, counted, digits, line};
use crate::{durability_name, shape_line};
use anyhow::Result;
use serde::Serialize;
use spinney::{Shape, Stats};
use std::io::Write;
use std::path::Path;

/// What some rows cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    /// The rows that the figures are divided by.
    pub rows: u64,
    /// Time that passed.
    pub seconds: f64,
    /// Rows per second.
    pub rows_per_second: f64,
    /// Latency of a commit.
    pub commit: Percentiles,
    /// Read calls per row.
    pub reads_per_row: f64,
    /// KiB fetched from storage per row.
    pub read_kib_per_row: f64,
    /// KiB sent to storage per row.
    pub written_kib_per_row: f64,
    /// Context switches per row.
    pub switches_per_row: f64,
    /// Microseconds of CPU per row, user and system.
    pub cpu_us_per_row: f64,
}

/// The result of one layout.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutReport {
    /// The layout's name.
    pub layout: &'static str,
    /// Costs of each interval of the load.
    pub intervals: Vec<Cost>,
    /// Costs of the load.
    pub load: Cost,
    /// Costs of waiting until no background work was left.
    pub settle: Cost,
    /// Both together.
    pub total: Cost,
    /// Bytes of keys and values that were inserted.
    pub logical_bytes: u64,
    /// The database directory at the end.
    pub size: DirectorySize,
    /// Bytes on disk (without redo log) per logical byte.
    pub space_amplification: f64,
    /// Bytes sent to storage (redo log included) per logical byte.
    pub write_amplification: f64,
    /// Peak of resident memory of the process, which may hold on to some of what earlier layouts used.
    pub rss_bytes: u64,
    /// The shape of each table at the end.
    pub shapes: Vec<Shape>,
    /// The engine's counters at the end.
    pub stats: Stats,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `insert`.
    pub benchmark: &'static str,
    /// Rows inserted.
    pub rows: u64,
    /// Rows per commit.
    pub batch_rows: u64,
    /// Inserting threads.
    pub threads: usize,
    /// Secondary indexes.
    pub indexes: usize,
    /// Random bytes in each row.
    pub row_bytes: usize,
    /// Memory of the database.
    pub memory_bytes: u64,
    /// Durability of each commit.
    pub durability: &'static str,
    /// Whether the page cache was passed by.
    pub direct_io: bool,
    /// The seed of the data.
    pub seed: u64,
    /// One result for each layout.
    pub layouts: Vec<LayoutReport>,
}

impl Cost {
    pub(super) fn new(rows: u64, usage: Usage, commit: Percentiles) -> Self {
        let per_row = |value: f64| value / rows as f64;
        let seconds = usage.elapsed.as_secs_f64();
        Self {
            rows,
            seconds,
            rows_per_second: rows as f64 / seconds,
            commit,
            reads_per_row: per_row(usage.reads as f64),
            read_kib_per_row: per_row(usage.read_bytes as f64 / 1024.0),
            written_kib_per_row: per_row(usage.written_bytes as f64 / 1024.0),
            switches_per_row: per_row(usage.switches as f64),
            cpu_us_per_row: per_row(usage.cpu.as_secs_f64() * 1e6),
        }
    }

    /// What storage and CPU did for a row, in the order of the tables' columns.
    fn work(&self) -> [f64; 5] {
        [
            self.reads_per_row,
            self.read_kib_per_row,
            self.written_kib_per_row,
            self.switches_per_row,
            self.cpu_us_per_row,
        ]
    }
}

impl LayoutReport {
    /// Prints the layout's lines that come after its intervals.
    pub(super) fn print_steps(&self, out: &mut dyn Write) -> Result<()> {
        print_cost(self.layout, "load", &self.load, out)?;
        print_cost(self.layout, "settle", &self.settle, out)?;
        print_cost(self.layout, "total", &self.total, out)
    }

    fn figures(&self) -> [f64; 11] {
        let [reads, read_kib, written_kib, switches, cpu_us] = self.total.work();
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        [
            self.load.rows_per_second,
            self.total.commit.p99_us,
            reads,
            read_kib,
            written_kib,
            switches,
            cpu_us,
            mib(self.size.data_bytes()),
            self.space_amplification,
            self.write_amplification,
            mib(self.rss_bytes),
        ]
    }
}

/// Titles of [`LayoutReport::figures`].
const FIGURES: [&str; 12] =
    ["layout", "rows/s", "p99 us", "reads", "rKiB", "wKiB", "switch", "cpu us", "MiB", "space", "write", "rssMiB"];

impl Report {
    pub(super) fn new(config: &Config, layouts: Vec<LayoutReport>) -> Self {
        Self {
            benchmark: "insert",
            rows: config.rows,
            batch_rows: config.batch_rows,
            threads: config.threads,
            indexes: config.indexes,
            row_bytes: config.row_bytes,
            memory_bytes: config.memory_bytes,
            durability: durability_name(config.durability),
            direct_io: config.direct_io,
            seed: config.seed,
            layouts,
        }
    }

    /// Prints all layouts beside each other, then relative to the first, then the shapes.
    pub(super) fn print_summary(&self, out: &mut dyn Write) -> Result<()> {
        let Some(first) = self.layouts.first() else { return Ok(()) };
        let mut absolute = Table::new(&FIGURES);
        let mut relative = Table::new(&FIGURES);
        for layout in &self.layouts {
            let figures = layout.figures();
            let name = || std::iter::once(layout.layout.to_owned());
            absolute.row(name().chain(figures.map(digits)));
            let ratios = figures.iter().zip(first.figures()).map(|(this, base)| ratio(*this, base));
            relative.row(name().chain(ratios));
        }
        writeln!(
            out,
            "\n--- absolute: rows/s of the load; costs per row, size and memory of load and settling together"
        )?;
        write!(out, "{}", absolute.render())?;
        writeln!(out, "\n--- relative to {}", first.layout)?;
        write!(out, "{}", relative.render())?;
        writeln!(out, "\n--- tree shapes")?;
        for layout in &self.layouts {
            for shape in &layout.shapes {
                writeln!(out, "{:<10}  {:<8}  {}", layout.layout, shape.table, shape_line(shape))?;
            }
        }
        Ok(out.flush()?)
    }
}

/// A figure as a multiple of the first layout's.
fn ratio(this: f64, base: f64) -> String {
    if base < 0.0005 { "-".to_owned() } else { format!("{:.2}", this / base) }
}

/// Widths of the columns of the lines that are printed one by one; together at most 100 columns.
const WIDTHS: [usize; 11] = [10, 10, 9, 7, 7, 7, 6, 6, 6, 6, 6];

/// Prints what is run and the titles of the lines that follow.
pub(super) fn print_header(config: &Config, dir: &Path, out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "insert benchmark: {}, {} per commit, {}, {}",
        counted(config.rows, "row", "rows"),
        count(config.batch_rows),
        counted(config.threads as u64, "thread", "threads"),
        counted(config.indexes as u64, "secondary index", "secondary indexes"),
    )?;
    writeln!(
        out,
        "durability {}, memory {}, {} I/O, seed {}, data in {}",
        durability_name(config.durability),
        bytes(config.memory_bytes),
        if config.direct_io { "direct" } else { "buffered" },
        config.seed,
        dir.display(),
    )?;
    writeln!(
        out,
        "figures after the rate: a commit's latency; costs per row of the whole process, generator included\n"
    )?;
    let titles =
        ["layout", "rows", "rows/s", "p50 us", "p99 us", "max ms", "reads", "rKiB", "wKiB", "switch", "cpu us"];
    writeln!(out, "{}", line(&titles.map(str::to_owned), &WIDTHS))?;
    Ok(out.flush()?)
}

/// Prints one line: an interval, or a step.
pub(super) fn print_cost(layout: &str, step: &str, cost: &Cost, out: &mut dyn Write) -> Result<()> {
    let commit = cost.commit;
    let mut cells = vec![layout.to_owned(), step.to_owned()];
    if commit.max_us > 0.0 {
        cells.push(digits(cost.rows_per_second));
        cells.extend([commit.p50_us, commit.p99_us, commit.max_us / 1e3].map(digits));
    } else {
        // Nothing was inserted: the time says more than a rate.
        cells.push(format!("{} s", digits(cost.seconds)));
        cells.extend(["-"; 3].map(str::to_owned));
    }
    cells.extend(cost.work().map(digits));
    writeln!(out, "{}", line(&cells, &WIDTHS))?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lines_fit_a_hundred_columns() {
        assert!(WIDTHS.iter().sum::<usize>() + 2 * (WIDTHS.len() - 1) <= 100);
        // One batch of many rows: a commit of half a second.
        let commit = Percentiles { p50_us: 574_095.0, p99_us: 574_095.0, max_us: 574_095.0 };
        let usage = Usage { elapsed: Duration::from_secs(1), ..Usage::default() };
        let mut text = Vec::new();
        print_cost("lsm-tiered", &count(99_999_999), &Cost::new(1_000_000, usage, commit), &mut text).unwrap();
        assert!(text.len() <= 101, "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn costs_are_per_row() {
        let usage = Usage {
            elapsed: Duration::from_secs(2),
            cpu: Duration::from_millis(3),
            switches: 500,
            reads: 250,
            read_bytes: 1000 * 4096,
            written_bytes: 1000 * 512,
        };
        let cost = Cost::new(1000, usage, Percentiles::default());
        assert_eq!(
            [cost.rows_per_second, cost.read_kib_per_row, cost.written_kib_per_row, cost.reads_per_row].map(digits),
            ["500", "4.00", "0.500", "0.250"]
        );
        assert_eq!([cost.switches_per_row, cost.cpu_us_per_row].map(digits), ["0.500", "3.00"]);
        let mut text = Vec::new();
        print_cost("lsm", "total", &cost, &mut text).unwrap();
        assert!(text.len() <= 101, "{}", String::from_utf8_lossy(&text));
    }
}
