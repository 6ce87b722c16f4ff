//! The columns of the article's table.

use crate::report::{Figure, Step};

/// What the columns are made of; `None` where it is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// Rows that the bytes are divided by.
    pub(super) rows: u64,
    /// The step's time in seconds.
    pub(super) seconds: f64,
    /// Bytes sent to storage.
    pub(super) written_bytes: Option<f64>,
    /// Rows committed per second, in a step that commits.
    pub(super) rate: Option<f64>,
    /// Bytes of the database for each row.
    pub(super) bytes_per_row: Option<f64>,
    /// Bytes written to the redo log.
    pub(super) log_bytes: Option<u64>,
    /// The same before compression and padding.
    pub(super) record_bytes: Option<u64>,
    /// Bytes written to make files of the redo log ahead.
    pub(super) ahead_bytes: Option<u64>,
    /// Times that the redo log was forced, for each commit.
    pub(super) syncs: Option<f64>,
    /// The mean time of a commit over that of a write to the raw device.
    pub(super) floors: Option<f64>,
}

impl Figures {
    /// What `step`, which inserted `rows` rows or came after their insertion, says itself, but for the redo log.
    pub(super) fn of(step: &Step, rows: u64) -> Self {
        let cost = step.cost.unwrap_or_default();
        let rate = (!step.operations.is_empty() && cost.seconds > 0.0).then_some(cost.rate);
        Self { rows, seconds: cost.seconds, written_bytes: step.written_bytes(), rate, ..Self::default() }
    }

    /// What the engine counted of its redo log in `step`.
    pub(super) fn with_log(self, step: &Step) -> Self {
        let counters = &step.counters;
        let calls = step.operations.first().map(|operation| operation.calls).filter(|&calls| calls > 0);
        Self {
            log_bytes: counters.log_written_bytes,
            record_bytes: counters.log_record_bytes,
            ahead_bytes: counters.log_ahead_bytes,
            syncs: counters.log_syncs.zip(calls).map(|(syncs, calls)| syncs as f64 / calls as f64),
            ..self
        }
    }

    /// The columns in the article's order, and those that are ours after them.
    pub(super) fn columns(&self) -> Vec<Figure> {
        let per_row = |bytes: f64| bytes / self.rows.max(1) as f64;
        let per_second = |bytes: f64| (self.seconds > 0.0).then(|| bytes / 1e6 / self.seconds);
        let log_bytes = self.log_bytes.map(|bytes| bytes as f64);
        vec![
            Figure::less("bpd", "bytes", self.bytes_per_row),
            Figure::plain("MB/s", "MB/s", self.written_bytes.and_then(per_second)),
            Figure::less("GBw", "GB", self.written_bytes.map(|bytes| bytes / 1e9)),
            Figure::less("secs", "s", self.seconds),
            Figure::less("bwpi", "bytes", self.written_bytes.map(per_row)),
            Figure::more("irate", "rows/s", self.rate),
            Figure::less("logb", "GB", log_bytes.map(|bytes| bytes / 1e9)),
            Figure::less("logbpi", "bytes", log_bytes.map(per_row)),
            Figure::less("recbpi", "bytes", self.record_bytes.map(|bytes| per_row(bytes as f64))),
            Figure::less("aheadpi", "bytes", self.ahead_bytes.map(|bytes| per_row(bytes as f64))),
            Figure::less("syncs/c", "", self.syncs),
            Figure::less("x floor", "", self.floors),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Counters;
    use crate::report::{Cost, Operation};

    #[test]
    fn columns_are_sums_and_quotients_of_what_was_measured() {
        let step = Step {
            cost: Some(Cost {
                operations: 1_000,
                seconds: 2.0,
                rate: 500.0,
                written_kib: Some(4.0),
                ..Cost::default()
            }),
            operations: vec![Operation { calls: 1_000, operations: 1_000, ..Operation::default() }],
            counters: Counters {
                log_written_bytes: Some(4_096_000),
                log_record_bytes: Some(250_000),
                log_ahead_bytes: Some(1 << 20),
                log_syncs: Some(500),
                ..Counters::default()
            },
            ..Step::default()
        };
        let figures = Figures { bytes_per_row: Some(146.0), floors: Some(1.5), ..Figures::of(&step, 1_000) };
        let columns = figures.with_log(&step).columns();
        let values: Vec<f64> = columns.iter().map(|figure| figure.value.unwrap()).collect();
        let expected = [146.0, 2.048, 0.004_096, 2.0, 4_096.0, 500.0, 0.004_096, 4_096.0, 250.0, 1_048.576, 0.5, 1.5];
        assert!(values.iter().zip(expected).all(|(value, expected)| (value - expected).abs() < 1e-9), "{values:?}");
    }

    #[test]
    fn what_is_not_known_is_absent() {
        let columns = Figures::of(&Step::default(), 0).columns();
        let known: Vec<&str> =
            columns.iter().filter(|figure| figure.value.is_some()).map(|figure| figure.column.name.as_str()).collect();
        assert_eq!(known, ["secs"]);
    }
}
