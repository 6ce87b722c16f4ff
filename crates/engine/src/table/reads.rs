//! Read amplification of a table: what its reads cost, counted for point lookups and for walks apart.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::base::shards::Sharded;
use crate::tree::Costs;

/// What reads of a table cost since the database was opened; never reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReadStats {
    /// Keys that were looked up.
    pub gets: u64,
    /// Trees that these lookups searched: memtables, B-trees, and runs that no filter ruled out.
    pub get_trees: u64,
    /// Filters that they asked.
    pub get_filters: u64,
    /// Filters that let a key pass in vain.
    pub get_filter_misses: u64,
    /// Blocks of indexes and leaves that they looked at, in the cache or not.
    pub get_blocks: u64,
    /// Walks over a range that began.
    pub seeks: u64,
    /// Trees that they walked over.
    pub seek_trees: u64,
    /// Blocks of indexes and leaves that they looked at, in the cache or not.
    pub seek_blocks: u64,
}

impl ReadStats {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (mut a, b) = (self.numbers(), other.numbers());
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        Self::of(a)
    }

    const fn of(numbers: [u64; 8]) -> Self {
        let [gets, get_trees, get_filters, get_filter_misses, get_blocks, seeks, seek_trees, seek_blocks] = numbers;
        Self { gets, get_trees, get_filters, get_filter_misses, get_blocks, seeks, seek_trees, seek_blocks }
    }

    const fn numbers(self) -> [u64; 8] {
        let Self { gets, get_trees, get_filters, get_filter_misses, get_blocks, seeks, seek_trees, seek_blocks } = self;
        [gets, get_trees, get_filters, get_filter_misses, get_blocks, seeks, seek_trees, seek_blocks]
    }
}

/// The counters behind [`ReadStats`].
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    counters: Sharded<8>,
    /// What [`Self::since_asked`] has told of. Changes in flushes only, which are alone.
    asked: AtomicU64,
}

impl ReadCounters {
    /// So many keys were looked up at these costs together.
    #[inline]
    pub(crate) fn got(&self, keys: u64, costs: &Costs) {
        self.counters.add([keys, costs.trees, costs.filters, costs.filter_misses, costs.blocks, 0, 0, 0]);
    }

    /// A walk over so many trees ended, which looked at so many blocks.
    pub(crate) fn walked(&self, trees: u64, blocks: u64) {
        self.counters.add([0, 0, 0, 0, 0, 1, trees, blocks]);
    }

    /// Counts on from there.
    pub(crate) fn add(&self, stats: ReadStats) {
        self.counters.add(stats.numbers());
    }

    /// Keys looked up and walks begun since this was asked last.
    pub(crate) fn since_asked(&self) -> u64 {
        let stats = self.stats();
        let reads = stats.gets + stats.seeks;
        reads - self.asked.swap(reads, Ordering::Relaxed).min(reads)
    }

    pub(crate) fn stats(&self) -> ReadStats {
        ReadStats::of(self.counters.sums())
    }
}
