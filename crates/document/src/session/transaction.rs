//! A transaction that stays open between commands.

use std::sync::Arc;

use parking_lot::Mutex;
use spinney::{Durability, Estimate, Range, Ranges, SeqNum, Snapshot, Table, Value};

use crate::base::error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_COMMIT_RESULT};
use crate::base::{Error, ErrorCode, Result};
use crate::catalog::{CollectionState, Namespace};
use crate::collection::DocumentTransaction;
use crate::exec::Reader;
use crate::notes::SessionNote;
use crate::plan::KeyBounds;

/// An open transaction of a session.
#[derive(Debug)]
pub struct OpenTransaction {
    /// The number within the session.
    pub number: i64,
    /// When it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// Nothing when it has ended.
    inner: Mutex<Option<DocumentTransaction>>,
}

impl OpenTransaction {
    pub(super) fn new(number: i64, started_ms: i64, transaction: DocumentTransaction) -> Self {
        Self { number, started_ms, inner: Mutex::new(Some(transaction)) }
    }

    /// Runs a part of a statement in the transaction.
    ///
    /// # Errors
    /// `NoSuchTransaction` (251) when it has ended; what `body` says.
    pub fn with<T>(&self, body: impl FnOnce(&mut DocumentTransaction) -> Result<T>) -> Result<T> {
        match &mut *self.inner.lock() {
            Some(transaction) => body(transaction),
            None => Err(aborted(self.number)),
        }
    }

    /// Ends it without its writes, unless a statement runs in it; whether it has ended.
    pub(super) fn try_abort(&self) -> bool {
        let taken = self.inner.try_lock().map(|mut inner| inner.take());
        taken.is_some()
    }

    /// Ends it without its writes.
    pub(super) fn abort(&self) {
        let taken = self.inner.lock().take();
        drop(taken);
    }

    pub(super) fn commit(&self, note: SessionNote, durability: Option<Durability>) -> Result<()> {
        let Some(mut transaction) = self.inner.lock().take() else { return Err(aborted(self.number)) };
        transaction.set_session(note);
        let committed = match durability {
            Some(durability) => transaction.commit_with(durability),
            None => transaction.commit(),
        };
        // Of these it is known that nothing was committed.
        let failed = |error: &Error| error.is_conflict() || error.code() == ErrorCode::TRANSACTION_TOO_LARGE;
        committed.map_err(|error| if failed(&error) { error } else { error.with_label(UNKNOWN_COMMIT_RESULT) })
    }
}

/// `NoSuchTransaction` (251) of one that has been aborted.
pub(super) fn aborted(number: i64) -> Error {
    let what = format!("Transaction with {{ txnNumber: {number} }} has been aborted.");
    Error::new(ErrorCode::NO_SUCH_TRANSACTION, what).with_label(TRANSIENT_TRANSACTION_ERROR)
}

/// Reads of an open transaction, with its writes, for cursors that live longer than a command.
#[derive(Clone, Debug)]
pub struct TransactionReader {
    transaction: Arc<OpenTransaction>,
    /// What is read of a transaction that has ended; its cursors have been closed.
    snapshot: Snapshot,
}

impl TransactionReader {
    /// Reads of a transaction.
    ///
    /// # Errors
    /// `NoSuchTransaction` (251) when it has ended.
    pub fn new(transaction: &Arc<OpenTransaction>) -> Result<Self> {
        let snapshot = transaction.with(|inner| Ok(inner.engine().snapshot()))?;
        Ok(Self { transaction: Arc::clone(transaction), snapshot })
    }

    fn with<T>(&self, read: impl FnOnce(&dyn Reader) -> T) -> T {
        match &*self.transaction.inner.lock() {
            Some(transaction) => read(&transaction.engine()),
            None => read(&self.snapshot),
        }
    }
}

impl Reader for TransactionReader {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        self.with(|reader| reader.get(table, key))
    }

    fn multi_get(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        self.with(|reader| reader.multi_get(table, keys))
    }

    fn range(&self, table: &Table, bounds: KeyBounds, reverse: bool) -> Range {
        self.with(|reader| reader.range(table, bounds, reverse))
    }

    fn ranges(&self, table: &Table, ranges: &[KeyBounds], reverse: bool) -> Ranges {
        self.with(|reader| reader.ranges(table, ranges, reverse))
    }

    fn seqnum(&self) -> SeqNum {
        self.snapshot.seqnum()
    }

    fn estimate(&self, table: &Table, bounds: &KeyBounds) -> Result<Estimate> {
        self.with(|reader| reader.estimate(table, bounds))
    }

    fn created(&self, namespace: &Namespace) -> Option<Arc<CollectionState>> {
        self.transaction.inner.lock().as_ref()?.find_created(namespace)
    }
}
