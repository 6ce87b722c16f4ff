//! The result as tables for a terminal.

mod costs;
mod header;
mod latencies;
mod reads;
mod rows;
mod shapes;

use super::column::explanations;
use super::model::Report;
use super::remarks;
use super::remarks::sources;
use super::summary::Summary;
use crate::text::{terminal_width, wrap};
use anyhow::Result;
use std::io::Write;

/// How the tables are shown.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Characters of a line that a table may take before it goes on below.
    pub width: usize,
    /// Say what each column means that was shown.
    pub explain: bool,
}

impl View {
    /// Characters that a line of words may have: longer ones are hard to read.
    pub(super) fn text_width(self) -> usize {
        self.width.min(100)
    }
}

impl Default for View {
    /// As wide as the terminal, without explanations.
    fn default() -> Self {
        Self { width: terminal_width(), explain: false }
    }
}

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
        reads::print(&summary, view, out)?;
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
