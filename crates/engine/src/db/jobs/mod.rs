//! The work on trees: flushes, merges into B-trees, compactions, the collection of dead values, range deletes, expiry
//! and sorted views.
//!
//! Each is a job of one table, and all have one shape:
//!
//! ```text
//! plan     a pure function of the table's trees and options (`table/policy`) says what is due
//! needs    the bytes of free space that it takes; a job that lacks them waits, and is told in the statistics
//! run      reads and writes beside readers and commits; nothing refers to what it writes
//! install  one record in the manifest, then readers see the new trees (`install.rs`); what they replace is removed
//! ```
//!
//! and one policy for errors, [`job::or_poison`].

pub(crate) mod btree_merge;
pub(crate) mod compaction;
pub(crate) mod expiry;
pub(crate) mod flush;
pub(crate) mod flusher;
mod install;
pub(crate) mod job;
pub(crate) mod load;
pub(crate) mod output;
mod range_deletes;
pub(crate) mod run_merge;
mod schedule;
pub(crate) mod sorted_view;
pub(crate) mod tables;
mod value_gc;
pub(crate) mod workers;
