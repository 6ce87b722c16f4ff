//! Consensus, by the library openraft. No other module names it.

mod convert;
mod log_store;
mod machine;
mod network;
mod runtime;
#[cfg(test)]
mod suite;
mod types;
mod wire;
