//! The redo log: what was committed, in order, on the device before the commit returns.
//!
//! The payload of a commit is opaque bytes here; the layers above give it meaning. [`LogWriter`] appends payloads and
//! makes them durable in groups, [`recover()`] reads them back after a crash ([`replay`] on all processors),
//! [`inspect`] reads them without touching anything.
//!
//! # Layers
//! Each imports only from those above it in this list.
//!
//! | file | what it is |
//! |---|---|
//! | `format` | the bytes: segments, groups, fragments |
//! | `pool/` | `SegmentPool`: the directory, live segments, spare files, readers' pins |
//! | `buffer/` | `LogBuffer`: what is appended and not written yet, and the mapped window |
//! | `sync_queue/` | `SyncQueue`: writes in flight, threads that wait, what is durable |
//! | `recovery/` | reading: segment chain, reader, recovery, replay, salvage |
//! | `writer/` | [`LogWriter`], which wires these up: appends, groups, segments that come and go |
//! | `cursor` | [`LogCursor`]: reads a log that is being written |
//!
//! # Format
//! `format` owns the bytes: a chain of fixed-size segment files, each a header sector and then groups of fragments. A
//! payload is one fragment or several. `buffer/pack` owns the bytes of a compressed payload, `buffer/delta` those of
//! one that repeats parts of an earlier one, and `pool/directory` the names of the files.
//!
//! # Invariants
//! 1. What a call of [`LogWriter::sync`] acknowledged is never written again: every synced group begins at a sector of
//!    its own.
//! 2. A fragment's checksum is seeded with the database, the segment's number and the fragment's
//!    [`Lsn`](crate::base::Lsn): bytes that an earlier life of a recycled file left behind never pass.
//! 3. Segment numbers and LSNs are never used twice, also not after a crash inside recovery.
//! 4. Nothing is ever appended behind a torn tail: every open begins a new segment, whose header says where the log
//!    before it ends. From then on less than that is corruption, and more is ignored.
//! 5. A delta and its base are in one segment, the base before it: wherever the log ends and whatever segments were
//!    given up, a delta that is there can be read.
//!
//! # Recovery
//! The first invalid fragment is the end of the log, silently, unless something written later proves that the position
//! had been durable: a later group's marker, or a later segment that sealed the log behind it. Then it is corruption.

mod format;
mod options;
mod stats;

mod failure;
mod pool;

mod buffer;

mod sync_queue;

mod recovery;

mod writer;

mod cursor;

#[cfg(test)]
mod tests;

pub use buffer::delta::{Base, CopyRange};
pub use cursor::{LogCursor, Logged};
pub use options::{LogCompression, LogHistory, LogOptions};
pub use pool::directory::{remove_log, remove_spares};
pub use recovery::parallel_replay::{AfterBatch, Apply, ReplayMode, ReplayWorkers, replay};
pub use recovery::probe::{DirContents, probe_dir};
pub use recovery::progress::ReplayProgress;
pub use recovery::reader::{LogSummary, Visit};
pub use recovery::recover::{RecoveredLog, history_bytes, inspect, inspect_on, recover, recover_unsynced};
pub use recovery::salvage::{Damaged, Wanted, examine};
pub use stats::LogStats;
pub use writer::{LogWriter, Prepared};
