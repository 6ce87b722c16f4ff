//! The expiry of a table with a time to live: its entries are hidden when they are old enough, and go when their runs
//! do.
//!
//! ```text
//! mark    what is published now was written by now: a mark, kept in the manifest
//!         marks in the future are lowered to now
//! hide    entries up to a mark that is old enough lie behind a range tombstone of all keys, for snapshots from now on
//! settle  when no older snapshot is left: the range tombstone goes to the manifest, flushes and compactions apply it
//!         runs that it covers as a whole are dropped unread
//! ```
//!
//! # Invariants
//! 1. What a snapshot saw it sees as long as it lives: an expiry has a seqnum of its own, as a commit has.
//! 2. Nothing is dropped for its age before the manifest says so: an older version of its key never comes back.
//! 3. Entries of such a table keep their seqnums in runs, which tell their age.

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Result, SeqNum};
use crate::db::commit::pipeline::CommitPipeline;
use crate::db::state::State;
use crate::db::state::expiry::{Content, Dated, Expiry};
use crate::db::state::table::TableState;
use crate::env::Next;
use crate::table::Expired;
use crate::table::Trees;
use crate::table::edit::Edit;
use crate::table::seqnum_to_time::SeqnumToTime;
use crate::tree::range_tombstone::RangeTombstones;
use crate::txn::publish::Seqnums;

/// Expires the entries of tables with a time to live.
#[derive(Debug)]
pub(crate) struct Expirer {
    state: Arc<State>,
    commits: Arc<CommitPipeline>,
}

impl Expirer {
    pub(crate) fn new(state: Arc<State>, commits: Arc<CommitPipeline>) -> Self {
        Self { state, commits }
    }

    /// A step of the expiry worker: looks in all tables what has expired.
    pub(crate) fn step(&self) -> Result<Next> {
        let tables = self.state.tables.all();
        let mut soonest = None;
        for (table, expiry) in tables.iter().filter_map(|table| Some((table, table.expiry.as_ref()?))) {
            let spacing = expiry.spacing();
            soonest = Some(soonest.map_or(spacing, |soonest: Duration| soonest.min(spacing)));
            if self.expire(table, expiry)? {
                self.state.wakers.wake_compaction();
            }
        }
        Ok(soonest.map_or(Next::Wait, Next::WaitAtMost))
    }

    /// Samples how old the entries of all tables are, for the next open.
    pub(crate) fn date_all(&self) -> Result<()> {
        for table in self.state.tables.all() {
            let Some(expiry) = &table.expiry else { continue };
            let mut dated = expiry.lock();
            let marked = self.date(&table, expiry, &mut dated);
            self.settle(&table, &mut dated.seqnum_to_time, marked)?;
        }
        Ok(())
    }

    /// Samples how old the table's entries are, and hides those that are old enough; whether compactions may drop some.
    fn expire(&self, table: &TableState, expiry: &Expiry) -> Result<bool> {
        let mut dated = expiry.lock();
        let marked = self.date(table, expiry, &mut dated);
        let old_ms = millis(self.state.env.clock.wall()).checked_sub(millis(expiry.time_to_live));
        let old = old_ms.and_then(|old_ms| dated.seqnum_to_time.written_by(old_ms));
        let hidden = table.version.load().expired.last().map_or(SeqNum::ZERO, |hidden| hidden.before);
        if let Some(newest) = old.filter(|newest| *newest >= hidden) {
            self.hide(table, SeqNum(newest.0 + 1))?;
        }
        self.settle(table, &mut dated.seqnum_to_time, marked)
    }

    /// Samples that what the table holds was written by now; says whether that is news, or the clock was set.
    pub(crate) fn date(&self, table: &TableState, expiry: &Expiry, dated: &mut Dated) -> bool {
        // Before the clock is asked: what is published then was written by then.
        let seqnum = self.state.snapshots.published();
        let version = table.version.load();
        let in_memory = version.memtables().map(|mem| mem.entries.entries()).sum();
        let on_disk = version.trees.runs().map(|handle| handle.run.seqnum_bounds().largest).max();
        let newest = version.memtables().find_map(|mem| mem.first_lsn());
        let content = (newest, in_memory, on_disk.unwrap_or_default());
        let changed = dated.content != content;
        // A commit on its way may be a part of it; then it is looked again.
        let all_published = self.commits.order.lock().next_seqnum.0 == seqnum.0 + 1;
        dated.content = if all_published { content } else { Content::default() };
        let (passed, wall) = (self.state.env.clock.now(), self.state.env.clock.wall());
        let leapt = |(then, said): (Duration, Duration)| wall.saturating_sub(said).saturating_sub(passed - then);
        let leapt_ms = dated.looked.replace((passed, wall)).map(|last| millis(leapt(last)));
        let moved = dated.seqnum_to_time.observe_clock(millis(wall), leapt_ms);
        let marked = changed && dated.seqnum_to_time.set(seqnum, millis(wall), expiry.spacing());
        moved || marked
    }

    /// Hides the table's entries before a seqnum from all snapshots that come.
    fn hide(&self, table: &TableState, before: SeqNum) -> Result<()> {
        let mut order = self.commits.order.lock();
        self.state.health.check_writable()?;
        let visible_from = order.take_seqnum();
        let (snapshots, _) = self.state.snapshots.live();
        table.version.rcu(|version| version.with_expired(Expired { visible_from, before }, &snapshots));
        drop(order);
        self.commits.publish(Seqnums::one(visible_from))
    }

    /// Makes a range tombstone of what is hidden from all snapshots, and keeps that and the marks in the manifest, when
    /// there is any news. Whether there is a new range tombstone.
    pub(crate) fn settle(&self, table: &TableState, seqnum_to_time: &mut SeqnumToTime, marked: bool) -> Result<bool> {
        let before = table.version.load().expired_before(self.state.oldest_snapshot());
        if before == SeqNum::ZERO && !marked {
            return Ok(false);
        }
        let mut manifest = self.state.manifest.lock();
        if table.check().is_err() {
            return Ok(false);
        }
        seqnum_to_time.forget(before);
        let mut trees = Trees::clone(&table.trees());
        if before > SeqNum::ZERO {
            // What other tombstones hide of entries as old is hidden by this one.
            let newer = trees.range_tombstones.filtered(|seqnum| seqnum > before);
            trees.range_tombstones = Arc::new(newer.and(&RangeTombstones::of_all(before)));
        }
        let edit = Edit::Expire {
            table: table.id,
            seqnum_to_time: seqnum_to_time.clone(),
            range_tombstones: Arc::clone(&trees.range_tombstones),
        };
        self.state.or_poison(manifest.record(&edit))?;
        if before > SeqNum::ZERO {
            table.show(trees);
            table.version.rcu(|version| version.with_expiry_applied(before));
        }
        Ok(before > SeqNum::ZERO)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
