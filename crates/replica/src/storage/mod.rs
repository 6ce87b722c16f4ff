//! What a member keeps: the replicated log and the vote in the engine's redo log, and the entries that it applied.

pub(crate) mod applier;
pub(crate) mod cached_entries;
pub(crate) mod copies;
pub(crate) mod identity;
pub(crate) mod log;
pub(crate) mod points;
pub(crate) mod recovery;
pub(crate) mod resyncs;
pub(crate) mod rows;
pub(crate) mod stored_entries;
