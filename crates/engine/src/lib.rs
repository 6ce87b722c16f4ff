//! Spinney: an embedded, transactional storage engine.
//!
//! Tables are laid out as B-trees or LSM trees under one redo log, one transaction manager, one cache and one memory budget.

pub mod base;
pub mod block;
pub mod cache;
mod db;
pub mod env;
pub mod log;
pub mod store;
mod table;
pub mod tree;
mod txn;

pub use base::{Error, ErrorKind, Result, SeqNum, Value};
pub use db::*;
