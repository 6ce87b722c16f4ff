//! MongoDB's wire protocol: messages read from bytes and written to bytes, and a blocking client over any stream.
//!
//! A message is a [`Header`] and a body, which its [`OpCode`] describes. Bodies are read in place: documents borrow
//! from the bytes of the message, and each of them is checked once, here. All numbers are little-endian.

pub mod checksum;
pub mod client;
pub mod compress;
pub mod header;
pub mod legacy;
pub mod message;
pub mod query;
pub mod reader;

pub use client::{Client, Failure};
pub use compress::Compressor;
pub use header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX, OpCode};
pub use message::Message;
pub use query::Query;
