//! The result as tables for a terminal.

mod costs;
mod header;
mod latencies;
mod reads;
mod rows;
mod shapes;

use super::{Report, Summary, remarks, sources};
use crate::text::wrap;
use anyhow::Result;
use std::io::Write;

/// Characters of a line that text is wrapped to.
const WIDTH: usize = 100;
/// Characters of a line that a table may take before it goes on below.
const TABLE_WIDTH: usize = 120;

/// Prints the tables of a report.
///
/// # Errors
/// What `out` says.
pub fn print(report: &Report, out: &mut dyn Write) -> Result<()> {
    let summary = Summary::new(report);
    header::print(report, &summary, out)?;
    if !summary.steps.is_empty() {
        costs::print(&summary, out)?;
        costs::print_own(&summary, out)?;
        latencies::print(&summary, out)?;
        reads::print(&summary, out)?;
        shapes::print(&summary, out)?;
        writeln!(out, "\nfrom     {}", wrap(&sources(report).join("; "), WIDTH - 9, 9))?;
    }
    let remarks = remarks(report);
    if !remarks.is_empty() {
        writeln!(out)?;
    }
    for remark in remarks {
        writeln!(out, "{}", wrap(&remark, WIDTH, 2))?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests;
