//! The head of a report: what ran, where, and on which engines.

use super::view::View;
use crate::report::model::Report;
use crate::report::remarks::date;
use crate::report::summary::{Summary, engine_label};
use crate::text::wrap;
use anyhow::Result;
use std::io::Write;

const INDENT: usize = 9;

pub(super) fn print(report: &Report, summary: &Summary<'_>, view: View, out: &mut dyn Write) -> Result<()> {
    let width = view.text_width();
    let partial = if report.partial { "PARTIAL  " } else { "" };
    writeln!(out, "{partial}{}", wrap(&report.command, width, INDENT))?;
    let began = [date(report.began), report.machine.state()];
    let began = began.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    for (title, fact) in [("machine", report.machine.line()), ("began", began), ("build", report.build.line())] {
        if !fact.is_empty() {
            writeln!(out, "{title:<INDENT$}{}", wrap(&fact, width - INDENT, INDENT))?;
        }
    }
    let parameters: Vec<String> = report.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let repeated =
        if summary.repetitions > 1 { format!(", medians of {} runs", summary.repetitions) } else { String::new() };
    writeln!(out, "with     {}", wrap(&format!("{}{repeated}", parameters.join(", ")), width - INDENT, INDENT))?;
    for (at, engine) in summary.engines.iter().enumerate() {
        let title = if at == 0 { "engines" } else { "" };
        let settings: Vec<String> = engine.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let durability = [engine.durability.clone()].into_iter().filter(|words| !words.is_empty());
        let all: Vec<String> = durability.chain(settings).collect();
        let line = format!("{title:<INDENT$}{} {}: {}", engine_label(engine), engine.version, all.join(", "));
        writeln!(out, "{}", shortened(line.trim_end_matches([' ', ':']), width))?;
    }
    for missing in &report.missing {
        writeln!(out, "missing  {}", wrap(&format!("{}: {}", missing.engine, missing.why), width - INDENT, INDENT))?;
    }
    Ok(())
}

/// A line cut at the last comma that fits; all of it is in the file and on the page.
fn shortened(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let fitting: String = line.chars().take(width - 5).collect();
    let end = fitting.rfind(", ").unwrap_or(fitting.len());
    format!("{}, ...", &fitting[..end])
}
