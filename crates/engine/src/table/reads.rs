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

/// Declares the numbers, as fields and as an array.
macro_rules! numbers {
    ($(#[$outer:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$outer])*
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            const fn of([$($field),*]: [u64; COUNTERS]) -> Self {
                Self { $($field),* }
            }

            const fn numbers(self) -> [u64; COUNTERS] {
                [$(self.$field),*]
            }
        }
    };
}

numbers! {
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
    ReadStats {
        /// Keys that were looked up.
        gets,
        /// Trees that these lookups searched: memtables, B-trees, and runs that no filter ruled out.
        get_trees,
        /// Filters that they asked.
        get_filters,
        /// Filters that let a key pass in vain.
        get_filter_misses,
        /// Blocks of indexes and leaves that they looked at, in the cache or not.
        get_blocks,
        /// Blocks that they read from files, those of filters and of separated values among them.
        get_blocks_read,
        /// Walks over a range that began.
        seeks,
        /// Trees that they walked over, or passed by because a filter did not know the prefix of the range.
        seek_trees,
        /// Blocks of indexes and leaves that they looked at, in the cache or not.
        seek_blocks,
        /// Blocks that they read from files, as lookups do; a read ahead counts with all blocks that were taken from
        /// it.
        seek_blocks_read,
        /// Filters that they asked for the prefix of their range.
        seek_filters,
        /// Filters that let such a prefix pass in vain.
        seek_filter_misses,
    }
}

impl ReadStats {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (mut a, b) = (self.numbers(), other.numbers());
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        Self::of(a)
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
