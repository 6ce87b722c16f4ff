//! Iteration over a key range from both of its ends.

use std::cmp::Ordering;
use std::fmt;
use std::mem;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::base::{Error, Result, SeqNum, Value};
use crate::tree::erasure::Layers;

use super::health::Health;
use super::key_range::{Bounds, is_empty};
use super::own_writes::OwnWrites;
use super::table::Reader;
use super::walk::{Direction, Source, Walk, Want};

/// The entries of a key range in key order: as a double-ended iterator of `Result<(key, value)>`, which gives keys and
/// values away, or lent one after the other by [`Range::advance`], which copies and allocates nothing.
///
/// A range from `range_rev` is the same with its ends exchanged: it begins at the last key and descends.
///
/// It owns what it reads, may be sent to another thread and may outlive its snapshot. After an error it is at its end.
/// It does not keep the database open: when that is closed it fails with `Closed`.
///
/// ```
/// # use spinney::{Database, Options, TableOptions};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// let table = db.open_or_create_table("t", TableOptions::default())?;
/// for key in ["a", "b", "c", "d"] {
///     table.put(key, "value")?;
/// }
/// let mut range = table.range("b"..);
/// assert_eq!(range.next_back().transpose()?.unwrap().0, b"d");
/// assert_eq!(range.next().transpose()?.unwrap().0, b"b");
/// assert_eq!(range.by_ref().count(), 1);
/// range.seek("c");
/// assert_eq!(range.next().transpose()?.unwrap().0, b"c");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a range does nothing until it is walked"]
pub struct Range {
    /// What is walked over; `None` after an error and when there can be no entries.
    source: Option<Source>,
    /// The range, but for what the other end has shown.
    bounds: Bounds,
    /// The key from which the front was to go on.
    sought: Option<Vec<u8>>,
    /// The direction of [`Iterator::next`].
    direction: Direction,
    /// The walk from each [`End`], once it has begun.
    walks: [Option<Box<Walk>>; 2],
    /// One of the walks has come to the end of the range, or to the other.
    ended: bool,
    /// Why the range could not be begun.
    failed: Option<Error>,
    /// Of its database, which it does not keep open.
    health: Arc<Health>,
}

/// The ends of a range, as indexes of its walks: that which [`Iterator::next`] goes on from, and the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Front = 0,
    Back = 1,
}

impl Range {
    /// What a snapshot sees in a range, with a transaction's own writes laid over it.
    pub(crate) fn new(
        table: Result<Reader<'_>>,
        health: Arc<Health>,
        seqnum: SeqNum,
        bounds: Bounds,
        direction: Direction,
        own: Option<(OwnWrites, Layers)>,
    ) -> Self {
        let (mut source, mut failed) = (None, None);
        match table {
            Err(error) => failed = Some(error),
            Ok(_) if is_empty(&bounds) => {}
            Ok((table, version)) => {
                let (table, version) = (Arc::clone(table), arc_swap::Guard::into_inner(version));
                source = Some(Source { table, version, seqnum, own, health: Arc::clone(&health) });
            }
        }
        let ended = source.is_none() && failed.is_none();
        Self { source, bounds, sought: None, direction, walks: [None, None], ended, failed, health }
    }

    /// Goes on to the next entry and lends its key and value, or `None` at the end of the range.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let table = db.create_table("t", TableOptions::default())?;
    /// table.put("a", "1")?;
    /// table.put("b", "22")?;
    /// let (mut range, mut bytes) = (table.range(..), 0);
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
        Ok(self.go(End::Front, Want::All)?.and_then(Walk::entry))
    }

    /// As [`Range::advance`], but lends the key only: a value that is
    /// [kept apart](crate::TableOptions::large_value_bytes) is not read.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let table = db.create_table("t", TableOptions::default())?;
    /// table.put("a", [7; 10_000])?;
    /// table.put("b", [7; 20_000])?;
    /// let (mut range, mut keys) = (table.range(..), Vec::new());
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
        Ok(self.go(End::Front, Want::Key)?.and_then(Walk::key))
    }

    /// As [`Range::advance`], from the other end.
    ///
    /// # Errors
    /// As [`Range::advance`].
    pub fn advance_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.go(End::Back, Want::All)?.and_then(Walk::entry))
    }

    /// Moves to a key: the next entry is the first at or after `key` in the direction of the range, of those that lie
    /// in the range and that its other end has not reached. Entries that were shown before may be shown again.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        if self.source.is_none() {
            return;
        }
        self.sought = Some(key.as_ref().to_vec());
        self.walks[End::Front as usize] = None;
        self.ended = is_empty(&self.bounds_of(End::Front));
    }

    /// The range in which a walk from an end is begun.
    fn bounds_of(&self, end: End) -> Bounds {
        let mut bounds = self.bounds.clone();
        let Some(key) = self.sought.as_ref().filter(|_| end == End::Front) else { return bounds };
        match self.direction {
            Direction::Forward if starts_before(&bounds.0, key) => bounds.0 = Bound::Included(key.clone()),
            Direction::Backward if ends_after(&bounds.1, key) => bounds.1 = Bound::Included(key.clone()),
            _ => {}
        }
        bounds
    }

    /// Goes on to the next entry of an end, which the walk shows then, or returns none at the end; an error is the end
    /// too.
    #[inline]
    fn go(&mut self, end: End, want: Want) -> Result<Option<&Walk>> {
        match self.step(end, want) {
            Ok(more) => Ok(self.walks[end as usize].as_deref().filter(|_| more)),
            Err(error) => Err(self.fail(error)),
        }
    }

    #[inline]
    fn step(&mut self, end: End, want: Want) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        self.health.check_open()?;
        // Nothing is in the way of a single walk but the end of the range.
        let more = match &mut self.walks {
            [Some(front), None] if end == End::Front => front.go(want)?,
            _ => self.step_towards_other(end, want)?,
        };
        self.ended = !more;
        Ok(more)
    }

    /// [`Self::step`] when the walk is to be begun, or when there are two.
    fn step_towards_other(&mut self, end: End, want: Want) -> Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(source) = &self.source else { return Ok(false) };
        let direction = if end == End::Front { self.direction } else { self.direction.reversed() };
        let mut walk = match self.walks[end as usize].take() {
            Some(begun) => begun,
            None => Box::new(source.walk(self.bounds_of(end), direction)),
        };
        walk.go(want)?;
        // A walk that stands on an entry which is not shown is given up.
        let Some(key) = walk.key().filter(|key| !self.is_taken(end, key)) else { return Ok(false) };
        if end == End::Back {
            self.narrow(key);
        }
        self.walks[end as usize] = Some(walk);
        Ok(true)
    }

    /// Whether a key that an end has come to is one that the other has shown or passed.
    fn is_taken(&self, end: End, key: &[u8]) -> bool {
        if end == End::Front {
            let (low, high) = &self.bounds;
            return !(low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice)).contains(key);
        }
        // The front goes on behind the entry where it stands, or from the key to which it was sent.
        let front = self.walks[End::Front as usize].as_ref().and_then(|walk| walk.key());
        let Some(limit) = front.or(self.sought.as_deref()) else { return false };
        let order = if self.direction == Direction::Forward { limit.cmp(key) } else { key.cmp(limit) };
        order == Ordering::Greater || front.is_some() && order == Ordering::Equal
    }

    /// Leaves out of the range what the back has shown, up to `key`.
    fn narrow(&mut self, key: &[u8]) {
        let shown = Bound::Excluded(key.to_vec());
        match self.direction {
            Direction::Forward => self.bounds.1 = shown,
            Direction::Backward => self.bounds.0 = shown,
        }
    }

    /// Is at its end, because of an error.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        (self.walks, self.failed, self.ended) = ([None, None], None, true);
        self.leave();
        // What it read may be something else since the database was closed.
        self.health.check_open().err().unwrap_or(error)
    }

    /// Gives back what it reads.
    fn leave(&mut self) {
        let source = self.source.take();
        if self.health.is_forked() {
            // Latches may be held by threads that are not there.
            mem::forget(source);
        }
    }

    fn next_of(&mut self, end: End) -> Option<Result<(Vec<u8>, Value)>> {
        self.go(end, Want::All).map(|walk| walk.and_then(Walk::owned)).transpose()
    }
}

/// Whether a range with this start begins before `key`.
fn starts_before(start: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match start {
        Bound::Unbounded => true,
        Bound::Included(start) | Bound::Excluded(start) => **start < *key,
    }
}

/// Whether a range with this end goes on behind `key`.
fn ends_after(end: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match end {
        Bound::Unbounded => true,
        Bound::Included(end) | Bound::Excluded(end) => **end > *key,
    }
}

impl Iterator for Range {
    type Item = Result<(Vec<u8>, Value)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_of(End::Front)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_of(End::Back)
    }
}

impl std::iter::FusedIterator for Range {}

impl Drop for Range {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("direction", &self.direction).finish_non_exhaustive()
    }
}
