//! Tables with a row for each step and engine.

use crate::report::{Summary, engine_label};
use crate::text::Table;

/// A table with a row for each of `engines` in each step: below a line with the step's name, or, if there is one engine only, beside
/// it. `cells` gives the rows of a step and an engine.
pub(super) fn by_step(
    summary: &Summary<'_>,
    engines: &[usize],
    titles: &[String],
    left: usize,
    cells: &dyn Fn(usize, usize) -> Vec<Vec<String>>,
) -> Table {
    let alone = engines.len() == 1;
    let first = if alone { "step" } else { "engine" };
    let titles: Vec<&str> = [first].into_iter().chain(titles.iter().map(String::as_str)).collect();
    let mut table = Table::new(&titles).left(left);
    for (step, name) in summary.steps.iter().enumerate() {
        let rows: Vec<(usize, Vec<Vec<String>>)> =
            engines.iter().map(|&engine| (engine, cells(step, engine))).filter(|(_, rows)| !rows.is_empty()).collect();
        if !alone && !rows.is_empty() {
            table.group(&format!("-- {}", name.label()));
        }
        for (engine, rows) in rows {
            let label = if alone { name.label() } else { engine_label(summary.engines[engine]) };
            for (at, cells) in rows.into_iter().enumerate() {
                let label = if at == 0 { label.clone() } else { String::new() };
                table.row([label].into_iter().chain(cells));
            }
        }
    }
    table
}

/// The places of all engines.
pub(super) fn all_engines(summary: &Summary<'_>) -> Vec<usize> {
    (0..summary.engines.len()).collect()
}

/// A value, or a dash.
pub(super) fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), crate::text::digits)
}
