//! What a binary brings to the command.

use crate::driver::Engine;

/// What a binary brings to the command.
#[derive(Debug)]
pub struct Host {
    /// The engines that it knows, in the order in which reports show them; the first is what the others are compared
    /// with.
    pub engines: Vec<Box<dyn Engine>>,
    /// The arguments with which the binary runs [`BenchCommand::Worker`](super::BenchCommand::Worker).
    pub worker: &'static [&'static str],
}
