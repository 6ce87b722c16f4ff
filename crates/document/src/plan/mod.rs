//! Plans: how the documents that a query asks for are found.
//!
//! A [`Query`] says what is asked for, ready to be run: its filter, sort and projection are compiled.

pub mod query;

pub use query::{Hint, Query};
