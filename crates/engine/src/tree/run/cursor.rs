//! A cursor over one run.

use super::Run;
use super::ahead::ReadAhead;
use super::fuse::Fuse;
use crate::base::{Entry, Result, Value};
use crate::block::Block;
use crate::cache::Fill;
use crate::tree::branch::Trace;
use crate::tree::place::Place;
use crate::tree::{Ages, Costs, Cursor, Limits};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A cursor over the entries of one run.
///
/// # Invariants
/// 1. When it stands on an entry, its leaf is that of entry `leaf_slot` of `index`.
pub struct RunCursor {
    run: Arc<Run>,
    ahead: ReadAhead,
    fill: Fill,
    fuse: Fuse,
    /// A part of the index, and its number.
    index: Option<(usize, Block)>,
    leaf_slot: usize,
    here: Place,
    /// The leaf was in the cache.
    is_cached: bool,
    limits: Option<Arc<Limits>>,
    /// What the filter said to the prefix of the limits, once it was asked.
    has_prefix: Option<bool>,
    /// What was looked at so far.
    costs: Costs,
    /// How far a seek has come before it was begun.
    approach: Approach,
}

/// How far a cursor has come towards the first entry that is not below a key.
#[derive(Debug, Default)]
enum Approach {
    /// Nowhere yet.
    #[default]
    Away,
    /// To where the leaf of entry `slot` of index part `part` is, if that is known, and else to where the cache knows of it.
    Slot { part: usize, slot: usize },
    /// As far as it goes: to a leaf, unless there is a reason to leave the rest to the seek.
    Done(Option<LeafOf>),
}

/// A leaf, and the part and the entry of the index that lead to it.
type LeafOf = (usize, usize, Block);

/// Where in a leaf to go.
#[derive(Clone, Copy)]
enum To {
    First,
    Last,
}

impl RunCursor {
    /// A cursor that stands nowhere.
    pub(super) fn new(run: Arc<Run>, fill: Fill) -> Self {
        Self {
            run,
            ahead: ReadAhead::new(fill),
            fill,
            fuse: Fuse::default(),
            index: None,
            leaf_slot: 0,
            here: Place::nowhere(),
            is_cached: false,
            limits: None,
            has_prefix: None,
            costs: Costs::default(),
            approach: Approach::Away,
        }
    }

    /// Moves to another run, nowhere there, and keeps the buffers.
    pub(super) fn change_run(&mut self, run: &Arc<Run>) {
        if !Arc::ptr_eq(&self.run, run) {
            self.run = Arc::clone(run);
            self.ahead.reset();
            self.index = None;
            self.has_prefix = None;
        }
        self.here.leave();
        self.approach = Approach::Away;
    }

    /// Whether the cursor stands on no entry.
    #[inline]
    pub(super) const fn is_nowhere(&self) -> bool {
        self.here.is_nowhere()
    }

    /// Runs a move that starts from nowhere, and fuses the cursor if it fails.
    fn absolute(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.fuse.check()?;
        self.here.leave();
        self.approach = Approach::Away;
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
        let has_prefix = self.run.may_contain(hash)?;
        self.has_prefix = Some(has_prefix);
        self.costs.filter_stops += u64::from(!has_prefix);
        if has_prefix {
            go(self)?;
            let within = self.limits.as_ref().is_some_and(|limits| limits.contain(self.here.key()));
            self.costs.filter_misses += u64::from(self.is_nowhere() || !within);
        }
        Ok(())
    }

    /// Goes a step on, and asks for the memory that the next one looks at.
    fn approach_from(&mut self, approach: Approach, key: &[u8]) -> Result<Approach> {
        Ok(match approach {
            Approach::Away => {
                self.here.leave();
                let asks_filter =
                    |limits: &Arc<Limits>| limits.prefix.is_some_and(|(rule, _)| self.run.knows_prefixes(rule));
                if self.fill != Fill::Keep || self.is_apart() || self.limits.as_ref().is_some_and(asks_filter) {
                    return Ok(Approach::Done(None));
                }
                let part = self.run.top().lower_bound(key);
                if part == self.run.top().count() {
                    return Ok(Approach::Done(None));
                }
                let index = self.load_part(part)?;
                let slot = index.lower_bound(key);
                if slot == index.count() {
                    return Ok(Approach::Done(None));
                }
                self.run.trace(part, slot).inspect(|trace| _ = trace.follow());
                self.run.cache().prefetch_line(self.run.file().instance(), self.run.pointer(&index, slot)?);
                Approach::Slot { part, slot }
            }
            Approach::Slot { part, slot } => {
                let index = self.load_part(part)?;
                let leaf = self.load_leaf(part, &index, slot)?;
                leaf.prefetch_search();
                leaf.prefetch_entry(key);
                Approach::Done(Some((part, slot, leaf)))
            }
            done @ Approach::Done(_) => done,
        })
    }

    /// Whether no key of the run is within the limits.
    fn is_apart(&self) -> bool {
        let Some(limits) = &self.limits else { return false };
        limits.end_before(&self.run.meta().smallest) || self.run.meta().largest < limits.low
    }

    /// Whether all keys behind the leaf of entry `slot` of index part `part` lie behind the limits.
    fn ends_with(&self, part: usize, index: &Block, slot: usize) -> bool {
        let Some(high) = self.limits.as_ref().and_then(|limits| limits.high.as_deref()) else { return false };
        let (separators, at) = if slot < index.count() { (index, slot) } else { (self.run.top(), part) };
        separators.compare_key(at, high).is_ge()
    }

    /// Whether all keys before the leaf of entry `slot` of index part `part` lie before the limits.
    fn begins_with(&self, part: usize, index: &Block, slot: usize) -> bool {
        let Some(limits) = &self.limits else { return false };
        let before = match (slot.checked_sub(1), part.checked_sub(1)) {
            (Some(slot), _) => index.compare_key(slot, &limits.low),
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
        self.fuse.guard(gone)
    }

    /// Index part `part`, which must be there.
    fn load_part(&mut self, part: usize) -> Result<Block> {
        match &self.index {
            Some((here, index)) if *here == part => Ok(index.clone()),
            _ => {
                let index = self.run.index_part(part, self.fill)?;
                self.costs.blocks += 1;
                self.index = Some((part, index.clone()));
                Ok(index)
            }
        }
    }

    /// The leaf of entry `slot` of `index`, which is part `part`.
    fn load_leaf(&mut self, part: usize, index: &Block, slot: usize) -> Result<Block> {
        let pointer = self.run.pointer(index, slot)?;
        let Self { run, ahead, limits, .. } = self;
        let trace = run.trace(part, slot).filter(|_| self.fill == Fill::Keep);
        trace.inspect(|trace| _ = trace.follow());
        let (leaf, is_cached) = ahead.leaf(run, pointer, || wanted(run, limits.as_deref(), index))?;
        trace.inspect(|trace| trace.found(&leaf));
        self.is_cached = is_cached;
        self.run.check_leaf(pointer, &leaf)?;
        self.costs.blocks += 1;
        self.leaf_slot = slot;
        Ok(leaf)
    }

    /// Goes to one end of index part `part`.
    fn enter_part(&mut self, part: usize, to: To) -> Result<()> {
        let index = self.load_part(part)?;
        let slot = match to {
            To::First => 0,
            To::Last => index.count() - 1,
        };
        self.enter_leaf(part, &index, slot, to)
    }

    /// Goes to one end of the leaf of entry `slot` of index part `part`.
    fn enter_leaf(&mut self, part: usize, index: &Block, slot: usize, to: To) -> Result<()> {
        let leaf = self.load_leaf(part, index, slot)?;
        if self.is_cached && self.ahead.goes_on() {
            self.ask_ahead(part, index, slot, to);
        }
        let at = match to {
            To::First => 0,
            To::Last => leaf.count() - 1,
        };
        self.here.stand(leaf, at);
        Ok(())
    }

    /// Asks for the leaf that a walk comes to next.
    fn ask_ahead(&self, part: usize, index: &Block, slot: usize, to: To) {
        let (cache, instance) = (self.run.cache(), self.run.file().instance());
        let next = match to {
            To::First => slot + 1,
            To::Last => slot.wrapping_sub(1),
        };
        if next < index.count()
            && let Ok(pointer) = self.run.pointer(index, next)
        {
            if self.run.trace(part, next).is_some_and(Trace::follow) {
                cache.prefetch_line(instance, pointer);
            } else {
                cache.approach(instance, pointer);
            }
        }
    }

    /// Goes to the first entry behind the leaf of entry `slot` of index part `part`.
    fn after_leaf(&mut self, part: usize, index: &Block, slot: usize) -> Result<()> {
        self.here.leave();
        if self.ends_with(part, index, slot) {
            Ok(())
        } else if slot + 1 < index.count() {
            self.enter_leaf(part, index, slot + 1, To::First)
        } else if part + 1 < self.run.top().count() {
            self.enter_part(part + 1, To::First)
        } else {
            Ok(())
        }
    }

    /// Goes to the last entry before the leaf of entry `slot` of index part `part`.
    fn before_leaf(&mut self, part: usize, index: &Block, slot: usize) -> Result<()> {
        self.here.leave();
        if self.begins_with(part, index, slot) {
            Ok(())
        } else if slot > 0 {
            self.enter_leaf(part, index, slot - 1, To::Last)
        } else if part > 0 {
            self.enter_part(part - 1, To::Last)
        } else {
            Ok(())
        }
    }

    /// Goes over the edge of the leaf where the cursor is.
    #[cold]
    fn leave_leaf(&mut self, go: impl FnOnce(&mut Self, usize, &Block, usize) -> Result<()>) -> Result<()> {
        match self.index.clone() {
            Some((part, index)) => self.guarded(|cursor| go(cursor, part, &index, cursor.leaf_slot)),
            None => Ok(()),
        }
    }
}

/// The part of the file where leaves within the limits lie, as far as this part of the index knows.
fn wanted(run: &Run, limits: Option<&Limits>, index: &Block) -> Range<u64> {
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
        let approach = std::mem::take(&mut self.approach);
        self.absolute(|cursor| {
            let (part, slot, leaf) = match approach {
                Approach::Done(Some(place)) => place,
                _ => {
                    let part = cursor.run.top().lower_bound(key);
                    if part == cursor.run.top().count() {
                        return Ok(());
                    }
                    let index = cursor.load_part(part)?;
                    let slot = index.lower_bound(key);
                    if slot == index.count() {
                        return cursor.after_leaf(part, &index, slot);
                    }
                    let leaf = cursor.load_leaf(part, &index, slot)?;
                    leaf.prefetch_search();
                    leaf.prefetch_entries(key);
                    (part, slot, leaf)
                }
            };
            match leaf.lower_bound(key) {
                // The separator may be above the last key of its leaf.
                at if at == leaf.count() => {
                    let index = cursor.load_part(part)?;
                    cursor.after_leaf(part, &index, slot)
                }
                at => {
                    cursor.here.stand(leaf, at);
                    Ok(())
                }
            }
        })
    }

    fn approach_ge(&mut self, key: &[u8]) -> bool {
        let approach = std::mem::take(&mut self.approach);
        self.approach = self.approach_from(approach, key).unwrap_or(Approach::Done(None));
        !matches!(self.approach, Approach::Done(_))
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.absolute(|cursor| {
            let part = cursor.run.top().lower_bound(key);
            if part == cursor.run.top().count() {
                return cursor.enter_part(part - 1, To::Last);
            }
            let index = cursor.load_part(part)?;
            let slot = index.lower_bound(key);
            if slot == index.count() {
                return cursor.enter_leaf(part, &index, slot - 1, To::Last);
            }
            let leaf = cursor.load_leaf(part, &index, slot)?;
            match leaf.lower_bound(key) {
                0 => cursor.before_leaf(part, &index, slot),
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
        if self.is_nowhere() { self.fuse.check() } else { self.leave_leaf(Self::after_leaf) }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.here.prev_entry() {
            return Ok(());
        }
        if self.is_nowhere() { self.fuse.check() } else { self.leave_leaf(Self::before_leaf) }
    }

    fn limit(&mut self, limits: &Arc<Limits>) {
        self.limits = Some(Arc::clone(limits));
        self.has_prefix = None;
    }

    fn exchange(&mut self, place: &mut Place) {
        std::mem::swap(&mut self.here, place);
    }

    fn ages(&self) -> Ages {
        self.run.ages()
    }

    fn costs(&self) -> Costs {
        self.costs
    }

    #[inline]
    fn is_cached(&self) -> bool {
        self.is_cached
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.here.entry()
    }

    fn value(&self) -> Option<Value> {
        self.here.value()
    }
}

impl fmt::Debug for RunCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunCursor").field("run", &self.run).field("entry", &self.entry()).finish_non_exhaustive()
    }
}
