//! The `bench` command: arguments, one worker process for each run of an engine, and the report.

mod args;
pub(crate) mod common;
mod compare;
mod handover;
mod host;
mod job;
mod parent;
mod resume;
mod worker;

pub use args::{BenchArgs, BenchCommand, OutputArgs, RunArgs};
pub use common::{Common, DurabilityArg};
pub use host::Host;
pub use job::Job;
pub use worker::run_job;

use crate::stop::Stop;
use anyhow::Result;
use std::io::Write;

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
