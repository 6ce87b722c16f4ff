//! What is looked up: each engine's settings, and what the columns mean.

use super::chart::escape;
use super::tables::engine_cell;
use crate::report::{Report, Summary, engine_label, explanations};

/// The last part of the page.
pub(super) fn section(report: &Report, summary: &Summary<'_>) -> String {
    let mut text = "<section>\n<h2>Engines</h2>\n".to_owned();
    for (at, engine) in summary.engines.iter().enumerate() {
        text += &format!(
            "<h3>{} <small>{}</small></h3>\n<dl>\n",
            engine_cell(at, &engine_label(engine)),
            escape(&engine.version)
        );
        let durability = ("durability".to_owned(), engine.durability.clone());
        for (name, value) in [durability].iter().chain(&engine.settings).filter(|(_, value)| !value.is_empty()) {
            text += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value));
        }
        text += "</dl>\n";
    }
    for missing in &report.missing {
        text += &format!("<p>{} did not run: {}</p>\n", escape(&missing.engine), escape(&missing.why));
    }
    text += "</section>\n<section>\n<h2>Columns</h2>\n<dl>\n";
    for (title, meaning) in explanations(report, summary) {
        text += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(&title), escape(&meaning));
    }
    text + "</dl>\n</section>\n"
}
