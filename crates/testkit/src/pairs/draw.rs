//! What the two users of a case do.

use crate::ops::{Change, Key, Op, Span, View, Write};
use crate::rng::Rng;
use spinney::Durability;
use std::fmt;
use std::ops::Bound;

pub(super) const TABLES: usize = 2;

/// How many keys there are.
pub(super) const KEYS: usize = 40;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as the operations are")]
pub enum Kind {
    Put,
    PutBuffered,
    Batch,
    DeleteRange,
    Commit,
    CommitRange,
    Get,
    Contains,
    MultiGet,
    Range,
    RangeRev,
    Next,
    Snapshot,
    Begin,
    Flush,
    Compact,
    CompactLevel,
    BulkLoad,
    Hold,
    Release,
    WaitIdle,
    Recreate,
    Sync,
    Verify,
    Checkpoint,
}

impl Kind {
    /// All kinds.
    pub const EVERY: [Self; 25] = [
        Self::Put,
        Self::PutBuffered,
        Self::Batch,
        Self::DeleteRange,
        Self::Commit,
        Self::CommitRange,
        Self::Get,
        Self::Contains,
        Self::MultiGet,
        Self::Range,
        Self::RangeRev,
        Self::Next,
        Self::Snapshot,
        Self::Begin,
        Self::Flush,
        Self::Compact,
        Self::CompactLevel,
        Self::BulkLoad,
        Self::Hold,
        Self::Release,
        Self::WaitIdle,
        Self::Recreate,
        Self::Sync,
        Self::Verify,
        Self::Checkpoint,
    ];

    /// Whether it calls the file system, so that another can come in its middle.
    #[must_use]
    pub fn makes_calls(self) -> bool {
        !matches!(self, Self::Snapshot | Self::Begin | Self::Hold | Self::Release)
    }
}

/// What a user does: some of it before, so that it is under way, and one operation.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) before: Vec<Op>,
    pub(super) op: Op,
    /// The table that it uses, if it is one.
    pub(super) table: Option<usize>,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.before.iter().try_for_each(|op| write!(f, "({op}) "))?;
        self.op.fmt(f)
    }
}

/// Draws the operations of a case.
pub(super) struct Draw {
    rng: Rng,
    /// Keys that both operations are about, in order.
    edges: [usize; 4],
    /// The tables take operands.
    merges: bool,
}

impl Draw {
    pub(super) fn new(mut rng: Rng, merges: bool) -> Self {
        let mut edges = [0; 4];
        edges.iter_mut().for_each(|edge| *edge = rng.in_range(1..KEYS - 1));
        edges.sort_unstable();
        Self { rng, edges, merges }
    }

    /// Several runs, something in memory, all of it durable.
    pub(super) fn base(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        for _ in 0..self.rng.in_range(2..6) {
            for table in 0..TABLES {
                ops.push(match self.rng.in_range(0..6) {
                    0 => self.load(table),
                    1 => Op::Write(vec![self.erase(table)], None),
                    _ => {
                        let count = self.rng.in_range(1..12);
                        Op::Write((0..count).map(|_| self.put(table)).collect(), None)
                    }
                });
                if self.rng.chance(50) {
                    ops.push(Op::Flush(table));
                }
            }
        }
        ops.push(Op::Sync);
        ops
    }

    pub(super) fn act(&mut self, kind: Kind, slot: usize) -> Act {
        let table = usize::from(self.rng.chance(30));
        let mut before = Vec::new();
        let view = View::Now;
        let mut op_table = Some(table);
        let op = match kind {
            Kind::Put => Op::Write(vec![self.put(table)], Some(Durability::Sync)),
            Kind::PutBuffered => Op::Write(vec![self.put(table)], Some(Durability::Buffered)),
            Kind::Batch => {
                op_table = None;
                let mut changes: Vec<_> = (0..6).map(|at| self.change(at % TABLES)).collect();
                if self.rng.chance(50) {
                    // Large enough for new memtables.
                    let value = Write::Put(self.rng.bytes(5000));
                    changes.extend((0..TABLES).map(|table| Change { write: value.clone(), ..self.put(table) }));
                }
                Op::Write(changes, Some(Durability::Sync))
            }
            Kind::DeleteRange => Op::Write(vec![self.erase(table)], Some(Durability::Sync)),
            Kind::Commit | Kind::CommitRange => {
                before.push(Op::Begin(slot));
                for _ in 0..self.rng.in_range(1..4) {
                    let change = if kind == Kind::Commit { self.change(table) } else { self.erase(table) };
                    before.push(Op::Change(slot, change));
                }
                Op::Commit(slot, Some(Durability::Sync))
            }
            Kind::Get => Op::Get(view, table, self.edge()),
            Kind::Contains => Op::Contains(view, table, self.edge()),
            Kind::MultiGet => Op::MultiGet(view, table, (0..KEYS).map(key).collect()),
            Kind::Range | Kind::RangeRev => Op::Range(view, self.span(table, kind == Kind::RangeRev), usize::MAX),
            Kind::Next => {
                let reverse = self.rng.chance(50);
                before.extend([Op::Scan(slot, view, self.span(table, reverse)), Op::Next(slot, 1)]);
                Op::Next(slot, usize::MAX)
            }
            Kind::Snapshot => {
                op_table = None;
                Op::Snapshot(slot)
            }
            Kind::Begin => {
                op_table = None;
                Op::Begin(slot)
            }
            Kind::Flush => Op::Flush(table),
            Kind::Compact => Op::Compact(table),
            Kind::CompactLevel => Op::CompactLevel(table, self.rng.in_range(0..3)),
            Kind::BulkLoad => self.load(table),
            Kind::Hold => Op::Hold(table, true),
            Kind::Release => {
                before.push(Op::Hold(table, true));
                Op::Hold(table, false)
            }
            Kind::WaitIdle => Op::WaitIdle(table),
            Kind::Recreate => Op::Recreate(table),
            Kind::Sync => {
                op_table = Some(TABLES);
                Op::Sync
            }
            Kind::Verify => {
                op_table = Some(TABLES);
                Op::Verify
            }
            Kind::Checkpoint => Op::Checkpoint,
        };
        if matches!(op, Op::Snapshot(_) | Op::Begin(_)) {
            op_table = Some(TABLES);
        }
        before.extend(self.something_to_do(kind, table));
        Act { before, op, table: op_table }
    }

    /// What comes before an operation that else may find nothing to do.
    fn something_to_do(&mut self, kind: Kind, table: usize) -> Option<Op> {
        match kind {
            Kind::Sync => Some(Op::Write(vec![self.put(table)], Some(Durability::Buffered))),
            Kind::Flush | Kind::Compact | Kind::CompactLevel | Kind::WaitIdle | Kind::Checkpoint
                if self.rng.chance(70) =>
            {
                let count = self.rng.in_range(1..8);
                let changes = (0..count).map(|_| self.change(table)).collect();
                Some(Op::Write(changes, Some(Durability::Sync)))
            }
            _ => None,
        }
    }

    /// A key at one of the edges, or beside it.
    fn edge(&mut self) -> Key {
        let edge = *self.rng.pick(&self.edges);
        key(edge + self.rng.in_range(0..3) - 1)
    }

    fn value(&mut self) -> Vec<u8> {
        let len = *self.rng.pick(&[0, 3, 30, 90, 300, 300, 5000]);
        self.rng.bytes(len)
    }

    fn put(&mut self, table: usize) -> Change {
        let key = if self.rng.chance(50) { self.edge() } else { key(self.rng.in_range(0..KEYS)) };
        Change { table, key, write: Write::Put(self.value()) }
    }

    fn change(&mut self, table: usize) -> Change {
        match self.rng.in_range(0..6) {
            0 => self.erase(table),
            1 => Change { write: Write::Delete, ..self.put(table) },
            // Numbers are added to in the other table.
            2 if table == 0 && self.merges => Change { write: Write::Merge(self.value()), ..self.put(table) },
            _ => self.put(table),
        }
    }

    /// From an edge to an edge.
    fn erase(&mut self, table: usize) -> Change {
        let (mut low, mut high) = (self.edge(), self.edge());
        if low > high {
            std::mem::swap(&mut low, &mut high);
        }
        if low == high {
            high.push(0);
        }
        Change { table, key: low, write: Write::Erase(Some(high).filter(|_| self.rng.chance(95))) }
    }

    /// From the second edge to the third.
    fn load(&mut self, table: usize) -> Op {
        let mut numbers: Vec<_> = (self.edges[1]..self.edges[2] + 1).collect();
        if self.rng.chance(30) {
            numbers.retain(|_| self.rng.chance(60));
        }
        Op::Load(table, numbers.into_iter().map(|number| (key(number), self.value())).collect())
    }

    fn span(&mut self, table: usize, reverse: bool) -> Span {
        let bound = |rng: &mut Rng, key: Key| match rng.in_range(0..3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        };
        let (mut low, mut high) = (self.edge(), self.edge());
        if low > high {
            std::mem::swap(&mut low, &mut high);
        }
        Span { table, from: bound(&mut self.rng, low), to: bound(&mut self.rng, high), reverse }
    }
}

pub(super) fn key(number: usize) -> Key {
    format!("k{number:02}").into_bytes()
}
