//! Trees of which only the sizes are there, for the engine's policies: runs with their bytes, rows and first and last
//! keys, and no file.
//!
//! Keys are even: any part of the keys of a run has as large a part of its rows. A key stands for itself as a number.

use super::sample::Sample;
use anyhow::{Context as _, Result};
use spinney::base::{FileId, SeqNum};
use spinney::cache::Cache;
use spinney::env::{Access, Env, File, OpenOptions};
use spinney::store::{BlockFile, StoreStats};
use spinney::table::policy::{self, Compaction};
use spinney::table::{LevelId, RunHandle, TableOptions, Trees};
use spinney::tree::btree::{BTree, TreeMeta, TreeOptions};
use spinney::tree::run::{Run, RunMeta};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The outline of a table.
pub(super) struct Outline {
    pub(super) trees: Trees,
    options: TableOptions,
    sample: Sample,
    env: Env,
    file: Arc<dyn File>,
    path: PathBuf,
    cache: Arc<Cache>,
    stats: Arc<StoreStats>,
    next: u64,
    /// Bits of filter for each row, of all runs.
    bits: HashMap<FileId, f64>,
}

impl Outline {
    /// An outline with no rows. All its trees are of one empty file, which is made at `path`.
    pub(super) fn new(options: TableOptions, sample: Sample, path: PathBuf) -> Result<Self> {
        std::fs::write(&path, []).with_context(|| format!("cannot write {}", path.display()))?;
        let (env, cache) = (Env::os(), Arc::new(Cache::new(1 << 20)));
        let file = env.fs.open_lazily(&path, OpenOptions { access: Access::Read, direct: false })?;
        let (trees, stats) = (Trees::default(), Arc::default());
        Ok(Self { trees, options, sample, env, file, path, cache, stats, next: 1, bits: HashMap::new() })
    }

    /// Bits of filter for each row of a run.
    pub(super) fn filter_bits(&self, run: FileId) -> f64 {
        self.bits.get(&run).copied().unwrap_or(0.0)
    }

    /// Bytes of a row in a run whose rows are to have so many bits of filter each.
    fn row_bytes(&self, bits: f64) -> f64 {
        let leaf = self.sample.leaf;
        // Branches are among the bytes of a B-tree's leaves.
        let index = if leaf.holds_index { 0.0 } else { leaf.index_bytes / leaf.rows };
        leaf.row_bytes() + index + bits * self.sample.filter_bits / 8.0
    }

    /// A run over these keys.
    fn run(&mut self, rows: u64, keys: (u64, u64), bits: f64) -> Result<RunHandle> {
        let id = FileId(self.next);
        self.next += 1;
        let file = BlockFile::from_file(Arc::clone(&self.file), &self.path, id.0, Arc::clone(&self.stats));
        let meta = RunMeta {
            bytes: whole(rows as f64 * self.row_bytes(bits) + self.sample.run_bytes),
            entries: rows,
            raw_bytes: whole(rows as f64 * self.sample.row_bytes),
            seqnum_max: SeqNum(1),
            smallest: keys.0.to_be_bytes().to_vec(),
            largest: keys.1.to_be_bytes().to_vec(),
            ..RunMeta::default()
        };
        self.bits.insert(id, bits * self.sample.filter_bits);
        Ok(RunHandle { id, run: Run::unread(file, meta, Arc::clone(&self.cache)) })
    }

    /// Lays a run of so many rows down in L0, with keys from all of the table; the bytes that it takes.
    pub(super) fn flush(&mut self, rows: u64) -> Result<u64> {
        let step = u64::MAX / (rows + 1);
        let keys = (step, u64::MAX - step);
        // The policy is asked with a run of the average, which has as many rows.
        let average = f64::from(self.options.filter_bits_per_key);
        let asked = self.run(rows, keys, average)?;
        let with = self.trees.with_newest(&[(LevelId::L0, asked.clone())]);
        let flush = Compaction { l0: vec![asked.clone()], levels: Vec::new(), target: LevelId::L0, bottom: false };
        let bits = policy::bits_of_compaction(&with, &self.options, &flush);
        self.bits.remove(&asked.id);
        let run = self.run(rows, keys, bits)?;
        let bytes = run.run.meta().bytes;
        self.trees = self.trees.with_newest(&[(LevelId::L0, run)]);
        Ok(bytes)
    }

    /// Carries a compaction out; the bytes that it writes.
    pub(super) fn compact(&mut self, compaction: &Compaction) -> Result<u64> {
        let (removed, target) = (compaction.removed(), compaction.target);
        if compaction.is_trivial_move(&self.options) {
            let moved: Vec<_> = compaction.inputs().cloned().collect();
            self.trees = self.trees.replaced(&removed, target, &moved);
            return Ok(0);
        }
        let bits = policy::bits_of_compaction(&self.trees, &self.options, compaction);
        let inputs: Vec<Input> = compaction.inputs().map(Input::of).collect();
        let cuts: Vec<u64> = policy::cuts(&self.trees, target).iter().map(|key| number(key)).collect();
        let mut results = Vec::new();
        for slice in compaction.slices(&self.options) {
            let low = number(&slice.limits.low);
            let high = slice.limits.high.as_ref().map_or(u64::MAX, |key| number(key));
            let rows_max = slice.run_bytes_max as f64 / self.row_bytes(bits);
            for (rows, keys) in cut(&inputs, (low, high), rows_max, &cuts) {
                results.push(self.run(rows, keys, bits)?);
            }
        }
        let written = results.iter().map(|handle| handle.run.meta().bytes).sum();
        for id in &removed {
            self.bits.remove(id);
        }
        self.trees = self.trees.replaced(&removed, target, &results);
        Ok(written)
    }

    /// Takes all runs out, which were merged into the B-tree.
    pub(super) fn remove_runs(&mut self) {
        let removed: Vec<_> = self.trees.runs().map(|handle| handle.id).collect();
        self.trees = self.trees.replaced(&removed, LevelId::L0, &[]);
        self.bits.clear();
    }

    /// Gives the table a B-tree of these numbers.
    pub(super) fn set_btree(&mut self, meta: TreeMeta) -> Result<()> {
        let options =
            TreeOptions { block_bytes: self.options.block_bytes, compression: self.options.compression, direct: false };
        let (env, cache, stats) = (&self.env, Arc::clone(&self.cache), Arc::clone(&self.stats));
        let tree = BTree::unread(env, &self.path, 0, options, meta, cache, stats)?;
        self.trees.btree = Some(tree.root());
        Ok(())
    }
}

/// An input of a compaction.
struct Input {
    rows: f64,
    keys: (u64, u64),
}

impl Input {
    fn of(handle: &RunHandle) -> Self {
        let meta = handle.run.meta();
        Self { rows: meta.entries as f64, keys: (number(&meta.smallest), number(&meta.largest)) }
    }

    /// Its rows with keys in a range.
    fn rows_in(&self, (low, high): (u64, u64)) -> f64 {
        let (from, until) = (self.keys.0.max(low), self.keys.1.min(high));
        if from >= until { 0.0 } else { self.rows * (until - from) as f64 / (self.keys.1 - self.keys.0).max(1) as f64 }
    }
}

/// The runs that the rows of a slice become, with their rows and keys: each of so many rows at most, and ending at one
/// of the `cuts` when it has half of them.
fn cut(inputs: &[Input], (low, high): (u64, u64), rows_max: f64, cuts: &[u64]) -> Vec<(u64, (u64, u64))> {
    let touched = || inputs.iter().filter(|input| input.keys.0 < high && low <= input.keys.1);
    let first = touched().map(|input| input.keys.0).min().unwrap_or(low).max(low);
    let last = touched().map(|input| input.keys.1).max().unwrap_or(low).min(high.saturating_sub(1));
    let rows: f64 = inputs.iter().map(|input| input.rows_in((low, high))).sum();
    if rows < 1.0 || first >= last {
        return Vec::new();
    }
    let keys_of_row = (last - first) as f64 / rows;
    let mut results = Vec::new();
    let mut from = first;
    while from < last {
        let after = |rows: f64| from.saturating_add(whole(rows * keys_of_row).max(1));
        let (half, full) = (after(rows_max / 2.0), after(rows_max));
        let at = cuts.partition_point(|&cut| cut <= half);
        let end = cuts.get(at).copied().filter(|&cut| cut < full).unwrap_or(full).min(last);
        // No crumb is left behind.
        let end = if ((last - end) as f64) < keys_of_row { last } else { end };
        let of_run = ((end - from) as f64 / keys_of_row).round().max(1.0);
        results.push((whole(of_run), (from, if end == last { last } else { end - 1 })));
        from = end;
    }
    results
}

/// A key as a number.
fn number(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

/// A number without its fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and far below the bounds")]
pub(super) fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_into_runs_that_are_full_or_end_at_a_cut() {
        let inputs = [Input { rows: 1_000.0, keys: (0, 1_000_000) }, Input { rows: 200.0, keys: (0, 1_000_000) }];
        let all = cut(&inputs, (0, u64::MAX), 500.0, &[]);
        assert_eq!(all.iter().map(|run| run.0).sum::<u64>(), 1_200);
        assert_eq!(all.len(), 3);
        assert!(all.windows(2).all(|pair| pair[0].1.1 < pair[1].1.0), "{all:?}");
        // A third of the keys have a third of the rows; the run ends at the cut, though it is not full.
        let some = cut(&inputs, (0, 333_333), 500.0, &[250_000]);
        assert_eq!(some.iter().map(|run| run.0).collect::<Vec<_>>(), [300, 100]);
        assert!(cut(&inputs, (2_000_000, 3_000_000), 500.0, &[]).is_empty());
    }
}
