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
mod queries;
pub(super) mod rows;
#[cfg(test)]
mod tests;

pub use rows::{INDEXES, RowMaker};

use super::Describe;
use crate::command::{Common, DurabilityArg};
use crate::driver::{Engine, TableId, TableSpec};
use crate::run::Bench;
use crate::text::{COUNT_MAX, bytes, count, counts, parse_seconds, sizes};
use anyhow::Result;
use clap::{ArgAction, Args};
use live::Live;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench insert
  spinney bench insert --engines spinney-lsm,spinney-btree --memory 4x,0.1x --rates none
  spinney bench insert --rows 2000000000 --clients 10 --memory 144GiB,32GiB,8GiB --deletes false --rates none")]
pub struct Insert {
    /// Rows that the table has after l.i0, and from then on
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub rows: u64,
    /// Rows inserted by l.i1, and a tenth as many by l.i2 [default: as many as --rows]
    #[arg(long, value_name = "N", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub more_rows: Option<u64>,
    /// Rows in a transaction of l.i0
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub batch: u64,
    /// Inserting clients; a step that deletes has as many deleting ones, a step that queries as many querying ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = counts::<u16>(1..=256))]
    pub clients: u16,
    /// Secondary indexes
    #[arg(long, value_name = "0..3", default_value_t = 3, value_parser = counts::<u8>(0..=3))]
    pub indexes: u8,
    /// Random bytes in a row beside its columns
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = sizes::<u32>(0..=1 << 20))]
    pub row_bytes: u32,
    /// Delete as many rows as are inserted, from l.i1 on
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true)]
    pub deletes: bool,
    /// Memory of the database: sizes, or multiples of the data as in 4x; all steps are repeated for each
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_memory, default_value = "4x,1x,0.1x")]
    pub memory: Vec<Memory>,
    /// Rows inserted each second while queries run; each rate has a step of range and one of point queries; none for no
    /// queries
    #[arg(long, value_name = "LIST", default_value = "100,500,1000", value_parser = parse_rates)]
    pub rates: Rates,
    /// Seconds of each step with queries
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Seconds after which a load step ends though rows are left
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = parse_seconds)]
    pub load_seconds: f64,
}

/// Memory of the database.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Memory {
    /// So many bytes.
    Bytes(u64),
    /// So many times the bytes of live keys and values.
    Times(f64),
}

/// Rates of inserts beside queries, in rows per second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates(pub Vec<u32>);

/// The table of rows; the indexes follow it.
pub(in crate::experiments) const ROWS: TableId = TableId(0);

/// No database gets less memory than this.
const MEMORY_MIN: u64 = 4 << 20;

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

    fn more_rows(&self) -> u64 {
        self.more_rows.unwrap_or(self.rows)
    }

    fn row_logical_bytes(&self) -> u64 {
        rows::logical_bytes(self.row_bytes as usize, self.indexes.into())
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive size, saturating")]
    fn memory_bytes(&self, memory: Memory) -> u64 {
        let wanted = match memory {
            Memory::Bytes(bytes) => bytes,
            Memory::Times(times) => ((self.rows * self.row_logical_bytes()) as f64 * times) as u64,
        };
        wanted.max(MEMORY_MIN)
    }
}

/// What the steps of one database share.
struct Steps<'a> {
    insert: &'a Insert,
    common: &'a Common,
    live: &'a Live,
    label: &'a str,
}

impl Steps<'_> {
    fn name(&self, step: &str) -> String {
        format!("{step} {}", self.label)
    }

    fn indexes(&self) -> usize {
        self.insert.indexes.into()
    }

    fn clients(&self) -> usize {
        self.insert.clients.into()
    }

    /// Bytes of the live keys and values, with indexes or without.
    fn live_bytes(&self, rows: u64, indexes: usize) -> u64 {
        rows * rows::logical_bytes(self.insert.row_bytes as usize, indexes)
    }
}

impl Memory {
    fn label(self) -> String {
        match self {
            Self::Bytes(size) => bytes(size).replace(' ', ""),
            Self::Times(times) => format!("{times}x"),
        }
    }
}

fn parse_memory(text: &str) -> Result<Memory, String> {
    let Some(times) = text.strip_suffix('x') else { return sizes(MEMORY_MIN..=1 << 40)(text).map(Memory::Bytes) };
    let wrong = || {
        format!("`{text}` is not a size of memory: expected a size as in 256MiB, or a multiple of the data as in 0.5x")
    };
    let times: f64 = times.parse().map_err(|_| wrong())?;
    if times > 0.0 && times.is_finite() { Ok(Memory::Times(times)) } else { Err(wrong()) }
}

fn parse_rates(text: &str) -> Result<Rates, String> {
    if text == "none" {
        return Ok(Rates::default());
    }
    let rate = |part: &str| match counts(1..=COUNT_MAX)(part.trim()) {
        Ok(rate) => Ok(rate),
        Err(_) => Err(format!("`{part}` is not a rate: expected rows per second, as in 100,500, or none")),
    };
    text.split(',').map(rate).collect::<Result<_, _>>().map(Rates)
}
