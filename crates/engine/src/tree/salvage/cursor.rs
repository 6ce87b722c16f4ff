//! The cursor over what is left of a tree.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Publish};

use super::leaves::{Leaves, Step};
use super::losses::{Losses, LostRange};
use crate::base::debug::debug_by;
use crate::base::key::descends;
use crate::base::num::u64_of;
use crate::base::{Entry, Error, ErrorKind, Kind, Result, SeqNum, Value};
use crate::block::Block;
use crate::cache::Fill;
use crate::tree::cursor::{Cursor, KeyCursor, LazySeek, MergeSource, SeqnumBounds};
use crate::tree::values::ValueFiles;

/// One of several trees that lie side by side: the ages of its entries, and its leaves or, when not even its file can
/// be opened, its loss.
pub type Piece = (SeqnumBounds, Result<Box<dyn Leaves>, LostRange>);

/// Walks forward over the entries of the leaves that are left of trees that lie side by side. Separated values are
/// shown in their entries like any others; an entry whose value cannot be read is lost like one in a damaged leaf.
pub struct SalvageCursor {
    /// The trees to come.
    pieces: Box<dyn Iterator<Item = Piece> + Send>,
    leaves: Option<Box<dyn Leaves>>,
    seqnum_bounds: SeqnumBounds,
    values: ValueFiles,
    losses: Losses,
    /// Bytes of the blocks and values read. Only shown; publishes nothing.
    read: Arc<AtomicU64>,
    /// The position of the cursor: the leaf's place and block, and the entry in it.
    leaf: Option<(u64, Block)>,
    at: usize,
    /// The key and seqnum met last.
    key: Vec<u8>,
    seqnum: SeqNum,
    /// The value of the entry, if it is a separated one.
    value: Option<Value>,
    /// Nothing was shown since the last loss.
    in_gap: bool,
}

impl SalvageCursor {
    /// A cursor positioned nowhere, over trees in the order of their keys, whose entries point into `values`. What it
    /// cannot show it adds to `losses`, the bytes that it reads to `read`.
    #[must_use]
    pub fn new(
        pieces: Box<dyn Iterator<Item = Piece> + Send>,
        values: ValueFiles,
        losses: Losses,
        read: Arc<AtomicU64>,
    ) -> Self {
        let (leaves, seqnum_bounds, leaf, at, key, seqnum) =
            (None, SeqnumBounds::UNKNOWN, None, 0, Vec::new(), SeqNum::ZERO);
        Self { pieces, leaves, seqnum_bounds, values, losses, read, leaf, at, key, seqnum, value: None, in_gap: false }
    }

    fn lose(&mut self, lost: LostRange) {
        self.losses.add(lost, self.in_gap);
        self.in_gap = true;
    }

    /// Whether the entry met last comes before all of `leaf`.
    fn precedes(&self, leaf: &Block) -> bool {
        match leaf.compare_key(0, &self.key) {
            Ordering::Less => false,
            Ordering::Equal => descends(self.seqnum, (leaf.seqnum(0), leaf.entry_kind(0))),
            Ordering::Greater => true,
        }
    }

    /// Moves to the first entry of the next leaf.
    fn next_leaf(&mut self) {
        self.leaf = None;
        while self.leaf.is_none() {
            let Some(leaves) = &mut self.leaves else {
                match self.pieces.next() {
                    None => return,
                    Some((_, Err(lost))) => self.lose(lost),
                    Some((seqnum_bounds, Ok(leaves))) => {
                        (self.seqnum_bounds, self.leaves) = (seqnum_bounds, Some(leaves))
                    }
                }
                continue;
            };
            match leaves.step() {
                None => self.leaves = None,
                Some(Step::Lost(lost)) => self.lose(lost),
                Some(Step::Harmless(damage)) => self.losses.harmless.lock().push(damage),
                Some(Step::Leaf(pointer, leaf)) if self.precedes(&leaf) => {
                    self.read.fetch_add(u64::from(pointer.bytes), Publish::Relaxed);
                    (self.leaf, self.at) = (Some((pointer.offset, leaf)), 0);
                }
                // The copy that is written from these entries relies on their order.
                Some(Step::Leaf(pointer, leaf)) => self.lose_leaf(pointer.offset, &leaf),
            }
        }
    }

    /// Leaves a leaf out that begins before the end of the one before it.
    fn lose_leaf(&mut self, offset: u64, leaf: &Block) {
        let (mut from, mut to) = (Vec::new(), Vec::new());
        leaf.key_into(0, &mut from);
        leaf.key_into(leaf.count() - 1, &mut to);
        let error = Error::new(ErrorKind::Corruption, "a leaf begins before the end of the one before it");
        self.lose(LostRange::new(&from, Some(&to), self.place(offset), &error));
    }

    /// A place in the file where the cursor is.
    fn place(&self, offset: u64) -> (&Path, u64) {
        (self.leaves.as_ref().map_or(Path::new(""), |leaves| leaves.path()), offset)
    }

    /// Goes on from the position of the cursor to the next entry that can be shown, the one here included.
    fn settle(&mut self) {
        while let Some((offset, leaf)) = self.leaf.clone() {
            leaf.key_into(self.at, &mut self.key);
            (self.seqnum, self.value) = (leaf.seqnum(self.at), None);
            if leaf.entry_kind(self.at) != Kind::PutPointer {
                break;
            }
            match self.values.read(leaf.value(self.at), Fill::Bypass) {
                Ok(value) => {
                    self.read.fetch_add(u64_of(value.len()), Publish::Relaxed);
                    self.value = Some(value);
                    break;
                }
                Err(error) => {
                    let key = self.key.clone();
                    self.lose(LostRange::new(&key, Some(&key), self.place(offset), &error));
                    self.advance();
                }
            }
        }
        self.in_gap &= self.leaf.is_none();
    }

    /// Moves to the next entry, whether it can be shown or not.
    fn advance(&mut self) {
        match &self.leaf {
            Some((_, leaf)) if self.at + 1 < leaf.count() => self.at += 1,
            _ => self.next_leaf(),
        }
    }
}

impl Cursor for SalvageCursor {
    fn first(&mut self) -> Result<()> {
        self.next_leaf();
        self.settle();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if self.leaf.is_some() {
            self.advance();
            self.settle();
        }
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn prev(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn seek_ge(&mut self, _key: &[u8]) -> Result<()> {
        Err(forward_only())
    }

    fn seek_lt(&mut self, _key: &[u8]) -> Result<()> {
        Err(forward_only())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let leaf = &self.leaf.as_ref()?.1;
        let slot = leaf.slot(self.at);
        let (kind, value) = match &self.value {
            Some(value) => (Kind::Put, &**value),
            None => (slot.kind, leaf.bytes_at(slot.value_at, slot.value_len)),
        };
        Some(Entry { key: &self.key, seqnum: slot.seqnum, kind, value })
    }

    fn value(&self) -> Option<Value> {
        let leaf = &self.leaf.as_ref()?.1;
        let (at, len) = leaf.value_at(self.at);
        Some(self.value.clone().unwrap_or_else(|| leaf.clone().pinned(at, len)))
    }
}

impl KeyCursor for SalvageCursor {}

impl LazySeek for SalvageCursor {}

impl MergeSource for SalvageCursor {
    fn seqnum_bounds(&self) -> SeqnumBounds {
        self.seqnum_bounds
    }
}

fn forward_only() -> Error {
    Error::new(ErrorKind::Unsupported, "what is left of a damaged tree is read once, from its first entry to its last")
}

debug_by!(SalvageCursor, self => place: self.place(0));
