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
//! | [`keys`] | keys whose order in bytes is the order of values; the keys that an index has of a document |
//! | [`path`] | dotted paths and their traversals |
//! | [`pattern`] | regular expressions |
//! | [`expr`] | expressions |
//! | [`query`] | filters |

pub mod base;
pub mod bson;
pub mod expr;
pub mod keys;
pub mod path;
pub mod pattern;
pub mod query;

pub use base::{Error, ErrorCode, Result};

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
