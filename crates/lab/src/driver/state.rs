//! What an engine says about itself: the shape of its trees and its counters.

use serde::{Deserialize, Serialize};

/// The trees of a table at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableShape {
    /// The table's name.
    pub table: String,
    /// Entries in the memtable that takes writes.
    pub memtable_entries: Option<u64>,
    /// Bytes of memory that it holds.
    pub memtable_bytes: Option<u64>,
    /// Full memtables that wait for their flush.
    pub immutable_memtables: Option<u64>,
    /// The levels of runs from the top down, those that hold nothing left out.
    pub levels: Vec<LevelShape>,
    /// Levels of blocks of the B-tree, from the root to the leaves.
    pub btree_height: Option<u64>,
    /// Bytes of the B-tree's file.
    pub btree_bytes: Option<u64>,
    /// How many trees a scan, or a get without filters, searches.
    pub trees: Option<u64>,
}

/// A level of runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelShape {
    /// Its number: 0 for the level that flushes go to, 1 for the first level below it that holds anything, and so on.
    pub level: u64,
    /// Sorted sequences of keys, which is what a read searches: the files of L0, 1 for a level below it.
    pub sorted_runs: u64,
    /// Files.
    pub files: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Entries, if the engine says.
    pub entries: Option<u64>,
}

/// What flushes and compactions did for one level of all tables: since the database was opened, or in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelWork {
    /// The level as the engine calls it: `L0`, `L6`, `B-tree`.
    pub level: String,
    /// Flushes and compactions with their result in this level.
    pub jobs: u64,
    /// Bytes that came to it, from memory or from the levels above, if the engine tells them from those below.
    pub in_bytes: Option<u64>,
    /// Bytes that were in it before and were merged with them, likewise.
    pub rewritten_bytes: Option<u64>,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Microseconds that these jobs took.
    pub time_us: Option<u64>,
    /// Bytes that it holds at the end above its target, if it has one.
    pub debt_bytes: Option<u64>,
}

/// What lookups read before they come to a leaf, of all tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    /// Leaf blocks.
    pub leaves: u64,
    /// Bytes of them on disk; of a B-tree with its branches.
    pub leaf_bytes: u64,
    /// Bytes of indexes of runs, and of branches of B-trees.
    pub index_bytes: u64,
    /// Bytes of filters.
    pub filter_bytes: u64,
}

/// Counters of an engine; `None` where it does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes of the redo log before compression and padding.
    pub log_record_bytes: Option<u64>,
    /// Bytes written to the redo log.
    pub log_written_bytes: Option<u64>,
    /// Bytes written to make files of the redo log ahead of their use, which [`Self::log_written_bytes`] does not
    /// count.
    pub log_ahead_bytes: Option<u64>,
    /// Times that the redo log was forced to the device.
    pub log_syncs: Option<u64>,
    /// Microseconds in writing and forcing the redo log.
    pub log_io_us: Option<u64>,
    /// Microseconds in compressing the redo log.
    pub log_compression_us: Option<u64>,
    /// Bytes written by flushes of memtables, or by checkpoints of a B-tree.
    pub flush_bytes: Option<u64>,
    /// Bytes read by compactions.
    pub compaction_read_bytes: Option<u64>,
    /// Bytes written by compactions.
    pub compaction_written_bytes: Option<u64>,
    /// Microseconds that writers were slowed or stopped.
    pub stall_us: Option<u64>,
    /// Times that they were.
    pub stalls: Option<u64>,
    /// Block lookups answered by the cache.
    pub cache_hits: Option<u64>,
    /// Block lookups that read.
    pub cache_misses: Option<u64>,
    /// Keys that were looked up.
    pub gets: Option<u64>,
    /// Trees that these lookups searched.
    pub get_trees: Option<u64>,
    /// Filters that they asked.
    pub get_filters: Option<u64>,
    /// Filters that let a key pass in vain.
    pub get_filter_misses: Option<u64>,
    /// Blocks of indexes and leaves that they looked at.
    pub get_blocks: Option<u64>,
    /// Blocks that they read from files.
    pub get_blocks_read: Option<u64>,
    /// Range reads.
    pub seeks: Option<u64>,
    /// Trees that they searched.
    pub seek_trees: Option<u64>,
    /// Blocks of indexes and leaves that they looked at.
    pub seek_blocks: Option<u64>,
    /// Blocks that they read from files.
    pub seek_blocks_read: Option<u64>,
    /// Filters that they asked.
    pub seek_filters: Option<u64>,
    /// Filters that let a range pass in vain.
    pub seek_filter_misses: Option<u64>,
}

impl Counters {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let difference = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        Self {
            log_record_bytes: difference(self.log_record_bytes, earlier.log_record_bytes),
            log_written_bytes: difference(self.log_written_bytes, earlier.log_written_bytes),
            log_ahead_bytes: difference(self.log_ahead_bytes, earlier.log_ahead_bytes),
            log_syncs: difference(self.log_syncs, earlier.log_syncs),
            log_io_us: difference(self.log_io_us, earlier.log_io_us),
            log_compression_us: difference(self.log_compression_us, earlier.log_compression_us),
            flush_bytes: difference(self.flush_bytes, earlier.flush_bytes),
            compaction_read_bytes: difference(self.compaction_read_bytes, earlier.compaction_read_bytes),
            compaction_written_bytes: difference(self.compaction_written_bytes, earlier.compaction_written_bytes),
            stall_us: difference(self.stall_us, earlier.stall_us),
            stalls: difference(self.stalls, earlier.stalls),
            cache_hits: difference(self.cache_hits, earlier.cache_hits),
            cache_misses: difference(self.cache_misses, earlier.cache_misses),
            gets: difference(self.gets, earlier.gets),
            get_trees: difference(self.get_trees, earlier.get_trees),
            get_filters: difference(self.get_filters, earlier.get_filters),
            get_filter_misses: difference(self.get_filter_misses, earlier.get_filter_misses),
            get_blocks: difference(self.get_blocks, earlier.get_blocks),
            get_blocks_read: difference(self.get_blocks_read, earlier.get_blocks_read),
            seeks: difference(self.seeks, earlier.seeks),
            seek_trees: difference(self.seek_trees, earlier.seek_trees),
            seek_blocks: difference(self.seek_blocks, earlier.seek_blocks),
            seek_blocks_read: difference(self.seek_blocks_read, earlier.seek_blocks_read),
            seek_filters: difference(self.seek_filters, earlier.seek_filters),
            seek_filter_misses: difference(self.seek_filter_misses, earlier.seek_filter_misses),
        }
    }
}

impl LevelWork {
    /// What was done since `earlier`, by level; the debt is that of now. Levels for which nothing was done and which
    /// have no debt are left out.
    #[must_use]
    pub fn since(now: Vec<Self>, earlier: &[Self]) -> Vec<Self> {
        let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        let difference = |now: Self| {
            let Some(then) = earlier.iter().find(|then| then.level == now.level) else { return now };
            Self {
                jobs: now.jobs.saturating_sub(then.jobs),
                in_bytes: less(now.in_bytes, then.in_bytes),
                rewritten_bytes: less(now.rewritten_bytes, then.rewritten_bytes),
                written_bytes: now.written_bytes.saturating_sub(then.written_bytes),
                time_us: less(now.time_us, then.time_us),
                ..now
            }
        };
        let says = |work: &Self| work.jobs > 0 || work.debt_bytes.is_some_and(|debt| debt > 0);
        now.into_iter().map(difference).filter(says).collect()
    }

    /// Bytes written for each byte that came.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        Some(self.written_bytes as f64 / self.in_bytes.filter(|&bytes| bytes > 0)? as f64)
    }
}

impl TableShape {
    /// The shape in one line, newest tree first: `memtable 38,239 | L0 6 runs 33.0 MiB | L1 87.0 MiB`.
    #[must_use]
    pub fn line(&self) -> String {
        use crate::text::{bytes, count, counted};
        let mut parts = Vec::new();
        if let Some(entries) = self.memtable_entries.filter(|&entries| entries > 0) {
            parts.push(format!("memtable {}", count(entries)));
        }
        if let Some(waiting) = self.immutable_memtables.filter(|&waiting| waiting > 0) {
            parts.push(counted(waiting, "full memtable", "full memtables"));
        }
        for level in &self.levels {
            let runs = match level.sorted_runs {
                1 if level.level > 0 => String::new(),
                runs => format!("{} ", counted(runs, "run", "runs")),
            };
            parts.push(format!("L{} {runs}{}", level.level, bytes(level.bytes)));
        }
        if let Some(height) = self.btree_height {
            let size = self.btree_bytes.map(|size| format!(", {}", bytes(size))).unwrap_or_default();
            parts.push(format!("B-tree of height {height}{size}"));
        }
        if parts.is_empty() { "empty".to_owned() } else { parts.join(" | ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_a_step_is_told_by_level() {
        let work = |level: &str, jobs: u64, bytes: u64, debt: u64| LevelWork {
            level: level.to_owned(),
            jobs,
            in_bytes: Some(bytes),
            written_bytes: 2 * bytes,
            debt_bytes: Some(debt),
            ..LevelWork::default()
        };
        let earlier = [work("L0", 3, 100, 0), work("L1", 1, 50, 5)];
        let now = vec![work("L0", 5, 160, 0), work("L1", 1, 50, 0), work("L2", 0, 0, 7), work("L3", 1, 10, 0)];
        let step = LevelWork::since(now, &earlier);
        assert_eq!(step, [work("L0", 2, 60, 0), work("L2", 0, 0, 7), work("L3", 1, 10, 0)]);
        assert_eq!((step[0].write_amplification(), step[1].write_amplification()), (Some(2.0), None));
    }
}
