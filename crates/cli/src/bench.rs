//! `bench`: the laboratory's workloads.

use crate::args::{BenchArgs, BenchCommand, BenchCommonArgs, BenchInsertArgs, BenchKvArgs, WorkloadArg};
use crate::output::Output;
use crate::signals;
use anyhow::{Context as _, Result};
use serde::Serialize;
use spinney::Layout;
use spinney_lab::kv::Workload;
use spinney_lab::scratch::Scratch;
use spinney_lab::{insert, kv};
use std::fs::OpenOptions;
use std::path::Path;

/// Runs a benchmark.
pub(crate) fn run(args: &BenchArgs, out: &mut Output) -> Result<()> {
    match &args.command {
        BenchCommand::Insert(args) => insert(args, out),
        BenchCommand::Kv(args) => kv(args, out),
    }
}

fn insert(args: &BenchInsertArgs, out: &mut Output) -> Result<()> {
    let config = insert::Config {
        rows: args.rows,
        batch_rows: args.batch,
        threads: args.threads.into(),
        indexes: args.indexes.into(),
        row_bytes: usize::try_from(args.row_bytes)?,
        layouts: layouts(&args.common),
        memory_bytes: args.common.memory,
        durability: args.durability.into(),
        direct_io: args.common.direct_io,
        seed: args.common.seed,
        interval_rows: args.interval,
    };
    check_json(args.common.json.as_deref())?;
    let scratch = Scratch::new(args.common.dir.as_deref(), args.common.keep)?;
    let report = insert::run(&config, &scratch, &signals::stop()?, out)?;
    write_json(args.common.json.as_deref(), &report)
}

fn kv(args: &BenchKvArgs, out: &mut Output) -> Result<()> {
    let workload = |arg: &WorkloadArg| match arg {
        WorkloadArg::Fillseq => Workload::FillSeq,
        WorkloadArg::Fillrandom => Workload::FillRandom,
        WorkloadArg::Compact => Workload::Compact,
        WorkloadArg::Readrandom => Workload::ReadRandom,
        WorkloadArg::Fillsync => Workload::FillSync,
    };
    let config = kv::Config {
        workloads: args.workloads.iter().map(workload).collect(),
        num: args.num,
        reads: args.reads,
        syncs: args.syncs,
        value_bytes: usize::try_from(args.value_bytes)?,
        layouts: layouts(&args.common),
        memory_bytes: args.common.memory,
        durability: args.durability.into(),
        direct_io: args.common.direct_io,
        seed: args.common.seed,
    };
    check_json(args.common.json.as_deref())?;
    let scratch = Scratch::new(args.common.dir.as_deref(), args.common.keep)?;
    let report = kv::run(&config, &scratch, &signals::stop()?, out)?;
    write_json(args.common.json.as_deref(), &report)
}

fn layouts(args: &BenchCommonArgs) -> Vec<Layout> {
    args.layouts.iter().map(|&layout| layout.into()).collect()
}

/// Whether the result can be written, asked before the work and not after it; what the file holds stays until then.
#[expect(clippy::disallowed_methods, reason = "a result is no part of a database")]
fn check_json(path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).with_context(|| format!("cannot write {}", path.display()))
}

fn write_json(path: Option<&Path>, report: &impl Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
