//! The handles that users hold.

pub(crate) mod batch;
pub(crate) mod bulk_load;
pub(crate) mod change_feed;
pub(crate) mod database;
mod handle;
pub(crate) mod history;
pub(crate) mod key_range;
mod key_writes;
pub(crate) mod live_stats;
mod locking;
mod own_writes;
pub(crate) mod prepared;
pub(crate) mod range;
pub(crate) mod ranges;
pub(crate) mod read_tracker;
mod row_locks;
mod shape;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod stored_note;
mod table;
pub(crate) mod table_handle;
pub(crate) mod transaction;
pub(crate) mod typed;
mod unseen_writes;
mod walk;
