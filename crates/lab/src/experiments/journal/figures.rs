//! The columns of the experiment: what a transaction wrote, and what its time went to.

use crate::driver::Counters;
use crate::report::{Cost, Figure, Step};

/// What the columns are made of; `None` where it is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    items: u64,
    seconds: f64,
    written_bytes: Option<f64>,
    /// As `written_bytes`, with what the trees got when the database settled.
    settled_bytes: Option<f64>,
    log_bytes: Option<u64>,
    record_bytes: Option<u64>,
    cpu_us: f64,
    log_io_us: Option<u64>,
    compression_us: Option<u64>,
    /// The clients' CPU that went neither to log I/O nor to compression.
    collections_us: Option<f64>,
}

impl Figures {
    /// The cost of all items and of the sync after them; a step that the engine does not have, or did not come to, adds
    /// nothing. Where the log is not compressed no time went to that, whether the engine counts it or not.
    pub(super) fn of(items: &Step, sync: Option<&Step>, settle: Option<&Step>, compresses: bool) -> Self {
        let cost_of = |step: &Step| step.cost.unwrap_or_default();
        let total = |field: &dyn Fn(&Cost) -> f64| {
            let of_step = |step: &Step| field(&cost_of(step)) * cost_of(step).operations.max(1) as f64;
            of_step(items) + sync.map_or(0.0, of_step)
        };
        let counted = |field: &dyn Fn(&Counters) -> Option<u64>| {
            Some(field(&items.counters)? + sync.and_then(|step| field(&step.counters)).unwrap_or(0))
        };
        // The sync is none of the clients' work, so neither is its log I/O.
        let log_us = |counters: &Counters| {
            let compression_us = if compresses { counters.log_compression_us? } else { 0 };
            Some((counters.log_io_us? + compression_us) as f64)
        };
        let foreground_us = cost_of(items).foreground_cpu_us * cost_of(items).operations as f64;
        let written_bytes =
            items.written_bytes().map(|bytes| bytes + sync.and_then(Step::written_bytes).unwrap_or(0.0));
        Self {
            items: cost_of(items).operations,
            seconds: cost_of(items).seconds + sync.map_or(0.0, |sync| cost_of(sync).seconds),
            written_bytes,
            settled_bytes: written_bytes.zip(settle.and_then(Step::written_bytes)).map(|(until, after)| until + after),
            log_bytes: counted(&|counters| counters.log_written_bytes),
            record_bytes: counted(&|counters| counters.log_record_bytes),
            cpu_us: total(&|cost| cost.cpu_us),
            log_io_us: counted(&|counters| counters.log_io_us),
            compression_us: counted(&|counters| counters.log_compression_us).filter(|_| compresses),
            collections_us: log_us(&items.counters).map(|log_us| (foreground_us - log_us).max(0.0)),
        }
    }

    /// The columns in their order.
    pub(super) fn columns(&self) -> Vec<Figure> {
        let megabytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / 1e6);
        let per_item = |value: f64| value / self.items.max(1) as f64;
        let count_per_item = |value: Option<u64>| value.map(|value| per_item(value as f64));
        vec![
            Figure::less("MBw", "MB", self.written_bytes.map(|bytes| bytes / 1e6)),
            Figure::less("MBall", "MB", self.settled_bytes.map(|bytes| bytes / 1e6)),
            Figure::less("logMB", "MB", megabytes(self.log_bytes)),
            Figure::less("recMB", "MB", megabytes(self.record_bytes)),
            Figure::less("secs", "s", self.seconds),
            Figure::less("cpu/i", "us", per_item(self.cpu_us)),
            Figure::less("logio/i", "us", count_per_item(self.log_io_us)),
            Figure::less("comp/i", "us", count_per_item(self.compression_us)),
            Figure::less("coll/i", "us", self.collections_us.map(per_item)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(operations: u64, written_kib: f64, us: f64, counters: Counters) -> Step {
        let cost = Cost {
            operations,
            seconds: us * operations.max(1) as f64 / 1e6,
            written_kib: Some(written_kib),
            cpu_us: us,
            foreground_cpu_us: us / 2.0,
            ..Cost::default()
        };
        Step { cost: Some(cost), counters, ..Step::default() }
    }

    fn values(figures: Figures) -> Vec<Option<f64>> {
        figures.columns().iter().map(|figure| figure.value).collect()
    }

    #[test]
    fn the_sync_counts_and_the_time_splits() {
        let log = |bytes, io, compression| Counters {
            log_written_bytes: Some(bytes),
            log_record_bytes: Some(2 * bytes),
            log_io_us: Some(io),
            log_compression_us: Some(compression),
            ..Counters::default()
        };
        let items = step(1_000, 1.0, 10.0, log(1_000_000, 1_000, 500));
        let sync = step(0, 1_000.0, 2_000.0, log(24_000, 1_000, 0));
        let settle = step(0, 500.0, 0.0, Counters::default());
        let expected = [2.048, 2.56, 1.024, 2.048, 0.012, 12.0, 2.0, 0.5, 3.5];
        let found = values(Figures::of(&items, Some(&sync), Some(&settle), true));
        assert!(
            found.iter().zip(expected).all(|(found, expected)| (found.unwrap() - expected).abs() < 1e-9),
            "{found:?}"
        );
        let plain = values(Figures::of(&items, Some(&sync), Some(&settle), false));
        assert_eq!((plain[7], plain[8]), (None, Some(4.0)), "all but log I/O is collections");
    }

    #[test]
    fn what_the_engine_does_not_say_is_absent() {
        let items = step(1_000, 1.0, 10.0, Counters { log_io_us: Some(1), ..Counters::default() });
        let found = values(Figures::of(&items, None, None, true));
        let known: Vec<bool> = found.iter().map(Option::is_some).collect();
        assert_eq!(known, [true, false, false, false, true, true, true, false, false]);
    }
}
