//! Documents of a collection: insert, find by `_id`, replace and delete, with all indexes maintained in the same
//! transaction.
//!
//! # Invariants
//! 1. An index has exactly the entries of the documents that it takes: [`validate`] proves it.
//! 2. An entry is put once between removals, so that it can be removed by a single-delete.
//! 3. Two transactions that insert the same key of a unique index write the same key of the engine, and one of them
//!    fails: the engine's conflict is the constraint.
//!
//! Entries of indexes that are not unique are written without a look at what is there.

pub mod build;
mod capped;
mod capped_write;
mod claims;
mod convert;
mod created;
pub mod delete;
pub mod duplicate;
mod entries;
mod entry_sorter;
mod expire;
pub mod find_and_modify;
pub mod handle;
pub mod insert;
mod parts;
pub mod prepare;
pub mod rebuild_ids;
pub mod transaction;
pub mod update;
pub mod validate;
mod write;

pub use delete::DeleteStatement;
pub use find_and_modify::{FindAndModify, FindOneOptions, FoundAndModified};
pub use handle::{Collection, WriteOptions};
pub use insert::InsertMany;
pub use transaction::DocumentTransaction;
pub use update::{UpdateOptions, UpdateResult, UpdateStatement};
pub use validate::{OnValidated, Validation};
