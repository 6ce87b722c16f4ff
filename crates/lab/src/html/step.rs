//! The charts and the tables of one step.

use super::chart::{Bar, BarChart, Segment, Style, escape, short_bytes};
use super::tables::engine_cell;
use super::time::{self, figure, names};
use crate::report::{
    COSTS, FACTORS, LATENCIES, LEVEL_TITLES, Measure, OVER_LIMIT, READS, SYSTEM, Step, Summary, bucket_titles, buckets,
    calls, has_reads, kinds, latency, level_cells, over_limit,
};
use crate::text::{counted, digits};

/// How strong the colours of the parts of a bar are.
const SHADES: [f64; 4] = [1.0, 0.62, 0.35, 0.2];

/// A step's part of the page.
pub(super) fn section(summary: &Summary<'_>, at: usize) -> String {
    let step = &summary.steps[at];
    let names = names(summary);
    let mut text = format!(
        "<section>\n<h2 id=\"step{at}\">{} <small>one operation: a {}</small></h2>\n",
        escape(&step.label()),
        escape(step.unit)
    );
    text += "<div class=\"charts\">\n";
    for (caption, chart) in [
        rate_bars(summary, at, &names),
        cpu_bars(summary, at, &names),
        written_bars(summary, at, &names),
        shape_bars(summary, at, &names),
    ]
    .into_iter()
    .flatten()
    {
        text += &figure(&caption, &chart.draw());
    }
    text += &time::charts(summary, at, &names);
    text += "</div>\n";
    if summary.is_shown(at) {
        text += &latency_table(summary, at);
        text += &histogram_table(summary, at);
        text += &reads_table(summary, at);
        text += &levels_table(summary, at);
        text += &system_table(summary, at);
    }
    text + "</section>\n"
}

/// A bar for each engine, made by `bar` from its place; none when no engine has one.
fn bars(
    summary: &Summary<'_>,
    at: usize,
    (caption, axis): (&str, &str),
    names: &[String],
    bar: &dyn Fn(usize) -> Option<Bar>,
) -> Option<(String, BarChart)> {
    let made: Vec<Option<Bar>> = (0..names.len()).map(bar).collect();
    if made.iter().flatten().all(|bar| bar.segments.iter().all(|segment| segment.value <= 0.0)) {
        return None;
    }
    let bars = made.into_iter().enumerate().map(|(engine, bar)| {
        let bar = bar.unwrap_or_else(|| Bar { text: "-".to_owned(), ..Bar::default() });
        Bar { label: names[engine].clone(), colour: Style::of(engine).colour, ..bar }
    });
    let title = format!("{}: {caption}", summary.steps[at].label());
    Some((caption.to_owned(), BarChart { title, axis: axis.to_owned(), bars: bars.collect(), ..BarChart::default() }))
}

fn segments(values: &[f64]) -> Vec<Segment> {
    values.iter().zip(SHADES).map(|(&value, opacity)| Segment { value, opacity }).collect()
}

fn rate_bars(summary: &Summary<'_>, at: usize, names: &[String]) -> Option<(String, BarChart)> {
    let axis = format!("{}s/s", summary.steps[at].unit);
    bars(summary, at, ("Rate", &axis), names, &|engine| {
        let spread = summary.spread(at, engine, &COSTS[0].of)?;
        let ratio = summary.ratio(at, engine, COSTS[0].floor, &COSTS[0].of).filter(|_| names.len() > 1);
        let mark = if summary.ratio_label(at, engine).ends_with('~') { "~" } else { "" };
        let ratio = ratio.map(|ratio| format!("  \u{d7}{}{mark}", digits(ratio))).unwrap_or_default();
        Some(Bar {
            segments: segments(&[spread.median]),
            range: (spread.count > 1).then_some((spread.min, spread.max)),
            text: format!("{}{ratio}", digits(spread.median)),
            ..Bar::default()
        })
    })
}

fn cpu_bars(summary: &Summary<'_>, at: usize, names: &[String]) -> Option<(String, BarChart)> {
    let unit = summary.steps[at].unit;
    let axis = format!("\u{b5}s of CPU per {unit}");
    let (caption, chart) = bars(summary, at, ("CPU", &axis), names, &|engine| {
        let foreground = summary.spread(at, engine, &|step| Some(step.done()?.foreground_cpu_us))?.median;
        let background = summary.spread(at, engine, &|step| Some(step.done()?.background_cpu_us))?.median;
        let text = format!("{} + {}", digits(foreground), digits(background));
        Some(Bar { segments: split(&[foreground, background]), text, ..Bar::default() })
    })?;
    let legend = vec![("foreground: threads that ask", SHADES[0]), ("background: the engine's own", SHADES[2])];
    Some((caption, BarChart { legend, ..chart }))
}

/// Two parts, told apart more clearly than [`segments`] does.
fn split(values: &[f64; 2]) -> Vec<Segment> {
    vec![Segment { value: values[0], opacity: SHADES[0] }, Segment { value: values[1], opacity: SHADES[2] }]
}

fn written_bars(summary: &Summary<'_>, at: usize, names: &[String]) -> Option<(String, BarChart)> {
    let axis = format!("KiB written to storage per {}", summary.steps[at].unit);
    let (caption, chart) = bars(summary, at, ("Bytes written", &axis), names, &|engine| {
        let total = summary.spread(at, engine, &COSTS[4].of)?.median;
        let part = |place: usize| Some(summary.spread(at, engine, &|step| Some(written_parts(step)?[place]))?.median);
        let parts: Option<Vec<f64>> = (0..SHADES.len()).map(part).collect();
        let segments = segments(&parts.unwrap_or_else(|| vec![0.0, 0.0, 0.0, total]));
        Some(Bar { segments, text: digits(total), ..Bar::default() })
    })?;
    let legend = ["redo log", "flush or checkpoint", "compaction", "other, or not told apart"].into_iter().zip(SHADES);
    Some((caption, BarChart { legend: legend.collect(), ..chart }))
}

/// KiB per operation to the log, by flushes, by compactions, and what is left of all that was written; `None` when the
/// engine does not count.
fn written_parts(step: &Step) -> Option<[f64; 4]> {
    let (cost, counters) = (step.done()?, &step.counters);
    let counted = [counters.log_written_bytes, counters.flush_bytes, counters.compaction_written_bytes];
    if counted.iter().all(Option::is_none) {
        return None;
    }
    let [log, flush, compaction] =
        counted.map(|bytes| bytes.unwrap_or(0) as f64 / 1024.0 / cost.operations.max(1) as f64);
    let other = (cost.written_kib? - log - flush - compaction).max(0.0);
    Some([log, flush, compaction, other])
}

/// The levels of the trees after the step, all tables together, if the step changed them.
fn shape_bars(summary: &Summary<'_>, at: usize, names: &[String]) -> Option<(String, BarChart)> {
    let mut rows = Vec::new();
    let mut changed = false;
    for (engine, name) in names.iter().enumerate() {
        let Some(step) = summary.typical(at, engine).or_else(|| summary.all(at, engine).next()) else { continue };
        changed |= step.before.shape != step.after.shape;
        for (row, (level, size, runs)) in levels(step).into_iter().enumerate() {
            let label = if row == 0 { format!("{name}: {level}") } else { level };
            let runs = if runs > 1 { format!(", {}", counted(runs, "run", "runs")) } else { String::new() };
            let text = format!("{}{runs}", short_bytes(size as f64));
            let segments = vec![Segment { value: size as f64, opacity: 0.85 }];
            rows.push(Bar { label, colour: Style::of(engine).colour, segments, range: None, text });
        }
    }
    // A step that is there for the shape shows it though it did not change it.
    if rows.is_empty() || !changed && summary.is_shown(at) {
        return None;
    }
    let caption = "Shape after the step".to_owned();
    let title = format!("{}: the shape of the trees", summary.steps[at].label());
    let axis = "bytes (log)".to_owned();
    Some((caption, BarChart { title, axis, log: true, legend: Vec::new(), bars: rows }))
}

/// Names, sizes and sorted runs of the memtables, of each level, and of B-trees, over all tables.
fn levels(step: &Step) -> Vec<(String, u64, u64)> {
    let shapes = &step.after.shape;
    let levels = || shapes.iter().flat_map(|shape| &shape.levels);
    let mut rows = vec![("memtable".to_owned(), shapes.iter().filter_map(|shape| shape.memtable_bytes).sum(), 1)];
    let deepest = levels().map(|level| level.level).max();
    for number in 0..=deepest.unwrap_or(0) {
        let level = || levels().filter(|level| level.level == number);
        let runs = level().map(|level| level.sorted_runs).max().unwrap_or(0);
        rows.push((format!("L{number}"), level().map(|level| level.bytes).sum(), runs));
    }
    rows.push(("B-tree".to_owned(), shapes.iter().filter_map(|shape| shape.btree_bytes).sum(), 1));
    rows.retain(|(_, size, _)| *size > 0);
    rows
}

/// All percentiles of all kinds of calls, and the factors of the step.
fn latency_table(summary: &Summary<'_>, at: usize) -> String {
    let mut text = "<h3>Response times in \u{b5}s, and amplification</h3>\n<table>\n<thead><tr><th></th><th class=\"left\">call</th>".to_owned();
    text += "<th title=\"calls whose response times were taken\">calls</th>";
    for percentile in LATENCIES {
        text += &format!("<th title=\"{}\">{}</th>", escape(percentile.meaning), percentile.title);
    }
    text += &format!("<th title=\"{}\">{}</th>", escape(OVER_LIMIT.1), OVER_LIMIT.0);
    for measure in FACTORS {
        text += &format!("<th title=\"{}\">{}</th>", escape(measure.meaning), measure.title);
    }
    text += "</tr></thead>\n<tbody>\n";
    let factor =
        |engine: usize, of: fn(&Step) -> Option<f64>| dash(summary.spread(at, engine, &of).map(|spread| spread.median));
    for engine in 0..summary.engines.len() {
        let mut first = true;
        for (corrected, suffix) in [(false, ""), (true, ", corrected for the rate")] {
            for kind in kinds(summary, at) {
                let values = (0..LATENCIES.len()).map(|place| latency(summary, (at, engine), kind, corrected, place));
                let values: Vec<Option<f64>> = values.collect();
                if values.iter().all(Option::is_none) {
                    continue;
                }
                let name = if first { engine_cell(engine, &summary.label(at, engine)) } else { String::new() };
                let counted = calls(summary, (at, engine), kind).filter(|_| !corrected);
                let counted = counted.map_or_else(|| "-".to_owned(), |calls| format!("{calls:.0}"));
                text +=
                    &format!("<tr><td>{name}</td><td class=\"left\">{}{suffix}</td><td>{counted}</td>", escape(kind));
                text += &values.into_iter().map(|value| format!("<td>{}</td>", dash(value))).collect::<String>();
                let over = over_limit(summary, (at, engine), kind).filter(|_| !corrected);
                text += &format!("<td>{}</td>", over.map_or_else(|| "-".to_owned(), |over| format!("{over:.0}")));
                let factors =
                    FACTORS.iter().map(|measure| if first { factor(engine, measure.of) } else { String::new() });
                text += &factors.map(|factor| format!("<td>{factor}</td>")).collect::<String>();
                text += "</tr>\n";
                first = false;
            }
        }
        if first {
            let dashes = LATENCIES.map(|_| "<td>-</td>").concat();
            let factors: String =
                FACTORS.iter().map(|measure| format!("<td>{}</td>", factor(engine, measure.of))).collect();
            text += &format!(
                "<tr><td>{}</td><td class=\"left\">-</td><td>-</td>{dashes}<td>-</td>{factors}</tr>\n",
                engine_cell(engine, &summary.label(at, engine))
            );
        }
    }
    text + "</tbody>\n</table>\n"
}

/// How many calls took how long, if there were calls.
fn histogram_table(summary: &Summary<'_>, at: usize) -> String {
    let mut rows = String::new();
    for engine in 0..summary.engines.len() {
        for kind in kinds(summary, at) {
            let Some(counts) = buckets(summary, (at, engine), kind) else { continue };
            let cells: String = counts.iter().map(|calls| format!("<td>{calls}</td>")).collect();
            let name = engine_cell(engine, &summary.label(at, engine));
            rows += &format!("<tr><td>{name}</td><td class=\"left\">{}</td>{cells}</tr>\n", escape(kind));
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let titles: String = bucket_titles().iter().map(|title| format!("<th>{title}</th>")).collect();
    format!(
        "<h3>Calls by response time: so many took at most as long</h3>\n<table>\n\
         <thead><tr><th></th><th class=\"left\">call</th>{titles}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    )
}

/// What reads ask of the trees, if any engine counted that.
fn reads_table(summary: &Summary<'_>, at: usize) -> String {
    if !has_reads(summary, at) {
        return String::new();
    }
    measures_table(summary, at, "Cache hits; trees, filters and blocks of a get and of a range read", &READS)
}

/// What flushes and compactions did for each level, if any engine says.
fn levels_table(summary: &Summary<'_>, at: usize) -> String {
    let mut rows = String::new();
    for engine in 0..summary.engines.len() {
        for work in summary.typical(at, engine).map_or(&[][..], |step| &step.level_work) {
            let name = engine_cell(engine, &summary.label(at, engine));
            let cells: String = level_cells(work).iter().map(|cell| format!("<td>{cell}</td>")).collect();
            rows += &format!("<tr><td>{name}</td><td class=\"left\">{}</td>{cells}</tr>\n", escape(&work.level));
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let titles: String =
        LEVEL_TITLES.iter().map(|(title, meaning)| format!("<th title=\"{meaning}\">{title}</th>")).collect();
    format!(
        "<h3>Flushes and compactions by level</h3>\n<table>\n\
         <thead><tr><th></th><th class=\"left\">level</th>{titles}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    )
}

/// What the whole machine did, if the kernel showed it.
fn system_table(summary: &Summary<'_>, at: usize) -> String {
    if !summary.has_system(at) {
        return String::new();
    }
    measures_table(summary, at, "The whole machine in percent of its processors, and GB read and written", &SYSTEM)
}

/// A table of measures with a row for each engine.
fn measures_table(summary: &Summary<'_>, at: usize, heading: &str, measures: &[Measure]) -> String {
    let mut text = format!("<h3>{heading}</h3>\n<table>\n<thead><tr><th></th>");
    for measure in measures {
        text += &format!("<th title=\"{}\">{}</th>", escape(measure.meaning), measure.title);
    }
    text += "</tr></thead>\n<tbody>\n";
    for engine in 0..summary.engines.len() {
        let value = |of| dash(summary.spread(at, engine, of).map(|spread| spread.median));
        let cells: String = measures.iter().map(|measure| format!("<td>{}</td>", value(&measure.of))).collect();
        text += &format!("<tr><td>{}</td>{cells}</tr>\n", engine_cell(engine, &summary.label(at, engine)));
    }
    text + "</tbody>\n</table>\n"
}

fn dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Counters;
    use crate::report::fixture;

    #[test]
    fn the_parts_of_what_was_written_are_its_sum() {
        let mut step = fixture::step("load", 10.0);
        assert!(written_parts(&step).is_none());
        step.counters =
            Counters { log_written_bytes: Some(512_000_000), flush_bytes: Some(256_000_000), ..Counters::default() };
        let parts = written_parts(&step).unwrap();
        assert!((parts.iter().sum::<f64>() - 1.5).abs() < 1e-9 && parts[3] > 0.7, "{parts:?}");
    }
}
