//! What is done to a whole database: checkpoint, verification, salvage, discarding, and reading its redo log.

pub(crate) mod checkpoint;
mod checkpoint_base;
mod copy_dir;
pub(crate) mod discard;
pub(crate) mod file_copy;
pub(crate) mod log_reader;
pub(crate) mod salvage;
pub(crate) mod salvage_to;
mod tree_salvage;
pub(crate) mod verify;
