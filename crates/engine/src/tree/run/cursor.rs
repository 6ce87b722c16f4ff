//! A cursor over one run.

use super::index_cursor::{IndexCursor, NO_PART, wanted};
use super::readahead::ReadAhead;
use super::reader::Run;
use super::sticky_error::StickyError;
use crate::base::debug::debug_by;
use crate::base::{Entry, Result, Value};
use crate::block::{Block, Bound};
use crate::cache::Fill;
use crate::store::BlocksRead;
use crate::tree::cost::Costs;
use crate::tree::cursor::{Cursor, KeyCursor, LazySeek, Leaf, Limits, MergeSource, Position, SeqnumBounds};
use crate::tree::leaf_cursor::{KeyBound, LeafCursor};
use std::sync::Arc;

/// A cursor over the entries of one run. The leaf of its entry is that to which `index` leads.
pub struct RunCursor {
    index: IndexCursor,
    readahead: ReadAhead,
    sticky_error: StickyError,
    here: LeafCursor,
    /// The leaf was in the cache.
    is_cached: bool,
    /// Whether the filter knows the prefix of the limits, once it was probed.
    has_prefix: Option<bool>,
    /// The progress of a seek that was prefetched.
    progress: SeekProgress,
}

/// The progress of a seek that was prefetched.
#[derive(Debug, Default)]
enum SeekProgress {
    /// Not begun.
    #[default]
    Away,
    /// To a part of the index, narrowed by heads.
    Part(Bound),
    /// To the index entry; the leaf is being prefetched.
    Slot,
    /// To the leaf, narrowed by heads.
    Leaf(Block, Bound),
    /// The move does the rest.
    Left,
}

/// Which end of a leaf or part to go to.
#[derive(Clone, Copy)]
enum To {
    First,
    Last,
}

impl To {
    /// The entry at that end, of `count`.
    const fn entry(self, count: usize) -> usize {
        match self {
            Self::First => 0,
            Self::Last => count - 1,
        }
    }
}

impl RunCursor {
    /// A cursor over `run`, positioned nowhere. With [`Fill::Bypass`], many neighbouring leaves are read from the file
    /// at a time, past the cache.
    #[must_use]
    pub fn over(run: &Arc<Run>, fill: Fill) -> Self {
        Self {
            index: IndexCursor::new(Arc::clone(run), fill),
            readahead: ReadAhead::new(fill),
            sticky_error: StickyError::default(),
            here: LeafCursor::nowhere(),
            is_cached: false,
            has_prefix: None,
            progress: SeekProgress::Away,
        }
    }

    /// Goes on in another run, positioned nowhere, and keeps the buffers.
    pub(super) fn change_run(&mut self, run: &Arc<Run>) {
        if !Arc::ptr_eq(&self.index.run, run) {
            self.index.change_run(run);
            self.readahead.reset();
            self.has_prefix = None;
        }
        self.here.leave();
        self.progress = SeekProgress::Away;
    }

    /// Whether the cursor is positioned nowhere.
    #[inline]
    pub(super) const fn is_nowhere(&self) -> bool {
        self.here.is_nowhere()
    }

    /// Runs an absolute move. If it fails, every later move fails.
    fn absolute(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.sticky_error.check()?;
        self.here.leave();
        self.progress = SeekProgress::Away;
        if self.index.is_outside_limits() {
            return Ok(());
        }
        self.guarded(|cursor| cursor.index.run.open_ends())?;
        match self.index.limits.as_ref().and_then(|limits| limits.prefix) {
            Some((rule, hash)) if self.index.run.knows_prefixes(rule) => {
                self.guarded(|cursor| cursor.ask_then(hash, go))
            }
            _ => self.guarded(go),
        }
    }

    /// Runs a move if the filter knows the prefix with this hash, which all keys within the limits have.
    fn ask_then(&mut self, hash: u64, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(has_prefix) = self.has_prefix {
            return if has_prefix { go(self) } else { Ok(()) };
        }
        self.index.costs.filters += 1;
        let read = BlocksRead::so_far();
        let has_prefix = self.index.run.may_contain(hash)?;
        self.index.costs.blocks_read += read.since();
        self.has_prefix = Some(has_prefix);
        self.index.costs.filter_stops += u64::from(!has_prefix);
        if has_prefix {
            go(self)?;
            self.here.resolve();
            let limits = self.index.limits.as_ref();
            let within = self.here.key().is_some_and(|key| limits.is_some_and(|limits| limits.contain(key)));
            self.index.costs.filter_misses += u64::from(!within);
        }
        Ok(())
    }

    fn guarded(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let gone = go(self);
        if gone.is_err() {
            self.here.leave();
        }
        self.sticky_error.guard(gone)
    }

    /// Moves to the leaf of entry `slot` of the current part of the index.
    fn load_leaf(&mut self, slot: usize) -> Result<Block> {
        let Self { index, readahead, .. } = self;
        let leaf_at = index.leaf_at(slot)?;
        let wanted = || wanted(&index.run, index.limits.as_deref(), index.block());
        let (leaf, is_cached) = readahead.leaf(&index.run, leaf_at, wanted)?;
        readahead.share(&index.run, index.block(), slot);
        self.is_cached = is_cached;
        index.run.check_leaf(leaf_at.0, &leaf)?;
        index.costs.blocks += 1;
        index.slot = slot;
        Ok(leaf)
    }

    /// Moves to one end of part `part` of the index.
    fn enter_part(&mut self, part: usize, to: To) -> Result<()> {
        self.index.load_part(part)?;
        self.enter_leaf(to.entry(self.index.block().count()), to)
    }

    /// Moves to one end of the leaf of entry `slot` of the current part.
    fn enter_leaf(&mut self, slot: usize, to: To) -> Result<()> {
        self.index.follow(slot);
        let leaf = self.load_leaf(slot)?;
        if self.is_cached && self.readahead.goes_on() {
            // A step before the first leaf wraps around, and is no leaf.
            self.index.prefetch_leaf(match to {
                To::First => slot + 1,
                To::Last => slot.wrapping_sub(1),
            });
        }
        let at = to.entry(leaf.count());
        self.here.stand(leaf, at);
        Ok(())
    }

    /// Moves to the first entry after the current leaf.
    fn after_leaf(&mut self) -> Result<()> {
        self.here.leave();
        if self.index.ends_here() {
            Ok(())
        } else if self.index.slot + 1 < self.index.block().count() {
            self.enter_leaf(self.index.slot + 1, To::First)
        } else if self.index.part + 1 < self.index.run.top().count() {
            self.enter_part(self.index.part + 1, To::First)
        } else {
            Ok(())
        }
    }

    /// Moves to the last entry before the current leaf.
    fn before_leaf(&mut self) -> Result<()> {
        self.here.leave();
        if self.index.begins_here() {
            Ok(())
        } else if self.index.slot > 0 {
            self.enter_leaf(self.index.slot - 1, To::Last)
        } else if self.index.part > 0 {
            self.enter_part(self.index.part - 1, To::Last)
        } else {
            Ok(())
        }
    }

    /// Runs a move that leaves the current leaf.
    #[cold]
    fn go_over(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.index.part == NO_PART { Ok(()) } else { self.guarded(go) }
    }
}

impl Cursor for RunCursor {
    fn first(&mut self) -> Result<()> {
        self.absolute(|cursor| cursor.enter_part(0, To::First))
    }

    fn last(&mut self) -> Result<()> {
        self.absolute(|cursor| cursor.enter_part(cursor.index.run.top().count() - 1, To::Last))
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.lazy_seek_ge(key)?;
        self.here.resolve();
        Ok(())
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.absolute(|cursor| {
            if !cursor.index.find_slot(key)? {
                let last =
                    if cursor.index.part == NO_PART { cursor.index.run.top().count() - 1 } else { cursor.index.part };
                return cursor.enter_part(last, To::Last);
            }
            cursor.index.follow(cursor.index.slot);
            let leaf = cursor.load_leaf(cursor.index.slot)?;
            match leaf.lower_bound(key) {
                0 => cursor.before_leaf(),
                at => {
                    cursor.here.stand(leaf, at - 1);
                    Ok(())
                }
            }
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.here.next_entry() {
            return Ok(());
        }
        if self.is_nowhere() { self.sticky_error.check() } else { self.go_over(Self::after_leaf) }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.here.prev_entry() {
            return Ok(());
        }
        if self.is_nowhere() { self.sticky_error.check() } else { self.go_over(Self::before_leaf) }
    }

    fn limit(&mut self, limits: &Arc<Limits>) {
        self.index.limits = Some(Arc::clone(limits));
        self.has_prefix = None;
    }

    fn costs(&self) -> Costs {
        Costs { blocks_read: self.index.costs.blocks_read + self.readahead.leaves_read(), ..self.index.costs }
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.here.entry()
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.here.key()
    }

    fn value(&self) -> Option<Value> {
        self.here.value()
    }
}

impl KeyCursor for RunCursor {
    #[inline]
    fn next_key_in_leaf(&mut self) -> bool {
        self.here.next_key()
    }
}

impl LazySeek for RunCursor {
    fn lazy_seek_ge(&mut self, key: &[u8]) -> Result<()> {
        let progress = std::mem::take(&mut self.progress);
        self.absolute(|cursor| {
            let (leaf, bound) = match progress {
                SeekProgress::Leaf(leaf, bound) => (leaf, bound),
                _ if cursor.index.find_slot(key)? => {
                    cursor.index.follow(cursor.index.slot);
                    let leaf = cursor.load_leaf(cursor.index.slot)?;
                    leaf.prefetch_search();
                    let bound = leaf.bound(key);
                    leaf.prefetch_entries(bound);
                    (leaf, bound)
                }
                _ if cursor.index.part == NO_PART => return Ok(()),
                _ => return cursor.after_leaf(),
            };
            match leaf.lower_bound_from(bound, key) {
                // The separator may be above the last key of its leaf.
                at if at == leaf.count() => cursor.after_leaf()?,
                at => cursor.here.set_lazily(leaf, at),
            }
            if !bound.sure {
                cursor.here.resolve();
            }
            Ok(())
        })
    }

    fn lazy_key(&self) -> Option<KeyBound<'_>> {
        self.here.lazy_key()
    }

    #[inline]
    fn resolve(&mut self) -> Result<()> {
        self.here.resolve();
        Ok(())
    }

    fn prefetch_seek_ge(&mut self, key: &[u8]) -> bool {
        let gone = match self.progress {
            SeekProgress::Away => {
                self.here.leave();
                self.index.prefetch_seek(key).map(|bound| bound.map_or(SeekProgress::Left, SeekProgress::Part))
            }
            SeekProgress::Part(bound) => self
                .index
                .prefetch_slot(bound, key)
                .map(|found| if found { SeekProgress::Slot } else { SeekProgress::Left }),
            SeekProgress::Slot => self.load_leaf(self.index.slot).map(|leaf| {
                let bound = leaf.bound(key);
                leaf.prefetch_bound(bound);
                SeekProgress::Leaf(leaf, bound)
            }),
            SeekProgress::Leaf(..) | SeekProgress::Left => return false,
        };
        self.progress = gone.unwrap_or(SeekProgress::Left);
        matches!(self.progress, SeekProgress::Part(_) | SeekProgress::Slot)
    }
}

impl MergeSource for RunCursor {
    fn position(&self) -> Option<Position> {
        (!self.is_nowhere()).then(|| Position {
            run: 0,
            part: self.index.part,
            leaf: self.index.slot,
            at: self.here.at(),
        })
    }

    #[inline]
    fn leaf(&self) -> Option<Leaf<'_>> {
        let block = self.here.leaf_if_first()?;
        let frame = if self.is_cached { None } else { self.readahead.frame() };
        (self.index.fill == Fill::Merge).then_some(Leaf { block, frame, is_cached: self.is_cached })
    }

    fn skip_leaf(&mut self) -> Result<()> {
        if self.is_nowhere() { self.sticky_error.check() } else { self.go_over(Self::after_leaf) }
    }

    fn swap_leaf_cursor(&mut self, place: &mut LeafCursor) {
        std::mem::swap(&mut self.here, place);
    }

    fn seqnum_bounds(&self) -> SeqnumBounds {
        self.index.run.seqnum_bounds()
    }

    #[inline]
    fn is_cached(&self) -> bool {
        self.is_cached
    }
}

debug_by!(RunCursor, self => run: self.index.run, here: self.here);
