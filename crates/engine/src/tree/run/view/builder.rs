//! Makes a view by walking through all its trees once.

use super::layout::{
    ENTRY_BYTES, EntryLocator, GROUP_BYTES, GROUP_ENTRIES, HEADS_AT, LOCATORS_AT, PREFIX_AT, PREFIX_AT_AT,
    PREFIX_LEN_AT, Part,
};
use super::reader::{Tree, View};
use crate::base::debug::debug_by;
use crate::base::key::shared_bytes;
use crate::base::memory::Image;
use crate::base::num::{u32_of, u64_of};
use crate::base::{Entry, Kind, Result, SeqNum};
use crate::block::{Block, BlockBuilder, BlockKind, head};
use crate::cache::{Cache, Fill};
use crate::tree::branch::CacheReservation;
use crate::tree::cursor::{Cursor, MergeSource};
use crate::tree::merge::MergeCursor;
use crate::tree::run::level::LevelCursor;
use crate::tree::run::separator::separator;
use std::sync::Arc;

/// A part ends with the group that makes it this long; two parts share a slab.
const PART_BYTES: usize = 32 << 10;

/// A view in the making.
pub struct ViewBuilder {
    trees: Box<[Tree]>,
    input: MergeCursor,
    group: Pending,
    /// The groups of the part so far, and the prefixes that are too long for them.
    groups: Vec<u8>,
    long: Vec<u8>,
    separators: BlockBuilder,
    top: BlockBuilder,
    parts: Vec<Part>,
    entries: u64,
    reservation: CacheReservation,
}

/// The entries of a group that is not full yet.
#[derive(Default)]
struct Pending {
    keys: Vec<u8>,
    /// Where each key ends in `keys`.
    ends: Vec<usize>,
    locators: Vec<EntryLocator>,
}

impl Pending {
    fn key(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.keys[start..self.ends[at]]
    }

    fn last_key(&self) -> Option<&[u8]> {
        Some(self.key(self.ends.len().checked_sub(1)?))
    }
}

impl ViewBuilder {
    /// A view of `trees`, newest first, whose memory `cache` grants; `None` when it has none to grant, or there is
    /// nothing to view.
    ///
    /// # Errors
    /// When a block cannot be read or is corrupt.
    pub fn new(trees: Vec<Tree>, cache: &Arc<Cache>) -> Result<Option<Self>> {
        let entries: u64 = trees.iter().flat_map(|tree| &**tree).map(|run| run.meta().entries).sum();
        let reservation = CacheReservation::new(cache);
        if trees.len() < 2 || !reservation.reserve(entries.saturating_mul(ENTRY_BYTES)) {
            return Ok(None);
        }
        let source = |tree: &Tree| Box::new(LevelCursor::new(Arc::clone(tree), Fill::Merge)) as Box<dyn MergeSource>;
        let mut input = MergeCursor::new(trees.iter().map(source).collect());
        input.first()?;
        Ok(Some(Self {
            trees: trees.into(),
            input,
            group: Pending::default(),
            groups: Vec::new(),
            long: Vec::new(),
            separators: BlockBuilder::new(BlockKind::Branch),
            top: BlockBuilder::new(BlockKind::Branch),
            parts: Vec::new(),
            entries: 0,
            reservation,
        }))
    }

    /// Processes `entries` entries. Returns false when there are more; `None` when one lies where a view cannot say it,
    /// or memory is refused.
    ///
    /// # Errors
    /// When a block cannot be read or is corrupt.
    pub fn step(&mut self, entries: u64) -> Result<Option<bool>> {
        for _ in 0..entries {
            let (Some(entry), Some(position)) = (self.input.entry(), self.input.position()) else {
                return Ok((self.close_group(None) && self.close_part()).then_some(true));
            };
            let Some(locator) = EntryLocator::new(self.input.source(), position) else { return Ok(None) };
            let is_same = self.group.last_key() == Some(entry.key);
            if is_same && let Some(last) = self.group.locators.last_mut() {
                *last = last.followed_by_same_key();
            }
            if self.group.locators.len() == GROUP_ENTRIES {
                let key = entry.key.to_vec();
                if !self.close_group(Some(&key)) {
                    return Ok(None);
                }
                self.group.keys.extend_from_slice(&key);
            } else {
                self.group.keys.extend_from_slice(entry.key);
            }
            self.group.ends.push(self.group.keys.len());
            self.group.locators.push(locator);
            self.entries += 1;
            self.input.next()?;
        }
        Ok(Some(false))
    }

    /// Ends a group, behind which `next` comes; false when memory is refused.
    fn close_group(&mut self, next: Option<&[u8]>) -> bool {
        let Some(last) = self.group.last_key() else { return true };
        let first = self.group.key(0);
        let shared = shared_bytes(first, last).min(usize::from(u16::MAX));
        let mut bytes = [0; GROUP_BYTES];
        bytes[..2].copy_from_slice(&u32_of(self.group.locators.len()).to_le_bytes()[..2]);
        bytes[PREFIX_LEN_AT..][..2].copy_from_slice(&u32_of(shared).to_le_bytes()[..2]);
        if shared <= HEADS_AT - PREFIX_AT {
            bytes[PREFIX_AT..][..shared].copy_from_slice(&first[..shared]);
        } else {
            bytes[PREFIX_AT_AT..][..4].copy_from_slice(&u32_of(self.long.len()).to_le_bytes());
            self.long.extend_from_slice(&first[..shared]);
        }
        for (at, locator) in self.group.locators.iter().enumerate() {
            let head = head(&self.group.key(at)[shared..]);
            bytes[HEADS_AT + 4 * at..][..4].copy_from_slice(&head.to_le_bytes());
            bytes[LOCATORS_AT + 8 * at..][..8].copy_from_slice(&locator.0.to_le_bytes());
        }
        self.groups.extend_from_slice(&bytes);
        push(&mut self.separators, next.map_or(last, |next| separator(last, next)));
        self.group.keys.clear();
        self.group.ends.clear();
        self.group.locators.clear();
        self.groups.len() + self.long.len() < PART_BYTES || self.close_part()
    }

    /// Ends a part; false when memory is refused for what keys make longer than the estimate.
    fn close_part(&mut self) -> bool {
        if self.separators.is_empty() {
            return true;
        }
        let granted = u64_of(self.groups.len() / GROUP_BYTES * GROUP_ENTRIES) * ENTRY_BYTES;
        let keys = self.long.len() + self.separators.image_bytes() + self.separators.last_key().len();
        if !self.reservation.reserve(u64_of(self.groups.len() + keys).saturating_sub(granted)) {
            return false;
        }
        push(&mut self.top, self.separators.last_key());
        let separators = block(&mut self.separators);
        let mut groups = Image::pinned_of_len(self.groups.len() + self.long.len());
        let (front, back) = groups.make_mut().split_at_mut(self.groups.len());
        front.copy_from_slice(&self.groups);
        back.copy_from_slice(&self.long);
        self.parts.push(Part { separators, groups, groups_bytes: self.groups.len() });
        self.groups.clear();
        self.long.clear();
        true
    }

    /// The view, once there are no more entries.
    ///
    /// # Panics
    /// When there are more, or were none.
    #[must_use]
    pub fn finish(mut self) -> View {
        assert!(self.input.entry().is_none() && !self.parts.is_empty(), "the view is whole");
        let top = block(&mut self.top);
        let runs = self.trees.iter().flat_map(|tree| &**tree);
        let visible_from = runs.clone().map(|run| run.visible_from()).max().unwrap_or_default();
        let is_bare = runs.clone().all(|run| run.filter().is_none());
        let (parts, entries) = (self.parts.into(), self.entries);
        View { trees: self.trees, top, parts, entries, visible_from, is_bare, _room: self.reservation }
    }
}

/// Adds a separator.
fn push(branch: &mut BlockBuilder, separator: &[u8]) {
    branch.push(&Entry { key: separator, seqnum: SeqNum::ZERO, kind: Kind::Put, value: &[] });
}

/// The block of the separators pushed.
fn block(branch: &mut BlockBuilder) -> Block {
    let block = Block::parse(Image::from(&*branch.finish())).expect("a block as it was built");
    block.in_pinned_memory()
}

debug_by!(ViewBuilder, self => entries: self.entries);
