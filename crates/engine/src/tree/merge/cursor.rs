//! The cursor over all entries of several cursors.

use std::cmp::Ordering;
use std::sync::Arc;

use super::order::{Player, SourceOrder};
use crate::base::debug::debug_by;
use crate::base::{Entry, Error, Result, Value};
use crate::tree::cost::Costs;
use crate::tree::cursor::{Cursor, KeyCursor, LazySeek, Leaf, Limits, MergeSource, Position, SeqnumBounds, leave_key};
use crate::tree::leaf_cursor::LeafCursor;

/// A cursor over all entries of several cursors.
pub struct MergeCursor {
    sources: Vec<Box<dyn MergeSource>>,
    /// Sources may have left their entries unread.
    any_lazy: bool,
    winner: usize,
    order: SourceOrder,
    /// The winner's position in its leaf, while the merge walks there itself.
    here: LeafCursor,
    state: State,
}

/// The position of the merge, and the direction in which it came there.
enum State {
    Nowhere,
    Forward,
    Backward,
    /// A source failed: every later move reports this.
    Failed(Error),
}

impl MergeCursor {
    /// A merge of `sources`, newest tree first.
    #[must_use]
    pub fn new(sources: Vec<Box<dyn MergeSource>>) -> Self {
        let order = SourceOrder::new(sources.len());
        Self { sources, any_lazy: false, winner: 0, order, here: LeafCursor::nowhere(), state: State::Nowhere }
    }

    /// The number of the cursor that the entry comes from.
    #[inline]
    #[must_use]
    pub const fn source(&self) -> usize {
        self.winner
    }

    /// The leaf that begins with the current entry, going forward, if no other source has a key up to its last one.
    /// Then [`Self::skip_leaf`] moves past all of it.
    #[inline]
    pub fn whole_leaf(&mut self) -> Option<Leaf<'_>> {
        if self.here.is_nowhere() {
            self.sources.get(self.winner)?.leaf()?;
        } else {
            self.here.leaf_if_first()?;
            self.give_back();
        }
        self.alone_in_leaf()
    }

    fn alone_in_leaf(&self) -> Option<Leaf<'_>> {
        let leaf = self.sources[self.winner].leaf().filter(|_| self.forward())?;
        let is_behind = |other: &Player| {
            let key = self.sources[other.source()].key();
            key.is_none_or(|key| leaf.block.compare_key(leaf.block.count() - 1, key).is_lt())
        };
        self.order.second().is_none_or(|other| !other.is_lazy && is_behind(other)).then_some(leaf)
    }

    /// Moves past the rest of the leaf that [`Self::whole_leaf`] returned.
    ///
    /// # Errors
    /// As of any move.
    pub fn skip_leaf(&mut self) -> Result<()> {
        self.step(|source| source.skip_leaf())
    }

    /// How many cursors are merged.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Moves every source with `step`, and continues from there in the direction of `state`.
    fn start(&mut self, state: State, step: impl Fn(&mut dyn MergeSource) -> Result<()>) -> Result<()> {
        self.give_back();
        self.check()?;
        let moved = self.sources.iter_mut().try_for_each(|source| step(&mut **source));
        self.guard(moved)?;
        (self.state, self.any_lazy) = (state, false);
        self.begin()?;
        self.borrow();
        Ok(())
    }

    /// Moves every source lazily to the first entry that is not below `key`, and continues forward from there.
    fn start_lazily(&mut self, key: &[u8]) -> Result<()> {
        self.check()?;
        while self.sources.iter_mut().map(|source| usize::from(source.prefetch_seek_ge(key))).sum::<usize>() > 0 {}
        let moved = self.sources.iter_mut().try_for_each(|source| source.lazy_seek_ge(key));
        self.guard(moved)?;
        self.state = State::Forward;
        self.any_lazy = true;
        self.order.begin_at(&self.sources, key);
        self.place_all()
    }

    /// Lets all sources read their entries.
    fn resolve_all(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.any_lazy) {
            return Ok(());
        }
        let arrived = self.sources.iter_mut().try_for_each(|source| source.resolve());
        self.guard(arrived)
    }

    /// Moves the winner with `step` in the direction of `state`, and finds the next winner.
    #[inline]
    fn step(&mut self, step: impl Fn(&mut dyn MergeSource) -> Result<()>) -> Result<()> {
        self.give_back();
        let winner = self.winner;
        let moved = step(&mut *self.sources[winner]);
        self.guard(moved)?;
        self.place_winner()?;
        self.borrow();
        Ok(())
    }

    /// Moves the winner to its next key.
    #[inline]
    fn step_key(&mut self, key: &mut Vec<u8>) -> Result<u64> {
        let winner = self.winner;
        let moved = self.sources[winner].next_key(key);
        let older = self.guard(moved)?;
        self.place_winner()?;
        Ok(older)
    }

    /// As [`Self::step_key`], when another source may be at the same key, and then moves with it.
    fn step_tied_keys(&mut self, key: &mut Vec<u8>) -> Result<u64> {
        key.clear();
        key.extend_from_slice(self.sources[self.winner].key().unwrap_or_default());
        let mut older = self.step_key(key)?;
        while self.sources[self.winner].key().is_some_and(|here| here == *key) {
            older += 1 + self.step_key(key)?;
        }
        Ok(older)
    }

    /// Takes over the position of a single source in its leaf.
    #[inline]
    fn borrow(&mut self) {
        if let [source] = &mut *self.sources {
            source.swap_leaf_cursor(&mut self.here);
        }
    }

    /// Gives the position in the leaf back to the winner.
    #[inline]
    fn give_back(&mut self) {
        if !self.here.is_nowhere() {
            self.sources[self.winner].swap_leaf_cursor(&mut self.here);
        }
    }

    /// Reverses the direction at the winner's entry: moves all other sources to its other side.
    #[cold]
    fn turn(&mut self, state: State) -> Result<()> {
        self.give_back();
        self.resolve_all()?;
        let forward = matches!(state, State::Forward);
        let moved = self.cross(forward);
        self.guard(moved)?;
        self.state = state;
        self.begin()
    }

    fn cross(&mut self, forward: bool) -> Result<()> {
        let winner = self.winner;
        let (newer, rest) = self.sources.split_at_mut(winner);
        let (this, older) = rest.split_first_mut().expect("the winner is a source");
        let Some(here) = this.entry() else { return Ok(()) };
        let newer = newer.iter_mut().map(|source| (Ordering::Less, source));
        let older = older.iter_mut().map(|source| (Ordering::Greater, source));
        let far_side = if forward { Ordering::Greater } else { Ordering::Less };
        for (rank, source) in newer.chain(older) {
            match (source.entry().is_some(), forward) {
                (true, true) => source.next()?,
                (true, false) => source.prev()?,
                (false, true) => source.first()?,
                (false, false) => source.last()?,
            }
            while source.entry().is_some_and(|entry| entry.key.cmp(here.key).then(rank) != far_side) {
                if forward { source.next()? } else { source.prev()? }
            }
        }
        Ok(())
    }

    /// Continues from the positions of the sources.
    fn begin(&mut self) -> Result<()> {
        self.resolve_all()?;
        match self.sources.len() {
            0 => self.state = State::Nowhere,
            1 => self.winner = 0,
            _ => {
                self.order.begin(&self.sources);
                self.place_all()?;
            }
        }
        Ok(())
    }

    /// Puts all sources in order.
    fn place_all(&mut self) -> Result<()> {
        self.order.place_all(&self.sources, self.forward(), self.any_lazy);
        self.crown()
    }

    /// Makes the first source the winner, once it has read its entry.
    #[inline]
    fn crown(&mut self) -> Result<()> {
        let first = self.order.first();
        self.winner = first.source();
        if !first.is_lazy {
            return Ok(());
        }
        let arrived = self.sources[self.winner].resolve();
        self.guard(arrived)?;
        self.place_winner()
    }

    /// Puts the winner, which was moved, in its place.
    #[inline]
    fn place_winner(&mut self) -> Result<()> {
        if self.sources.len() == 1 {
            return Ok(());
        }
        let Some(is_other) = self.order.place_first(&self.sources, self.winner) else { return self.begin() };
        if is_other {
            self.crown()?;
        }
        if self.order.has_many_ties() { self.lengthen_prefix() } else { Ok(()) }
    }

    /// Continues with a longer prefix, if the keys have more in common.
    #[cold]
    fn lengthen_prefix(&mut self) -> Result<()> {
        self.resolve_all()?;
        if self.order.lengthen_prefix(&self.sources) { self.place_all() } else { Ok(()) }
    }

    /// The only source, if the merge does not walk in its leaf itself.
    #[inline]
    fn lone(&mut self) -> Option<&mut dyn MergeSource> {
        match &mut *self.sources {
            [source] if self.here.is_nowhere() => Some(&mut **source),
            _ => None,
        }
    }

    /// The winner, unless the merge is positioned nowhere.
    fn current(&self) -> Option<&dyn MergeSource> {
        matches!(self.state, State::Forward | State::Backward).then(|| &*self.sources[self.winner])
    }

    #[inline]
    const fn forward(&self) -> bool {
        matches!(self.state, State::Forward)
    }

    /// Remembers that a move of a source failed: every later move fails.
    #[inline]
    fn guard<T>(&mut self, moved: Result<T>) -> Result<T> {
        moved.inspect_err(|error| self.state = State::Failed(error.again()))
    }

    fn check(&self) -> Result<()> {
        match &self.state {
            State::Failed(error) => Err(error.again()),
            _ => Ok(()),
        }
    }
}

impl Cursor for MergeCursor {
    fn first(&mut self) -> Result<()> {
        self.start(State::Forward, |source| source.first())
    }

    fn last(&mut self) -> Result<()> {
        self.start(State::Backward, |source| source.last())
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        match self.sources.len() {
            0 | 1 => self.start(State::Forward, |source| source.seek_ge(key)),
            _ => self.start_lazily(key),
        }
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.start(State::Backward, |source| source.seek_lt(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match self.state {
            State::Forward if self.here.next_entry() => return Ok(()),
            State::Forward => {}
            State::Backward => self.turn(State::Forward)?,
            State::Nowhere | State::Failed(_) => return self.check(),
        }
        self.step(|source| source.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        match self.state {
            State::Backward if self.here.prev_entry() => return Ok(()),
            State::Backward => {}
            State::Forward => self.turn(State::Backward)?,
            State::Nowhere | State::Failed(_) => return self.check(),
        }
        self.step(|source| source.prev())
    }

    fn limit(&mut self, limits: &Arc<Limits>) {
        self.sources.iter_mut().for_each(|source| source.limit(limits));
    }

    fn costs(&self) -> Costs {
        self.sources.iter().fold(Costs::default(), |costs, source| costs.plus(source.costs()))
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        if let Some(entry) = self.here.entry() {
            return Some(entry);
        }
        match self.state {
            State::Forward | State::Backward => self.sources[self.winner].entry(),
            State::Nowhere | State::Failed(_) => None,
        }
    }

    fn value(&self) -> Option<Value> {
        self.here.value().or_else(|| self.current()?.value())
    }
}

impl KeyCursor for MergeCursor {
    #[inline]
    fn next_key_in_leaf(&mut self) -> bool {
        self.forward() && (self.here.next_key() || self.lone().is_some_and(|source| source.next_key_in_leaf()))
    }

    #[inline]
    fn next_keys_in_leaf(&mut self, mut go_on: impl FnMut(Entry<'_>) -> bool) -> bool {
        if !self.forward() {
            return false;
        }
        if !self.here.is_nowhere() {
            return self.here.next_keys(go_on);
        }
        let Some(source) = self.lone() else { return false };
        while source.next_key_in_leaf() {
            if !source.entry().is_some_and(&mut go_on) {
                return true;
            }
        }
        false
    }

    #[inline]
    fn next_key(&mut self, key: &mut Vec<u8>) -> Result<u64> {
        if self.next_key_in_leaf() {
            return Ok(0);
        }
        if !self.forward() {
            return leave_key(self, key);
        }
        match self.sources.len() {
            1 if self.here.is_nowhere() => self.step_key(key),
            0 | 1 => leave_key(self, key),
            _ if self.order.first_two_tie() => self.step_tied_keys(key),
            _ => self.step_key(key),
        }
    }

    #[inline]
    fn is_first_version(&self) -> bool {
        let lone = || matches!(&*self.sources, [source] if self.here.is_nowhere() && source.is_first_version());
        matches!(self.state, State::Backward) && (self.here.is_first_version() || lone())
    }
}

impl LazySeek for MergeCursor {}

impl MergeSource for MergeCursor {
    fn seqnum_bounds(&self) -> SeqnumBounds {
        match self.state {
            State::Forward | State::Backward => self.sources[self.winner].seqnum_bounds(),
            State::Nowhere | State::Failed(_) => SeqnumBounds::UNKNOWN,
        }
    }

    fn position(&self) -> Option<Position> {
        self.current()?.position()
    }

    #[inline]
    fn is_cached(&self) -> bool {
        match self.state {
            State::Forward | State::Backward => self.sources[self.winner].is_cached(),
            State::Nowhere | State::Failed(_) => false,
        }
    }
}

debug_by!(MergeCursor, self => sources: self.sources.len(), entry: self.entry());

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tree::vec_cursor::{Move, OwnedEntry, VecCursor, apply, moves, trees};

    fn boxed(cursor: VecCursor) -> Box<dyn MergeSource> {
        Box::new(cursor)
    }

    /// A merge of trees, and what it should show.
    fn merge_and_model(trees: Vec<Vec<OwnedEntry>>) -> (MergeCursor, VecCursor) {
        let mut all = trees.concat();
        // Stable: equal keys stay in the order of their trees.
        all.sort_by(|a, b| a.key.cmp(&b.key));
        let sources = trees.into_iter().map(|tree| boxed(VecCursor::new(tree))).collect();
        (MergeCursor::new(sources), VecCursor::new(all))
    }

    proptest! {
        #[test]
        fn a_random_walk_shows_what_the_sorted_entries_show(trees in prop::collection::vec(trees(), 0..7), moves in moves()) {
            let (mut merge, mut model) = merge_and_model(trees);
            prop_assert_eq!(merge.entry(), None);
            for step in moves {
                prop_assert_eq!(apply(&mut merge, &step).unwrap(), apply(&mut model, &step).unwrap(), "by {:?}", step);
                prop_assert_eq!(merge.entry(), model.entry(), "after {:?}", step);
                prop_assert_eq!(merge.value().map(Vec::from), model.value().map(Vec::from));
            }
        }

        /// Long enough to take a prefix into account, and to come to keys that do not have it.
        #[test]
        fn a_whole_walk_shows_all_names(names in prop::collection::vec(("[ab](common(/name)?)?[a-c]{1,3}", 0..4usize), 0..200)) {
            let mut trees = vec![Vec::new(); 4];
            names.iter().for_each(|(name, tree)| trees[*tree].push(put(name.as_bytes())));
            trees.iter_mut().for_each(|tree| tree.sort_by(|a, b| a.key.cmp(&b.key)));
            let (mut merge, mut model) = merge_and_model(trees);
            for (start, step) in [(Move::First, Move::Next), (Move::Last, Move::Prev)] {
                apply(&mut merge, &start).unwrap();
                apply(&mut model, &start).unwrap();
                while model.entry().is_some() {
                    prop_assert_eq!(merge.entry(), model.entry());
                    apply(&mut merge, &step).unwrap();
                    apply(&mut model, &step).unwrap();
                }
                prop_assert_eq!(merge.entry(), None);
            }
        }

        #[test]
        fn a_failed_move_fuses_the_merge(
            trees in prop::collection::vec(trees(), 1..5),
            moves in moves(),
            successes in 0..10usize,
        ) {
            let sources = trees.into_iter().map(|tree| boxed(VecCursor::new(tree).failing_after(successes))).collect();
            let mut merge = MergeCursor::new(sources);
            let mut failed = false;
            for step in moves {
                let result = apply(&mut merge, &step);
                prop_assert!(!failed || result.is_err(), "recovered by {:?}", step);
                failed |= result.is_err();
                prop_assert!(!failed || merge.entry().is_none());
            }
        }
    }

    /// A cursor over a memtable moves among entries that other threads insert.
    #[test]
    fn turning_around_passes_entries_that_came_meanwhile() {
        struct Growing(VecCursor);
        impl Cursor for Growing {
            fn first(&mut self) -> Result<()> {
                self.0.first()
            }

            fn last(&mut self) -> Result<()> {
                self.0 = VecCursor::new([b"b", b"d", b"f"].map(|key| put(key)).to_vec());
                self.0.last()
            }

            fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
                self.0.seek_ge(key)
            }

            fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
                self.0.seek_lt(key)
            }

            fn next(&mut self) -> Result<()> {
                self.0.next()
            }

            fn prev(&mut self) -> Result<()> {
                self.0.prev()
            }

            fn entry(&self) -> Option<Entry<'_>> {
                self.0.entry()
            }

            fn value(&self) -> Option<Value> {
                self.0.value()
            }
        }

        impl KeyCursor for Growing {}

        impl LazySeek for Growing {}

        impl MergeSource for Growing {}
        let growing = Growing(VecCursor::new(vec![put(b"b")]));
        let fixed = VecCursor::new([b"a", b"c"].map(|key| put(key)).to_vec());
        let mut merge = MergeCursor::new(vec![Box::new(growing), Box::new(fixed)]);
        merge.seek_ge(b"c").unwrap();
        assert_eq!(merge.entry().unwrap().key, b"c");
        merge.prev().unwrap();
        assert_eq!(merge.entry().unwrap().key, b"b");
        merge.next().unwrap();
        assert_eq!(merge.entry().unwrap().key, b"c");
        merge.next().unwrap();
        assert_eq!(merge.entry().unwrap().key, b"d");
    }

    /// A tree that ties with the next one and stays first all the time takes a longer prefix too.
    #[test]
    fn ties_of_who_stays_first_lengthen_the_prefix() {
        let names: Vec<_> = (0..10).map(|i| put(format!("spinney-{i}").as_bytes())).collect();
        let first = std::iter::once(put(b"a")).chain(names).collect();
        let mut merge =
            MergeCursor::new(vec![boxed(VecCursor::new(first)), boxed(VecCursor::new(vec![put(b"spinney-z")]))]);
        merge.first().unwrap();
        (0..5).for_each(|_| merge.next().unwrap());
        assert_eq!(merge.order.prefix, b"spinney");
    }

    #[test]
    fn the_prefix_is_what_two_keys_have_in_common() {
        let tree = |keys: &[&[u8]]| boxed(VecCursor::new(keys.iter().map(|key| put(key)).collect()));
        let (a, b, c) = (&b"spinney-a"[..], &b"spinney-b"[..], &b"spinney-c"[..]);
        let mut merge = MergeCursor::new(vec![tree(&[a, c]), tree(&[b])]);
        merge.first().unwrap();
        assert_eq!(merge.order.prefix, b"spinney");
        // Of a key alone all is common, and the next one would not have it.
        merge.seek_ge(c).unwrap();
        assert_eq!(merge.entry().unwrap().key, c);
        assert!(merge.order.prefix.is_empty());
    }

    fn put(key: &[u8]) -> OwnedEntry {
        use crate::base::{Kind, SeqNum};
        OwnedEntry { key: key.to_vec(), seqnum: SeqNum(1), kind: Kind::Put, value: Vec::new() }
    }
}
