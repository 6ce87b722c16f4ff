//! The laboratory's `bench` command with other storage engines beside our own.
//!
//! All engines of this binary share one allocator, the one that RocksDB's authors recommend, and are built for the processor of
//! the machine that builds them.

#[cfg(feature = "rocksdb")]
mod rocksdb;

use anyhow::Result;
use clap::Parser;
use spinney_lab::command::{self, BenchArgs, Host};
use spinney_lab::driver::{self, Engine};
use spinney_lab::{Interrupted, signals};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measure storage engines: speed, and what each operation costs
#[derive(Debug, Parser)]
#[command(name = "peers", version)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.bench) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::from(if error.chain().any(|cause| cause.is::<Interrupted>()) { 130 } else { 1 })
        }
    }
}

fn run(args: BenchArgs) -> Result<()> {
    let host = Host { engines: engines(), worker: &["worker"] };
    command::run(args, &host, &signals::stop()?, &mut std::io::stdout().lock())
}

/// Our own engines, and the others in the order in which reports show them.
fn engines() -> Vec<Box<dyn Engine>> {
    let mut engines = driver::engines();
    #[cfg(feature = "rocksdb")]
    engines.extend(rocksdb::engines());
    engines
}
