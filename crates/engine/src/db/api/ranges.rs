//! Iteration over many key ranges with one cursor.

use std::collections::VecDeque;
use std::sync::Arc;

use arc_swap::Guard;

use crate::base::debug::debug_by;
use crate::base::{Error, Result, SeqNum, Value};
use crate::db::state::health::Health;
use crate::tree::Limits;
use crate::tree::range_tombstone::TombstoneLayers;

use super::own_writes::OwnWrites;
use super::table_handle::Reader;
use super::walk::{Direction, Source, Walk, Want};

/// The entries of many key ranges, one range after the other, by one cursor that goes from range to range: cheaper than
/// a [`Range`](crate::Range) for each. As an iterator of `Result<(key, value)>`, or lent by [`Ranges::advance`]. After
/// an error it is at its end.
///
/// ```
/// # use spinney::{Database, Options, TableOptions, prefix_range};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// let table = db.open_or_create_table("t", TableOptions::default())?;
/// for key in ["a1", "a2", "b1", "c1", "c2"] {
///     table.put(key, "")?;
/// }
/// let mut ranges = db.snapshot().ranges(&table, [prefix_range("a"), prefix_range("c")]);
/// let mut keys = Vec::new();
/// while let Some(key) = ranges.advance_key()? {
///     keys.push(key.to_vec());
/// }
/// assert_eq!(keys, [b"a1", b"a2", b"c1", b"c2"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "ranges do nothing until they are walked"]
pub struct Ranges {
    /// What is walked over; `None` after an error.
    source: Option<Source>,
    direction: Direction,
    /// Those that are still to be walked, the next one first.
    next: VecDeque<Arc<Limits>>,
    walk: Option<Box<Walk>>,
    /// Why there is nothing to be walked.
    failed: Option<Error>,
    health: Arc<Health>,
}

impl Ranges {
    /// What a snapshot sees in ranges, with a transaction's own writes laid over it.
    pub(super) fn new(
        table: Result<Reader<'_>>,
        health: Arc<Health>,
        seqnum: SeqNum,
        (ranges, direction): (Vec<Limits>, Direction),
        own: Option<Box<(OwnWrites, TombstoneLayers)>>,
    ) -> Self {
        let (source, failed) = match (table, check_order(&ranges, direction)) {
            (Err(error), _) | (_, Err(error)) => (None, Some(error)),
            (Ok((table, version)), Ok(())) => {
                let version = Guard::into_inner(version);
                (Some(Source { table: Arc::clone(table), version, seqnum, own }), None)
            }
        };
        let next = ranges.into_iter().map(Arc::new).collect();
        Self { source, direction, next, walk: None, failed, health }
    }

    /// Goes on to the next entry and lends its key and value, or `None` at the end of the last range.
    ///
    /// # Errors
    /// As [`Range::advance`](crate::Range::advance); `Invalid` when ranges overlap or are not in the order of the walk.
    pub fn advance(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.go(Want::All)?;
        Ok(self.walk.as_deref().and_then(Walk::entry))
    }

    /// As [`Ranges::advance`], but lends the key only: a value that is
    /// [kept apart](crate::TableOptions::large_value_bytes) is not read.
    ///
    /// # Errors
    /// As [`Ranges::advance`].
    pub fn advance_key(&mut self) -> Result<Option<&[u8]>> {
        self.go(Want::Key)?;
        Ok(self.walk.as_deref().and_then(Walk::key))
    }

    /// Goes on to the next entry, which the walk shows then; at the end it shows none.
    fn go(&mut self, want: Want) -> Result<()> {
        let went = self.health.check_open().and_then(|()| self.failed.take().map_or(Ok(()), Err));
        let went = went.and_then(|()| self.step(want));
        went.inspect_err(|_| self.leave())
    }

    fn step(&mut self, want: Want) -> Result<()> {
        let Some(source) = &self.source else { return Ok(()) };
        loop {
            if let Some(walk) = &mut self.walk
                && walk.go(want)?
            {
                return Ok(());
            }
            let Some(limits) = self.next.pop_front() else { return Ok(()) };
            match &mut self.walk {
                Some(walk) => walk.restart(source, limits),
                None => self.walk = Some(source.walk(limits, self.direction)),
            }
        }
    }

    /// Gives back what it reads.
    fn leave(&mut self) {
        if self.health.is_forked() {
            // Latches that are taken for it may be held by threads that are not there.
            return std::mem::forget((self.walk.take(), self.source.take()));
        }
        if let (Some(mut walk), Some(source)) = (self.walk.take(), self.source.take()) {
            walk.leave(&source.table);
        }
        self.source = None;
    }
}

/// Refuses ranges that a walk in the direction would not meet one after the other.
fn check_order(ranges: &[Limits], direction: Direction) -> Result<()> {
    let are_apart = |pair: &[Limits]| {
        let (lower, upper) = if direction == Direction::Forward { (&pair[0], &pair[1]) } else { (&pair[1], &pair[0]) };
        lower.high.as_ref().is_some_and(|high| *high <= upper.low)
    };
    if ranges.windows(2).all(are_apart) {
        return Ok(());
    }
    let order = if direction == Direction::Forward { "ascend" } else { "descend" };
    Err(Error::invalid(format!("the ranges overlap or do not {order}: sort them, and join those that overlap")))
}

impl Iterator for Ranges {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.go(Want::All) {
            Ok(()) => self.walk.as_deref().and_then(Walk::owned).map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}

impl std::iter::FusedIterator for Ranges {}

impl Drop for Ranges {
    fn drop(&mut self) {
        self.leave();
    }
}

debug_by!(Ranges, self => left: self.next.len());
