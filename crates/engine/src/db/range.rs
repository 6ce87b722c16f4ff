//! Iteration over a key range from both of its ends.

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
    /// The walk that [`Iterator::next`] goes on with, and its direction.
    front: Option<Box<Walk>>,
    direction: Direction,
    /// The walk of the other end, which comes towards it.
    back: Option<Box<Walk>>,
    /// One of the walks has come to the end of the range, or to the other.
    ended: bool,
    /// Why the range could not be begun.
    failed: Option<Error>,
    /// Of its database, which it does not keep open.
    health: Arc<Health>,
}

/// The ends of a range: that at which it begins, and the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Front,
    Back,
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
        Self { source, bounds, sought: None, front: None, direction, back: None, ended, failed, health }
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
        Ok(if self.go(End::Front, Want::All)? { self.front.as_ref().and_then(|walk| walk.entry()) } else { None })
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
        Ok(if self.go(End::Front, Want::Key)? { self.front.as_ref().and_then(|walk| walk.key()) } else { None })
    }

    /// As [`Range::advance`], from the other end.
    ///
    /// # Errors
    /// As [`Range::advance`].
    pub fn advance_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(if self.go(End::Back, Want::All)? { self.back.as_ref().and_then(|walk| walk.entry()) } else { None })
    }

    /// Moves to a key: the next entry is the first at or after `key` in the direction of the range, of those that lie
    /// in the range and that its other end has not reached. Entries that were shown before may be shown again.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        if self.source.is_none() {
            return;
        }
        self.sought = Some(key.as_ref().to_vec());
        self.front = None;
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

    /// Goes on to the next entry of an end, or returns false at the end; an error is the end too.
    #[inline]
    fn go(&mut self, end: End, want: Want) -> Result<bool> {
        if let (End::Front, Some(walk), None, false) = (end, &mut self.front, &self.back, self.ended) {
            let gone = self.health.check_open().and_then(|()| walk.go(want));
            return match gone {
                Ok(true) => Ok(true),
                Ok(false) => {
                    self.ended = true;
                    Ok(false)
                }
                Err(error) => self.fail(error),
            };
        }
        self.go_slowly(end, want)
    }

    /// [`Self::go`] when a walk is to be begun, or when there are two.
    fn go_slowly(&mut self, end: End, want: Want) -> Result<bool> {
        if let Some(error) = self.failed.take() {
            return self.fail(error);
        }
        if self.ended {
            return Ok(false);
        }
        if let Err(error) = self.health.check_open() {
            return self.fail(error);
        }
        if self.walk_of(end).is_none() {
            let Some(source) = &self.source else { return Ok(false) };
            match end {
                End::Front => self.front = Some(Box::new(source.walk(self.bounds_of(end), self.direction))),
                End::Back => {
                    self.back = Some(Box::new(source.walk(self.bounds_of(end), self.direction.reversed())));
                }
            }
        }
        let walk = match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        match walk.as_mut().map_or(Ok(false), |walk| walk.go(want)) {
            Ok(more) => {
                self.ended = !more || self.has_passed(end);
                match end {
                    // It may stand on an entry that it does not show.
                    End::Back if self.ended => self.back = None,
                    End::Back => self.narrow(),
                    End::Front => {}
                }
                Ok(!self.ended)
            }
            Err(error) => self.fail(error),
        }
    }

    /// Whether the entry that an end has come to is one that the other has shown or passed.
    fn has_passed(&self, end: End) -> bool {
        let Some(key) = self.walk_of(end).and_then(|walk| walk.key()) else { return false };
        let forward = (end == End::Front) == (self.direction == Direction::Forward);
        if end == End::Front {
            return !(self.bounds.0.as_ref().map(|low| &**low), self.bounds.1.as_ref().map(|high| &**high))
                .contains(key);
        }
        // The front may go on from where it stands, or from where it was sent.
        match (self.front.as_ref().and_then(|walk| walk.key()), &self.sought) {
            (Some(front), _) => {
                if forward {
                    key >= front
                } else {
                    key <= front
                }
            }
            (None, Some(sought)) => {
                if forward {
                    key > &**sought
                } else {
                    key < &**sought
                }
            }
            (None, None) => false,
        }
    }

    /// Leaves out of the range what the back has shown.
    fn narrow(&mut self) {
        let Some(key) = self.back.as_ref().and_then(|walk| walk.key()) else { return };
        let shown = Bound::Excluded(key.to_vec());
        match self.direction {
            Direction::Forward => self.bounds.1 = shown,
            Direction::Backward => self.bounds.0 = shown,
        }
    }

    fn walk_of(&self, end: End) -> Option<&Walk> {
        match end {
            End::Front => self.front.as_deref(),
            End::Back => self.back.as_deref(),
        }
    }

    /// Is at its end, because of an error.
    #[cold]
    fn fail(&mut self, error: Error) -> Result<bool> {
        (self.front, self.back, self.failed, self.ended) = (None, None, None, true);
        if self.health.is_forked() {
            // Latches may be held by threads that are not there.
            mem::forget(self.source.take());
        }
        self.source = None;
        // What it read may be something else since the database was closed.
        Err(self.health.check_open().err().unwrap_or(error))
    }

    fn next_of(&mut self, end: End) -> Option<Result<(Vec<u8>, Value)>> {
        match self.go(end, Want::All) {
            Ok(false) => None,
            Ok(true) => self.walk_of(end).and_then(Walk::owned).map(Ok),
            Err(error) => Some(Err(error)),
        }
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
        if self.health.is_forked() {
            mem::forget(self.source.take());
        }
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("direction", &self.direction).finish_non_exhaustive()
    }
}
