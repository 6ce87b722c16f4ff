//! The database, in layers: each owns its state behind a type of its own, and uses only those before it.
//!
//! ```text
//! state/        directory, files, manifest, tables, what is visible, health
//! throttle/     what keeps writers from outrunning flushes: memory, write stalls, disk space
//! commit/       the commit path: order, redo log, memtables, publication
//! jobs/         flushes, merges, compactions, range deletes, expiry, views, bulk loads, and the workers that do them
//! maintenance/  checkpoint, verification, salvage, reading the log of a database that is not open
//! open/         recovery into an open database, whose parts are wired in one place; close
//! api/          the handles that users hold
//! ```

mod api;
mod commit;
mod jobs;
mod maintenance;
mod open;
mod state;
#[cfg(test)]
mod tests;
mod throttle;

pub use self::api::batch::Batch;
pub use self::api::bulk_load::BulkLoad;
pub use self::api::change_feed::{ChangeFeed, Commit, FeedWaker};
pub use self::api::database::{Database, DatabaseBuilder};
pub use self::api::history::History;
pub use self::api::key_range::{KeyRange, prefix_range};
pub use self::api::live_stats::LiveStats;
pub use self::api::prepared::Prepared;
pub use self::api::range::Range;
pub use self::api::ranges::Ranges;
pub use self::api::read_tracker::Isolation;
pub use self::api::snapshot::Snapshot;
pub use self::api::stats::{CacheStats, FlushStats, LevelStats, LogStats, ReadStats, Stats, StorageStats};
pub use self::api::stored_note::StoredNote;
pub use self::api::table_handle::Table;
pub use self::api::transaction::{Savepoint, Transaction};
pub use self::api::typed::{KeyCodec, KeyFor, TypedRange, TypedTable, ValueCodec, ValueFor};
pub use self::maintenance::checkpoint::CheckpointReport;
pub use self::maintenance::log_reader::{LogEntry, LogFollower, kept_log_bytes, read_log};
pub use self::maintenance::salvage::{SalvageMode, SalvageReport, TableAhead, TableLoss};
pub use self::maintenance::salvage_to::{SalvageProgress, SalvagedCopy, SalvagedTable};
pub use self::maintenance::verify::{Problem, VerifyReport};
pub use self::open::checkpoint_beside::checkpoint_beside;
pub use self::state::events::{Event, EventListener};
pub use self::state::options::{Durability, Options};
pub use crate::base::Histogram;
pub use crate::log::ReplayProgress;
