//! Options of a database, and the durability of a commit.

use std::path::PathBuf;
use std::time::Duration;

use crate::base::Result;
use crate::log::LogCompression;
use crate::table::options::{check_range, setters};

/// What a commit survives once it has returned. It is promised for changes of logged tables; those of unlogged ones
/// (see [`TableOptions::logged`](crate::TableOptions::logged)) write and sync nothing, and survive from the flush of
/// their table on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Durability {
    /// The power fails: the commit is on the device before it returns, and nobody sees it earlier.
    #[default]
    Sync,
    /// The process or the power fails after [`Options::interval`]: the commit is written and synced in the background
    /// by then.
    Interval,
    /// The process dies: the commit is with the operating system before it returns. A power failure may take it back.
    Buffered,
}

/// Options of a database. All may change from one open to the next.
///
/// ```
/// use spinney::Options;
/// let options = Options::default().memory_bytes(64 << 20);
/// assert!(options.direct_io);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Memory for memtables, cached blocks, filters and indexes together. More memory means fewer reads from storage,
    /// and fewer and larger flushes. The process needs a small fixed part besides, and trees may keep up to a
    /// thirty-second more of what they use of their indexes. Default 256 MiB; 1 MiB to 1 TiB.
    pub memory_bytes: u64,
    /// Pass the page cache by for data files and synced log writes, where the file system can. Saves copies and memory;
    /// without it the operating system caches blocks a second time. Default true. (Threads that should stay awake for
    /// such reads: [`Env::os_polling`](crate::env::Env::os_polling).)
    pub direct_io: bool,
    /// The directory of the redo log, to have it on a device of its own. The database remembers it: later opens need
    /// not name it, and an open that names another is refused, unless the log was moved there by hand while the
    /// database was closed. It is made when the database is created, belongs to this database alone, lies outside of
    /// the database's directory, and its path is UTF-8. A copy of the database's directory without it is no database:
    /// use a checkpoint. Default none: `log` in the database's directory.
    pub log_dir: Option<PathBuf>,
    /// Bytes of one segment of the redo log. Larger segments are switched less often; smaller ones are given back
    /// sooner. Default 32 MiB; 64 KiB to 1 GiB.
    pub log_segment_bytes: u64,
    /// Live bytes of the redo log that make the oldest memtables be flushed. More means fewer flushes of rarely written
    /// tables and a longer recovery. They are flushed before when the log has four segments and is eight times as long
    /// as what memtables hold, mostly padding of small durable commits. Default 1 GiB; at least two segments.
    pub log_bytes_max: u64,
    /// Bytes of the redo log that are kept though no recovery needs them, so that a
    /// [change feed](crate::Database::changes) can go on from an older position, also after the database was closed or
    /// crashed. Whole segments, of together no more than this. Default 0; up to 1 PiB.
    pub log_keep_bytes: u64,
    /// The time for which the redo log is kept though no recovery needs it, of that no more than `log_bytes_max` bytes.
    /// What an open finds counts as written then. It is given up at the next flush after the time has passed. Default
    /// 0; up to 10 years.
    pub log_keep_time: Duration,
    /// How commits are compressed in the redo log: each by itself, by the thread that commits, and only where that
    /// saves a 4 KiB block. Saves bytes written by commits of more than 4 KiB, and costs their time. Default
    /// [`LogCompression::Off`].
    pub log_compression: LogCompression,
    /// The longest time for which a commit with [`Durability::Interval`] stays volatile. Default 100 ms; 1 ms to 1
    /// minute.
    pub interval: Duration,
    /// The durability of commits that do not name one. Default [`Durability::Sync`].
    pub durability: Durability,
    /// Bytes of a memtable that make its table be flushed. Default 0: derived from `memory_bytes`, shared by all
    /// tables, the largest first. Else 4 KiB to 64 GiB.
    pub memtable_bytes: u64,
    /// Threads that compact runs in the background. More keep up with more writers and take more of the machine.
    /// Default 1; 1 to 64.
    pub compaction_threads: u32,
}

setters! {
    Options {
        memory_bytes: u64,
        direct_io: bool,
        log_dir: impl Into<Option<PathBuf>>,
        log_segment_bytes: u64,
        log_bytes_max: u64,
        log_keep_bytes: u64,
        log_keep_time: Duration,
        log_compression: LogCompression,
        interval: Duration,
        durability: Durability,
        memtable_bytes: u64,
        compaction_threads: u32,
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            direct_io: true,
            log_dir: None,
            log_segment_bytes: 32 << 20,
            log_bytes_max: 1 << 30,
            log_keep_bytes: 0,
            log_keep_time: Duration::ZERO,
            log_compression: LogCompression::Off,
            interval: Duration::from_millis(100),
            durability: Durability::Sync,
            memtable_bytes: 0,
            compaction_threads: 1,
        }
    }
}

impl Options {
    /// Checks every field's range.
    ///
    /// # Errors
    /// `Invalid`, naming the field and its range.
    pub fn check(&self) -> Result<()> {
        check_range("memory_bytes", self.memory_bytes, 1 << 20, 1 << 40)?;
        check_range("log_segment_bytes", self.log_segment_bytes, 64 << 10, 1 << 30)?;
        check_range("log_bytes_max", self.log_bytes_max, 2 * self.log_segment_bytes, 1 << 50)?;
        check_range("log_keep_bytes", self.log_keep_bytes, 0, 1 << 50)?;
        check_range("log_keep_time (in seconds)", self.log_keep_time.as_secs(), 0, 10 * 366 * 86_400)?;
        let interval_us = u64::try_from(self.interval.as_micros()).unwrap_or(u64::MAX);
        check_range("interval (in microseconds)", interval_us, 1_000, 60_000_000)?;
        self.log_compression.method().check_built("the redo log (option log_compression)")?;
        if self.memtable_bytes != 0 {
            check_range("memtable_bytes", self.memtable_bytes, 4 << 10, 64 << 30)?;
        }
        check_range("compaction_threads", u64::from(self.compaction_threads), 1, 64)
    }
}
