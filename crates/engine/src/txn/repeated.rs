//! What a commit has in common with a record that the note of an earlier commit holds.

use std::ops::Range;

use crate::base::Kind;
use crate::base::codec::{Decoder, Malformed};
use crate::base::num::u64_of;
use crate::log::CopyRange;

/// A shorter part is written again: to tell where it is takes as much.
const COPY_BYTES_MIN: usize = 8;

/// Where an encoded change lies.
struct Span {
    all: Range<usize>,
    /// Where the id of its table ends.
    table_end: usize,
}

/// The parts of `body`, encoded changes up to `changes_end` and then a note with its length, that `record` has too, in
/// the order of both. Changes are compared in their order. They may be of tables that have other ids in the record, and
/// others may follow; the note may begin and end otherwise. None when the record makes no sense.
pub(super) fn repeated(body: &[u8], changes_end: usize, record: &[u8]) -> Vec<CopyRange> {
    find(body, changes_end, record).unwrap_or_default()
}

fn find(body: &[u8], changes_end: usize, record: &[u8]) -> Result<Vec<CopyRange>, Malformed> {
    let mut theirs = Decoder::new(record);
    theirs.varint()?;
    let mut left = theirs.varint()?.min(u64_of(record.len()));
    let mut own = Decoder::new(&body[..changes_end]);
    let mut copies = Copies::default();
    while left > 0 {
        let their = span(record, &mut theirs)?;
        left -= 1;
        if own.is_empty() {
            continue;
        }
        let own = span(&body[..changes_end], &mut own)?;
        if body[own.table_end..own.all.end] == record[their.table_end..their.all.end] {
            if body[own.all.start..own.table_end] == record[their.all.start..their.table_end] {
                copies.add(own.all, their.all.start);
            } else {
                copies.add(own.table_end..own.all.end, their.table_end);
            }
        }
    }
    if !theirs.is_empty() && changes_end < body.len() {
        let (their, own) = (theirs.len_prefixed()?, Decoder::new(&body[changes_end..]).len_prefixed()?);
        let first = their.iter().zip(own).take_while(|(their, own)| their != own).count();
        let same = their.iter().zip(own).skip(first).take_while(|(their, own)| their == own).count();
        let at = body.len() - own.len() + first;
        copies.add(at..at + same, record.len() - their.len() + first);
    }
    Ok(copies.finish())
}

/// Reads a change from `changes`, the rest of `bytes`.
fn span(bytes: &[u8], changes: &mut Decoder<'_>) -> Result<Span, Malformed> {
    let position = |rest: &Decoder<'_>| bytes.len() - rest.rest().len();
    let start = position(changes);
    changes.varint()?;
    let table_end = position(changes);
    let kind = Kind::of_change(changes.u8()?).ok_or(Malformed)?;
    changes.len_prefixed()?;
    if kind.has_operand() {
        changes.len_prefixed()?;
    }
    Ok(Span { all: start..position(changes), table_end })
}

/// Copies that are collected.
#[derive(Default)]
struct Copies {
    copies: Vec<CopyRange>,
}

impl Copies {
    /// Adds a part that begins at `from` of the record.
    fn add(&mut self, part: Range<usize>, from: usize) {
        match self.copies.last_mut() {
            Some(last) if last.at + last.len == part.start && last.from + last.len == from => last.len += part.len(),
            _ => self.copies.push(CopyRange { at: part.start, from, len: part.len() }),
        }
    }

    fn finish(mut self) -> Vec<CopyRange> {
        self.copies.retain(|copy| copy.len >= COPY_BYTES_MIN);
        self.copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Lsn, TableId};
    use crate::txn::batch::{Change, Changes};

    fn changes(list: &[(u32, Kind, &[u8], &[u8])], note: &[u8]) -> Changes {
        let mut changes = Changes::default();
        for (table, kind, key, value) in list {
            changes.push(Change::new(TableId(*table), *kind, key, value), true).unwrap();
        }
        changes.set_note(note).unwrap();
        changes
    }

    /// What is left to write of a batch that repeats a record, and the copies.
    fn literals(batch: &mut Changes, record: &[u8]) -> (Vec<u8>, usize) {
        batch.repeat(Lsn(7), 1000, record);
        let (mut left, mut at, body) = (Vec::new(), 0, batch.logged().to_vec());
        let copies = batch.base().map_or_else(Vec::new, |base| base.copies.clone());
        for copy in &copies {
            left.extend_from_slice(&body[at..copy.at]);
            at = copy.at + copy.len;
            assert_eq!(body[copy.at..at], record[copy.from - 1000..][..copy.len]);
        }
        left.extend_from_slice(&body[at..]);
        (left, copies.len())
    }

    const VALUE: &[u8] = b"a value that is long enough";

    #[test]
    fn equal_changes_are_one_part_and_others_follow_them() {
        let list: [(u32, Kind, &[u8], &[u8]); 3] = [
            (1, Kind::Put, b"first", VALUE),
            (300, Kind::Delete, b"second", b""),
            (1, Kind::RangeDelete, b"third", b"to the fourth"),
        ];
        let record = changes(&list, b"note").record();
        let mut batch = changes(&list, b"");
        assert_eq!(literals(&mut batch, &record), (Vec::new(), 1));
        batch.push(Change::new(TableId(2), Kind::Put, b"how far", b"7"), true).unwrap();
        assert!(batch.base().is_none(), "a change forgets what was found");
        assert_eq!(literals(&mut batch, &record), (b"\x02\x01\x07how far\x017".to_vec(), 1));
    }

    #[test]
    fn ids_of_tables_may_differ_and_changed_rows_are_written() {
        let of = |table, value| changes(&[(table, Kind::Put, b"key", value), (9, Kind::Put, b"next", VALUE)], b"");
        let record = of(5, VALUE).record();
        assert_eq!(literals(&mut of(5, VALUE), &record), (b"".to_vec(), 1));
        assert_eq!(literals(&mut of(300, VALUE), &record), (b"\xac\x02".to_vec(), 1));
        let (left, copies) = literals(&mut of(5, b"another value"), &record);
        assert_eq!((left, copies), (b"\x05\x01\x03key\x0danother value".to_vec(), 1));
    }

    #[test]
    fn a_note_may_begin_and_end_otherwise() {
        let record = changes(&[], b"\x01the middle of the note").record();
        let mut batch = changes(&[], b"\x11the middle of the note, position");
        assert_eq!(literals(&mut batch, &record), (b"\x21\x11, position".to_vec(), 1));
    }

    #[test]
    fn what_is_no_record_is_not_repeated() {
        let mut batch = changes(&[(1, Kind::Put, b"key", VALUE)], b"a note that is long enough");
        let record = batch.record();
        let note_at = record.len() - 1 - batch.note().len();
        for len in 0..record.len() {
            assert_eq!(literals(&mut batch, &record[..len]).1, usize::from(len == note_at), "{len}");
        }
        assert_eq!(literals(&mut batch, &[0xff; 40]).1, 0);
        assert_eq!(literals(&mut changes(&[], b"only a note"), &record).1, 0);
        assert_eq!(literals(&mut changes(&[(1, Kind::Put, b"k", b"v")], b""), b"\x00\x00").1, 0);
    }
}
