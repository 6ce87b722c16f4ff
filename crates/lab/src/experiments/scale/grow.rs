//! The growth of a table: flush by flush, each followed by what the engine's policies want.

use super::outline::{Outline, whole};
use super::point::{Point, Sequence};
use super::sample::Sample;
use crate::stop::Stop;
use anyhow::Result;
use spinney::base::SeqNum;
use spinney::block::BlockPointer;
use spinney::table::policy;
use spinney::table::{Layout, TableOptions};
use spinney::tree::btree::TreeMeta;
use std::path::PathBuf;

/// A table that grows by rows with new keys in random order.
pub(super) struct Growth {
    outline: Outline,
    options: TableOptions,
    sample: Sample,
    /// Rows of a flush.
    flush_rows: u64,
    rows: u64,
    /// Rows in the B-tree.
    btree_rows: u64,
    written_bytes: u64,
}

impl Growth {
    /// A table without rows, with a file of the model's own at `path`.
    pub(super) fn new(options: TableOptions, sample: Sample, flush_rows: u64, path: PathBuf) -> Result<Self> {
        let mut outline = Outline::new(options.clone(), sample, path)?;
        if options.layout == Layout::BTree {
            outline.set_btree(TreeMeta::default())?;
        }
        Ok(Self { outline, options, sample, flush_rows, rows: 0, btree_rows: 0, written_bytes: 0 })
    }

    /// What the table is at each of these sizes, which ascend.
    pub(super) fn points(mut self, sizes: &[u64], stop: &Stop) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for &size in sizes {
            while self.rows < size {
                stop.check()?;
                self.flush(self.flush_rows.min(size - self.rows))?;
            }
            points.push(self.point());
        }
        Ok(points)
    }

    fn flush(&mut self, rows: u64) -> Result<()> {
        self.rows += rows;
        let bytes = whole(rows as f64 * self.sample.memory_bytes);
        if !self.merges_now(rows, bytes) {
            self.written_bytes += self.outline.flush(rows)?;
        } else {
            self.merge(rows)?;
        }
        loop {
            let trees = &self.outline.trees;
            if trees.btree.is_some() && policy::is_btree_merge_due(trees, &self.options, SeqNum::MAX) {
                let rows = trees.runs().map(|handle| handle.run.meta().entries).sum();
                self.outline.remove_runs();
                self.merge(rows)?;
            } else if let Some(compaction) = policy::pick(trees, &self.options, u64::MAX) {
                self.written_bytes += self.outline.compact(&compaction)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Whether changes are dense enough in the B-tree to be merged into it at once: no runs lie over it, and they reach
    /// no more leaves than their bytes are worth.
    fn merges_now(&self, rows: u64, bytes: u64) -> bool {
        let trees = &self.outline.trees;
        let Some(root) = trees.btree.as_ref().filter(|_| trees.runs().next().is_none()) else { return false };
        self.leaves_reached(rows) <= policy::leaves_worth(root.meta(), &self.options, bytes) as f64
    }

    /// Leaves of the B-tree that so many random keys reach.
    fn leaves_reached(&self, rows: u64) -> f64 {
        let leaves = self.btree_leaves();
        if leaves < 1.0 { 0.0 } else { leaves * (1.0 - (1.0 - 1.0 / leaves).powf(rows as f64)) }
    }

    fn btree_leaves(&self) -> f64 {
        self.btree_rows as f64 / self.sample.leaf.rows
    }

    /// Merges rows into the B-tree: the leaves that they reach are written anew, as many more as they become, and their
    /// branches with them.
    fn merge(&mut self, rows: u64) -> Result<()> {
        let leaves = self.btree_leaves();
        let share = if leaves < 1.0 { 1.0 } else { self.leaves_reached(rows) / leaves };
        let stays = self.btree_rows as f64 * share;
        self.written_bytes += whole((stays + rows as f64) * self.sample.leaf.row_bytes());
        self.btree_rows += rows;
        let leaf = self.sample.leaf;
        let leaves = whole(self.btree_leaves()).max(1);
        self.outline.set_btree(TreeMeta {
            root: Some(BlockPointer::default()),
            height: u32::try_from(self.btree_height())?,
            leaves,
            branches: leaves / self.leaves_of_branch(),
            entries: self.btree_rows,
            file_bytes: whole(leaves as f64 * leaf.bytes),
            ..TreeMeta::default()
        })
    }

    fn leaves_of_branch(&self) -> u64 {
        let branch = spinney::tree::btree::branch_bytes(self.options.block_bytes as usize) as f64;
        whole(branch / self.sample.leaf.index_bytes).max(2)
    }

    /// Levels of branches over the leaves.
    fn btree_height(&self) -> u64 {
        let (mut blocks, mut height) = (whole(self.btree_leaves()), 0);
        while blocks > 1 {
            blocks = blocks.div_ceil(self.leaves_of_branch());
            height += 1;
        }
        height
    }

    fn point(&self) -> Point {
        let trees = &self.outline.trees;
        let leaf = self.sample.leaf;
        let sequence = |runs: &mut dyn Iterator<Item = (u64, f64)>| {
            let (mut rows, mut bits, mut run_bytes) = (0.0, 0.0, 0.0);
            for (of_run, each) in runs {
                rows += of_run as f64;
                bits += of_run as f64 * each;
                run_bytes += self.sample.run_bytes;
            }
            Sequence { rows, filter_bits: bits / rows, leaf, run_bytes }
        };
        let of_run =
            |handle: spinney::table::RunHandle| (handle.run.meta().entries, self.outline.filter_bits(handle.id));
        let mut sequences: Vec<Sequence> =
            trees.l0.iter().map(|handle| sequence(&mut std::iter::once(of_run(handle.clone())))).collect();
        let levels = trees.levels.iter().filter(|level| !level.runs.is_empty());
        sequences.extend(levels.clone().map(|level| sequence(&mut level.handles().map(of_run))));
        if self.btree_rows > 0 {
            let rows = self.btree_rows as f64;
            sequences.push(Sequence { rows, filter_bits: 0.0, leaf, run_bytes: 0.0 });
        }
        let levels = if trees.btree.is_some() { self.btree_height() } else { levels.count() as u64 };
        let written = self.written_bytes as f64 / (self.rows as f64 * self.sample.row_bytes);
        Point { rows: self.rows, levels, sequences, written }
    }
}
