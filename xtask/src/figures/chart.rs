//! A chart of one column: a bar for each engine, as SVG that follows the reader's light or dark colours.

use std::fmt::Write as _;

use super::number::shown;
use super::result::Outcome;
use super::tables::Table;

const WIDTH: f64 = 640.0;
/// Where bars begin, behind the engines' names.
const LEFT: f64 = 150.0;
/// Right of the longest bar is room for its figure.
const RIGHT: f64 = 90.0;
const ROW: f64 = 26.0;
const TOP: f64 = 34.0;

const STYLE: &str = "text{font:13px sans-serif;fill:#24292f}rect{fill:#8c959f}.own{fill:#1a7f37}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#6e7681}.own{fill:#3fb950}}";

/// The chart of a table's result.
pub(super) fn draw(table: &Table, outcome: &Outcome) -> Result<String, String> {
    let column = &table.columns[table.chart];
    let mut bars = Vec::new();
    for engine in &outcome.engines {
        bars.push((engine, engine.value(column)?.map(|spread| spread.median)));
    }
    let most = bars.iter().filter_map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let height = TOP + ROW * bars.iter().map(|_| 1.0).sum::<f64>() + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<style>{STYLE}</style>\n\
         <text x=\"8\" y=\"20\" font-weight=\"bold\">{}: {}</text>\n",
        table.name, column.title
    );
    let mut y = TOP;
    for (engine, value) in bars {
        let length = value.unwrap_or(0.0) / most * (WIDTH - LEFT - RIGHT);
        let class = if engine.is_own() { " class=\"own\"" } else { "" };
        let line = y + 14.0;
        let written = writeln!(
            svg,
            "<text x=\"8\" y=\"{line}\">{}</text><rect x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"18\"{class}/>\
             <text x=\"{:.1}\" y=\"{line}\">{}</text>",
            engine.name,
            LEFT + length + 6.0,
            value.map_or("-".to_owned(), shown)
        );
        written.map_err(|error| error.to_string())?;
        y += ROW;
    }
    Ok(svg + "</svg>\n")
}
