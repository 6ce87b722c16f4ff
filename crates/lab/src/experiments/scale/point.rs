//! What the model says of a table of one size.

use super::params::mb;
use super::sample::Leaf;
use crate::report::Figure;

/// A sorted sequence: a run of L0, a level, or the B-tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    pub(super) rows: f64,
    /// Bits of filter for each row; 0 where there is no filter.
    pub(super) filter_bits: f64,
    pub(super) leaf: Leaf,
    /// Bytes of its runs besides leaves, their parts of the indexes, and filters.
    pub(super) run_bytes: f64,
}

/// A table of one size.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) rows: u64,
    pub(super) levels: u64,
    /// Newest first.
    pub(super) sequences: Vec<Sequence>,
    /// Bytes that flushes and compactions wrote for each byte of keys and values.
    pub(super) written: f64,
}

/// Rows of a range.
const RANGE_ROWS: f64 = 10.0;

/// The share of keys that an ideal filter of one bit for each key lets pass in vain: a half to the power of ln 2.
const PASS_OF_A_BIT: f64 = 0.618_503_137_801_576;

impl Sequence {
    fn leaves(&self) -> f64 {
        self.rows / self.leaf.rows
    }

    fn index_bytes(&self) -> f64 {
        self.leaves() * self.leaf.index_bytes + self.run_bytes
    }

    fn filter_bytes(&self) -> f64 {
        self.rows * self.filter_bits / 8.0
    }

    fn leaf_bytes(&self) -> f64 {
        self.rows * self.leaf.row_bytes()
    }
}

impl Point {
    fn sum(&self, of: impl Fn(&Sequence) -> f64) -> f64 {
        self.sequences.iter().map(of).sum()
    }

    pub(super) fn index_bytes(&self) -> f64 {
        self.sum(Sequence::index_bytes)
    }

    pub(super) fn filter_bytes(&self) -> f64 {
        self.sum(Sequence::filter_bytes)
    }

    /// The share of reads of an index or a filter, and of a leaf, that the memory does not answer: indexes and filters
    /// have it first, and reads fall on all leaves alike.
    fn misses(&self, memory: u64) -> (f64, f64) {
        let (above, leaves) = (self.index_bytes() + self.filter_bytes(), self.sum(Sequence::leaf_bytes));
        let memory = memory as f64;
        let lacks = |has: f64, wants: f64| if wants > 0.0 { (1.0 - has / wants).clamp(0.0, 1.0) } else { 0.0 };
        (lacks(memory, above), lacks((memory - above).max(0.0), leaves))
    }

    /// Device reads of a get of a key that is there. It searches the sequences from the newest on, and those before its
    /// own are passed by where their filters say so.
    pub(super) fn get_reads(&self, memory: u64) -> f64 {
        let (index, leaf) = self.misses(memory);
        let total = self.sum(|sequence| sequence.rows);
        let (mut passed, mut reads) = (0.0, 0.0);
        for sequence in &self.sequences {
            reads += sequence.rows / total * (passed + index + leaf);
            passed += index + leaf * PASS_OF_A_BIT.powf(sequence.filter_bits);
        }
        reads
    }

    /// Device reads of a range: of each sequence a leaf, and the next ones where its rows reach over several.
    pub(super) fn range_reads(&self, memory: u64) -> f64 {
        let (index, leaf) = self.misses(memory);
        let total = self.sum(|sequence| sequence.rows);
        self.sum(|sequence| {
            let own = (RANGE_ROWS - 1.0) * sequence.rows / total / sequence.leaf.rows;
            index + leaf * (1.0 + own)
        })
    }

    /// The columns of the model.
    pub(super) fn figures(&self, memory: u64) -> Vec<Figure> {
        let index_in_leaves = |sequence: &Sequence| {
            // Branches are among the bytes of a B-tree's leaves.
            if sequence.leaf.holds_index { 0.0 } else { sequence.index_bytes() }
        };
        let disk = self.sum(|sequence| sequence.leaf_bytes() + index_in_leaves(sequence)) + self.filter_bytes();
        vec![
            Figure::less("levels", "", self.levels as f64),
            Figure::less("trees", "", self.sequences.len() as f64),
            Figure::less("written/B", "", self.written),
            Figure::less("disk.GB", "GB", disk / 1e9),
            Figure::less("index.MB", "MB", mb(self.index_bytes())),
            Figure::less("filter.MB", "MB", mb(self.filter_bytes())),
            Figure::less("get.reads", "", self.get_reads(memory)),
            Figure::less("range.reads", "", self.range_reads(memory)),
        ]
    }

    /// The columns beside what was measured.
    pub(super) fn beside(&self) -> Vec<Figure> {
        vec![
            Figure::plain("levels.model", "", self.levels as f64),
            Figure::plain("written/B.model", "", self.written),
            Figure::plain("index.MB.model", "MB", mb(self.index_bytes())),
            Figure::plain("filter.MB.model", "MB", mb(self.filter_bytes())),
        ]
    }
}
