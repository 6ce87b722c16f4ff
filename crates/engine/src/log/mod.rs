//! The redo log: what was committed, in order, on the device before the commit returns.
//!
//! Payloads are opaque bytes here; the layers above give them meaning. [`LogWriter`] appends them and makes them
//! durable in groups, [`recover()`] reads them back after a crash ([`replay`] on all processors), [`inspect`] reads
//! them without touching anything.
//!
//! # Format
//! `format` owns the bytes: a chain of fixed-size segment files, each a header sector and then records.
//!
//! # Invariants
//! 1. What a call of [`LogWriter::sync`] acknowledged is never written again: every synced group begins at a sector of
//!    its own.
//! 2. A record's checksum is seeded with the database, the segment's number and the record's [`Lsn`](crate::base::Lsn):
//!    bytes that an earlier life of a recycled file left behind never pass.
//! 3. Segment numbers and LSNs are never used twice, also not after a crash inside recovery.
//! 4. Nothing is ever appended behind a torn tail: every open begins a new segment, whose header says where the log
//!    before it ends. From then on less than that is corruption, and more is ignored.
//!
//! # Recovery
//! The first invalid record is the end of the log, silently, unless something written later proves that the position
//! had been durable: a later group's marker, or a later segment that sealed the log behind it. Then it is corruption.

mod beside;
mod chain;
mod cursor;
mod files;
mod flights;
mod format;
mod gates;
mod headless;
mod hold;
mod options;
mod output;
mod pack;
mod paged;
mod payload;
mod place;
mod progress;
mod reader;
mod recover;
mod recycle;
mod salvage;
mod segment;
mod spare;
mod stats;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use beside::{Between, Take, Takers, replay};
pub use cursor::{LogCursor, Logged};
pub use options::{LogCompression, LogOptions};
pub use pack::Packed;
pub use place::{Occupant, look};
pub use progress::ReplayProgress;
pub use reader::{LogSummary, Visit};
pub use recover::{RecoveredLog, inspect, inspect_on, recover, recover_unsynced};
pub use recycle::{Reservation, remove_log, remove_spares};
pub use salvage::{Damaged, Wanted, examine};
pub use stats::LogStats;
pub use writer::LogWriter;
