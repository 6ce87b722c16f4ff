//! The core workloads: what they do how often, and on which records.

use crate::random::{Exponential, Hotspot, Latest, Random, ScrambledZipfian};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A core workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Update heavy: half reads, half updates
    A,
    /// Read mostly: 95 % reads, 5 % updates
    B,
    /// Read only
    C,
    /// Read latest: 95 % reads of new records, 5 % inserts
    D,
    /// Short ranges: 95 % scans, 5 % inserts
    E,
    /// Read-modify-write: half reads, half read-modify-writes
    F,
}

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Some often, anywhere
    Zipfian,
    /// All alike
    Uniform,
    /// New ones often
    Latest,
    /// A fifth of them four times out of five
    Hotspot,
    /// New ones exponentially more often
    Exponential,
}

/// The kinds of operations, by YCSB's names.
pub(super) const KINDS: &[&str] = &["READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE"];
pub(super) const READ: usize = 0;
pub(super) const UPDATE: usize = 1;
pub(super) const INSERT: usize = 2;
pub(super) const SCAN: usize = 3;

impl Workload {
    /// The letter.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E => "E",
            Self::F => "F",
        }
    }

    /// Operations of each of [`KINDS`] in a hundred.
    pub(super) const fn shares(self) -> [u64; KINDS.len()] {
        match self {
            Self::A => [50, 50, 0, 0, 0],
            Self::B => [95, 5, 0, 0, 0],
            Self::C => [100, 0, 0, 0, 0],
            Self::D => [95, 0, 5, 0, 0],
            Self::E => [0, 0, 5, 95, 0],
            Self::F => [50, 0, 0, 0, 50],
        }
    }

    /// Whether it makes new records.
    pub(super) const fn inserts(self) -> bool {
        self.shares()[INSERT] > 0
    }

    /// The kind of an operation.
    pub(super) fn kind(self, random: &mut Random) -> usize {
        let mut left = random.below(100);
        let shares = self.shares();
        let mut kind = 0;
        while left >= shares[kind] {
            left -= shares[kind];
            kind += 1;
        }
        kind
    }

    /// The distribution that it has by its definition.
    pub(super) const fn distribution(self) -> Distribution {
        match self {
            Self::D => Distribution::Latest,
            _ => Distribution::Zipfian,
        }
    }
}

/// Chooses records for operations.
#[derive(Clone, Debug)]
pub(super) enum Chooser {
    Zipfian(ScrambledZipfian),
    Uniform(u64),
    Latest(Latest),
    Hotspot(Hotspot),
    Exponential(Exponential),
}

impl Chooser {
    /// A chooser among `records`, and among those that `operations` of a workload add.
    pub(super) fn new(distribution: Distribution, records: u64, workload: Workload, operations: u64) -> Self {
        match distribution {
            Distribution::Zipfian => {
                // Which records are popular depends on their number, so that is to be one which the inserts do not
                // reach: twice as many as are expected, as in YCSB.
                let expected = operations * workload.shares()[INSERT] / 100;
                Self::Zipfian(ScrambledZipfian::new(records + 2 * expected))
            }
            Distribution::Uniform => Self::Uniform(records),
            Distribution::Latest => Self::Latest(Latest::new(records)),
            Distribution::Hotspot => Self::Hotspot(Hotspot::new(records, 0.2, 0.8)),
            Distribution::Exponential => Self::Exponential(Exponential::new(0.95, records as f64 * 0.857_142_857_1)),
        }
    }

    /// A record with a number below `records`, which never shrinks from call to call.
    pub(super) fn choose(&mut self, random: &mut Random, records: u64) -> u64 {
        let draw = || match self {
            Self::Zipfian(zipfian) => zipfian.draw(random),
            Self::Uniform(first) => random.below(*first),
            Self::Latest(latest) => {
                latest.grow(records);
                latest.draw(random)
            }
            Self::Hotspot(hotspot) => hotspot.draw(random),
            // Beyond the first record it wraps to a large number, which is drawn again.
            Self::Exponential(exponential) => (records - 1).wrapping_sub(exponential.draw(random)),
        };
        std::iter::repeat_with(draw).find(|&record| record < records).expect("repeated without an end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::chi_square::assert_draws_fit;

    #[test]
    fn the_kinds_come_in_their_shares() {
        for &workload in Workload::value_variants() {
            let shares = workload.shares().map(|share| share as f64 / 100.0);
            let mut random = Random::new(1);
            if workload == Workload::C {
                assert!((0..1_000).all(|_| workload.kind(&mut random) == READ));
            } else {
                assert_draws_fit(&shares, 50_000, || workload.kind(&mut random) as u64);
            }
        }
    }

    #[test]
    fn no_record_is_chosen_that_is_not_there_and_new_ones_are() {
        for &distribution in Distribution::value_variants() {
            let mut chooser = Chooser::new(distribution, 100, Workload::D, 2_000);
            let mut random = Random::new(2);
            let mut most = 0;
            for records in 100..200 {
                for _ in 0..100 {
                    let record = chooser.choose(&mut random, records);
                    assert!(record < records, "{distribution:?}");
                    most = most.max(record);
                }
            }
            let follows = !matches!(distribution, Distribution::Uniform | Distribution::Hotspot);
            assert_eq!(most > 190, follows, "{distribution:?}: {most}");
        }
    }
}
