//! What the lab asks of a storage engine, so that one workload runs on many.
//!
//! An [`Engine`] is a way to open a database: `rocksdb`, or our own with a layout. It opens a [`Store`], which gives
//! each thread of a workload a [`Client`]. What an engine does not have it answers with [`Lacks`], and the report shows
//! a dash there.
//!
//! # Invariants
//! 1. A driver does nothing for its engine that the engine does not do: no cache, no batching, no retry of its own.
//! 2. A driver opens its engine in the best configuration that its authors or users recommend for the work, and says in
//!    [`Store::settings`] which.

mod batch;
mod bson;
mod checked;
mod client;
mod config;
mod conformance;
mod documents;
mod embedded;
mod engine;
mod lacks;
mod model;
mod null;
mod spinney;
mod spinney_parts;
mod state;
mod store;
mod wire;
#[cfg(test)]
mod wrong;

pub use batch::{Batch, Change};
pub use checked::Checked;
pub use client::{Client, Direction, Outcome, Scan};
pub use config::{Compression, Config, Durability, LogConfig, TableId, TableSpec};
pub use conformance::conformance;
pub use documents::{Condition, Conflict, Documents, Field, Find, Found, IndexSpec, Order, Update, Value};
pub use engine::Engine;
pub use lacks::{Lacks, unless_lacking};
pub use null::Null;
pub use spinney::{Spinney, engines, table_options as spinney_table_options};
pub use state::{Counters, IndexSize, LevelShape, LevelWork, TableShape};
pub use store::Store;
#[cfg(test)]
use wrong::Wrong;

/// The engines that keep documents: our own in this process with each layout that suits them, and the client of a
/// server.
#[must_use]
pub fn document_engines() -> Vec<Box<dyn Engine>> {
    let mut engines = embedded::engines();
    engines.push(Box::new(wire::Wire));
    engines
}
