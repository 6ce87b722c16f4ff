//! What ends an operation early: a limit of time, or a request from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::codes::ErrorCode;
use super::error::{Error, Result};
use super::system::{Environment, System};

/// Ends an operation early: when its time is over, or when it was killed.
#[derive(Debug)]
pub struct Interrupt {
    environment: Arc<dyn Environment>,
    /// When the time is over, in milliseconds since 1970; `i64::MAX` without a limit. Only a check reads it.
    deadline_ms: AtomicI64,
    /// Set by the thread that kills the operation, and read by the one that runs it.
    killed: AtomicBool,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::after(Arc::new(System), 0)
    }
}

impl Interrupt {
    /// An interrupt some milliseconds from now; 0 for no limit.
    #[must_use]
    pub fn after(environment: Arc<dyn Environment>, max_time_ms: u64) -> Self {
        let this = Self { environment, deadline_ms: AtomicI64::new(i64::MAX), killed: AtomicBool::new(false) };
        this.limit(max_time_ms);
        this
    }

    /// Sets the limit of time to some milliseconds from now; 0 for no limit.
    pub fn limit(&self, max_time_ms: u64) {
        let deadline = match i64::try_from(max_time_ms) {
            Ok(0) | Err(_) => i64::MAX,
            Ok(limit) => self.environment.now_ms().saturating_add(limit),
        };
        self.deadline_ms.store(deadline, Ordering::Relaxed);
    }

    /// Asks the operation to end.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    /// How many milliseconds are left, if there is a limit.
    #[must_use]
    pub fn left_ms(&self) -> Option<u64> {
        let deadline = self.deadline_ms.load(Ordering::Relaxed);
        (deadline != i64::MAX).then(|| u64::try_from(deadline.saturating_sub(self.environment.now_ms())).unwrap_or(0))
    }

    /// Whether the operation may go on.
    ///
    /// # Errors
    /// `MaxTimeMSExpired` (50), `Interrupted` (11601).
    pub fn check(&self) -> Result<()> {
        if self.killed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorCode::INTERRUPTED, "operation was interrupted"));
        }
        let deadline = self.deadline_ms.load(Ordering::Relaxed);
        if deadline != i64::MAX && self.environment.now_ms() >= deadline {
            return Err(Error::new(ErrorCode::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
        }
        Ok(())
    }
}
