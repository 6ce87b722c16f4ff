//! A batch: changes of any number of tables that are applied together, in the form in which they go to the redo log.
//!
//! Changes of logged tables and of unlogged ones are stored separately, so that the former go to the log unchanged. A
//! commit gives its seqnums to the logged ones first: the seqnums of a log record have no gaps, and those after it
//! belong to what is not in the log. The order between two tables means nothing within a commit; the order of the
//! changes of one table is kept.
//!
//! # Format
//! A commit's log record (numbers are varints):
//!
//! | field | |
//! |---|---|
//! | first seqnum | the first change has it, each later one the next |
//! | number of changes | of logged tables; there are no others here |
//! | changes | table id, kind (1 byte), key with length; of a put or merge the value with length |
//! | note | with length, if there is one: bytes of the program, which are part of no table |
//!
//! A commit may have a note and no changes; it has a seqnum too.
//!
//! A range tombstone has the first key of its range with length, and the key behind its last with length. Either may be
//! empty: the range then begins at the first, or ends at the last, of all keys.

use std::ops::Range;
use std::sync::Arc;

use crate::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};
use crate::base::key::{KEY_BYTES_MAX, check_key, check_value};
use crate::base::num::u64_of;
use crate::base::value::ByteSource;
use crate::base::{Entry, Error, ErrorKind, Kind, Lsn, Result, SeqNum, TableId};
use crate::log::Base;
use crate::tree::Limits;
use crate::tree::memtable::EntryOffset;

use super::commit_clock::{CommitClock, CommitTime};
use super::repeated::repeated;

/// The longest note in bytes.
pub const NOTE_BYTES_MAX: usize = 64 << 20;

/// Encoded changes, and how many they are.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Behind its changes, the note with its length.
    logged: Section,
    unlogged: Section,
    erases: bool,
    /// The program says that what it does then gives space back.
    makes_room: bool,
    /// The program says that they cannot be split: they may be larger than memory allows.
    exceeds_memory: bool,
    /// Bytes of the note with its length; 0 without one.
    note_bytes: usize,
    /// What an earlier payload of the log has of the encoded changes of logged tables and the note.
    base: Option<Base>,
    stamp: Option<Stamp>,
}

/// The time that a commit gets with its place in the log.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// Who gives it.
    pub clock: Arc<CommitClock>,
    /// Which one.
    pub time: CommitTime,
    /// Where the note has it, in [`STAMP_BYTES`] bytes, when it is the next one.
    at: usize,
}

/// The bytes of a time in a note, little-endian.
pub const STAMP_BYTES: usize = 8;

/// The changes of tables of one kind.
#[derive(Clone, Debug, Default)]
struct Section {
    bytes: Vec<u8>,
    count: u64,
}

/// One change of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change<'a> {
    /// Whose key.
    pub table: TableId,
    /// What becomes of the key.
    pub kind: Kind,
    /// The key. Of a range tombstone the first one of the range; empty when that begins before all keys.
    pub key: &'a [u8],
    /// The value of a put, the operand of a merge, the key behind the last one of a range tombstone or nothing when
    /// that goes on to the last key; empty for a delete.
    pub value: &'a [u8],
}

impl<'a> Change<'a> {
    /// A change.
    #[must_use]
    pub const fn new(table: TableId, kind: Kind, key: &'a [u8], value: &'a [u8]) -> Self {
        Self { table, kind, key, value }
    }

    /// The entry that the change makes in its table, with a seqnum; none when it is a range tombstone.
    #[inline]
    #[must_use]
    pub fn entry(&self, seqnum: SeqNum) -> Option<Entry<'a>> {
        let Self { kind, key, value, .. } = *self;
        (kind != Kind::RangeDelete).then_some(Entry { key, seqnum, kind, value })
    }

    /// The first of the keys that the change erases, and the one behind the last if there is any; none when it is of
    /// one key.
    #[inline]
    #[must_use]
    pub fn ends(&self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let Self { kind, key, value, .. } = *self;
        (kind == Kind::RangeDelete).then(|| (key, Some(value).filter(|high| !high.is_empty())))
    }

    /// The keys that the change erases; none when it is of one key.
    #[must_use]
    pub fn range(&self) -> Option<Limits> {
        let (low, high) = self.ends()?;
        Some(Limits::new(low.to_vec(), high.map(<[u8]>::to_vec), None))
    }

    /// Whether it can be stored.
    fn check(&self) -> Result<()> {
        if self.kind != Kind::RangeDelete {
            check_key(self.key)?;
            return check_value(self.value);
        }
        if !self.value.is_empty() && self.value <= self.key {
            return Err(Error::invalid("a range that is erased begins before it ends"));
        }
        check_ends(self.key, self.value)
    }
}

/// Checks that the ends of a range have lengths that can be stored.
///
/// # Errors
/// `Invalid` when one of them is longer than what can follow a key.
pub fn check_range(range: &Limits) -> Result<()> {
    check_ends(&range.low, range.high.as_deref().unwrap_or_default())
}

fn check_ends(low: &[u8], high: &[u8]) -> Result<()> {
    // What follows the longest key is a byte longer.
    if low.len().max(high.len()) > KEY_BYTES_MAX + 1 {
        let message = format!("the end of a range is longer than any key: a key has up to {KEY_BYTES_MAX} bytes");
        return Err(Error::invalid(message));
    }
    Ok(())
}

impl Changes {
    /// No changes yet, with memory for some bytes of those of logged tables.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { logged: Section { bytes: Vec::with_capacity(bytes), count: 0 }, ..Self::default() }
    }

    /// Adds a change of a table that is `logged` or not.
    ///
    /// # Errors
    /// `Invalid` for a key or value of a length that cannot be stored; the batch is unchanged then.
    pub fn push(&mut self, change: Change<'_>, logged: bool) -> Result<()> {
        change.check()?;
        self.erases |= change.kind == Kind::RangeDelete;
        self.base = None;
        match (logged, self.note_bytes) {
            (false, _) => self.unlogged.push(change),
            (true, 0) => self.logged.push(change),
            (true, _) => {
                let note = self.logged.bytes.split_off(self.changes_end());
                self.logged.push(change);
                self.logged.bytes.extend_from_slice(&note);
            }
        }
        Ok(())
    }

    /// Sets the note that the redo log carries with the changes; an empty one is none.
    ///
    /// # Errors
    /// `Invalid` when it is longer than [`NOTE_BYTES_MAX`]; the one before stays then.
    pub fn set_note(&mut self, note: &[u8]) -> Result<()> {
        if note.len() > NOTE_BYTES_MAX {
            return Err(Error::invalid(format!("a note has up to {NOTE_BYTES_MAX} bytes, not {}", note.len())));
        }
        (self.base, self.stamp) = (None, None);
        let end = self.changes_end();
        self.logged.bytes.truncate(end);
        if !note.is_empty() {
            put_len_prefixed(&mut self.logged.bytes, note);
        }
        self.note_bytes = self.logged.bytes.len() - end;
        Ok(())
    }

    /// Has the commit stamped by a clock, which writes the next time into the note at an offset when the commit has its
    /// place in the log. A later note forgets it.
    ///
    /// # Errors
    /// `Invalid` when the note has no [`STAMP_BYTES`] bytes there.
    pub fn stamp_next(&mut self, clock: &Arc<CommitClock>, at: usize) -> Result<()> {
        if self.note().len().checked_sub(STAMP_BYTES).is_none_or(|last| at > last) {
            return Err(Error::invalid("the time of a commit lies beyond its note"));
        }
        self.base = None;
        self.stamp = Some(Stamp { clock: Arc::clone(clock), time: CommitTime::Next, at });
        Ok(())
    }

    /// Has a clock hear of the commit's time, which was given elsewhere, when the commit has its place in the log.
    pub fn stamp_given(&mut self, clock: &Arc<CommitClock>, time: u64) {
        self.stamp = Some(Stamp { clock: Arc::clone(clock), time: CommitTime::Given(time), at: 0 });
    }

    /// How the commit is stamped, if it is.
    #[must_use]
    pub const fn stamp(&self) -> Option<&Stamp> {
        self.stamp.as_ref()
    }

    /// Where [`Self::logged`] has the time that the commit gets with its place, if it has one.
    #[must_use]
    pub fn stamp_at(&self) -> Option<usize> {
        let stamp = self.stamp.as_ref().filter(|stamp| stamp.time == CommitTime::Next)?;
        Some(self.logged.bytes.len() - self.note().len() + stamp.at)
    }

    /// The note; empty when there is none.
    #[must_use]
    pub fn note(&self) -> &[u8] {
        let mut encoded = Decoder::new(&self.logged.bytes[self.changes_end()..]);
        // Nothing is there without a note.
        encoded.len_prefixed().unwrap_or_default()
    }

    /// Whether there is a note.
    #[must_use]
    pub const fn has_note(&self) -> bool {
        self.note_bytes > 0
    }

    /// How many of them are not of logged tables.
    #[must_use]
    pub const fn unlogged_count(&self) -> u64 {
        self.unlogged.count
    }

    /// Whether the redo log has a record of them: of changes of logged tables, or of a note alone.
    #[must_use]
    pub const fn is_logged(&self) -> bool {
        self.logged.count > 0 || self.note_bytes > 0
    }

    /// How many seqnums their commit takes: a note alone has one too, so that it has its place among the commits.
    #[must_use]
    pub const fn seqnums(&self) -> u64 {
        if self.count() == 0 { 1 } else { self.count() }
    }

    /// The record of a commit whose seqnums are not known yet: that of the first is 0.
    #[must_use]
    pub fn record(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(self.logged.bytes.len() + 16);
        put_record_header(&mut record, SeqNum(0), self.logged.count);
        record.extend_from_slice(&self.logged.bytes);
        record
    }

    /// Finds what a record has of the changes and of the note. The record stands at `offset` of the payload that was
    /// appended when the log ended at `position`. What is changed afterwards forgets it.
    pub fn repeat(&mut self, position: Lsn, offset: usize, record: &[u8]) {
        let mut copies = repeated(&self.logged.bytes, self.changes_end(), record);
        copies.iter_mut().for_each(|copy| copy.from += offset);
        self.base = (!copies.is_empty()).then_some(Base { position, copies });
    }

    /// What an earlier payload has of [`Self::logged`].
    #[must_use]
    pub const fn base(&self) -> Option<&Base> {
        self.base.as_ref()
    }

    /// Where the encoded changes of logged tables end.
    const fn changes_end(&self) -> usize {
        self.logged.bytes.len() - self.note_bytes
    }

    /// How many changes there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.logged.count + self.unlogged.count
    }

    /// How many of them are of logged tables.
    #[must_use]
    pub const fn logged_count(&self) -> u64 {
        self.logged.count
    }

    /// Whether there are range tombstones among them.
    #[inline]
    #[must_use]
    pub const fn has_range_deletes(&self) -> bool {
        self.erases
    }

    /// Has them count as changes that make room on the disk.
    pub const fn set_makes_room(&mut self) {
        self.makes_room = true;
    }

    /// Whether they make room on the disk: the program says so, or nothing is put or merged by them.
    #[must_use]
    pub fn makes_room(&self) -> bool {
        self.makes_room || self.iter().all(|change| change.kind == Kind::RangeDelete || change.kind.is_tombstone())
    }

    /// Lets them be larger than memory allows.
    pub const fn set_exceeds_memory(&mut self) {
        self.exceeds_memory = true;
    }

    /// Whether they may be larger than memory allows.
    #[must_use]
    pub const fn exceeds_memory(&self) -> bool {
        self.exceeds_memory
    }

    /// Bytes that they take in memtables: those of the encoded changes, without the note.
    #[must_use]
    pub const fn memtable_bytes(&self) -> usize {
        self.bytes() - self.note_bytes
    }

    /// Bytes of the encoded changes and the note.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.logged.bytes.len() + self.unlogged.bytes.len()
    }

    /// The encoded changes of logged tables, and the note.
    #[must_use]
    pub fn logged(&self) -> &[u8] {
        &self.logged.bytes
    }

    /// Where the changes of single keys lie in [`ByteSource::bytes`], each with its table.
    pub fn entry_offsets(&self) -> impl Iterator<Item = (TableId, EntryOffset)> + '_ {
        let of_keys = (0..).zip(self.iter()).filter(|(_, change)| change.kind != Kind::RangeDelete);
        of_keys.map(|(number, Change { table, kind, key, value })| {
            (table, EntryOffset { number, kind, key: self.place_of(key), value: self.place_of(value) })
        })
    }

    /// Where a part of the encoded changes lies.
    fn place_of(&self, part: &[u8]) -> Range<usize> {
        let from = |section: &Section| part.as_ptr().addr().wrapping_sub(section.bytes.as_ptr().addr());
        let at = match from(&self.logged) {
            at if at < self.logged.bytes.len() => at,
            _ => self.logged.bytes.len().wrapping_add(from(&self.unlogged)),
        };
        if part.is_empty() { 0..0 } else { at..at + part.len() }
    }

    /// Removes all changes and keeps the memory.
    pub fn clear(&mut self) {
        self.logged.clear();
        self.unlogged.clear();
        (self.erases, self.makes_room, self.exceeds_memory, self.note_bytes) = (false, false, false, 0);
        (self.base, self.stamp) = (None, None);
    }

    /// The changes in the order of their seqnums: those of logged tables first, each kind in the order in which it was
    /// pushed.
    ///
    /// # Panics
    /// Never: the bytes are what [`Self::push`] encoded.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let logged = &self.logged.bytes[..self.changes_end()];
        let (mut changes, mut more) = (Decoder::new(logged), Decoder::new(&self.unlogged.bytes));
        std::iter::from_fn(move || {
            if changes.is_empty() {
                std::mem::swap(&mut changes, &mut more);
            }
            (!changes.is_empty()).then(|| decode_change(&mut changes).expect("a batch holds what push encoded"))
        })
    }
}

impl ByteSource for Changes {
    /// Of the encoded changes: of those of logged tables, and then of the others.
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        match at.checked_sub(self.logged.bytes.len()) {
            None => &self.logged.bytes[at..at + len],
            Some(at) => &self.unlogged.bytes[at..at + len],
        }
    }
}

impl Section {
    fn push(&mut self, change: Change<'_>) {
        // At most the table id, the kind and two lengths come on top.
        self.bytes.reserve(change.key.len() + change.value.len() + 16);
        put_varint(&mut self.bytes, u64::from(change.table.0));
        self.bytes.push(change.kind as u8);
        put_len_prefixed(&mut self.bytes, change.key);
        if change.kind.has_operand() {
            put_len_prefixed(&mut self.bytes, change.value);
        }
        self.count += 1;
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }
}

/// Writes the front of a commit's log record; the encoded changes follow.
pub fn put_record_header(out: &mut Vec<u8>, first: SeqNum, count: u64) {
    put_varint(out, first.0);
    put_varint(out, count);
}

/// A commit's log record, decoded change by change.
#[derive(Debug)]
pub struct Record<'a> {
    /// The seqnum of the first change.
    pub first: SeqNum,
    /// How many changes.
    pub count: u64,
    changes: Decoder<'a>,
}

impl<'a> Record<'a> {
    /// Reads the front of a record.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not such.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut changes = Decoder::new(payload);
        let first = SeqNum(changes.varint()?);
        let count = changes.varint()?;
        if count > u64_of(payload.len()) || first.0.checked_add(count.max(1)).is_none_or(|end| end > SeqNum::MAX.0) {
            return Err(Malformed);
        }
        Ok(Self { first, count, changes })
    }

    /// The seqnum behind the last that its commit took, of those in the log.
    #[must_use]
    pub const fn next(&self) -> SeqNum {
        SeqNum(self.first.0 + if self.count == 0 { 1 } else { self.count })
    }

    /// Calls `visit` with each change and its seqnum; gives the note, which is empty when there is none.
    ///
    /// # Errors
    /// What `visit` says; `malformed()` when the bytes are not changes, or are more or fewer than the count says.
    pub fn for_each<E>(
        mut self,
        malformed: impl Fn() -> E,
        mut visit: impl FnMut(SeqNum, Change<'a>) -> Result<(), E>,
    ) -> Result<&'a [u8], E> {
        for index in 0..self.count {
            let change = decode_change(&mut self.changes).map_err(|_| malformed())?;
            visit(SeqNum(self.first.0 + index), change)?;
        }
        if self.changes.is_empty() {
            return Ok(&[]);
        }
        let note = self.changes.len_prefixed().map_err(|_| malformed())?;
        if self.changes.is_empty() && !note.is_empty() { Ok(note) } else { Err(malformed()) }
    }
}

/// The changes and the note of a record, as [`Prepared::record`](crate::Prepared::record) gives it. The bytes may come
/// from anywhere.
///
/// # Errors
/// `Corruption` for bytes that are no record.
pub fn decode_record(record: &[u8]) -> Result<(Vec<Change<'_>>, &[u8])> {
    let malformed = || Error::new(ErrorKind::Corruption, "the bytes are no record of changes");
    let (decoded, mut changes) = (Record::decode(record).map_err(|_| malformed())?, Vec::new());
    let note = decoded.for_each(malformed, |_, change| {
        changes.push(change);
        Ok(())
    })?;
    Ok((changes, note))
}

#[inline]
fn decode_change<'a>(decoder: &mut Decoder<'a>) -> Result<Change<'a>, Malformed> {
    let table = TableId(u32::try_from(decoder.varint()?).map_err(|_| Malformed)?);
    let kind = Kind::of_change(decoder.u8()?).ok_or(Malformed)?;
    let key = decoder.len_prefixed()?;
    let value = if kind.has_operand() { decoder.len_prefixed()? } else { &[] };
    let change = Change { table, kind, key, value };
    change.check().map_err(|_| Malformed)?;
    Ok(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_decodes_to_the_changes_of_its_batch() {
        let put = Change { table: TableId(1), kind: Kind::Put, key: b"k", value: b"v" };
        let delete = Change { table: TableId(300), kind: Kind::Delete, key: b"gone", value: b"" };
        let mut changes = Changes::default();
        changes.push(put, true).unwrap();
        changes.push(delete, true).unwrap();
        assert!(!changes.has_range_deletes());
        let erase = Change { table: TableId(1), kind: Kind::RangeDelete, key: b"a", value: b"" };
        changes.push(erase, true).unwrap();
        assert!(changes.has_range_deletes());
        let mut payload = Vec::new();
        put_record_header(&mut payload, SeqNum(9), changes.logged_count());
        payload.extend_from_slice(changes.logged());
        let mut seen = Vec::new();
        let visit = |seqnum, change| {
            seen.push((seqnum, change));
            Ok(())
        };
        Record::decode(&payload).unwrap().for_each(|| (), visit).unwrap();
        assert_eq!(seen, [(SeqNum(9), put), (SeqNum(10), delete), (SeqNum(11), erase)]);
        assert_eq!(changes.iter().collect::<Vec<_>>(), [put, delete, erase]);
        for cut in 0..payload.len() {
            let whole = Record::decode(&payload[..cut]).map(|record| record.for_each(|| (), |_, _| Ok(())));
            assert!(!matches!(whole, Ok(Ok(_))), "a record cut at {cut} must not pass");
        }
    }

    #[test]
    fn a_note_comes_out_of_the_record_behind_its_changes_whenever_it_was_set() {
        let put = |key| Change { table: TableId(1), kind: Kind::Put, key, value: b"v" };
        let mut changes = Changes::default();
        changes.push(put(b"a"), true).unwrap();
        assert_eq!(changes.note(), b"");
        changes.set_note(b"first").unwrap();
        assert_eq!(changes.note(), b"first");
        changes.push(put(b"b"), true).unwrap();
        changes.push(put(b"c"), false).unwrap();
        changes.set_note(b"second, and longer").unwrap();
        assert!(changes.set_note(&vec![0; NOTE_BYTES_MAX + 1]).is_err());
        changes.push(put(b"d"), true).unwrap();
        let decode = |changes: &Changes| {
            let mut payload = Vec::new();
            put_record_header(&mut payload, SeqNum(1), changes.logged_count());
            payload.extend_from_slice(changes.logged());
            let mut keys = Vec::new();
            let mut visit = |_, change: Change<'_>| {
                keys.push(change.key[0]);
                Ok(())
            };
            let note = Record::decode(&payload).unwrap().for_each(|| (), &mut visit).unwrap().to_vec();
            (keys, note)
        };
        assert_eq!(decode(&changes), (b"abd".to_vec(), b"second, and longer".to_vec()));
        let offsets: Vec<_> = changes.entry_offsets().map(|(_, offset)| offset.key).collect();
        let keys: Vec<_> =
            offsets.into_iter().map(|key| ByteSource::bytes(&changes, key.start, key.len())[0]).collect();
        assert_eq!(keys, b"abdc");
        changes.set_note(b"").unwrap();
        assert!(!changes.has_note() && decode(&changes).1.is_empty());
        changes.clear();
        assert_eq!(changes.logged(), b"");
    }

    #[test]
    fn a_record_of_what_only_compactions_write_is_malformed() {
        let mut changes = Changes::default();
        changes.push(Change { table: TableId(1), kind: Kind::PutPointer, key: b"k", value: &[0; 24] }, true).unwrap();
        let mut payload = Vec::new();
        put_record_header(&mut payload, SeqNum(9), 1);
        payload.extend_from_slice(changes.logged());
        assert_eq!(Record::decode(&payload).unwrap().for_each(|| (), |_, _| Ok(())), Err(()));
    }

    #[test]
    fn a_bad_key_leaves_the_batch_as_it_was() {
        let mut changes = Changes::default();
        let bad = Change { table: TableId(1), kind: Kind::Put, key: b"", value: b"v" };
        assert!(changes.push(bad, true).is_err() && changes.push(bad, false).is_err());
        let empty = Change { table: TableId(1), kind: Kind::RangeDelete, key: b"b", value: b"b" };
        assert!(changes.push(empty, true).is_err() && !changes.has_range_deletes());
        assert_eq!((changes.bytes(), changes.count()), (0, 0));
    }

    #[test]
    fn changes_of_unlogged_tables_stand_behind_the_others_and_not_in_the_record() {
        let change = |table, key| Change { table: TableId(table), kind: Kind::Put, key, value: b"v" };
        let (mut changes, mut logged_only) = (Changes::default(), Changes::default());
        for (table, key) in [(7, b"a"), (1, b"b"), (7, b"c"), (2, b"d")] {
            changes.push(change(table, key), table != 7).unwrap();
            if table != 7 {
                logged_only.push(change(table, key), true).unwrap();
            }
        }
        assert_eq!((changes.count(), changes.logged_count()), (4, 2));
        assert_eq!(changes.logged(), logged_only.logged());
        let order: Vec<_> = changes.iter().map(|change| change.key).collect();
        assert_eq!(order, [b"b", b"d", b"a", b"c"]);
        changes.clear();
        assert_eq!((changes.bytes(), changes.count(), changes.iter().count()), (0, 0, 0));
    }
}
