//! The result as tables for a terminal.

use super::{Report, Step};
use crate::text::{Table, digits};
use anyhow::Result;
use std::io::Write;

/// Prints the tables of a report.
///
/// # Errors
/// What `out` says.
pub fn print(report: &Report, out: &mut dyn Write) -> Result<()> {
    for run in &report.runs {
        let mut table =
            Table::new(&["step", "ops", "db.gb", "r/o", "rKB/o", "wKB/o", "cs/o", "cpu/o", "rss", "engine"]);
        for step in &run.steps {
            table.row(cells(step).into_iter().chain([run.engine.name.clone()]));
        }
        write!(out, "{}", table.render())?;
        if let Some(error) = &run.error {
            writeln!(out, "{} failed: {error}", run.engine.name)?;
        }
    }
    Ok(out.flush()?)
}

fn cells(step: &Step) -> [String; 9] {
    let cost = step.cost.unwrap_or_default();
    let dash = |value: Option<f64>| value.map_or("-".to_owned(), digits);
    let size = step.after.size.map(|size| size.allocated_bytes as f64 / 1e9);
    [
        step.name.clone(),
        digits(cost.rate),
        dash(size),
        dash(cost.reads),
        dash(cost.read_kib),
        dash(cost.written_kib),
        dash(cost.switches),
        digits(cost.cpu_us),
        dash(cost.rss_bytes.map(|bytes| bytes as f64 / 1e6)),
    ]
}
