//! When a job of the background that could not read something is tried again: at intervals that double, so that a
//! damaged block costs little while it is there, and what is read late after all is not forgotten.

use std::time::Duration;

use crate::base::sync::Mutex;
use crate::base::{Error, Result};

/// The rest after the second failure in a row. After the first there is none: what woke the job is as likely to find it
/// mended.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(60);

/// The failures in a row of a job of a table.
#[derive(Debug, Default)]
pub(crate) struct Retry(Mutex<Option<Failing>>);

#[derive(Debug)]
struct Failing {
    failures: u32,
    retry_at: Duration,
    /// The last failure.
    error: Error,
}

impl Retry {
    /// The job could not read something, and is tried again after a rest from `now` on.
    pub(crate) fn failed(&self, error: &Error, now: Duration) {
        let mut failing = self.0.lock();
        let before = failing.as_ref().map_or(0, |failing| failing.failures);
        let rest = match before.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => REST_MIN.saturating_mul(1 << doublings.min(16)).min(REST_MAX),
        };
        let (failures, retry_at) = (before.saturating_add(1), now.saturating_add(rest));
        *failing = Some(Failing { failures, retry_at, error: error.again() });
    }

    /// The job was done.
    pub(crate) fn succeeded(&self) {
        *self.0.lock() = None;
    }

    /// How long from `now` on the job rests.
    pub(crate) fn rest(&self, now: Duration) -> Option<Duration> {
        let rest = self.0.lock().as_ref()?.retry_at.saturating_sub(now);
        (!rest.is_zero()).then_some(rest)
    }

    /// How long from `now` on the job waits for its next try, unless it is woken before.
    pub(crate) fn wait(&self, now: Duration) -> Option<Duration> {
        let failing = self.0.lock();
        failing.as_ref().map(|failing| failing.retry_at.saturating_sub(now).max(REST_MIN))
    }

    /// Whether the last try failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Ends a rest: the job is tried when it is due.
    pub(crate) fn end_rest(&self) {
        if let Some(failing) = self.0.lock().as_mut() {
            failing.retry_at = Duration::ZERO;
        }
    }

    /// What the last try said, if it failed.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.0.lock() {
            Some(failing) => Err(failing.error.again()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ErrorKind;

    #[test]
    fn the_rests_double_up_to_a_minute_and_a_success_ends_them() {
        let (retry, now) = (Retry::default(), Duration::from_secs(1000));
        let error = Error::new(ErrorKind::Corruption, "damaged");
        let failed = || {
            retry.failed(&error, now);
            retry.rest(now).map_or(0, |rest| rest.as_secs())
        };
        let rests: Vec<_> = (0..9).map(|_| failed()).collect();
        assert_eq!(rests, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(retry.rest(now + Duration::from_secs(59)), Some(Duration::from_secs(1)));
        assert_eq!((retry.rest(now + REST_MAX), retry.is_failing()), (None, true));
        assert_eq!(retry.check().unwrap_err().to_string(), "damaged");
        retry.end_rest();
        assert_eq!((retry.rest(now), retry.wait(now)), (None, Some(REST_MIN)));
        retry.succeeded();
        assert!(!retry.is_failing() && retry.check().is_ok() && retry.wait(now).is_none());
        assert_eq!(failed(), 0);
    }
}
