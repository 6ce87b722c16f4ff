//! What rows, leaves, indexes and filters weigh: found out from a small table that is really made.

use super::measured::{fill, put};
use super::params::Scale;
use crate::command::common::Common;
use crate::driver::{Config, IndexSize, TableSpec};
use crate::run::Bench;
use anyhow::Result;
use spinney::{Layout, TableOptions};

/// What rows weigh on disk and in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Bytes of keys and values of a row.
    pub(super) row_bytes: f64,
    /// Bytes of a row in a memtable.
    pub(super) memory_bytes: f64,
    /// A leaf of a run; or of a B-tree into which changes of a quarter of it were merged.
    pub(super) leaf: Leaf,
    /// Bytes of a run besides its leaves, their part of the index, and its filter.
    pub(super) run_bytes: f64,
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
/// Rows of its first flush.
const FIRST_ROWS: u64 = 10_000;
/// A merge adds this part of a B-tree's rows to it.
const MERGED_PART: u64 = 4;

impl Sample {
    /// Makes a table of the layout, first with a part of the rows.
    pub(super) fn make(scale: &Scale, common: &Common, options: &TableOptions, bench: &mut Bench<'_>) -> Result<Self> {
        let (is_btree, block_bytes) = (options.layout == Layout::BTree, options.block_bytes as usize);
        let config = scale.config(common);
        let memory_bytes = config.memory_bytes + (256 << 20);
        let config = Config { memory_bytes, memtable_bytes: Some(64 << 20), ..config };
        let mut db = bench.open("sample", &config, &[TableSpec::new("scale")])?;
        put(scale, (ROWS, 0..FIRST_ROWS), common.seed, db.store())?;
        let held: u64 = db.store().shape()?.iter().filter_map(|shape| shape.memtable_bytes).sum();
        db.store().flush()?;
        let (mut from, first) = (FIRST_ROWS, db.store().index_size()?);
        while from < ROWS {
            let until = if is_btree { ROWS.min(from + from.div_ceil(MERGED_PART)) } else { ROWS };
            fill(scale, (ROWS, from..until), until - from, common.seed, &mut db, "sample")?;
            db.bench().steps().pop();
            from = until;
        }
        let size = db.store().index_size()?;
        db.close()?;
        bench.remove("sample")?;
        let memory_bytes = held as f64 / FIRST_ROWS as f64;
        let row_bytes = scale.row_bytes() as f64;
        if is_btree {
            let branch_bytes = spinney::tree::btree::branch_bytes(block_bytes) as f64;
            // The root, which counts as a full branch, has few of the leaves of the sample.
            let below_root = (size.index_bytes as f64 - branch_bytes).max(branch_bytes);
            let index_bytes = below_root / size.leaves.max(1) as f64;
            let leaf = Leaf { holds_index: true, index_bytes, ..Leaf::of(size, ROWS) };
            // Runs over a B-tree are few, and weigh about what its leaves weigh.
            return Ok(Self { row_bytes, memory_bytes, leaf, run_bytes: 0.0, filter_bits: 1.0 });
        }
        // Of two runs, one is much smaller: what both have besides leaves is in the difference.
        let second = IndexSize {
            leaves: size.leaves - first.leaves,
            leaf_bytes: size.leaf_bytes - first.leaf_bytes,
            index_bytes: size.index_bytes - first.index_bytes,
            filter_bytes: size.filter_bytes - first.filter_bytes,
        };
        let each = |size: IndexSize| size.index_bytes as f64 / size.leaves.max(1) as f64;
        let of_leaf = (second.index_bytes as f64 - first.index_bytes as f64)
            / (second.leaves as f64 - first.leaves as f64).max(1.0);
        let of_leaf = of_leaf.clamp(0.0, each(second));
        let run_bytes = (first.index_bytes as f64 - of_leaf * first.leaves as f64).max(0.0);
        let leaf = Leaf { index_bytes: of_leaf, ..Leaf::of(second, ROWS - FIRST_ROWS) };
        let bits = f64::from(config.filter_bits.max(1));
        let filter_bits = second.filter_bytes as f64 * 8.0 / (ROWS - FIRST_ROWS) as f64 / bits;
        Ok(Self { row_bytes, memory_bytes, leaf, run_bytes, filter_bits })
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
