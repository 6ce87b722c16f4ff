//! A cursor over entries in a vector: the plainest tree, for tests of what is built on cursors.

use std::cmp::Reverse;
use std::sync::Arc;

use proptest::prelude::*;

use super::cursor::{Cursor, KeyCursor, LazySeek, MergeSource, SeqnumBounds};
use super::leaf_cursor::KeyBound;
use super::operator::{MergeOperator, Operators, TableOperator};
use crate::base::key::head;
use crate::base::{Entry, Error, ErrorKind, Kind, Result, SeqNum, Value};

/// An entry with bytes of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedEntry {
    /// The user's key.
    pub key: Vec<u8>,
    /// When the version became visible.
    pub seqnum: SeqNum,
    /// What the version does.
    pub kind: Kind,
    /// The value; empty for tombstones.
    pub value: Vec<u8>,
}

impl OwnedEntry {
    /// A copy of `entry`.
    #[must_use]
    pub fn of(entry: Entry<'_>) -> Self {
        Self { key: entry.key.to_vec(), seqnum: entry.seqnum, kind: entry.kind, value: entry.value.to_vec() }
    }

    /// The entry as trees show it.
    #[must_use]
    pub fn entry(&self) -> Entry<'_> {
        Entry { key: &self.key, seqnum: self.seqnum, kind: self.kind, value: &self.value }
    }
}

/// A cursor over a vector of entries in stored order, which can be told to fail.
#[derive(Debug)]
pub struct VecCursor {
    entries: Vec<OwnedEntry>,
    at: Option<usize>,
    /// Moves that succeed before all others fail.
    moves_left: usize,
    seqnum_bounds: SeqnumBounds,
    /// The entry was sought lazily: it must not be read before [`LazySeek::resolve`].
    is_lazy: bool,
}

impl VecCursor {
    /// A cursor over `entries`, whose keys must ascend (versions of one key stay in the order given).
    ///
    /// # Panics
    /// When the keys do not ascend.
    #[must_use]
    pub fn new(entries: Vec<OwnedEntry>) -> Self {
        assert!(entries.is_sorted_by(|a, b| a.key <= b.key), "entries out of order");
        Self { entries, at: None, moves_left: usize::MAX, seqnum_bounds: SeqnumBounds::UNKNOWN, is_lazy: false }
    }

    /// The same cursor, failing from the move after the next `moves` on.
    #[must_use]
    pub fn failing_after(mut self, moves: usize) -> Self {
        self.moves_left = moves;
        self
    }

    /// The same cursor, over a tree of which the ages are known.
    #[must_use]
    pub const fn aged(mut self, seqnum_bounds: SeqnumBounds) -> Self {
        self.seqnum_bounds = seqnum_bounds;
        self
    }

    fn go(&mut self, to: Option<usize>) -> Result<()> {
        (self.at, self.is_lazy) = (None, false);
        let Some(left) = self.moves_left.checked_sub(1) else {
            return Err(Error::new(ErrorKind::Io, "the cursor was told to fail"));
        };
        self.moves_left = left;
        self.at = to.filter(|at| *at < self.entries.len());
        Ok(())
    }
}

impl Cursor for VecCursor {
    fn first(&mut self) -> Result<()> {
        self.go(Some(0))
    }

    fn last(&mut self) -> Result<()> {
        self.go(self.entries.len().checked_sub(1))
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.go(Some(self.entries.partition_point(|entry| *entry.key < *key)))
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.go(self.entries.partition_point(|entry| *entry.key < *key).checked_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        assert!(!self.is_lazy, "it did not arrive");
        self.go(self.at.map(|at| at + 1))
    }

    fn prev(&mut self) -> Result<()> {
        assert!(!self.is_lazy, "it did not arrive");
        self.go(self.at.and_then(|at| at.checked_sub(1)))
    }

    fn entry(&self) -> Option<Entry<'_>> {
        assert!(!self.is_lazy, "it did not arrive");
        self.at.map(|at| self.entries[at].entry())
    }

    fn value(&self) -> Option<Value> {
        self.entry().map(|entry| Value::owned(entry.value))
    }
}

impl KeyCursor for VecCursor {
    fn next_key_in_leaf(&mut self) -> bool {
        let Some(at) = self.at.filter(|_| self.moves_left > 0) else { return false };
        let more = self.entries.get(at + 1).is_some_and(|next| next.key != self.entries[at].key);
        if more {
            self.at = Some(at + 1);
        }
        more
    }

    fn is_first_version(&self) -> bool {
        self.at.is_some_and(|at| at > 0 && self.entries[at - 1].key != self.entries[at].key)
    }
}

impl LazySeek for VecCursor {
    fn lazy_seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.seek_ge(key)?;
        self.is_lazy = self.entry().is_some_and(|entry| entry.key != key);
        Ok(())
    }

    /// As if the first half of the key were the prefix of a leaf.
    fn lazy_key(&self) -> Option<KeyBound<'_>> {
        let key = &self.entries[self.at.filter(|_| self.is_lazy)?].key;
        let (prefix, rest) = key.split_at(key.len() / 2);
        let next = u32::try_from(head(rest) >> u32::BITS).expect("it has 32 bits");
        Some(KeyBound { prefix, next })
    }

    fn resolve(&mut self) -> Result<()> {
        self.is_lazy = false;
        Ok(())
    }
}

impl MergeSource for VecCursor {
    fn seqnum_bounds(&self) -> SeqnumBounds {
        self.seqnum_bounds
    }
}

/// Keys that are often equal, share heads, or lie at the ends of the order of heads.
pub fn keys() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(0xff)];
    prop_oneof![
        prop::collection::vec(byte.clone(), 1..3),
        (
            prop::sample::select(vec![b"eightlen".to_vec(), vec![0; 8], vec![0xff; 8]]),
            prop::collection::vec(byte, 0..2)
        )
            .prop_map(|(head, tail)| [head, tail].concat()),
    ]
}

/// A move of a cursor.
#[derive(Clone, Debug)]
pub enum Move {
    /// To the first entry.
    First,
    /// To the last one.
    Last,
    /// To the first that is not below a key.
    SeekGe(Vec<u8>),
    /// To the last below a key.
    SeekLt(Vec<u8>),
    /// To the one behind.
    Next,
    /// To the first of the next key.
    NextKey,
    /// To the one before.
    Prev,
}

/// Moves, most of them steps.
pub fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        1 => keys().prop_map(Move::SeekGe),
        1 => keys().prop_map(Move::SeekLt),
        8 => Just(Move::Next),
        4 => Just(Move::NextKey),
        8 => Just(Move::Prev),
    ];
    prop::collection::vec(one, 0..60)
}

/// Makes a move, and says over how many versions it went.
///
/// # Errors
/// As the move.
///
/// # Panics
/// When a move over versions of a key gives another key.
pub fn apply(cursor: &mut dyn MergeSource, step: &Move) -> Result<u64> {
    match step {
        Move::First => cursor.first(),
        Move::Last => cursor.last(),
        Move::SeekGe(key) => cursor.seek_ge(key),
        Move::SeekLt(key) => cursor.seek_lt(key),
        Move::Next => cursor.next(),
        Move::NextKey => {
            let (here, mut key) = (cursor.key().map(Vec::from), Vec::new());
            let older = cursor.next_key(&mut key)?;
            assert!(older == 0 || here == Some(key), "it went over versions of another key");
            return Ok(older);
        }
        Move::Prev => cursor.prev(),
    }?;
    Ok(0)
}

/// Entries of one tree in stored order: keys ascending, seqnums (up to 20) of one key descending and different.
pub fn trees() -> impl Strategy<Value = Vec<OwnedEntry>> {
    let kind = prop_oneof![3 => Just(Kind::Put), 1 => Just(Kind::Delete), 3 => Just(Kind::Merge)];
    let versions = prop::collection::btree_map((keys(), (0..=20u64).prop_map(Reverse)), (kind, 0..100u8), 0..12);
    versions.prop_map(|versions| {
        let entries = versions.into_iter().map(|((key, Reverse(seqnum)), (kind, value))| {
            let value = if kind.has_value() { vec![value] } else { Vec::new() };
            OwnedEntry { key, seqnum: SeqNum(seqnum), kind, value }
        });
        entries.collect()
    })
}

/// A merge operator that appends operands to the value, and fails over what has the byte 99 in it.
#[derive(Debug)]
pub struct Append {
    /// Whether it can make one operand of several.
    pub partial: bool,
}

impl Append {
    /// The operator as a table has it.
    #[must_use]
    pub fn of_table(self) -> TableOperator {
        let append: Arc<dyn MergeOperator> = Arc::new(self);
        TableOperator::find(Some("append"), &Operators::from([("append".to_owned(), append)]))
    }
}

impl MergeOperator for Append {
    fn full(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let value = [base.unwrap_or_default(), &operands.concat()].concat();
        if operands.concat().contains(&99) { Err(Error::invalid("99 cannot be appended")) } else { Ok(value) }
    }

    fn partial(&self, _key: &[u8], operands: &[&[u8]]) -> Result<Option<Vec<u8>>> {
        Ok(self.partial.then(|| operands.concat()))
    }
}

/// What `versions` of a key, newest first, make of it, or `None` when the operator fails over them.
#[must_use]
pub fn folded<'a>(versions: impl Iterator<Item = &'a OwnedEntry>) -> Option<Option<Vec<u8>>> {
    let mut operands: Vec<&[u8]> = Vec::new();
    let mut base = None;
    for version in versions {
        match version.kind {
            Kind::Merge => operands.push(&version.value),
            Kind::Put | Kind::PutPointer => base = Some(version.value.clone()),
            Kind::Delete | Kind::SingleDelete | Kind::RangeDelete => {}
        }
        if version.kind != Kind::Merge {
            break;
        }
    }
    if operands.is_empty() {
        return Some(base);
    }
    operands.reverse();
    Append { partial: false }.full(b"", base.as_deref(), &operands).ok().map(Some)
}
