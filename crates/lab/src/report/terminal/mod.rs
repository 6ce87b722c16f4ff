//! The result as tables for a terminal.

mod costs;
mod header;
mod histograms;
mod latencies;
mod levels;
mod reads;
mod rows;
mod shapes;
mod view;

pub use view::View;

use super::column::explanations;
use super::model::Report;
use super::remarks;
use super::remarks::sources;
use super::summary::Summary;
use crate::text::wrap;
use anyhow::Result;
use std::io::Write;

/// Prints the tables of a report.
///
/// # Errors
/// What `out` says.
pub fn print(report: &Report, view: View, out: &mut dyn Write) -> Result<()> {
    let summary = Summary::new(report);
    let width = view.text_width();
    header::print(report, &summary, view, out)?;
    if !summary.steps.is_empty() {
        costs::print(&summary, view, out)?;
        costs::print_own(&summary, view, out)?;
        latencies::print(&summary, view, out)?;
        if view.histograms {
            histograms::print(&summary, view, out)?;
        }
        reads::print(&summary, view, out)?;
        if view.levels {
            levels::print(&summary, view, out)?;
        }
        costs::print_system(&summary, view, out)?;
        shapes::print(&summary, view, out)?;
        let pages = format!("docs/lab/reports.md and docs/lab/{}.md", report.benchmark);
        let explain = if view.explain { "" } else { "; with --explain they are explained here" };
        writeln!(out, "\ncolumns  {}", wrap(&format!("{pages}{explain}"), width - 9, 9))?;
    }
    if view.explain {
        writeln!(out, "from     {}", wrap(&sources(report).join("; "), width - 9, 9))?;
        let pairs = explanations(report, &summary);
        let title_width = pairs.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0) + 2;
        for (title, meaning) in pairs {
            let meaning = wrap(&meaning, width.saturating_sub(title_width + 2).max(20), title_width + 2);
            writeln!(out, "  {title:<title_width$}{meaning}")?;
        }
    }
    let remarks = remarks(report);
    if !remarks.is_empty() {
        writeln!(out)?;
    }
    for remark in remarks {
        writeln!(out, "{}", wrap(&remark, width, 2))?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests;
