//! What ends an operation early: a limit of time, or a request from another thread; and what it has looked at.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::codes::ErrorCode;
use super::error::{Error, Result};
use super::system::{Environment, System};

/// How an operation was done, as [`Interrupt::plan`] tells it: shown when somebody asks.
pub type Summary = Arc<dyn Summarize>;

/// What can be told in a line, such as `IXSCAN { a: 1 }`.
pub trait Summarize: Debug + Send + Sync {
    /// The line.
    fn summary(&self) -> String;
}

/// Ends an operation early: when its time is over, or when it was killed. It also gathers what the searches of the
/// operation have looked at.
#[derive(Debug)]
pub struct Interrupt {
    environment: Arc<dyn Environment>,
    /// When the time is over, in milliseconds since 1970; `i64::MAX` without a limit. Only a check reads it.
    deadline_ms: AtomicI64,
    /// Set by the thread that kills the operation, and read by the one that runs it.
    killed: AtomicBool,
    /// Set by the thread that ends the server, and read by the one that runs the operation.
    ending: AtomicBool,
    /// Entries of indexes and documents that the operation has looked at. The thread that runs the operation adds to
    /// them; they order nothing.
    keys: AtomicU64,
    documents: AtomicU64,
    /// How the first search of the operation is done.
    plan: OnceLock<Summary>,
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
        let this = Self {
            environment,
            deadline_ms: AtomicI64::new(i64::MAX),
            killed: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            keys: AtomicU64::new(0),
            documents: AtomicU64::new(0),
            plan: OnceLock::new(),
        };
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

    /// Asks the operation to end because the server ends.
    pub fn shut_down(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// How many milliseconds are left, if there is a limit.
    #[must_use]
    pub fn left_ms(&self) -> Option<u64> {
        let deadline = self.deadline_ms.load(Ordering::Relaxed);
        (deadline != i64::MAX).then(|| u64::try_from(deadline.saturating_sub(self.environment.now_ms())).unwrap_or(0))
    }

    /// Adds what a search has looked at.
    pub fn add_examined(&self, keys: u64, documents: u64) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
        self.documents.fetch_add(documents, Ordering::Relaxed);
    }

    /// How many entries of indexes and documents the operation has looked at.
    #[must_use]
    pub fn examined(&self) -> (u64, u64) {
        (self.keys.load(Ordering::Relaxed), self.documents.load(Ordering::Relaxed))
    }

    /// Notes how a search of the operation is done; the first one counts.
    pub fn note_plan(&self, plan: Summary) {
        // The plan of a later search is not the operation's.
        drop(self.plan.set(plan));
    }

    /// How the first search of the operation is done, if there was one.
    #[must_use]
    pub fn plan(&self) -> Option<&Summary> {
        self.plan.get()
    }

    /// Whether the operation may go on.
    ///
    /// # Errors
    /// `MaxTimeMSExpired` (50), `Interrupted` (11601), `InterruptedAtShutdown` (11600).
    pub fn check(&self) -> Result<()> {
        if self.ending.load(Ordering::Relaxed) {
            let what = "the server ends: interrupted at shutdown";
            return Err(Error::new(ErrorCode::INTERRUPTED_AT_SHUTDOWN, what));
        }
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
