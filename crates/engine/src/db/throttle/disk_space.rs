//! Space on disk: commits that put are refused before memtables hold more than the disk has room to flush. So on a disk
//! that the database has filled there is room to flush deletions, for the redo log of more, and for the merges that
//! give space back.
//!
//! # Concurrency
//! Both fields only steer. A commit that is admitted by a stale value takes a little of the space that is kept.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Result};
use crate::db::state::State;
use crate::table::manifest;
use crate::txn::batch::Changes;

use super::budget::WriteBudget;

/// Bytes that stay free beside what memtables hold, at most; a segment of the log if that is less. A new manifest and
/// its copy come on top.
const KEPT_BYTES_MAX: u64 = 1 << 20;
/// The free space is measured again when memtables have grown by a fourth of the room that was left: at most by this
/// part of memory, at least by this part of what is kept.
const LEFT_PART: u64 = 4;
const MEMORY_PART: u64 = 64;
const KEPT_PART: u64 = 8;
/// Memtables of less than this part of what is kept are not flushed for want of space.
const WORTH_PART: u64 = 2;

/// What was found when it was looked last how much space there is.
#[derive(Debug, Default)]
pub(super) struct DiskSpace {
    /// There was not enough: commits that put look again before they go on.
    is_tight: AtomicBool,
    /// Bytes of memtables from which on it is looked again.
    look_at: AtomicU64,
}

impl DiskSpace {
    /// Refuses changes that the disk may have no room for. Deletions pass: they make room.
    pub(super) fn check(&self, state: &State, budget: &WriteBudget, changes: &Changes) -> Result<()> {
        if !self.is_tight.load(Ordering::Relaxed) || changes.makes_room() {
            return Ok(());
        }
        let missing = self.missing(state, budget.memtable_bytes() + u64_of(changes.bytes()));
        if missing == 0 {
            return Ok(());
        }
        let message = format!(
            "the disk of {} has no room for more than to flush what is in memory: free {missing} bytes, also by deleting rows, ranges or tables",
            state.dir.display()
        );
        Err(Error::new(ErrorKind::Full, message))
    }

    /// Looks from time to time, as memtables grow by changes, whether they can be flushed; says so when the disk could
    /// hold no more.
    pub(super) fn must_flush(&self, state: &State, budget: &WriteBudget, changes: &Changes) -> bool {
        let held = budget.memtable_bytes();
        let erases = changes.has_range_deletes() && self.is_tight.load(Ordering::Relaxed);
        // On a full disk every commit would lay down a run of its own for its few deletions, and these runs would fill
        // what is kept.
        let is_worth_a_flush = erases || held >= kept_bytes(state) / WORTH_PART;
        let is_due = held >= self.look_at.load(Ordering::Relaxed) || erases;
        is_due && is_worth_a_flush && self.missing(state, held) > 0
    }

    /// Looks again soon: something was written to disk, or removed.
    pub(super) fn look_again(&self) {
        self.look_at.store(0, Ordering::Relaxed);
    }

    /// Bytes that are missing on disk to flush `held` bytes; notes what was found.
    fn missing(&self, state: &State, held: u64) -> u64 {
        // A disk that does not tell is taken for large.
        let free = state.free_bytes().unwrap_or(u64::MAX);
        let kept = kept_bytes(state);
        let missing = (held + kept).saturating_sub(free);
        let left = free.saturating_sub(held + kept);
        let step = (left / LEFT_PART).min(state.options.memory_bytes / MEMORY_PART).max(kept / KEPT_PART);
        self.look_at.store(held + step, Ordering::Relaxed);
        self.is_tight.store(missing > 0, Ordering::Relaxed);
        missing
    }
}

/// Bytes that stay free.
fn kept_bytes(state: &State) -> u64 {
    state.options.log_segment_bytes.min(KEPT_BYTES_MAX) + 2 * manifest::RESERVE_BYTES
}
