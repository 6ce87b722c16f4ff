//! Where a cursor stands in a leaf.

use crate::base::{Entry, Kind, SeqNum, Value};
use crate::block::Block;

/// So long a key needs no second allocation.
const KEY_BYTES: usize = 48;

/// An entry of a leaf, looked at once, or nowhere.
#[derive(Debug)]
pub(super) struct Place {
    leaf: Option<Block>,
    at: usize,
    key: Vec<u8>,
    seqnum: SeqNum,
    kind: Kind,
    value_at: usize,
    value_len: usize,
}

impl Place {
    /// Nowhere.
    pub(super) fn nowhere() -> Self {
        let key = Vec::with_capacity(KEY_BYTES);
        Self { leaf: None, at: 0, key, seqnum: SeqNum::ZERO, kind: Kind::Put, value_at: 0, value_len: 0 }
    }

    #[inline]
    pub(super) const fn is_nowhere(&self) -> bool {
        self.leaf.is_none()
    }

    pub(super) fn leave(&mut self) {
        self.leaf = None;
    }

    /// Stands on entry `at` of `leaf`.
    pub(super) fn stand(&mut self, leaf: Block, at: usize) {
        self.key.clear();
        self.key.extend_from_slice(leaf.prefix());
        self.leaf = Some(leaf);
        self.stand_at(at);
    }

    /// Stands on entry `at` of the leaf where it is.
    #[inline]
    fn stand_at(&mut self, at: usize) {
        let Some(leaf) = &self.leaf else { return };
        let slot = leaf.slot(at);
        self.key.truncate(leaf.prefix().len());
        self.key.extend_from_slice(slot.suffix);
        self.at = at;
        (self.seqnum, self.kind) = (slot.seqnum, slot.kind);
        (self.value_at, self.value_len) = (slot.value_at, slot.value_len);
    }

    /// Goes to the next entry of the leaf; false where there is none.
    #[inline]
    pub(super) fn next(&mut self) -> bool {
        let more = self.leaf.as_ref().is_some_and(|leaf| self.at + 1 < leaf.count());
        if more {
            self.stand_at(self.at + 1);
        }
        more
    }

    /// Goes to the entry before in the leaf; false where there is none.
    #[inline]
    pub(super) fn prev(&mut self) -> bool {
        let more = self.leaf.is_some() && self.at > 0;
        if more {
            self.stand_at(self.at - 1);
        }
        more
    }

    /// The key of the entry.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(super) fn entry(&self) -> Option<Entry<'_>> {
        let value = self.leaf.as_ref()?.bytes_at(self.value_at, self.value_len);
        Some(Entry { key: &self.key, seqnum: self.seqnum, kind: self.kind, value })
    }

    pub(super) fn value(&self) -> Option<Value> {
        Some(self.leaf.clone()?.pinned(self.value_at, self.value_len))
    }
}
