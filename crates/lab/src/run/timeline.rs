//! What happened when: operations and the slowest call in each second of a step.

use crate::report::Second;
use std::time::Duration;

/// Seconds of a step, as one client saw them.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline(Vec<Second>);

impl Timeline {
    /// A call ended at `at` after the step began.
    pub(super) fn record(&mut self, at: Duration, took: Duration, operations: u64) {
        let second = self.at(at);
        second.operations += operations;
        second.max_us = second.max_us.max(took.as_secs_f64() * 1e6);
    }

    /// The second that `at` lies in.
    pub(super) fn at(&mut self, at: Duration) -> &mut Second {
        let place = spinney::base::num::usize_of(at.as_secs());
        if self.0.len() <= place {
            self.0.resize(place + 1, Second::default());
        }
        &mut self.0[place]
    }

    /// Adds what another client saw.
    pub(super) fn add(&mut self, other: &Self) {
        for (place, second) in other.0.iter().enumerate() {
            let own = self.at(Duration::from_secs(place as u64));
            own.operations += second.operations;
            own.max_us = own.max_us.max(second.max_us);
        }
    }

    pub(super) fn into_seconds(self) -> Vec<Second> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_add_up_second_by_second() {
        let (mut a, mut b) = (Timeline::default(), Timeline::default());
        a.record(Duration::from_millis(500), Duration::from_micros(3), 2);
        b.record(Duration::from_millis(700), Duration::from_micros(9), 1);
        b.record(Duration::from_millis(2_100), Duration::from_micros(1), 5);
        a.add(&b);
        let seconds = a.into_seconds();
        let operations: Vec<u64> = seconds.iter().map(|second| second.operations).collect();
        assert_eq!(operations, [3, 0, 5]);
        assert!((seconds[0].max_us - 9.0).abs() < 1e-9);
    }
}
