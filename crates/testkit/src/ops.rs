//! Operations on a database as data, and their random generation from a seed.
//!
//! Transactions, snapshots and scans live in numbered slots. An operation on an empty slot does nothing, so that any
//! part of a list of operations is a list that can be run: this is what lets a failing list be made shorter.

use crate::entry::Pair;
use crate::operators;
use crate::outcome::{show, show_bytes};
use crate::rng::Rng;
use spinney::Durability;
use std::fmt;
use std::ops::Bound;

pub use crate::entry::Key;

/// How many transactions, and how many snapshots and scans, can be open at once.
pub const SLOTS: usize = 3;

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// It has this value.
    Put(Vec<u8>),
    /// It has none.
    Delete,
    /// An operand is merged into its value: see [`crate::operators`].
    Merge(Vec<u8>),
    /// It has this value, if it had none; else it is not written. So whatever is left out of a list of operations, the
    /// promise of single-deletes is kept.
    PutNew(Vec<u8>),
    /// It has none; the key gets only this, [`Self::PutNew`] and merges.
    SingleDelete,
    /// It has none, nor have those after it: up to this one, or to the last.
    Erase(Option<Key>),
}

impl From<Option<Vec<u8>>> for Write {
    fn from(value: Option<Vec<u8>>) -> Self {
        value.map_or(Self::Delete, Self::Put)
    }
}

/// A write of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The table's number.
    pub table: usize,
    /// The key.
    pub key: Key,
    /// What becomes of it.
    pub write: Write,
}

impl Change {
    /// The range that is erased, and where it ends.
    #[must_use]
    pub fn erased(&self) -> Option<(&Key, Option<&Key>)> {
        match &self.write {
            Write::Erase(high) => Some((&self.key, high.as_ref())),
            _ => None,
        }
    }
}

/// What a read looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All that is committed.
    Now,
    /// The snapshot in a slot.
    Snapshot(usize),
    /// The transaction in a slot.
    Transaction(usize),
}

/// A range of keys of a table, and the direction to read it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The table's number.
    pub table: usize,
    /// Where it begins.
    pub from: Bound<Key>,
    /// Where it ends; it may lie before the beginning, and the range is empty then.
    pub to: Bound<Key>,
    /// Whether to read from the end to the beginning.
    pub reverse: bool,
}

/// The ranges between keys, as [`Op::Ranges`] says: from a key on, up to another.
#[must_use]
pub fn ranges_between(cuts: &[Key], reverse: bool) -> Vec<(Key, Key)> {
    let mut ranges: Vec<_> = cuts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    if reverse {
        ranges.reverse();
    }
    ranges
}

/// How a database is left before it is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// By `close`.
    Close,
    /// By dropping it.
    Drop,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes a batch. No durability: as the options say.
    Write(Vec<Change>, Option<Durability>),
    /// Begins a transaction in a slot, and rolls back the one that was there.
    Begin(usize),
    /// Changes a key in the transaction in a slot.
    Change(usize, Change),
    /// Commits the transaction in a slot. No durability: as the options say.
    Commit(usize, Option<Durability>),
    /// Rolls the transaction in a slot back.
    Rollback(usize),
    /// Marks a place in the transaction in a slot.
    Savepoint(usize),
    /// Takes back what the transaction in a slot changed since its last mark, which goes too.
    RollbackTo(usize),
    /// Takes a snapshot into a slot, and drops the one that was there.
    Snapshot(usize),
    /// Drops the snapshot in a slot.
    Release(usize),
    /// Reads a key of a table.
    Get(View, usize, Key),
    /// Asks whether a table has a key.
    Contains(View, usize, Key),
    /// Reads several keys of a table.
    MultiGet(View, usize, Vec<Key>),
    /// Reads a range, up to so many entries.
    Range(View, Span, usize),
    /// Reads ranges of a table, from the first key to the second, from the third to the fourth, in the order of the
    /// keys or the other way round.
    Ranges(View, usize, Vec<Key>, bool),
    /// Opens a range in a slot, to be read step by step while other things happen. Never on a transaction, which
    /// changes under it.
    Scan(usize, View, Span),
    /// Reads up to so many more entries from the scan in a slot.
    Next(usize, usize),
    /// Flushes a table.
    Flush(usize),
    /// Compacts a table.
    Compact(usize),
    /// Compacts a level of a table into the next: L0 for 0, else the so-manieth level that holds anything. B-trees
    /// refuse.
    CompactLevel(usize, usize),
    /// Holds the compactions of a table, or lets them go on.
    Hold(usize, bool),
    /// Waits until no flush and no compaction of a table is due.
    WaitIdle(usize),
    /// Loads entries, whose keys ascend, into a table: one durable commit.
    Load(usize, Vec<Pair>),
    /// Recreates a table as [`Self::Recreate`] does, and loads entries, whose keys ascend, below the changes that are
    /// made meanwhile: puts and deletes of single keys.
    LoadBelow(usize, Vec<Pair>, Vec<Change>),
    /// Drops a table and creates it again, empty; all slots are dropped before.
    Recreate(usize),
    /// Drops all tables together and creates them again together, empty; all slots are dropped before.
    RecreateAll,
    /// Makes all that is committed durable.
    Sync,
    /// Verifies the database.
    Verify,
    /// Copies the database, opens the copy and reads all of it.
    Checkpoint,
    /// Drops all slots, leaves the database, opens it again.
    Reopen(Leave),
}

impl Op {
    /// The durability of the commit that the operation is: `None` when it is no commit, `Some(None)` when the options
    /// say.
    #[must_use]
    pub fn durability(&self) -> Option<Option<Durability>> {
        match self {
            Self::Write(_, durability) | Self::Commit(_, durability) => Some(*durability),
            _ => None,
        }
    }
}

/// The operations of a seed.
#[must_use]
pub fn generate(seed: u64, tables: usize, count: usize) -> Vec<Op> {
    let mut generator = Generator::new(seed, tables, &WEIGHTS);
    (0..count).map(|_| generator.op()).collect()
}

/// The operations of a seed, with few reads: for crashes, after which everything is read anyway.
#[must_use]
pub fn generate_writes(seed: u64, tables: usize, count: usize) -> Vec<Op> {
    let mut generator = Generator::new(seed, tables, &WRITE_WEIGHTS);
    (0..count).map(|_| generator.op()).collect()
}

/// The kinds of operations with the weights that they have on average, in the order of [`Generator::op_of_kind`].
const WEIGHTS: [usize; KINDS] = [30, 8, 9, 24, 8, 2, 4, 2, 20, 4, 4, 14, 4, 8, 3, 2, 2, 1, 1, 3, 1, 1, 2, 1, 4, 3, 4];

/// As [`WEIGHTS`], with few reads.
const WRITE_WEIGHTS: [usize; KINDS] =
    [20, 30, 5, 20, 6, 1, 3, 2, 2, 0, 0, 2, 0, 0, 4, 2, 4, 1, 1, 3, 1, 2, 4, 1, 3, 2, 0];

/// How many kinds there are.
const KINDS: usize = 27;

/// Kinds that every run has.
const ALWAYS: usize = 2;

/// The keys that are counters, where tables add.
const COUNTERS: [&[u8]; 3] = [b"count", b"counter", b"sameformcounter"];

/// The keys that are single-deleted, like entries of an index.
const INDEXED: [&[u8]; 4] = [b"index", b"index/2", b"sameformindex", b"zindex"];

/// Draws operations.
///
/// Each seed has weights of its own, and leaves some kinds out: a rare state is reached more often by a run that does
/// few things much than by one that does everything evenly (swarm testing).
#[derive(Debug)]
struct Generator {
    rng: Rng,
    tables: usize,
    weights: Vec<usize>,
    keys: Vec<Key>,
    /// The keys that are used more often than others.
    hot: Vec<Key>,
    /// A key that the next so many changes and reads are of: what becomes of its versions under snapshots, flushes and
    /// merges.
    focus: (Key, usize),
    /// How many of a hundred times another key comes into focus.
    focuses: usize,
    large_values: bool,
    /// How many of a hundred changes are merges.
    merges: usize,
    /// How many of a hundred changes are of keys that are single-deleted.
    singles: usize,
    /// How many of a hundred changes are range tombstones.
    erasures: usize,
}

impl Generator {
    fn new(seed: u64, tables: usize, average: &[usize; KINDS]) -> Self {
        let mut rng = Rng::new(seed);
        let mut weights: Vec<_> = average.iter().map(|weight| weight * rng.pick(&[0, 1, 1, 1, 3])).collect();
        weights[..ALWAYS].copy_from_slice(&average[..ALWAYS]);
        let keys = key_space(&mut rng.fork());
        let hot = (0..4).map(|_| rng.pick(&keys).clone()).collect();
        let large_values = rng.chance(40);
        let merges = *rng.pick(&[0, 10, 30, 60]);
        let singles = *rng.pick(&[0, 10, 30]);
        let erasures = *rng.pick(&[0, 2, 5, 20, 50]);
        let (focus, focuses) = ((Vec::new(), 0), *rng.pick(&[0, 0, 3, 20]));
        Self { rng, tables, weights, keys, hot, focus, focuses, large_values, merges, singles, erasures }
    }

    fn op(&mut self) -> Op {
        let kind = self.rng.weighted(&self.weights);
        self.op_of_kind(kind)
    }

    fn op_of_kind(&mut self, kind: usize) -> Op {
        let slot = self.slot();
        match kind {
            0 => Op::Write(vec![self.change()], self.durability()),
            1 => {
                let (count, erases) = (self.rng.in_range(0..20), self.rng.chance(2 * self.erasures));
                let changes = (0..count).map(|_| if erases { self.mostly_erase() } else { self.change() });
                Op::Write(changes.collect(), self.durability())
            }
            2 => Op::Begin(slot),
            3 => Op::Change(slot, self.change()),
            4 => Op::Commit(slot, self.durability()),
            5 => Op::Rollback(slot),
            6 => Op::Snapshot(slot),
            7 => Op::Release(slot),
            8 => Op::Get(self.view(), self.table(), self.probe()),
            9 => Op::Contains(self.view(), self.table(), self.probe()),
            10 => {
                let count = self.rng.in_range(0..12);
                Op::MultiGet(self.view(), self.table(), (0..count).map(|_| self.probe()).collect())
            }
            11 => Op::Range(self.view(), self.span(), *self.rng.pick(&[1, 5, 30, usize::MAX])),
            12 => Op::Scan(slot, self.still_view(), self.span()),
            13 => Op::Next(slot, self.rng.in_range(1..20)),
            14 => Op::Flush(self.table()),
            15 => Op::Compact(self.table()),
            16 => Op::Sync,
            17 => self.rng.pick(&[Op::Verify, Op::Checkpoint]).clone(),
            18 => Op::Reopen(*self.rng.pick(&[Leave::Close, Leave::Drop])),
            19 => Op::CompactLevel(self.table(), *self.rng.pick(&[0, 0, 1, 2])),
            20 => Op::Hold(self.table(), self.rng.chance(50)),
            21 => Op::WaitIdle(self.table()),
            22 if self.rng.chance(20) => self.load_below(),
            22 => self.load(),
            23 if self.rng.chance(30) => Op::RecreateAll,
            23 => Op::Recreate(self.table()),
            24 => Op::Savepoint(slot),
            25 => Op::RollbackTo(slot),
            _ => {
                let count = self.rng.in_range(0..9);
                let mut cuts: Vec<_> = (0..count).map(|_| self.probe()).collect();
                cuts.sort();
                Op::Ranges(self.view(), self.table(), cuts, self.rng.chance(50))
            }
        }
    }

    /// A load of few keys out of all, or of nearly all: beside what is there, into it, over it.
    fn load(&mut self) -> Op {
        let (table, share) = (self.table(), *self.rng.pick(&[5, 30, 90]));
        let mut keys: Vec<_> = self.keys.clone();
        keys.retain(|_| self.rng.chance(share));
        if self.rng.chance(50) {
            // Only a part of the key space.
            let from = self.rng.in_range(0..keys.len() + 1);
            keys.drain(..from);
        }
        Op::Load(table, keys.into_iter().map(|key| (key, self.value())).collect())
    }

    /// A load below changes of about half of its keys, and of others.
    fn load_below(&mut self) -> Op {
        let table = self.table();
        let mut keys = self.keys.clone();
        keys.retain(|_| self.rng.chance(50));
        let pairs = keys.into_iter().map(|key| (key, self.value())).collect();
        let mut keys = self.keys.clone();
        keys.retain(|_| self.rng.chance(50));
        let changes = keys.into_iter().map(|key| {
            let value = if self.rng.chance(50) { None } else { Some(self.value()) };
            Change { table, key, write: value.into() }
        });
        Op::LoadBelow(table, pairs, changes.collect())
    }

    fn slot(&mut self) -> usize {
        self.rng.in_range(0..SLOTS)
    }

    fn table(&mut self) -> usize {
        self.rng.in_range(0..self.tables)
    }

    fn durability(&mut self) -> Option<Durability> {
        use Durability::{Buffered, Interval, Sync};
        *self.rng.pick(&[None, None, None, Some(Sync), Some(Buffered), Some(Interval)])
    }

    fn change(&mut self) -> Change {
        let table = self.table();
        if self.rng.chance(self.singles) {
            return self.single(table);
        }
        if self.rng.chance(self.erasures) {
            return self.erase(table);
        }
        if self.rng.chance(self.merges) {
            return self.merge(table);
        }
        let value = if self.rng.chance(25) { None } else { Some(self.value()) };
        Change { table, key: self.key(), write: value.into() }
    }

    /// A change of a batch of many ranges.
    fn mostly_erase(&mut self) -> Change {
        if self.rng.chance(20) {
            return self.change();
        }
        let table = self.table();
        self.erase(table)
    }

    /// A few neighbours, now and then all from a key to another, or to the last.
    fn erase(&mut self, table: usize) -> Change {
        let from = self.rng.in_range(0..self.keys.len());
        let low = if self.rng.chance(10) { vec![0] } else { self.keys[from].clone() };
        let width = *self.rng.pick(&[1, 2, 2, 5, 20, usize::MAX]);
        let high = match self.keys.get(from.saturating_add(width)) {
            Some(high) if self.rng.chance(80) => high.clone(),
            _ => self.probe(),
        };
        let high = Some(high).filter(|high| *high > low);
        Change { table, key: low, write: Write::Erase(high) }
    }

    /// Operands go to any key of a table that appends; the keys of counters are never anything else.
    fn merge(&mut self, table: usize) -> Change {
        if !operators::adds(table) {
            let len = self.rng.in_range(0..12);
            return Change { table, key: self.key(), write: Write::Merge(self.rng.bytes(len)) };
        }
        let number = self.rng.number().to_le_bytes().to_vec();
        let write = match self.rng.in_range(0..10) {
            0 => Write::Delete,
            1 => Write::Put(number),
            _ => Write::Merge(number),
        };
        Change { table, key: self.counter(), write }
    }

    /// A change of a key that is single-deleted. Operands are part of what was put; the keys of a table that adds have
    /// none.
    fn single(&mut self, table: usize) -> Change {
        let write = match self.rng.in_range(0..10) {
            0 if !operators::adds(table) => Write::Merge(self.value()),
            0..5 => Write::SingleDelete,
            _ => Write::PutNew(self.value()),
        };
        Change { table, key: self.indexed(), write }
    }

    fn indexed(&mut self) -> Key {
        self.rng.pick(&INDEXED).to_vec()
    }

    fn counter(&mut self) -> Key {
        self.rng.pick(&COUNTERS).to_vec()
    }

    /// 0 to 300 bytes, and now and then 20 KiB; half of them compress well.
    fn value(&mut self) -> Vec<u8> {
        let len = if self.large_values && self.rng.chance(3) { 20 << 10 } else { self.rng.in_range(0..301) };
        if self.rng.chance(50) {
            self.rng.bytes(len)
        } else {
            self.rng.bytes(6).into_iter().cycle().take(len).collect()
        }
    }

    fn key(&mut self) -> Key {
        if self.focus.1 > 0 {
            self.focus.1 -= 1;
            return self.focus.0.clone();
        }
        if self.rng.chance(self.focuses) {
            self.focus = (self.rng.pick(&self.keys).clone(), self.rng.in_range(5..40));
        }
        let hot = self.rng.chance(40);
        self.rng.pick(if hot { &self.hot } else { &self.keys }).clone()
    }

    /// A key of the key space, or one beside it.
    fn probe(&mut self) -> Key {
        if self.rng.chance(self.merges / 2) {
            return self.counter();
        }
        if self.rng.chance(self.singles / 2) {
            return self.indexed();
        }
        let mut key = self.key();
        match self.rng.in_range(0..10) {
            0 => key.push(*self.rng.pick(&[0, b'm', 0xff])),
            1 if key.len() > 1 => drop(key.pop()),
            _ => {}
        }
        key
    }

    fn bound(&mut self) -> Bound<Key> {
        match self.rng.in_range(0..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(self.probe()),
            _ => Bound::Excluded(self.probe()),
        }
    }

    /// All that begins as a key does.
    fn prefix_span(&mut self) -> Span {
        let mut prefix = self.probe();
        prefix.truncate(self.rng.in_range(1..10));
        let end = match prefix.split_last() {
            Some((last, rest)) if *last < u8::MAX => Bound::Excluded([rest, &[last + 1]].concat()),
            _ => Bound::Included([&*prefix, &[u8::MAX]].concat()),
        };
        Span { table: self.table(), from: Bound::Included(prefix), to: end, reverse: self.rng.chance(50) }
    }

    /// Its bounds are in order, most of the time.
    fn span(&mut self) -> Span {
        if self.rng.chance(25) {
            return self.prefix_span();
        }
        let key_of = |bound: &Bound<Key>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        let (mut from, mut to) = (self.bound(), self.bound());
        if let (Some(low), Some(high)) = (key_of(&from), key_of(&to))
            && low > high
            && !self.rng.chance(5)
        {
            std::mem::swap(&mut from, &mut to);
        }
        Span { table: self.table(), from, to, reverse: self.rng.chance(50) }
    }

    fn view(&mut self) -> View {
        match self.rng.in_range(0..3) {
            0 => View::Transaction(self.slot()),
            _ => self.still_view(),
        }
    }

    /// A view that does not change while it is open.
    fn still_view(&mut self) -> View {
        if self.rng.chance(50) { View::Now } else { View::Snapshot(self.slot()) }
    }
}

/// A few dozen keys, so that operations meet: short and long ones, ones with shared prefixes of 8 bytes and more,
/// prefixes of one another, and the smallest and largest bytes.
fn key_space(rng: &mut Rng) -> Vec<Key> {
    let mut keys = vec![vec![0], vec![0, 0], vec![0xff], vec![0xff; 9], b"sameform".to_vec()];
    for number in 0..rng.in_range(5..80) {
        keys.push(match rng.in_range(0..10) {
            0 => vec![b'a' + u8::try_from(number % 26).expect("below 26"); rng.in_range(200..3000)],
            1 => {
                let len = rng.in_range(1..9);
                rng.bytes(len)
            }
            2..5 => format!("k{number}").into_bytes(),
            5..7 => format!("sameform{number}").into_bytes(),
            _ => format!("a/much/longer/shared/prefix/{number:05}").into_bytes(),
        });
    }
    keys.sort();
    keys.dedup();
    keys
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((low, high)) = self.erased() {
            let high = high.map_or("..".to_owned(), |high| show_bytes(high));
            return write!(f, "t{} erase [{}, {high})", self.table, show_bytes(low));
        }
        let (sign, value) = match &self.write {
            Write::Put(value) => ("=", Some(value.as_slice())),
            Write::Delete | Write::Erase(_) => ("=", None),
            Write::Merge(operand) => ("+=", Some(operand.as_slice())),
            Write::PutNew(value) => ("=?", Some(value.as_slice())),
            Write::SingleDelete => ("=!", None),
        };
        write!(f, "t{} {} {sign} {}", self.table, show_bytes(&self.key), show(value))
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Snapshot(slot) => write!(f, "snapshot{slot}"),
            Self::Transaction(slot) => write!(f, "txn{slot}"),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, from) = match &self.from {
            Bound::Included(key) => ('[', show_bytes(key)),
            Bound::Excluded(key) => ('(', show_bytes(key)),
            Bound::Unbounded => ('(', "..".to_owned()),
        };
        let (to, close) = match &self.to {
            Bound::Included(key) => (show_bytes(key), ']'),
            Bound::Excluded(key) => (show_bytes(key), ')'),
            Bound::Unbounded => ("..".to_owned(), ')'),
        };
        let direction = if self.reverse { " reverse" } else { "" };
        write!(f, "t{} {open}{from}, {to}{close}{direction}", self.table)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = |durability: &Option<Durability>| durability.map_or(String::new(), |it| format!(" {it:?}"));
        match self {
            Self::Write(changes, durability) => {
                let changes: Vec<_> = changes.iter().map(ToString::to_string).collect();
                write!(f, "write{} {{{}}}", how(durability), changes.join("; "))
            }
            Self::Begin(slot) => write!(f, "txn{slot} begin"),
            Self::Change(slot, change) => write!(f, "txn{slot} {change}"),
            Self::Commit(slot, durability) => write!(f, "txn{slot} commit{}", how(durability)),
            Self::Rollback(slot) => write!(f, "txn{slot} rollback"),
            Self::Savepoint(slot) => write!(f, "txn{slot} savepoint"),
            Self::RollbackTo(slot) => write!(f, "txn{slot} rollback to savepoint"),
            Self::Snapshot(slot) => write!(f, "snapshot{slot} take"),
            Self::Release(slot) => write!(f, "snapshot{slot} drop"),
            Self::Get(view, table, key) => write!(f, "{view} get t{table} {}", show_bytes(key)),
            Self::Contains(view, table, key) => write!(f, "{view} contains t{table} {}", show_bytes(key)),
            Self::MultiGet(view, table, keys) => {
                let keys: Vec<_> = keys.iter().map(|key| show_bytes(key)).collect();
                write!(f, "{view} multi_get t{table} {}", keys.join(" "))
            }
            Self::Range(view, span, usize::MAX) => write!(f, "{view} range {span}"),
            Self::Range(view, span, limit) => write!(f, "{view} range {span} limit {limit}"),
            Self::Ranges(view, table, cuts, reverse) => {
                let cuts: Vec<_> = cuts.iter().map(|key| show_bytes(key)).collect();
                let direction = if *reverse { " reverse" } else { "" };
                write!(f, "{view} ranges t{table} {}{direction}", cuts.join(" "))
            }
            Self::Scan(slot, view, span) => write!(f, "scan{slot} open {view} {span}"),
            Self::Next(slot, count) => write!(f, "scan{slot} next {count}"),
            Self::Flush(table) => write!(f, "flush t{table}"),
            Self::Compact(table) => write!(f, "compact t{table}"),
            Self::CompactLevel(table, level) => write!(f, "compact t{table} level {level}"),
            Self::Hold(table, true) => write!(f, "hold t{table}"),
            Self::Hold(table, false) => write!(f, "release t{table}"),
            Self::WaitIdle(table) => write!(f, "wait t{table} idle"),
            Self::Load(table, pairs) => {
                let pairs = pairs.iter().map(|(key, value)| format!("{} = {}", show_bytes(key), show(Some(value))));
                write!(f, "load t{table} {{{}}}", pairs.collect::<Vec<_>>().join("; "))
            }
            Self::LoadBelow(table, pairs, changes) => {
                let pairs = pairs.iter().map(|(key, value)| format!("{} = {}", show_bytes(key), show(Some(value))));
                let pairs = pairs.collect::<Vec<_>>().join("; ");
                let changes = changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                write!(f, "recreate t{table}, load {{{pairs}}} below {{{changes}}}")
            }
            Self::Recreate(table) => write!(f, "recreate t{table}"),
            Self::RecreateAll => write!(f, "recreate all tables"),
            Self::Sync => f.write_str("sync"),
            Self::Verify => f.write_str("verify"),
            Self::Checkpoint => f.write_str("checkpoint"),
            Self::Reopen(leave) => write!(f, "reopen after {leave:?}"),
        }
    }
}
