//! Whether the database may be used: open, closed, or poisoned by a failed write.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::{Error, ErrorKind, Result};

/// Open, closed or poisoned.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Set once, by `close`; read by every call, which then refuses.
    closed: AtomicBool,
    /// The first failure of a write or sync. Nothing is written after it: what reached the device is not known.
    poison: OnceLock<String>,
}

impl Health {
    /// Refuses when the database was closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database was closed"));
        }
        Ok(())
    }

    /// Refuses when the database was closed or poisoned.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.check_poison()
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

    /// Closes; false when it was closed already.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }
}
