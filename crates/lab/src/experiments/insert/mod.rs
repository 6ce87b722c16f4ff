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
//!
//! With `--age` the steps from l.i1 on are repeated, and their names say in which round.

mod changes;
pub(super) mod documents;
pub(super) mod entries;
pub(super) mod form;
mod indexes;
mod live;
mod on_documents;
mod operations;
mod params;
mod queries;
mod resume;
mod rows;
mod steps;
#[cfg(test)]
mod tests;

pub use on_documents::InsertDocuments;
pub use params::{Insert, Memory, Rates};
pub use rows::{INDEXES, RowMaker};

use super::describe::Describe;
use crate::command::common::{Common, DurabilityArg};
use crate::driver::{Config, Engine};
use crate::run::Bench;
use crate::text::{bytes, count};
use anyhow::Result;
use form::Form;
use live::Live;
use steps::Steps;

/// What a process takes beside the memory of its database, when all its memory is limited.
const PROCESS_BYTES: u64 = 48 << 20;

impl Describe for Insert {
    const NAME: &'static str = "insert";
    const COLUMNS: &[(&str, &str)] = &[];

    fn parameters(&self) -> Vec<(String, String)> {
        self.parameters_of(Form::Entries)
    }

    fn disk_bytes(&self) -> u64 {
        self.disk_bytes_of(Form::Entries)
    }

    fn unsuited(&self, _engine: &dyn Engine) -> Option<String> {
        None
    }

    fn resumes(&self) -> bool {
        true
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        self.run_form(Form::Entries, None, common, bench)
    }
}

impl Insert {
    fn parameters_of(&self, form: Form) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let memory: Vec<String> = self.memory.iter().map(|memory| bytes(self.memory_bytes(form, *memory))).collect();
        vec![
            parameter("rows", count(self.rows)),
            parameter("more rows", count(self.more_rows())),
            parameter("rows per commit", format!("{}, then 50, then 5", self.batch)),
            parameter("clients", self.clients.to_string()),
            parameter("indexes", self.indexes.to_string()),
            parameter("row", bytes(self.row_logical_bytes(form))),
            parameter("rounds of age", self.age.to_string()),
            parameter("deletes", if self.deletes { "as many as inserts" } else { "none" }.to_owned()),
            parameter("memory", memory.join(", ")),
        ]
    }

    fn disk_bytes_of(&self, form: Form) -> u64 {
        6 * (self.rows + self.more_rows()) * self.row_logical_bytes(form) + (1 << 30)
    }

    fn run_form(&self, form: Form, connect: Option<&str>, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        for &memory in &self.memory {
            let memory_bytes = self.memory_bytes(form, memory);
            let connect = connect.map(str::to_owned);
            let config = Config { connect, ..common.config(memory_bytes, DurabilityArg::Interval) };
            self.run_with(form, &memory.label(), &config, common, bench)?;
        }
        Ok(())
    }

    fn run_with(&self, form: Form, label: &str, config: &Config, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        let limit = bench.bound_page_cache(config.memory_bytes + PROCESS_BYTES, config);
        let mut db = bench.open(&format!("insert-{label}"), config, &entries::tables(self.indexes.into()))?;
        form.create(&db)?;
        let live = Live::default();
        let steps = Steps { insert: self, form, common, live: &live, label, age: 0 };
        if db.bench().is_resumed() {
            steps.find_rows(&db)?;
        }
        steps.load(&mut db)?;
        steps.make_indexes(&mut db)?;
        for age in 0..=self.age {
            let steps = Steps { age, ..steps };
            steps.change(&mut db, "l.i1", 50, self.more_rows())?;
            steps.change(&mut db, "l.i2", 5, self.more_rows().div_ceil(10))?;
            db.settle(&steps.name("wait"))?;
            for &rate in &self.rates.0 {
                steps.query_ranges(&mut db, rate)?;
                steps.query_points(&mut db, rate)?;
            }
        }
        db.close()?;
        drop(limit);
        Ok(())
    }
}
