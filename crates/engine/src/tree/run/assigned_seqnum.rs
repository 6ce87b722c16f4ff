//! The cursor for merges: entries with the seqnums that they have, also those of a bulk load, which are not stored.
//!
//! Readers do not need it: they leave out a run that is younger than their snapshot, and the seqnums of the others do
//! not matter to them.

use std::sync::Arc;

use super::cursor::RunCursor;
use super::level::LevelCursor;
use super::reader::Run;
use crate::base::{Entry, Result, SeqNum, Value};
use crate::cache::Fill;
use crate::tree::cursor::{Cursor, KeyCursor, LazySeek, Limits, MergeSource, SeqnumBounds};

/// A cursor over runs that ascend and do not touch, for a merge that writes what it reads.
#[must_use]
pub fn merge_source(runs: Arc<[Arc<Run>]>) -> Box<dyn MergeSource> {
    let is_assigned = runs.iter().any(|run| run.loaded_at() > SeqNum::ZERO);
    match &*runs {
        _ if is_assigned => Box::new(AssignedSeqnum(LevelCursor::new(runs, Fill::Merge))),
        [run] => Box::new(RunCursor::over(run, Fill::Merge)),
        _ => Box::new(LevelCursor::new(runs, Fill::Merge)),
    }
}

/// Shows the entries of a run with at least the seqnum of the bulk load that wrote it.
struct AssignedSeqnum(LevelCursor);

impl Cursor for AssignedSeqnum {
    fn first(&mut self) -> Result<()> {
        self.0.first()
    }

    fn last(&mut self) -> Result<()> {
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

    fn limit(&mut self, limits: &Arc<Limits>) {
        self.0.limit(limits);
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.0.entry()?;
        Some(Entry { seqnum: entry.seqnum.max(self.0.loaded_at()), ..entry })
    }

    fn value(&self) -> Option<Value> {
        self.0.value()
    }
}

impl KeyCursor for AssignedSeqnum {}

impl LazySeek for AssignedSeqnum {}

impl MergeSource for AssignedSeqnum {
    fn is_cached(&self) -> bool {
        self.0.is_cached()
    }

    fn seqnum_bounds(&self) -> SeqnumBounds {
        self.0.seqnum_bounds()
    }
}
