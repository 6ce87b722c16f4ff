//! The write path: order, log, insert, force, publish.
//!
//! ```text
//! compress the changes, if the options say so; sort what is large, and the ranges that are deleted
//! commit latch ┌ conflict? ── seqnums ── append to the log ┐
//!              └─────────────────────────────────────────────┘
//!   insert into each table's memtable (invisible yet, beside other commits); a large batch is a memtable by itself
//!   make the log as durable as the commit asks (one sync serves all that wait)
//!   publish, in seqnum order
//! ```
//!
//! Changes of unlogged tables go the same way without the log; a commit of nothing else forces nothing.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;
use smallvec::SmallVec;

use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Kind, Lsn, Reached, Result, SeqNum, TableId};
use crate::log::Packed;
use crate::table::Version;
use crate::table::memtable_handle::{CommitPoint, MemtableHandle};
use crate::tree::memtable::{Memtable, SortedBatch};
use crate::txn::batch::{Change, Changes, put_record_header};
use crate::txn::publish::Seqnums;

use super::core::{CommitState, Core, TableState};
use super::erase::Erased;
use super::options::Durability;
use super::room::Admission;

/// Most commits are of no more tables; those that are allocate.
pub(super) const TABLES: usize = 4;

/// What a commit writes.
#[derive(Clone, Copy)]
pub(super) struct Writes<'a> {
    pub(super) changes: &'a Changes,
    /// Whose changes these are.
    pub(super) tables: &'a [Arc<TableState>],
    /// For each of the tables its changes in order, if they are to have a memtable of their own; empty when none are.
    pub(super) sorted: &'a [Option<SortedBatch>],
    /// For each of the tables the range tombstones among its changes; empty when there are none.
    pub(super) erased: &'a [Erased],
}

impl Writes<'_> {
    /// Whether the changes of the table at `at` go to its active memtable.
    fn is_inserted(&self, at: usize) -> bool {
        self.sorted.get(at).is_none_or(Option::is_none)
    }
}

/// A commit that has its place in the order.
pub(super) struct Ticket {
    seqnums: Seqnums,
    /// The end of its log record; the end of the log when it has none, because it changes unlogged tables only.
    end: Lsn,
    /// What each table consists of, with its memtable, in the order of the batch's tables. None where nothing is
    /// inserted.
    versions: SmallVec<[Option<Guard<Arc<Version>>>; TABLES]>,
}

impl Ticket {
    fn mems(&self) -> impl Iterator<Item = &MemtableHandle> {
        self.versions.iter().flatten().map(|version| &*version.active)
    }
}

impl Core {
    /// Commits changes of the given tables. With `seen`, only if none of the keys changed after that snapshot.
    pub(crate) fn commit(
        &self,
        changes: Cow<'_, Changes>,
        tables: &[Arc<TableState>],
        durability: Durability,
        seen: Option<SeqNum>,
    ) -> Result<()> {
        self.check_writable()?;
        if changes.count() == 0 {
            return Ok(());
        }
        let bytes = u64_of(changes.bytes());
        let _admission = self.admit(&changes)?;
        if bytes < self.large_bytes() {
            let erased = &Erased::of(&changes, tables);
            return self.commit_sorted(Writes { changes: &changes, tables, sorted: &[], erased }, durability, seen);
        }
        // A memtable keeps them.
        let changes = Arc::new(changes.into_owned());
        let sorted = self.sort_large(&changes, tables);
        let erased = &Erased::of(&changes, tables);
        self.commit_sorted(Writes { changes: &changes, tables, sorted: &sorted, erased }, durability, seen)
    }

    /// [`Self::commit`], when what is to be sorted is.
    fn commit_sorted(&self, writes: Writes<'_>, durability: Durability, seen: Option<SeqNum>) -> Result<()> {
        let Writes { changes, tables, .. } = writes;
        // Before any latch is taken, beside the writes of others.
        let body = self.log().pack(changes.logged());
        let ticket = match self.order_with_room(writes, &body, seen) {
            // There may be room again for the log's next segment, and nobody else looks for it while commits are
            // refused.
            Err(error) if error.kind() == ErrorKind::Full => {
                self.prepare_spare()?;
                self.order_with_room(writes, &body, seen)?
            }
            ordered => ordered?,
        };
        insert(writes, &ticket);
        let logged = changes.logged_count() > 0;
        let durable = match durability {
            _ if !logged => Ok(()),
            Durability::Sync => {
                self.publisher.inserted(ticket.seqnums, ticket.end);
                self.log().sync(ticket.end)
            }
            Durability::Buffered => self.log().write(ticket.end),
            Durability::Interval => Ok(()),
        };
        self.or_poison(durable).map_err(|error| error.context("it is unknown whether the commit is durable"))?;
        if !self.publisher.complete(ticket.seqnums, self.log().durable(), &self.snapshots) {
            self.health.check_writable()?;
        }
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        let first_of_interval =
            logged && durability == Durability::Interval && !self.interval_pending.swap(true, Ordering::AcqRel);
        if first_of_interval || self.log().wants_spare() {
            self.wake_sync();
        }
        if changes.has_range_deletes() {
            tables.iter().for_each(|table| self.join_erasures(table));
        }
        self.account(&ticket, writes.sorted.iter().any(Option::is_some));
        // A commit that holds the version before its flush keeps the space of a B-tree's old root from being given
        // back.
        drop(ticket);
        self.watch_space(changes);
        Ok(())
    }

    /// Waits until there is room, and as long as flushes and compactions need to keep up. A commit that had to wait for
    /// room keeps it until it is done.
    fn admit(&self, changes: &Changes) -> Result<Option<Admission<'_>>> {
        let bytes = u64_of(changes.bytes());
        let most = self.memory.batch_bytes_max();
        if bytes > most {
            let message =
                format!("a commit of {bytes} bytes is larger than memory_bytes allows (a quarter of it, {most} bytes)");
            return Err(Error::new(ErrorKind::Full, message));
        }
        if let Some(delay) = self.memory.delay(bytes)
            && self.env.threads.concurrent()
        {
            let slept = self.memory.sleep(&*self.env.threads, delay);
            self.counters.delayed(slept);
        }
        self.check_space(changes)?;
        // What makes room need not wait for it.
        let passes = || !self.memory.is_full_for_deletes() && changes.only_delete();
        if self.room.is_closed(&self.memory) && passes() { Ok(None) } else { self.wait_for_room(bytes) }
    }

    /// [`Self::order`], when the log has files at hand for all of a large record.
    fn order_with_room(&self, writes: Writes<'_>, body: &Packed<'_>, seen: Option<SeqNum>) -> Result<Ticket> {
        let _reservation = self.reserve(body)?;
        self.order(writes, body, seen)
    }

    /// Under the commit latch: refuses a conflict, gives out seqnums, appends to the log.
    pub(super) fn order(&self, writes: Writes<'_>, body: &Packed<'_>, seen: Option<SeqNum>) -> Result<Ticket> {
        let Writes { changes, tables, sorted, .. } = writes;
        let mut guard = self.commit.lock();
        let state = &mut *guard;
        // A close takes the latch after it said so: commits that were ordered before are flushed, and none is ordered
        // later.
        self.health.check_open()?;
        for table in tables {
            table.check()?;
        }
        if let Some(seen) = seen {
            self.check_conflicts(state, changes, tables, seen)?;
        }
        let first = state.next_seqnum;
        let next = SeqNum(first.0 + changes.count());
        let place = if changes.logged_count() == 0 {
            let tail = self.log().tail();
            tail..tail
        } else {
            self.append(state, changes, body)?
        };
        state.next_seqnum = next;
        let last = SeqNum(next.0 - 1);
        if self.open_transactions.load(Ordering::Relaxed) == 0 {
            // A transaction that begins now sees this change, or is told of it by what was skipped.
            state.recent.skip(last);
        } else {
            let mut seqnum = first;
            for change in changes.iter() {
                match change.kind {
                    Kind::RangeDelete => state.recent.skip(seqnum),
                    _ => state.recent.note(change.table, change.key, seqnum),
                }
                seqnum.0 += 1;
            }
        }
        self.show_erasures(writes, first);
        let moment = |next_seqnum, lsn| CommitPoint { next_seqnum, lsn };
        self.bypass(tables, sorted, &(moment(first, place.start)..moment(next, place.end)));
        let inserted = |(at, table): (usize, &Arc<TableState>)| writes.is_inserted(at).then(|| table.version.load());
        let versions = tables.iter().enumerate().map(inserted).collect();
        let ticket = Ticket { seqnums: Seqnums { first, last }, end: place.end, versions };
        let active = ticket.versions.iter().zip(writes.erased);
        active.for_each(|(version, erased)| version.iter().for_each(|version| version.active.erased(erased.bytes)));
        ticket.mems().for_each(|mem| mem.enter(place.start));
        Ok(ticket)
    }

    /// Appends the changes of logged tables, as one record with the next seqnums; where the log ended before it and
    /// ends now.
    fn append(&self, state: &mut CommitState, changes: &Changes, body: &Packed<'_>) -> Result<Range<Lsn>> {
        state.header.clear();
        put_record_header(&mut state.header, state.next_seqnum, changes.logged_count());
        self.log().append_packed(&state.header, body).map_err(|error| match error.kind() {
            // Refused before anything was written: commits go on when there is room again.
            ErrorKind::Full => error,
            _ => self.poison(error),
        })
    }

    /// First committer wins: refuses when a key of the batch has a version newer than the snapshot.
    fn check_conflicts(
        &self,
        state: &CommitState,
        changes: &Changes,
        tables: &[Arc<TableState>],
        seen: SeqNum,
    ) -> Result<()> {
        for load in &state.loads {
            if changes.iter().any(|change| load.table == change.table && load.meets(&change)) {
                let table = &tables[position(tables, load.table)];
                self.count_conflict();
                let message = format!("a bulk load of table '{}' came first: retry the transaction", table.name);
                return Err(Error::new(ErrorKind::Conflict, message));
            }
        }
        let may_have_changed = |change: &Change<'_>| match change.kind {
            Kind::RangeDelete => state.next_seqnum.0 > seen.0 + 1,
            _ => state.recent.may_have_changed(change.table, change.key, seen),
        };
        for change in changes.iter().filter(may_have_changed) {
            let table = &tables[position(tables, change.table)];
            let version = table.version.load();
            // Commits that were ordered before this one may still be inserting, also into a memtable that was frozen
            // meanwhile; they need no latch for it.
            version.memtables().for_each(|mem| mem.wait_for_inserts());
            let changed = match change.range() {
                Some(range) => version.range_changed(&range, seen)?,
                None => version.changed(change.key, seen)?,
            };
            if changed {
                self.count_conflict();
                let message =
                    format!("another transaction changed a key of table '{}' first: retry the transaction", table.name);
                return Err(Error::new(ErrorKind::Conflict, message));
            }
        }
        Ok(())
    }

    fn count_conflict(&self) {
        self.counters.conflicts.fetch_add(1, Ordering::Relaxed);
        Reached::Conflict.mark();
    }

    /// Counts the growth of memtables, for which the cache makes room, and sends full ones to disk; also when some were
    /// `frozen`.
    fn account(&self, ticket: &Ticket, frozen: bool) {
        let (mut full, mut wants_memory) = (frozen || self.is_freeze_due(ticket.end), self.log().wants_pages());
        for mem in ticket.mems().filter(|mem| mem.has_grown()) {
            full |= self.memory.count(mem);
            wants_memory |= mem.entries.wants_memory();
        }
        if wants_memory {
            self.wake_memory();
        }
        for mem in ticket.mems() {
            let limit = self.options.memtable_bytes;
            full |= limit != 0 && mem.accounted_bytes() >= limit && mem.frozen_at().is_none();
        }
        let presses = |capacity: &u64| self.memory.presses_cache(*capacity);
        if presses(&self.cache.capacity()) {
            // Another writer may have been faster.
            self.cache.fit(|capacity| presses(&capacity).then(|| self.memory.cache_bytes()));
        }
        if full {
            self.make_room();
        }
    }
}

/// Inserts the changes into the memtables, where nobody sees them before they are published.
fn insert(writes: Writes<'_>, ticket: &Ticket) {
    let Writes { changes, tables, .. } = writes;
    if ticket.mems().next().is_none() {
        return;
    }
    let (mut finder, mut seqnum) = (Finder::new(tables), ticket.seqnums.first);
    let entries = changes.iter().filter_map(|change| {
        let at = finder.find(change.table);
        let entry = change.entry(seqnum);
        seqnum.0 += 1;
        Some((&ticket.versions[at].as_ref()?.active.entries, entry?))
    });
    Memtable::insert_many(entries);
    ticket.mems().for_each(MemtableHandle::leave);
}

/// Where a batch names the table of one of its changes.
pub(super) fn position(tables: &[Arc<TableState>], id: TableId) -> usize {
    tables.iter().position(|table| table.id == id).expect("a batch names its tables")
}

/// As [`position`], of one change after the other: mostly they are of the same table.
pub(super) struct Finder<'a> {
    tables: &'a [Arc<TableState>],
    at: usize,
}

impl<'a> Finder<'a> {
    pub(super) const fn new(tables: &'a [Arc<TableState>]) -> Self {
        Self { tables, at: 0 }
    }

    pub(super) fn find(&mut self, id: TableId) -> usize {
        if self.tables[self.at].id != id {
            self.at = position(self.tables, id);
        }
        self.at
    }
}
