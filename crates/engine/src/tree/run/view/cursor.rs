//! A cursor over a view.

use super::reader::{SlotPos, View};
use super::run_cursors::RunCursors;
use crate::base::debug::debug_by;
use crate::base::{Entry, Result, Value};
use crate::block::Bound;
use crate::cache::Fill;
use crate::tree::branch::Trace;
use crate::tree::cost::Costs;
use crate::tree::cursor::{Cursor, KeyCursor, LazySeek, Limits, MergeSource, SeqnumBounds};
use crate::tree::leaf_cursor::{KeyBound, LeafCursor};
use crate::tree::run::sticky_error::StickyError;
use std::ops::Range;
use std::sync::Arc;

/// A cursor over the entries of all trees of a view: the view says where the next one lies.
///
/// # Invariants
/// 1. `here` is in the leaf of the seat of `tree`, if there is one; the other seats have theirs.
pub struct ViewCursor {
    view: Arc<View>,
    fill: Fill,
    sticky_error: StickyError,
    state: State,
    run_cursors: RunCursors,
    tree: Option<usize>,
    here: LeafCursor,
    limits: Option<Arc<Limits>>,
    progress: SeekProgress,
}

/// The position of the cursor.
#[derive(Clone, Copy, Debug)]
enum State {
    Nowhere,
    /// KeyBound this entry, which it has not looked at.
    KeyBound(SlotPos),
    On(SlotPos),
}

/// The progress of a seek that was prefetched.
#[derive(Clone, Copy, Debug)]
enum SeekProgress {
    Away,
    /// To a group.
    Group(SlotPos),
    /// In that group as far as its heads tell.
    Bound(SlotPos, Bound),
    /// To the swips of the leaves of its first entries.
    Followed(SlotPos, Bound),
    /// The rest is for the seek.
    Left(SlotPos, Bound),
    /// To the end.
    End,
}

/// Entries after the one that a seek finds whose leaves are prefetched: a short walk is likely to come to
/// them.
const AHEAD: usize = 3;

impl View {
    /// A cursor over the entries of all trees.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, fill: Fill) -> ViewCursor {
        ViewCursor::new(Arc::clone(self), fill)
    }
}

impl ViewCursor {
    /// A cursor positioned nowhere.
    pub(super) fn new(view: Arc<View>, fill: Fill) -> Self {
        let run_cursors = RunCursors::new(view.trees.len(), fill);
        let (sticky_error, state, here, progress) =
            (StickyError::default(), State::Nowhere, LeafCursor::nowhere(), SeekProgress::Away);
        Self { view, fill, sticky_error, state, run_cursors, tree: None, here, limits: None, progress }
    }

    /// The first entry from this group on, where `key` has this bound, that is not below it.
    fn find_in(&mut self, group: SlotPos, bound: Bound, key: &[u8]) -> Result<Option<SlotPos>> {
        let (mut low, mut high) = (bound.at, bound.at);
        if !bound.sure {
            high += self.view.group(group).ties(low);
        }
        while low < high {
            let middle = low.midpoint(high);
            self.stand_on(SlotPos { at: middle, ..group })?;
            if self.key().is_some_and(|here| here < key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let slot = SlotPos { at: low, ..group };
        Ok(if low < self.view.group(group).count() { Some(slot) } else { self.view.after_group(group) })
    }

    /// Looks at an entry.
    fn stand_on(&mut self, slot: SlotPos) -> Result<()> {
        self.state = State::Nowhere;
        self.sticky_error.check()?;
        let (tree, run, position) = self.view.run_of(self.view.locator(slot));
        let stands = if self.tree == Some(tree) && self.run_cursors.are_at(tree, position) {
            self.here.go_to(position.at)
        } else {
            if let Some(left) = self.tree.take() {
                self.run_cursors.get_back(left, &mut self.here);
            }
            if !self.run_cursors.are_at(tree, position) {
                let come = self.run_cursors.come(tree, run, position, self.limits.as_deref());
                self.sticky_error.guard(come)?;
            }
            self.run_cursors.lend(tree, &mut self.here);
            self.tree = Some(tree);
            self.here.stand_in(position.at)
        };
        if !stands {
            let changed = self.run_cursors.changed(tree, run, position);
            self.sticky_error.guard(Err(changed))?;
        }
        self.state = State::On(slot);
        Ok(())
    }

    /// Goes to an entry, if there is one.
    fn go(&mut self, slot: Option<SlotPos>) -> Result<()> {
        match slot {
            Some(slot) => self.stand_on(slot),
            None => {
                self.state = State::Nowhere;
                self.sticky_error.check()
            }
        }
    }

    /// Makes a move that does not start from where the cursor is.
    fn absolute(&mut self) -> Result<()> {
        (self.state, self.progress) = (State::Nowhere, SeekProgress::Away);
        self.sticky_error.check()
    }

    /// Whether the head of an entry tells that it, and so all behind it, lie behind the limits.
    fn ends_before(&self, slot: SlotPos) -> bool {
        let high = self.limits.as_ref().and_then(|limits| limits.high.as_deref());
        high.is_some_and(|high| self.view.group(slot).key_bound(slot.at).order(high).is_gt())
    }

    /// Whether the head of an entry tells that it, and so all before it, lie before the limits.
    fn begins_behind(&self, slot: SlotPos) -> bool {
        let low = self.limits.as_ref().map(|limits| &*limits.low);
        low.is_some_and(|low| self.view.group(slot).key_bound(slot.at).order(low).is_lt())
    }

    /// The slot that it is at, or near.
    const fn slot(&self) -> Option<SlotPos> {
        match self.state {
            State::Nowhere => None,
            State::KeyBound(slot) | State::On(slot) => Some(slot),
        }
    }

    /// Where its current entry is.
    #[inline]
    fn here(&self) -> Option<&LeafCursor> {
        matches!(self.state, State::On(_)).then_some(&self.here)
    }

    /// Takes those leaves of some entries of a group that are in memory, and prefetches the entries.
    fn take(&mut self, SlotPos { part, group, .. }: SlotPos, entries: Range<usize>) {
        if self.fill != Fill::Keep {
            return;
        }
        let group = self.view.group(SlotPos { part, group, at: 0 });
        // Of two in one tree the first stays.
        for at in (entries.start..entries.end.min(group.count())).rev() {
            let (tree, run, position) = self.view.run_of(group.locator(at));
            if self.tree != Some(tree) {
                self.run_cursors.take(tree, run, position);
            }
        }
    }

    /// Prefetches from the leaves of the entries that a walk from this bound in a group shows first, if they are in
    /// that group.
    fn ask_for(&self, group: SlotPos, bound: Bound, ask: impl Fn(Trace<'_>)) {
        if self.fill != Fill::Keep {
            return;
        }
        let group = self.view.group(group);
        for locator in (bound.at..group.count()).take(1 + AHEAD).map(|at| group.locator(at)) {
            let (_, run, position) = self.view.run_of(locator);
            run.trace(position.part, position.leaf).inspect(|trace| ask(*trace));
        }
    }
}

impl Cursor for ViewCursor {
    fn first(&mut self) -> Result<()> {
        self.absolute()?;
        self.stand_on(View::FIRST)
    }

    fn last(&mut self) -> Result<()> {
        self.absolute()?;
        self.stand_on(self.view.last())
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.lazy_seek_ge(key)?;
        self.resolve()
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.absolute()?;
        let at_or_behind = match self.view.prefetch_step(key) {
            Some(group) => self.find_in(group, self.view.group(group).bound(key), key)?,
            None => None,
        };
        let before = at_or_behind.map_or_else(|| Some(self.view.last()), |slot| self.view.before(slot));
        self.go(before.filter(|slot| !self.begins_behind(*slot)))
    }

    fn next(&mut self) -> Result<()> {
        let next = self.slot().and_then(|slot| self.view.after(slot));
        self.go(next.filter(|slot| !self.ends_before(*slot)))
    }

    fn prev(&mut self) -> Result<()> {
        let before = self.slot().and_then(|slot| self.view.before(slot));
        self.go(before.filter(|slot| !self.begins_behind(*slot)))
    }

    fn limit(&mut self, limits: &Arc<Limits>) {
        self.limits = Some(Arc::clone(limits));
    }

    fn costs(&self) -> Costs {
        self.run_cursors.costs()
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.here()?.entry()
    }

    fn key(&self) -> Option<&[u8]> {
        self.here()?.key()
    }

    fn value(&self) -> Option<Value> {
        self.here()?.value()
    }
}

impl KeyCursor for ViewCursor {
    fn next_key(&mut self, key: &mut Vec<u8>) -> Result<u64> {
        let Some(mut slot) = self.slot() else { return self.sticky_error.check().map(|()| 0) };
        let mut older = 0;
        while self.view.locator(slot).is_followed_by_same_key()
            && let Some(next) = self.view.after(slot)
        {
            (older, slot) = (older + 1, next);
        }
        if older > 0 {
            key.clear();
            key.extend_from_slice(self.key().unwrap_or_default());
        }
        let next = self.view.after(slot).filter(|slot| !self.ends_before(*slot));
        self.go(next).map(|()| older)
    }

    fn is_first_version(&self) -> bool {
        let before = self.slot().and_then(|slot| self.view.before(slot));
        before.is_some_and(|before| !self.view.locator(before).is_followed_by_same_key())
    }
}

impl LazySeek for ViewCursor {
    fn prefetch_seek_ge(&mut self, key: &[u8]) -> bool {
        self.progress = match self.progress {
            SeekProgress::Away => match self.view.prefetch_step(key) {
                Some(group) => {
                    self.view.group(group).prefetch_locators();
                    SeekProgress::Group(group)
                }
                None => SeekProgress::End,
            },
            SeekProgress::Group(group) => {
                let bound = self.view.group(group).bound(key);
                self.ask_for(group, bound, |trace| trace.prefetch());
                SeekProgress::Bound(group, bound)
            }
            SeekProgress::Bound(group, bound) => {
                self.ask_for(group, bound, |trace| _ = trace.swip.follow());
                SeekProgress::Followed(group, bound)
            }
            SeekProgress::Followed(group, bound) => {
                self.take(group, bound.at..bound.at + 1);
                SeekProgress::Left(group, bound)
            }
            there @ (SeekProgress::Left(..) | SeekProgress::End) => there,
        };
        matches!(self.progress, SeekProgress::Group(_) | SeekProgress::Bound(..) | SeekProgress::Followed(..))
    }

    fn lazy_seek_ge(&mut self, key: &[u8]) -> Result<()> {
        let progress = self.progress;
        self.absolute()?;
        let group = match progress {
            SeekProgress::Away => self.view.prefetch_step(key).map(|group| (group, None)),
            SeekProgress::Group(group) => Some((group, None)),
            SeekProgress::Bound(group, bound)
            | SeekProgress::Followed(group, bound)
            | SeekProgress::Left(group, bound) => Some((group, Some(bound))),
            SeekProgress::End => None,
        };
        let Some((group, bound)) = group else { return Ok(()) };
        let bound = bound.unwrap_or_else(|| self.view.group(group).bound(key));
        let found = self.find_in(group, bound, key)?;
        self.state = match (found.filter(|slot| !self.ends_before(*slot)), self.state) {
            (None, _) => State::Nowhere,
            (Some(slot), State::On(here)) if here == slot => State::On(slot),
            (Some(slot), _) => State::KeyBound(slot),
        };
        Ok(())
    }

    fn lazy_key(&self) -> Option<KeyBound<'_>> {
        match self.state {
            State::KeyBound(slot) => Some(self.view.group(slot).key_bound(slot.at)),
            State::Nowhere | State::On(_) => None,
        }
    }

    fn resolve(&mut self) -> Result<()> {
        match self.state {
            State::KeyBound(slot) => {
                self.stand_on(slot)?;
                self.take(slot, slot.at + 1..slot.at + 1 + AHEAD);
                Ok(())
            }
            State::Nowhere | State::On(_) => Ok(()),
        }
    }
}

impl MergeSource for ViewCursor {
    fn seqnum_bounds(&self) -> SeqnumBounds {
        match self.state {
            State::On(slot) => self.view.run_of(self.view.locator(slot)).1.seqnum_bounds(),
            State::Nowhere | State::KeyBound(_) => SeqnumBounds::UNKNOWN,
        }
    }
}

debug_by!(ViewCursor, self => view: self.view, state: self.state);
