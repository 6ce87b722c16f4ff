//! The iterator, and its way forward.

use std::fmt;
use std::sync::Arc;

use crate::base::key::head;
use crate::base::{Kind, Result, SeqNum, Value};
use crate::store::BlocksRead;
use crate::tree::operator::TableOperator;
use crate::tree::values::ValueFiles;
use crate::tree::{Costs, KeyCursor, Limits};

use crate::txn::shown_value::ShownValue;
use crate::txn::tombstone_stats::TombstoneStats;

/// An iterator over the keys and values that a snapshot sees in a range, in one direction.
pub struct SnapshotIter<C> {
    pub(super) cursor: C,
    pub(super) snapshot: SeqNum,
    /// The range.
    pub(super) limits: Arc<Limits>,
    pub(super) high_head: u64,
    pub(super) direction: Direction,
    /// The key here, unless it is that of the entry at the cursor. The last dead key, unless an entry was shown since.
    pub(super) key: Vec<u8>,
    /// The value of `key`, if it is not the one of the entry at the cursor.
    pub(super) value: ShownValue,
    /// Blocks that the first seek read.
    pub(super) sought_blocks_read: u64,
    /// Folds operands.
    pub(super) operator: TableOperator,
    pub(super) tombstones: TombstoneStats,
}

/// What an iterator must know of its table.
#[derive(Debug, Default)]
pub struct ReadContext {
    /// Folds operands.
    pub operator: TableOperator,
    /// The value files into which entries point.
    pub values: ValueFiles,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Fresh,
    Forward,
    /// Forward, and the cursor is at the entry that ended the operands of `key`.
    Folded,
    Backward,
    /// Backward, and the cursor is at the entry that is shown, the only one of its key.
    Standing,
    Done,
}

impl<C: KeyCursor> SnapshotIter<C> {
    /// An iterator over what `snapshot` sees of `cursor` within `limits`. The first call of [`Self::next`] or
    /// [`Self::prev`] decides its direction.
    pub fn new(cursor: C, snapshot: SeqNum, limits: Arc<Limits>, context: ReadContext) -> Self {
        let ReadContext { operator, values } = context;
        let high_head = limits.high.as_deref().map_or(u64::MAX, head);
        Self {
            cursor,
            snapshot,
            limits,
            high_head,
            direction: Direction::Fresh,
            key: Vec::new(),
            value: ShownValue::new(values),
            sought_blocks_read: 0,
            operator,
            tombstones: TombstoneStats::default(),
        }
    }

    /// Goes over another range from now on, in whatever direction.
    pub fn restart(&mut self, limits: Arc<Limits>) {
        self.high_head = limits.high.as_deref().map_or(u64::MAX, head);
        self.cursor.limit(&limits);
        (self.limits, self.direction) = (limits, Direction::Fresh);
        self.key.clear();
        self.value.clear();
    }

    /// What dead entries it passed since it was asked last.
    #[must_use]
    pub fn take_tombstone_stats(&mut self) -> TombstoneStats {
        std::mem::take(&mut self.tombstones)
    }

    /// The range.
    pub const fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The cursor over all versions.
    pub const fn cursor(&self) -> &C {
        &self.cursor
    }

    /// Blocks that the first seek read, in all trees.
    pub const fn sought_blocks_read(&self) -> u64 {
        self.sought_blocks_read
    }

    /// The cost so far.
    pub fn costs(&self) -> Costs {
        self.cursor.costs().plus(Costs { blocks_read: self.value.blocks_read(), ..Costs::default() })
    }

    /// Moves to the next key that is seen, or returns false at the end of the range.
    ///
    /// # Errors
    /// As the cursor's; every later call fails too. When the operands of a key cannot be folded; a later call goes on
    /// behind it.
    ///
    /// # Panics
    /// After [`Self::prev`].
    #[expect(clippy::should_implement_trait, reason = "what is here is lent, not given")]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        // Nearly all steps.
        if self.direction == Direction::Forward && self.value.is_inline() && self.cursor.next_key_in_leaf() {
            return self.settle();
        }
        self.next_elsewhere()
    }

    /// Moves on as [`Self::next`] does, as long as the next keys lie in the same leaf and `take` wants more: it is
    /// given each key that is seen, with its value. Whether it ended because `take` wants no more; otherwise
    /// [`Self::next`] goes on. It is to be called after a move that returned true.
    ///
    /// # Errors
    /// As [`Self::next`].
    #[inline]
    pub fn each_in_leaf(&mut self, take: &mut impl FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        while self.direction == Direction::Forward && self.value.is_inline() {
            let (snapshot, high, high_head) = (self.snapshot, self.limits.high.as_deref(), self.high_head);
            let mut is_seen = true;
            let stands = self.cursor.next_keys_in_leaf(|entry| {
                let is_put = entry.kind == Kind::Put && entry.seqnum <= snapshot;
                is_seen = is_put && !is_past(high, high_head, entry.key);
                is_seen && take(entry.key, entry.value)
            });
            if !stands || is_seen {
                return Ok(stands);
            }
            if !self.settle()? {
                return Ok(false);
            }
            self.fetch()?;
            let (key, value) = self.entry();
            if !take(key, value) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As [`Self::next`], where the next key may lie in another leaf or tree.
    fn next_elsewhere(&mut self) -> Result<bool> {
        if !self.value.is_inline() {
            self.value.clear();
        }
        match self.direction {
            Direction::Forward => self.leave_key()?,
            Direction::Fresh => {
                self.direction = Direction::Forward;
                // The start alone does not limit a walk that goes forward from there.
                if self.limits.high.is_some() {
                    self.cursor.limit(&self.limits);
                }
                let read = BlocksRead::so_far();
                if self.limits.low.is_empty() {
                    self.cursor.first()?
                } else {
                    self.cursor.seek_ge(&self.limits.low)?
                }
                self.sought_blocks_read = read.since();
            }
            Direction::Folded => {
                self.direction = Direction::Forward;
                self.value.clear();
                if self.cursor.entry().is_some_and(|entry| entry.key == self.key) {
                    self.tombstones.step(1, &self.key);
                    self.leave_key()?;
                }
            }
            Direction::Done => return Ok(false),
            Direction::Backward | Direction::Standing => panic!("a walk does not turn around"),
        }
        self.settle()
    }

    /// Moves forward to the next visible entry, from the entry at the cursor on.
    #[inline]
    fn settle(&mut self) -> Result<bool> {
        while let Some(entry) = self.cursor.entry()
            && !self.is_past_high(entry.key)
        {
            if entry.kind == Kind::Put && entry.seqnum <= self.snapshot {
                self.tombstones.show(entry.key);
                return Ok(true);
            }
            if self.pass()? {
                return Ok(true);
            }
        }
        self.end();
        Ok(false)
    }

    /// Passes an entry that is not shown, or shows a rare one.
    #[inline(never)]
    pub(super) fn pass(&mut self) -> Result<bool> {
        let Some(entry) = self.cursor.entry() else { return Ok(false) };
        if entry.seqnum > self.snapshot {
            self.cursor.next()?;
            return Ok(false);
        }
        let kind = entry.kind;
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        if !kind.is_tombstone() {
            return self.show_rare();
        }
        self.tombstones.step(1, &self.key);
        self.leave_key()?;
        Ok(false)
    }

    /// Ends the iteration at the end of the range.
    #[cold]
    pub(super) fn end(&mut self) {
        self.tombstones.show(&self.key);
        self.direction = Direction::Done;
    }

    /// Passes the remaining versions of the current key.
    #[inline]
    fn leave_key(&mut self) -> Result<()> {
        match self.cursor.next_key(&mut self.key) {
            Ok(0) => Ok(()),
            left => self.left(left),
        }
    }

    #[cold]
    fn left(&mut self, left: Result<u64>) -> Result<()> {
        self.tombstones.step(left?, &self.key);
        Ok(())
    }

    /// Shows `key`, whose value lies in a value file or is to be folded from operands.
    #[cold]
    fn show_rare(&mut self) -> Result<bool> {
        self.tombstones.show(&self.key);
        if self.cursor.entry().is_some_and(|entry| entry.kind == Kind::Merge) {
            return self.fold_forward();
        }
        self.value.set(None, true);
        Ok(true)
    }

    /// Reads the operands of `key`, which begin at the cursor, and folds them with the older version that they change.
    #[cold]
    fn fold_forward(&mut self) -> Result<bool> {
        let mut operands = Vec::new();
        let mut base = None;
        while let Some(entry) = self.cursor.entry()
            && entry.key == self.key
        {
            match entry.kind {
                Kind::Merge => {}
                Kind::PutPointer => {
                    base = Some(self.value.read(entry.value)?);
                    break;
                }
                kind => {
                    base = if kind == Kind::Put { self.cursor.value() } else { None };
                    break;
                }
            }
            operands.extend(self.cursor.value());
            self.cursor.next()?;
        }
        operands.reverse();
        self.direction = Direction::Folded;
        self.fold(base.as_ref(), &operands)?;
        Ok(true)
    }

    /// Folds `operands`, oldest first, into `base`.
    #[cold]
    pub(super) fn fold(&mut self, base: Option<&Value>, operands: &[Value]) -> Result<()> {
        let operands: Vec<&[u8]> = operands.iter().map(|operand| &**operand).collect();
        let value = self.operator.full(&self.key, base.map(|base| &**base), &operands)?;
        self.value.set(Some(Value::owned(&value)), false);
        Ok(())
    }

    #[inline]
    fn is_past_high(&self, key: &[u8]) -> bool {
        is_past(self.limits.high.as_deref(), self.high_head, key)
    }

    /// The key here. Only after a move that returned true.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match (self.direction, self.cursor.entry()) {
            (Direction::Forward | Direction::Standing, Some(entry)) => entry.key,
            _ => &self.key,
        }
    }

    /// The key and the value here, without a copy.
    ///
    /// # Panics
    /// When the last move did not return true.
    #[inline]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        match (self.direction, self.value.get()) {
            (Direction::Forward | Direction::Standing, None) => {
                let entry = self.cursor.entry().expect("the last move returned true");
                (entry.key, entry.value)
            }
            _ => (self.key(), self.value_bytes()),
        }
    }

    /// Reads the value from its value file if it lies there. Until then [`Self::value`] is the pointer to it.
    ///
    /// # Errors
    /// `Corruption` or `Io` when it cannot be read.
    #[inline]
    pub fn fetch(&mut self) -> Result<()> {
        if !self.value.is_unread() {
            return Ok(());
        }
        let at_cursor = self.cursor.entry().map_or(&[][..], |entry| entry.value);
        self.value.fetch(at_cursor)
    }

    /// The value here, without a copy.
    ///
    /// # Panics
    /// When the last move did not return true.
    #[inline]
    pub fn value_bytes(&self) -> &[u8] {
        match self.value.get() {
            Some(value) => value,
            None => self.cursor.entry().expect("the last move returned true").value,
        }
    }

    /// The value here, kept alive beyond the walk.
    ///
    /// # Panics
    /// When the last move did not return true.
    pub fn value(&self) -> Value {
        match self.value.get() {
            Some(value) => value.clone(),
            None => self.cursor.value().expect("the last move returned true"),
        }
    }
}

/// Whether a key is not below the upper end of a range, if that has one.
#[inline]
fn is_past(high: Option<&[u8]>, high_head: u64, key: &[u8]) -> bool {
    high.is_some_and(|high| head(key) >= high_head && key >= high)
}

impl<C> fmt::Debug for SnapshotIter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotIter")
            .field("snapshot", &self.snapshot)
            .field("direction", &self.direction)
            .field("key", &self.key.escape_ascii().to_string())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::{Bound, RangeBounds};

    use proptest::prelude::*;

    use super::*;
    use crate::tree::vec_cursor::{Append, OwnedEntry, VecCursor, folded, keys, trees};

    fn bounds() -> impl Strategy<Value = Bound<Vec<u8>>> {
        prop_oneof![keys().prop_map(Bound::Included), keys().prop_map(Bound::Excluded), Just(Bound::Unbounded)]
    }

    /// A tree whose keys may have more versions than are stepped over.
    fn crowded() -> impl Strategy<Value = Vec<OwnedEntry>> {
        let copies = |(entries, copies): (Vec<OwnedEntry>, usize)| {
            entries.into_iter().flat_map(|entry| std::iter::repeat_n(entry, copies)).collect()
        };
        (trees(), prop_oneof![4 => Just(1), 1 => 5..20usize]).prop_map(copies)
    }

    fn appending() -> ReadContext {
        ReadContext { operator: Append { partial: false }.of_table(), ..ReadContext::default() }
    }

    fn seen(
        entries: &[OwnedEntry],
        snapshot: SeqNum,
        range: &(Bound<Vec<u8>>, Bound<Vec<u8>>),
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut versions: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.seqnum <= snapshot && range.contains(&entry.key)) {
            versions.entry(entry.key.clone()).or_default().push(entry);
        }
        let value = |versions: Vec<&OwnedEntry>| folded(versions.into_iter()).flatten();
        versions.into_iter().filter_map(|(key, versions)| value(versions).map(|value| (key, value))).collect()
    }

    fn walk(
        mut visible: SnapshotIter<VecCursor>,
        step: fn(&mut SnapshotIter<VecCursor>) -> Result<bool>,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut shown = Vec::new();
        while step(&mut visible).unwrap() {
            assert_eq!(visible.value(), *visible.value_bytes());
            shown.push((visible.key().to_vec(), visible.value_bytes().to_vec()));
        }
        assert!(!step(&mut visible).unwrap());
        shown
    }

    proptest! {
        #[test]
        fn both_directions_show_what_the_snapshot_sees(
            entries in crowded(), snapshot in (0..=20u64).prop_map(SeqNum), start in bounds(), end in bounds(),
        ) {
            let mut entries: Vec<_> = entries.into_iter().filter(|entry| entry.value != [99]).collect();
            for entry in entries.iter_mut().filter(|entry| entry.kind == Kind::Delete && entry.seqnum.0 % 2 == 0) {
                entry.kind = Kind::SingleDelete;
            }
            let visible = || {
                let cursor = VecCursor::new(entries.clone());
                let ends = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
                SnapshotIter::new(cursor, snapshot, Arc::new(Limits::between(ends, None)), appending())
            };
            let mut expected = seen(&entries, snapshot, &(start.clone(), end.clone()));
            prop_assert_eq!(&walk(visible(), SnapshotIter::next), &expected);
            expected.reverse();
            prop_assert_eq!(&walk(visible(), SnapshotIter::prev), &expected);
        }

        #[test]
        fn a_failure_is_never_the_end_of_the_range(entries in crowded(), moves in 0..20usize, backward: bool) {
            let entries = entries.into_iter().filter(|entry| entry.value != [99]).collect();
            let cursor = VecCursor::new(entries).failing_after(moves);
            let mut visible = SnapshotIter::new(cursor, SeqNum::MAX, Arc::default(), appending());
            let mut step = || if backward { visible.prev() } else { visible.next() };
            let end = loop {
                match step() {
                    Ok(true) => {}
                    end => break end,
                }
            };
            prop_assert_eq!(end.is_err(), step().is_err());
        }
    }

    #[test]
    #[should_panic(expected = "does not turn around")]
    fn turning_around_panics() {
        let mut visible =
            SnapshotIter::new(VecCursor::new(Vec::new()), SeqNum::MAX, Arc::default(), ReadContext::default());
        visible.direction = Direction::Forward;
        visible.prev().expect("it panics first");
    }
}
