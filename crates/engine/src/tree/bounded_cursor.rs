//! A cursor over those entries of another one that lie within limits.

use std::sync::Arc;

use super::cursor::{Cursor, KeyCursor, LazySeek, Limits, MergeSource, SeqnumBounds};
use crate::base::debug::debug_by;
use crate::base::{Entry, Result, Value};

/// The entries of a cursor from a key on and before another.
pub struct BoundedCursor<'a> {
    cursor: &'a mut dyn MergeSource,
    limits: Arc<Limits>,
}

impl<'a> BoundedCursor<'a> {
    /// The part of what `cursor` shows that lies within `limits`. It is positioned nowhere before the first move.
    pub fn new(cursor: &'a mut dyn MergeSource, limits: Limits) -> Self {
        let limits = Arc::new(limits);
        cursor.limit(&limits);
        Self { cursor, limits }
    }
}

debug_by!(BoundedCursor<'_>, self => limits: self.limits);

impl Cursor for BoundedCursor<'_> {
    fn first(&mut self) -> Result<()> {
        self.cursor.seek_ge(&self.limits.low)
    }

    fn last(&mut self) -> Result<()> {
        match &self.limits.high {
            Some(high) => self.cursor.seek_lt(high),
            None => self.cursor.last(),
        }
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_ge(key.max(&self.limits.low))
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_lt(self.limits.high.as_deref().map_or(key, |high| key.min(high)))
    }

    fn next(&mut self) -> Result<()> {
        // From nowhere no step leads back.
        if self.entry().is_some() { self.cursor.next() } else { Ok(()) }
    }

    fn prev(&mut self) -> Result<()> {
        if self.entry().is_some() { self.cursor.prev() } else { Ok(()) }
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.entry().filter(|entry| self.limits.contain(entry.key))
    }

    fn value(&self) -> Option<Value> {
        self.entry()?;
        self.cursor.value()
    }
}

impl KeyCursor for BoundedCursor<'_> {}

impl LazySeek for BoundedCursor<'_> {}

impl MergeSource for BoundedCursor<'_> {
    fn is_cached(&self) -> bool {
        self.cursor.is_cached()
    }

    fn seqnum_bounds(&self) -> SeqnumBounds {
        self.cursor.seqnum_bounds()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tree::vec_cursor::{OwnedEntry, VecCursor, apply, moves, trees};

    proptest! {
        #[test]
        fn a_part_shows_what_a_list_of_its_entries_shows(
            entries in trees(),
            low in prop::collection::vec(any::<u8>(), 0..3),
            high in prop::option::of(prop::collection::vec(any::<u8>(), 0..3)),
            moves in moves(),
        ) {
            let limits = Limits::new(low, high, None);
            let within: Vec<OwnedEntry> = entries.iter().filter(|entry| limits.contain(&entry.key)).cloned().collect();
            let (mut whole, mut model) = (VecCursor::new(entries), VecCursor::new(within));
            let mut part = BoundedCursor::new(&mut whole, limits);
            for step in moves {
                apply(&mut part, &step).unwrap();
                apply(&mut model, &step).unwrap();
                prop_assert_eq!(part.entry(), model.entry(), "after {:?}", step);
                prop_assert_eq!(part.value().map(Vec::from), model.value().map(Vec::from));
            }
        }
    }
}
