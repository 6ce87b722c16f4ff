//! Iteration over a key range, with a transaction's own writes laid over it.

use std::cmp::Ordering;
use std::fmt;
use std::mem;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::base::num::u64_of;
use crate::base::{Error, Result, SeqNum, Value};
use crate::cache::Fill;
use crate::tree::erasure::Layers;
use crate::tree::merge::MergeCursor;
use crate::tree::operator::TableOperator;
use crate::tree::{Costs, Limits};
use crate::txn::visibility::{Known, Visible};

use super::core::TableState;
use super::health::Health;
use super::own_writes::OwnWalk;
use super::table::Reader;

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

/// The keys of a range, if there can be any.
pub(crate) fn limits<'a>(range: &impl RangeBounds<&'a [u8]>) -> Option<Limits> {
    Some(Limits::between(bounds(range), None)).filter(|limits| !limits.end_before(&limits.low))
}

/// Which way a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// The entries of a key range in key order, ascending or descending: as an iterator of `Result<(key, value)>`, which
/// gives keys and values away, or lent one after the other by [`Range::advance`], which copies and allocates nothing.
///
/// After an error it is at its end. It keeps what it reads alive, so it may outlive its snapshot. It does not keep the
/// database open: when that is closed it fails with `Closed`.
#[must_use = "a range does nothing until it is walked"]
pub struct Range {
    /// What the snapshot sees in the range; `None` at its end.
    visible: Option<Box<Visible<MergeCursor>>>,
    /// Whether `visible` stands on an entry that was not shown yet.
    ready: bool,
    direction: Direction,
    /// Folds the operands among `writes`.
    operator: TableOperator,
    /// The transaction's writes in the range, if there are any.
    writes: Option<Box<OwnWalk>>,
    shown: Shown,
    /// The transaction's own entry that was shown last.
    own: Option<(Vec<u8>, Value)>,
    /// Why the range could not be begun.
    failed: Option<Error>,
    /// Of its database, which it does not keep open.
    health: Arc<Health>,
    /// Where its costs are counted when it ends, which then pays for more trees than one.
    table: Option<Arc<TableState>>,
    /// How many of its trees are small memtables, and how many are views.
    searched: Costs,
}

/// What of an entry is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Key,
    All,
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

impl Range {
    /// What a snapshot sees in a range, without what `erased` hides.
    pub(crate) fn new(
        table: Result<Reader<'_>>,
        health: Arc<Health>,
        seqnum: SeqNum,
        bounds: Bounds,
        direction: Direction,
        erased: Option<&Layers>,
    ) -> Self {
        let (mut visible, mut failed, mut state, mut searched) = (None, None, None, Costs::default());
        let mut operator = TableOperator::default();
        match table {
            Err(error) => failed = Some(error),
            Ok(_) if is_empty(&bounds) => {}
            Ok((table, version)) => {
                operator = table.operator.clone();
                let erased = erased.filter(|erased| !erased.is_empty());
                let views = u64::from(erased.is_none() && version.is_viewed_by(seqnum));
                let cursor = match erased {
                    None => version.cursor(Fill::Keep, seqnum),
                    Some(erased) => version.cursor_without(erased, Fill::Keep, seqnum),
                };
                let (rule, values) = (table.options.prefix_filter, version.trees.values.clone());
                let known = Known { rule, operator: operator.clone(), values };
                visible = Some(Box::new(Visible::new(cursor, seqnum, bounds, known)));
                state = Some(Arc::clone(table));
                searched = Costs { small: u64_of(version.count_small()), views, ..searched };
            }
        }
        let (writes, shown, own) = (None, Shown::Nothing, None);
        Self { visible, ready: false, direction, operator, writes, shown, own, failed, health, table: state, searched }
    }

    /// Leaves what the snapshot sees.
    fn leave(&mut self) {
        if self.health.is_forked() {
            // Latches that it takes at its end may be held by threads that are not there.
            mem::forget((self.visible.take(), self.table.take()));
        }
        if let (Some(visible), Some(table)) = (self.visible.take(), self.table.take()) {
            let (costs, sources) = (visible.costs(), u64_of(visible.cursor().sources()));
            table.reads.walked(sources, &costs);
            let Costs { small, views, .. } = self.searched;
            // A view costs a walk as much as two trees.
            let trees = (sources + views).saturating_sub(costs.filter_stops);
            let blocks_read = visible.sought_blocks_read();
            let costs = Costs { trees, small, blocks_read, ..costs };
            let end = Arc::clone(visible.limits());
            table.savings.pay_walk(&costs, end.any_key(), visible.into_skips());
        }
    }

    /// Lays a transaction's writes over what the snapshot shows.
    pub(crate) fn with_writes(mut self, writes: Option<OwnWalk>) -> Self {
        self.writes = writes.map(Box::new);
        self
    }

    /// Goes on to the next entry and lends its key and value, or `None` at the end of the range.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Durability, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let table = db.create_table("t", TableOptions::default())?;
    /// let mut batch = Batch::new();
    /// batch.put(&table, b"a", b"1");
    /// batch.put(&table, b"b", b"22");
    /// db.write(batch, Durability::Buffered)?;
    /// let (mut range, mut bytes) = (db.snapshot().range(&table, ..), 0);
    /// while let Some((key, value)) = range.advance()? {
    ///     bytes += key.len() + value.len();
    /// }
    /// assert_eq!(bytes, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Corruption`, `Io`, `Closed`, `Invalid` when the table was dropped before the range began.
    #[inline]
    pub fn advance(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.go(Want::All)?;
        Ok(match (self.shown, &self.visible) {
            (Shown::Visible, Some(visible)) => Some(visible.entry()),
            (Shown::Own, _) => self.own.as_ref().map(|(key, value)| (&**key, &**value)),
            _ => None,
        })
    }

    /// As [`Range::advance`], but lends the key only: a value that is
    /// [kept apart](crate::TableOptions::large_value_bytes) is not read.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Durability, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let table = db.create_table("t", TableOptions::default())?;
    /// let mut batch = Batch::new();
    /// batch.put(&table, b"a", &[7; 10_000]);
    /// batch.put(&table, b"b", &[7; 20_000]);
    /// db.write(batch, Durability::Buffered)?;
    /// let (mut range, mut keys) = (db.snapshot().range(&table, ..), Vec::new());
    /// while let Some(key) = range.advance_key()? {
    ///     keys.push(key.to_vec());
    /// }
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Range::advance`].
    #[inline]
    pub fn advance_key(&mut self) -> Result<Option<&[u8]>> {
        self.go(Want::Key)?;
        Ok(match (self.shown, &self.visible) {
            (Shown::Visible, Some(visible)) => Some(visible.key()),
            (Shown::Own, _) => self.own.as_ref().map(|(key, _)| &**key),
            _ => None,
        })
    }

    /// Goes on to the next entry; an error is the end.
    #[inline]
    fn go(&mut self, want: Want) -> Result<()> {
        let stepped = match self.health.check_open() {
            Ok(()) => self.step(want),
            Err(_) if self.is_at_end() => Ok(Shown::Nothing),
            Err(error) => Err(error),
        };
        match stepped {
            Ok(shown) => {
                self.shown = shown;
                Ok(())
            }
            Err(error) => self.end(error),
        }
    }

    fn is_at_end(&mut self) -> bool {
        let has_write = |writes: &mut Box<OwnWalk>| writes.before(None).is_some();
        self.visible.is_none() && self.failed.is_none() && !self.writes.as_mut().is_some_and(has_write)
    }

    /// Is at its end, because of an error.
    #[cold]
    fn end(&mut self, error: Error) -> Result<()> {
        self.leave();
        self.failed = None;
        (self.ready, self.shown) = (false, Shown::Nothing);
        self.writes = None;
        // What it read may be something else since the database was closed.
        Err(self.health.check_open().err().unwrap_or(error))
    }

    #[inline]
    fn step(&mut self, want: Want) -> Result<Shown> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            if !self.ready {
                self.ready = self.step_visible()?;
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
                    self.own = Some((write.0.clone(), value));
                    return Ok(Shown::Own);
                }
                None => writes.removes(&write.0),
            }
        }
    }

    /// Goes on to the snapshot's next entry; false where there is none.
    #[inline]
    fn step_visible(&mut self) -> Result<bool> {
        let Some(visible) = &mut self.visible else { return Ok(false) };
        let more = match self.direction {
            Direction::Forward => visible.next()?,
            Direction::Backward => visible.prev()?,
        };
        if !more {
            self.leave();
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

impl Iterator for Range {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.go(Want::All) {
            return Some(Err(error));
        }
        match (self.shown, &self.visible) {
            (Shown::Visible, Some(visible)) => Some(Ok((visible.key().to_vec(), visible.value()))),
            (Shown::Own, _) => self.own.take().map(Ok),
            _ => None,
        }
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        self.leave();
    }
}

impl std::iter::FusedIterator for Range {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("direction", &self.direction).finish_non_exhaustive()
    }
}
