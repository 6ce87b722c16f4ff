//! What reads ask of the trees.

use super::TABLE_WIDTH;
use super::rows::{all_engines, by_step, or_dash};
use crate::report::{READS, Summary, has_reads};
use anyhow::Result;
use std::io::Write;

/// Prints the steps in which any engine counted reads, if there are such.
pub(super) fn print(summary: &Summary<'_>, out: &mut dyn Write) -> Result<()> {
    if !(0..summary.steps.len()).any(|step| has_reads(summary, step)) {
        return Ok(());
    }
    let titles: Vec<String> = READS.iter().map(|measure| measure.title.to_owned()).collect();
    let cells = |step: usize, engine: usize| -> Vec<Vec<String>> {
        let value = |of| or_dash(summary.spread(step, engine, of).map(|spread| spread.median));
        let row = || READS.iter().map(|measure| value(&measure.of)).collect();
        if has_reads(summary, step) { vec![row()] } else { Vec::new() }
    };
    let table = by_step(summary, &all_engines(summary), &titles, 1, &cells);
    let heading = "--- of a get and of a range read: trees, filters asked, false positives, blocks, blocks read";
    Ok(write!(out, "\n{heading}\n{}", table.render_within(TABLE_WIDTH))?)
}
