//! Runs that lie side by side: finding the one that may hold a key, and walking through all of them.

use super::cursor::RunCursor;
use super::fuse::Fuse;
use super::reader::Run;
use crate::base::key::head;
use crate::base::{Entry, Result, SeqNum, Value};
use crate::cache::Fill;
use crate::tree::cost::Costs;
use crate::tree::cursor::{Ages, Cursor, KeyCursor, LazySeek, Leaf, Limits, MergeSource, Position};
use crate::tree::place::{Near, Place};
use std::fmt;
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
    fuse: Fuse,
    /// The run where the cursor is; meaningless while it stands nowhere.
    at: usize,
    cursor: Option<RunCursor>,
    limits: Option<Arc<Limits>>,
    /// The cursor is in the run of the key that the next seek is for.
    approaches: bool,
}

impl LevelCursor {
    /// A cursor that stands nowhere. (The code that puts the level together asserts that the ranges of the runs are in
    /// order; debug builds check it here.)
    #[must_use]
    pub fn new(runs: Arc<[Arc<Run>]>, fill: Fill) -> Self {
        debug_assert!(are_apart(&runs), "the runs of a level overlap");
        Self { runs, fill, fuse: Fuse::default(), at: 0, cursor: None, limits: None, approaches: false }
    }

    /// Makes a move in run `at`; there may be none, and then the cursor stands nowhere.
    fn enter(&mut self, at: Option<usize>, go: impl FnOnce(&mut RunCursor) -> Result<()>) -> Result<()> {
        self.approaches = false;
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
                let cursor = self.cursor.insert(run.cursor(self.fill));
                if let Some(limits) = &self.limits {
                    cursor.limit(limits);
                }
                cursor
            }
        };
        let gone = go(cursor);
        self.fuse.guard(gone)
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
            return self.fuse.check();
        }
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        let gone = go(cursor);
        self.fuse.guard(gone)?;
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
        self.fuse.check()?;
        self.enter(Some(0), RunCursor::first)
    }

    fn last(&mut self) -> Result<()> {
        self.fuse.check()?;
        self.enter(self.runs.len().checked_sub(1), RunCursor::last)
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.near_ge(key)?;
        self.arrive()
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.fuse.check()?;
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
            return self.fuse.check();
        }
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        let gone = cursor.prev();
        self.fuse.guard(gone)?;
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
    fn next_key_here(&mut self) -> bool {
        self.cursor.as_mut().is_some_and(RunCursor::next_key_here)
    }
}

impl LazySeek for LevelCursor {
    fn near_ge(&mut self, key: &[u8]) -> Result<()> {
        self.fuse.check()?;
        if std::mem::take(&mut self.approaches)
            && let Some(cursor) = &mut self.cursor
        {
            let gone = cursor.near_ge(key);
            return self.fuse.guard(gone);
        }
        self.enter(Some(first_not_below(&self.runs, key)), |cursor| cursor.near_ge(key))
    }

    #[inline]
    fn near(&self) -> Option<Near<'_>> {
        self.cursor.as_ref()?.near()
    }

    #[inline]
    fn arrive(&mut self) -> Result<()> {
        self.cursor.as_mut().map_or(Ok(()), RunCursor::arrive)
    }

    fn approach_ge(&mut self, key: &[u8]) -> bool {
        if !self.approaches {
            let at = first_not_below(&self.runs, key);
            let entered = self.fuse.check().and_then(|()| self.enter(Some(at), |_| Ok(())));
            if entered.is_err() || at == self.runs.len() {
                return false;
            }
            self.approaches = true;
        }
        self.cursor.as_mut().is_some_and(|cursor| cursor.approach_ge(key))
    }
}

impl MergeSource for LevelCursor {
    fn position(&self) -> Option<Position> {
        Some(Position { run: self.at, ..self.cursor.as_ref()?.position()? })
    }

    fn leap_ge(&mut self, key: &[u8]) -> Result<()> {
        self.fuse.check()?;
        match self.runs.get(self.at) {
            Some(run) if *run.meta().largest < *key => self.enter(Some(self.at + 1), RunCursor::first),
            _ => self.enter(Some(self.at), |cursor| cursor.seek_ge(key)),
        }
    }

    fn leap_lt(&mut self, key: &[u8]) -> Result<()> {
        self.fuse.check()?;
        match self.runs.get(self.at) {
            Some(run) if *run.meta().smallest >= *key => self.enter(self.at.checked_sub(1), RunCursor::last),
            _ => self.enter(Some(self.at), |cursor| cursor.seek_lt(key)),
        }
    }

    #[inline]
    fn leaf(&self) -> Option<Leaf<'_>> {
        self.cursor.as_ref()?.leaf()
    }

    fn leave_leaf(&mut self) -> Result<()> {
        self.go_on(RunCursor::leave_leaf)
    }

    fn exchange(&mut self, place: &mut Place) {
        if let Some(cursor) = &mut self.cursor {
            cursor.exchange(place);
        }
    }

    fn ages(&self) -> Ages {
        self.runs.get(self.at).map_or(Ages::UNKNOWN, |run| run.ages())
    }

    #[inline]
    fn is_cached(&self) -> bool {
        self.cursor.as_ref().is_some_and(MergeSource::is_cached)
    }
}

impl fmt::Debug for LevelCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LevelCursor")
            .field("runs", &self.runs.len())
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}
