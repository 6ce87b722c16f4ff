//! How many documents collections have, in rows of the catalog: nobody counts them after a restart.
//!
//! # Format
//! Rows in the table of the catalog, of numbers of eight bytes, little-endian:
//!
//! - `#c-<number of the collection>`, in hexadecimal digits: how many documents it had, and the newest change of the
//!   engine then.
//! - `#c`, the mark: a position of the log that is not behind the commit that wrote the row, a random number, and a
//!   number that is greater than those of the collections of then; 1 or 0 in one more byte, 1 for the last row that a
//!   database wrote before it was closed.

use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use spinney::Lsn;
use spinney::base::codec::{Decoder, Malformed, put_varint};

/// What the keys of the rows begin with; the key of the mark.
pub(super) const COUNTS: &str = "#c";

/// What is known of the rows.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Held while rows are stored.
    pub(super) storing: Mutex<()>,
    /// The mark's position. It orders nothing.
    pub(super) position: AtomicU64,
}

/// The row that says from where on the log counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) position: Lsn,
    pub(super) random: u64,
    /// The next number of a table.
    pub(super) next: u64,
    pub(super) is_last: bool,
}

impl Mark {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut row = pair(self.position.0, self.random).to_vec();
        row.extend_from_slice(&self.next.to_le_bytes());
        row.push(self.is_last.into());
        row
    }

    pub(super) fn decode(row: &[u8]) -> Option<Self> {
        let (&is_last, numbers) = row.split_last()?;
        let (numbers, next) = numbers.split_last_chunk()?;
        let (position, random) = numbers_of(numbers)?;
        Some(Self { position: Lsn(position), random, next: u64::from_le_bytes(*next), is_last: is_last != 0 })
    }
}

/// What a copy has to be told that is not in its files: how many documents its collections have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedCounts {
    /// The number of a collection, and of its documents.
    pub(super) counts: Vec<(u64, u64)>,
    /// The next number of a table.
    pub(super) next: u64,
}

impl Default for CopiedCounts {
    /// None is known.
    fn default() -> Self {
        Self { counts: Vec::new(), next: u64::MAX }
    }
}

impl CopiedCounts {
    /// The bytes that [`Self::decode`] reads.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, self.next);
        for (number, count) in &self.counts {
            put_varint(&mut bytes, *number);
            put_varint(&mut bytes, *count);
        }
        bytes
    }

    /// # Errors
    /// `Malformed` for other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        let mut decoded = Self { next: input.varint()?, counts: Vec::new() };
        while !input.is_empty() {
            decoded.counts.push((input.varint()?, input.varint()?));
        }
        Ok(decoded)
    }
}

/// A row of two numbers.
pub(super) fn pair(first: u64, second: u64) -> [u8; 16] {
    (u128::from(first) | u128::from(second) << 64).to_le_bytes()
}

/// The numbers of a row of two.
pub(super) fn numbers_of(row: &[u8]) -> Option<(u64, u64)> {
    let (first, second) = row.split_first_chunk()?;
    Some((u64::from_le_bytes(*first), u64::from_le_bytes(second.try_into().ok()?)))
}

/// The key of a collection's row.
pub(super) fn key_of(number: u64) -> String {
    format!("{COUNTS}-{number:016x}")
}

/// The number of the collection of a row.
pub(super) fn number_of(key: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(key.strip_prefix(COUNTS.as_bytes())?.strip_prefix(b"-")?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        for is_last in [false, true] {
            let mark = Mark { position: Lsn(7 << 33), random: 5 << 60, next: 9 << 50, is_last };
            assert_eq!(Mark::decode(&mark.encode()), Some(mark));
        }
        assert_eq!(Mark::decode(b"1234567"), None);
        assert_eq!(numbers_of(&pair(3, u64::MAX)), Some((3, u64::MAX)));
        assert_eq!(numbers_of(&[0; 15]), None);
        assert_eq!(number_of(key_of(0x12_3456).as_bytes()), Some(0x12_3456));
        assert_eq!((number_of(b"#c"), number_of(b"#c-x")), (None, None));
    }

    #[test]
    fn counts_for_a_copy_come_back() {
        let counts = CopiedCounts { counts: vec![(1, 0), (300, u64::MAX)], next: 301 };
        let bytes = counts.encode();
        assert_eq!(CopiedCounts::decode(&bytes), Ok(counts));
        assert_eq!(CopiedCounts::decode(&bytes[..bytes.len() - 1]), Err(Malformed));
        assert_eq!(CopiedCounts::decode(&[]), Err(Malformed));
    }
}
