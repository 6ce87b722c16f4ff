//! Counters that RocksDB keeps without its statistics, which it gives as text only.

use super::native::Db;
use spinney_lab::driver::Counters;

/// Sums of what RocksDB counted between two readings.
///
/// Its sums since the start are rounded to 10 MiB; those since the last reading to 10 KiB, so these are added up.
#[derive(Debug)]
pub(super) struct Stats {
    log_mib: f64,
    stall_us: f64,
    /// `None` once there were too many to be written in full between two readings.
    log_syncs: Option<u64>,
}

impl Default for Stats {
    fn default() -> Self {
        Self { log_mib: 0.0, stall_us: 0.0, log_syncs: Some(0) }
    }
}

impl Stats {
    /// Adds what was counted since the last reading; returns the sums.
    pub(super) fn read(&mut self, db: &Db, tables: usize) -> Counters {
        let Some(text) = db.text(db.table(0), "rocksdb.dbstats") else { return Counters::default() };
        let Some(interval) = Interval::parse(&text) else { return Counters::default() };
        self.log_mib += interval.log_mib;
        self.stall_us += interval.stall_us;
        self.log_syncs = self.log_syncs.zip(interval.log_syncs).map(|(sum, more)| sum + more);
        let stalls = |table| stalls(&db.text(db.table(table), "rocksdb.cf-write-stall-stats")?);
        Counters {
            log_written_bytes: Some(whole(self.log_mib * f64::from(1 << 20))),
            log_syncs: self.log_syncs,
            stall_us: Some(whole(self.stall_us)),
            stalls: (0..tables).map(stalls).sum(),
            ..Counters::default()
        }
    }
}

/// What `rocksdb.dbstats` says of the time since it was last asked.
#[derive(Debug, PartialEq)]
struct Interval {
    log_mib: f64,
    stall_us: f64,
    log_syncs: Option<u64>,
}

impl Interval {
    fn parse(text: &str) -> Option<Self> {
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        // Interval WAL: 120 writes, 3 syncs, 40.00 writes per sync, written: 0.12 MB, 0.03 MB/s
        let log = line("Interval WAL: ")?;
        let before = |unit: &str| log.split(", ").find_map(|part| part.strip_suffix(unit));
        // Interval stall: 00:00:0.000 H:M:S, 0.0 percent
        let stall = line("Interval stall: ")?.split_once(" H:M:S")?.0;
        let seconds = stall.split(':').try_fold(0.0, |sum, part| Some(sum * 60.0 + part.parse::<f64>().ok()?))?;
        Some(Self {
            log_mib: before(" MB")?.strip_prefix("written: ")?.parse().ok()?,
            stall_us: seconds * 1e6,
            // From ten thousand on it is written as 10K.
            log_syncs: before(" syncs")?.parse().ok(),
        })
    }
}

/// Times that writers of a table were slowed or stopped.
fn stalls(text: &str) -> Option<u64> {
    let count = |name: &str| {
        let (_, rest) = text.split_once(name)?;
        rest.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty())?.parse::<u64>().ok()
    };
    Some(count("total-delays: ")? + count("total-stops: ")?)
}

fn whole(number: f64) -> u64 {
    number.round() as u64
}
