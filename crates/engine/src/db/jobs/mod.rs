//! The work on trees: flushes, merges into B-trees, compactions, the collection of dead values, range deletes, expiry
//! and sorted views.
//!
//! Each is a job of one table, and all have one shape:
//!
//! ```text
//! plan     what is due, as the policy says (`table/policy`, pure functions of the table's trees and options)
//! needs    the bytes of free space that it takes; a job that lacks them waits, and is told in the statistics
//! run      reads and writes beside readers and commits; nothing refers to what it writes
//! install  one record in the manifest, then readers see the new trees (`install.rs`); then the job removes the runs
//!          that they replace
//! ```
//!
//! and one policy for errors, [`job::settle`]. A flush is the same without the trait [`job::Job`]: it is given the
//! order of commits in which it stands, and says what a full disk lacks.

pub(crate) mod btree_merge;
pub(crate) mod compaction;
pub(crate) mod expiry;
pub(crate) mod flush;
pub(crate) mod flusher;
mod group_flush;
pub(crate) mod housekeeping;
mod install;
pub(crate) mod job;
pub(crate) mod load;
pub(crate) mod load_conflicts;
pub(crate) mod output;
mod range_deletes;
pub(crate) mod run_merge;
mod schedule;
pub(crate) mod sorted_view;
pub(crate) mod tables;
mod value_gc;
pub(crate) mod workers;
