//! Tables with a row for each step and engine.

use super::view::View;
use crate::report::summary::Summary;
use crate::text::Table;
use anyhow::Result;
use std::io::Write;

/// What the rows of a table show, which says how they are labelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// Values of all engines.
    Values,
    /// Ratios of all engines but the first to the first.
    Ratios,
}

/// A table with a row for each engine in each step: below a line with the step's name, or, if there is one engine only,
/// beside it. `cells` gives the rows of a step and an engine; those of dashes only are left out, as are steps of which
/// there is nothing to show.
pub(super) fn by_step(
    summary: &Summary<'_>,
    rows: Rows,
    titles: &[String],
    left: usize,
    cells: &dyn Fn(usize, usize) -> Vec<Vec<String>>,
) -> Table {
    let engines: Vec<usize> = (usize::from(rows == Rows::Ratios)..summary.engines.len()).collect();
    let alone = engines.len() == 1;
    let first = if alone { "step" } else { "engine" };
    let titles: Vec<&str> = [first].into_iter().chain(titles.iter().map(String::as_str)).collect();
    let mut table = Table::new(&titles).left(left);
    for (step, name) in summary.steps.iter().enumerate().filter(|(step, _)| summary.is_shown(*step)) {
        let says_something =
            |row: &Vec<String>| row.iter().skip(left - 1).any(|cell| !matches!(cell.as_str(), "" | "-"));
        let of_engine = |&engine: &usize| (engine, cells(step, engine).into_iter().filter(says_something).collect());
        let all: Vec<(usize, Vec<Vec<String>>)> =
            engines.iter().map(of_engine).filter(|(_, rows): &(usize, Vec<_>)| !rows.is_empty()).collect();
        if !alone && !all.is_empty() {
            table.group(&format!("-- {}", name.label()));
        }
        for (engine, of_engine) in all {
            let label =
                if rows == Rows::Ratios { summary.ratio_label(step, engine) } else { summary.label(step, engine) };
            let mark = if label.ends_with('~') { "~" } else { "" };
            let label = if alone { format!("{}{mark}", name.label()) } else { label };
            for (at, cells) in of_engine.into_iter().enumerate() {
                let label = if at == 0 { label.clone() } else { String::new() };
                table.row([label].into_iter().chain(cells));
            }
        }
    }
    table
}

/// Prints a table below a heading, as wide as there is room for, without columns that say nothing; nothing if all do.
pub(super) fn write_table(heading: &str, table: Table, view: View, out: &mut dyn Write) -> Result<()> {
    let (table, zeros) = table.without_empty_columns();
    if !zeros.is_empty() || !table.is_empty() {
        writeln!(out)?;
    }
    if !heading.is_empty() && (!zeros.is_empty() || !table.is_empty()) {
        writeln!(out, "{}", crate::text::wrap(heading, view.text_width(), 4))?;
    }
    if !table.is_empty() {
        write!(out, "{}", table.render_within(view.width))?;
    }
    if !zeros.is_empty() {
        let line = format!("0 in all rows: {}", zeros.join(", "));
        writeln!(out, "{}", crate::text::wrap(&line, view.text_width(), 2))?;
    }
    Ok(())
}

/// A value, or a dash.
pub(super) fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), crate::text::digits)
}
