//! The keys of `db_bench`, and values that compress as its values do.

use crate::random::{Permutation, Random};

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;
/// Bytes of a key that no fill makes.
pub(super) const MISSING_KEY_BYTES: usize = KEY_BYTES + 1;

/// The key of a number: its eight bytes, the highest first, and zeros in ASCII. So keys are in the order of their
/// numbers.
pub(super) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// A key that is between those of two numbers: one zero longer than the first of them.
pub(super) fn missing_key(number: u64) -> [u8; MISSING_KEY_BYTES] {
    let mut missing = [b'0'; MISSING_KEY_BYTES];
    missing[..KEY_BYTES].copy_from_slice(&key(number));
    missing
}

/// In which order a workload comes to the numbers of keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// From 0 up, and again.
    Ascending(u64),
    /// In a random order each of them once, and again.
    Shuffled(u64, Permutation),
    /// Any of them at any time.
    Drawn { seed: u64, keys: u64 },
}

impl Order {
    /// Each of `keys` numbers once in a random order.
    pub(super) fn shuffled(seed: u64, keys: u64) -> Self {
        Self::Shuffled(keys, Permutation::new(seed, keys))
    }

    /// The number that is `at`-th.
    pub(super) fn number(&self, at: u64) -> u64 {
        match self {
            Self::Ascending(keys) => at % keys,
            Self::Shuffled(keys, permutation) => permutation.at(at % keys),
            Self::Drawn { seed, keys } => Random::of(*seed, at).below(*keys),
        }
    }
}

/// A source of values that compress to about half: windows into a pool made of pieces of 50 random bytes that come
/// twice, with seven bits in a byte.
#[derive(Debug)]
pub(super) struct Values {
    pool: Vec<u8>,
    value_bytes: usize,
    at: usize,
}

impl Values {
    /// A source of values of this size.
    pub(super) fn new(seed: u64, value_bytes: usize) -> Self {
        let mut random = Random::new(seed);
        let mut pool = Vec::new();
        let mut piece = [0; 50];
        while pool.len() < (1 << 20).max(value_bytes) {
            random.fill(&mut piece);
            piece.iter_mut().for_each(|byte| *byte &= 0x7f);
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
        self.at += self.value_bytes;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_in_the_order_of_their_numbers_and_missing_ones_between_them() {
        assert_eq!(&key(0x0102), b"\0\0\0\0\0\0\x01\x0200000000");
        for number in [0, 1, 255, 256, u64::MAX - 1] {
            assert!(key(number)[..] < missing_key(number)[..] && missing_key(number)[..] < key(number + 1)[..]);
        }
    }

    #[test]
    fn a_shuffled_order_has_every_key_once_and_a_drawn_one_some_twice() {
        let numbers = |order: Order| (0..10_000).map(|at| order.number(at)).collect::<BTreeSet<_>>();
        let all: BTreeSet<u64> = (0..10_000).collect();
        assert_eq!(numbers(Order::shuffled(1, 10_000)), all);
        assert_eq!(numbers(Order::Ascending(10_000)), all);
        // The share of items that some draw hits is 1 - 1/e.
        let drawn = numbers(Order::Drawn { seed: 1, keys: 10_000 }).len();
        assert!((6_200..6_450).contains(&drawn), "{drawn}");
    }

    #[test]
    fn values_have_their_size_and_differ() {
        let mut values = Values::new(1, 128);
        let seen: BTreeSet<Vec<u8>> = (0..1_000).map(|_| values.next().to_vec()).collect();
        assert!(seen.len() == 1_000 && seen.iter().all(|value| value.len() == 128));
        assert!(Values::new(1, 0).next().is_empty());
        let large = Values::new(1, 1 << 20).next().to_vec();
        assert!(large.len() == 1 << 20 && large[..50] == large[50..100] && large[50..100] != large[100..150]);
    }
}
