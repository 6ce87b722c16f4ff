//! How long single calls took.

use hdrhistogram::Histogram;
use std::time::Duration;

/// A histogram of durations from 1 ns to 10 minutes, exact to three digits.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

/// The figures of a [`Latency`] that reports print, in microseconds.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Percentiles {
    /// Half of the calls took no longer.
    pub p50_us: f64,
    /// 99 of 100 calls took no longer.
    pub p99_us: f64,
    /// The longest call.
    pub max_us: f64,
}

impl Latency {
    /// An empty histogram.
    ///
    /// # Panics
    /// Never: the bounds are valid.
    #[must_use]
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("valid bounds"))
    }

    /// Adds a call.
    pub fn record(&mut self, duration: Duration) {
        self.0.saturating_record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all calls of another histogram.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the same bounds");
    }

    /// Forgets all calls.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// The figures to print; zeros when there was no call.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        Percentiles {
            p50_us: us(self.0.value_at_quantile(0.5)),
            p99_us: us(self.0.value_at_quantile(0.99)),
            max_us: us(self.0.max()),
        }
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_to_three_digits() {
        let mut latency = Latency::new();
        (1..=1000).for_each(|us| latency.record(Duration::from_micros(us)));
        let figures = latency.percentiles();
        assert!((figures.p50_us - 500.0).abs() < 1.0, "{figures:?}");
        assert!((figures.p99_us - 990.0).abs() < 1.0, "{figures:?}");
        assert!((figures.max_us - 1000.0).abs() < 1.0, "{figures:?}");
    }

    #[test]
    fn an_empty_histogram_is_all_zeros() {
        assert!(Latency::new().percentiles().max_us.abs() < f64::EPSILON);
    }

    #[test]
    fn histograms_add_up() {
        let (mut a, mut b) = (Latency::new(), Latency::new());
        a.record(Duration::from_micros(1));
        b.record(Duration::from_hours(1));
        a.add(&b);
        assert!(a.percentiles().max_us > 1e8);
    }
}
