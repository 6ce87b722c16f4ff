//! What a database must do, as simply as it can be said: maps of all versions of all keys.
//!
//! # Invariants
//! 1. Each commit that changes something has a version of its own; versions grow by one.
//! 2. A transaction conflicts exactly when a key that it wrote or erased has a version newer than its snapshot, or was
//!    erased after it, whether it was there or not (first committer wins).

use crate::operators::adds;
use crate::ops::{Change, Key, Op, SLOTS, Span, View, Write, ranges_between};
use crate::outcome::{Outcome, Pair};
use crate::subject::Subject;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The versions of a key, oldest first: when, and the value if it was not deleted.
type Versions = Vec<(u64, Option<Vec<u8>>)>;

/// What a transaction has changed, each key's writes in their order.
type Writes = BTreeMap<(usize, Key), Vec<Write>>;

/// Keys of a table that were erased: from a key on, up to another or to the last.
#[derive(Clone, Debug)]
struct Erased {
    table: usize,
    low: Key,
    high: Option<Key>,
}

impl Erased {
    /// What a change erases, if it does.
    fn by(change: &Change) -> Option<Self> {
        let (low, high) = change.erased()?;
        Some(Self { table: change.table, low: low.clone(), high: high.cloned() })
    }

    fn covers(&self, table: usize, key: &Key) -> bool {
        table == self.table && *key >= self.low && self.high.as_ref().is_none_or(|high| key < high)
    }

    fn meets(&self, other: &Self) -> bool {
        let before = |low: &Key, high: &Option<Key>| high.as_ref().is_none_or(|high| low < high);
        self.table == other.table && before(&self.low, &other.high) && before(&other.low, &self.high)
    }
}

/// A database in which everything is right by construction.
#[derive(Clone, Debug)]
pub struct Model {
    tables: Vec<BTreeMap<Key, Versions>>,
    /// What was erased, and by which commit.
    erased: Vec<(u64, Erased)>,
    version: u64,
    transactions: [Option<Transaction>; SLOTS],
    snapshots: [Option<u64>; SLOTS],
    /// What open scans have still to give, last first.
    scans: [Option<Vec<Pair>>; SLOTS],
}

#[derive(Clone, Debug)]
struct Transaction {
    snapshot: u64,
    own: Own,
    /// What it had done at its marks.
    savepoints: Vec<Own>,
}

/// What a transaction has done: first it erased, then it wrote.
#[derive(Clone, Debug, Default)]
struct Own {
    erased: Vec<Erased>,
    writes: Writes,
}

impl Model {
    /// An empty database with so many tables.
    #[must_use]
    pub fn new(tables: usize) -> Self {
        let tables = vec![BTreeMap::new(); tables];
        Self {
            tables,
            erased: Vec::new(),
            version: 0,
            transactions: Default::default(),
            snapshots: [None; SLOTS],
            scans: Default::default(),
        }
    }

    /// The version of the last commit.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All entries of all tables after the commit of `version`.
    #[must_use]
    pub fn state_at(&self, version: u64) -> Vec<Vec<Pair>> {
        let all = |table| Span { table, from: Bound::Unbounded, to: Bound::Unbounded, reverse: false };
        (0..self.tables.len()).map(|table| self.entries(version, None, &all(table))).collect()
    }

    /// Forgets all commits after `version`, and all slots: this is what a crash does.
    pub fn rewind(&mut self, version: u64) {
        for table in &mut self.tables {
            for versions in table.values_mut() {
                versions.retain(|(at, _)| *at <= version);
            }
        }
        self.erased.retain(|(at, _)| *at <= version);
        self.version = version;
        self.drop_slots();
    }

    /// Applies changes in order, as one commit.
    pub fn commit(&mut self, changes: impl IntoIterator<Item = Change>) {
        let changes = self.effective(changes);
        if changes.is_empty() {
            return;
        }
        self.version += 1;
        for change in changes {
            if let Some(erased) = Erased::by(&change) {
                self.erase(erased);
                continue;
            }
            let Change { table, key, write } = change;
            let versions = self.tables[table].entry(key).or_default();
            let below = versions.last().and_then(|(_, value)| value.clone());
            versions.push((self.version, after(table, below, &write)));
        }
    }

    /// The changes without those that put a new key where there is one.
    fn effective(&self, changes: impl IntoIterator<Item = Change>) -> Vec<Change> {
        let mut written: BTreeMap<(usize, Key), Option<Vec<u8>>> = BTreeMap::new();
        let has_effect = |Change { table, key, write }: &Change| {
            let place = (*table, key.clone());
            let now = || self.value(self.version, None, *table, key);
            let below = written.get(&place).cloned().unwrap_or_else(now);
            let has_effect = below.is_none() || !matches!(write, Write::PutNew(_));
            written.insert(place, after(*table, below, write));
            has_effect
        };
        let mut changes: Vec<_> = changes.into_iter().collect();
        changes.retain(has_effect);
        changes
    }

    fn erase(&mut self, erased: Erased) {
        for (_, versions) in self.tables[erased.table].iter_mut().filter(|(key, _)| erased.covers(erased.table, key)) {
            versions.push((self.version, None));
        }
        self.erased.push((self.version, erased));
    }

    /// A table is dropped and created again, empty: what [`Op::Recreate`] does, but for the slots.
    pub(crate) fn recreate(&mut self, table: usize) {
        self.version += 1;
        self.erase(Erased { table, low: Vec::new(), high: None });
    }

    /// All tables are dropped and created again, as one change.
    fn recreate_all(&mut self) {
        self.version += 1;
        (0..self.tables.len()).for_each(|table| self.erase(Erased { table, low: Vec::new(), high: None }));
    }

    fn drop_slots(&mut self) {
        self.transactions = Default::default();
        self.snapshots = [None; SLOTS];
        self.scans = Default::default();
    }

    /// The snapshot and the changes that a view reads through; nothing when its slot is empty.
    fn resolve(&self, view: View) -> Option<(u64, Option<&Own>)> {
        match view {
            View::Now => Some((self.version, None)),
            View::Snapshot(slot) => self.snapshots[slot].map(|snapshot| (snapshot, None)),
            View::Transaction(slot) => self.transactions[slot].as_ref().map(|txn| (txn.snapshot, Some(&txn.own))),
        }
    }

    fn value(&self, snapshot: u64, own: Option<&Own>, table: usize, key: &[u8]) -> Option<Vec<u8>> {
        let versions = self.tables[table].get(key).into_iter().flatten();
        let stored = versions.rev().find(|(at, _)| *at <= snapshot).and_then(|(_, value)| value.clone());
        let place = (table, key.to_vec());
        let is_erased = own.is_some_and(|own| own.erased.iter().any(|erased| erased.covers(table, &place.1)));
        let writes = own.and_then(|own| own.writes.get(&place)).into_iter().flatten();
        writes.fold(stored.filter(|_| !is_erased), |below, write| after(table, below, write))
    }

    fn entries(&self, snapshot: u64, own: Option<&Own>, span: &Span) -> Vec<Pair> {
        let written = own.into_iter().flat_map(|own| &own.writes).map(|((table, key), _)| (*table, key));
        let stored = self.tables[span.table].keys().map(|key| (span.table, key));
        let mut keys: Vec<_> =
            stored.chain(written).filter(|(table, key)| *table == span.table && holds(span, key)).collect();
        keys.sort();
        keys.dedup();
        if span.reverse {
            keys.reverse();
        }
        let pair = |(table, key): (usize, &Key)| Some((key.clone(), self.value(snapshot, own, table, key)?));
        keys.into_iter().filter_map(pair).collect()
    }

    fn commit_transaction(&mut self, txn: Transaction) -> Outcome {
        let newest = |(table, key): &(usize, Key)| self.tables[*table].get(key)?.last().map(|(at, _)| *at);
        let own = txn.own;
        let has_changed = |place: &(usize, Key)| newest(place).is_some_and(|at| at > txn.snapshot);
        let later: Vec<_> = self.erased.iter().filter(|(at, _)| *at > txn.snapshot).map(|(_, erased)| erased).collect();
        let was_erased = |(table, key): &(usize, Key)| later.iter().any(|erased| erased.covers(*table, key));
        let range_has_changed = |range: &Erased| {
            let mut keys = self.tables[range.table].keys().filter(|key| range.covers(range.table, key));
            later.iter().any(|erased| erased.meets(range)) || keys.any(|key| has_changed(&(range.table, key.clone())))
        };
        if own.writes.keys().any(|place| has_changed(place) || was_erased(place))
            || own.erased.iter().any(range_has_changed)
        {
            return Outcome::Conflict;
        }
        let erase = |Erased { table, low, high }| Change { table, key: low, write: Write::Erase(high) };
        let changes = |((table, key), writes): ((usize, Key), Vec<Write>)| {
            writes.into_iter().map(move |write| Change { table, key: key.clone(), write })
        };
        self.commit(own.erased.into_iter().map(erase).chain(own.writes.into_iter().flat_map(changes)));
        Outcome::Done
    }

    /// Adds a change to a transaction; nothing when there is none.
    fn change(&mut self, slot: usize, change: &Change) -> Option<()> {
        let (snapshot, own) = self.resolve(View::Transaction(slot))?;
        let Change { table, key, write } = change;
        let is_there = self.value(snapshot, own, *table, key).is_some();
        let own = &mut self.transactions[slot].as_mut()?.own;
        if let Some(erased) = Erased::by(change) {
            own.writes.retain(|(table, key), _| !erased.covers(*table, key));
            own.erased.push(erased);
        } else if !is_there || !matches!(write, Write::PutNew(_)) {
            // Decided here: the commit does not know what was erased before.
            let write = if let Write::PutNew(value) = write { &Write::Put(value.clone()) } else { write };
            own.writes.entry((*table, key.clone())).or_default().push(write.clone());
        }
        Some(())
    }

    /// What an operation reads; nothing when it is none that reads, or a slot is empty.
    fn read(&mut self, op: &Op) -> Option<Outcome> {
        let (Op::Get(view, ..)
        | Op::Contains(view, ..)
        | Op::MultiGet(view, ..)
        | Op::Range(view, ..)
        | Op::Ranges(view, ..)
        | Op::Scan(_, view, _)) = op
        else {
            let Op::Next(slot, count) = op else { return None };
            let left = self.scans[*slot].as_mut()?;
            let read = left.split_off(left.len().saturating_sub(*count));
            return Some(Outcome::Entries(read.into_iter().rev().collect()));
        };
        let (snapshot, own) = self.resolve(*view)?;
        Some(match op {
            Op::Get(_, table, key) => Outcome::Value(self.value(snapshot, own, *table, key)),
            Op::Contains(_, table, key) => Outcome::Contains(self.value(snapshot, own, *table, key).is_some()),
            Op::MultiGet(_, table, keys) => {
                Outcome::Values(keys.iter().map(|key| self.value(snapshot, own, *table, key)).collect())
            }
            Op::Range(_, span, limit) => {
                let mut entries = self.entries(snapshot, own, span);
                entries.truncate(*limit);
                Outcome::Entries(entries)
            }
            Op::Ranges(_, table, cuts, reverse) => {
                let entries = ranges_between(cuts, *reverse).into_iter().flat_map(|(low, high)| {
                    let (from, to) = (Bound::Included(low), Bound::Excluded(high));
                    self.entries(snapshot, own, &Span { table: *table, from, to, reverse: *reverse })
                });
                Outcome::Entries(entries.collect())
            }
            Op::Scan(slot, _, span) => {
                let mut entries = self.entries(snapshot, own, span);
                entries.reverse();
                self.scans[*slot] = Some(entries);
                Outcome::Done
            }
            _ => return None,
        })
    }

    /// The outcome; nothing when a slot is empty.
    fn try_apply(&mut self, op: &Op) -> Option<Outcome> {
        match op {
            Op::Write(changes, _) => self.commit(changes.iter().cloned()),
            Op::Begin(slot) => {
                let (own, savepoints) = (Own::default(), Vec::new());
                self.transactions[*slot] = Some(Transaction { snapshot: self.version, own, savepoints });
            }
            Op::Change(slot, change) => self.change(*slot, change)?,
            Op::Commit(slot, _) => {
                let txn = self.transactions[*slot].take()?;
                return Some(self.commit_transaction(txn));
            }
            Op::Rollback(slot) => {
                self.transactions[*slot].take()?;
            }
            Op::Savepoint(slot) => {
                let txn = self.transactions[*slot].as_mut()?;
                txn.savepoints.push(txn.own.clone());
            }
            Op::RollbackTo(slot) => {
                let txn = self.transactions[*slot].as_mut()?;
                txn.own = txn.savepoints.pop()?;
            }
            Op::Snapshot(slot) => self.snapshots[*slot] = Some(self.version),
            Op::Release(slot) => {
                self.snapshots[*slot].take()?;
            }
            Op::Load(table, pairs) => {
                let put =
                    |(key, value): &Pair| Change { table: *table, key: key.clone(), write: Write::Put(value.clone()) };
                self.commit(pairs.iter().map(put));
            }
            Op::LoadBelow(table, pairs, changes) => {
                self.drop_slots();
                self.recreate(*table);
                self.commit(changes.iter().cloned());
                let is_changed = |key: &Key| changes.iter().any(|change| change.key == *key);
                let loaded = pairs.iter().filter(|(key, _)| !is_changed(key));
                let put =
                    |(key, value): &Pair| Change { table: *table, key: key.clone(), write: Write::Put(value.clone()) };
                self.commit(loaded.map(put));
            }
            Op::Recreate(table) => {
                self.drop_slots();
                self.recreate(*table);
            }
            Op::RecreateAll => {
                self.drop_slots();
                self.recreate_all();
            }
            Op::Checkpoint => return Some(Outcome::Tables(self.state_at(self.version))),
            Op::Reopen(_) => self.drop_slots(),
            Op::Get(..)
            | Op::Contains(..)
            | Op::MultiGet(..)
            | Op::Range(..)
            | Op::Ranges(..)
            | Op::Scan(..)
            | Op::Next(..) => return self.read(op),
            Op::Flush(_)
            | Op::Compact(_)
            | Op::CompactLevel(..)
            | Op::Hold(..)
            | Op::WaitIdle(_)
            | Op::Sync
            | Op::Verify => {}
        }
        Some(Outcome::Done)
    }
}

impl Subject for Model {
    fn apply(&mut self, op: &Op) -> Outcome {
        self.try_apply(op).unwrap_or(Outcome::Nothing)
    }
}

/// What a key of a table has after a write, where it had `below`.
fn after(table: usize, below: Option<Vec<u8>>, write: &Write) -> Option<Vec<u8>> {
    match write {
        Write::Put(value) => Some(value.clone()),
        Write::PutNew(value) => below.or_else(|| Some(value.clone())),
        Write::Delete | Write::SingleDelete | Write::Erase(_) => None,
        Write::Merge(operand) if adds(table) => {
            let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("counters have 8 bytes"));
            let sum = below.map_or(0, |below| number(&below)).wrapping_add(number(operand));
            Some(sum.to_le_bytes().to_vec())
        }
        Write::Merge(operand) => Some([below.unwrap_or_default(), operand.clone()].concat()),
    }
}

/// Whether a key lies in a span; none does when its bounds are the wrong way round.
fn holds(span: &Span, key: &Key) -> bool {
    let after = match &span.from {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    };
    let before = match &span.to {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    };
    after && before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::generate;

    fn put(key: &str, value: &str) -> Change {
        Change { table: 0, key: key.into(), write: Write::Put(value.into()) }
    }

    #[test]
    fn the_second_to_commit_a_key_conflicts_and_leaves_nothing() {
        let mut model = Model::new(1);
        let ops = [
            Op::Begin(0),
            Op::Begin(1),
            Op::Change(0, put("k", "first")),
            Op::Change(1, put("k", "second")),
            Op::Change(1, put("other", "second")),
            Op::Commit(0, None),
        ];
        for op in ops {
            assert_eq!(model.apply(&op), Outcome::Done);
        }
        assert_eq!(model.apply(&Op::Commit(1, None)), Outcome::Conflict);
        assert_eq!(model.state_at(model.version()), [[(b"k".to_vec(), b"first".to_vec())]]);
        model.rewind(0);
        assert_eq!(model.state_at(0), [[]]);
    }

    #[test]
    fn a_transaction_reads_its_own_writes_over_its_snapshot() {
        let mut model = Model::new(1);
        model.commit([put("a", "1"), put("b", "1")]);
        model.apply(&Op::Begin(0));
        model.commit([put("a", "2")]);
        model.apply(&Op::Change(0, Change { write: Write::Delete, ..put("b", "") }));
        model.apply(&Op::Change(0, put("c", "3")));
        let all = Span { table: 0, from: Bound::Unbounded, to: Bound::Unbounded, reverse: true };
        let entries = [(b"c".to_vec(), b"3".to_vec()), (b"a".to_vec(), b"1".to_vec())];
        assert_eq!(model.apply(&Op::Range(View::Transaction(0), all, 9)), Outcome::Entries(entries.into()));
    }

    #[test]
    fn random_operations_reach_what_they_are_meant_to_reach() {
        let (mut conflicts, mut commits, mut reads, mut misses, mut steps) = (0, 0, 0, 0, 0);
        for seed in 0..200 {
            let mut model = Model::new(3);
            for op in generate(seed, 3, 400) {
                match (&op, model.apply(&op)) {
                    (Op::Commit(..), Outcome::Conflict) => conflicts += 1,
                    (Op::Commit(..), Outcome::Done) => commits += 1,
                    (Op::Get(..), Outcome::Value(Some(_))) => reads += 1,
                    (Op::Get(..), Outcome::Value(None)) => misses += 1,
                    (Op::Next(..), Outcome::Entries(entries)) if !entries.is_empty() => steps += 1,
                    _ => {}
                }
            }
        }
        let reached = [conflicts, commits, reads, misses, steps];
        assert!(reached.iter().all(|count| *count >= 100), "{reached:?}");
    }
}
