//! Items: keys in order or all over the key space, and values that compress by a known factor.

use crate::random::{Random, mix};

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;

/// The key of the item with number `index`; all keys of one kind differ.
pub(super) fn key(scattered: bool, index: u64) -> [u8; KEY_BYTES] {
    let (head, tail) = if scattered { (mix(index), mix(!index)) } else { (0, index) };
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&head.to_be_bytes());
    key[8..].copy_from_slice(&tail.to_be_bytes());
    key
}

/// Makes values; the same seed and number give the same value.
#[derive(Debug)]
pub(super) struct ValueMaker {
    seed: u64,
    /// Random bytes of a value, which are repeated to its end.
    random_bytes: usize,
    value: Vec<u8>,
}

impl ValueMaker {
    /// A maker of values of `value_bytes`, one of every `repeats` bytes of which is random.
    pub(super) fn new(seed: u64, value_bytes: usize, repeats: u32) -> Self {
        let random_bytes = value_bytes.div_ceil(repeats.max(1) as usize);
        Self { seed, random_bytes, value: vec![0; value_bytes] }
    }

    /// The value of the item with number `index`.
    pub(super) fn make(&mut self, index: u64) -> &[u8] {
        let (piece, rest) = self.value.split_at_mut(self.random_bytes);
        Random::of(self.seed, index).fill(piece);
        for copy in rest.chunks_mut(self.random_bytes.max(1)) {
            copy.copy_from_slice(&piece[..copy.len()]);
        }
        &self.value
    }
}

/// How many times smaller LZ4 makes the keys and values of a transaction of so many items.
pub(super) fn lz4_factor(scattered: bool, items: u64, mut values: ValueMaker) -> f64 {
    // Later items compress as the first do, and LZ4 looks back 64 KiB at most.
    let mut bytes = Vec::new();
    for index in 0..items.min(1_000) {
        bytes.extend_from_slice(&key(scattered, index));
        bytes.extend_from_slice(values.make(index));
    }
    bytes.len() as f64 / lz4_flex::block::compress(&bytes).len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_differ_and_sequential_ones_are_in_order() {
        let scattered: BTreeSet<_> = (0..10_000).map(|index| key(true, index)).collect();
        assert_eq!(scattered.len(), 10_000);
        assert!((0..10_000).map(|index| key(false, index)).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_value_depends_on_seed_and_number_only() {
        let (mut a, mut b) = (ValueMaker::new(1, 100, 2), ValueMaker::new(1, 100, 2));
        b.make(8);
        assert_eq!(a.make(7), b.make(7));
        assert_ne!(a.make(7), ValueMaker::new(2, 100, 2).make(7));
    }

    #[test]
    fn values_repeat_their_random_part_to_the_last_byte() {
        let mut maker = ValueMaker::new(1, 10, 3);
        let value = maker.make(1);
        assert_eq!((value.len(), &value[..4], &value[..2]), (10, &value[4..8], &value[8..]));
        assert!(ValueMaker::new(1, 0, 2).make(1).is_empty());
    }

    #[test]
    fn more_repetition_compresses_better() {
        let factor = |repeats| lz4_factor(true, 100, ValueMaker::new(1, 128, repeats));
        // Random bytes do not compress; with half of a value's 128 B random, 80 of 144 B are left, and some for LZ4
        // itself.
        assert!((0.98..=1.0).contains(&factor(1)), "{}", factor(1));
        assert!((1.6..1.8).contains(&factor(2)), "{}", factor(2));
        assert!(factor(8) > 3.0, "{}", factor(8));
    }
}
