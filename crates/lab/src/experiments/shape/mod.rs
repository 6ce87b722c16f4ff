//! Reads by the shape of the tree: an LSM tree is put into five shapes, one after the other, and read in each.

mod case;
mod data;
mod params;
mod setup;
mod stages;
#[cfg(test)]
mod tests;

pub use params::Shape;

use super::describe::Describe;
use crate::command::common::{Common, DurabilityArg};
use crate::driver::{Config, Lacks};
use crate::run::Bench;
use crate::text::{bytes, count};
use anyhow::Result;
use case::Case;
use data::KEY_BYTES;

impl Describe for Shape {
    const NAME: &'static str = "shape";
    const COLUMNS: &[(&str, &str)] = &[
        ("memtable", "values in the memtable"),
        ("L0", "sorted runs in L0"),
        ("levels", "sorted sequences below L0"),
        ("trees", "trees that a range, or a point read without filters, searches"),
        ("relative", "operations per second over those of the same reads at `compact_all`"),
    ];

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let list = |numbers: Vec<String>| numbers.join(", ");
        vec![
            parameter("values", list(self.values.iter().map(|&values| count(values)).collect())),
            parameter("fanout", list(self.fanout.iter().map(u32::to_string).collect())),
            parameter("key", format!("{KEY_BYTES} B")),
            parameter("value", format!("{} B", self.value_bytes)),
            parameter("values of a run in L0", count(self.run_values)),
            parameter("first level", bytes(self.level1)),
            parameter("memory", bytes(self.memory)),
        ]
    }

    fn disk_bytes(&self) -> u64 {
        // Databases are removed when they have been read: the largest, twice while it is compacted, and the redo log.
        3 * self.values.iter().map(|&values| self.live_bytes(values)).max().unwrap_or(0) + (2 << 30)
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        for &values in &self.values {
            let mut first_without_levels = None;
            for &fanout in &self.fanout {
                let case = Case { args: self, common, values, fanout };
                if let Some(first) = &first_without_levels {
                    case.skip(bench, &Lacks::new(format!("no levels, for which the fanout is: see {first}")));
                } else if !case.run(bench)? {
                    first_without_levels = Some(format!("fanout {fanout}"));
                }
            }
        }
        Ok(())
    }
}

impl Case<'_> {
    /// Runs all stages, first with filters, then with a database that has none. Says whether the engine has levels.
    fn run(&self, bench: &mut Bench<'_>) -> Result<bool> {
        let first_step = bench.steps().len();
        let mut has_levels = false;
        for filters in [true, false] {
            let name = format!("shape-{}-{}-{}", self.values, self.fanout, if filters { "filters" } else { "bare" });
            let config = self.config(filters);
            self.load(bench, &name, &config)?;
            let mut db = self.reopen(bench, &name, &config)?;
            has_levels |=
                db.store().shape()?.iter().any(|table| table.btree_height.is_none() && !table.levels.is_empty());
            self.stages(&mut db, filters)?;
            db.close()?;
            bench.remove(&name)?;
        }
        self.compare(&mut bench.steps()[first_step..]);
        Ok(has_levels)
    }

    fn config(&self, filters: bool) -> Config {
        let config = self.common.config(self.args.memory, DurabilityArg::Buffered);
        Config {
            // Every engine takes more memory for a value than its bytes: the memtables must not be full before they are
            // flushed.
            memtable_bytes: Some((self.args.run_values * (2 * self.args.entry_bytes() + 64)).clamp(4 << 10, 64 << 30)),
            fanout: Some(self.fanout),
            level1_bytes: Some(self.args.level1),
            filter_bits: if filters { config.filter_bits } else { 0 },
            ..config
        }
    }
}
