//! YCSB's records: keys, and values of ten fields.

use crate::random::{Random, fnv_hash64};
use std::io::Write as _;

/// Fields of a record.
pub(super) const FIELDS: usize = 10;
/// Bytes of a field.
pub(super) const FIELD_BYTES: usize = 100;
/// Bytes of a record without its key.
pub(super) const RECORD_BYTES: usize = FIELDS * FIELD_BYTES;

/// Puts the key of a record into `key`: `user` and the hash of its number, so that neighbours in number lie far apart.
pub(super) fn write_key(number: u64, key: &mut Vec<u8>) {
    key.clear();
    write!(key, "user{}", fnv_hash64(number)).expect("a vector takes all bytes");
}

/// Puts the fields with which a record is inserted into `record`; they depend on nothing but the seed and the record's
/// number.
pub(super) fn write_record(seed: u64, number: u64, record: &mut Vec<u8>) {
    record.resize(RECORD_BYTES, 0);
    fill(&mut Random::of(seed, number), record);
}

/// Gives one field of a record another value.
pub(super) fn write_field(field: usize, random: &mut Random, record: &mut Vec<u8>) {
    record.resize(RECORD_BYTES, 0);
    fill(random, &mut record[field * FIELD_BYTES..][..FIELD_BYTES]);
}

/// Printable characters with six random bits each, as YCSB's.
fn fill(random: &mut Random, bytes: &mut [u8]) {
    random.fill(bytes);
    bytes.iter_mut().for_each(|byte| *byte = b' ' + (*byte & 0x3f));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_hash_of_its_number() {
        let mut key = b"before".to_vec();
        write_key(0, &mut key);
        assert_eq!(key, b"user6284781860667377211");
    }

    #[test]
    fn an_update_changes_one_field() {
        let (mut record, mut again) = (Vec::new(), b"short".to_vec());
        write_record(1, 7, &mut record);
        write_record(1, 7, &mut again);
        assert!(record == again && record.len() == 1_000);
        assert!(record.iter().all(|byte| (b' '..b' ' + 64).contains(byte)));
        write_field(3, &mut Random::new(5), &mut again);
        let changed: Vec<usize> = (0..RECORD_BYTES).filter(|&at| record[at] != again[at]).collect();
        assert!(changed.len() > 80 && changed.iter().all(|at| (300..400).contains(at)));
    }
}
