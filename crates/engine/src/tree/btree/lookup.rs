//! Point lookups in a root.

use std::sync::Arc;

use super::cursor::BTreeCursor;
use super::format::continues;
use super::root::{TreeRoot, route, swip};
use crate::base::{Result, SeqNum};
use crate::block::Block;
use crate::cache::{Fill, Wanted};
use crate::tree::cursor::{Cursor, Found};
use crate::tree::multi_get::{GetRequest, GetResults, nothing};

impl TreeRoot {
    /// The newest version of `key` that `snapshot` sees, be it a tombstone. Its seqnum is at least that up to which the
    /// tree is clean.
    ///
    /// # Errors
    /// When a block cannot be read or is corrupt.
    pub fn get(self: &Arc<Self>, key: &[u8], snapshot: SeqNum) -> Result<Option<Found>> {
        let Some(mut pointer) = self.meta.root else { return Ok(None) };
        let (mut spread, mut above) = (false, None);
        for height in (1..=self.meta.height).rev() {
            let step = self.branch(above, pointer, height, Fill::Keep)?;
            let branch = step.block();
            let i = route(branch, key);
            spread |= i + 1 < branch.count() && continues(branch, i + 1);
            above = step.pinned().map(|kept| (kept, i));
            pointer = self.child(&step, i)?;
        }
        let leaf = self.leaf(above, pointer, Fill::Keep)?;
        match visible(&leaf, key, snapshot) {
            Some(i) => Ok(Some(self.found(leaf, i))),
            None if spread => self.get_spread(key, snapshot),
            None => Ok(None),
        }
    }

    /// [`Self::get`] of several keys, which ascend: blocks that are not in the cache are read together.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_many(self: &Arc<Self>, requests: &[GetRequest<'_>], snapshot: SeqNum) -> Result<GetResults> {
        let Some(root) = self.meta.root else { return Ok(nothing(requests.len())) };
        let (mut pointers, mut spread) = (vec![root; requests.len()], vec![false; requests.len()]);
        let mut above = vec![None; requests.len()];
        for height in (1..=self.meta.height).rev() {
            let steps = self.branches(&above, &pointers, height)?;
            steps.iter().for_each(|step| step.block().prefetch_search());
            steps.iter().zip(requests).for_each(|(step, request)| step.block().prefetch_entry(request.key));
            for (at, (step, request)) in steps.iter().zip(requests).enumerate() {
                let branch = step.block();
                let i = route(branch, request.key);
                spread[at] |= i + 1 < branch.count() && continues(branch, i + 1);
                pointers[at] = self.child(step, i)?;
                above[at] = step.pinned().map(|kept| (kept, i));
            }
        }
        let file = &self.file.blocks;
        let wanted = pointers.iter().zip(&above);
        let wanted = wanted.map(|(pointer, above)| Wanted { file, pointer: *pointer, swip: swip(*above, *pointer) });
        let blocks = self.file.cache.get_many(&wanted.collect::<Vec<_>>(), Fill::Keep)?;
        for (block, pointer) in blocks.iter().zip(&pointers) {
            block.prefetch_search();
            self.file.check(block, *pointer, 0)?;
        }
        blocks.iter().zip(requests).for_each(|(block, request)| block.prefetch_entry(request.key));
        let answer =
            |((request, leaf), spread): ((&GetRequest<'_>, Block), bool)| match visible(&leaf, request.key, snapshot) {
                Some(i) => Ok(Some(self.found(leaf, i))),
                None if spread => self.get_spread(request.key, snapshot),
                None => Ok(None),
            };
        requests.iter().zip(blocks).zip(spread).map(answer).collect()
    }

    /// As [`Self::get`], when the versions of the key may lie in several leaves.
    #[cold]
    fn get_spread(self: &Arc<Self>, key: &[u8], snapshot: SeqNum) -> Result<Option<Found>> {
        let mut cursor = BTreeCursor::over(self, Fill::Keep);
        cursor.seek_ge(key)?;
        while let Some(entry) = cursor.entry().filter(|entry| entry.key == key) {
            if entry.seqnum <= snapshot {
                let (seqnum, kind) = (entry.seqnum.max(self.meta.clean_to), entry.kind);
                return Ok(cursor.value().map(|value| Found { seqnum, kind, value }));
            }
            cursor.next()?;
        }
        Ok(None)
    }

    /// Entry `i` of `leaf`.
    #[inline]
    fn found(&self, leaf: Block, i: usize) -> Found {
        let slot = leaf.slot(i);
        let (seqnum, kind, at, len) = (slot.seqnum.max(self.meta.clean_to), slot.kind, slot.value_at, slot.value_len);
        Found { seqnum, kind, value: leaf.pinned(at, len) }
    }
}

/// The first version of `key` in `leaf` that `snapshot` sees.
#[inline]
fn visible(leaf: &Block, key: &[u8], snapshot: SeqNum) -> Option<usize> {
    let mut i = leaf.find(key)?;
    while leaf.seqnum(i) > snapshot {
        i += 1;
        if i == leaf.count() || leaf.compare_key(i, key).is_ne() {
            return None;
        }
    }
    Some(i)
}
