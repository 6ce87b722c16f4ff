//! What flushes and compactions did for each level.

use super::rows::{Rows, by_step, write_table};
use super::view::View;
use crate::report::levels::{LEVEL_TITLES, level_cells};
use crate::report::summary::Summary;
use anyhow::Result;
use std::io::Write;

/// Prints a line for each level of each step and engine for which there was work; of repetitions the typical one.
pub(super) fn print(summary: &Summary<'_>, view: View, out: &mut dyn Write) -> Result<()> {
    let titles: Vec<String> =
        ["level"].into_iter().chain(LEVEL_TITLES.map(|(title, _)| title)).map(str::to_owned).collect();
    let cells = |step: usize, engine: usize| -> Vec<Vec<String>> {
        let levels = summary.typical(step, engine).map_or(&[][..], |step| &step.level_work);
        levels.iter().map(|work| [work.level.clone()].into_iter().chain(level_cells(work)).collect()).collect()
    };
    let table = by_step(summary, Rows::Values, &titles, 2, &cells);
    write_table("--- flushes and compactions by level", table, view, out)
}
