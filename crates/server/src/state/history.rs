//! What a server did over the last hour, a sample every few seconds.
//!
//! # Concurrency
//!
//! One thread adds samples; the latch is held for a moment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use spinney_document::command::State;
use spinney_document::command::spec::Access;

use crate::base::clock::now_ms;

/// Milliseconds between two samples.
pub const STEP_MS: i64 = 5_000;

/// How many samples are kept: those of an hour.
pub const SAMPLES_MAX: usize = 720;

/// The kinds of operations that are counted, in the order of [`Sample::operations`].
pub const KINDS: [&str; 6] = ["insert", "query", "update", "delete", "getmore", "command"];

/// The groups of commands whose times are told apart, in the order of [`Sample::times`].
pub const GROUPS: [&str; 3] = ["reads", "writes", "others"];

/// What happened between two samples, and what was so at the second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// The second, in milliseconds since 1970.
    pub time_ms: i64,
    /// Milliseconds between them.
    pub span_ms: i64,
    /// Operations of each of [`KINDS`].
    pub operations: [u64; KINDS.len()],
    /// Commands of each of [`GROUPS`]: how many there were and the microseconds that they took.
    pub times: [(u64, u64); GROUPS.len()],
    /// Connections that were open.
    pub connections: i64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Bytes that went.
    pub bytes_out: u64,
}

/// The samples of the last hour.
#[derive(Debug, Default)]
pub struct History(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    samples: VecDeque<Sample>,
    /// The counters at the last sample, as a sample since the beginning.
    last: Option<Sample>,
}

/// The counters of a service now.
fn totals(state: &State, time_ms: i64) -> Sample {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (counters, network) = (&state.counters, &state.network);
    let mut times = [(0, 0); GROUPS.len()];
    for (_, timed) in state.timings.iter() {
        let (count, micros) = &mut times[match timed.access {
            Access::Read => 0,
            Access::Write => 1,
            Access::Neither => 2,
        }];
        *count += timed.total;
        *micros += timed.micros;
    }
    Sample {
        time_ms,
        span_ms: 0,
        operations: [
            &counters.insert,
            &counters.query,
            &counters.update,
            &counters.delete,
            &counters.getmore,
            &counters.command,
        ]
        .map(load),
        times,
        connections: network.connections.load(Ordering::Relaxed),
        bytes_in: load(&network.bytes_in),
        bytes_out: load(&network.bytes_out),
    }
}

/// What happened between two moments.
fn between(before: &Sample, now: &Sample) -> Sample {
    let less = |now: u64, before: u64| now.saturating_sub(before);
    Sample {
        span_ms: now.time_ms.saturating_sub(before.time_ms),
        operations: std::array::from_fn(|at| less(now.operations[at], before.operations[at])),
        times: std::array::from_fn(|at| {
            let ((count, micros), (count_before, micros_before)) = (now.times[at], before.times[at]);
            (less(count, count_before), less(micros, micros_before))
        }),
        bytes_in: less(now.bytes_in, before.bytes_in),
        bytes_out: less(now.bytes_out, before.bytes_out),
        ..*now
    }
}

impl History {
    /// Takes a sample.
    pub fn take(&self, state: &State) {
        self.add(totals(state, now_ms()));
    }

    fn add(&self, now: Sample) {
        let mut kept = self.0.lock();
        if let Some(before) = kept.last.replace(now) {
            if kept.samples.len() == SAMPLES_MAX {
                kept.samples.pop_front();
            }
            kept.samples.push_back(between(&before, &now));
        }
    }

    /// The samples after a time, the oldest first.
    #[must_use]
    pub fn since(&self, time_ms: i64) -> Vec<Sample> {
        self.0.lock().samples.iter().filter(|sample| sample.time_ms > time_ms).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_differences_and_those_of_an_hour_are_kept() {
        let history = History::default();
        for at in 0..=800_i64 {
            let count = u64::try_from(at).unwrap();
            history.add(Sample {
                time_ms: at * STEP_MS,
                operations: [count * 3, 0, 0, 0, 0, 0],
                times: [(count, count * 7), (0, 0), (0, 0)],
                connections: 2,
                ..Sample::default()
            });
        }
        let samples = history.since(0);
        assert_eq!(samples.len(), SAMPLES_MAX);
        assert!(samples.iter().all(|sample| sample.operations[0] == 3 && sample.times[0] == (1, 7)));
        assert!(samples.iter().all(|sample| sample.span_ms == STEP_MS && sample.connections == 2));
        assert_eq!(history.since(799 * STEP_MS).len(), 1);
    }
}
