//! What a transaction does about others that change the same documents.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use spinney::{ErrorKind, Table, Transaction};

use crate::base::error::TRANSIENT_TRANSACTION_ERROR;
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::catalog::Namespace;

/// How long a statement waits at a time for a transaction that has changed what it wants to change.
const WAIT: Duration = Duration::from_secs(1);

/// How long a transaction that shares a collection waits for a change of another one: MongoDB's
/// `maxTransactionLockRequestTimeoutMillis`.
pub(super) const SHARE_WAIT: Duration = Duration::from_millis(5);

/// How a transaction finds out that another one changes what it changes.
#[derive(Debug)]
pub(super) enum Claims {
    /// At its commit: a statement that is tried again.
    AtCommit,
    /// As [`Self::AtCommit`], after waiting for the transactions that hold what it wants.
    Patient,
    /// At the write, for changes that are committed.
    Probe,
    /// At the write, also for changes of other transactions that lock. Counted while it is open.
    Lock {
        /// Of those that are open.
        _counted: Counted,
    },
}

/// An open transaction that locks what it writes.
#[derive(Debug)]
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Claims {
    /// How long the engine's transaction waits for locks.
    pub(super) const fn wait(&self) -> Duration {
        match self {
            Self::Patient => WAIT,
            _ => Duration::ZERO,
        }
    }

    /// Whether a conflict ends a transaction that a program or a client has begun, so that it must begin it again.
    pub(super) const fn is_of_caller(&self) -> bool {
        matches!(self, Self::Probe | Self::Lock { .. })
    }

    /// Makes a key the transaction's own before it writes it.
    ///
    /// # Errors
    /// `WriteConflict` (112) when another transaction has changed it, or holds it.
    pub(super) fn claim(&self, txn: &mut Transaction, table: &Table, key: &[u8]) -> Result<()> {
        let claimed = match self {
            Self::AtCommit => return Ok(()),
            Self::Probe => txn.would_conflict(table, key)?.then_some(()).map_or(Ok(()), |()| Err(conflict())),
            Self::Patient | Self::Lock { .. } => match txn.get_for_update(table, key) {
                Err(error) if error.kind() == ErrorKind::Timeout => interrupt::check().and(Err(conflict())),
                Err(error) => Err(Error::from(error)),
                Ok(_) => Ok(()),
            },
        };
        claimed.map_err(|error| self.labeled(error))
    }

    /// The error of a transaction that gives way to a change of a collection.
    pub(super) fn gives_way(&self, namespace: &Namespace) -> Error {
        if !self.is_of_caller() {
            return conflict();
        }
        let what = format!(
            "Unable to acquire lock on {namespace} within {SHARE_WAIT:?}: its indexes or options are changed, or are \
             about to be; retry the transaction"
        );
        Error::new(ErrorCode::LOCK_TIMEOUT, what).with_label(TRANSIENT_TRANSACTION_ERROR)
    }

    pub(super) fn labeled(&self, error: Error) -> Error {
        if error.is_conflict() && self.is_of_caller() { error.with_label(TRANSIENT_TRANSACTION_ERROR) } else { error }
    }
}

fn conflict() -> Error {
    let what = "Write conflict during plan execution and yielding is disabled. Please retry your operation or \
                multi-document transaction.";
    Error::new(ErrorCode::WRITE_CONFLICT, what)
}
