//! The leaves of a root that may be damaged, from left to right.
//!
//! A branch that cannot be read hides its leaves. They are found by their frames then: every unit of the file is
//! reached by the root or free (see [`super`]), and the list of the free ones is in the file. A leaf that was found so
//! belongs where its first key does.

use std::cmp::Reverse;
use std::path::Path;

use super::format::TreeMeta;
use super::free_list::{self, extent};
use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, Result, SeqNum};
use crate::block::{Block, BlockKind, BlockPointer};
use crate::store::space::{UNIT_BYTES, decode_extents};
use crate::store::{BlockFile, Extent};
use crate::tree::branch;
use crate::tree::salvage::{FrameScan, Leaves, LostRange, Step};

/// The leaves of a root.
#[derive(Debug)]
pub struct TreeLeaves {
    scan: FrameScan,
    meta: TreeMeta,
    /// What comes next, last first.
    ahead: Vec<Ahead>,
    /// The last entry shown.
    last: (Vec<u8>, Reverse<SeqNum>),
    entries: u64,
    /// What damaged branches may hide beyond the leaves that were found.
    hidden: Vec<LostRange>,
}

/// Something to the right of where the walk is.
#[derive(Debug)]
enum Ahead {
    Block { pointer: BlockPointer, height: u32, keys: Keys },
    Stray(BlockPointer),
}

/// The keys that a subtree can hold: from the first one to the last.
#[derive(Clone, Debug)]
struct Keys {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
}

impl TreeLeaves {
    /// The leaves in `file`, which must not be opened for direct I/O, of the root that `meta` describes.
    ///
    /// # Errors
    /// `Io` when the length of the file cannot be found out.
    pub fn new(file: BlockFile, meta: TreeMeta) -> Result<Self> {
        let keys = Keys { from: Vec::new(), to: None };
        let root = meta.root.map(|pointer| Ahead::Block { pointer, height: meta.height, keys });
        let (ahead, last, hidden) = (root.into_iter().collect(), (Vec::new(), Reverse(SeqNum::MAX)), Vec::new());
        Ok(Self { scan: FrameScan::new(file)?, meta, ahead, last, entries: 0, hidden })
    }

    fn read(&self, pointer: BlockPointer, height: u32) -> Result<Block> {
        let block = self.scan.file().read(pointer)?;
        let kind = if height == 0 { BlockKind::Leaf } else { BlockKind::Branch };
        if block.kind() == kind && block.count() > 0 {
            return Ok(block);
        }
        Err(self
            .scan
            .file()
            .corruption(pointer.offset, format_args!("{block:?} lies {height} levels above the leaves")))
    }

    fn show(&mut self, pointer: BlockPointer, leaf: Block) -> Step {
        self.entries += u64_of(leaf.count());
        leaf.key_into(leaf.count() - 1, &mut self.last.0);
        self.last.1 = Reverse(leaf.seqnum(leaf.count() - 1));
        Step::Leaf(pointer, leaf)
    }

    fn lost(&self, keys: &Keys, pointer: BlockPointer, error: &Error) -> LostRange {
        LostRange::new(&keys.from, keys.to.as_deref(), (self.scan.file().path(), pointer.offset), error)
    }

    /// Goes on with the children of a branch.
    fn enter(&mut self, branch: &Block, pointer: BlockPointer, height: u32, mut keys: Keys) {
        for i in (0..branch.count()).rev() {
            let mut from = Vec::new();
            branch.key_into(i, &mut from);
            // Keys before the first separator go to the first child.
            let from = if i == 0 { std::mem::take(&mut keys.from) } else { from };
            let keys = Keys { to: keys.to.replace(from.clone()), from };
            match branch::pointer(branch, i) {
                Ok(pointer) => self.ahead.push(Ahead::Block { pointer, height: height - 1, keys }),
                Err(_) => {
                    let error = self.scan.file().corruption(pointer.offset, "a branch does not say where its child is");
                    self.hidden.push(self.lost(&keys, pointer, &error));
                }
            }
        }
    }

    /// Goes on with the leaves that an unreadable branch hides.
    fn search(&mut self, keys: &Keys) {
        let Some(mut taken) = self.known_extents() else { return };
        taken.sort_unstable_by_key(|extent| extent.start);
        let mut found = Vec::new();
        let mut unit = 0;
        for extent in taken.iter().chain([&Extent { start: self.meta.file_units(), units: 0 }]) {
            while let Some((pointer, block)) =
                self.scan.block_in(unit * UNIT_BYTES..extent.offset(), usize_of(UNIT_BYTES))
            {
                unit = free_list::extent(pointer).end();
                let mut first = (Vec::new(), Reverse(SeqNum::ZERO));
                if block.kind() == BlockKind::Leaf && block.count() > 0 {
                    block.key_into(0, &mut first.0);
                    first.1 = Reverse(block.seqnum(0));
                    let is_ours = self.last < first && keys.to.as_ref().is_none_or(|to| first.0 < *to);
                    found.extend(is_ours.then_some((first, pointer)));
                }
            }
            unit = unit.max(extent.end());
        }
        found.sort_unstable_by(|a: &(_, BlockPointer), b| a.0.cmp(&b.0));
        self.ahead.extend(found.into_iter().rev().map(|(_, pointer)| Ahead::Stray(pointer)));
    }

    /// The header, what is free, and what comes next anyway; `None` when the list of what is free cannot be read.
    fn known_extents(&self) -> Option<Vec<Extent>> {
        let list = self.meta.free_list?;
        let block = self.scan.file().read(list).ok()?;
        let mut known = decode_extents(block.bytes(), self.meta.file_units()).ok()?;
        known.extend([Extent { start: 0, units: 1 }, extent(list)]);
        known.extend(self.ahead.iter().map(|ahead| match ahead {
            Ahead::Block { pointer, .. } | Ahead::Stray(pointer) => extent(*pointer),
        }));
        Some(known)
    }
}

impl Leaves for TreeLeaves {
    fn step(&mut self) -> Option<Step> {
        while let Some(next) = self.ahead.pop() {
            match next {
                Ahead::Stray(pointer) => {
                    if let Ok(leaf) = self.read(pointer, 0) {
                        return Some(self.show(pointer, leaf));
                    }
                }
                Ahead::Block { pointer, height, keys } => match self.read(pointer, height) {
                    Ok(leaf) if height == 0 => return Some(self.show(pointer, leaf)),
                    Ok(branch) => self.enter(&branch, pointer, height, keys),
                    Err(error) if height == 0 => return Some(Step::Lost(self.lost(&keys, pointer, &error))),
                    Err(error) => {
                        self.hidden.push(self.lost(&keys, pointer, &error));
                        self.search(&keys);
                    }
                },
            }
        }
        // With all entries read, the branches hid nothing more.
        let step = if self.entries < self.meta.entries { Step::Lost } else { Step::Harmless };
        self.hidden.pop().map(step)
    }

    fn path(&self) -> &Path {
        self.scan.file().path()
    }
}
