//! The distributions that `LinkBench` draws from, by the formulas of the original.

use crate::random::Random;
use std::f64::consts::TAU;

/// A number in `0.0..1.0`.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
pub(super) fn unit(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Zipf's distribution over the ranks `0..count`: the probability of rank r falls as (r + 1)^-shape.
///
/// The algorithm is that of Gray and others, "Quickly Generating Billion-Record Synthetic Databases" (1994).
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    count: u64,
    alpha: f64,
    eta: f64,
    zeta: f64,
    half: f64,
}

impl Zipf {
    /// The distribution over `count` ranks, at least one, with a shape between 0 and 1.
    pub(super) fn new(count: u64, shape: f64) -> Self {
        let zeta = harmonic(count, shape);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - shape)) / (1.0 - harmonic(2, shape) / zeta);
        Self { count, alpha: 1.0 / (1.0 - shape), eta, zeta, half: 0.5_f64.powf(shape) }
    }

    /// A rank.
    pub(super) fn choose(&self, random: &mut Random) -> u64 {
        self.quantile(unit(random))
    }

    /// The probability of the ranks below `rank`.
    #[cfg(test)]
    pub(super) fn share_below(&self, rank: u64) -> f64 {
        let (mut below, mut above) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(below, above);
            if self.quantile(middle) < rank { below = middle } else { above = middle }
        }
        above
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "cut off towards 0, as the original does"
    )]
    fn quantile(&self, share: f64) -> u64 {
        let scaled = share * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + self.half {
            return 1.min(self.count - 1);
        }
        let rank = self.count as f64 * (self.eta * share - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }
}

/// The sum of k^-shape for k from 1 to `count`: exact below 100,000 terms, else the approximation of the original,
/// which is within 0.2%.
pub(super) fn harmonic(count: u64, shape: f64) -> f64 {
    if count < 100_000 {
        return (1..=count).rev().map(|term| (term as f64).powf(-shape)).sum();
    }
    let scale = 1.0 / (1.0 - shape);
    scale * (count as f64).powf(1.0 - shape) + 0.58 - scale
}

/// How many links a get asks for: 1 plus a geometric number from 1 on, at most 127.
///
/// The original means the numbers from 1 on, with a mean of 2.6, and draws them one too large; so do we.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
pub(super) fn multiget_ids(random: &mut Random) -> u64 {
    const PROBABILITY: f64 = 0.382;
    const MIN: u64 = 1;
    const MAX: u64 = 128;
    let trials = ((1.0 - unit(random)).ln() / (1.0 - PROBABILITY).ln()).ceil();
    (MIN + trials as u64).min(MAX - 1)
}

/// Sizes whose logarithm is normal with a standard deviation of 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogNormal {
    median_ln: f64,
    min: usize,
    max: usize,
}

impl LogNormal {
    /// Sizes with this median, cut off to `min..max`.
    pub(super) fn new(median: f64, min: usize, max: usize) -> Self {
        Self { median_ln: median.ln(), min, max }
    }

    /// A size.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, positive, saturating")]
    pub(super) fn choose(&self, random: &mut Random) -> usize {
        // Box and Muller; 1 - unit is above 0.
        let normal = (-2.0 * (1.0 - unit(random)).ln()).sqrt() * (TAU * unit(random)).cos();
        let size = (normal + self.median_ln).exp().round() as usize;
        size.clamp(self.min, self.max - 1)
    }
}
