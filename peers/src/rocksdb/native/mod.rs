//! RocksDB's C interface behind types that keep its rules.
//!
//! The types of crate `rocksdb` serve for options only. Its `TransactionDB` cannot compact, change options or tell the
//! shape of its tables, none of its types compacts the files of one level, and each write needs a batch made anew. Here
//! a database with transactions is the same [`Db`] as one without.

mod batch;
mod db;
mod error;
mod events;
mod files;
mod iterator;
mod read;
mod tickers;
mod transaction;

pub(super) use batch::{WriteBatch, WriteOptions};
pub(super) use db::{Db, TableHandle};
pub(super) use error::Error;
pub(super) use events::{Events, LevelSum};
pub(super) use files::LiveFile;
pub(super) use iterator::Iterator;
pub(super) use read::{ReadOptions, Snapshot};
pub(super) use tickers::Tickers;
pub(super) use transaction::Transaction;
