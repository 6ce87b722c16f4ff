//! The thresholds and costs of the layout policies, in one place because they interact.
//!
//! None is an option. Each names the equation or the measurement that it comes from; numbers of four digits refer to
//! `docs/decisions`. The machine of the measurements is that of `docs/benchmarks.md`.

// ---- L0 and leveled compaction (0007) ------------------------------------------------------------------------------

/// Runs in L0 from which on a compaction into the level below is due. With `LEVEL_REWRITTEN_PER_BYTE`, each byte that
/// goes down rewrites two at most.
pub const L0_TRIGGER: usize = 4;
/// More runs than this in L0 are merged among themselves, as in RocksDB's `FindIntraL0Compaction`.
pub(super) const L0_RUNS_MAX: usize = 6;
/// The same while a compaction of the table is under way, which such a merge interrupts. `L0_RUNS_MAX` plus a few
/// flushes; it bounds L0 at about 12 runs with a single compaction thread.
pub(super) const L0_RUNS_MAX_DURING_COMPACTION: usize = 11;
/// Runs that a merge within L0 takes at least. An entry is rewritten about log(runs) / log(4) times.
pub(super) const L0_MERGED_MIN: usize = 4;
/// Full files in the first level below L0 before it is compacted further.
pub(super) const BASE_RUNS: u64 = 4;
/// Bytes of the level below that a byte from L0 may rewrite: L0 goes down when it has at least half of the bytes that
/// it overlaps.
pub(super) const LEVEL_REWRITTEN_PER_BYTE: u64 = 2;

// ---- Pressure on writers (0007) ------------------------------------------------------------------------------------

/// Runs in L0, beyond those that are wanted, at which writers are first slowed and at which they are slowed most. The
/// lower bound plus [`L0_TRIGGER`] lies above [`L0_RUNS_MAX_DURING_COMPACTION`], so that an ordinary load is not
/// slowed.
pub(super) const RUNS_SLOW: (usize, usize) = (8, 40);
/// Full files of bytes that wait to go down at which writers are first slowed and at which they are slowed most: 64 GiB
/// and 256 GiB by default, as RocksDB's limits of pending compaction bytes.
pub(super) const WAITING_SLOW: (u64, u64) = (1 << 11, 1 << 13);
/// Pressure is counted in thousandths.
pub const FULL: u64 = 1000;

// ---- Tiered compaction ---------------------------------------------------------------------------------------------

/// Sequences are similar when the next older one is at most this many percent larger than all newer ones together.
/// It is `size_ratio` of RocksDB's universal compaction; 20 % accept flushes of nearly the same size.
pub(super) const SIZE_RATIO_PERCENT: u64 = 20;
/// Percent of the last sequence that all data above it may have before everything is merged: the space amplification
/// of RocksDB's universal compaction, with its default.
pub(super) const SPACE_AMP_PERCENT: u64 = 200;

// ---- Tombstones ----------------------------------------------------------------------------------------------------

/// Range tombstones of a table from which on runs are rewritten only to remove some of them: a reader searches them in
/// log2(1000) = 10 steps.
pub const RANGE_TOMBSTONES_MANY: usize = 1000;
/// Percent of the bytes of its inputs that tombstones hide before a merge is due: the merge then gives back a byte for
/// at most three that it writes.
pub(super) const DEAD_PERCENT: u64 = 25;
/// Tombstones must hide this part (1/16) of a full file; less is not worth the fixed cost of a job.
pub(super) const DEAD_MIN_PART: u64 = 16;
/// Bytes that a tombstone takes besides its key, at least: head and offset of the block format.
pub(super) const TOMBSTONE_BYTES: u64 = 8;

// ---- Delta runs over a B-tree (0027) -------------------------------------------------------------------------------

/// Bytes of leaves that a flush may rewrite for each byte of changes: about what a byte costs that goes through a delta
/// run first (measured by the bench `parking`).
pub(super) const LEAVES_REWRITTEN_PER_BYTE: u64 = 8;
/// A flush may always rewrite this part (1/16) of a full file; so little is not worth a run.
pub(super) const LEAVES_REWRITTEN_MIN_PART: u64 = 16;
/// Percent of the B-tree's bytes that delta runs have, or that their tombstones hide or range tombstones cover, when
/// they are merged into it. Between a fifth and three fifths the rows per second do not differ (0027); less takes less
/// space and leaves fewer trees to read.
pub(super) const DELTA_PERCENT: u64 = 25;
/// Part (1/4) of the tree that stays free in its file after a merge: what the next merge of `DELTA_PERCENT` writes.
pub const KEPT_PART: u64 = 4;
/// Slices of a merge of all leaves: it then needs at most 1/16 of the tree's space at a time (0033).
pub(super) const SLICES_MAX: usize = 16;

// ---- Slices of a compaction (0033) ---------------------------------------------------------------------------------

/// A run is cut when it has 1/16 more bytes than expected, so that a slice does not end with a small run.
pub(super) const SLACK: u64 = 16;

// ---- Value files (0018) --------------------------------------------------------------------------------------------

/// Percent of live bytes below which the background rewrites a value file: space is at most twice the live bytes, and
/// each live byte is copied once for each byte reclaimed.
pub const LIVE_PERCENT: u64 = 50;
/// The same for a compaction that the caller asked for: at most 1/16 of the space is dead afterwards.
pub const PACKED_PERCENT: u64 = 94;

// ---- Filters (0019) ------------------------------------------------------------------------------------------------

/// Bits above the average that a tree's filter gets at most: more probes would cost a lookup more than the false
/// positives that they avoid.
pub(super) const MORE_MAX: f64 = 6.0;

// ---- Read-triggered jobs (0014) ------------------------------------------------------------------------------------
//
// The currency is nanoseconds of one core. A job is due when the reads of a table have been charged what it costs: at
// worst twice the cost of knowing the future (the rule of renting skis). A factor of two in a constant moves the moment
// of a job by as much and changes nothing else.

/// A run passed by a get or a scan because its filter excludes the key. Measured: 20 to 25 ns, one cache line.
pub const FILTER_NS: u64 = 25;
/// A memtable searched that lies in the processor's cache.
pub(super) const SMALL_NS: u64 = 100;
/// A sorted view searched by a get (0039).
pub(super) const VIEW_SEARCH_NS: u64 = 200;
/// A tree searched in vain by a get, a further tree in a scan, and an entry that a scan passes in a long row of dead
/// ones. Measured: 500 to 800 ns with a million entries, 2,500 with ten million.
pub(super) const SEARCH_NS: u64 = 1_200;
/// A block of such a tree that was not in memory: a read of the device.
pub(super) const READ_NS: u64 = 60_000;
/// What an entry written takes from the credit: six merges of it, about what leveled compaction spends on an entry.
pub(super) const WRITE_NS: u64 = 1_000;
/// An entry merged. Measured: 120 to 150 ns.
pub(super) const ENTRY_NS: u64 = 150;
/// An entry brought into a sorted view (0039).
pub(super) const VIEW_ENTRY_NS: u64 = 100;
/// The fixed cost of a sorted view (0039).
pub(super) const VIEW_NS: u64 = 10_000;
/// A byte read and written again: direct I/O of a mebibyte at 1 to 2 GB/s each way.
pub(super) const BYTE_NS: u64 = 1;
/// The fixed cost of a flush or merge: files made durable, and blocks read into the cache again.
pub(super) const JOB_NS: u64 = 5_000_000;

/// Keys at which the credit of the reads near them is kept: 512 keys of 256 bytes bound it at 128 KiB a table.
pub(super) const KEYS_MAX: usize = 512;
/// Bytes kept of each of these keys.
pub(super) const KEY_BYTES_KEPT: usize = 256;
/// Runs of the last level, those with the most credit, that are considered for a merge of a part of the keys.
pub(super) const HOT_RUNS_MAX: usize = 8;
/// Key ranges kept in which scans passed dead entries.
pub(super) const DEAD_RANGES_MAX: usize = 8;

const _: () = assert!(L0_TRIGGER >= L0_MERGED_MIN && L0_RUNS_MAX < L0_RUNS_MAX_DURING_COMPACTION);
const _: () = assert!(SEARCH_NS > VIEW_SEARCH_NS && VIEW_SEARCH_NS > FILTER_NS && READ_NS > SEARCH_NS);
