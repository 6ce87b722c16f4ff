//! Consensus, by the library openraft. No other module names it.

pub(crate) mod appends;
pub(crate) mod consensus;
pub(crate) mod convert;
mod line;
mod log_store;
mod machine;
pub(crate) mod network;
pub(crate) mod runtime;
#[cfg(test)]
mod suite;
pub(crate) mod types;
pub(crate) mod view;
mod watch;
mod wire;
