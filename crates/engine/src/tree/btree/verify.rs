//! The check of a root: every block as it lies in the file, and every unit of the file accounted for once.

use super::file::TreeFile;
use super::format::{CONTINUES, continues};
use super::free_list::{extent, read_free_list};
use super::root::TreeRoot;
use super::stream::{Border, Bounds};
use super::tree::BTree;
use crate::base::num::{u64_of, usize_of};
use crate::base::{Kind, Result, SeqNum};
use crate::block::{Block, BlockPointer};
use crate::store::Extent;
use crate::store::space::UNIT_BYTES;

/// What [`BTree::verify`] met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeReport {
    /// Leaves, branches, and the free list.
    pub blocks: u64,
    /// Entries of all leaves.
    pub entries: u64,
    /// Bytes of the file that blocks take, with padding.
    pub bytes: u64,
    /// Bytes of the file that nothing takes.
    pub free_bytes: u64,
}

impl BTree {
    /// Reads every block that `root` reaches from the file, not from the cache, and checks everything that holds of a
    /// tree: the header, checksums, order of the keys, borders, heights, counts, and that every unit of the file is
    /// accounted for once.
    ///
    /// # Errors
    /// `Corruption` at the first thing that is wrong; `Io` when the file cannot be read.
    pub fn verify(&self, root: &TreeRoot) -> Result<TreeReport> {
        let meta = root.meta();
        let mut verify = Verify::new(&self.file, meta.file_units());
        if let Some(pointer) = meta.root {
            verify.block(meta.height, pointer, None, Bounds { lower: None, upper: None })?;
        }
        let counts = (verify.leaves, verify.branches, verify.report.entries);
        if counts != (meta.leaves, meta.branches, meta.entries) {
            let what = format_args!("the tree has (leaves, branches, entries) {counts:?} and should be {meta:?}");
            return Err(self.file.blocks.corruption(0, what));
        }
        if let Some(pointer) = meta.free_list {
            verify.take(pointer)?;
            for extent in read_free_list(&self.file, meta)? {
                verify.mark(extent)?;
                verify.report.free_bytes += extent.units * UNIT_BYTES;
            }
        }
        let report = verify.finish()?;
        // Behind the blocks, whose damage tells more.
        if !meta.is_unwritten() {
            self.file.check_header(meta.file_bytes)?;
        }
        Ok(report)
    }
}

/// A check under way.
struct Verify<'a> {
    file: &'a TreeFile,
    /// Which units were met, 64 to a word.
    met: Vec<u64>,
    units: u64,
    leaves: u64,
    branches: u64,
    report: TreeReport,
    /// The last entry met.
    last: Option<(Vec<u8>, SeqNum)>,
}

impl<'a> Verify<'a> {
    fn new(file: &'a TreeFile, units: u64) -> Self {
        let mut met = vec![0; usize_of(units.div_ceil(64))];
        // The header.
        met[0] = 1;
        Self { file, met, units, leaves: 0, branches: 0, report: TreeReport::default(), last: None }
    }

    fn finish(self) -> Result<TreeReport> {
        let lost = (0..self.units).find(|unit| self.met[usize_of(unit / 64)] & (1 << (unit % 64)) == 0);
        match lost {
            Some(unit) => {
                Err(self.file.blocks.corruption(unit * UNIT_BYTES, "nothing takes this space, nor is it free"))
            }
            None => Ok(self.report),
        }
    }

    /// Accounts for units.
    fn mark(&mut self, extent: Extent) -> Result<()> {
        for unit in extent.start..extent.end() {
            let word = self
                .met
                .get_mut(usize_of(unit / 64))
                .filter(|word| unit < self.units && **word & (1 << (unit % 64)) == 0);
            let Some(word) = word else {
                let what = "this space is taken twice, or lies beyond the end of the tree";
                return Err(self.file.blocks.corruption(unit * UNIT_BYTES, what));
            };
            *word |= 1 << (unit % 64);
        }
        Ok(())
    }

    /// Accounts for a block.
    fn take(&mut self, pointer: BlockPointer) -> Result<()> {
        if !pointer.offset.is_multiple_of(UNIT_BYTES) {
            return Err(self.file.corruption(pointer, "a block does not begin at a unit"));
        }
        let extent = extent(pointer);
        self.report.blocks += 1;
        self.report.bytes += extent.units * UNIT_BYTES;
        self.mark(extent)
    }

    /// Checks the subtree of `height` that `pointer` names; its parent says that it begins at `border`.
    fn block(
        &mut self,
        height: u32,
        pointer: BlockPointer,
        border: Option<Border<'_>>,
        bounds: Bounds<'_>,
    ) -> Result<()> {
        self.take(pointer)?;
        let block = self.file.blocks.read(pointer)?;
        self.file.check(&block, pointer, height)?;
        if height == 0 {
            self.leaf(pointer, &block, bounds)
        } else {
            self.branch(height, pointer, &block, border, bounds)
        }
    }

    fn leaf(&mut self, pointer: BlockPointer, leaf: &Block, bounds: Bounds<'_>) -> Result<()> {
        self.leaves += 1;
        self.report.entries += u64_of(leaf.count());
        let ascends = self.last.as_ref().is_none_or(|(key, seqnum)| {
            let order = leaf.compare_key(0, key);
            order.is_gt() || (order.is_eq() && leaf.seqnum(0) < *seqnum)
        });
        if !ascends {
            return Err(self.file.corruption(pointer, "a leaf begins before the end of the one before it"));
        }
        if !bounds.hold(leaf) {
            return Err(self
                .file
                .corruption(pointer, "a leaf has keys outside of the bounds that its branch gives it"));
        }
        let last = leaf.count() - 1;
        let (key, seqnum) = self.last.get_or_insert_default();
        leaf.key_into(last, key);
        *seqnum = leaf.seqnum(last);
        Ok(())
    }

    fn branch(
        &mut self,
        height: u32,
        pointer: BlockPointer,
        branch: &Block,
        border: Option<Border<'_>>,
        bounds: Bounds<'_>,
    ) -> Result<()> {
        self.branches += 1;
        let (mut low, mut high) = (Vec::new(), Vec::new());
        branch.key_into(0, &mut high);
        if border.is_some_and(|border| border.key != high || border.continues != continues(branch, 0)) {
            return Err(self.file.corruption(pointer, "a branch begins elsewhere than its parent says"));
        }
        for i in 0..branch.count() {
            std::mem::swap(&mut low, &mut high);
            let slot = branch.slot(i);
            let known = slot.seqnum == SeqNum::ZERO || slot.seqnum == CONTINUES;
            if !known || slot.kind != Kind::Put || slot.value_len != BlockPointer::BYTES {
                return Err(self.file.corruption(pointer, format_args!("child {i} of a branch is malformed")));
            }
            let here = Border { key: &low, continues: continues(branch, i) };
            let lower = if i == 0 { bounds.lower } else { Some(here) };
            let mut upper = bounds.upper;
            if i + 1 < branch.count() {
                branch.key_into(i + 1, &mut high);
                upper = Some(Border { key: &high, continues: continues(branch, i + 1) });
                if low >= high && !continues(branch, i + 1) {
                    return Err(self.file.corruption(pointer, "two children of a branch begin at the same key"));
                }
            }
            let child = self.file.child(branch, i)?;
            self.block(height - 1, child, Some(here), Bounds { lower, upper })?;
        }
        Ok(())
    }
}
