//! What reads ask of the trees.

use super::rows::{Rows, by_step, or_dash, write_table};
use super::view::View;
use crate::report::column::{READS, has_reads};
use crate::report::summary::Summary;
use anyhow::Result;
use std::io::Write;

/// Prints the steps in which any engine counted reads, if there are such.
pub(super) fn print(summary: &Summary<'_>, view: View, out: &mut dyn Write) -> Result<()> {
    let titles: Vec<String> = READS.iter().map(|measure| measure.title.to_owned()).collect();
    let cells = |step: usize, engine: usize| -> Vec<Vec<String>> {
        let value = |of| or_dash(summary.spread(step, engine, of).map(|spread| spread.median));
        let row = || READS.iter().map(|measure| value(&measure.of)).collect();
        if has_reads(summary, step) { vec![row()] } else { Vec::new() }
    };
    let table = by_step(summary, Rows::Values, &titles, 1, &cells);
    let heading = "--- cache hits; of a get and of a range read: trees, filters, false positives, blocks, blocks read";
    write_table(heading, table, view, out)
}
