//! A level of disjoint runs: finding the run that may hold a key, and walking through all of them.

use super::cursor::RunCursor;
use super::reader::Run;
use super::sticky_error::StickyError;
use crate::base::debug::debug_by;
use crate::base::key::head;
use crate::base::{Entry, Result, SeqNum, Value};
use crate::cache::Fill;
use crate::tree::cost::Costs;
use crate::tree::cursor::{Cursor, KeyCursor, LazySeek, Leaf, Limits, MergeSource, Position, SeqnumBounds};
use crate::tree::leaf_cursor::{KeyBound, LeafCursor};
use std::sync::Arc;

/// The one run that may hold `key`, among runs sorted by key whose ranges do not touch.
#[inline]
#[must_use]
pub fn run_of<'a>(runs: &'a [Arc<Run>], key: &[u8]) -> Option<&'a Arc<Run>> {
    let run = runs.get(first_not_below(runs, key))?;
    (*run.meta().smallest <= *key).then_some(run)
}

/// Whether the ranges of the runs ascend and do not touch.
#[must_use]
pub fn are_apart(runs: &[Arc<Run>]) -> bool {
    runs.is_sorted_by(|a, b| a.meta().largest < b.meta().smallest)
}

/// The first run with keys that are not below `key`.
#[inline]
fn first_not_below(runs: &[Arc<Run>], key: &[u8]) -> usize {
    if runs.is_empty() {
        return 0;
    }
    let head = head(key);
    runs.partition_point(|run| run.is_below(key, head))
}

/// A cursor over runs sorted by key whose ranges do not touch. It touches the files of those runs only that it enters.
pub struct LevelCursor {
    runs: Arc<[Arc<Run>]>,
    fill: Fill,
    sticky_error: StickyError,
    /// The run where the cursor is; meaningless while it is positioned nowhere.
    at: usize,
    cursor: Option<RunCursor>,
    limits: Option<Arc<Limits>>,
    /// The cursor is in the run of the key that the next seek is for.
    is_seeking: bool,
}

impl LevelCursor {
    /// A cursor positioned nowhere. (The code that puts the level together asserts that the ranges of the runs are in
    /// order; debug builds check it here.)
    #[must_use]
    pub fn new(runs: Arc<[Arc<Run>]>, fill: Fill) -> Self {
        debug_assert!(are_apart(&runs), "the runs of a level overlap");
        Self { runs, fill, sticky_error: StickyError::default(), at: 0, cursor: None, limits: None, is_seeking: false }
    }

    /// Makes a move in run `at`; there may be none, and then the cursor is positioned nowhere.
    fn enter(&mut self, at: Option<usize>, go: impl FnOnce(&mut RunCursor) -> Result<()>) -> Result<()> {
        self.is_seeking = false;
        let Some((at, run)) = at.and_then(|at| Some((at, self.runs.get(at)?))) else {
            self.leave();
            return Ok(());
        };
        self.at = at;
        let cursor = match &mut self.cursor {
            Some(cursor) => {
                cursor.change_run(run);
                cursor
            }
            None => {
                let cursor = self.cursor.insert(RunCursor::over(run, self.fill));
                if let Some(limits) = &self.limits {
                    cursor.limit(limits);
                }
                cursor
            }
        };
        let gone = go(cursor);
        self.sticky_error.guard(gone)
    }

    /// Stands nowhere.
    fn leave(&mut self) {
        if let (Some(cursor), Some(run)) = (&mut self.cursor, self.runs.get(self.at)) {
            cursor.change_run(run);
        }
    }

    /// The seqnum of the bulk load of this process that wrote the run where the cursor is; zero for other runs.
    pub(super) fn loaded_at(&self) -> SeqNum {
        self.runs.get(self.at).map_or(SeqNum::ZERO, |run| run.loaded_at())
    }

    /// Makes a move forward in the run where the cursor is, and goes on to the next run behind its end.
    #[inline]
    fn go_on(&mut self, go: impl FnOnce(&mut RunCursor) -> Result<()>) -> Result<()> {
        if self.is_nowhere() {
            return self.sticky_error.check();
        }
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        let gone = go(cursor);
        self.sticky_error.guard(gone)?;
        if self.is_nowhere() {
            return self.enter(Some(self.at + 1), RunCursor::first);
        }
        Ok(())
    }

    fn is_nowhere(&self) -> bool {
        self.cursor.as_ref().is_none_or(RunCursor::is_nowhere)
    }
}

impl Cursor for LevelCursor {
    fn first(&mut self) -> Result<()> {
        self.sticky_error.check()?;
        self.enter(Some(0), RunCursor::first)
    }

    fn last(&mut self) -> Result<()> {
        self.sticky_error.check()?;
        self.enter(self.runs.len().checked_sub(1), RunCursor::last)
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.lazy_seek_ge(key)?;
        self.resolve()
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.sticky_error.check()?;
        let runs_before = self.runs.partition_point(|run| *run.meta().smallest < *key);
        self.enter(runs_before.checked_sub(1), |cursor| cursor.seek_lt(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.go_on(RunCursor::next)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.is_nowhere() {
            return self.sticky_error.check();
        }
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        let gone = cursor.prev();
        self.sticky_error.guard(gone)?;
        if self.is_nowhere() {
            return self.enter(self.at.checked_sub(1), RunCursor::last);
        }
        Ok(())
    }

    fn limit(&mut self, limits: &Arc<Limits>) {
        self.limits = Some(Arc::clone(limits));
        if let Some(cursor) = &mut self.cursor {
            cursor.limit(limits);
        }
    }

    fn costs(&self) -> Costs {
        self.cursor.as_ref().map_or_else(Costs::default, RunCursor::costs)
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.as_ref()?.entry()
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.cursor.as_ref()?.key()
    }

    fn value(&self) -> Option<Value> {
        self.cursor.as_ref()?.value()
    }
}

impl KeyCursor for LevelCursor {
    #[inline]
    fn next_key_in_leaf(&mut self) -> bool {
        self.cursor.as_mut().is_some_and(RunCursor::next_key_in_leaf)
    }
}

impl LazySeek for LevelCursor {
    fn lazy_seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.sticky_error.check()?;
        if std::mem::take(&mut self.is_seeking)
            && let Some(cursor) = &mut self.cursor
        {
            let gone = cursor.lazy_seek_ge(key);
            return self.sticky_error.guard(gone);
        }
        self.enter(Some(first_not_below(&self.runs, key)), |cursor| cursor.lazy_seek_ge(key))
    }

    #[inline]
    fn lazy_key(&self) -> Option<KeyBound<'_>> {
        self.cursor.as_ref()?.lazy_key()
    }

    #[inline]
    fn resolve(&mut self) -> Result<()> {
        self.cursor.as_mut().map_or(Ok(()), RunCursor::resolve)
    }

    fn prefetch_seek_ge(&mut self, key: &[u8]) -> bool {
        if !self.is_seeking {
            let at = first_not_below(&self.runs, key);
            let entered = self.sticky_error.check().and_then(|()| self.enter(Some(at), |_| Ok(())));
            if entered.is_err() || at == self.runs.len() {
                return false;
            }
            self.is_seeking = true;
        }
        self.cursor.as_mut().is_some_and(|cursor| cursor.prefetch_seek_ge(key))
    }
}

impl MergeSource for LevelCursor {
    fn position(&self) -> Option<Position> {
        Some(Position { run: self.at, ..self.cursor.as_ref()?.position()? })
    }

    fn seek_ge_nearby(&mut self, key: &[u8]) -> Result<()> {
        self.sticky_error.check()?;
        match self.runs.get(self.at) {
            Some(run) if *run.meta().largest < *key => self.enter(Some(self.at + 1), RunCursor::first),
            _ => self.enter(Some(self.at), |cursor| cursor.seek_ge(key)),
        }
    }

    fn seek_lt_nearby(&mut self, key: &[u8]) -> Result<()> {
        self.sticky_error.check()?;
        match self.runs.get(self.at) {
            Some(run) if *run.meta().smallest >= *key => self.enter(self.at.checked_sub(1), RunCursor::last),
            _ => self.enter(Some(self.at), |cursor| cursor.seek_lt(key)),
        }
    }

    #[inline]
    fn leaf(&self) -> Option<Leaf<'_>> {
        self.cursor.as_ref()?.leaf()
    }

    fn skip_leaf(&mut self) -> Result<()> {
        self.go_on(RunCursor::skip_leaf)
    }

    fn swap_leaf_cursor(&mut self, place: &mut LeafCursor) {
        if let Some(cursor) = &mut self.cursor {
            cursor.swap_leaf_cursor(place);
        }
    }

    fn seqnum_bounds(&self) -> SeqnumBounds {
        self.runs.get(self.at).map_or(SeqnumBounds::UNKNOWN, |run| run.seqnum_bounds())
    }

    #[inline]
    fn is_cached(&self) -> bool {
        self.cursor.as_ref().is_some_and(MergeSource::is_cached)
    }
}

debug_by!(LevelCursor, self => cursor: self.cursor);
