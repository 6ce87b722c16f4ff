//! How cost grows with the data: the trees of a table at sizes that no test fills, by the engine's own policies.
//!
//! The engine decides what is merged from the sizes and key ranges of runs alone, by functions that change nothing
//! (`spinney::table::policy`). So they can be asked about trees of which only the sizes are there (`outline`): a
//! table grows from nothing by random keys, flush by flush, each followed by all that the policies want, to a billion
//! rows in seconds. What the bytes of a row, a leaf and an index are comes from a small table that is really made
//! (`sample`). At sizes that can be filled the same is done with the engine, and both are shown.

mod grow;
mod measured;
mod outline;
mod params;
mod point;
mod sample;
#[cfg(test)]
mod tests;

pub use params::Scale;

use super::describe::Describe;
use crate::command::common::{Common, DurabilityArg};
use crate::driver::{Config, Engine, spinney_table_options};
use crate::report::Step;
use crate::run::Bench;
use crate::text::{bytes, count, short};
use anyhow::{Context as _, Result};
use grow::Growth;
use sample::Sample;

/// Bytes on disk that a run may need however few rows are measured.
const DISK_BYTES_MIN: u64 = 1 << 30;

impl Describe for Scale {
    const NAME: &'static str = "scale";
    const COLUMNS: &[(&str, &str)] = &[
        ("levels", "levels of runs below L0 that hold anything, or levels of branches of the B-tree"),
        ("trees", "trees on disk that a range read searches"),
        ("written/B", "bytes written by flushes and compactions for each byte of keys and values, since the first row"),
        ("disk.GB", "GB of the trees"),
        (
            "index.MB",
            "MB of indexes of runs, or of branches of the B-tree: what must be in memory so that reads read leaves only",
        ),
        ("filter.MB", "MB of filters of runs, which must be in memory likewise"),
        ("get.reads", "device reads of a get of a key that is there, with the memory that was given"),
        ("range.reads", "device reads of a range of ten rows, likewise"),
        ("levels.model", "what the model says of the same size"),
        ("written/B.model", "what the model says of the same size"),
        ("index.MB.model", "what the model says of the same size"),
        ("filter.MB.model", "what the model says of the same size"),
    ];

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let sizes = |sizes: &[u64]| sizes.iter().map(|&rows| count(rows)).collect::<Vec<_>>().join(", ");
        vec![
            parameter("rows", sizes(&self.rows)),
            parameter("rows measured", sizes(&self.measure)),
            parameter("row", format!("{} B, keys in random order", self.row_bytes())),
            parameter("flush", bytes(self.flush_bytes)),
            parameter("run", self.run_bytes.map_or_else(|| "the engine's".to_owned(), bytes)),
            parameter("memory for reads", bytes(self.memory)),
        ]
    }

    fn disk_bytes(&self) -> u64 {
        4 * self.measure.iter().max().copied().unwrap_or(0) * self.row_bytes() + DISK_BYTES_MIN
    }

    fn unsuited(&self, engine: &dyn Engine) -> Option<String> {
        let own = spinney_table_options(engine.name(), &Config::default()).is_some();
        (!own).then(|| "no layout of Spinney: the model asks Spinney's policies".to_owned())
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        let config = self.config(common);
        let options = spinney_table_options(bench.engine().name(), &config).context("a layout of Spinney")?;
        let sample = Sample::make(self, common, &options, bench)?;
        let mut wanted: Vec<u64> = self.rows.iter().chain(&self.measure).copied().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let points =
            Growth::new(options, sample, self.flush_rows(), bench.path("outline"))?.points(&wanted, bench.stop())?;
        let at = |rows: u64| points.iter().find(|point| point.rows == rows).context("a point of the model");
        for &rows in &self.measure {
            let mut step = measured::step(self, rows, &config, common, bench)?;
            step.extend(at(rows)?.beside());
            bench.steps().last_mut().context("the step that just ran")?.figures = step;
        }
        for &rows in &self.rows {
            let figures = at(rows)?.figures(self.memory);
            let name = format!("model {}", short(rows as f64));
            bench.push(Step { name, unit: "row".to_owned(), figures, ..Step::default() });
        }
        Ok(())
    }
}

impl Scale {
    /// What the tables are made with: memtables are flushed when the experiment says so.
    fn config(&self, common: &Common) -> Config {
        let memory = 8 * self.flush_bytes + (64 << 20);
        Config {
            memtable_bytes: Some(4 * self.flush_bytes),
            level1_bytes: self.run_bytes.map(|bytes| 4 * bytes),
            ..common.config(memory, DurabilityArg::NoLog)
        }
    }
}
