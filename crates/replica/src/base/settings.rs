//! What a node is told when it is opened.

use std::time::Duration;

use super::config::Times;
use super::error::{Error, Result};

/// The longest election timeout.
const ELECTION_TIMEOUT_MAX: Duration = Duration::from_secs(120);

/// What a node is told when it is opened. All members of a set should have the same but for [`Settings::host`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The name of the set. A member whose database was part of a set with another name is refused.
    pub set_name: String,
    /// The address under which other members and clients reach this one, such as `db1.example.org:27017`. It says which
    /// member of the configuration this node is.
    pub host: String,
    /// The time between heartbeats of the primary. Smaller finds a primary that failed sooner, and costs messages.
    /// Default 100 ms; 10 ms to 10 s.
    pub heartbeat: Duration,
    /// A member that hears nothing of a primary for this time, and up to as long again, asks for an election. Default
    /// 500 ms; at least three heartbeats, at most 120 s.
    pub election_timeout: Duration,
    /// Bytes of the newest entries of the replicated log that are kept in memory, for members that are a little behind.
    /// Default 64 MiB; at least 1 MiB.
    pub log_cache_bytes: usize,
    /// Bytes of the redo log that every member keeps for others although their entries have been applied. A member that
    /// was away for longer gets a copy of the database in place of them. Default 1 GiB. The engine keeps no more than
    /// `log_bytes_max` and `log_keep_bytes` of [`spinney::Options`] together, and no more than the latter when it is
    /// opened again.
    pub log_keep_bytes: u64,
    /// The times that the configuration of the set had when the node was opened: they go before those above.
    pub(crate) times: Option<Times>,
}

impl Settings {
    /// The default settings for a member of a set.
    #[must_use]
    pub fn new(set_name: impl Into<String>, host: impl Into<String>) -> Self {
        let Times { heartbeat_ms, election_timeout_ms } = Times::default();
        Self {
            set_name: set_name.into(),
            host: host.into(),
            heartbeat: Duration::from_millis(heartbeat_ms),
            election_timeout: Duration::from_millis(election_timeout_ms),
            log_cache_bytes: 64 << 20,
            log_keep_bytes: 1 << 30,
            times: None,
        }
    }

    /// How long a member that hears of a primary elects no other one. A primary that has heard of no majority for so
    /// long takes no writes and is silent, so that others elect one.
    pub(crate) fn lease(&self) -> Duration {
        self.election_timeout * 2
    }

    /// How long a primary may hear of no majority until it leads no more.
    pub(crate) fn silence_max(&self) -> Duration {
        self.election_timeout * 3
    }

    /// # Errors
    /// `InvalidConfig` for values out of range.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |what: &str| Err(Error::InvalidConfig(what.to_owned()));
        let millis = self.heartbeat.as_millis();
        if self.set_name.is_empty() || self.host.is_empty() {
            return refuse("a member needs the name of its set and its own address");
        }
        if !(10..=10_000).contains(&millis) {
            return refuse("the time between heartbeats is 10 ms to 10 s");
        }
        if self.election_timeout < self.heartbeat * 3 || self.election_timeout > ELECTION_TIMEOUT_MAX {
            return refuse(
                "the election timeout is at least three times the time between heartbeats, and at most 120 s",
            );
        }
        if self.log_cache_bytes < 1 << 20 {
            return refuse("the memory for the replicated log is at least 1 MiB");
        }
        Ok(())
    }

    /// The same with the times of the configuration of a set, if that has some.
    pub(crate) fn with_times(mut self, times: Option<Times>) -> Self {
        if let Some(times) = times {
            self.heartbeat = Duration::from_millis(times.heartbeat_ms);
            self.election_timeout = Duration::from_millis(times.election_timeout_ms);
        }
        self.times = times;
        self
    }

    /// Sets [`Settings::heartbeat`].
    #[must_use]
    pub fn heartbeat(mut self, time: Duration) -> Self {
        self.heartbeat = time;
        self
    }

    /// Sets [`Settings::election_timeout`].
    #[must_use]
    pub fn election_timeout(mut self, time: Duration) -> Self {
        self.election_timeout = time;
        self
    }

    /// Sets [`Settings::log_keep_bytes`].
    #[must_use]
    pub fn log_keep_bytes(mut self, bytes: u64) -> Self {
        self.log_keep_bytes = bytes;
        self
    }
}
