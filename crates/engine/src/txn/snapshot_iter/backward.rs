//! The iterator's way backward.

use super::iter::{Direction, SnapshotIter};
use crate::base::{Kind, Result};
use crate::store::BlocksRead;
use crate::tree::KeyCursor;

impl<C: KeyCursor> SnapshotIter<C> {
    /// Moves to the previous key that is seen, or returns false at the start of the range.
    ///
    /// # Errors
    /// As the cursor's; every later call fails too.
    ///
    /// # Panics
    /// After [`Self::next`].
    pub fn prev(&mut self) -> Result<bool> {
        match self.direction {
            // Nowhere is the start of the range, or a failure, which a further move reports again.
            Direction::Backward if self.cursor.entry().is_none() => self.cursor.prev()?,
            Direction::Backward => {}
            Direction::Standing => {
                self.direction = Direction::Backward;
                self.cursor.prev()?;
            }
            Direction::Fresh => {
                self.direction = Direction::Backward;
                self.cursor.limit(&self.limits);
                let read = BlocksRead::so_far();
                match &self.limits.high {
                    Some(high) => self.cursor.seek_lt(high)?,
                    None => self.cursor.last()?,
                }
                self.sought_blocks_read = read.since();
            }
            Direction::Done => return Ok(false),
            Direction::Forward | Direction::Folded => panic!("a walk does not turn around"),
        }
        while let Some(entry) = self.cursor.entry()
            && *entry.key >= *self.limits.low
        {
            if entry.kind == Kind::Put && entry.seqnum <= self.snapshot && self.cursor.is_first_version() {
                self.tombstones.show(entry.key);
                self.value.clear();
                self.direction = Direction::Standing;
                return Ok(true);
            }
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.decide_backward()?;
            if self.value.get().is_some() {
                self.tombstones.show(&self.key);
                return Ok(true);
            }
        }
        self.end();
        Ok(false)
    }

    /// Passes all entries of `key`, oldest first, and keeps the value that the newest visible ones make.
    fn decide_backward(&mut self) -> Result<()> {
        self.value.clear();
        let mut operands = Vec::new();
        let mut versions = 0;
        while let Some(entry) = self.cursor.entry()
            && entry.key == self.key
        {
            if entry.seqnum <= self.snapshot {
                match entry.kind {
                    Kind::Merge => operands.extend(self.cursor.value()),
                    kind => {
                        operands.clear();
                        let value = if kind.is_tombstone() { None } else { self.cursor.value() };
                        self.value.set(value, kind == Kind::PutPointer);
                    }
                }
                versions += 1;
            }
            self.cursor.prev()?;
        }
        let shown = self.value.get().is_some() || !operands.is_empty();
        self.tombstones.step(versions - u64::from(shown), &self.key);
        if operands.is_empty() {
            return Ok(());
        }
        self.fetch()?;
        let base = self.value.take();
        self.fold(base.as_ref(), &operands)
    }
}
