//! Extended JSON, version 2: documents as text, and text as documents.
//!
//! The canonical form keeps every type. The relaxed form writes numbers as JSON numbers and dates of the years 1970 to
//! 9999 as ISO 8601. Both are read.

mod lexer;
mod read;
mod wrappers;
mod write;
