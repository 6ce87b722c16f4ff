//! `doc`: the documents of a database.

pub(crate) mod args;
mod documents;
mod explain;
mod export;
mod import;
mod indexes;
mod query;
mod stats;

use crate::output::Output;
use anyhow::Result;
use args::{DocArgs, DocCommand};

/// Runs a command about documents.
pub(crate) fn run(args: &DocArgs, out: &mut Output) -> Result<()> {
    match &args.command {
        DocCommand::Import(args) => import::run(args, out),
        DocCommand::Export(args) => export::run(args, out),
        DocCommand::Find(args) => query::find(args, out),
        DocCommand::Aggregate(args) => query::aggregate(args, out),
        DocCommand::Explain(args) => explain::run(args, out),
        DocCommand::Indexes(args) => indexes::run(args, out),
        DocCommand::Stats(args) => stats::run(args, out),
    }
}
