//! The insert benchmark: rows in the order of their primary key, and entries of secondary indexes on random values.
//!
//! A B-tree that updates its leaves in place is fast here while the indexes fit in its cache, and reads a leaf for
//! nearly every entry once they do not; so each run repeats all steps with memory for much more than the data, for
//! about the data, and for a small part of it. The steps are those of Callaghan's insert benchmark (iibench):
//!
//! | step | what it does |
//! |---|---|
//! | l.i0 | inserts rows in key order into a table without secondary indexes |
//! | l.x | makes the secondary indexes |
//! | l.i1 | inserts rows and deletes as many of the oldest ones, in transactions of 50 rows |
//! | l.i2 | the same in transactions of 5 rows |
//! | wait | waits until no background work is left |
//! | qr100 … | range queries on the indexes, beside so many inserts and as many deletes each second |
//! | qp100 … | point queries by primary key, beside the same |

mod changes;
mod indexes;
mod live;
mod params;
mod queries;
pub(super) mod rows;
mod steps;
#[cfg(test)]
mod tests;

pub use params::{Insert, Memory, Rates};
pub use rows::{INDEXES, RowMaker};

use super::describe::Describe;
use crate::command::common::{Common, DurabilityArg};
use crate::driver::{Engine, TableSpec};
use crate::run::Bench;
use crate::text::{bytes, count};
use anyhow::Result;
use live::Live;
use steps::{ROWS, Steps};

/// What a process takes beside the memory of its database, when all its memory is limited.
const PROCESS_BYTES: u64 = 48 << 20;

impl Describe for Insert {
    const NAME: &'static str = "insert";
    const COLUMNS: &[(&str, &str)] = &[];

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let memory: Vec<String> = self.memory.iter().map(|memory| bytes(self.memory_bytes(*memory))).collect();
        vec![
            parameter("rows", count(self.rows)),
            parameter("more rows", count(self.more_rows())),
            parameter("rows per commit", format!("{}, then 50, then 5", self.batch)),
            parameter("clients", self.clients.to_string()),
            parameter("indexes", self.indexes.to_string()),
            parameter("row", bytes(self.row_logical_bytes())),
            parameter("deletes", if self.deletes { "as many as inserts" } else { "none" }.to_owned()),
            parameter("memory", memory.join(", ")),
        ]
    }

    fn disk_bytes(&self) -> u64 {
        6 * (self.rows + self.more_rows()) * self.row_logical_bytes() + (1 << 30)
    }

    fn unsuited(&self, _engine: &dyn Engine) -> Option<String> {
        None
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        for &memory in &self.memory {
            self.run_with(memory, common, bench)?;
        }
        Ok(())
    }
}

impl Insert {
    fn run_with(&self, memory: Memory, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        let memory_bytes = self.memory_bytes(memory);
        let label = memory.label();
        let config = common.config(memory_bytes, DurabilityArg::Interval);
        let limit = bench.bound_page_cache(memory_bytes + PROCESS_BYTES, &config);
        let mut tables = vec![TableSpec::new("rows")];
        tables.extend(INDEXES[..self.indexes.into()].iter().map(|name| TableSpec::index(name, ROWS)));
        let mut db = bench.open(&format!("insert-{label}"), &config, &tables)?;
        let live = Live::default();
        let steps = Steps { insert: self, common, live: &live, label: &label };
        steps.load(&mut db)?;
        steps.make_indexes(&mut db)?;
        steps.change(&mut db, "l.i1", 50, self.more_rows())?;
        steps.change(&mut db, "l.i2", 5, self.more_rows().div_ceil(10))?;
        db.settle(&format!("wait {label}"))?;
        for &rate in &self.rates.0 {
            steps.query_ranges(&mut db, rate)?;
            steps.query_points(&mut db, rate)?;
        }
        db.close()?;
        drop(limit);
        Ok(())
    }
}
