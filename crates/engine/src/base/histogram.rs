//! Histograms with buckets that double: what was counted, and the atomic counters behind it.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many buckets a histogram has. The last one that has a bound counts values up to 2^26: 67 seconds in
/// microseconds.
const BUCKETS: usize = 28;

/// How often values of each size were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// `counts[0]` counts the values 0 and 1, `counts[i]` those above 2^(i-1) and up to 2^i, the last one all that are
    /// larger.
    pub counts: [u64; BUCKETS],
    /// The sum of all values.
    pub sum: u64,
}

impl Histogram {
    /// How many values were seen.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The largest value that bucket `index` counts; `None` for the last bucket, which has no bound.
    #[must_use]
    pub fn bound(index: usize) -> Option<u64> {
        (index + 1 < BUCKETS).then(|| 1 << index)
    }

    /// A bound that at least `permille` thousandths of the values do not exceed; `None` when that takes the last
    /// bucket, 0 when there are no values.
    #[must_use]
    pub fn quantile(&self, permille: u64) -> Option<u64> {
        let wanted = (u128::from(self.count()) * u128::from(permille)).div_ceil(1000);
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += u128::from(*count);
            seen >= wanted
        };
        match wanted {
            0 => Some(0),
            _ => self.counts.iter().position(reaches).and_then(Self::bound),
        }
    }
}

/// Serialized as `{"count": n, "sum": n, "counts": [..]}`, without the empty buckets at the end.
#[cfg(feature = "serde")]
impl serde::Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;

        let used = self.counts.iter().rposition(|count| *count != 0).map_or(0, |last| last + 1);
        let mut fields = serializer.serialize_struct("Histogram", 3)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("sum", &self.sum)?;
        fields.serialize_field("counts", &self.counts[..used])?;
        fields.end()
    }
}

/// A histogram that many threads add to. It publishes nothing but itself.
#[derive(Debug, Default)]
pub struct AtomicHistogram {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl AtomicHistogram {
    /// Counts a value.
    #[inline]
    pub fn add(&self, value: u64) {
        self.counts[bucket(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// What was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> Histogram {
        let mut counts = [0; BUCKETS];
        for (count, atomic) in counts.iter_mut().zip(&self.counts) {
            *count = atomic.load(Ordering::Relaxed);
        }
        Histogram { counts, sum: self.sum.load(Ordering::Relaxed) }
    }
}

/// The bucket of a value.
const fn bucket(value: u64) -> usize {
    let bits = u64::BITS - value.saturating_sub(1).leading_zeros();
    let bits = super::num::usize_of32(bits);
    if bits < BUCKETS { bits } else { BUCKETS - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_counted_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let values = [0, 1, 2, 3, 4, 5, 8, 9, 1 << 26, (1 << 26) + 1, u64::MAX];
        for value in values {
            let expected = (0..BUCKETS).position(|index| Histogram::bound(index).is_none_or(|bound| value <= bound));
            assert_eq!(Some(bucket(value)), expected, "{value}");
        }
    }

    #[test]
    fn count_sum_and_quantiles_follow_from_what_was_added() {
        let histogram = AtomicHistogram::default();
        assert_eq!(histogram.snapshot().quantile(990), Some(0));
        for value in [1, 3, 3, 100] {
            histogram.add(value);
        }
        let seen = histogram.snapshot();
        assert_eq!((seen.count(), seen.sum), (4, 107));
        assert_eq!([seen.quantile(0), seen.quantile(250), seen.quantile(500)], [Some(0), Some(1), Some(4)]);
        assert_eq!(seen.quantile(1000), Some(128));
        histogram.add(1 << 40);
        assert_eq!(histogram.snapshot().quantile(1000), None);
    }
}
