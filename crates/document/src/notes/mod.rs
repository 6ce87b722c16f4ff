//! Notes: what the log says of a commit beside the puts and deletes of the engine's tables. Change streams and
//! retryable writes are read from them.
//!
//! # Format
//! A note begins with a byte of flags for its sections, which follow in this order. Numbers of fixed size are
//! little-endian; counts and lengths are of seven bits a byte, the lowest first, with the eighth bit set in all but the
//! last.
//!
//! - Flag 1, the cluster time: u64, with the seconds in the upper half.
//! - Flag 2, the session: UUID; length and name of the user; `txnNumber`, i64; 1 for a transaction and 0 for retryable
//!   writes; the count of outcomes. Each outcome: the first `stmtId`, i32; the count of statements; a byte for what it
//!   did: 0 inserted, 1 changed, 2 returned. Changed: the counts of matched and modified documents, and the length
//!   and `{"": _id}` of an upsert. Returned: length and document.
//! - Flag 4, the changes of documents in the order of the statements: their count. Each: its place among the commit's
//!   changes of collections in the order of collection numbers and keys; a byte for the kind, 0 insert, 1 replace, 2
//!   update, 3 delete, and 16 more with the document before; for an update, length and description; for a delete,
//!   length and `{_id: ..}`, which is left out where the key tells it; length and the document before.
//! - Flag 8, events of collections and indexes: their count, and each with its length.
//! - Flag 32: how many documents collections have more after the commit, or less: the count of collections; each with
//!   its number and the difference, with 0, -1, 1, -2, .. as 0, 1, 2, 3, ...
//! - Flag 16, the position of the commit among those of a replica set: u64.
//!
//! A first byte from [`FOREIGN`] on is that of a note of another program, which change streams pass over.
//!
//! Without the third section all changes are inserts, in the order of collection numbers and keys; so the note of an
//! insert has twelve bytes. A database that does not keep its log has notes of sessions and counts.

pub mod clock;
pub mod diff;
pub mod journal;
pub mod note;
mod varint;

/// The least first byte of notes that are not of documents.
pub const FOREIGN: u8 = 0x80;

pub use clock::ClusterClock;
pub use journal::Journal;
pub use note::{ChangeKind, ChangeNote, Note, Outcome, SessionNote};
