//! The statistics of a database as text that Prometheus reads.
//!
//! # Format
//! The text exposition format, version 0.0.4: for each metric a HELP line, a TYPE line and its samples. Names begin
//! with `spinney_`, counters end with `_total`, units are seconds and bytes. Histograms are cumulative. Reads are
//! counted for each table, by the label `table`; flushes, compactions and merges for each level, by the label `place`.

use spinney::{Histogram, LevelStats, ReadStats, Stats};
use std::fmt::Write as _;

/// What a metric counts in, and so how its number is written.
#[derive(Clone, Copy)]
enum Unit {
    /// As it is: a count, or bytes.
    One,
    /// Kept in microseconds, told in seconds.
    Micros,
}

/// All statistics in the text format of Prometheus.
pub(crate) fn text(stats: &Stats) -> String {
    let mut text = Text(String::with_capacity(16 << 10));
    text.put_database(stats);
    text.put_log(stats);
    text.put_trees(stats);
    text.put_levels(stats);
    text.put_reads(stats);
    text.0
}

/// The text so far.
struct Text(String);

impl Text {
    fn put_database(&mut self, stats: &Stats) {
        self.counter("commits", "Commits that returned without an error.", stats.commits);
        self.counter("conflicts", "Commits refused because of a conflict.", stats.conflicts);
        self.counter("delays", "Times a writer was delayed, so that flushes and compactions keep up.", stats.delays);
        self.seconds("delay", "Time that writers were delayed.", stats.delay_us);
        self.counter("stalls", "Times a writer was stopped until a flush made room.", stats.stalls);
        self.seconds("stall", "Time that writers were stopped.", stats.stall_us);
        self.gauge("memtable_bytes", "Memory that memtables hold now.", stats.memtable_bytes);
        let help = "Memory that memtables of unlogged tables hold now: what a crash would take back.";
        self.gauge("unlogged_memtable_bytes", help, stats.unlogged_memtable_bytes);
        self.gauge("unlogged_tables", "Tables without redo log.", stats.unlogged_tables);
        self.gauge("memory_limit_bytes", "The memory budget.", stats.memory_bytes);
        self.gauge("snapshots", "Snapshots and transactions open now.", stats.snapshots);
    }

    fn put_log(&mut self, stats: &Stats) {
        let log = &stats.log;
        self.counter("log_appends", "Records appended to the redo log.", log.appends);
        self.counter(
            "log_record_bytes",
            "Bytes of the records appended, without headers and padding.",
            log.record_bytes,
        );
        let help = "Bytes of the records appended, after compression.";
        self.counter("log_packed_bytes", help, log.packed_bytes);
        self.seconds("log_compression", "Time spent on compressing records.", log.compression_us);
        self.counter("log_groups", "Groups of records made durable.", log.groups);
        self.counter("log_written_bytes", "Bytes written to the log, with headers and padding.", log.written_bytes);
        self.counter("log_filled_bytes", "Zeros filled ahead in the page cache.", log.filled_bytes);
        self.counter("log_writes", "Write calls of the log.", log.writes);
        self.counter("log_syncs", "Times the device was told to make the log durable.", log.syncs);
        let help = "Records that each force of the log made durable together.";
        self.histogram("log_group_appends", help, &log.group_appends, Unit::One);
        self.histogram("log_sync_seconds", "Time of each sync or durable write.", &log.sync_us, Unit::Micros);
        self.counter("log_waits", "Times a thread waited for a force of another thread.", log.waits);
        self.counter("log_segments_created", "Segment files made new.", log.segments_created);
        self.counter("log_segments_recycled", "Segment files kept for use as new ones.", log.segments_recycled);
        self.counter("log_segments_removed", "Segment files removed.", log.segments_removed);
        self.counter("log_spare_bytes", "Zeros written ahead for segments to come.", log.spare_bytes);
        self.counter(
            "log_replayed_bytes",
            "Bytes of records replayed when the database was opened.",
            log.bytes_replayed,
        );
        self.seconds("log_replay", "Time that the recovery took.", log.replay_us);
    }

    fn put_trees(&mut self, stats: &Stats) {
        let (flush, cache, storage) = (&stats.flush, &stats.cache, &stats.storage);
        self.counter("flushes", "Flushes of memtables.", flush.flushes);
        self.counter("flush_written_bytes", "Bytes of blocks that flushes wrote.", flush.flush_bytes);
        self.counter("compactions", "Compactions, those that only moved runs not counted.", flush.compactions);
        self.counter("compaction_read_bytes", "Bytes of blocks that compactions read.", flush.compaction_read_bytes);
        self.counter("compaction_written_bytes", "Bytes of blocks that they wrote.", flush.compaction_write_bytes);
        let help = "Leaves that compactions took over as they were.";
        self.counter("compaction_reused_leaves", help, flush.compaction_reused_leaves);
        let help = "Bytes of free space that a compaction lacks which is due.";
        self.gauge("space_missing_bytes", help, flush.space_missing_bytes);
        let help = "Compactions in the background that something could not be read for.";
        self.counter("failed_compactions", help, flush.failed_compactions);
        let help = "Merges into B-trees that something could not be read for; their changes lie in runs over the tree.";
        self.counter("failed_merges", help, flush.failed_merges);
        self.counter("cache_hits", "Lookups in the block cache that found their block.", cache.hits);
        self.counter("cache_misses", "Lookups in the block cache that did not find their block.", cache.misses);
        let populated = "Blocks that were put into the cache when they were written.";
        self.counter("cache_populated", populated, cache.populated);
        self.counter("cache_evictions", "Blocks thrown out of the cache.", cache.evicted);
        self.gauge("cache_bytes", "Bytes of blocks in the cache now.", cache.bytes);
        self.gauge("cache_limit_bytes", "Bytes that the cache may hold now.", cache.capacity_bytes);
        self.counter("storage_reads", "Calls that read block files.", storage.reads);
        self.counter("storage_read_bytes", "Bytes that they read.", storage.read_bytes);
        self.counter("storage_writes", "Calls that wrote block files.", storage.writes);
        self.counter("storage_written_bytes", "Bytes that they wrote.", storage.written_bytes);
        self.gauge("value_files", "Files of values that are kept apart.", stats.values.files);
        self.gauge("value_bytes", "Bytes of these files.", stats.values.bytes);
        self.gauge("value_live_bytes", "Bytes of them that are in use.", stats.values.live_bytes);
        self.counter("storage_syncs", "Calls that forced a block file to the device.", storage.syncs);
    }

    fn put_levels(&mut self, stats: &Stats) {
        type Value = fn(&LevelStats) -> u64;
        let counters: [(&str, &str, Unit, Value); 5] = [
            ("level_jobs", "Flushes, compactions and merges into the level.", Unit::One, |level| level.jobs),
            ("level_in_bytes", "Bytes that came from memory or from above.", Unit::One, |level| level.in_bytes),
            ("level_rewritten_bytes", "Bytes there that were merged with them.", Unit::One, |level| {
                level.rewritten_bytes
            }),
            ("level_written_bytes", "Bytes written to the level.", Unit::One, |level| level.written_bytes),
            ("level_seconds", "Time that flushes, compactions and merges took.", Unit::Micros, |level| level.time_us),
        ];
        for (name, help, unit, value) in counters {
            let values = stats.levels.iter().map(|level| (&*level.place, value(level)));
            self.labelled(&format!("{name}_total"), help, "counter", unit, "place", values);
        }
        let gauges: [(&str, &str, Value); 2] = [
            ("level_bytes", "Bytes in the level now.", |level| level.bytes),
            ("level_debt_bytes", "Bytes above the target of the level.", |level| level.debt_bytes),
        ];
        for (name, help, value) in gauges {
            let values = stats.levels.iter().map(|level| (&*level.place, value(level)));
            self.labelled(name, help, "gauge", Unit::One, "place", values);
        }
    }

    fn put_reads(&mut self, stats: &Stats) {
        type Count = fn(&ReadStats) -> u64;
        let counters: [(&str, &str, Count); 12] = [
            ("gets", "Keys that were looked up.", |reads| reads.gets),
            ("get_trees", "Trees that lookups of keys searched.", |reads| reads.get_trees),
            ("get_filters", "Filters that lookups of keys asked.", |reads| reads.get_filters),
            ("get_filter_misses", "Filters that let a key pass in vain.", |reads| reads.get_filter_misses),
            ("get_blocks", "Blocks that lookups of keys looked at.", |reads| reads.get_blocks),
            ("get_blocks_read", "Blocks that lookups of keys read from files.", |reads| reads.get_blocks_read),
            ("seeks", "Walks over a range.", |reads| reads.seeks),
            ("seek_trees", "Trees that walks over a range searched.", |reads| reads.seek_trees),
            ("seek_blocks", "Blocks that walks over a range looked at.", |reads| reads.seek_blocks),
            ("seek_blocks_read", "Blocks that walks over a range read from files.", |reads| reads.seek_blocks_read),
            ("seek_filters", "Filters that walks asked for the prefix of their range.", |reads| reads.seek_filters),
            ("seek_filter_misses", "Filters that let a prefix pass in vain.", |reads| reads.seek_filter_misses),
        ];
        for (name, help, count) in counters {
            let values = stats.table_reads.iter().map(|(table, reads)| (&**table, count(reads)));
            self.labelled(&format!("{name}_total"), help, "counter", Unit::One, "table", values);
        }
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.metric(&format!("{name}_total"), help, "counter", Unit::One, value);
    }

    /// A counter of time.
    fn seconds(&mut self, name: &str, help: &str, micros: u64) {
        self.metric(&format!("{name}_seconds_total"), help, "counter", Unit::Micros, micros);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.metric(name, help, "gauge", Unit::One, value);
    }

    fn metric(&mut self, name: &str, help: &str, kind: &str, unit: Unit, value: u64) {
        self.head(name, help, kind);
        self.line(format_args!("spinney_{name} {}", number(value, unit)));
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram, unit: Unit) {
        self.head(name, help, "histogram");
        let mut seen = 0;
        for (index, count) in histogram.counts.iter().enumerate() {
            seen += count;
            let bound = Histogram::bound(index).map_or_else(|| "+Inf".to_owned(), |bound| number(bound, unit));
            self.line(format_args!("spinney_{name}_bucket{{le=\"{bound}\"}} {seen}"));
        }
        self.line(format_args!("spinney_{name}_sum {}", number(histogram.sum, unit)));
        self.line(format_args!("spinney_{name}_count {seen}"));
    }

    /// A metric with a sample for each value of a label.
    fn labelled<'a>(
        &mut self,
        name: &str,
        help: &str,
        kind: &str,
        unit: Unit,
        label: &str,
        values: impl Iterator<Item = (&'a str, u64)>,
    ) {
        self.head(name, help, kind);
        for (at, value) in values {
            let (at, value) = (at.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"), number(value, unit));
            self.line(format_args!("spinney_{name}{{{label}=\"{at}\"}} {value}"));
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        self.line(format_args!("# HELP spinney_{name} {help}"));
        self.line(format_args!("# TYPE spinney_{name} {kind}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes whatever is written");
    }
}

/// A value in base units. Exact: microseconds are divided in decimal.
fn number(value: u64, unit: Unit) -> String {
    match unit {
        Unit::One => value.to_string(),
        Unit::Micros => {
            let text = format!("{}.{:06}", value / 1_000_000, value % 1_000_000);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn is_name(name: &str) -> bool {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    }

    /// Checks text in the exposition format, and returns its samples by name and labels.
    fn check(text: &str) -> BTreeMap<String, f64> {
        let (mut samples, mut seen, mut lines) = (BTreeMap::new(), BTreeSet::new(), text.lines().peekable());
        assert!(text.ends_with('\n'));
        while let Some(help) = lines.next() {
            let (name, words) = help.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
            assert!(is_name(name) && words.ends_with('.') && seen.insert(name.to_owned()), "{help}");
            let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap().to_owned();
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            let (mut buckets, mut last): (Vec<(f64, f64)>, _) = (Vec::new(), name.to_owned());
            while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
                let (id, value) = sample.rsplit_once(' ').unwrap();
                let value: f64 = value.parse().unwrap();
                assert!(samples.insert(id.to_owned(), value).is_none(), "{sample}");
                if let Some(bound) = id.strip_prefix(&format!("{name}_bucket{{le=\"")) {
                    buckets.push((bound.strip_suffix("\"}").unwrap().parse().unwrap(), value));
                }
                last = id.to_owned();
            }
            match &*kind {
                "histogram" => {
                    assert!(buckets.is_sorted() && buckets.is_sorted_by_key(|bucket| bucket.1), "{name}: {buckets:?}");
                    assert_eq!(buckets.last().unwrap(), &(f64::INFINITY, samples[&format!("{name}_count")]));
                    assert!(samples.contains_key(&format!("{name}_sum")) && last == format!("{name}_count"));
                }
                "counter" | "gauge" => assert_eq!((last.split('{').next(), buckets.len()), (Some(name), 0)),
                _ => panic!("{name} is a {kind}"),
            }
        }
        samples
    }

    #[test]
    fn the_text_is_well_formed_and_in_base_units() {
        let (mut micros, mut appends) = (Histogram::default(), Histogram::default());
        for (index, value) in [(7, 90), (7, 100), (12, 3000), (27, u64::MAX / 2)] {
            micros.counts[index] += 1;
            micros.sum += value;
        }
        (appends.counts[3], appends.sum) = (1, 7);
        let mut stats = Stats::default();
        (stats.commits, stats.delay_us, stats.stall_us) = (12, 250_000, 1_500_000);
        (stats.log.syncs, stats.log.sync_us, stats.log.group_appends) = (4, micros, appends);
        let samples = check(&text(&stats));
        let expected = [
            ("spinney_commits_total", 12.0),
            ("spinney_delay_seconds_total", 0.25),
            ("spinney_stall_seconds_total", 1.5),
            ("spinney_log_syncs_total", 4.0),
            ("spinney_log_sync_seconds_bucket{le=\"0.000064\"}", 0.0),
            ("spinney_log_sync_seconds_bucket{le=\"0.000128\"}", 2.0),
            ("spinney_log_sync_seconds_bucket{le=\"0.004096\"}", 3.0),
            ("spinney_log_sync_seconds_bucket{le=\"+Inf\"}", 4.0),
            ("spinney_log_group_appends_bucket{le=\"8\"}", 1.0),
            ("spinney_log_group_appends_sum", 7.0),
        ];
        for (name, value) in expected {
            assert_eq!(samples.get(name), Some(&value), "{name}");
        }
    }

    #[test]
    fn times_are_written_exactly() {
        let texts = [0, 1, 64, 1_000_000, 67_108_864].map(|value| number(value, Unit::Micros));
        assert_eq!(texts, ["0", "0.000001", "0.000064", "1", "67.108864"]);
    }
}
