//! Execution: plans run against a reader, a snapshot or a transaction of the engine.

pub mod execution;
pub mod reader;
pub mod stored;

pub use execution::{Execution, Match};
pub use reader::Reader;
pub use stored::{Documents, StoredDocument};
