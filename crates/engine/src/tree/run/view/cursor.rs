//! A cursor over a view.

use super::reader::{Spot, View};
use super::seats::Seats;
use crate::base::{Entry, Result, Value};
use crate::block::Bound;
use crate::cache::Fill;
use crate::tree::branch::Trace;
use crate::tree::cost::Costs;
use crate::tree::cursor::{Ages, Cursor, KeyCursor, LazySeek, Limits, MergeSource};
use crate::tree::place::{Near, Place};
use crate::tree::run::fuse::Fuse;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A cursor over the entries of all trees of a view: the view says where the next one lies.
///
/// # Invariants
/// 1. `here` is in the leaf of the seat of `tree`, if there is one; the other seats have theirs.
pub struct ViewCursor {
    view: Arc<View>,
    fill: Fill,
    fuse: Fuse,
    stand: Stand,
    seats: Seats,
    tree: Option<usize>,
    here: Place,
    limits: Option<Arc<Limits>>,
    approach: Approach,
}

/// Where the cursor stands.
#[derive(Clone, Copy, Debug)]
enum Stand {
    Nowhere,
    /// Near this entry, which it has not looked at.
    Near(Spot),
    On(Spot),
}

/// How far a seek has come before it was begun.
#[derive(Clone, Copy, Debug)]
enum Approach {
    Away,
    /// To a group.
    Group(Spot),
    /// In that group as far as its heads tell.
    Bound(Spot, Bound),
    /// To where the leaves of its first entries are at hand.
    Followed(Spot, Bound),
    /// The rest is for the seek.
    Left(Spot, Bound),
    /// To the end.
    End,
}

/// A seek asks for the leaves of so many entries behind the one that it comes to: a short walk is likely to come to
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
    /// A cursor that stands nowhere.
    pub(super) fn new(view: Arc<View>, fill: Fill) -> Self {
        let seats = Seats::new(view.trees.len(), fill);
        let (fuse, stand, here, approach) = (Fuse::default(), Stand::Nowhere, Place::nowhere(), Approach::Away);
        Self { view, fill, fuse, stand, seats, tree: None, here, limits: None, approach }
    }

    /// The first entry from this group on, where `key` has this bound, that is not below it.
    fn find_in(&mut self, group: Spot, bound: Bound, key: &[u8]) -> Result<Option<Spot>> {
        let (mut low, mut high) = (bound.at, bound.at);
        if !bound.sure {
            high += self.view.group(group).ties(low);
        }
        while low < high {
            let middle = low.midpoint(high);
            self.stand_on(Spot { at: middle, ..group })?;
            if self.key().is_some_and(|here| here < key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let spot = Spot { at: low, ..group };
        Ok(if low < self.view.group(group).count() { Some(spot) } else { self.view.after_group(group) })
    }

    /// Looks at an entry.
    fn stand_on(&mut self, spot: Spot) -> Result<()> {
        self.stand = Stand::Nowhere;
        self.fuse.check()?;
        let (tree, run, position) = self.view.run_of(self.view.lie(spot));
        let stands = if self.tree == Some(tree) && self.seats.are_at(tree, position) {
            self.here.go_to(position.at)
        } else {
            if let Some(left) = self.tree.take() {
                self.seats.get_back(left, &mut self.here);
            }
            if !self.seats.are_at(tree, position) {
                let come = self.seats.come(tree, run, position, self.limits.as_deref());
                self.fuse.guard(come)?;
            }
            self.seats.lend(tree, &mut self.here);
            self.tree = Some(tree);
            self.here.stand_in(position.at)
        };
        if !stands {
            let changed = self.seats.changed(tree, run, position);
            self.fuse.guard(Err(changed))?;
        }
        self.stand = Stand::On(spot);
        Ok(())
    }

    /// Goes to an entry, if there is one.
    fn go(&mut self, spot: Option<Spot>) -> Result<()> {
        match spot {
            Some(spot) => self.stand_on(spot),
            None => {
                self.stand = Stand::Nowhere;
                self.fuse.check()
            }
        }
    }

    /// Makes a move that does not start from where the cursor is.
    fn absolute(&mut self) -> Result<()> {
        (self.stand, self.approach) = (Stand::Nowhere, Approach::Away);
        self.fuse.check()
    }

    /// Whether the head of an entry tells that it, and so all behind it, lie behind the limits.
    fn ends_before(&self, spot: Spot) -> bool {
        let high = self.limits.as_ref().and_then(|limits| limits.high.as_deref());
        high.is_some_and(|high| self.view.group(spot).near(spot.at).order(high).is_gt())
    }

    /// Whether the head of an entry tells that it, and so all before it, lie before the limits.
    fn begins_behind(&self, spot: Spot) -> bool {
        let low = self.limits.as_ref().map(|limits| &*limits.low);
        low.is_some_and(|low| self.view.group(spot).near(spot.at).order(low).is_lt())
    }

    /// Where it stands, or is near to.
    const fn spot(&self) -> Option<Spot> {
        match self.stand {
            Stand::Nowhere => None,
            Stand::Near(spot) | Stand::On(spot) => Some(spot),
        }
    }

    /// Where the entry is on which it stands.
    #[inline]
    fn here(&self) -> Option<&Place> {
        matches!(self.stand, Stand::On(_)).then_some(&self.here)
    }

    /// Takes what leaves are at hand of those of some entries of a group, and asks for the entries.
    fn take(&mut self, Spot { part, group, .. }: Spot, entries: Range<usize>) {
        if self.fill != Fill::Keep {
            return;
        }
        let group = self.view.group(Spot { part, group, at: 0 });
        // Of two in one tree the first stays.
        for at in (entries.start..entries.end.min(group.count())).rev() {
            let (tree, run, position) = self.view.run_of(group.lie(at));
            if self.tree != Some(tree) {
                self.seats.take(tree, run, position);
            }
        }
    }

    /// Asks for memory of the leaves of the entries that a walk from this bound in a group comes to first, if they are
    /// in that group.
    fn ask_for(&self, group: Spot, bound: Bound, ask: impl Fn(Trace<'_>)) {
        if self.fill != Fill::Keep {
            return;
        }
        let group = self.view.group(group);
        for lie in (bound.at..group.count()).take(1 + AHEAD).map(|at| group.lie(at)) {
            let (_, run, position) = self.view.run_of(lie);
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
        self.near_ge(key)?;
        self.arrive()
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.absolute()?;
        let at_or_behind = match self.view.approach(key) {
            Some(group) => self.find_in(group, self.view.group(group).bound(key), key)?,
            None => None,
        };
        let before = at_or_behind.map_or_else(|| Some(self.view.last()), |spot| self.view.before(spot));
        self.go(before.filter(|spot| !self.begins_behind(*spot)))
    }

    fn next(&mut self) -> Result<()> {
        let next = self.spot().and_then(|spot| self.view.after(spot));
        self.go(next.filter(|spot| !self.ends_before(*spot)))
    }

    fn prev(&mut self) -> Result<()> {
        let before = self.spot().and_then(|spot| self.view.before(spot));
        self.go(before.filter(|spot| !self.begins_behind(*spot)))
    }

    fn limit(&mut self, limits: &Arc<Limits>) {
        self.limits = Some(Arc::clone(limits));
    }

    fn costs(&self) -> Costs {
        self.seats.costs()
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
        let Some(mut spot) = self.spot() else { return self.fuse.check().map(|()| 0) };
        let mut older = 0;
        while self.view.lie(spot).is_followed_by_same_key()
            && let Some(next) = self.view.after(spot)
        {
            (older, spot) = (older + 1, next);
        }
        if older > 0 {
            key.clear();
            key.extend_from_slice(self.key().unwrap_or_default());
        }
        let next = self.view.after(spot).filter(|spot| !self.ends_before(*spot));
        self.go(next).map(|()| older)
    }

    fn begins_key(&self) -> bool {
        let before = self.spot().and_then(|spot| self.view.before(spot));
        before.is_some_and(|before| !self.view.lie(before).is_followed_by_same_key())
    }
}

impl LazySeek for ViewCursor {
    fn approach_ge(&mut self, key: &[u8]) -> bool {
        self.approach = match self.approach {
            Approach::Away => match self.view.approach(key) {
                Some(group) => {
                    self.view.group(group).prefetch_lies();
                    Approach::Group(group)
                }
                None => Approach::End,
            },
            Approach::Group(group) => {
                let bound = self.view.group(group).bound(key);
                self.ask_for(group, bound, |trace| trace.prefetch());
                Approach::Bound(group, bound)
            }
            Approach::Bound(group, bound) => {
                self.ask_for(group, bound, |trace| _ = trace.swip().follow());
                Approach::Followed(group, bound)
            }
            Approach::Followed(group, bound) => {
                self.take(group, bound.at..bound.at + 1);
                Approach::Left(group, bound)
            }
            there @ (Approach::Left(..) | Approach::End) => there,
        };
        matches!(self.approach, Approach::Group(_) | Approach::Bound(..) | Approach::Followed(..))
    }

    fn near_ge(&mut self, key: &[u8]) -> Result<()> {
        let approach = self.approach;
        self.absolute()?;
        let group = match approach {
            Approach::Away => self.view.approach(key).map(|group| (group, None)),
            Approach::Group(group) => Some((group, None)),
            Approach::Bound(group, bound) | Approach::Followed(group, bound) | Approach::Left(group, bound) => {
                Some((group, Some(bound)))
            }
            Approach::End => None,
        };
        let Some((group, bound)) = group else { return Ok(()) };
        let bound = bound.unwrap_or_else(|| self.view.group(group).bound(key));
        let found = self.find_in(group, bound, key)?;
        self.stand = match (found.filter(|spot| !self.ends_before(*spot)), self.stand) {
            (None, _) => Stand::Nowhere,
            (Some(spot), Stand::On(here)) if here == spot => Stand::On(spot),
            (Some(spot), _) => Stand::Near(spot),
        };
        Ok(())
    }

    fn near(&self) -> Option<Near<'_>> {
        match self.stand {
            Stand::Near(spot) => Some(self.view.group(spot).near(spot.at)),
            Stand::Nowhere | Stand::On(_) => None,
        }
    }

    fn arrive(&mut self) -> Result<()> {
        match self.stand {
            Stand::Near(spot) => {
                self.stand_on(spot)?;
                self.take(spot, spot.at + 1..spot.at + 1 + AHEAD);
                Ok(())
            }
            Stand::Nowhere | Stand::On(_) => Ok(()),
        }
    }
}

impl MergeSource for ViewCursor {
    fn is_cached(&self) -> bool {
        self.here().and(self.tree).is_some_and(|tree| self.seats.is_cached(tree))
    }

    fn ages(&self) -> Ages {
        match self.stand {
            Stand::On(spot) => self.view.run_of(self.view.lie(spot)).1.ages(),
            Stand::Nowhere | Stand::Near(_) => Ages::UNKNOWN,
        }
    }
}

impl fmt::Debug for ViewCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewCursor").field("view", &self.view).field("stand", &self.stand).finish_non_exhaustive()
    }
}
