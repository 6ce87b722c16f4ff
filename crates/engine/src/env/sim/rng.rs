//! The simulator's source of choices: the same seed, the same choices (splitmix64, Steele, Lea and Flood 2014).

use crate::base::num::u64_of;

/// A sequence of numbers that a seed decides.
#[derive(Clone)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is small and not zero.
    pub(super) const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True once in `count` times.
    pub(super) const fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Fills `bytes` with noise.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            let noise = self.next().to_le_bytes();
            word.copy_from_slice(&noise[..word.len()]);
        }
    }

    /// An index into a list of `count` things, or `count` itself.
    pub(super) fn cut(&mut self, count: usize) -> usize {
        crate::base::num::usize_of(self.below(u64_of(count) + 1))
    }
}
