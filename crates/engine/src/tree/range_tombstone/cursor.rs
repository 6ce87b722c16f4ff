//! A cursor that shows of one tree what range tombstones leave.

use std::sync::Arc;

use super::masks::{MaskFragment, Masks};
use crate::base::debug::debug_by;
use crate::base::key::KEY_BYTES_MAX;
use crate::base::steps::step;
use crate::base::{Entry, Result, Value};
use crate::tree::cost::Costs;
use crate::tree::cursor::{Cursor, KeyCursor, LazySeek, Limits, MergeSource, SeqnumBounds};

/// Steps over entries in a deleted range after which a seek to its end is cheaper than further steps.
const STEPS_MAX: u32 = 8;

/// Lies above every key.
static ABOVE_ALL: [u8; KEY_BYTES_MAX + 1] = [0xff; KEY_BYTES_MAX + 1];

/// The entries of a tree that range tombstones do not hide from a reader. Outside of its limits it may show others.
pub struct RangeDelCursor {
    cursor: Box<dyn MergeSource>,
    masks: Arc<Masks>,
    /// Where the entry was that was looked at last.
    fragment: MaskFragment,
    limits: Option<Arc<Limits>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl RangeDelCursor {
    /// What is seen of a tree.
    #[must_use]
    pub fn new(cursor: Box<dyn MergeSource>, masks: Arc<Masks>) -> Self {
        Self { cursor, masks, fragment: MaskFragment::default(), limits: None }
    }

    /// Goes on from an entry that is hidden to the next that is not.
    #[inline]
    fn settle(&mut self, direction: Direction) -> Result<()> {
        let mut steps = 0;
        while let Some(entry) = self.cursor.entry() {
            step();
            if self.fragment.go(&self.masks, entry.key) {
                steps = 0;
            }
            let floor = self.fragment.floor();
            if entry.seqnum >= floor {
                return Ok(());
            }
            let seqnum_bounds = self.cursor.seqnum_bounds();
            if seqnum_bounds.smallest >= floor {
                return Ok(());
            }
            let is_outside = |limits: &Arc<Limits>| match direction {
                Direction::Forward => limits.end_before(entry.key),
                Direction::Backward => *entry.key < *limits.low,
            };
            if self.limits.as_ref().is_some_and(is_outside) {
                return Ok(());
            }
            steps += 1;
            if steps < STEPS_MAX || seqnum_bounds.largest >= floor {
                if direction == Direction::Forward {
                    self.cursor.next()?
                } else {
                    self.cursor.prev()?
                }
                continue;
            }
            // Where there is no key beyond there may be another tree.
            match direction {
                Direction::Forward => self
                    .cursor
                    .seek_ge_nearby(self.fragment.beyond(&self.masks, seqnum_bounds.largest).unwrap_or(&ABOVE_ALL))?,
                Direction::Backward => self
                    .cursor
                    .seek_lt_nearby(self.fragment.before(&self.masks, seqnum_bounds.largest).unwrap_or_default())?,
            }
        }
        Ok(())
    }
}

impl Cursor for RangeDelCursor {
    fn first(&mut self) -> Result<()> {
        self.cursor.first()?;
        self.settle(Direction::Forward)
    }

    fn last(&mut self) -> Result<()> {
        self.cursor.last()?;
        self.settle(Direction::Backward)
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_ge(key)?;
        self.settle(Direction::Forward)
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_lt(key)?;
        self.settle(Direction::Backward)
    }

    fn next(&mut self) -> Result<()> {
        self.cursor.next()?;
        self.settle(Direction::Forward)
    }

    fn prev(&mut self) -> Result<()> {
        self.cursor.prev()?;
        self.settle(Direction::Backward)
    }

    fn limit(&mut self, limits: &Arc<Limits>) {
        self.limits = Some(Arc::clone(limits));
        self.cursor.limit(limits);
    }

    fn costs(&self) -> Costs {
        self.cursor.costs()
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.entry()
    }

    fn value(&self) -> Option<Value> {
        self.cursor.value()
    }
}

impl KeyCursor for RangeDelCursor {}

impl LazySeek for RangeDelCursor {
    fn prefetch_seek_ge(&mut self, key: &[u8]) -> bool {
        self.cursor.prefetch_seek_ge(key)
    }
}

impl MergeSource for RangeDelCursor {
    fn seqnum_bounds(&self) -> SeqnumBounds {
        self.cursor.seqnum_bounds()
    }
}

debug_by!(RangeDelCursor, self => masks: self.masks.len());
