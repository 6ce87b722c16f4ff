//! The permutation of ids of `LinkBench`, so that the popular ids are those of the original.
//!
//! The ids are dealt into groups by their remainder, and each group is rotated by an amount of its own. The amounts
//! come from Java's generator, which is specified bit by bit in the documentation of `java.util.Random`.

use spinney::base::num::usize_of;

/// How many groups there are, if there are that many ids.
const GROUPS: u64 = 1024;

/// A permutation of `0..count`.
#[derive(Clone, Debug)]
pub(super) struct Shuffle {
    count: u64,
    /// By how many places of its own each group is rotated.
    rotations: Vec<u64>,
}

impl Shuffle {
    /// The permutation of `count` places that the original makes of this seed; there is at least one place.
    pub(super) fn new(seed: u64, count: u64) -> Self {
        assert!(count > 0, "there is nothing to shuffle");
        let groups = GROUPS.min(count);
        let places_min = count / groups;
        let mut java = JavaRandom::new(seed);
        // The original keeps the smallest size of a group in 32 bits; so does Java's generator.
        let bound = u32::try_from(places_min).unwrap_or(u32::MAX >> 1);
        let rotations = (0..groups).map(|_| u64::from(java.below(bound))).collect();
        Self { count, rotations }
    }

    /// Where `place` goes.
    pub(super) fn permute(&self, place: u64) -> u64 {
        self.rotate(place, |_, rotation| rotation)
    }

    /// What goes to `place`.
    pub(super) fn invert(&self, place: u64) -> u64 {
        self.rotate(place, |places, rotation| places - rotation)
    }

    fn rotate(&self, place: u64, by: impl Fn(u64, u64) -> u64) -> u64 {
        assert!(place < self.count, "{place} is none of {} places", self.count);
        let groups = self.rotations.len() as u64;
        let group = place % groups;
        // The first groups have one place more than the others, unless all are alike.
        let places = self.count / groups + u64::from(group < self.count % groups);
        let rotated = (place / groups + by(places, self.rotations[usize_of(group)])) % places;
        rotated * groups + group
    }
}

/// Java's linear congruential generator.
struct JavaRandom(u64);

impl JavaRandom {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;

    fn new(seed: u64) -> Self {
        Self((seed ^ Self::MULTIPLIER) & Self::MASK)
    }

    /// The next 31 bits.
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER).wrapping_add(0xB) & Self::MASK;
        u32::try_from(self.0 >> 17).expect("48 bits less 17 are 31")
    }

    /// A number below `bound`, which has at most 31 bits.
    fn below(&mut self, bound: u32) -> u32 {
        if bound.is_power_of_two() {
            let product = u64::from(bound) * u64::from(self.bits());
            return u32::try_from(product >> 31).expect("below the bound");
        }
        loop {
            let bits = self.bits();
            let value = bits % bound;
            // Java tells the last, incomplete run of remainders by the overflow of 31 bits.
            if bits - value + (bound - 1) < 1 << 31 {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn javas_generator_gives_the_numbers_that_are_known_of_it() {
        // What `new Random(42).nextInt(10)` gives.
        let mut java = JavaRandom::new(42);
        let numbers: Vec<u32> = (0..10).map(|_| java.below(10)).collect();
        assert_eq!(numbers, [0, 3, 8, 4, 0, 5, 5, 8, 9, 3]);
    }

    #[test]
    fn every_place_is_taken_once_and_the_inverse_leads_back() {
        for count in [1, 2, 7, 1023, 1024, 1025, 5000, 10_240, 100_003] {
            let shuffle = Shuffle::new(20_343_988_438_726_021, count);
            let places: BTreeSet<u64> = (0..count).map(|place| shuffle.permute(place)).collect();
            assert_eq!(places.len() as u64, count);
            assert!(places.iter().all(|&place| place < count));
            assert!((0..count).all(|place| shuffle.invert(shuffle.permute(place)) == place), "{count}");
        }
    }

    #[test]
    fn neighbours_of_one_group_stay_neighbours_and_those_of_others_part() {
        let shuffle = Shuffle::new(1, 102_400);
        let moved = (0..1000).filter(|&place| shuffle.permute(place).abs_diff(shuffle.permute(place + 1)) > 1).count();
        assert!(moved > 900, "{moved}");
    }
}
