//! Spinney's document database: collections of BSON documents, with MongoDB's data model and semantics, that a Rust
//! program embeds. It is a layer on the public interface of the engine, the crate `spinney`, without a network and
//! without an asynchronous runtime.
//!
//! The layers, bottom first:
//!
//! | module | what it is |
//! |---|---|
//! | [`base`] | errors with MongoDB's codes |
//! | [`bson`] | BSON read in place, built, ordered, hashed, and as extended JSON |
//! | [`collation`] | how strings are compared by the rules of a language |
//! | [`keys`] | keys whose order in bytes is the order of values; the keys that an index has of a document |
//! | [`path`] | dotted paths and their traversals |
//! | [`pattern`] | regular expressions |
//! | [`expr`] | expressions |
//! | [`query`] | filters |
//! | [`projection`] | projections |
//! | [`aggregate`] | pipelines |
//! | [`update`] | updates |
//! | [`notes`] | what the log says of a commit beside its puts |
//! | [`catalog`] | which collections and indexes there are, in which tables of the engine |
//! | [`plan`] | what a query asks for, and how it is found |
//! | [`exec`] | queries that run |
//! | [`collection`] | documents: insert, find by `_id`, replace, delete; index maintenance, builds, validation |
//! | [`database`] | [`Database`], where a program begins |
//! | [`repair`] | collections that disagree with their indexes, after a salvage or otherwise |
//! | [`session`] | sessions: transactions between commands, writes that are done once |
//! | [`typed`] | collections of Rust types |
//! | [`changes`] | change streams |
//! | [`command`] | commands as clients of MongoDB send them |

// Before the modules, which use it.

/// A [`DocumentBuf`](bson::DocumentBuf) of names and values: `doc! {"a": 1, "b": &doc! {"c": "x"}}`.
#[macro_export]
macro_rules! doc {
    ($($name:literal : $value:expr),* $(,)?) => {{
        #[allow(unused_mut, reason = "a document without fields changes nothing")]
        let mut builder = $crate::bson::DocumentBuilder::new();
        $(builder.append($name, $value);)*
        builder.finish()
    }};
}

pub mod aggregate;
pub mod base;
pub mod bson;
pub mod catalog;
pub mod changes;
pub mod collation;
pub mod collection;
pub mod command;
pub mod database;
pub mod exec;
pub mod expr;
pub mod keys;
pub mod notes;
pub mod path;
pub mod pattern;
pub mod pipeline;
pub mod plan;
pub mod projection;
pub mod query;
pub mod repair;
pub mod session;
pub mod typed;
pub mod update;

pub use base::{Error, ErrorCode, Result};
pub use catalog::{Agreed, Committer, Pending, PreparedCommit};
pub use collection::{Collection, DocumentTransaction};
pub use database::Database;

/// The examples of the guide are tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/guide/documents.md")]
    struct Documents;
}
