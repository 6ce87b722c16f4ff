//! Counters that RocksDB keeps without its statistics, which it gives as text only, and those of its statistics where
//! they are on.

use super::native::{Db, Tickers};
use spinney_lab::Stopwatch;
use spinney_lab::driver::Counters;
use std::time::Duration;

/// Sums of what RocksDB counted between two readings.
///
/// Its bytes of log are rounded to 10 MiB, those since the last reading too, but their rate since then to 10 KiB a
/// second: so what is added up is that rate times the time between two readings, where there are no tickers.
pub(super) struct Stats {
    tickers: Option<Tickers>,
    clock: Stopwatch,
    /// When it was last read.
    last: Duration,
    log_mib: f64,
    stall_us: f64,
    /// Of the text; `None` once there were too many to be written in full between two readings.
    log_syncs: Option<u64>,
}

impl Stats {
    /// Begins to count now.
    pub(super) fn new(db: &Db, tickers: Option<Tickers>) -> Self {
        let (clock, last) = (Stopwatch::start(), Duration::ZERO);
        let mut stats = Self { tickers, clock, last, log_mib: 0.0, stall_us: 0.0, log_syncs: Some(0) };
        // What opening the database wrote is no part of the sums.
        stats.interval(db);
        stats
    }

    /// What was counted since the last reading, and how many seconds that is, as RocksDB divides by them.
    fn interval(&mut self, db: &Db) -> Option<(Interval, f64)> {
        let now = self.clock.elapsed();
        let interval = Interval::parse(&db.text(db.table(0), "rocksdb.dbstats")?)?;
        let seconds = (now - self.last).as_secs_f64().max(0.001);
        self.last = now;
        Some((interval, seconds))
    }

    /// Adds what was counted since the last reading; returns the sums.
    pub(super) fn read(&mut self, db: &Db, tables: usize) -> Counters {
        let Some((interval, seconds)) = self.interval(db) else { return Counters::default() };
        self.log_mib += interval.log_mib_per_second * seconds;
        self.stall_us += interval.stall_us;
        self.log_syncs = self.log_syncs.zip(interval.log_syncs).map(|(sum, more)| sum + more);
        let stalls = |table| stalls(&db.text(db.table(table), "rocksdb.cf-write-stall-stats")?);
        let (log_bytes, log_syncs) = match &self.tickers {
            Some(tickers) => (tickers.log_bytes(), Some(tickers.log_syncs())),
            None => (whole(self.log_mib * f64::from(1 << 20)), self.log_syncs),
        };
        Counters {
            log_written_bytes: Some(log_bytes),
            log_syncs,
            stall_us: Some(whole(self.stall_us)),
            stalls: (0..tables).map(stalls).sum(),
            ..Counters::default()
        }
    }
}

/// What `rocksdb.dbstats` says of the time since it was last asked.
#[derive(Debug, PartialEq)]
struct Interval {
    log_mib_per_second: f64,
    stall_us: f64,
    log_syncs: Option<u64>,
}

impl Interval {
    fn parse(text: &str) -> Option<Self> {
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        // Interval WAL: 120 writes, 3 syncs, 40.00 writes per sync, written: 0.00 GB, 0.03 MB/s
        let log = line("Interval WAL: ")?;
        let before = |unit: &str| log.split(", ").find_map(|part| part.strip_suffix(unit));
        // Interval stall: 00:00:0.000 H:M:S, 0.0 percent
        let stall = line("Interval stall: ")?.split_once(" H:M:S")?.0;
        let seconds = stall.split(':').try_fold(0.0, |sum, part| Some(sum * 60.0 + part.parse::<f64>().ok()?))?;
        Some(Self {
            log_mib_per_second: before(" MB/s")?.parse().ok()?,
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

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
** DB Stats **
Uptime(secs): 12.0 total, 2.0 interval
Cumulative writes: 12K writes, 12K keys, 12K commit groups, 1.0 writes per commit group, ingest: 0.01 GB, 0.83 MB/s
Cumulative WAL: 12K writes, 4 syncs, 3000.00 writes per sync, written: 0.01 GB, 0.83 MB/s
Cumulative stall: 00:01:2.500 H:M:S, 0.1 percent
Interval writes: 2000 writes, 2000 keys, 2000 commit groups, 1.0 writes per commit group, ingest: 1.66 MB, 0.83 MB/s
Interval WAL: 2000 writes, 4 syncs, 500.00 writes per sync, written: 0.00 GB, 0.83 MB/s
Interval stall: 00:01:2.500 H:M:S, 0.1 percent
Write Stall (count): write-buffer-manager-limit-stops: 0
";

    #[test]
    fn intervals_are_read_from_the_text() {
        let interval = Interval::parse(TEXT);
        assert_eq!(interval, Some(Interval { log_mib_per_second: 0.83, stall_us: 62.5e6, log_syncs: Some(4) }));
        let many = TEXT.replace("writes, 4 syncs", "writes, 12K syncs");
        assert_eq!(Interval::parse(&many).and_then(|interval| interval.log_syncs), None, "it is rounded");
        assert_eq!(Interval::parse("** DB Stats **"), None);
    }

    #[test]
    fn stalls_are_delays_and_stops() {
        let text = "Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 1, total-delays: 3, total-stops: 40\n";
        assert_eq!(stalls(text), Some(43));
        assert_eq!(stalls(""), None);
    }
}
