//! Pearson's chi-square test: whether counts could have come from probabilities.

use spinney::base::num::usize_of;

/// A bin is merged with the next until so many draws are expected in it, which the test needs to be sound.
const EXPECTED_MIN: f64 = 5.0;
/// The point that a normal variable exceeds with probability 0.001.
const Z: f64 = 3.09;

/// The test's statistic and what it may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    /// The sum over the bins of squared deviation by expectation.
    pub(crate) statistic: f64,
    /// What it exceeds with probability 0.001 if the probabilities are right.
    pub(crate) limit: f64,
}

/// Compares counts with the probabilities of the same items, which add up to 1.
pub(crate) fn chi_square(counts: &[u64], probabilities: &[f64]) -> Fit {
    assert_eq!(counts.len(), probabilities.len(), "a probability for each count");
    let sum: f64 = probabilities.iter().sum();
    assert!((sum - 1.0).abs() < 1e-6, "probabilities add up to {sum}");
    let draws = counts.iter().sum::<u64>() as f64;
    let mut bins: Vec<(f64, f64)> = Vec::new();
    let mut open = (0.0, 0.0);
    for (&count, &probability) in counts.iter().zip(probabilities) {
        assert!(count == 0 || probability > 0.0, "an impossible item was drawn {count} times");
        open = (open.0 + count as f64, open.1 + probability * draws);
        if open.1 >= EXPECTED_MIN {
            bins.push(std::mem::take(&mut open));
        }
    }
    let last = bins.last_mut().expect("more than five draws");
    *last = (last.0 + open.0, last.1 + open.1);
    assert!(bins.len() > 1, "one bin is no test");
    let statistic = bins.iter().map(|(seen, expected)| (seen - expected).powi(2) / expected).sum();
    Fit { statistic, limit: limit((bins.len() - 1) as f64) }
}

/// The chi-square quantile by Wilson and Hilferty (1931): the cube root of the variable is nearly normal.
fn limit(degrees: f64) -> f64 {
    let variance = 2.0 / (9.0 * degrees);
    degrees * (1.0 - variance + Z * variance.sqrt()).powi(3)
}

/// Asserts that counts could have come from the probabilities.
#[track_caller]
pub(crate) fn assert_fits(counts: &[u64], probabilities: &[f64]) {
    let fit = chi_square(counts, probabilities);
    assert!(fit.statistic <= fit.limit, "{fit:?}");
}

/// Asserts that so many draws of items counted from 0 could have come from their probabilities.
#[track_caller]
pub(crate) fn assert_draws_fit(probabilities: &[f64], draws: u32, mut draw: impl FnMut() -> u64) {
    let mut counts = vec![0; probabilities.len()];
    for _ in 0..draws {
        counts[usize_of(draw())] += 1;
    }
    assert_fits(&counts, probabilities);
}

#[test]
fn the_limits_are_those_of_the_tables() {
    for (degrees, known) in [(3.0, 16.266), (10.0, 29.588), (100.0, 149.449)] {
        assert!((limit(degrees) / known - 1.0).abs() < 0.02, "{degrees}: {}", limit(degrees));
    }
}

#[test]
fn a_small_bias_of_many_draws_is_found() {
    let fair = chi_square(&[10_050, 9_950], &[0.5, 0.5]);
    assert!(fair.statistic < fair.limit && (fair.statistic - 0.5).abs() < 1e-9, "{fair:?}");
    let biased = chi_square(&[10_400, 9_600], &[0.5, 0.5]);
    assert!(biased.statistic > biased.limit, "{biased:?}");
}

#[test]
fn rare_items_are_merged() {
    let probabilities: Vec<f64> = std::iter::once(0.5).chain(std::iter::repeat_n(0.5 / 1000.0, 1000)).collect();
    let counts: Vec<u64> = std::iter::once(100).chain((0..1000).map(|at| u64::from(at % 10 == 0))).collect();
    let fit = chi_square(&counts, &probabilities);
    assert!(fit.statistic < 1.0 && fit.limit < 60.0, "{fit:?}");
}
