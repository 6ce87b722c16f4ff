//! The `bench` command: arguments, one worker process for each run of an engine, and the report.

mod args;
mod compare;
mod handover;
mod job;
mod parent;
mod worker;

pub use args::{BenchArgs, BenchCommand, Common, DurabilityArg, OutputArgs, RunArgs};
pub use job::Job;
pub use worker::run_job;

use crate::driver::Engine;
use crate::stop::Stop;
use anyhow::Result;
use std::io::Write;

/// What a binary brings to the command.
#[derive(Debug)]
pub struct Host {
    /// The engines that it knows, in the order in which reports show them; the first is what the others are compared
    /// with.
    pub engines: Vec<Box<dyn Engine>>,
    /// The arguments with which the binary runs [`BenchCommand::Worker`].
    pub worker: &'static [&'static str],
}

/// Runs the command, printing results to `out`.
///
/// # Errors
/// Wrong arguments, or what a benchmark says. [`crate::Interrupted`] when `stop` was asked for; results so far are
/// printed and written then, marked as partial.
pub fn run(args: BenchArgs, host: &Host, stop: &Stop, out: &mut dyn Write) -> Result<()> {
    match args.command {
        BenchCommand::Worker => worker::run(host, stop, out),
        BenchCommand::Engines => parent::print_engines(host, out),
        BenchCommand::Compare(args) => compare::run(&args, out),
        BenchCommand::Run(run) => parent::run(run, host, stop, out),
    }
}
