//! Where jobs write: runs, and value files beside them.

mod begun;
pub(crate) mod run_writer;
mod value_writer;
