//! Whether the database may be used: open, closed, or poisoned by a failed write, and by the process that opened it.

use std::fmt::Debug;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::base::sync::{AtomicBool, Mutex};
use crate::base::{Error, ErrorKind, Result};
use crate::env::Origin;

/// Open, closed or poisoned.
#[derive(Debug)]
pub(crate) struct Health {
    /// Where the database was opened.
    origin: Origin,
    /// Set once, when the closing begins; read by every call, which then refuses.
    closing: AtomicBool,
    /// Set once, when the closing has flushed what is left: nothing is written after it but the log's end.
    closed: AtomicBool,
    /// The first failure of a write or sync. Nothing is written after it: what reached the device is not known.
    poison: OnceLock<String>,
    /// Set once, by an open that is to read only: nothing is written.
    read_only: AtomicBool,
    /// The threads that wait for something that will not come when the database fails or is closed.
    waiting: Mutex<Vec<Arc<dyn Waiting>>>,
}

/// Threads that wait until the database has something for them.
pub(crate) trait Waiting: Debug + Send + Sync {
    /// Wakes all of them, so that each looks whether the database goes on.
    fn wake_all(&self);
}

impl Health {
    /// Of a database that this process opens.
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            origin,
            closing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            poison: OnceLock::new(),
            read_only: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Whether this is not the process that opened the database, but one that was forked from it.
    pub(crate) fn is_forked(&self) -> bool {
        !self.origin.is_here()
    }

    /// Refuses in a forked process.
    pub(crate) fn check_here(&self) -> Result<()> {
        self.origin.check()
    }

    /// Refuses when the database was closed, and in a forked process.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        self.origin.check()?;
        check_unset(&self.closing)
    }

    /// Refuses when the database was closed or poisoned. While it is being closed it does not: that is work for the
    /// closing itself.
    pub(crate) fn check_in_use(&self) -> Result<()> {
        self.origin.check()?;
        check_unset(&self.closed)?;
        self.check_may_write()?;
        self.check_poison()
    }

    /// Refuses when the database was closed or poisoned, or opened to be read only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.check_may_write()?;
        self.check_poison()
    }

    /// Nothing is written from now on.
    pub(crate) fn set_read_only(&self) {
        self.read_only.store(true, Ordering::Release);
    }

    /// Whether the database was opened to be read only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    #[inline]
    fn check_may_write(&self) -> Result<()> {
        if self.is_read_only() {
            let message = "the database was opened to be read only: open it with Database::open to change it";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    /// Refuses when the database was poisoned.
    pub(crate) fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(reason) => Err(Error::new(
                ErrorKind::Poisoned,
                format!("an earlier write failed and the database takes no more until it is reopened ({reason})"),
            )),
        }
    }

    /// Remembers the first failure, and wakes all that wait.
    pub(crate) fn poison(&self, error: &Error) {
        // A second failure is a consequence of the first, which is the one to tell.
        drop(self.poison.set(error.to_string()));
        self.wake_waiting();
    }

    /// Has these threads woken when the database fails or is closed.
    pub(crate) fn watch(&self, waiting: Arc<dyn Waiting>) {
        self.waiting.lock().push(waiting);
    }

    /// Wakes all threads that wait for the database.
    pub(crate) fn wake_waiting(&self) {
        self.waiting.lock().iter().for_each(|waiting| waiting.wake_all());
    }

    /// Begins to close; false when that was begun already.
    pub(crate) fn begin_close(&self) -> bool {
        !self.closing.swap(true, Ordering::AcqRel)
    }

    /// What had to be flushed is flushed.
    pub(crate) fn end_close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

#[inline]
fn check_unset(closed: &AtomicBool) -> Result<()> {
    if closed.load(Ordering::Acquire) {
        return Err(Error::new(ErrorKind::Closed, "the database was closed"));
    }
    Ok(())
}
