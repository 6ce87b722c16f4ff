//! The load: threads that take turns at the next batch of rows, and a reading of all costs every so many rows.

use super::rows::RowMaker;
use super::target::Target;
use super::{Config, Cost};
use crate::clock::Stopwatch;
use crate::measure::{Latency, Meter, Usage};
use crate::stop::Stop;
use anyhow::Result;
use indicatif::ProgressBar;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Inserts all rows. `on_interval` gets the number of rows so far and the cost of those since its last call.
/// Returns the latencies of all commits.
pub(super) fn load(
    config: &Config,
    target: &Target,
    meter: &Meter,
    stop: &Stop,
    bar: &ProgressBar,
    mut on_interval: impl FnMut(u64, Cost) -> Result<()>,
) -> Result<Latency> {
    let recorder = Recorder::new(config.interval_rows, meter)?;
    let next_batch = AtomicU64::new(0);
    // A worker that fails, or a reader of results that does, ends the other workers.
    let end = Stop::default();
    let insert = |intervals: Sender<(u64, Cost)>| -> Result<()> {
        let mut row = RowMaker::new(config.seed, config.row_bytes);
        loop {
            stop.check()?;
            let first = next_batch.fetch_add(1, Ordering::Relaxed) * config.batch_rows;
            if first >= config.rows || end.asked() {
                return Ok(());
            }
            let rows = config.batch_rows.min(config.rows - first);
            let mut batch = target.batch();
            for pk in first..first + rows {
                row.make(pk);
                target.add(&row, &mut batch);
            }
            let stopwatch = Stopwatch::start();
            target.commit(batch)?;
            if let Some(interval) = recorder.record(rows, stopwatch.elapsed())?
                && intervals.send(interval).is_err()
            {
                // Nobody listens any more because printing failed, which is reported below.
                return Ok(());
            }
            bar.inc(rows);
        }
    };
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let worker = || {
            let sender = sender.clone();
            scope.spawn(|| insert(sender).inspect_err(|_| end.ask()))
        };
        let workers: Vec<_> = (0..config.threads).map(|_| worker()).collect();
        drop(sender);
        let printed = receiver.into_iter().try_for_each(|(rows, cost)| on_interval(rows, cost));
        if printed.is_err() {
            end.ask();
        }
        let inserted = workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        inserted.and(printed)
    })?;
    Ok(recorder.into_total())
}

/// Adds up commits over an interval and over all.
struct Recorder<'a> {
    interval_rows: u64,
    meter: &'a Meter,
    state: Mutex<State>,
}

struct State {
    rows: u64,
    rows_before: u64,
    usage_before: Usage,
    interval: Latency,
    total: Latency,
}

impl<'a> Recorder<'a> {
    fn new(interval_rows: u64, meter: &'a Meter) -> Result<Self> {
        let usage_before = meter.read()?;
        let (interval, total) = (Latency::new(), Latency::new());
        let state = State { rows: 0, rows_before: 0, usage_before, interval, total };
        Ok(Self { interval_rows, meter, state: Mutex::new(state) })
    }

    /// Adds a commit; when it completes an interval, returns the rows so far and the interval's cost.
    fn record(&self, rows: u64, latency: Duration) -> Result<Option<(u64, Cost)>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let intervals_before = state.rows / self.interval_rows;
        state.rows += rows;
        state.interval.record(latency);
        if state.rows / self.interval_rows == intervals_before {
            return Ok(None);
        }
        let usage = self.meter.read()?;
        let cost = Cost::new(state.rows - state.rows_before, usage - state.usage_before, state.interval.percentiles());
        state.usage_before = usage;
        state.rows_before = state.rows;
        let State { interval, total, .. } = &mut *state;
        total.add(interval);
        interval.clear();
        Ok(Some((state.rows, cost)))
    }

    fn into_total(self) -> Latency {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let State { interval, total, .. } = &mut state;
        total.add(interval);
        state.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_ends_with_the_batch_that_reaches_it() {
        let meter = Meter::start().unwrap();
        let recorder = Recorder::new(100, &meter).unwrap();
        assert!(recorder.record(60, Duration::from_micros(1)).unwrap().is_none());
        let (rows, cost) = recorder.record(60, Duration::from_micros(3)).unwrap().unwrap();
        assert_eq!((rows, cost.rows), (120, 120));
        assert!(recorder.record(79, Duration::from_micros(1)).unwrap().is_none());
        let (rows, cost) = recorder.record(1, Duration::from_micros(1)).unwrap().unwrap();
        assert_eq!((rows, cost.rows), (200, 80));
        assert!(cost.commit.max_us < 2.0, "the slow commit was in the interval before");
        assert!(recorder.into_total().percentiles().max_us > 2.0);
    }
}
