//! The expiry of a table with a time to live: its entries are hidden when they are old enough, and go when their runs
//! do.
//!
//! ```text
//! mark    what is published now was written by now: a mark, kept in the manifest
//!         marks in the future are lowered to now
//! hide    a range tombstone of all keys hides entries up to a mark that is old enough, for snapshots from now on
//! settle  when no older snapshot is left: the range tombstone goes to the manifest; flushes and compactions apply it
//!         runs that it covers as a whole are dropped unread
//! ```
//!
//! # Invariants
//! 1. What a snapshot saw it sees as long as it lives: an expiry has a seqnum of its own, as a commit has.
//! 2. Nothing is dropped for its age before the manifest says so: an older version of its key never comes back.
//! 3. Entries of such a table keep their seqnums in runs, which tell their age.

use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::Mutex;

use crate::base::{Lsn, Result, SeqNum};
use crate::env::Next;
use crate::table::Expired;
use crate::table::Trees;
use crate::table::edit::Edit;
use crate::table::seqnum_to_time::SeqnumToTime;
use crate::tree::range_tombstone::RangeTombstones;
use crate::txn::publish::Seqnums;

use super::core::{CommitState, Core, TableState};

/// So many marks lie within a time to live.
const MARKS: u32 = 32;
/// SeqnumToTime are not closer than this.
const SPACING_MIN: Duration = Duration::from_secs(1);

/// What a table with a time to live knows of the age of its entries.
#[derive(Debug)]
pub(crate) struct Expiry {
    time_to_live: Duration,
    /// Held by the thread that looks what has expired.
    dated: Mutex<Dated>,
}

/// What is known to be how old.
#[derive(Debug)]
struct Dated {
    seqnum_to_time: SeqnumToTime,
    /// What the table held when it was dated last: where the newest memtable begins, entries in memory, the newest
    /// entry on disk.
    content: Content,
    /// When the clock was looked at last, by the one that never leaps, and what it said.
    looked: Option<(Duration, Duration)>,
}

type Content = (Option<Lsn>, u64, SeqNum);

impl Expiry {
    pub(crate) fn new(time_to_live: Duration, seqnum_to_time: SeqnumToTime) -> Self {
        Self { time_to_live, dated: Mutex::new(Dated { seqnum_to_time, content: Content::default(), looked: None }) }
    }

    /// How far marks lie apart, and how often it is looked what has expired.
    fn spacing(&self) -> Duration {
        (self.time_to_live / MARKS).max(SPACING_MIN)
    }
}

impl Core {
    /// Looks in all tables what has expired.
    pub(crate) fn expire_all(&self) -> Result<Next> {
        let spacings = self.all_tables().into_iter().filter_map(|table| Some(table.expiry.as_ref()?.spacing()));
        let Some(soonest) = spacings.min() else { return Ok(Next::Wait) };
        self.for_each_expiry(Self::expire)?;
        Ok(Next::WaitAtMost(soonest))
    }

    /// SeqnumToTime how old the entries of all tables are, for the next open.
    pub(super) fn date_all(&self) -> Result<()> {
        self.for_each_expiry(|core, table, expiry| {
            let mut dated = expiry.dated.lock();
            let marked = core.date(table, expiry, &mut dated);
            core.settle_hidden(table, &mut dated.seqnum_to_time, marked)
        })
    }

    /// Does something in all tables with a time to live.
    fn for_each_expiry(&self, act: impl Fn(&Self, &TableState, &Expiry) -> Result<()>) -> Result<()> {
        for table in self.all_tables() {
            let Some(expiry) = &table.expiry else { continue };
            act(self, &table, expiry)?;
        }
        Ok(())
    }

    /// SeqnumToTime how old the table's entries are, and hides those that are old enough.
    fn expire(&self, table: &TableState, expiry: &Expiry) -> Result<()> {
        let mut dated = expiry.dated.lock();
        let marked = self.date(table, expiry, &mut dated);
        let old_ms = millis(self.env.clock.wall()).checked_sub(millis(expiry.time_to_live));
        let old = old_ms.and_then(|old_ms| dated.seqnum_to_time.written_by(old_ms));
        let hidden = table.version.load().expired.last().map_or(SeqNum::ZERO, |hidden| hidden.before);
        if let Some(newest) = old.filter(|newest| *newest >= hidden) {
            self.hide(table, SeqNum(newest.0 + 1))?;
        }
        self.settle_hidden(table, &mut dated.seqnum_to_time, marked)
    }

    /// SeqnumToTime that what the table holds was written by now; says whether that is news, or the clock was set.
    fn date(&self, table: &TableState, expiry: &Expiry, dated: &mut Dated) -> bool {
        // Before the clock is asked: what is published then was written by then.
        let seqnum = self.snapshots.published();
        let version = table.version.load();
        let in_memory = version.memtables().map(|mem| mem.entries.entries()).sum();
        let on_disk = version.trees.runs().map(|handle| handle.run.seqnum_bounds().largest).max();
        let newest = version.memtables().find_map(|mem| mem.first_lsn());
        let content = (newest, in_memory, on_disk.unwrap_or_default());
        let changed = dated.content != content;
        // A commit on its way may be a part of it; then it is looked again.
        let all_published = self.commit.lock().next_seqnum.0 == seqnum.0 + 1;
        dated.content = if all_published { content } else { Content::default() };
        let (passed, wall) = (self.env.clock.now(), self.env.clock.wall());
        let leapt = |(then, said): (Duration, Duration)| wall.saturating_sub(said).saturating_sub(passed - then);
        let leapt_ms = dated.looked.replace((passed, wall)).map(|last| millis(leapt(last)));
        let moved = dated.seqnum_to_time.observe_clock(millis(wall), leapt_ms);
        let marked = changed && dated.seqnum_to_time.set(seqnum, millis(wall), expiry.spacing());
        moved || marked
    }

    /// Hides the table's entries before a seqnum from all snapshots that come.
    fn hide(&self, table: &TableState, before: SeqNum) -> Result<()> {
        let mut commit = self.commit.lock();
        self.health.check_writable()?;
        let visible_from = self.take_place(&mut commit);
        let (snapshots, _) = self.snapshots.live();
        table.version.rcu(|version| version.with_expired(Expired { visible_from, before }, &snapshots));
        drop(commit);
        if !self.publisher.complete(Seqnums::one(visible_from), self.log().durable(), &self.snapshots) {
            self.health.check_writable()?;
        }
        Ok(())
    }

    /// Gives the next seqnum to a change that is no commit, and must be completed like one.
    pub(super) fn take_place(&self, commit: &mut CommitState) -> SeqNum {
        let seqnum = commit.next_seqnum;
        commit.next_seqnum = SeqNum(seqnum.0 + 1);
        commit.recent.skip(seqnum);
        seqnum
    }

    /// Makes a range tombstone of what is hidden from all snapshots, and keeps that and the marks in the manifest, when
    /// there is any news.
    fn settle_hidden(&self, table: &TableState, seqnum_to_time: &mut SeqnumToTime, marked: bool) -> Result<()> {
        let before = table.version.load().expired_before(self.oldest_snapshot());
        if before == SeqNum::ZERO && !marked {
            return Ok(());
        }
        let mut ledger = self.ledger.lock();
        if table.check().is_err() {
            return Ok(());
        }
        seqnum_to_time.forget(before);
        let mut trees = Trees::clone(&table.version.load().trees);
        if before > SeqNum::ZERO {
            // What other range tombstones hide of entries as old is hidden by this one.
            let newer = trees.range_tombstones.filtered(|seqnum| seqnum > before);
            trees.range_tombstones = Arc::new(newer.and(&RangeTombstones::of_all(before)));
        }
        let edit = Edit::Expire {
            table: table.id,
            seqnum_to_time: seqnum_to_time.clone(),
            range_tombstones: Arc::clone(&trees.range_tombstones),
        };
        self.or_poison(self.record(&mut ledger, &edit))?;
        if before > SeqNum::ZERO {
            table.show(trees);
            table.version.rcu(|version| version.with_expiry_applied(before));
            drop(ledger);
            self.wake_compact();
        }
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
