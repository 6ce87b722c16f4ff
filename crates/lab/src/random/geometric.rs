//! The geometric distribution.

use super::generator::Random;

/// How many trials fail before the first that succeeds: 0 with probability p, 1 with (1 - p) p, and so on.
///
/// Drawn by inversion, with one random number: Devroye, "Non-uniform random variate generation" (1986), chapter X.2.
#[derive(Clone, Copy, Debug)]
pub struct Geometric {
    log_failure: f64,
}

impl Geometric {
    /// The distribution of trials that succeed with `probability`, above 0 and at most 1.
    #[must_use]
    pub fn new(probability: f64) -> Self {
        Self { log_failure: (-probability).ln_1p() }
    }

    /// The next number of failures.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded down, and a cast saturates")]
    pub fn draw(&self, random: &mut Random) -> u64 {
        ((1.0 - random.unit()).ln() / self.log_failure) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::chi_square::assert_draws_fit;

    #[test]
    fn draws_fit_the_definition() {
        for probability in [0.9, 0.5, 0.03] {
            let geometric = Geometric::new(probability);
            let mut random = Random::new(11);
            let mut probabilities: Vec<f64> =
                (0..400).map(|failures| probability * (1.0 - probability).powi(failures)).collect();
            probabilities.push(1.0 - probabilities.iter().sum::<f64>());
            assert_draws_fit(&probabilities, 100_000, || geometric.draw(&mut random).min(400));
        }
    }

    #[test]
    fn a_sure_trial_never_fails() {
        let mut random = Random::new(12);
        assert!((0..1_000).all(|_| Geometric::new(1.0).draw(&mut random) == 0));
    }
}
