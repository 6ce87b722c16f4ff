//! Transactions: which changes a reader sees, in which order commits become visible, and which commits conflict.

pub mod batch;
pub mod commit_clock;
pub mod conflict;
pub mod locks;
pub mod log_points;
pub mod publish;
pub mod read_set;
pub mod recent_changes;
mod repeated;
#[cfg(all(test, shuttle))]
mod schedules;
mod shown_value;
pub mod snapshot_iter;
pub mod snapshots;
pub mod tombstone_stats;
