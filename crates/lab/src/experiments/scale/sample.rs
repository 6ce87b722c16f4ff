//! What rows, leaves, indexes and filters weigh: found out from a small table that is really made.

use super::measured::fill;
use super::params::Scale;
use crate::command::common::Common;
use crate::driver::{IndexSize, TableSpec};
use crate::run::Bench;
use anyhow::Result;
use spinney::{Layout, TableOptions};

/// What rows weigh on disk and in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Bytes of keys and values of a row.
    pub(super) row_bytes: f64,
    /// Rows in a leaf of a run, and bytes of it.
    pub(super) run_leaf: Leaf,
    /// The same of a B-tree into which changes of a quarter of it were merged.
    pub(super) btree_leaf: Leaf,
    /// Bits of filter that a row takes, for each that it is to have.
    pub(super) filter_bits: f64,
}

/// A leaf, with its part of the index.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leaf {
    pub(super) rows: f64,
    /// Bytes on disk, of a B-tree with its part of the branches.
    pub(super) bytes: f64,
    /// Bytes of the index for it.
    pub(super) index_bytes: f64,
    /// Whether they are among `bytes`.
    pub(super) holds_index: bool,
}

/// Rows of the sample.
const ROWS: u64 = 200_000;
/// A merge adds this part of a B-tree's rows to it.
const MERGED_PART: u64 = 4;

impl Sample {
    /// Makes a table of each kind that the layout has.
    pub(super) fn make(scale: &Scale, common: &Common, layout: Layout, bench: &mut Bench<'_>) -> Result<Self> {
        let rows = ROWS.min(scale.rows.iter().chain(&scale.measure).copied().max().unwrap_or(ROWS));
        let is_btree = layout == Layout::BTree;
        let config = scale.config(common);
        let config = crate::driver::Config {
            memory_bytes: config.memory_bytes + (256 << 20),
            memtable_bytes: Some(64 << 20),
            ..config
        };
        let mut db = bench.open("sample", &config, &[TableSpec::new("scale")])?;
        let mut from = 0;
        while from < rows {
            let until = if is_btree && from > 0 { rows.min(from + from / MERGED_PART + 1) } else { rows / 4 + 1 };
            let until = if is_btree { until } else { rows };
            fill(scale, (rows, from..until), until - from, common.seed, &mut db, "sample")?;
            db.bench().steps().pop();
            from = until;
        }
        let size = db.store().index_size()?;
        db.close()?;
        bench.remove("sample")?;
        let leaf = Leaf { holds_index: is_btree, ..Leaf::of(size, rows) };
        // Runs over a B-tree are few, and weigh about what its leaves weigh when they are full.
        let (run_leaf, btree_leaf) = if is_btree { (leaf, leaf) } else { (leaf, Leaf::default()) };
        let bits = f64::from(TableOptions::default().filter_bits_per_key);
        let filter_bits = if is_btree { 1.0 } else { size.filter_bytes as f64 * 8.0 / rows as f64 / bits };
        Ok(Self { row_bytes: scale.row_bytes() as f64, run_leaf, btree_leaf, filter_bits })
    }
}

impl Leaf {
    fn of(size: IndexSize, rows: u64) -> Self {
        let each = |number: u64| number as f64 / size.leaves.max(1) as f64;
        Self { rows: each(rows), bytes: each(size.leaf_bytes), index_bytes: each(size.index_bytes), holds_index: false }
    }

    /// Bytes on disk of a row, with its part of an index.
    pub(super) fn row_bytes(self) -> f64 {
        self.bytes / self.rows
    }
}
