//! Whether the database may be used: open, closed, or poisoned by a failed write, and by the process that opened it.

use crate::base::sync::AtomicBool;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

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
    /// The open met a full disk, and nothing may be written before its end is done.
    unfinished: AtomicBool,
    /// The first failure of a write or sync. Nothing is written after it: what reached the device is not known.
    poison: OnceLock<String>,
}

impl Health {
    /// Of a database that this process opens.
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            origin,
            closing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            unfinished: AtomicBool::new(false),
            poison: OnceLock::new(),
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
        self.check_poison()
    }

    /// Refuses when the database was closed or poisoned, and while its open is not finished.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.check_poison()?;
        self.check_finished()
    }

    /// Refuses while the open is not finished.
    pub(crate) fn check_finished(&self) -> Result<()> {
        if self.is_unfinished() {
            let message =
                "the disk was full when the database was opened: it can be read, and written when there is room";
            return Err(Error::new(ErrorKind::Full, message));
        }
        Ok(())
    }

    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Acquire)
    }

    /// The open is at its end, but for what the disk has no room for.
    pub(crate) fn put_off(&self) {
        self.unfinished.store(true, Ordering::Release);
    }

    /// The open is finished.
    pub(crate) fn finished(&self) {
        self.unfinished.store(false, Ordering::Release);
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

    /// Remembers the first failure.
    pub(crate) fn poison(&self, error: &Error) {
        // A second failure is a consequence of the first, which is the one to tell.
        drop(self.poison.set(error.to_string()));
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
