//! What every module of the crate uses: errors with their codes, and conversions of numbers that lose nothing.

pub mod codes;
pub mod error;
pub mod num;

pub use codes::ErrorCode;
pub use error::{Error, Result};
