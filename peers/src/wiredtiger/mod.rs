//! WiredTiger, MongoDB's engine: its B-trees, and its LSM trees, which 3.2 was the last to support in earnest.

mod client;
mod config;
mod engine;
mod handle;
mod layout;
mod library;
mod shape;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use engine::{Tree, WiredTiger};
