//! The bytes of the replicated log: entries as they stand in the redo log, and what they change.

pub(crate) mod change;
pub(crate) mod copying;
pub(crate) mod hello;
pub(crate) mod introduction;
pub(crate) mod log_entry;
pub(crate) mod resync_request;
