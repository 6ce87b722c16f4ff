//! The parameters of the insert benchmark.

use super::form::Form;
use crate::text::{COUNT_MAX, bytes, counts, parse_seconds, sizes};
use clap::{ArgAction, Args};
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench insert
  spinney bench insert --engines spinney-lsm,spinney-btree --memory 4x,0.1x --rates none
  spinney bench insert --age 3 --rows 10000000 --memory 1x --html aged.html
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
    /// After all steps, run l.i1, l.i2, wait and the queries so many times more: the reads of a database that aged
    #[arg(long, value_name = "ROUNDS", default_value_t = 0, value_parser = counts::<u32>(0..=1_000))]
    pub age: u32,
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

/// No database gets less memory than this.
const MEMORY_MIN: u64 = 4 << 20;

impl Insert {
    pub(super) fn more_rows(&self) -> u64 {
        self.more_rows.unwrap_or(self.rows)
    }

    pub(super) fn row_logical_bytes(&self, form: Form) -> u64 {
        form.logical_bytes(self.row_bytes as usize, self.indexes.into())
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive size, saturating")]
    pub(super) fn memory_bytes(&self, form: Form, memory: Memory) -> u64 {
        let wanted = match memory {
            Memory::Bytes(bytes) => bytes,
            Memory::Times(times) => ((self.rows * self.row_logical_bytes(form)) as f64 * times) as u64,
        };
        wanted.max(MEMORY_MIN)
    }
}

impl Memory {
    pub(super) fn label(self) -> String {
        match self {
            Self::Bytes(size) => bytes(size).replace(' ', ""),
            Self::Times(times) => format!("{times}x"),
        }
    }
}

pub(super) fn parse_memory(text: &str) -> Result<Memory, String> {
    let Some(times) = text.strip_suffix('x') else { return sizes(MEMORY_MIN..=1 << 40)(text).map(Memory::Bytes) };
    let wrong = || {
        format!("`{text}` is not a size of memory: expected a size as in 256MiB, or a multiple of the data as in 0.5x")
    };
    let times: f64 = times.parse().map_err(|_| wrong())?;
    if times > 0.0 && times.is_finite() { Ok(Memory::Times(times)) } else { Err(wrong()) }
}

pub(super) fn parse_rates(text: &str) -> Result<Rates, String> {
    if text == "none" {
        return Ok(Rates::default());
    }
    let rate = |part: &str| match counts(1..=COUNT_MAX)(part.trim()) {
        Ok(rate) => Ok(rate),
        Err(_) => Err(format!("`{part}` is not a rate: expected rows per second, as in 100,500, or none")),
    };
    text.split(',').map(rate).collect::<Result<_, _>>().map(Rates)
}
