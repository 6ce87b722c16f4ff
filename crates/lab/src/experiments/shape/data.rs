//! Keys of 16 bytes all over the key space, and values that compress to about half, as in `db_bench`.

use crate::random::{Random, mix};

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;

/// The `index`-th key; all keys differ.
pub(super) fn key(index: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&mix(index).to_be_bytes());
    key[8..].copy_from_slice(&mix(!index).to_be_bytes());
    key
}

/// Makes values.
#[derive(Debug)]
pub(super) struct Values {
    random: Random,
    value: Vec<u8>,
}

impl Values {
    /// A source of values of this size.
    pub(super) fn new(seed: u64, value_bytes: u32) -> Self {
        Self { random: Random::new(seed), value: vec![0; value_bytes as usize] }
    }

    /// The next value: random bytes that come twice.
    pub(super) fn next(&mut self) -> &[u8] {
        let half = self.value.len().div_ceil(2);
        let (first, second) = self.value.split_at_mut(half);
        self.random.fill(first);
        second.copy_from_slice(&first[..second.len()]);
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_differ() {
        assert_eq!((0..10_000).map(key).collect::<BTreeSet<_>>().len(), 10_000);
    }

    #[test]
    fn values_differ_and_come_twice_within() {
        for bytes in [0, 1, 7, 128] {
            let mut values = Values::new(1, bytes);
            let first = values.next().to_vec();
            assert_eq!(first.len(), bytes as usize);
            assert!(bytes == 0 || values.next() != first);
            let half = first.len().div_ceil(2);
            assert_eq!(first[half..], first[..first.len() - half]);
        }
    }
}
