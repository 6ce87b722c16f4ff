//! Options of a database, and the durability of a commit.

use std::path::PathBuf;
use std::time::Duration;

use crate::base::options::{
    self, NamedOption, OptionKind, choice, names, path_text, plain, seconds, seconds_text, time,
};
use crate::base::{Error, Result};
use crate::log::LogCompression;
use crate::table::options::setters;

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

names! { Durability, "durability", { Sync => "sync", Interval => "interval", Buffered => "buffered", } }

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

/// All options by name, in the order of the fields.
const NAMED: [NamedOption<Options>; 12] = [
    plain!(memory_bytes, OptionKind::Number(1 << 20, 1 << 40)),
    plain!(direct_io, OptionKind::Flag),
    NamedOption {
        name: "log_dir",
        kind: OptionKind::Path,
        set: |options, text| {
            options.log_dir = Some(text.into());
            Some(())
        },
        text: |options| path_text(options.log_dir.as_ref()),
    },
    plain!(log_segment_bytes, OptionKind::Number(64 << 10, 1 << 30)),
    plain!(log_bytes_max, OptionKind::Number(128 << 10, 1 << 50)),
    plain!(log_keep_bytes, OptionKind::Number(0, 1 << 50)),
    time!(log_keep_time, Duration::ZERO, Duration::from_secs(10 * 366 * 86_400)),
    choice!(log_compression, LogCompression),
    time!(interval, Duration::from_millis(1), Duration::from_secs(60)),
    choice!(durability, Durability),
    plain!(memtable_bytes, OptionKind::NumberOrZero(4 << 10, 64 << 30)),
    plain!(compaction_threads, OptionKind::Number(1, 64)),
];

impl Options {
    /// All options by name, in the order of the fields.
    #[must_use]
    pub const fn named() -> &'static [NamedOption<Self>] {
        &NAMED
    }

    /// Sets the option of a name, which is that of its field, from text: a number, `true` or `false`, a name, a path,
    /// or seconds for a time. [`Self::named`] tells the names, kinds and ranges.
    ///
    /// ```
    /// use spinney::{Durability, Options};
    /// let mut options = Options::default();
    /// options.set("durability", "interval")?;
    /// options.set("interval", "0.25")?;
    /// assert_eq!(options.durability, Durability::Interval);
    /// # Ok::<(), spinney::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a name that there is not, and for a text that is not of the option's kind or range.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        options::set(&NAMED, self, "database", name, text)
    }

    /// Checks every field's range, and what goes together.
    ///
    /// # Errors
    /// `Invalid`, naming the field and its range.
    pub fn check(&self) -> Result<()> {
        options::check(&NAMED, self)?;
        if self.log_bytes_max < 2 * self.log_segment_bytes {
            return Err(Error::invalid(format!(
                "option log_bytes_max is {}: it must be at least two segments of {} bytes (option log_segment_bytes)",
                self.log_bytes_max, self.log_segment_bytes
            )));
        }
        self.log_compression.method().check_built("the redo log (option log_compression)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_name() {
        let text = format!("{:?}", Options::default());
        assert!(NAMED.iter().all(|option| text.contains(&format!("{}: ", option.name()))), "{text}");
        assert_eq!(text.matches(": ").count(), NAMED.len(), "a new option needs its line in NAMED: {text}");
    }

    #[test]
    fn options_come_back_from_their_text() {
        let options = Options::default()
            .memory_bytes(1 << 20)
            .direct_io(false)
            .log_dir(PathBuf::from("/logs/a b"))
            .log_segment_bytes(64 << 10)
            .log_bytes_max(128 << 10)
            .log_keep_bytes(7)
            .log_keep_time(Duration::from_millis(1))
            .log_compression(LogCompression::Zstd)
            .interval(Duration::from_micros(1500))
            .durability(Durability::Buffered)
            .memtable_bytes(4 << 10)
            .compaction_threads(64);
        let mut read = Options::default();
        for option in Options::named() {
            read.set(option.name(), &option.text(&options).expect("each has a value")).unwrap();
        }
        assert_eq!(read, options);
        let refused = read.set("interval", "0.0001").unwrap_err().to_string();
        assert_eq!(refused, "option interval is 0.0001: it must be 0.001 to 60 seconds");
        assert!(read.set("memtable_bytes", "4095").is_err() && read.set("memtable_bytes", "0").is_ok());
    }

    #[test]
    fn the_log_has_room_for_two_segments() {
        let refused = Options::default().log_segment_bytes(1 << 30).check().unwrap_err().to_string();
        assert!(refused.contains("log_bytes_max is 1073741824") && refused.contains("two segments"), "{refused}");
    }
}
