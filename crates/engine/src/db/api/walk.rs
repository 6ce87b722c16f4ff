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
/// It holds no handle of its table: [`Walk::leave`] is to be called once before it is dropped, so that its costs are
/// counted.
pub(crate) struct Walk {
    /// What the snapshot sees in the range.
    visible: SnapshotIter<MergeCursor>,
    /// Whether `visible` stands on an entry that was not shown yet.
    ready: bool,
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
    #[inline]
    pub(crate) fn walk(&self, limits: Arc<Limits>, direction: Direction) -> Box<Walk> {
        let Self { table, version, seqnum, own } = self;
        let erased = own.as_ref().map(|own| &own.1).filter(|hidden| !hidden.is_empty());
        let cursor = match erased {
            None => version.cursor(Fill::Keep, *seqnum),
            Some(erased) => version.cursor_without(erased, Fill::Keep, *seqnum),
        };
        let own = own.as_ref().map(|own| own.0.walk(Limits::clone(&limits), direction == Direction::Backward));
        let known = ReadContext { operator: table.callbacks.operator.clone(), values: version.trees.values.clone() };
        Box::new(Walk {
            visible: SnapshotIter::new(cursor, *seqnum, limits, known),
            ready: false,
            direction,
            operator: table.callbacks.operator.clone(),
            writes: own.map(Box::new),
            shown: Shown::Nothing,
            own: None,
            small: u64_of(version.count_small()),
            views: u64::from(erased.is_none() && version.reads_view(*seqnum)),
        })
    }
}

impl Walk {
    /// Goes over another part of the source, to which the walk belongs.
    pub(super) fn restart(&mut self, source: &Source, limits: Arc<Limits>) {
        let backward = self.direction == Direction::Backward;
        self.writes = source.own.as_ref().map(|own| Box::new(own.0.walk(Limits::clone(&limits), backward)));
        (self.shown, self.own, self.ready) = (Shown::Nothing, None, false);
        self.visible.restart(limits);
    }

    /// Goes on to the next entry, or returns false at the end.
    #[inline]
    pub(crate) fn go(&mut self, want: Want) -> Result<bool> {
        self.shown = self.step(want)?;
        Ok(self.shown != Shown::Nothing)
    }

    /// Goes on to the next entries that lie in the same leaf, after a step forward that led to an entry, as long as
    /// `take` wants more; whether it ended because `take` wants no more. A transaction's own writes leave that to
    /// [`Walk::go`].
    #[inline]
    pub(crate) fn each_in_leaf(&mut self, take: &mut impl FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        if self.writes.is_some() || self.direction == Direction::Backward {
            return Ok(false);
        }
        self.visible.each_in_leaf(take)
    }

    /// The key of the entry that was shown last.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match self.shown {
            Shown::Visible => Some(self.visible.key()),
            Shown::Own => self.own.as_ref().map(|(write, _)| &*write.0),
            Shown::Nothing => None,
        }
    }

    /// The entry that was shown last, when its value was wanted.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self.shown {
            Shown::Visible => Some(self.visible.entry()),
            Shown::Own => self.own.as_ref().map(|(write, value)| (&*write.0, &**value)),
            Shown::Nothing => None,
        }
    }

    /// As [`Self::entry`], owned.
    #[inline]
    pub(crate) fn owned(&self) -> Option<(Vec<u8>, Value)> {
        match self.shown {
            Shown::Visible => Some((self.visible.key().to_vec(), self.visible.value())),
            Shown::Own => self.own.as_ref().map(|(write, value)| (write.0.clone(), value.clone())),
            Shown::Nothing => None,
        }
    }

    /// Its costs are counted in its table, which pays for more trees than one.
    pub(crate) fn leave(&mut self, table: &TableState) {
        let visible = &mut self.visible;
        let (costs, sources) = (visible.costs(), u64_of(visible.cursor().sources()));
        table.reads.walked(sources, &costs);
        // A view costs a walk as much as two trees.
        let trees = (sources + self.views).saturating_sub(costs.filter_stops);
        let costs = Costs { trees, small: self.small, blocks_read: visible.sought_blocks_read(), ..costs };
        let skips = visible.take_tombstone_stats();
        table.charges.pay_walk(&costs, visible.limits().any_key(), skips);
    }

    #[inline]
    fn step(&mut self, want: Want) -> Result<Shown> {
        if self.writes.is_some() {
            return self.step_under_writes(want);
        }
        self.ready = self.step_visible()?;
        self.show_visible(want)
    }

    /// As [`Self::step`], under the transaction's writes.
    #[inline(never)]
    fn step_under_writes(&mut self, want: Want) -> Result<Shown> {
        loop {
            if !self.ready {
                self.ready = self.step_visible()?;
            }
            let Some(writes) = &mut self.writes else { return self.show_visible(want) };
            let at = self.ready.then(|| self.visible.key());
            let Some((write, order)) = writes.before(at) else {
                writes.shows(at);
                return self.show_visible(want);
            };
            writes.pass();
            // The snapshot's entry lies under the write.
            self.ready &= order == Ordering::Less;
            let visible = (order == Ordering::Equal).then_some(&mut self.visible);
            let below = || visible.map(|visible| visible.fetch().map(|()| visible.value())).transpose();
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
    fn step_visible(&mut self) -> Result<bool> {
        match self.direction {
            Direction::Forward => self.visible.next(),
            Direction::Backward => self.visible.prev(),
        }
    }

    /// Shows the snapshot's entry, if it is at one.
    #[inline]
    fn show_visible(&mut self, want: Want) -> Result<Shown> {
        if !self.ready {
            return Ok(Shown::Nothing);
        }
        self.ready = false;
        if want == Want::All {
            self.visible.fetch()?;
        }
        Ok(Shown::Visible)
    }
}
