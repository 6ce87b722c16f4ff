//! The commands that run now, and how they are interrupted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

use parking_lot::Mutex;

use crate::base::{Environment, Error, ErrorCode, Result};
use crate::bson::DocumentBuf;

/// Ends a command early: when its time is over, or when it was killed.
#[derive(Debug)]
pub struct Interrupt {
    /// When the time is over, in milliseconds since 1970; `i64::MAX` without a limit. Only a check reads it.
    deadline_ms: AtomicI64,
    /// Set by the thread that kills the command, and read by the one that runs it.
    killed: AtomicBool,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self { deadline_ms: AtomicI64::new(i64::MAX), killed: AtomicBool::new(false) }
    }
}

impl Interrupt {
    /// An interrupt some milliseconds after `now_ms`; 0 for no limit.
    #[must_use]
    pub fn after(now_ms: i64, max_time_ms: u64) -> Self {
        let this = Self::default();
        if max_time_ms > 0 {
            let deadline = now_ms.saturating_add(i64::try_from(max_time_ms).unwrap_or(i64::MAX));
            this.deadline_ms.store(deadline, Ordering::Relaxed);
        }
        this
    }

    /// Asks the command to end.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    /// How many milliseconds are left, if there is a limit.
    #[must_use]
    pub fn left_ms(&self, now_ms: i64) -> Option<u64> {
        let deadline = self.deadline_ms.load(Ordering::Relaxed);
        (deadline != i64::MAX).then(|| u64::try_from(deadline.saturating_sub(now_ms)).unwrap_or(0))
    }

    /// Whether the command was killed, whatever the time.
    ///
    /// # Errors
    /// `Interrupted` (11601).
    pub fn check_killed(&self) -> Result<()> {
        if self.killed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorCode::INTERRUPTED, "operation was interrupted"));
        }
        Ok(())
    }

    /// Whether the command may go on.
    ///
    /// # Errors
    /// `MaxTimeMSExpired` (50), `Interrupted` (11601).
    pub fn check(&self, environment: &dyn Environment) -> Result<()> {
        self.check_killed()?;
        let deadline = self.deadline_ms.load(Ordering::Relaxed);
        if deadline != i64::MAX && environment.now_ms() >= deadline {
            return Err(Error::new(ErrorCode::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
        }
        Ok(())
    }
}

/// A command that runs.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its number.
    pub id: i32,
    /// The database.
    pub database: String,
    /// The command as it came, cut when it is long.
    pub command: DocumentBuf,
    /// The number of the connection.
    pub connection: u64,
    /// The address of the client.
    pub address: String,
    /// The session.
    pub session: Option<[u8; 16]>,
    /// When it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// How it is ended.
    pub interrupt: Arc<Interrupt>,
}

/// The commands that run.
#[derive(Debug, Default)]
pub struct Operations {
    next: AtomicI32,
    running: Mutex<BTreeMap<i32, Operation>>,
}

/// A command's place among those that run; it leaves when this is dropped.
#[derive(Debug)]
pub struct Running<'o> {
    operations: &'o Operations,
    id: i32,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.operations.running.lock().remove(&self.id);
    }
}

impl Operations {
    /// Adds a command; its number is given.
    #[must_use]
    pub fn begin(&self, mut operation: Operation) -> Running<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        operation.id = id;
        self.running.lock().insert(id, operation);
        Running { operations: self, id }
    }

    /// The commands that run now.
    #[must_use]
    pub fn list(&self) -> Vec<Operation> {
        self.running.lock().values().cloned().collect()
    }

    /// Ends a command early; whether there was one.
    pub fn kill(&self, id: i32) -> bool {
        let running = self.running.lock();
        running.get(&id).inspect(|operation| operation.interrupt.kill()).is_some()
    }

    /// Ends the commands of which `is_meant` is true.
    pub fn kill_where(&self, is_meant: impl Fn(&Operation) -> bool) {
        self.running
            .lock()
            .values()
            .filter(|operation| is_meant(operation))
            .for_each(|operation| operation.interrupt.kill());
    }
}

impl Running<'_> {
    /// The number.
    #[must_use]
    pub const fn id(&self) -> i32 {
        self.id
    }
}
