//! Commits: their order, the redo log, the memtables that they go to, and their publication.

pub(crate) mod batch_memtable;
pub(crate) mod order;
pub(crate) mod pipeline;
pub(crate) mod range_tombstones;
pub(crate) mod upkeep;
pub(crate) mod validation;
