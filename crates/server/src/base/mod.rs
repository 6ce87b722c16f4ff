//! What every module of the crate uses: time, the log, and reading the fields of commands.

pub mod clock;
pub mod fields;
pub mod log;
pub mod pem;
