//! Change streams: what happened to documents and collections, in the order of the log, as events of MongoDB.
//!
//! A [`ChangeStream`] reads the engine's change feed: the log has the documents, and the notes of its commits tell what
//! the puts do not ([`notes`](crate::notes)). It is there while the engine keeps its log (`Options::log_keep_bytes`,
//! `log_keep_time`). A [`ResumeToken`] is a position of the log and a place in the commit there.

mod begin;
mod event;
mod fragments;
mod names;
pub mod options;
pub mod stream;
pub mod token;

pub use options::{FullDocument, StreamOptions};
pub use stream::{ChangeStream, Watched};
pub use token::ResumeToken;
