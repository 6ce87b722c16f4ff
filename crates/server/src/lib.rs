//! MongoDB's wire protocol over the document database of Spinney.

pub mod wire;
