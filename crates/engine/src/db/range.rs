//! Iteration over a key range, with a transaction's own writes laid over it.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Peekable;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::vec;

use crate::base::{Result, SeqNum, Value};
use crate::cache::Fill;
use crate::table::Version;
use crate::tree::merge::MergeCursor;
use crate::txn::visibility::Visible;

/// The two ends of a key range, owned.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The ends of a range, owned.
pub(crate) fn bounds<'a>(range: &impl RangeBounds<&'a [u8]>) -> Bounds {
    (range.start_bound().map(|key| key.to_vec()), range.end_bound().map(|key| key.to_vec()))
}

/// Whether no key can lie between the bounds.
pub(crate) fn is_empty((start, end): &Bounds) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
        _ => false,
    }
}

/// Which way a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// A transaction's own write: a value, or a delete.
pub(crate) type Write = (Vec<u8>, Option<Vec<u8>>);

/// An iterator over the entries of a key range: `Result<(key, value)>` in key order, ascending or descending.
///
/// After an error it is at its end. It keeps what it reads alive, so it may outlive its snapshot.
#[must_use = "a range does nothing until it is iterated"]
pub struct Range {
    state: State,
    direction: Direction,
    /// The transaction's writes in the range, in the order of the walk.
    writes: Peekable<vec::IntoIter<Write>>,
}

enum State {
    /// The cursor has been moved to its next entry, which has not been shown yet.
    Ready(Box<Visible<MergeCursor>>),
    /// The cursor must be moved before it is looked at.
    Behind(Box<Visible<MergeCursor>>),
    Failed(crate::base::Error),
    Ended,
}

impl Range {
    pub(crate) fn new(version: Result<Arc<Version>>, seqnum: SeqNum, bounds: Bounds, direction: Direction) -> Self {
        let state = match version {
            Err(error) => State::Failed(error),
            Ok(_) if is_empty(&bounds) => State::Ended,
            Ok(version) => {
                State::Behind(Box::new(Visible::new(version.cursor(Fill::Keep), seqnum, bounds.0, bounds.1)))
            }
        };
        Self { state, direction, writes: Vec::new().into_iter().peekable() }
    }

    /// Lays writes, ascending, over what the snapshot shows.
    pub(crate) fn with_writes(mut self, mut writes: Vec<Write>) -> Self {
        if self.direction == Direction::Backward {
            writes.reverse();
        }
        self.writes = writes.into_iter().peekable();
        self
    }

    /// Moves the snapshot's cursor to its next entry if it is behind.
    fn advance(&mut self) -> Result<()> {
        self.state = match std::mem::replace(&mut self.state, State::Ended) {
            State::Behind(mut visible) => {
                let found = match self.direction {
                    Direction::Forward => visible.next()?,
                    Direction::Backward => visible.prev()?,
                };
                if found { State::Ready(visible) } else { State::Ended }
            }
            State::Failed(error) => return Err(error),
            other => other,
        };
        Ok(())
    }

    /// How the next write stands to the snapshot's next entry in the order of the walk.
    fn order(&mut self) -> Option<Ordering> {
        let write = self.writes.peek();
        match (&self.state, write) {
            (State::Ready(visible), Some((key, _))) => {
                let order = key.as_slice().cmp(visible.key());
                Some(if self.direction == Direction::Forward { order } else { order.reverse() })
            }
            (State::Ready(_), None) => Some(Ordering::Greater),
            (_, Some(_)) => Some(Ordering::Less),
            (_, None) => None,
        }
    }

    /// Takes the snapshot's entry and leaves its cursor behind.
    fn take(&mut self) -> Option<(Vec<u8>, Value)> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Ready(visible) => {
                let entry = (visible.key().to_vec(), visible.value());
                self.state = State::Behind(visible);
                Some(entry)
            }
            _ => None,
        }
    }

    fn step(&mut self) -> Result<Option<(Vec<u8>, Value)>> {
        loop {
            self.advance()?;
            let Some(order) = self.order() else { return Ok(None) };
            if order == Ordering::Greater {
                return Ok(self.take());
            }
            if order == Ordering::Equal {
                self.take();
            }
            if let Some((key, Some(value))) = self.writes.next() {
                return Ok(Some((key, Value::owned(&value))));
            }
        }
    }
}

impl Iterator for Range {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.state = State::Ended;
            self.writes = Vec::new().into_iter().peekable();
        }
        step.transpose()
    }
}

impl std::iter::FusedIterator for Range {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("direction", &self.direction).finish_non_exhaustive()
    }
}
