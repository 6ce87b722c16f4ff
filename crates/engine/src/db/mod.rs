//! The database: one file per verb over the layers below, and the handles that users hold.

mod absorb;
mod background;
mod batch;
mod bulk_load;
mod bypass;
mod changes;
mod checkpoint;
mod close;
mod compact;
mod core;
mod database;
mod discard;
mod erase;
mod expire;
mod finish;
mod flush;
#[cfg(test)]
mod full_disk;
mod health;
mod key_range;
mod key_writes;
mod log;
mod log_place;
mod memory;
mod merge;
mod open;
mod options;
mod own_writes;
mod range;
mod reclaim;
mod recover;
mod retry;
mod room;
mod rotate;
mod run_writer;
mod salvage;
mod salvage_to;
mod savings;
#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(test)]
mod slices;
mod snapshot;
mod space;
mod stats;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod transaction;
mod tree_salvage;
mod turns;
mod typed;
mod value_writer;
mod verify;
mod view;
mod walk;
mod write;

pub use crate::base::Histogram;
pub use crate::log::ReplayProgress;
pub use batch::Batch;
pub use bulk_load::BulkLoad;
pub use changes::{ChangeFeed, Commit};
pub use database::{Database, DatabaseBuilder};
pub use key_range::{KeyRange, prefix_range};
pub use log::{LogEntry, LogFollower, read_log};
pub use options::{Durability, Options};
pub use range::Range;
pub use salvage::{SalvageMode, SalvageReport, TableAhead, TableLoss};
pub use salvage_to::{SalvageProgress, SalvagedCopy, SalvagedTable};
pub use snapshot::Snapshot;
pub use stats::{CacheStats, FlushStats, LogStats, ReadStats, Stats, StorageStats};
pub use table::Table;
pub use transaction::Transaction;
pub use typed::{KeyCodec, KeyFor, TypedRange, TypedTable, ValueCodec, ValueFor};
pub use verify::{Problem, VerifyReport};
