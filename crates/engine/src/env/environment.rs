//! What a database has from outside, in one place.

use std::sync::Arc;

use super::file::FileSystem;
use super::thread::{Clock, Random, Threads};

/// Everything that a database needs from outside.
#[derive(Clone, Debug)]
pub struct Env {
    /// Files and directories.
    pub fs: Arc<dyn FileSystem>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Background work and waiting.
    pub threads: Arc<dyn Threads>,
    /// Randomness, for the identity of a new database only.
    pub random: Arc<dyn Random>,
}
