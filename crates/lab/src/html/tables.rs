//! Tables of all steps: absolute, relative to the first engine, and the experiment's own columns.

use super::chart::{Style, escape};
use crate::report::{
    COSTS, Column, LATENCIES, Operation, RATIO_FLOOR, Step, Summary, Wanted, kinds, own_columns, own_value,
};
use crate::text::digits;

/// How much better or worse a ratio is before it is coloured.
const NOTABLE: f64 = 0.05;

/// A value of a step, if it has it.
type Value = Box<dyn Fn(&Step) -> Option<f64>>;

/// A column of a table: title, hint, which values are better, and the value.
struct Cell {
    title: String,
    meaning: String,
    wanted: Wanted,
    /// Differences and ratios of smaller values say nothing.
    floor: f64,
    of: Value,
}

/// The tables at the top of the page.
pub(super) fn overview(summary: &Summary<'_>) -> String {
    let columns: Vec<Vec<Cell>> =
        (0..summary.steps.len()).map(|step| columns(kinds(summary, step).first().copied())).collect();
    let here = |_: usize| true;
    let mut text = "<h2>All steps</h2>\n".to_owned();
    if summary.engines.len() > 1 {
        text += "<p class=\"note key\">In a step: <span class=\"good\">best quarter of the range</span> \
                 <span class=\"bad\">worst quarter</span>, if the worst is 20 % or more behind; \
                 <span class=\"missed\">the wanted rate was missed</span> \
                 <span class=\"disturbed\">~ others used the machine</span>.</p>\n";
    }
    text += &table(summary, &columns, &here, 0, &|step, engine, cell| absolute(summary, step, engine, cell));
    if summary.engines.len() > 1 {
        text += &format!(
            "<h3>Relative to {} <small>ratios of the same run, then their median: \
             <span class=\"good\">5 % better</span> <span class=\"bad\">5 % worse</span></small></h3>\n",
            escape(&summary.engines[0].name)
        );
        text += &table(summary, &columns, &here, 1, &|step, engine, cell| relative(summary, step, engine, cell));
    }
    text + &own(summary)
}

/// The experiment's own columns, a table for each list of them.
fn own(summary: &Summary<'_>) -> String {
    let lists: Vec<Vec<&Column>> = (0..summary.steps.len()).map(|step| own_columns(summary, step)).collect();
    let mut text = String::new();
    for (at, list) in lists.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
        if lists[..at].contains(list) {
            continue;
        }
        let of_list = || list.iter().map(|column| own_cell(column)).collect::<Vec<_>>();
        let columns: Vec<Vec<Cell>> = lists.iter().map(|_| of_list()).collect();
        text += "<h3>Of this experiment</h3>\n";
        text += &table(summary, &columns, &|step| &lists[step] == list, 0, &|step, engine, cell| {
            let value = absolute(summary, step, engine, cell);
            let ratio = summary
                .ratio(step, engine, cell.floor, &cell.of)
                .filter(|_| engine > 0 && cell.wanted != Wanted::Either);
            let ratio = ratio.map(|ratio| format!(" <small>\u{d7}{}</small>", digits(ratio))).unwrap_or_default();
            (format!("{}{ratio}", value.0), value.1)
        });
    }
    text
}

/// A table with the rows of the steps that are `here`, of the engines from `first` on.
fn table(
    summary: &Summary<'_>,
    columns: &[Vec<Cell>],
    here: &dyn Fn(usize) -> bool,
    first: usize,
    cell: &dyn Fn(usize, usize, &Cell) -> (String, &'static str),
) -> String {
    let titles = columns.first().map(Vec::as_slice).unwrap_or_default().iter();
    let titles = titles.map(|cell| format!("<th title=\"{}\">{}</th>", escape(&cell.meaning), cell.title));
    let mut text = format!("<table>\n<thead><tr><th></th>{}</tr></thead>\n<tbody>\n", titles.collect::<String>());
    let shown = |step: usize| here(step) && summary.is_shown(step);
    for (step, name) in summary.steps.iter().enumerate().filter(|(step, _)| shown(*step)) {
        let span = columns[step].len() + 1;
        text += &format!("<tr class=\"step\"><td colspan=\"{span}\">{}</td></tr>\n", escape(&name.label()));
        for engine in first..summary.engines.len() {
            let label = if first > 0 { summary.ratio_label(step, engine) } else { summary.label(step, engine) };
            text += &format!("<tr><td>{}</td>", engine_cell(engine, &label));
            for column in &columns[step] {
                let (value, class) = cell(step, engine, column);
                let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
                text += &format!("<td{class}>{value}</td>");
            }
            text += "</tr>\n";
        }
    }
    text + "</tbody>\n</table>\n"
}

/// An engine's name, with its marks, and its colour.
pub(super) fn engine_cell(engine: usize, label: &str) -> String {
    let colour = Style::of(engine).colour;
    let name = escape(label);
    format!("<span class=\"chip\" style=\"background:{colour}\"></span>{name}")
}

fn columns(kind: Option<&str>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = COSTS
        .iter()
        .map(|measure| Cell {
            title: measure.title.to_owned(),
            meaning: measure.meaning.to_owned(),
            wanted: measure.wanted,
            floor: measure.floor,
            of: Box::new(measure.of),
        })
        .collect();
    for at in [2, 4] {
        let percentile = LATENCIES[at];
        let kind = kind.map(str::to_owned);
        cells.push(Cell {
            title: format!("{} \u{b5}s", percentile.title),
            meaning: format!("of the step's first kind of calls: {}", percentile.meaning),
            wanted: Wanted::Less,
            floor: RATIO_FLOOR,
            of: Box::new(move |step| percentile.of(step, kind.as_deref()?, false)),
        });
    }
    cells
}

fn own_cell(column: &Column) -> Cell {
    let name = column.name.clone();
    let unit = column.unit_beside_name().map_or_else(String::new, |unit| format!("<small>{}</small>", escape(unit)));
    Cell {
        title: format!("{}{unit}", escape(&column.name)),
        meaning: column.unit.clone(),
        wanted: column.wanted,
        floor: RATIO_FLOOR,
        of: Box::new(move |step| own_value(step, &name)),
    }
}

/// A median, coloured by where it lies among those of the engines.
fn absolute(summary: &Summary<'_>, step: usize, engine: usize, cell: &Cell) -> (String, &'static str) {
    let Some(spread) = summary.spread(step, engine, &cell.of) else { return ("-".to_owned(), "") };
    let medians: Vec<f64> =
        (0..summary.engines.len()).filter_map(|engine| Some(summary.spread(step, engine, &cell.of)?.median)).collect();
    let (min, max) =
        (medians.iter().copied().fold(f64::INFINITY, f64::min), medians.iter().copied().fold(0.0, f64::max));
    let class = if missed(summary, step, engine) {
        "missed"
    } else if summary.is_disturbed(step, engine) {
        "disturbed"
    } else if min >= 0.8 * max || max < cell.floor {
        ""
    } else {
        let share = (spread.median - min) / (max - min);
        judged(cell.wanted, share >= 0.75, share <= 0.25)
    };
    (digits(spread.median), class)
}

/// A ratio, coloured when it is notable.
fn relative(summary: &Summary<'_>, step: usize, engine: usize, cell: &Cell) -> (String, &'static str) {
    let Some(ratio) = summary.ratio(step, engine, cell.floor, &cell.of) else { return ("-".to_owned(), "") };
    let class = if missed(summary, step, engine) {
        "missed"
    } else if summary.is_disturbed(step, engine) || summary.is_disturbed(step, 0) {
        "disturbed"
    } else {
        judged(cell.wanted, ratio >= 1.0 + NOTABLE, ratio <= 1.0 - NOTABLE)
    };
    (digits(ratio), class)
}

fn judged(wanted: Wanted, high: bool, low: bool) -> &'static str {
    match wanted {
        Wanted::More if high => "good",
        Wanted::More if low => "bad",
        Wanted::Less if low => "good",
        Wanted::Less if high => "bad",
        _ => "",
    }
}

fn missed(summary: &Summary<'_>, step: usize, engine: usize) -> bool {
    summary.all(step, engine).flat_map(|step| &step.operations).any(Operation::missed_rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;
    use crate::report::fixture::{report, run, step};

    fn classes(rates: [f64; 3], wanted: Wanted) -> Vec<&'static str> {
        let runs = ["a", "b", "c"].iter().zip(rates).map(|(engine, rate)| run(engine, 0, vec![step("load", rate)]));
        let report = report(runs.collect());
        let summary = Summary::new(&report);
        let of = Box::new(|step: &Step| Some(step.cost?.rate));
        let cell = Cell { title: String::new(), meaning: String::new(), wanted, floor: RATIO_FLOOR, of };
        let all = (0..3).map(|engine| absolute(&summary, 0, engine, &cell).1);
        all.chain((1..3).map(|engine| relative(&summary, 0, engine, &cell).1)).collect()
    }

    #[test]
    fn colours_say_which_is_better() {
        assert_eq!(classes([100.0, 200.0, 300.0], Wanted::More), ["bad", "", "good", "good", "good"]);
        assert_eq!(classes([100.0, 97.0, 300.0], Wanted::Less), ["good", "good", "bad", "", "bad"]);
        assert_eq!(classes([100.0, 97.0, 103.0], Wanted::More), ["", "", "", "", ""]);
        assert_eq!(classes([100.0, 200.0, 300.0], Wanted::Either), ["", "", "", "", ""]);
    }
    #[test]
    fn a_title_that_is_its_unit_stands_once() {
        let title = |figure: Figure| own_cell(&figure.column).title;
        assert_eq!(title(Figure::more("MB/s", "MB/s", 1.0)), "MB/s");
        assert_eq!(title(Figure::less("bpd", "bytes", 1.0)), "bpd<small>bytes</small>");
        assert_eq!(title(Figure::less("x floor", "", 1.0)), "x floor");
    }
}
