//! How often the filter of a run says no. Where it hardly ever does, as in the last level of a table whose keys are
//! found, a get first looks whether index and leaf are in memory: then the leaf answers as well, and what the filter
//! takes to be asked is saved.

use std::sync::atomic::{AtomicU32, Ordering};

/// One get in 32 probes the filter in any case, as a sample; the hash of the key decides which.
const SAMPLED: u64 = 32;
/// The share of all answers.
const ALL: u32 = 1 << 10;
/// A sample counts for 1/16 of the average.
const MEMORY: u32 = 16;
/// Filters that say no more often are asked first. A search of index and leaf takes about four times as long as the
/// filter.
const RARE: u32 = ALL / 8;

/// A moving average of a filter's refusals. It publishes nothing: a lookup that sees an old one asks or not, and finds
/// the same.
#[derive(Debug)]
pub(super) struct FilterStats(AtomicU32);

impl FilterStats {
    /// The filter is probed until the samples say that it rarely rejects.
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(ALL))
    }

    /// As if it had rejected all samples, or none.
    #[cfg(test)]
    pub(super) fn pretend(&self, all: bool) {
        self.0.store(if all { ALL } else { 0 }, Ordering::Relaxed);
    }

    /// Whether the lookup of a key with this hash should probe the filter before it searches.
    #[inline]
    pub(super) fn should_probe(&self, hash: u64) -> bool {
        self.rejects_often() || is_sampled(hash)
    }

    /// Whether the filter rejects often enough to be probed before a search.
    #[inline]
    pub(super) fn rejects_often(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= RARE
    }

    /// Records a probe for a key with this hash.
    #[inline]
    pub(super) fn record(&self, hash: u64, refused: bool) {
        if is_sampled(hash) {
            let share = self.0.load(Ordering::Relaxed);
            let next = share - share / MEMORY + if refused { ALL / MEMORY } else { 0 };
            // Readers share the line: it is left alone while nothing changes.
            if next != share {
                self.0.store(next, Ordering::Relaxed);
            }
        }
    }
}

const fn is_sampled(hash: u64) -> bool {
    (hash >> 16).is_multiple_of(SAMPLED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::checksum::hash_key;

    /// Asks about so many keys, of which one in `part` is refused; whether it is worth asking in the end.
    fn ask(filter_stats: &FilterStats, keys: u64, part: u64) -> bool {
        for i in 0..keys {
            let hash = hash_key(&i.to_be_bytes());
            if filter_stats.should_probe(hash) {
                filter_stats.record(hash, hash.is_multiple_of(part));
            }
        }
        let unsampled = (0..).map(|i: u64| hash_key(&i.to_le_bytes())).find(|hash| !is_sampled(*hash));
        filter_stats.should_probe(unsampled.expect("most are not"))
    }

    #[test]
    fn a_filter_is_asked_first_while_it_refuses_often() {
        let filter_stats = FilterStats::new();
        assert!(ask(&filter_stats, 500, 1_000_000), "it takes some thousand gets to know");
        assert!(!ask(&filter_stats, 4_000, 1_000_000), "it refused nothing");
        assert!(!ask(&filter_stats, 20_000, 100));
        assert!(ask(&filter_stats, 20_000, 2), "half of what is sampled is refused again");
        assert!(ask(&filter_stats, 20_000, 1));
    }
}
