//! The commit path: admit, order, log, insert, sync, publish.
//!
//! ```text
//! admit     enough memory and disk space, flushes and compactions keep up
//! sort      what is large, to be a memtable by itself; and the ranges that are deleted
//! prepare   compress the changes, if the options say so; have space in the log's segments for them
//! sequence  under the commit latch: conflicts of transactions, seqnums, the time of a commit that a clock stamps, the
//!           append to the log's buffer; range tombstones and memtables of large batches enter the versions of their
//!           tables
//! insert    the other changes into the active memtables, in parallel with other commits
//! sync      make the log as durable as the commit asks (one sync serves all commits that wait)
//! publish   in seqnum order, after all commits before it; before that no reader sees any of it
//! account   count what the memtables grew by, seal full ones, wake the workers
//! ```
//!
//! Changes of unlogged tables go the same way without the log; a commit of nothing else syncs nothing. How memtables
//! are sealed, by commits and by jobs, and the upkeep of the log are in `upkeep.rs`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::Guard;
use smallvec::SmallVec;

use crate::base::num::u64_of;
use crate::base::sync::Mutex;
use crate::base::{CoveragePoint, Error, ErrorKind, Lsn, Result, SeqNum};
use crate::db::state::State;
use crate::db::state::health::Waiting;
use crate::db::state::options::Durability;
use crate::db::state::table::{TableFinder, TableState};
use crate::db::throttle::Throttle;
use crate::log::{LogWriter, Prepared};
use crate::table::memtable_handle::{CommitPoint, MemtableHandle};
use crate::table::{Version, changed_since};
use crate::tree::memtable::{Memtable, SortedBatch};
use crate::txn::batch::{Changes, put_record_header};
use crate::txn::commit_clock::CommitPlace;
use crate::txn::locks::LockTable;
use crate::txn::publish::Seqnums;

use super::batch_memtable::sort_large;
use super::order::{CommitOrder, OpenCounts};
use super::range_tombstones::{NewTombstones, merge_sets};
use super::validation::{Seen, lock_and_check};

/// Most commits are of no more tables; those that are allocate.
const TABLES: usize = 4;
/// Changes of a table are large from this part on of what active memtables may take: flushed by themselves, they are
/// no small run.
const LARGE_PART: u64 = 4;

/// Orders commits, logs them and shows them to readers.
#[derive(Debug)]
pub(crate) struct CommitPipeline {
    pub(super) state: Arc<State>,
    pub(super) throttle: Arc<Throttle>,
    pub(crate) log: LogWriter,
    /// The commit latch.
    pub(crate) order: Mutex<CommitOrder>,
    /// Counted only to steer what commits note for transactions; publish nothing.
    pub(crate) open_transactions: AtomicUsize,
    pub(crate) open_checked: AtomicUsize,
    pub(crate) locks: Arc<LockTable>,
    pub(super) interval: IntervalSync,
    pub(super) retention: LogRetention,
}

/// The sync of commits with [`Durability::Interval`](crate::Durability::Interval).
#[derive(Debug, Default)]
pub(super) struct IntervalSync {
    /// Whether commits wait for the sync worker. Set by commits, cleared by the worker before it syncs.
    pub(super) pending: AtomicBool,
    /// When the sync worker syncs for these. Its own.
    pub(super) due: Mutex<Option<Duration>>,
}

impl IntervalSync {
    /// A commit waits for a sync within the interval; whether it is the first that does.
    pub(super) fn begin(&self) -> bool {
        !self.pending.swap(true, Ordering::AcqRel)
    }
}

/// How much of the log is kept. Steers only.
#[derive(Debug)]
pub(super) struct LogRetention {
    /// The log before this position is not needed. Told by flushes.
    pub(super) needed_from: AtomicU64,
    /// Where the log ended when memtables were last sealed because it was too long.
    pub(super) sealed_at: AtomicU64,
}

impl LogRetention {
    pub(super) fn new(needed_from: Lsn) -> Self {
        Self { needed_from: AtomicU64::new(needed_from.0), sealed_at: AtomicU64::new(0) }
    }
}

/// What a commit writes.
#[derive(Clone, Copy)]
pub(crate) struct WriteSet<'a> {
    pub(crate) changes: &'a Changes,
    /// The tables that are changed.
    pub(crate) tables: &'a [Arc<TableState>],
    /// For each of the tables its changes in order, if they are to have a memtable of their own; empty when none are.
    pub(crate) sorted: &'a [Option<SortedBatch>],
    /// For each of the tables the range tombstones among its changes; empty when there are none.
    pub(crate) tombstones: &'a [NewTombstones],
}

impl WriteSet<'_> {
    /// Whether the changes of the table at `at` go to its active memtable.
    pub(crate) fn is_inserted(&self, at: usize) -> bool {
        self.sorted.get(at).is_none_or(Option::is_none)
    }
}

/// A commit that has its place in the order.
pub(crate) struct Ticket {
    seqnums: Seqnums,
    /// Where the log ended before it.
    start: Lsn,
    /// The end of its commit in the log; the end of the log when it has none, because it changes unlogged tables only.
    end: Lsn,
    /// What each table consists of, with its memtable, in the order of the batch's tables. `None` where nothing is
    /// inserted.
    versions: SmallVec<[Option<Guard<Arc<Version>>>; TABLES]>,
}

impl Ticket {
    fn mems(&self) -> impl Iterator<Item = &MemtableHandle> {
        self.versions.iter().flatten().map(|version| &*version.active)
    }
}

impl CommitPipeline {
    /// The first commit gets `next_seqnum`; the log before `log_from` is not needed.
    pub(crate) fn new(
        state: Arc<State>,
        throttle: Arc<Throttle>,
        log: LogWriter,
        (next_seqnum, log_from): (SeqNum, Lsn),
    ) -> Self {
        let locks = Arc::<LockTable>::default();
        state.health.watch(Arc::<LockTable>::clone(&locks));
        Self {
            state,
            throttle,
            log,
            order: Mutex::new(CommitOrder::new(next_seqnum)),
            open_transactions: AtomicUsize::new(0),
            open_checked: AtomicUsize::new(0),
            locks,
            interval: IntervalSync::default(),
            retention: LogRetention::new(log_from),
        }
    }

    /// Commits changes of the given tables; those of a transaction only if what it depends on has not changed. Tells
    /// the moment before the commit; nothing when there is nothing to commit.
    pub(crate) fn commit(
        &self,
        changes: Cow<'_, Changes>,
        tables: &[Arc<TableState>],
        durability: Durability,
        seen: Option<Seen<'_>>,
    ) -> Result<Option<CommitPoint>> {
        self.state.health.check_writable()?;
        if changes.count() == 0 && !changes.has_note() {
            return Ok(None);
        }
        // Kept to the end: what waited for memory has its share until the memtables hold it.
        let _admission = self.throttle.admit(&changes)?;
        let large_bytes = self.large_bytes();
        if u64_of(changes.memtable_bytes()) < large_bytes {
            let tombstones = &NewTombstones::of(&changes, tables);
            let writes = WriteSet { changes: &changes, tables, sorted: &[], tombstones };
            return self.write(writes, durability, seen).map(Some);
        }
        // A memtable keeps them.
        let changes = Arc::new(changes.into_owned());
        let sorted = sort_large(&changes, tables, large_bytes);
        let tombstones = &NewTombstones::of(&changes, tables);
        self.write(WriteSet { changes: &changes, tables, sorted: &sorted, tombstones }, durability, seen).map(Some)
    }

    /// From this number of bytes on changes of a table have a memtable of their own.
    pub(super) fn large_bytes(&self) -> u64 {
        let part = self.throttle.budget.active_max() / LARGE_PART;
        let limit = self.state.options.memtable_bytes;
        if limit == 0 { part } else { part.min(limit) }
    }

    /// Orders, logs, inserts, syncs and publishes a commit that was admitted.
    fn write(&self, writes: WriteSet<'_>, durability: Durability, seen: Option<Seen<'_>>) -> Result<CommitPoint> {
        // Before any latch is taken, beside the writes of other commits.
        let body = writes.changes.logged();
        let body = match writes.changes.base() {
            None => self.log.prepare_stamped(body, writes.changes.stamp_at()),
            Some(base) => self.log.prepare_delta(body, base),
        };
        let mut body = body.map_err(|error| self.poison_unless_lack(error))?;
        let ticket = self.sequence(writes, &mut body, seen)?;
        insert(writes, &ticket);
        self.make_durable(writes.changes, &ticket, durability)?;
        self.publish(ticket.seqnums)?;
        self.state.counters.commits.fetch_add(1, Ordering::Relaxed);
        let logged = writes.changes.is_logged();
        let begins_interval = logged && durability == Durability::Interval && self.interval.begin();
        if begins_interval || self.log.wants_spare() {
            self.state.wakers.wake_sync();
        }
        if writes.changes.has_range_deletes() {
            writes.tables.iter().for_each(|table| merge_sets(table, &self.state.snapshots));
        }
        self.account(&ticket, writes.sorted.iter().any(Option::is_some));
        let before = CommitPoint { next_seqnum: ticket.seqnums.first, lsn: ticket.start };
        // It holds versions of tables, and these hold roots of B-trees, whose space a flush could not give back.
        drop(ticket);
        if self.throttle.must_flush_for_space(writes.changes) {
            self.seal_all();
            self.state.wakers.wake_flush();
        }
        Ok(before)
    }

    /// Gives the commit its place in the order: refuses a conflict, gives out seqnums, appends to the log, and has the
    /// tables' versions ready for its entries.
    pub(crate) fn sequence(
        &self,
        writes: WriteSet<'_>,
        body: &mut Prepared<'_>,
        seen: Option<Seen<'_>>,
    ) -> Result<Ticket> {
        let WriteSet { changes, tables, .. } = writes;
        let mut guard = match seen {
            None => self.order.lock(),
            Some(seen) => lock_and_check((&self.order, &self.state), (changes, tables), seen)?,
        };
        let order = &mut *guard;
        // A close says so first, and takes the latch then: commits that were ordered before are flushed, and none is
        // ordered later.
        self.state.health.check_open()?;
        tables.iter().try_for_each(|table| table.check())?;
        let first = order.next_seqnum;
        let in_log = match changes.is_logged() {
            false => self.log.tail()..self.log.tail(),
            true => self.append(order, changes, body)?,
        };
        order.next_seqnum = SeqNum(first.0 + changes.seqnums());
        order.note(changes, tables, first, self.open_counts());
        let begin = CommitPoint { next_seqnum: first, lsn: in_log.start };
        let end = CommitPoint { next_seqnum: order.next_seqnum, lsn: in_log.end };
        Ok(self.enter_versions(writes, begin..end))
    }

    /// Refuses changes of a transaction that depends on something that has changed.
    pub(crate) fn check(&self, changes: &Changes, tables: &[Arc<TableState>], seen: Seen<'_>) -> Result<()> {
        lock_and_check((&self.order, &self.state), (changes, tables), seen).map(drop)
    }

    fn open_counts(&self) -> OpenCounts {
        let [all, checked] = [&self.open_transactions, &self.open_checked].map(|count| count.load(Ordering::Relaxed));
        OpenCounts { all, checked }
    }

    /// Brings what a commit has sorted into the versions of its tables, and enters the memtables that take the rest.
    /// The caller holds the commit latch.
    fn enter_versions(&self, writes: WriteSet<'_>, place: Range<CommitPoint>) -> Ticket {
        let WriteSet { tables, sorted, tombstones, .. } = writes;
        let first = place.start.next_seqnum;
        tables.iter().zip(tombstones).for_each(|(table, tombstones)| tombstones.add_to(table, first));
        // A batch memtable lies over the active one, which is sealed for it: so this comes before the active memtables
        // are looked up.
        for (table, batch) in tables.iter().zip(sorted) {
            if let Some(batch) = batch {
                let mem = MemtableHandle::of_batch(Memtable::of_batch(batch.clone(), first), &place);
                self.throttle.budget.count(&mem);
                self.seal_at(table, place.start, Some(&mem));
                CoveragePoint::Bypass.mark();
            }
        }
        let inserted = |(at, table): (usize, &Arc<TableState>)| writes.is_inserted(at).then(|| table.version.load());
        let versions = tables.iter().enumerate().map(inserted).collect();
        let seqnums = Seqnums { first, last: SeqNum(place.end.next_seqnum.0 - 1) };
        let ticket = Ticket { seqnums, start: place.start.lsn, end: place.end.lsn, versions };
        for (version, tombstones) in ticket.versions.iter().zip(tombstones) {
            if let Some(version) = version {
                version.active.erased(tombstones.bytes);
            }
        }
        ticket.mems().for_each(|mem| mem.enter(place.start.lsn));
        ticket
    }

    /// Stamps the changes of logged tables and appends them, as one commit with the next seqnums; where the log ended
    /// before it and ends now.
    fn append(&self, order: &mut CommitOrder, changes: &Changes, body: &mut Prepared<'_>) -> Result<Range<Lsn>> {
        order.header.clear();
        put_record_header(&mut order.header, order.next_seqnum, changes.logged_count());
        if let Some(stamp) = changes.stamp() {
            let seqnum = SeqNum(order.next_seqnum.0 + changes.seqnums() - 1);
            let (before, published) = (self.log.durable(), self.state.snapshots.published());
            body.fill(stamp.clock.stamp(CommitPlace { seqnum, before, published }, stamp.time));
        }
        self.log.append(&order.header, body).map_err(|error| {
            changes.stamp().into_iter().for_each(|stamp| stamp.clock.withdraw());
            match error.kind() {
                // Refused before anything was written: commits go on when there is room again.
                ErrorKind::Full => error,
                _ => self.state.poison(error),
            }
        })
    }

    /// Poisons, unless the log was refused space or descriptors before a commit had its place in the order.
    fn poison_unless_lack(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Full || error.is_unchanged() { error } else { self.state.poison(error) }
    }

    /// Makes the log as durable as the commit asks. A commit that waits for a sync is told to the publisher before: the
    /// thread that syncs for several commits publishes them all.
    fn make_durable(&self, changes: &Changes, ticket: &Ticket, durability: Durability) -> Result<()> {
        let durable = match durability {
            _ if !changes.is_logged() => Ok(()),
            Durability::Sync => {
                self.state.publisher.inserted(ticket.seqnums, ticket.end);
                self.log.sync(ticket.end)
            }
            Durability::Buffered => self.log.write(ticket.end),
            Durability::Interval => Ok(()),
        };
        self.state.or_poison(durable).map_err(|error| error.context("it is unknown whether the commit is durable"))
    }

    /// Whether a transaction that read at `read_seqnum` could not change a key any more.
    pub(crate) fn would_conflict(&self, table: &TableState, key: &[u8], read_seqnum: SeqNum) -> Result<bool> {
        // Held during the look: no commit enters a memtable whose inserts are waited for.
        let order = self.order.lock();
        if let Some(conflicts) = order.conflicts(table.id, key, read_seqnum) {
            return Ok(conflicts);
        }
        let version = table.version.load();
        version.memtables().for_each(|mem| mem.wait_for_inserts());
        changed_since::key_changed(&version, key, read_seqnum)
    }

    /// Waits until all commits before are published, then shows readers what has these seqnums.
    pub(crate) fn publish(&self, seqnums: Seqnums) -> Result<()> {
        match self.state.publisher.complete(seqnums, self.log.durable(), &self.state.snapshots) {
            true => Ok(()),
            // The database was poisoned or closed meanwhile, and says so.
            false => self.state.health.check_writable(),
        }
    }

    /// Counts the growth of memtables, for which the cache makes room, and sends full ones to disk; also when some were
    /// `sealed` by the commit.
    fn account(&self, ticket: &Ticket, sealed: bool) {
        let (mut full, mut wants_memory) = (sealed || self.is_seal_due(ticket.end), self.log.take_window_wish());
        for mem in ticket.mems().filter(|mem| mem.has_grown()) {
            full |= self.throttle.budget.count(mem);
            wants_memory |= mem.entries.wants_memory();
        }
        if wants_memory {
            self.state.wakers.wake_memory();
        }
        let limit = self.state.options.memtable_bytes;
        full |= limit != 0 && ticket.mems().any(|mem| mem.accounted_bytes() >= limit && mem.sealed_at().is_none());
        self.throttle.press_cache();
        self.throttle.budget.trim_chunks();
        if full {
            self.seal_full();
        }
    }
}

impl Waiting for LockTable {
    fn wake_all(&self) {
        Self::wake_all(self);
    }
}

/// Inserts the changes into the memtables, where no reader sees them before they are published.
fn insert(writes: WriteSet<'_>, ticket: &Ticket) {
    let WriteSet { changes, tables, .. } = writes;
    if ticket.mems().next().is_none() {
        return;
    }
    let (mut finder, mut seqnum) = (TableFinder::new(tables), ticket.seqnums.first);
    let entries = changes.iter().filter_map(|change| {
        let at = finder.find(change.table);
        let entry = change.entry(seqnum);
        seqnum.0 += 1;
        Some((&ticket.versions[at].as_ref()?.active.entries, entry?))
    });
    Memtable::insert_many(entries);
    ticket.mems().for_each(MemtableHandle::leave);
}
