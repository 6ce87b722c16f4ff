//! A walk over a key range in one direction, with a transaction's own writes laid over what a snapshot sees.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::base::num::u64_of;
use crate::base::shared_map::Item;
use crate::base::{Result, SeqNum, Value};
use crate::cache::Fill;
use crate::db::state::table::TableState;
use crate::table::Version;
use crate::tree::merge::MergeCursor;
use crate::tree::operator::TableOperator;
use crate::tree::range_tombstone::TombstoneLayers;
use crate::tree::{Costs, Limits};
use crate::txn::snapshot_iter::{ReadContext, SnapshotIter};

use super::key_writes::KeyWrites;
use super::own_writes::{OwnWalk, OwnWrites};

/// The direction of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    pub(crate) const fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// What of an entry is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Key,
    All,
}

/// What walks are over: a table as a snapshot, and perhaps a transaction, sees it.
pub(crate) struct Source {
    pub(crate) table: Arc<TableState>,
    pub(crate) version: Arc<Version>,
    pub(crate) seqnum: SeqNum,
    /// The transaction's writes as they were when the range was made, and what they hide.
    pub(crate) own: Option<Box<(OwnWrites, TombstoneLayers)>>,
}

/// The entries of a key range in key order, ascending or descending.
///
/// It holds no handle of its table: [`Walk::leave`] is to be called before it is dropped, so that its costs are
/// counted.
pub(crate) struct Walk {
    /// What the snapshot sees in the range; `None` at its end, when its costs are counted.
    visible: Option<Box<SnapshotIter<MergeCursor>>>,
    /// Whether `visible` stands on an entry that was not shown yet.
    ready: bool,
    /// Whether it goes over another range after the end of this one, and then what was `visible`.
    kept: bool,
    parked: Option<Box<SnapshotIter<MergeCursor>>>,
    direction: Direction,
    /// Folds the operands among `writes`.
    operator: TableOperator,
    /// The transaction's writes in the range, if there are any.
    writes: Option<Box<OwnWalk>>,
    shown: Shown,
    /// The transaction's own write that was shown last, and the value that it makes.
    own: Option<(Arc<Item<KeyWrites>>, Value)>,
    /// How many of its trees are small memtables, and how many are views.
    small: u64,
    views: u64,
}

/// Where the entry that was shown last is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// Where `visible` stands.
    Visible,
    /// It is the transaction's own.
    Own,
}

impl Source {
    /// A walk over the part of the source that lies within `limits`.
    pub(crate) fn walk(&self, limits: Arc<Limits>, direction: Direction) -> Walk {
        let Self { table, version, seqnum, own } = self;
        let erased = own.as_ref().map(|own| &own.1).filter(|hidden| !hidden.is_empty());
        let cursor = match erased {
            None => version.cursor(Fill::Keep, *seqnum),
            Some(erased) => version.cursor_without(erased, Fill::Keep, *seqnum),
        };
        let own = own.as_ref().map(|own| own.0.walk(Limits::clone(&limits), direction == Direction::Backward));
        let known = ReadContext { operator: table.callbacks.operator.clone(), values: version.trees.values.clone() };
        Walk {
            visible: Some(Box::new(SnapshotIter::new(cursor, *seqnum, limits, known))),
            ready: false,
            kept: false,
            parked: None,
            direction,
            operator: table.callbacks.operator.clone(),
            writes: own.map(Box::new),
            shown: Shown::Nothing,
            own: None,
            small: u64_of(version.count_small()),
            views: u64::from(erased.is_none() && version.reads_view(*seqnum)),
        }
    }
}

impl Walk {
    /// The walk, which goes over another range after the end of this one.
    pub(super) fn kept(mut self) -> Self {
        self.kept = true;
        self
    }

    /// Goes over another part of the source, to which the walk belongs and which it has not left.
    pub(super) fn restart(&mut self, source: &Source, limits: Arc<Limits>) {
        let backward = self.direction == Direction::Backward;
        self.writes = source.own.as_ref().map(|own| Box::new(own.0.walk(Limits::clone(&limits), backward)));
        (self.shown, self.own, self.ready) = (Shown::Nothing, None, false);
        self.visible = self.visible.take().or_else(|| self.parked.take());
        self.visible.iter_mut().for_each(|visible| visible.restart(Arc::clone(&limits)));
    }

    /// Whether it has left what the snapshot sees.
    pub(super) fn has_left(&self) -> bool {
        self.visible.is_none()
    }

    /// Goes on to the next entry, or returns false at the end. `table` is that of the source.
    #[inline]
    pub(crate) fn go(&mut self, want: Want, table: &TableState) -> Result<bool> {
        self.shown = self.step(want, table)?;
        Ok(self.shown != Shown::Nothing)
    }

    /// Goes on to the next entries that lie in the same leaf, after a step forward that led to an entry, as long as
    /// `take` wants more; whether it ended because `take` wants no more. A transaction's own writes leave that to
    /// [`Walk::go`].
    #[inline]
    pub(crate) fn each_in_leaf(&mut self, take: &mut impl FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        match &mut self.visible {
            Some(visible) if self.writes.is_none() && self.direction == Direction::Forward => {
                visible.each_in_leaf(take)
            }
            _ => Ok(false),
        }
    }

    /// The key of the entry that was shown last.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match (self.shown, &self.visible) {
            (Shown::Visible, Some(visible)) => Some(visible.key()),
            (Shown::Own, _) => self.own.as_ref().map(|(write, _)| &*write.0),
            _ => None,
        }
    }

    /// The entry that was shown last, when its value was wanted.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        match (self.shown, &self.visible) {
            (Shown::Visible, Some(visible)) => Some(visible.entry()),
            (Shown::Own, _) => self.own.as_ref().map(|(write, value)| (&*write.0, &**value)),
            _ => None,
        }
    }

    /// As [`Self::entry`], owned.
    #[inline]
    pub(crate) fn owned(&self) -> Option<(Vec<u8>, Value)> {
        match (self.shown, &self.visible) {
            (Shown::Visible, Some(visible)) => Some((visible.key().to_vec(), visible.value())),
            (Shown::Own, _) => self.own.as_ref().map(|(write, value)| (write.0.clone(), value.clone())),
            _ => None,
        }
    }

    /// Leaves what the snapshot sees, whose costs are counted in its table, which pays for more trees than one.
    pub(crate) fn leave(&mut self, table: &TableState) {
        let Some(mut visible) = self.visible.take().or_else(|| self.parked.take()) else { return };
        let (costs, sources) = (visible.costs(), u64_of(visible.cursor().sources()));
        table.reads.walked(sources, &costs);
        // A view costs a walk as much as two trees.
        let trees = (sources + self.views).saturating_sub(costs.filter_stops);
        let costs = Costs { trees, small: self.small, blocks_read: visible.sought_blocks_read(), ..costs };
        let skips = visible.take_tombstone_stats();
        table.charges.pay_walk(&costs, visible.limits().any_key(), skips);
    }

    #[inline]
    fn step(&mut self, want: Want, table: &TableState) -> Result<Shown> {
        loop {
            if !self.ready {
                self.ready = self.step_visible(table)?;
            }
            let Some(writes) = &mut self.writes else { return self.show_visible(want) };
            let at = self.visible.as_ref().map(|visible| visible.key());
            let Some((write, order)) = writes.before(at) else {
                writes.shows(at);
                return self.show_visible(want);
            };
            writes.pass();
            // The snapshot's entry lies under the write.
            self.ready &= order == Ordering::Less;
            let below = self.visible.as_mut().filter(|_| order == Ordering::Equal);
            let below = || below.map(|visible| visible.fetch().map(|()| visible.value())).transpose();
            match write.1.over(&write.0, below, &self.operator)? {
                Some(value) => {
                    writes.shows(Some(&write.0));
                    self.own = Some((write, value));
                    return Ok(Shown::Own);
                }
                None => writes.removes(&write.0),
            }
        }
    }

    /// Goes on to the snapshot's next entry; false where there is none.
    #[inline]
    fn step_visible(&mut self, table: &TableState) -> Result<bool> {
        let Some(visible) = &mut self.visible else { return Ok(false) };
        let more = match self.direction {
            Direction::Forward => visible.next()?,
            Direction::Backward => visible.prev()?,
        };
        if !more && self.kept {
            self.parked = self.visible.take();
        } else if !more {
            self.leave(table);
        }
        Ok(more)
    }

    /// Shows the snapshot's entry, if it is at one.
    #[inline]
    fn show_visible(&mut self, want: Want) -> Result<Shown> {
        let Some(visible) = &mut self.visible else { return Ok(Shown::Nothing) };
        self.ready = false;
        if want == Want::All {
            visible.fetch()?;
        }
        Ok(Shown::Visible)
    }
}
