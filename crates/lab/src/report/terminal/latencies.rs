//! How long calls took, and what else a step cost.

use super::rows::{Rows, by_step, or_dash, write_table};
use super::view::View;
use crate::report::column::{FACTORS, LATENCIES, OVER_LIMIT, calls, kinds, latency, over_limit};
use crate::report::summary::Summary;
use crate::text::{Table, count};
use anyhow::Result;
use std::io::Write;

/// Kinds of operations of a step that get a line each; more of them are shown side by side.
const KINDS_MAX: usize = 3;

pub(super) fn print(summary: &Summary<'_>, view: View, out: &mut dyn Write) -> Result<()> {
    let many = |step: usize| summary.engines.len() > 1 && kinds(summary, step).len() > KINDS_MAX;
    let mut titles = vec!["call".to_owned(), "calls".to_owned()];
    titles.extend(LATENCIES.iter().map(|percentile| percentile.title.to_owned()));
    titles.push(OVER_LIMIT.0.to_owned());
    titles.extend(FACTORS.iter().map(|measure| measure.title.to_owned()));
    let cells = |step: usize, engine: usize| cells(summary, (step, engine), many(step));
    let table = by_step(summary, Rows::Values, &titles, 2, &cells);
    write_table("--- latency in us, amplification, stalls", table, view, out)?;
    for step in (0..summary.steps.len()).filter(|&step| many(step)) {
        print_many(summary, step, view, out)?;
    }
    Ok(())
}

/// The lines of a step and an engine: one for each kind, the first with all else; then those that are corrected for the
/// rate.
fn cells(summary: &Summary<'_>, (step, engine): (usize, usize), many: bool) -> Vec<Vec<String>> {
    let median = |of| summary.spread(step, engine, of).map(|spread| spread.median);
    let factors: Vec<String> = FACTORS.iter().map(|measure| or_dash(median(&measure.of))).collect();
    let kinds = kinds(summary, step);
    let mut rows = Vec::new();
    if !done(summary, step, engine) || kinds.is_empty() || many {
        let call = if many { "see below" } else { "-" };
        rows.push([call, "-"].into_iter().chain(LATENCIES.map(|_| "-")).chain(["-"]).map(str::to_owned).collect());
    } else {
        for (corrected, suffix) in [(false, ""), (true, " corrected")] {
            for kind in &kinds {
                let values: Vec<Option<f64>> =
                    (0..LATENCIES.len()).map(|at| latency(summary, (step, engine), kind, corrected, at)).collect();
                if values.iter().any(Option::is_some) {
                    let call = format!("{kind}{suffix}");
                    let of_kind = |number: Option<f64>| counted(number.filter(|_| !corrected));
                    let mut row = vec![call, of_kind(calls(summary, (step, engine), kind))];
                    row.extend(values.into_iter().map(or_dash));
                    row.push(of_kind(over_limit(summary, (step, engine), kind)));
                    rows.push(row);
                }
            }
        }
    }
    for (at, row) in rows.iter_mut().enumerate() {
        row.extend(factors.iter().map(|factor| if at == 0 { factor.clone() } else { String::new() }));
    }
    rows
}

/// A number of calls, which is whole but for a median of two.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number, not negative")]
fn counted(calls: Option<f64>) -> String {
    calls.map_or_else(|| "-".to_owned(), |calls| count(calls.round() as u64))
}

fn done(summary: &Summary<'_>, step: usize, engine: usize) -> bool {
    summary.all(step, engine).any(|step| step.done().is_some())
}

/// A step of many kinds of operations: a line for each, the engines beside each other.
fn print_many(summary: &Summary<'_>, step: usize, view: View, out: &mut dyn Write) -> Result<()> {
    let engines = (0..summary.engines.len()).map(|engine| summary.label(step, engine));
    let titles: Vec<String> = ["call".to_owned()].into_iter().chain(engines).collect();
    let mut table = Table::new(&titles);
    for kind in kinds(summary, step) {
        let cell = |engine: usize| {
            let value = |at: usize| or_dash(latency(summary, (step, engine), kind, false, at));
            let calls = calls(summary, (step, engine), kind).map_or_else(|| "-".to_owned(), crate::text::short);
            format!("{calls}: {}/{}/{}", value(0), value(2), value(4))
        };
        table.row([kind.to_owned()].into_iter().chain((0..summary.engines.len()).map(cell)));
    }
    let name = summary.steps[step].label();
    write_table(&format!("--- {name}: calls: p50/p99/max of each call in us"), table, view, out)
}
