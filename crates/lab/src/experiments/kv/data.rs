//! Keys of 16 bytes and values that compress to about half, as in `db_bench`.

use crate::random::{Random, mix};

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;

/// How the n-th key is made; all keys of one kind differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// In key order.
    Ordered,
    /// All over the key space.
    Scattered,
}

impl Keys {
    /// The `index`-th key.
    pub(super) fn key(self, index: u64) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        let (head, tail) = match self {
            Self::Ordered => (index, 0),
            Self::Scattered => (mix(index), mix(!index)),
        };
        key[..8].copy_from_slice(&head.to_be_bytes());
        key[8..].copy_from_slice(&tail.to_be_bytes());
        key
    }
}

/// A source of values: windows into a pool of random bytes that come twice in a row.
#[derive(Debug)]
pub(super) struct Values {
    pool: Vec<u8>,
    value_bytes: usize,
    at: usize,
}

impl Values {
    /// A source of values of this size.
    pub(super) fn new(seed: u64, value_bytes: usize) -> Self {
        let half = value_bytes.div_ceil(2).max(1);
        let mut random = Random::new(seed);
        let mut pool = Vec::new();
        let mut piece = vec![0; half];
        while pool.len() < (1 << 20) + 2 * value_bytes {
            random.fill(&mut piece);
            pool.extend_from_slice(&piece);
            pool.extend_from_slice(&piece);
        }
        Self { pool, value_bytes, at: 0 }
    }

    /// The next value.
    pub(super) fn next(&mut self) -> &[u8] {
        if self.at + self.value_bytes > self.pool.len() {
            self.at = 0;
        }
        let value = &self.pool[self.at..self.at + self.value_bytes];
        self.at += self.value_bytes.max(1);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_differ_and_ordered_ones_are_in_order() {
        let scattered: BTreeSet<_> = (0..10_000).map(|index| Keys::Scattered.key(index)).collect();
        assert_eq!(scattered.len(), 10_000);
        let ordered: Vec<_> = (0..10_000).map(|index| Keys::Ordered.key(index)).collect();
        assert!(ordered.is_sorted_by(|a, b| a < b));
    }
}
