//! Logical sessions: transactions that stay open between commands, writes that are done once however often they are
//! sent, and snapshots that several reads share.
//!
//! # Recovery
//! What a retryable write did, and that a transaction was committed, is in the note of its commit in the log; at open
//! the notes are read back. So it is known for as long as the log is kept.
//!
//! # Concurrency
//! The registry's lock is held for a moment. A session's lock is held by the command that runs in it, which uses its
//! number; a second one waits. The lock of an open transaction is taken inside it, and by its cursors alone.

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
