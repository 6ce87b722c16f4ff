//! Lists of operations of which every way to carry them out must show the same, and the ways.
//!
//! The lists are drawn otherwise than those of [`crate::ops`], so that what the one never does the other may: keys are
//! a prefix that many share and a number near a spot that moves; objects (transactions, snapshots, scans) are opened,
//! used for a while and closed, as in the metamorphic tests of Pebble; and all of them are closed at the end of each
//! *episode*, where a [`Way`] may do what it likes.

use crate::operators::adds;
use crate::ops::{Change, Key, Leave, Op, SLOTS, Span, View, Write};
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::subject::Subject;
use spinney::Durability;
use std::fmt::Write as _;
use std::ops::Bound;

/// How many operations an episode has before it closes its objects.
const EPISODE: usize = 40;

/// What keys begin with, and what may be done with those keys.
const PREFIXES: [(&str, Role); 8] = [
    ("", Role::Any),
    ("a", Role::Any),
    ("aa", Role::Any),
    ("user/0000000000000000000000000000/", Role::Any),
    ("user/0000000000000000000000000001/", Role::Any),
    ("z\u{7f}", Role::Any),
    ("n/", Role::Counter),
    ("user/0000000000000000000000000000/once/", Role::Once),
];

/// What is done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Anything but single-deletes.
    Any,
    /// Numbers are added.
    Counter,
    /// It is put when it is not there, and single-deleted.
    Once,
}

/// How a list is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it stands.
    Plain,
    /// The changes of a batch one by one.
    Single,
    /// The database is closed, or dropped, and opened again after each episode.
    Reopening,
    /// Tables are flushed and compacted after every other episode.
    Compacting,
    /// Compactions are held in every other episode, and between operations tables are flushed.
    Holding,
}

/// All ways.
pub const WAYS: [Way; 5] = [Way::Plain, Way::Single, Way::Reopening, Way::Compacting, Way::Holding];

/// Draws the episodes of a seed.
#[must_use]
pub fn generate(seed: u64, tables: usize, episodes: usize) -> Vec<Vec<Op>> {
    let mut rng = Rng::new(seed ^ 0x006d_6574_6168);
    (0..episodes).map(|_| Episode::new(rng.fork(), tables).draw()).collect()
}

/// Carries out episodes in some way, and tells what reads and commits gave.
///
/// # Errors
/// What an operation gave that must not fail.
pub fn tell(episodes: &[Vec<Op>], tables: usize, way: Way, subject: &mut dyn Subject) -> Result<String, String> {
    let mut told = String::new();
    for (number, episode) in episodes.iter().enumerate() {
        for (at, op) in episode.iter().enumerate() {
            for op in split(op, way) {
                let outcome = subject.apply(&op);
                if matches!(outcome, Outcome::Failed(_)) {
                    return Err(format!("{told}{op} -> {outcome}"));
                }
                if !matches!(op, Op::Write(..)) {
                    writeln!(told, "{number}.{at} {op} -> {outcome}").expect("a String takes any text");
                }
            }
            if way == Way::Holding && at % 16 == 15 {
                done(subject, &Op::Flush(at / 16 % tables))?;
            }
        }
        between(number, tables, way).iter().try_for_each(|op| done(subject, op))?;
    }
    Ok(told)
}

/// Does something of which nobody must see anything.
fn done(subject: &mut dyn Subject, op: &Op) -> Result<(), String> {
    match subject.apply(op) {
        Outcome::Done => Ok(()),
        outcome => Err(format!("{op} -> {outcome}")),
    }
}

/// The operations that a way makes of one. Whether a key is put that may be there already is decided before its batch,
/// so a batch that erases and puts such keys is not that of its changes one by one.
fn split(op: &Op, way: Way) -> Vec<Op> {
    let erases = |change: &Change| change.erased().is_some();
    let puts_new = |change: &Change| matches!(change.write, Write::PutNew(_));
    match (op, way) {
        (Op::Write(changes, durability), Way::Single)
            if !(changes.iter().any(erases) && changes.iter().any(puts_new)) =>
        {
            changes.iter().map(|change| Op::Write(vec![change.clone()], *durability)).collect()
        }
        _ => vec![op.clone()],
    }
}

/// What a way does after an episode.
fn between(number: usize, tables: usize, way: Way) -> Vec<Op> {
    let even = number.is_multiple_of(2);
    match way {
        Way::Plain | Way::Single => Vec::new(),
        Way::Reopening => vec![Op::Reopen(if even { Leave::Close } else { Leave::Drop })],
        Way::Compacting if even => (0..tables).flat_map(|table| [Op::Flush(table), Op::Compact(table)]).collect(),
        Way::Compacting => vec![Op::CompactLevel(0, 0)],
        Way::Holding => (0..tables).map(|table| Op::Hold(table, even)).collect(),
    }
}

/// An episode that is being drawn.
struct Episode {
    rng: Rng,
    tables: usize,
    /// Most keys have a number near this one.
    spot: u64,
    /// The prefixes of this episode.
    prefixes: Vec<usize>,
    ops: Vec<Op>,
    transactions: [bool; SLOTS],
    snapshots: [bool; SLOTS],
    scans: [bool; SLOTS],
    /// What was changed, and where that is seen.
    changed: Vec<(View, usize, Key)>,
}

impl Episode {
    fn new(mut rng: Rng, tables: usize) -> Self {
        let spot = rng.number() % 200;
        let count = rng.in_range(1..PREFIXES.len());
        let prefixes = (0..count).map(|_| rng.in_range(0..PREFIXES.len())).collect();
        let (transactions, snapshots, scans) = Default::default();
        Self { rng, tables, spot, prefixes, ops: Vec::new(), transactions, snapshots, scans, changed: Vec::new() }
    }

    fn draw(mut self) -> Vec<Op> {
        while self.ops.len() < EPISODE {
            let op = self.op();
            self.ops.push(op);
        }
        for slot in 0..SLOTS {
            self.ops.push(if self.rng.chance(70) { Op::Commit(slot, None) } else { Op::Rollback(slot) });
            self.ops.push(Op::Release(slot));
            if self.scans[slot] {
                self.ops.push(Op::Next(slot, usize::MAX));
            }
        }
        for table in 0..self.tables {
            self.ops.push(Op::Range(View::Now, all(table, false), usize::MAX));
            self.ops.push(Op::Range(View::Now, all(table, true), usize::MAX));
        }
        self.ops
    }

    fn op(&mut self) -> Op {
        let slot = self.rng.in_range(0..SLOTS);
        match self.rng.weighted(&[25, 20, 6, 14, 12, 6, 8, 5, 2, 4, 3, 4]) {
            0 => {
                let count = *self.rng.pick(&[1, 1, 1, 4, 12]);
                let changes = (0..count).map(|_| self.change(View::Now)).collect();
                Op::Write(changes, *self.rng.pick(&[None, Some(Durability::Sync), Some(Durability::Buffered)]))
            }
            1 if !self.transactions[slot] => {
                self.transactions[slot] = true;
                Op::Begin(slot)
            }
            1 => Op::Change(slot, self.change(View::Transaction(slot))),
            2 => {
                self.transactions[slot] = false;
                self.changed.retain(|(view, ..)| *view != View::Transaction(slot));
                if self.rng.chance(80) { Op::Commit(slot, None) } else { Op::Rollback(slot) }
            }
            3 => {
                let (view, table, key) = match self.changed.last() {
                    Some(_) if self.rng.chance(50) => self.rng.pick(&self.changed).clone(),
                    _ => (self.view(slot), self.table(), self.key().0),
                };
                Op::Get(view, table, key)
            }
            4 => Op::Range(self.view(slot), self.span(), *self.rng.pick(&[3, 20, usize::MAX])),
            5 => {
                self.snapshots[slot] = !self.snapshots[slot];
                if self.snapshots[slot] { Op::Snapshot(slot) } else { Op::Release(slot) }
            }
            6 => {
                let keys = (0..self.rng.in_range(1..9)).map(|_| self.key().0).collect();
                Op::MultiGet(self.view(slot), self.table(), keys)
            }
            7 if self.scans[slot] => Op::Next(slot, self.rng.in_range(1..10)),
            9 => Op::Savepoint(slot),
            10 => Op::RollbackTo(slot),
            11 => {
                let mut cuts: Vec<_> = (0..self.rng.in_range(0..9)).map(|_| self.key().0).collect();
                cuts.sort();
                Op::Ranges(self.view(slot), self.table(), cuts, self.rng.chance(50))
            }
            _ => {
                self.scans[slot] = true;
                Op::Scan(slot, if self.snapshots[slot] { View::Snapshot(slot) } else { View::Now }, self.span())
            }
        }
    }

    fn view(&mut self, slot: usize) -> View {
        match self.rng.in_range(0..3) {
            0 if self.transactions[slot] => View::Transaction(slot),
            1 if self.snapshots[slot] => View::Snapshot(slot),
            _ => View::Now,
        }
    }

    fn table(&mut self) -> usize {
        self.rng.in_range(0..self.tables)
    }

    fn key(&mut self) -> (Key, Role) {
        let (prefix, role) = PREFIXES[*self.rng.pick(&self.prefixes)];
        let near = self.rng.number() % *self.rng.pick(&[2, 8, 40]);
        let number = if self.rng.chance(90) { self.spot + near } else { self.rng.number() % 500 };
        (format!("{prefix}{number:03}").into_bytes(), role)
    }

    fn change(&mut self, view: View) -> Change {
        let (table, (key, role)) = (self.table(), self.key());
        let write = match (role, self.rng.in_range(0..20)) {
            (Role::Any, 0) => {
                let high = self.key().0;
                Write::Erase(Some(high).filter(|high| *high > key))
            }
            (Role::Any, 1..4) => Write::Delete,
            (Role::Any, 4..9) if !adds(table) => Write::Merge(self.value()),
            (Role::Any, _) => Write::Put(self.value()),
            (Role::Counter, 0) => Write::Delete,
            (Role::Counter, _) => Write::Merge(self.rng.number().to_le_bytes().to_vec()),
            (Role::Once, 0..9) => Write::SingleDelete,
            (Role::Once, _) => Write::PutNew(self.value()),
        };
        self.changed.push((view, table, key.clone()));
        Change { table, key, write }
    }

    /// Mostly of a few sizes, so that blocks end everywhere.
    fn value(&mut self) -> Vec<u8> {
        let len = *self.rng.pick(&[0, 1, 7, 60, 61, 62, 63, 64, 65, 100, 400, 3000]);
        let byte = self.rng.bytes(1)[0];
        if self.rng.chance(50) { vec![byte; len] } else { self.rng.bytes(len) }
    }

    fn span(&mut self) -> Span {
        let (table, reverse) = (self.table(), self.rng.chance(50));
        if self.rng.chance(20) {
            return all(table, reverse);
        }
        let (from, mut to) = (self.key().0, self.key().0);
        if self.rng.chance(30) {
            // To the end of the prefix.
            to = [&from[..from.len() - 3], &[0xff]].concat();
        }
        let (from, to) = (from.clone().min(to.clone()), from.max(to));
        Span { table, from: Bound::Included(from), to: Bound::Excluded(to), reverse }
    }
}

fn all(table: usize, reverse: bool) -> Span {
    Span { table, from: Bound::Unbounded, to: Bound::Unbounded, reverse }
}
