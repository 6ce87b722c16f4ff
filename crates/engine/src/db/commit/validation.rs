//! The check of a transaction at its commit: what it writes, and under serializable isolation what it read, must not
//! have changed since its snapshot.
//!
//! Writes are looked at under the commit latch, by a filter first (`txn/conflict.rs`). Reads may be many: under the
//! latch only the last changes are compared with them (`txn/recent_changes.rs`). When these do not reach back to the
//! snapshot, the latch is let go, the reads are looked up in the tables as they are published, and the few changes
//! after that are compared then.

use std::sync::Arc;

use crate::base::sync::{Mutex, MutexGuard};
use crate::base::{CoveragePoint, Error, ErrorKind, Kind, Result, SeqNum, TableId};
use crate::db::state::State;
use crate::db::state::table::{TableFinder, TableState};
use crate::table::changed_since;
use crate::txn::batch::{Change, Changes};
use crate::txn::read_set::ReadSet;

use super::order::{CommitOrder, commutes};

/// What a transaction saw, of which its commit must find unchanged what it depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The snapshot.
    pub(crate) seqnum: SeqNum,
    /// The reads that are checked.
    pub(crate) reads: Option<CheckedReads<'a>>,
}

/// What a transaction has read, and the tables of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedReads<'a> {
    pub(crate) set: &'a ReadSet,
    pub(crate) tables: &'a [Arc<TableState>],
}

/// Takes the commit latch. Refuses a transaction if anything that it depends on has changed.
pub(super) fn lock_and_check<'p>(
    (order, state): (&'p Mutex<CommitOrder>, &State),
    (changes, tables): (&Changes, &[Arc<TableState>]),
    Seen { seqnum, reads }: Seen<'_>,
) -> Result<MutexGuard<'p, CommitOrder>> {
    let locked = || match reads {
        Some(reads) => lock_if_unchanged((order, state), reads, seqnum),
        None => Ok(order.lock()),
    };
    let checked = locked().and_then(|order| check_writes(&order, changes, tables, seqnum).map(|()| order));
    checked.inspect_err(|error| {
        if error.kind() == ErrorKind::Conflict {
            state.counters.conflict();
            CoveragePoint::Conflict.mark();
        }
    })
}

/// First committer wins: refuses when a key of the changes has a version that is newer than `read_seqnum`.
fn check_writes(order: &CommitOrder, changes: &Changes, tables: &[Arc<TableState>], read_seqnum: SeqNum) -> Result<()> {
    let table_of = |id| &tables[TableFinder::new(tables).find(id)];
    for load in &order.loads {
        if changes.iter().any(|change| load.table == change.table && load.meets(&change)) {
            let name = &table_of(load.table).name;
            let message = format!("a bulk load of table '{name}' came first: retry the transaction");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    let may_have_changed = |change: &Change<'_>| match change.kind {
        Kind::RangeDelete => order.next_seqnum.0 > read_seqnum.0 + 1,
        // Merges that do not commute are noted like any other change.
        Kind::Merge => order.recent.may_have_changed_otherwise(change.table, change.key, read_seqnum),
        _ => order.recent.may_have_changed(change.table, change.key, read_seqnum),
    };
    for change in changes.iter().filter(may_have_changed) {
        let table = table_of(change.table);
        let version = table.version.load();
        // Commits that were ordered before this one may still be inserting, also into a memtable that was sealed
        // meanwhile; they need no latch for it.
        version.memtables().for_each(|mem| mem.wait_for_inserts());
        let changed = match change.range() {
            Some(range) => changed_since::range_changed(&version, &range, read_seqnum)?,
            None if commutes(&change, tables) => {
                changed_since::key_changed_but_by_merges(&version, change.key, read_seqnum)?
            }
            None => changed_since::key_changed(&version, change.key, read_seqnum)?,
        };
        if changed {
            let name = &table.name;
            let message = format!("another transaction changed a key of table '{name}' first: retry the transaction");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    Ok(())
}

/// Takes the commit latch, and refuses if anything that was read has changed after `since`.
fn lock_if_unchanged<'p>(
    (order, state): (&'p Mutex<CommitOrder>, &State),
    reads: CheckedReads<'_>,
    since: SeqNum,
) -> Result<MutexGuard<'p, CommitOrder>> {
    let locked = order.lock();
    if let Some(changed) = locked.changed(reads.set, since) {
        return if changed { Err(conflict()) } else { Ok(locked) };
    }
    drop(locked);
    let published = state.snapshots.published();
    if have_changed(reads, since)? {
        return Err(conflict());
    }
    let locked = order.lock();
    let changed = match locked.changed(reads.set, published) {
        Some(changed) => changed,
        None => {
            let versions = reads.tables.iter().map(|table| table.version.load());
            versions.for_each(|version| version.memtables().for_each(|mem| mem.wait_for_inserts()));
            have_changed(reads, published)?
        }
    };
    if changed { Err(conflict()) } else { Ok(locked) }
}

/// Whether anything that was read has changed after `since`, of what is in the memtables by now. A table that was
/// dropped has.
pub(crate) fn have_changed(reads: CheckedReads<'_>, since: SeqNum) -> Result<bool> {
    let version = |table: TableId| {
        let table = reads.tables.iter().find(|known| known.id == table)?;
        table.check().ok().map(|()| table.version.load())
    };
    for (table, key) in reads.set.keys() {
        let Some(version) = version(table) else { return Ok(true) };
        if changed_since::key_changed(&version, key, since)? {
            return Ok(true);
        }
    }
    for (table, range) in reads.set.ranges() {
        let Some(version) = version(table) else { return Ok(true) };
        if changed_since::range_changed(&version, &range, since)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cold]
pub(crate) fn conflict() -> Error {
    Error::new(ErrorKind::Conflict, "another transaction changed what this one has read: retry the transaction")
}
