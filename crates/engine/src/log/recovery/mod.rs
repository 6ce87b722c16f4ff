//! Reading a log: what its directory holds, where it ends, and what is left of a damaged one.

pub(in crate::log) mod chain;
mod headless;
pub(in crate::log) mod parallel_replay;
pub(in crate::log) mod probe;
pub(in crate::log) mod progress;
pub(in crate::log) mod read_window;
pub(in crate::log) mod reader;
pub(in crate::log) mod recover;
mod restorer;
pub(in crate::log) mod salvage;
