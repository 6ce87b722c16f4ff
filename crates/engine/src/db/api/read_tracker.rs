//! What a transaction has read, as far as its commit must find it unchanged.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::options::names;
use crate::base::sync::Mutex;
use crate::db::commit::validation::CheckedReads;
use crate::db::state::table::TableState;
use crate::tree::Limits;
use crate::txn::read_set::ReadSet;

/// What a transaction is protected from, beside what is unfinished: see [`crate::Database::begin_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// It reads the database as it was when it began, and commits only if no other transaction changed a key that it
    /// writes. Two transactions may each read what the other writes (write skew).
    #[default]
    Snapshot,
    /// As if one transaction ran after the other: it also commits only if nothing that it has read was changed, keys
    /// and walked ranges alike. One that writes nothing always commits.
    Serializable,
}

names! { Isolation, "isolation", { Snapshot => "snapshot", Serializable => "serializable", } }

/// The reads of a transaction.
#[derive(Debug)]
pub(super) struct Reads {
    isolation: Isolation,
    /// Under snapshot isolation: whether anything was read that is not checked.
    has_unchecked: AtomicBool,
    checked: ReadTracker,
}

/// The reads that are checked, shared by a transaction and its ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadTracker(Arc<Mutex<Tracked>>);

/// Reads with their tables.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    set: ReadSet,
    tables: Vec<Arc<TableState>>,
}

/// A walk whose reads are checked.
#[derive(Debug)]
pub(super) struct TrackedWalk {
    tracker: ReadTracker,
    number: u64,
    table: Arc<TableState>,
}

impl Reads {
    pub(super) fn new(isolation: Isolation) -> Self {
        Self { isolation, has_unchecked: AtomicBool::new(false), checked: ReadTracker::default() }
    }

    /// Whether all that is read is checked.
    pub(super) fn is_serializable(&self) -> bool {
        self.isolation == Isolation::Serializable
    }

    /// A key is read.
    #[inline]
    pub(super) fn read(&self, table: &Arc<TableState>, key: &[u8]) {
        if self.is_serializable() {
            self.checked.add_key(table, key);
        } else {
            self.read_unchecked();
        }
    }

    /// A range is going to be walked.
    pub(super) fn walk(&self, table: &Arc<TableState>, range: &Limits) -> Option<TrackedWalk> {
        if self.is_serializable() {
            return Some(self.checked.begin_walk(table, range.clone()));
        }
        self.read_unchecked();
        None
    }

    fn read_unchecked(&self) {
        if !self.has_unchecked.load(Ordering::Relaxed) {
            self.has_unchecked.store(true, Ordering::Relaxed);
        }
    }

    /// Whether anything was read that is not checked.
    pub(super) fn has_unchecked(&self) -> bool {
        self.has_unchecked.load(Ordering::Relaxed)
    }

    /// The reads that are checked.
    pub(super) fn checked(&self) -> &ReadTracker {
        &self.checked
    }
}

impl ReadTracker {
    pub(super) fn add_key(&self, table: &Arc<TableState>, key: &[u8]) {
        self.of(table, |set| set.add_key(table.id, key));
    }

    pub(super) fn add_range(&self, table: &Arc<TableState>, range: &Limits) {
        self.of(table, |set| set.add_range(table.id, range));
    }

    fn begin_walk(&self, table: &Arc<TableState>, range: Limits) -> TrackedWalk {
        let number = self.of(table, |set| set.begin_walk(table.id, range));
        TrackedWalk { tracker: self.clone(), number, table: Arc::clone(table) }
    }

    fn of<T>(&self, table: &Arc<TableState>, change: impl FnOnce(&mut ReadSet) -> T) -> T {
        let mut tracked = self.0.lock();
        if !tracked.tables.iter().any(|known| known.id == table.id) {
            tracked.tables.push(Arc::clone(table));
        }
        change(&mut tracked.set)
    }

    /// Looks at the reads.
    pub(super) fn look<T>(&self, look: impl FnOnce(CheckedReads<'_>) -> T) -> T {
        let tracked = self.0.lock();
        look(CheckedReads { set: &tracked.set, tables: &tracked.tables })
    }

    /// Takes the reads, for the commit: walks that go on after it do not matter to it.
    pub(super) fn take(&self) -> Tracked {
        mem::take(&mut *self.0.lock())
    }
}

impl Tracked {
    /// The reads, if there are any.
    pub(super) fn reads(&self) -> Option<CheckedReads<'_>> {
        (!self.set.is_empty()).then_some(CheckedReads { set: &self.set, tables: &self.tables })
    }
}

impl TrackedWalk {
    /// The walk has come over a part of its range, and goes on elsewhere.
    pub(super) fn leap(&self, walked: &[Limits]) {
        walked.iter().for_each(|part| self.tracker.add_range(&self.table, part));
    }

    /// The walk ends; it has come over these parts of its range, or over all of it.
    pub(super) fn end(self, walked: Option<&[Limits]>) {
        self.tracker.0.lock().set.end_walk(self.number, walked);
    }
}
