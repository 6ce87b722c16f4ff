//! Logical sessions: transactions that stay open between commands, writes that are done once however often they are
//! sent, and snapshots that several reads share.
//!
//! # Recovery
//! What a retryable write did, and that a transaction was committed, is in the note of its commit in the log. The
//! catalog stores what sessions did that were used within half an hour, now and then and at the end
//! (`catalog/log_notes.rs`); at open these rows and the notes behind them are read back.
//!
//! # Concurrency
//! The registry's lock is held for a moment. A session's lock is held while its number changes and while its
//! transaction commits. A statement that is done once holds a lock of its number while it runs, so that the same
//! statement, sent again meanwhile, waits and finds what it did. The lock of an open transaction is taken inside these,
//! and by its cursors alone.

pub mod id;
pub mod registry;
pub mod retry;
pub mod snapshots;
pub mod transaction;

pub use id::SessionId;
pub use registry::{Session, Sessions};
pub use retry::{RetryableWrites, Scope};
pub use snapshots::Snapshots;
pub use transaction::{OpenTransaction, TransactionReader};
