//! A commit's record in the redo log: any payload is refused, or a list of changes that could have been made.

use spinney::base::{SeqNum, TableId};
use spinney::txn::batch::{Changes, Record, put_record_header};
use spinney::{Change, Kind};

pub(super) fn run(input: &[u8]) -> bool {
    read(input)
}

/// Decodes a payload and encodes it again.
pub(super) fn read(payload: &[u8]) -> bool {
    let Ok(record) = Record::decode(payload) else { return false };
    let (first, count) = (record.first, record.count);
    let (mut changes, mut seen) = (Changes::default(), Vec::new());
    let read = record.for_each(
        || (),
        |seqnum, change| {
            assert_eq!(seqnum.0, first.0 + changes.count(), "seqnums have no gaps");
            changes.push(change, true).expect("what was read can be written");
            assert_eq!(change.entry(seqnum).is_none(), change.range().is_some());
            seen.push(change);
            Ok(())
        },
    );
    if read.is_err() {
        return false;
    }
    assert_eq!(changes.count(), count);
    assert!(changes.iter().eq(seen.iter().copied()), "changes come back");
    let mut again = Vec::new();
    put_record_header(&mut again, first, count);
    again.extend_from_slice(changes.logged());
    // Numbers may have been written longer than they need be.
    assert!(again.len() <= payload.len());
    true
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let of = |first: u64, list: &[(u32, Kind, &[u8], &[u8])]| {
        let mut changes = Changes::default();
        for (table, kind, key, value) in list {
            let change = Change::new(TableId(*table), *kind, key, value);
            changes.push(change, true).expect("a change that can be made");
        }
        let mut out = Vec::new();
        put_record_header(&mut out, SeqNum(first), changes.count());
        out.extend_from_slice(changes.logged());
        out
    };
    vec![
        of(0, &[]),
        of(1, &[(1, Kind::Put, b"key", b"value")]),
        of(
            1 << 40,
            &[(1, Kind::Delete, b"key", b""), (300, Kind::Merge, b"key", b"operand"), (2, Kind::Put, b"k", b"")],
        ),
        of(
            7,
            &[
                (1, Kind::RangeDelete, b"", b"high"),
                (1, Kind::RangeDelete, b"low", b""),
                (70_000, Kind::SingleDelete, b"one", b""),
            ],
        ),
        of(7, &[(1, Kind::Put, &[b'k'; 300][..], &[b'v'; 300][..]); 2]),
    ]
}
