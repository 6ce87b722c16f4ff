//! Repair of collections, and what a salvage of the engine's database means to documents: lost keys are named as
//! collections and `_id`s, and what depends on documents, indexes and counts, is made to agree with those that are
//! left.
//!
//! The engine salvages tables, each for itself. The entries of an index that survive may be of documents that do not,
//! and the other way round. So each collection is validated afterwards, and repaired where it does not agree.

mod collection;
mod lost;
mod mend;

pub use collection::{LeftOut, Repair};
pub use lost::LostDocuments;
pub use mend::{Mended, MendedCollection, OnMended, Salvaged, mend};
