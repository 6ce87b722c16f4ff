//! Commits: their order, the redo log, the memtables that they go to, and their publication.

pub(crate) mod batch_memtable;
mod finder;
pub(crate) mod order;
pub(crate) mod pipeline;
pub(crate) mod range_tombstones;
mod retention;
pub(crate) mod upkeep;
pub(crate) mod validation;
pub(crate) mod write_set;
