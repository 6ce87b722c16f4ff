//! Iteration over a key range from both of its ends.

use std::cmp::Ordering;
use std::mem;
use std::sync::Arc;

use arc_swap::Guard;

use crate::base::debug::debug_by;
use crate::base::{Error, Result, SeqNum, Value};
use crate::db::state::health::Health;
use crate::tree::Limits;
use crate::tree::cursor::after;
use crate::tree::range_tombstone::TombstoneLayers;

use super::key_range::Bounds;
use super::own_writes::OwnWrites;
use super::read_tracker::TrackedWalk;
use super::table_handle::Reader;
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
    limits: Arc<Limits>,
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
    /// Of a transaction whose reads are checked, and the range that it asked for.
    tracked: Option<Box<(TrackedWalk, Arc<Limits>)>>,
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
        bounds: Bounds<'_>,
        direction: Direction,
        own: Option<Box<(OwnWrites, TombstoneLayers)>>,
    ) -> Self {
        let (mut source, mut failed, mut rule) = (None, None, None);
        match table {
            Err(error) => failed = Some(error),
            Ok((table, version)) => {
                rule = table.options.prefix_filter;
                source = Some(Source { table: Arc::clone(table), version: Guard::into_inner(version), seqnum, own });
            }
        }
        let limits = Limits::between(bounds, rule);
        let ended = failed.is_none() && limits.is_empty();
        Self {
            source,
            limits: Arc::new(limits),
            sought: None,
            direction,
            walks: [None, None],
            ended,
            failed,
            health,
            tracked: None,
        }
    }

    /// Tells what is walked to what `begin` returns.
    pub(super) fn track(&mut self, begin: impl FnOnce(&Limits) -> Option<TrackedWalk>) {
        if self.source.is_some() && !self.ended {
            self.tracked = begin(&self.limits).map(|walk| Box::new((walk, Arc::clone(&self.limits))));
        }
    }

    /// The parts of the range that the walks have come over; `None` when they may have come over all of it.
    fn walked(&self, all: &Limits) -> Option<Vec<Limits>> {
        if self.ended {
            return None;
        }
        let part = |low: &[u8], high: Option<Vec<u8>>| Limits { low: low.to_vec(), high, prefix: None };
        let mut parts = Vec::new();
        if let Some(front) = &self.walks[End::Front as usize] {
            let (key, within) = (front.key()?, self.limits_of(End::Front));
            parts.push(match self.direction {
                Direction::Forward => part(&within.low, Some(after(key.to_vec()))),
                Direction::Backward => part(key, within.high.clone()),
            });
        }
        if let Some(back) = &self.walks[End::Back as usize] {
            back.key()?;
            parts.push(match (self.direction, &self.limits.high) {
                (Direction::Forward, Some(high)) => part(high, all.high.clone()),
                (Direction::Forward, None) => return None,
                (Direction::Backward, _) => part(&all.low, Some(self.limits.low.clone())),
            });
        }
        Some(parts)
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
    /// `Corruption`, `Io`, `Closed`, `Dropped` when the table was dropped before the range began.
    #[inline]
    pub fn advance(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.go(End::Front, Want::All)?.and_then(Walk::entry))
    }

    /// Lends the next entries to `take`, from the next one on, as long as that wants more; whether it ended because
    /// `take` wants no more, and not at the end of the range. Most steps take half the time of [`Range::advance`], as
    /// they are made within a leaf without asking the trees where to go on.
    ///
    /// ```
    /// # use spinney::{Database, Error, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let table = db.create_table("t", TableOptions::default())?;
    /// table.put("a", "1")?;
    /// table.put("b", "22")?;
    /// let mut bytes = 0;
    /// let more = table.range(..).each(|key, value| {
    ///     bytes += key.len() + value.len();
    ///     Ok::<_, Error>(true)
    /// })?;
    /// assert_eq!((bytes, more), (5, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Range::advance`], and those of `take`, after which the range goes on behind the entry.
    #[inline]
    pub fn each<E: From<Error>>(
        &mut self,
        mut take: impl FnMut(&[u8], &[u8]) -> std::result::Result<bool, E>,
    ) -> std::result::Result<bool, E> {
        let mut failed = None;
        let mut take = |key: &[u8], value: &[u8]| {
            take(key, value).unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        };
        while let Some((key, value)) = self.advance()? {
            let mut is_enough = !take(key, value);
            if let [Some(walk), None] = &mut self.walks
                && !is_enough
            {
                is_enough = walk.each_in_leaf(&mut take).map_err(|error| self.fail(error))?;
            }
            if is_enough {
                return failed.map_or(Ok(true), Err);
            }
        }
        Ok(false)
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

    /// Moves to a key: the next entry is the first at or after `key` in the direction of the range, of those that lie
    /// in the range and that its other end has not reached. Entries that were shown before may be shown again.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        if self.source.is_none() {
            return;
        }
        if let Some((walk, all)) = self.tracked.as_deref() {
            walk.leap(&self.walked(all).unwrap_or_else(|| vec![Limits::clone(all)]));
        }
        self.sought = Some(key.as_ref().to_vec());
        let limits = self.limits_of(End::Front);
        self.ended = limits.is_empty();
        match (&mut self.walks[End::Front as usize], &self.source) {
            (Some(walk), Some(source)) if !self.ended => walk.restart(source, limits),
            _ => self.end_walk(End::Front),
        }
    }

    /// The range in which a walk from an end is begun.
    #[inline]
    fn limits_of(&self, end: End) -> Arc<Limits> {
        match &self.sought {
            Some(key) if end == End::Front => self.limits_from(key),
            _ => Arc::clone(&self.limits),
        }
    }

    /// The range in which the front is begun that goes on from a key.
    fn limits_from(&self, key: &[u8]) -> Arc<Limits> {
        let (low, high) = match self.direction {
            Direction::Forward => (self.limits.low.as_slice().max(key).to_vec(), self.limits.high.clone()),
            Direction::Backward if self.limits.end_before(key) => return Arc::clone(&self.limits),
            Direction::Backward => (self.limits.low.clone(), Some(after(key.to_vec()))),
        };
        self.within(low, high)
    }

    /// Other limits within those of the range.
    fn within(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Arc<Limits> {
        Arc::new(Limits { low, high, prefix: self.limits.prefix })
    }

    /// Goes on to the next entry of an end, which the walk shows then, or returns none at the end; an error is the end
    /// too.
    #[inline]
    fn go(&mut self, end: End, want: Want) -> Result<Option<&Walk>> {
        let stepped = match &mut self.walks {
            // Nothing is in the way of a single walk but the end of the range.
            [Some(front), None] if end == End::Front && self.health.check_open().is_ok() => front.go(want),
            _ => self.go_slowly(end, want),
        };
        if matches!(stepped, Ok(true)) {
            return Ok(self.walks[end as usize].as_deref());
        }
        self.stop(stepped).map(|()| None)
    }

    /// Is at its end, perhaps because of an error.
    #[cold]
    fn stop(&mut self, stepped: Result<bool>) -> Result<()> {
        stepped.map(|_| self.end()).map_err(|error| self.fail(error))
    }

    /// Steps when the walk is to be begun, or when there are two.
    #[inline(never)]
    fn go_slowly(&mut self, end: End, want: Want) -> Result<bool> {
        match self.health.check_open() {
            Err(_) if self.ended => return Ok(false),
            opened => opened?,
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(source) = self.source.as_ref().filter(|_| !self.ended) else { return Ok(false) };
        if self.walks[end as usize].is_none() {
            let direction = if end == End::Front { self.direction } else { self.direction.reversed() };
            self.walks[end as usize] = Some(source.walk(self.limits_of(end), direction));
        }
        let Some(walk) = &mut self.walks[end as usize] else { return Ok(false) };
        let is_there = walk.go(want)?;
        // A front without a back has come to nothing that is shown.
        if end == End::Front && self.walks[End::Back as usize].is_none() {
            return Ok(is_there);
        }
        // It may stand on an entry that is not shown.
        if self.walks[end as usize].as_deref().and_then(Walk::key).is_none_or(|key| self.is_taken(end, key)) {
            return Ok(false);
        }
        if end == End::Back {
            self.narrow();
        }
        Ok(true)
    }

    /// Whether a key that an end has come to is one that the other has shown or passed.
    fn is_taken(&self, end: End, key: &[u8]) -> bool {
        if end == End::Front {
            return !self.limits.contain(key);
        }
        // The front goes on behind the entry where it stands, or from the key to which it was sent.
        let front = self.walks[End::Front as usize].as_deref().and_then(Walk::key);
        let Some(limit) = front.or(self.sought.as_deref()) else { return false };
        let order = if self.direction == Direction::Forward { limit.cmp(key) } else { key.cmp(limit) };
        order == Ordering::Greater || front.is_some() && order == Ordering::Equal
    }

    /// Leaves out of the range what the back has shown.
    fn narrow(&mut self) {
        let Some(key) = self.walks[End::Back as usize].as_deref().and_then(Walk::key) else { return };
        self.limits = match self.direction {
            Direction::Forward => self.within(self.limits.low.clone(), Some(key.to_vec())),
            Direction::Backward => self.within(after(key.to_vec()), self.limits.high.clone()),
        };
    }

    /// Is at its end, because of an error.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.leave();
        (self.failed, self.ended) = (None, true);
        // What it read may be something else since the database was closed.
        self.health.check_open().err().unwrap_or(error)
    }

    /// Is at its end, until it seeks.
    #[inline]
    fn end(&mut self) {
        self.ended = true;
        [End::Front, End::Back].into_iter().for_each(|end| self.end_walk(end));
    }

    /// Gives a walk up.
    #[inline]
    fn end_walk(&mut self, end: End) {
        if let (Some(mut walk), Some(source)) = (self.walks[end as usize].take(), &self.source) {
            walk.leave(&source.table);
        }
    }

    /// Gives back what it reads.
    #[inline(never)]
    fn leave(&mut self) {
        if self.health.is_forked() {
            // Latches that are taken for it may be held by threads that are not there.
            return mem::forget((mem::take(&mut self.walks), self.source.take(), self.tracked.take()));
        }
        if let Some((walk, all)) = self.tracked.take().map(|tracked| *tracked) {
            walk.end(self.walked(&all).as_deref());
        }
        self.end();
        self.source = None;
    }

    fn next_of(&mut self, end: End) -> Option<Result<(Vec<u8>, Value)>> {
        self.go(end, Want::All).map(|walk| walk.and_then(Walk::owned)).transpose()
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
    #[inline]
    fn drop(&mut self) {
        match (&mut self.walks, &self.source) {
            // Nearly all ranges.
            ([Some(front), None], Some(source)) if self.tracked.is_none() && !self.health.is_forked() => {
                front.leave(&source.table);
            }
            _ => self.leave(),
        }
    }
}

debug_by!(Range, self => direction: self.direction);
