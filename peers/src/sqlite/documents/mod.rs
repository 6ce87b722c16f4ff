//! Documents in SQLite: a table for each collection, with the document as JSONB and indexes on expressions.

mod client;
mod sql;

pub(super) use client::DocumentsClient;
