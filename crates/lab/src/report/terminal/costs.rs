//! What each operation costs, absolute and relative to the first engine.

use super::rows::{Rows, by_step, or_dash, write_table};
use super::view::View;
use crate::report::column::{COSTS, RATIO_FLOOR, SYSTEM, own_columns, own_value};
use crate::report::model::{Column, Operation, Step, Wanted, units};
use crate::report::summary::{Summary, engine_label};
use crate::text::digits;
use anyhow::Result;
use std::io::Write;

/// Prints the tables that all experiments have.
pub(super) fn print(summary: &Summary<'_>, view: View, out: &mut dyn Write) -> Result<()> {
    let repeated = summary.repetitions > 1;
    let mut titles: Vec<String> = COSTS.iter().map(|measure| measure.title.to_owned()).collect();
    titles.insert(7, "fg+bg".to_owned());
    if repeated {
        titles.insert(1, "min..max".to_owned());
    }
    let cells = |step: usize, engine: usize| {
        let mut cells: Vec<String> =
            COSTS.iter().map(|measure| or_dash(median(summary, step, engine, &measure.of))).collect();
        cells[1] = sizes(summary, step, engine);
        cells.insert(7, cpu_split(summary, step, engine));
        if missed(summary, step, engine) {
            cells[0].push('!');
        }
        if repeated {
            let spread = summary.spread(step, engine, &COSTS[0].of);
            cells.insert(1, spread.map_or("-".to_owned(), |s| format!("{}..{}", digits(s.min), digits(s.max))));
        }
        vec![cells]
    };
    let table = by_step(summary, Rows::Values, &titles, 1, &cells);
    write_table(if summary.engines.len() > 1 { "--- absolute" } else { "" }, table, view, out)?;
    let titles: Vec<String> = COSTS.iter().map(|measure| measure.title.to_owned()).collect();
    let ratio = |step: usize, engine: usize| {
        vec![COSTS.iter().map(|cost| or_dash(summary.ratio(step, engine, cost.floor, &cost.of))).collect()]
    };
    print_relative(summary, &titles, &ratio, view, out)
}

/// Prints the tables of the experiment's own columns, one for each list of columns.
pub(super) fn print_own(summary: &Summary<'_>, view: View, out: &mut dyn Write) -> Result<()> {
    let lists: Vec<Vec<&Column>> = (0..summary.steps.len()).map(|step| own_columns(summary, step)).collect();
    let mut printed: Vec<&Vec<&Column>> = Vec::new();
    for list in &lists {
        if list.is_empty() || printed.contains(&list) {
            continue;
        }
        printed.push(list);
        let here = |step: usize| &lists[step] == list;
        let titles: Vec<String> = list.iter().map(|column| column.name.clone()).collect();
        let cells = |step: usize, engine: usize| -> Vec<Vec<String>> {
            let value =
                |column: &&Column| or_dash(median(summary, step, engine, &|step| own_value(step, &column.name)));
            if here(step) { vec![list.iter().map(value).collect()] } else { Vec::new() }
        };
        let table = by_step(summary, Rows::Values, &titles, 1, &cells);
        write_table(&format!("--- of this experiment{}", units(list)), table, view, out)?;
        let judged: Vec<&&Column> = list.iter().filter(|column| column.wanted != Wanted::Either).collect();
        let titles: Vec<String> = judged.iter().map(|column| column.name.clone()).collect();
        let cells = |step: usize, engine: usize| -> Vec<Vec<String>> {
            let ratio = |column: &&&Column| {
                or_dash(summary.ratio(step, engine, RATIO_FLOOR, &|step| own_value(step, &column.name)))
            };
            if here(step) { vec![judged.iter().map(ratio).collect()] } else { Vec::new() }
        };
        if !judged.is_empty() {
            print_relative(summary, &titles, &cells, view, out)?;
        }
    }
    Ok(())
}

/// Prints what the whole machine did in each step.
pub(super) fn print_system(summary: &Summary<'_>, view: View, out: &mut dyn Write) -> Result<()> {
    if !summary.steps.iter().enumerate().any(|(step, _)| summary.has_system(step)) {
        return Ok(());
    }
    let titles: Vec<String> = SYSTEM.iter().map(|measure| measure.title.to_owned()).collect();
    let cells = |step: usize, engine: usize| {
        vec![SYSTEM.iter().map(|measure| or_dash(median(summary, step, engine, &measure.of))).collect()]
    };
    let table = by_step(summary, Rows::Values, &titles, 1, &cells);
    write_table(
        "--- the whole machine in percent of its processors, and GB read and written in the step",
        table,
        view,
        out,
    )
}

/// Prints the same for all engines but the first, if there are others.
fn print_relative(
    summary: &Summary<'_>,
    titles: &[String],
    cells: &dyn Fn(usize, usize) -> Vec<Vec<String>>,
    view: View,
    out: &mut dyn Write,
) -> Result<()> {
    if summary.engines.len() < 2 {
        return Ok(());
    }
    let table = by_step(summary, Rows::Ratios, titles, 1, cells);
    let first = &summary.engines[0].name;
    let which = if summary.engines.len() == 2 { engine_label(summary.engines[1]) + " " } else { String::new() };
    write_table(&format!("--- {which}relative to {first}"), table, view, out)
}

fn median(summary: &Summary<'_>, step: usize, engine: usize, of: &dyn Fn(&Step) -> Option<f64>) -> Option<f64> {
    Some(summary.spread(step, engine, of)?.median)
}

/// Allocated and apparent GB, as `du` and `du --apparent-size` say them.
fn sizes(summary: &Summary<'_>, step: usize, engine: usize) -> String {
    let allocated = median(summary, step, engine, &COSTS[1].of);
    let apparent = median(summary, step, engine, &|step| Some(step.after.size?.apparent_bytes as f64 / 1e9));
    allocated.zip(apparent).map_or("-".to_owned(), |(a, b)| format!("{}/{}", digits(a), digits(b)))
}

/// The CPU of the threads that ask, and of those behind them.
fn cpu_split(summary: &Summary<'_>, step: usize, engine: usize) -> String {
    let foreground = median(summary, step, engine, &|step| Some(step.done()?.foreground_cpu_us));
    let background = median(summary, step, engine, &|step| Some(step.done()?.background_cpu_us));
    foreground.zip(background).map_or("-".to_owned(), |(f, b)| format!("{}+{}", digits(f), digits(b)))
}

fn missed(summary: &Summary<'_>, step: usize, engine: usize) -> bool {
    summary.all(step, engine).flat_map(|step| &step.operations).any(Operation::missed_rate)
}
