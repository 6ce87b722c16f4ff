//! Read amplification of a table: what its reads cost, counted for point lookups and for walks apart.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::thread_counters::ThreadCounters;
use crate::store::BlocksRead;
use crate::tree::Costs;

/// How many counters there are: a shard of them fits the pair of cache lines that it takes anyway.
const COUNTERS: usize = 12;
/// Which of them is [`ReadStats::get_blocks_read`].
const GET_BLOCKS_READ: usize = 5;
/// Which of them is [`ReadStats::seeks`], and the first about walks.
const SEEKS: usize = 6;

/// What reads of a table cost since the database was opened; never reset.
///
/// ```
/// # use spinney::{Database, Options, TableOptions};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// # let table = db.create_table("t", TableOptions::default())?;
/// let mut txn = db.begin();
/// txn.put(&table, b"key", b"value")?;
/// txn.commit()?;
/// let before = db.stats().table_reads["t"];
/// (0..10).try_for_each(|_| db.snapshot().get(&table, b"key").map(drop))?;
/// let after = db.stats().table_reads["t"];
/// // Ten gets, each of which found the key in the memtable.
/// assert_eq!((after.gets - before.gets, after.get_trees - before.get_trees), (10, 10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
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
    /// Blocks that they read from files, those of filters and of separated values among them.
    pub get_blocks_read: u64,
    /// Walks over a range that began.
    pub seeks: u64,
    /// Trees that they walked over, or passed by because a filter did not know the prefix of the range.
    pub seek_trees: u64,
    /// Blocks of indexes and leaves that they looked at, in the cache or not.
    pub seek_blocks: u64,
    /// Blocks that they read from files, as lookups do; a read ahead counts with all blocks that were taken from it.
    pub seek_blocks_read: u64,
    /// Filters that they asked for the prefix of their range.
    pub seek_filters: u64,
    /// Filters that let such a prefix pass in vain.
    pub seek_filter_misses: u64,
}

impl ReadStats {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (mut a, b) = (self.numbers(), other.numbers());
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        Self::of(a)
    }

    const fn of(numbers: [u64; COUNTERS]) -> Self {
        let [gets, get_trees, get_filters, get_filter_misses, get_blocks, get_blocks_read, ..] = numbers;
        let [.., seeks, seek_trees, seek_blocks, seek_blocks_read, seek_filters, seek_filter_misses] = numbers;
        Self {
            gets,
            get_trees,
            get_filters,
            get_filter_misses,
            get_blocks,
            get_blocks_read,
            seeks,
            seek_trees,
            seek_blocks,
            seek_blocks_read,
            seek_filters,
            seek_filter_misses,
        }
    }

    const fn numbers(self) -> [u64; COUNTERS] {
        let Self { gets, get_trees, get_filters, get_filter_misses, get_blocks, get_blocks_read, .. } = self;
        let Self { seeks, seek_trees, seek_blocks, seek_blocks_read, seek_filters, seek_filter_misses, .. } = self;
        [
            gets,
            get_trees,
            get_filters,
            get_filter_misses,
            get_blocks,
            get_blocks_read,
            seeks,
            seek_trees,
            seek_blocks,
            seek_blocks_read,
            seek_filters,
            seek_filter_misses,
        ]
    }
}

/// The counters behind [`ReadStats`].
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    counters: ThreadCounters<COUNTERS>,
    /// What [`Self::since_asked`] has told of. Changes in flushes only, which are alone.
    asked: AtomicU64,
}

impl ReadCounters {
    /// Counts lookups of `keys` keys that had these costs together.
    #[inline]
    pub(crate) fn got(&self, keys: u64, costs: &Costs) {
        self.counters.add_from(0, [keys, costs.trees, costs.filters, costs.filter_misses, costs.blocks]);
    }

    /// MultiGet, or a part of one, began there and are at their end.
    #[inline]
    pub(crate) fn got_from_files(&self, begun: BlocksRead) {
        let blocks = begun.since();
        if blocks > 0 {
            self.counters.add_to(GET_BLOCKS_READ, blocks);
        }
    }

    /// Counts a walk over `trees` trees that ended.
    pub(crate) fn walked(&self, trees: u64, costs: &Costs) {
        let Costs { blocks, blocks_read, filters, filter_misses, .. } = *costs;
        self.counters.add_from(SEEKS, [1, trees, blocks, blocks_read, filters, filter_misses]);
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
