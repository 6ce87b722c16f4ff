//! `bench compare`: two results of one experiment side by side.

use super::args::CompareArgs;
use crate::report::Report;
use anyhow::{Context as _, Result, ensure};
use std::io::Write;
use std::path::Path;

/// Prints both results and what the second is relative to the first.
pub(super) fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<()> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    ensure!(
        a.benchmark == b.benchmark,
        "{} is a result of `{}` and {} one of `{}`: compare two of one experiment",
        args.a.display(),
        a.benchmark,
        args.b.display(),
        b.benchmark
    );
    crate::report::print(&a, out)?;
    crate::report::print(&b, out)
}

fn read(path: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no result of `bench`", path.display()))
}
