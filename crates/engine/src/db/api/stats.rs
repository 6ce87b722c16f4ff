//! Statistics: counters since the database was opened, and what it holds now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::num::u64_of;
use crate::db::open::core::Core;
use crate::db::state::counters::WorkCounters;
use crate::table::level::LEVELS;
use crate::table::policy::targets;
use crate::table::shape::ValuesShape;
use crate::tree::run::Run;

use super::shape::values_shape;

pub use crate::cache::CacheStats;
pub use crate::log::LogStats;
pub use crate::table::reads::ReadStats;

/// All statistics of a database. Counters never reset while it is open.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// Commits that returned without an error.
    pub commits: u64,
    /// Commits refused because of a conflict.
    pub conflicts: u64,
    /// Times a writer was delayed, by 50 ms at most, so that flushes and compactions keep up.
    pub delays: u64,
    /// Microseconds that writers spent so.
    pub delay_us: u64,
    /// Times a writer was stopped until a flush made room, because memtables had all of their memory.
    pub stalls: u64,
    /// Microseconds that writers spent so.
    pub stall_us: u64,
    /// Bytes of memory that memtables hold now.
    pub memtable_bytes: u64,
    /// Bytes of them that unlogged tables hold: what a crash would take back.
    pub unlogged_memtable_bytes: u64,
    /// Tables without redo log.
    pub unlogged_tables: u64,
    /// The memory budget.
    pub memory_bytes: u64,
    /// Snapshots and transactions open now.
    pub snapshots: u64,
    /// The redo log.
    pub log: LogStats,
    /// Flushes and compactions.
    pub flush: FlushStats,
    /// The same by the place that it is for, of all tables: L0, the levels 1 to 7, and the B-tree. A flush that goes
    /// straight into a B-tree counts there.
    pub levels: Vec<LevelStats>,
    /// The block cache.
    pub cache: CacheStats,
    /// Files of blocks.
    pub storage: StorageStats,
    /// Large values that are kept apart, of all tables.
    pub values: ValuesShape,
    /// What reads cost, of all tables there are and were.
    pub reads: ReadStats,
    /// What reads of each table cost.
    pub table_reads: BTreeMap<String, ReadStats>,
}

/// Work that brings memtables to disk and keeps trees few.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FlushStats {
    /// Flushes of memtables.
    pub flushes: u64,
    /// Bytes of blocks that they wrote.
    pub flush_bytes: u64,
    /// Compactions, those that only moved runs not counted.
    pub compactions: u64,
    /// Bytes of blocks that they read.
    pub compaction_read_bytes: u64,
    /// Bytes of blocks that they wrote.
    pub compaction_write_bytes: u64,
    /// Leaves among them that were taken over as they were, since nothing else had a key within them.
    pub compaction_reused_leaves: u64,
    /// Bytes of free space that a compaction lacks which is due; 0 when none waits for space.
    pub space_missing_bytes: u64,
    /// Compactions in the background that ended because something could not be read or is damaged. They are tried again
    /// with the next flush, and after more failures of the same table at longer intervals, of up to a minute.
    pub failed_compactions: u64,
    /// Merges of changes into a B-tree, by flushes, bulk loads and in the background, that ended because something
    /// could not be read or is damaged. The changes lie in runs over the tree, where reads find them; the merge is
    /// tried again as compactions are.
    pub failed_merges: u64,
    /// What the last of these compactions and merges said: which file, and what to do.
    pub last_failure: Option<String>,
}

/// What flushes, compactions and merges did for one place in the trees of all tables.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LevelStats {
    /// `L0`, `L1` to `L7`, or `B-tree`.
    pub place: String,
    /// Flushes, compactions and merges with their result here.
    pub jobs: u64,
    /// Bytes that came here: from memory (as memtables count them), or of runs from above.
    pub in_bytes: u64,
    /// Bytes of runs that were here and were merged with them.
    pub rewritten_bytes: u64,
    /// Bytes written here.
    pub written_bytes: u64,
    /// Microseconds that it took.
    pub time_us: u64,
    /// Bytes that are here now.
    pub bytes: u64,
    /// Bytes of them above the target of the level, which a compaction is to bring to the next one.
    pub debt_bytes: u64,
}

impl LevelStats {
    /// Bytes written here for each byte that came; 0 when none came.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.in_bytes == 0 { 0.0 } else { self.written_bytes as f64 / self.in_bytes as f64 }
    }
}

/// Reads and writes of block files.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StorageStats {
    /// Calls that read.
    pub reads: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Calls that forced a file to the device.
    pub syncs: u64,
}

impl Stats {
    pub(crate) fn of(core: &Core) -> Self {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut unlogged = core.state.tables.all();
        let values = unlogged.iter().map(|table| values_shape(&table.version.load().trees));
        let values = values.fold(ValuesShape::default(), |sum, one| ValuesShape {
            files: sum.files + one.files,
            bytes: sum.bytes + one.bytes,
            live_bytes: sum.live_bytes + one.live_bytes,
        });
        let table_reads: BTreeMap<_, _> =
            unlogged.iter().map(|table| (table.name.clone(), table.reads.stats())).collect();
        unlogged.retain(|table| !table.options.logged);
        let (counters, store) = (&core.state.counters, &core.state.files.stats());
        Self {
            commits: read(&counters.commits),
            conflicts: counters.conflicts(),
            delays: read(&counters.delays.count),
            delay_us: read(&counters.delays.us),
            stalls: read(&counters.stalls.count),
            stall_us: read(&counters.stalls.us),
            memtable_bytes: core.throttle.budget.memtable_bytes(),
            unlogged_memtable_bytes: unlogged.iter().map(|table| table.version.load().memtable_bytes()).sum(),
            unlogged_tables: u64_of(unlogged.len()),
            memory_bytes: core.state.options.memory_bytes,
            snapshots: u64_of(core.state.snapshots.count()),
            log: core.commits.log.stats(),
            flush: FlushStats {
                flushes: read(&counters.flushes),
                flush_bytes: read(&counters.flush_bytes),
                compactions: read(&counters.compactions.count),
                compaction_read_bytes: read(&counters.compactions.read_bytes),
                compaction_write_bytes: read(&counters.compactions.written_bytes),
                compaction_reused_leaves: read(&counters.compactions.reused_leaves),
                space_missing_bytes: read(&counters.failures.space_missing_bytes),
                failed_compactions: read(&counters.failures.compactions),
                failed_merges: read(&counters.failures.btree_merges),
                last_failure: counters.failures.last.lock().clone(),
            },
            levels: levels(core),
            cache: core.state.cache.stats(),
            storage: StorageStats {
                reads: read(&store.block_reads),
                read_bytes: read(&store.block_read_bytes),
                writes: read(&store.writes),
                written_bytes: read(&store.written_bytes),
                syncs: read(&store.syncs),
            },
            values,
            reads: table_reads.values().copied().fold(counters.dropped_reads.stats(), ReadStats::plus),
            table_reads,
        }
    }
}

fn place(at: usize) -> String {
    if at > LEVELS { "B-tree".to_owned() } else { format!("L{at}") }
}

/// All places, with nothing in them.
pub(super) fn no_levels() -> Vec<LevelStats> {
    (0..=LEVELS + 1).map(|at| LevelStats { place: place(at), ..LevelStats::default() }).collect()
}

/// What was done for each place, and what is there now.
fn levels(core: &Core) -> Vec<LevelStats> {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let stats = |(at, work): (usize, &WorkCounters)| LevelStats {
        place: place(at),
        jobs: read(&work.jobs),
        in_bytes: read(&work.read_bytes),
        rewritten_bytes: read(&work.rewritten_bytes),
        written_bytes: read(&work.written_bytes),
        time_us: read(&work.us),
        ..LevelStats::default()
    };
    let mut levels: Vec<_> = core.state.counters.work.all().iter().enumerate().map(stats).collect();
    for table in core.state.tables.all() {
        let trees = table.trees();
        let bytes = |runs: &[Arc<Run>]| runs.iter().map(|run| run.meta().bytes).sum::<u64>();
        levels[0].bytes += trees.l0.iter().map(|handle| handle.run.meta().bytes).sum::<u64>();
        for ((level, stats), target) in trees.levels.iter().zip(&mut levels[1..]).zip(targets(&trees, &table.options)) {
            let bytes = bytes(&level.runs);
            stats.bytes += bytes;
            stats.debt_bytes += if target == 0 { 0 } else { bytes.saturating_sub(target) };
        }
        levels[LEVELS + 1].bytes += trees.btree.as_ref().map_or(0, |root| root.meta().live_bytes());
    }
    levels
}
