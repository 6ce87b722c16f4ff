//! `bench`: the laboratory, with our own engines.

use crate::output::Output;
use anyhow::Result;
use spinney_lab::command::{BenchArgs, Host};
use spinney_lab::{command, driver, signals};

/// Runs a benchmark.
pub(crate) fn run(args: &BenchArgs, out: &mut Output) -> Result<()> {
    let mut engines = driver::engines();
    engines.extend(driver::document_engines());
    let host = Host { engines, worker: &["bench", "worker"] };
    command::run(args.clone(), &host, &signals::stop()?, out)
}
