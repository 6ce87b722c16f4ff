//! The interface for C: opaque handles, a status from each call, and the message of the last error of the thread.
//!
//! `include/spinney.h` is made from these sources by cbindgen (`cargo xtask header`); a test compares them. What is
//! said here to a caller is said in C's words. Handles are references here, which are null or what an earlier call
//! gave: that, and that bytes are where a caller says, is the caller's part of the contract, as in every library for C.

mod abi;
mod batch;
mod bytes;
mod changes;
mod database;
mod documents;
mod json;
mod load;
mod options;
mod range;
mod snapshot;
mod status;
mod table;
mod transaction;

pub use abi::*;
pub use batch::*;
pub use bytes::*;
pub use changes::*;
pub use database::*;
pub use documents::*;
pub use load::*;
pub use options::*;
pub use range::*;
pub use snapshot::*;
pub use status::*;
pub use table::*;
pub use transaction::*;
