//! How long single calls took.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A histogram of durations from 1 ns to 10 minutes, exact to three digits.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

/// The figures of a [`Latency`] that reports print, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The mean.
    pub mean_us: f64,
    /// Half of the calls took no longer.
    pub p50_us: f64,
    /// 9 of 10 calls took no longer.
    pub p90_us: f64,
    /// 95 of 100 calls took no longer.
    pub p95_us: f64,
    /// 99 of 100 calls took no longer.
    pub p99_us: f64,
    /// 999 of 1000 calls took no longer.
    pub p999_us: f64,
    /// The longest call.
    pub max_us: f64,
}

/// Calls that took about as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// They took at most so many microseconds, and more than those of the bucket before; `None` for the last bucket,
    /// which has all that took longer.
    pub most_us: Option<u64>,
    /// How many there were.
    pub calls: u64,
}

/// The bounds of buckets in microseconds: each is four times the one before, from 1 us to 16 s, on whole milliseconds
/// and seconds.
pub const BUCKETS_US: [u64; 13] =
    [1, 4, 16, 64, 256, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000, 4_000_000, 16_000_000];

/// The shares of calls at which a curve has its points.
const CURVE: [f64; 17] =
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0];

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

    /// The number of calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.0.len()
    }

    /// The figures to print; zeros when there was no call.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        Percentiles {
            mean_us: self.0.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.0.max() as f64 / 1e3,
        }
    }

    /// How many calls took how long, in a bucket for each of [`BUCKETS_US`] and one for what took longer; nothing when
    /// there was no call.
    #[must_use]
    pub fn histogram(&self) -> Vec<Bucket> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let bounds = BUCKETS_US.iter().copied().map(Some).chain([None]);
        let mut buckets: Vec<Bucket> = bounds.map(|most_us| Bucket { most_us, calls: 0 }).collect();
        for value in self.0.iter_recorded() {
            let at = BUCKETS_US.partition_point(|most_us| most_us * 1_000 < value.value_iterated_to());
            buckets[at].calls += value.count_at_value();
        }
        buckets
    }

    /// Pairs of a share of the calls and the microseconds that this share took at most.
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, f64)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        CURVE.iter().map(|&share| (share, self.0.value_at_quantile(share) as f64 / 1e3)).collect()
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
        let wanted = [500.5, 500.0, 900.0, 950.0, 990.0, 999.0, 1000.0];
        let Percentiles { mean_us, p50_us, p90_us, p95_us, p99_us, p999_us, max_us } = figures;
        for (figure, wanted) in [mean_us, p50_us, p90_us, p95_us, p99_us, p999_us, max_us].into_iter().zip(wanted) {
            assert!((figure - wanted).abs() < 1.0, "{figures:?}");
        }
    }

    #[test]
    fn a_curve_rises_from_the_shortest_to_the_longest_call() {
        let mut latency = Latency::new();
        assert!(latency.curve().is_empty());
        (1..=1000).for_each(|us| latency.record(Duration::from_micros(us)));
        let curve = latency.curve();
        assert!(curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{curve:?}");
        assert!((curve[0].1 - 1.0).abs() < 0.1 && (curve[16].1 - 1000.0).abs() < 1.0, "{curve:?}");
    }

    #[test]
    fn each_call_is_in_the_bucket_of_its_time() {
        let mut latency = Latency::new();
        assert!(latency.histogram().is_empty());
        for (us, calls) in [(0, 1), (3, 2), (200, 3), (999, 4), (3_900, 5), (17_000_000, 6)] {
            (0..calls).for_each(|_| latency.record(Duration::from_micros(us)));
        }
        let counts: Vec<u64> = latency.histogram().iter().map(|bucket| bucket.calls).collect();
        assert_eq!(counts, [1, 2, 0, 0, 3, 4, 5, 0, 0, 0, 0, 0, 0, 6]);
    }

    #[test]
    fn an_empty_histogram_is_all_zeros() {
        assert_eq!(Latency::new().percentiles(), Percentiles::default());
    }

    #[test]
    fn histograms_add_up() {
        let (mut a, mut b) = (Latency::new(), Latency::new());
        a.record(Duration::from_micros(1));
        b.record(Duration::from_hours(1));
        a.add(&b);
        assert!(a.percentiles().max_us > 1e8);
        assert_eq!(a.calls(), 2);
    }
}
