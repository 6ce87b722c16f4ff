//! WiredTiger, MongoDB's engine: its B-trees, and its LSM trees, which 3.2 was the last to support in earnest.

mod client;
mod config;
mod engine;
mod handle;
mod kind;
mod layout;
mod library;
mod shape;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod verbs;

pub(crate) use engine::WiredTiger;
pub(crate) use kind::Tree;
