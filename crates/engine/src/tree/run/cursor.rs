//! A cursor over one run.

use super::readahead::ReadAhead;
use super::reader::Run;
use super::sticky_error::StickyError;
use crate::base::{Entry, Result, Value};
use crate::block::{Block, Bound};
use crate::cache::{Fill, SwipOf};
use crate::store::BlocksRead;
use crate::tree::cost::Costs;
use crate::tree::cursor::{Cursor, KeyCursor, LazySeek, Leaf, Limits, MergeSource, Position, SeqnumBounds};
use crate::tree::leaf_cursor::{KeyBound, LeafCursor};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A cursor over the entries of one run.
///
/// # Invariants
/// 1. When it stands on an entry, its leaf is that of entry `slot` of index part `part`.
pub struct RunCursor {
    run: Arc<Run>,
    readahead: ReadAhead,
    fill: Fill,
    sticky_error: StickyError,
    /// Where it is in the index; [`NO_PART`] before it was anywhere.
    part: usize,
    slot: usize,
    /// The part of the index where it is, unless the run keeps it.
    fetched: Option<Block>,
    here: LeafCursor,
    /// The leaf was in the cache.
    is_cached: bool,
    limits: Option<Arc<Limits>>,
    /// What the filter said to the prefix of the limits, once it was asked.
    has_prefix: Option<bool>,
    /// What was looked at so far.
    costs: Costs,
    /// How far a seek has come before it was begun.
    progress: SeekProgress,
}

const NO_PART: usize = usize::MAX;

/// How far a cursor has come towards the first entry that is not below a key.
#[derive(Debug, Default)]
enum SeekProgress {
    /// Nowhere yet.
    #[default]
    Away,
    /// To a part of the index, and as far in it as its heads tell.
    Part(Bound),
    /// To where the leaf is at hand, or to where the cache knows of it.
    Slot,
    /// To the leaf, and as far in it as its heads tell.
    Leaf(Block, Bound),
    /// The rest is for the seek.
    Left,
}

/// Where in a leaf to go.
#[derive(Clone, Copy)]
enum To {
    First,
    Last,
}

impl Run {
    /// A cursor over the run. With [`Fill::Bypass`], leaves are read from the file in long rows, past the cache.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, fill: Fill) -> RunCursor {
        RunCursor::new(Arc::clone(self), fill)
    }
}

impl RunCursor {
    /// A cursor that stands nowhere.
    pub(super) fn new(run: Arc<Run>, fill: Fill) -> Self {
        Self {
            run,
            readahead: ReadAhead::new(fill),
            fill,
            sticky_error: StickyError::default(),
            part: NO_PART,
            slot: 0,
            fetched: None,
            here: LeafCursor::nowhere(),
            is_cached: false,
            limits: None,
            has_prefix: None,
            costs: Costs::default(),
            progress: SeekProgress::Away,
        }
    }

    /// Moves to another run, nowhere there, and keeps the buffers.
    pub(super) fn change_run(&mut self, run: &Arc<Run>) {
        if !Arc::ptr_eq(&self.run, run) {
            self.run = Arc::clone(run);
            self.readahead.reset();
            (self.part, self.fetched) = (NO_PART, None);
            self.has_prefix = None;
        }
        self.here.leave();
        self.progress = SeekProgress::Away;
    }

    /// Whether the cursor stands on no entry.
    #[inline]
    pub(super) const fn is_nowhere(&self) -> bool {
        self.here.is_nowhere()
    }

    /// Runs a move that starts from nowhere, and fuses the cursor if it fails.
    fn absolute(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.sticky_error.check()?;
        self.here.leave();
        self.progress = SeekProgress::Away;
        if self.is_apart() {
            return Ok(());
        }
        match self.limits.as_ref().and_then(|limits| limits.prefix) {
            Some((rule, hash)) if self.run.knows_prefixes(rule) => self.guarded(|cursor| cursor.ask_then(hash, go)),
            _ => self.guarded(go),
        }
    }

    /// Makes a move if the filter knows the prefix with this hash, which all keys within the limits have.
    fn ask_then(&mut self, hash: u64, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(has_prefix) = self.has_prefix {
            return if has_prefix { go(self) } else { Ok(()) };
        }
        self.costs.filters += 1;
        let read = BlocksRead::so_far();
        let has_prefix = self.run.may_contain(hash)?;
        self.costs.blocks_read += read.since();
        self.has_prefix = Some(has_prefix);
        self.costs.filter_stops += u64::from(!has_prefix);
        if has_prefix {
            go(self)?;
            self.here.resolve();
            let within = self.limits.as_ref().is_some_and(|limits| limits.contain(self.here.key().unwrap_or_default()));
            self.costs.filter_misses += u64::from(self.is_nowhere() || !within);
        }
        Ok(())
    }

    /// Goes the first step: to a part of the index, and as far in it as its heads tell. Asks for what it looks at next.
    fn seek_step_index(&mut self, key: &[u8]) -> Result<SeekProgress> {
        if !self.may_prefetch_seek() || !self.find_part(key)? {
            return Ok(SeekProgress::Left);
        }
        let bound = self.index().bound(key);
        if bound.at == self.index().count() {
            return Ok(SeekProgress::Left);
        }
        if !bound.sure {
            self.index().prefetch_bound(bound);
        }
        self.run.trace(self.part, bound.at).inspect(|trace| trace.prefetch());
        Ok(SeekProgress::Part(bound))
    }

    /// Goes the second step: to the entry of the index that leads to the leaf.
    fn seek_step_slot(&mut self, bound: Bound, key: &[u8]) -> Result<SeekProgress> {
        self.slot = self.index().lower_bound_from(bound, key);
        if self.slot == self.index().count() {
            return Ok(SeekProgress::Left);
        }
        let (pointer, swip) = self.run.leaf_at(self.index(), self.part, self.slot)?;
        self.run.follow(swip, pointer);
        Ok(SeekProgress::Slot)
    }

    /// Goes the last step: to the leaf, and as far in it as its heads tell. Asks for the entry.
    fn seek_step_leaf(&mut self, key: &[u8]) -> Result<SeekProgress> {
        let leaf = self.load_leaf(self.slot)?;
        let bound = leaf.bound(key);
        leaf.prefetch_bound(bound);
        Ok(SeekProgress::Leaf(leaf, bound))
    }

    /// Whether a seek goes straight to a leaf.
    fn may_prefetch_seek(&mut self) -> bool {
        self.here.leave();
        let asks_filter = |limits: &Arc<Limits>| limits.prefix.is_some_and(|(rule, _)| self.run.knows_prefixes(rule));
        self.fill == Fill::Keep && !self.is_apart() && !self.limits.as_ref().is_some_and(asks_filter)
    }

    /// Finds where in the index the leaf of `key` is. False where all keys are below it, or below it in the part of the
    /// index in which it would be: then the cursor is at its end.
    fn find_slot(&mut self, key: &[u8]) -> Result<bool> {
        if !self.find_part(key)? {
            return Ok(false);
        }
        self.slot = self.index().lower_bound(key);
        Ok(self.slot < self.index().count())
    }

    /// Finds the part of the index where `key` is looked for; false where all keys are below it.
    fn find_part(&mut self, key: &[u8]) -> Result<bool> {
        let part = self.run.top().lower_bound(key);
        if part == self.run.top().count() {
            self.part = NO_PART;
            return Ok(false);
        }
        self.load_part(part)?;
        Ok(true)
    }

    /// Whether no key of the run is within the limits.
    fn is_apart(&self) -> bool {
        let Some(limits) = &self.limits else { return false };
        limits.end_before(&self.run.meta().smallest) || self.run.meta().largest < limits.low
    }

    /// Whether all keys behind the leaf where the cursor is lie behind the limits.
    fn ends_here(&self) -> bool {
        let Some(high) = self.limits.as_ref().and_then(|limits| limits.high.as_deref()) else { return false };
        let index = self.index();
        let (separators, at) = if self.slot < index.count() { (index, self.slot) } else { (self.run.top(), self.part) };
        separators.compare_key(at, high).is_ge()
    }

    /// Whether all keys before the leaf where the cursor is lie before the limits.
    fn begins_here(&self) -> bool {
        let Some(limits) = &self.limits else { return false };
        let before = match (self.slot.checked_sub(1), self.part.checked_sub(1)) {
            (Some(slot), _) => self.index().compare_key(slot, &limits.low),
            (None, Some(part)) => self.run.top().compare_key(part, &limits.low),
            (None, None) => return true,
        };
        before.is_lt()
    }

    fn guarded(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let gone = go(self);
        if gone.is_err() {
            self.here.leave();
        }
        self.sticky_error.guard(gone)
    }

    /// Goes to index part `part`, which must be there.
    fn load_part(&mut self, part: usize) -> Result<()> {
        if self.part == part {
            return Ok(());
        }
        if self.run.pinned_part(part).is_none() {
            let read = BlocksRead::so_far();
            self.fetched = Some(self.run.index_part(part, self.fill)?);
            self.costs.blocks_read += read.since();
        }
        self.costs.blocks += 1;
        self.part = part;
        Ok(())
    }

    /// The index part where the cursor is.
    fn index(&self) -> &Block {
        index_of(&self.run, &self.fetched, self.part)
    }

    /// The leaf of entry `slot` of the index part where the cursor is: it goes there.
    fn load_leaf(&mut self, slot: usize) -> Result<Block> {
        let Self { run, readahead, limits, fetched, part, .. } = self;
        let index = || index_of(run, fetched, *part);
        let place = run.leaf_at(index(), *part, slot)?;
        let pointer = place.0;
        let (leaf, is_cached) = readahead.leaf(run, place, || wanted(run, limits.as_deref(), index()))?;
        self.is_cached = is_cached;
        self.run.check_leaf(pointer, &leaf)?;
        self.costs.blocks += 1;
        self.slot = slot;
        Ok(leaf)
    }

    /// Asks for the memory of a leaf of the index part where the cursor is, if it is at hand.
    #[inline]
    fn follow(&self, slot: usize) {
        if self.fill == Fill::Keep {
            self.run.trace(self.part, slot).inspect(|trace| _ = trace.swip().follow());
        }
    }

    /// Goes to one end of index part `part`.
    fn enter_part(&mut self, part: usize, to: To) -> Result<()> {
        self.load_part(part)?;
        let slot = match to {
            To::First => 0,
            To::Last => self.index().count() - 1,
        };
        self.enter_leaf(slot, to)
    }

    /// Goes to one end of the leaf of entry `slot` of the index part.
    fn enter_leaf(&mut self, slot: usize, to: To) -> Result<()> {
        self.follow(slot);
        let leaf = self.load_leaf(slot)?;
        if self.is_cached && self.readahead.goes_on() {
            self.ask_ahead(to);
        }
        let at = match to {
            To::First => 0,
            To::Last => leaf.count() - 1,
        };
        self.here.stand(leaf, at);
        Ok(())
    }

    /// Asks for the leaf that a walk comes to next.
    fn ask_ahead(&self, to: To) {
        let next = match to {
            To::First => self.slot + 1,
            To::Last => self.slot.wrapping_sub(1),
        };
        if next < self.index().count()
            && let Ok((pointer, swip)) = self.run.leaf_at(self.index(), self.part, next)
            && !swip.is_some_and(SwipOf::follow)
        {
            self.run.cache().prefetch_step(self.run.file().instance(), pointer);
        }
    }

    /// Goes to the first entry behind the leaf where the cursor is.
    fn after_leaf(&mut self) -> Result<()> {
        self.here.leave();
        if self.ends_here() {
            Ok(())
        } else if self.slot + 1 < self.index().count() {
            self.enter_leaf(self.slot + 1, To::First)
        } else if self.part + 1 < self.run.top().count() {
            self.enter_part(self.part + 1, To::First)
        } else {
            Ok(())
        }
    }

    /// Goes to the last entry before the leaf where the cursor is.
    fn before_leaf(&mut self) -> Result<()> {
        self.here.leave();
        if self.begins_here() {
            Ok(())
        } else if self.slot > 0 {
            self.enter_leaf(self.slot - 1, To::Last)
        } else if self.part > 0 {
            self.enter_part(self.part - 1, To::Last)
        } else {
            Ok(())
        }
    }

    /// Goes over the edge of the leaf where the cursor is.
    #[cold]
    fn go_over(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.part == NO_PART { Ok(()) } else { self.guarded(go) }
    }
}

/// Part `part` of the index of `run`, which keeps it, or else it was fetched.
#[inline]
fn index_of<'c>(run: &'c Run, fetched: &'c Option<Block>, part: usize) -> &'c Block {
    run.pinned_part(part).or(fetched.as_ref()).expect("the part was loaded")
}

/// The part of the file where leaves within the limits lie, as far as this part of the index knows.
pub(super) fn wanted(run: &Run, limits: Option<&Limits>, index: &Block) -> Range<u64> {
    let mut wanted = 0..run.leaves_end();
    let Some(limits) = limits else { return wanted };
    let leaf_of = |key: &[u8]| {
        let slot = index.lower_bound(key);
        if slot < index.count() { run.pointer(index, slot).ok() } else { None }
    };
    if let Some(first) = leaf_of(&limits.low).filter(|_| index.compare_key(0, &limits.low).is_lt()) {
        wanted.start = first.offset;
    }
    if let Some(last) = limits.high.as_deref().and_then(leaf_of) {
        wanted.end = last.end();
    }
    wanted
}

impl Cursor for RunCursor {
    fn first(&mut self) -> Result<()> {
        self.absolute(|cursor| cursor.enter_part(0, To::First))
    }

    fn last(&mut self) -> Result<()> {
        self.absolute(|cursor| cursor.enter_part(cursor.run.top().count() - 1, To::Last))
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.lazy_seek_ge(key)?;
        self.here.resolve();
        Ok(())
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.absolute(|cursor| {
            if !cursor.find_slot(key)? {
                let last = if cursor.part == NO_PART { cursor.run.top().count() - 1 } else { cursor.part };
                return cursor.enter_part(last, To::Last);
            }
            cursor.follow(cursor.slot);
            let leaf = cursor.load_leaf(cursor.slot)?;
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
        self.limits = Some(Arc::clone(limits));
        self.has_prefix = None;
    }

    fn costs(&self) -> Costs {
        Costs { blocks_read: self.costs.blocks_read + self.readahead.leaves_read(), ..self.costs }
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
                _ if cursor.find_slot(key)? => {
                    cursor.follow(cursor.slot);
                    let leaf = cursor.load_leaf(cursor.slot)?;
                    leaf.prefetch_search();
                    let bound = leaf.bound(key);
                    leaf.prefetch_entries(bound);
                    (leaf, bound)
                }
                _ if cursor.part == NO_PART => return Ok(()),
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
            SeekProgress::Away => self.seek_step_index(key),
            SeekProgress::Part(bound) => self.seek_step_slot(bound, key),
            SeekProgress::Slot => self.seek_step_leaf(key),
            SeekProgress::Leaf(..) | SeekProgress::Left => return false,
        };
        self.progress = gone.unwrap_or(SeekProgress::Left);
        matches!(self.progress, SeekProgress::Part(_) | SeekProgress::Slot)
    }
}

impl MergeSource for RunCursor {
    fn position(&self) -> Option<Position> {
        (!self.is_nowhere()).then(|| Position { run: 0, part: self.part, leaf: self.slot, at: self.here.at() })
    }

    #[inline]
    fn leaf(&self) -> Option<Leaf<'_>> {
        let block = self.here.leaf_if_first()?;
        let frame = if self.is_cached { None } else { self.readahead.frame() };
        (self.fill == Fill::Merge).then_some(Leaf { block, frame, is_cached: self.is_cached })
    }

    fn skip_leaf(&mut self) -> Result<()> {
        if self.is_nowhere() { self.sticky_error.check() } else { self.go_over(Self::after_leaf) }
    }

    fn swap_leaf_cursor(&mut self, place: &mut LeafCursor) {
        std::mem::swap(&mut self.here, place);
    }

    fn seqnum_bounds(&self) -> SeqnumBounds {
        self.run.seqnum_bounds()
    }

    #[inline]
    fn is_cached(&self) -> bool {
        self.is_cached
    }
}

impl fmt::Debug for RunCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunCursor").field("run", &self.run).field("here", &self.here).finish_non_exhaustive()
    }
}
