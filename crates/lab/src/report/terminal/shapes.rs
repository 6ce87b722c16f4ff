//! The shape of the trees before and after each step that changed it.

use super::WIDTH;
use crate::report::{State, Summary};
use anyhow::Result;
use std::io::Write;

/// More lines than these nobody reads on a terminal.
const LINES_MAX: usize = 60;

pub(super) fn print(summary: &Summary<'_>, out: &mut dyn Write) -> Result<()> {
    let mut lines = Vec::new();
    let steps = summary.steps.iter().map(crate::report::StepName::label).collect::<Vec<_>>();
    let width = steps.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let engine_width = summary.engines.iter().map(|engine| engine.name.len()).max().unwrap_or(0);
    for (step, label) in steps.iter().enumerate() {
        for (engine, info) in summary.engines.iter().enumerate() {
            let Some(measured) = summary.all(step, engine).next() else { continue };
            let (before, after) = (shape(&measured.before), shape(&measured.after));
            for (at, (table, after)) in after.iter().enumerate() {
                let unchanged = before.get(at).is_some_and(|(_, before)| before == after);
                if unchanged {
                    continue;
                }
                let before = before.get(at).map_or("empty", |(_, before)| before);
                let name = if summary.engines.len() > 1 { &*info.name } else { "" };
                let head =
                    format!("{label:<width$}  {name:<w$}", w = if name.is_empty() { 0 } else { engine_width + 2 });
                lines.push((format!("{head}{table}: "), before.to_owned(), after.clone()));
            }
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    if lines.len() > LINES_MAX {
        let count = lines.len();
        writeln!(out, "\nsteps changed the shape of tables {count} times: --json and --html show how")?;
        return Ok(());
    }
    writeln!(out, "\n--- shape, where a step changed it")?;
    for (head, before, after) in lines {
        let line = format!("{head}{before} -> {after}");
        if line.chars().count() <= WIDTH {
            writeln!(out, "{line}")?;
        } else {
            let indent = head.chars().count();
            writeln!(out, "{head}{before}\n{:indent$}-> {after}", "", indent = indent.saturating_sub(3))?;
        }
    }
    Ok(())
}

fn shape(state: &State) -> Vec<(&str, String)> {
    state.shape.iter().map(|table| (&*table.table, table.line())).collect()
}
