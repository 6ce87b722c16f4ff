//! The shape of the trees before and after each step that changed it.

use super::view::View;
use crate::report::model::State;
use crate::report::summary::{StepName, Summary};
use anyhow::Result;
use std::io::Write;

/// More lines than these nobody reads on a terminal.
const LINES_MAX: usize = 60;

pub(super) fn print(summary: &Summary<'_>, view: View, out: &mut dyn Write) -> Result<()> {
    let mut lines = Vec::new();
    let steps = summary.steps.iter().map(StepName::label).collect::<Vec<_>>();
    let width = steps.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let engine_width = summary.engines.iter().map(|engine| engine.name.len()).max().unwrap_or(0);
    let head = |label: &str, engine: &str, table: &str| {
        let (name, name_width) = if summary.engines.len() > 1 { (engine, engine_width + 2) } else { ("", 0) };
        format!("{label:<width$}  {name:<name_width$}{table}: ")
    };
    for (step, label) in steps.iter().enumerate() {
        for (engine, info) in summary.engines.iter().enumerate() {
            let Some(measured) = summary.all(step, engine).next() else { continue };
            let (before, after) = (shape(&measured.before), shape(&measured.after));
            for (at, (table, after)) in after.iter().enumerate() {
                let unchanged = before.get(at).is_some_and(|(_, before)| before == after);
                if unchanged && !summary.is_shown(step) {
                    // A step that is there for the shape, and nothing else.
                    lines.push((head(label, &info.name, table), String::new(), after.clone()));
                }
                if unchanged {
                    continue;
                }
                let before = before.get(at).map_or("empty", |(_, before)| before);
                lines.push((head(label, &info.name, table), before.to_owned(), after.clone()));
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
    writeln!(out, "\n--- shape, where a step changed it or shows it")?;
    for (head, before, after) in lines {
        let arrow = if before.is_empty() { "" } else { " -> " };
        let line = format!("{head}{before}{arrow}{after}");
        if line.chars().count() <= view.width {
            writeln!(out, "{line}")?;
            continue;
        }
        // Between the parts of a shape, and between the shapes.
        let indent = head.chars().count();
        let indent = if indent > view.width / 2 {
            writeln!(out, "{}", head.trim_end())?;
            4
        } else {
            write!(out, "{head}")?;
            indent
        };
        let before_after = [before, after].into_iter().filter(|shape| !shape.is_empty());
        for (at, shape) in before_after.enumerate() {
            let arrow = if at == 0 { "" } else { "-> " };
            let lead = if at == 0 && indent > 4 { 0 } else { indent - arrow.len() };
            writeln!(out, "{:lead$}{arrow}{}", "", parts(&shape, view.width - indent, indent))?;
        }
    }
    Ok(())
}

/// A shape in lines of at most `room` characters, with `indent` before each but the first.
fn parts(shape: &str, room: usize, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in shape.split(" | ") {
        match lines.last_mut().filter(|line| line.chars().count() + 5 + part.chars().count() <= room) {
            Some(line) => *line += &format!(" | {part}"),
            None => lines.push(part.to_owned()),
        }
    }
    lines.join(&format!(" |\n{:indent$}", ""))
}

fn shape(state: &State) -> Vec<(&str, String)> {
    state.shape.iter().map(|table| (&*table.table, table.line())).collect()
}
