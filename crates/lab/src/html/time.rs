//! Charts of what happened in time within a step, and of how long its calls took.

use super::chart::{Axis, LineChart, Series, Style, escape, short_bytes};
use crate::report::{Second, Step, Summary, engine_label, kinds};

/// Points of a line; more seconds are taken together.
const POINTS_MAX: usize = 300;
/// Kinds of calls with a curve of their own; the table has all.
const CURVES_MAX: usize = 4;

/// The charts of a step that have something to show.
pub(super) fn charts(summary: &Summary<'_>, at: usize, names: &[String]) -> String {
    let steps: Vec<Option<&Step>> = (0..summary.engines.len()).map(|engine| summary.typical(at, engine)).collect();
    let whole: Vec<&[Second]> = steps.iter().map(|step| step.map(whole_seconds).unwrap_or_default()).collect();
    let group = whole.iter().map(|seconds| seconds.len()).max().unwrap_or(0).div_ceil(POINTS_MAX).max(1);
    let each = if group > 1 { format!(", {group} s a point") } else { String::new() };
    let unit = summary.steps[at].unit;
    let label = summary.steps[at].label();
    let mut text = String::new();
    let mut add = |caption: &str, x: Axis, y: Axis, lines: Vec<Vec<(f64, f64)>>| {
        if lines.iter().any(|points| points.len() > 1) {
            let title = format!("{label}: {caption}");
            let series = lines.into_iter().enumerate().map(|(engine, points)| Series {
                name: &names[engine],
                style: Style::of(engine),
                points,
            });
            text += &figure(caption, &LineChart { title, x, y, series: series.collect() }.draw());
        }
    };
    let seconds_axis = || Axis::new(format!("seconds since the step began{each}"));
    let lines = |of: &dyn Fn(&[Second]) -> Option<f64>| -> Vec<Vec<(f64, f64)>> {
        whole.iter().map(|seconds| grouped(seconds, group, of)).collect()
    };
    let rate =
        lines(&|group| Some(group.iter().map(|second| second.operations as f64).sum::<f64>() / group.len() as f64));
    add("Rate over time", seconds_axis(), Axis::new(format!("{unit}s/s")), rate);
    let slowest =
        lines(&|group| Some(group.iter().map(|second| second.max_us).fold(0.0, f64::max)).filter(|&max| max > 0.0));
    add("Slowest call of each second", seconds_axis(), Axis::time("response time (log)"), slowest);
    let size = lines(&|group| Some(group.iter().rev().find_map(|second| second.disk_bytes)? as f64));
    add("Size over time", seconds_axis(), Axis { label: short_bytes, ..Axis::new("on disk") }, size);
    let debt = lines(&|group| Some(group.iter().rev().find_map(|second| second.debt_bytes)? as f64));
    if debt.iter().flatten().any(|&(_, bytes)| bytes > 0.0) {
        let y = Axis { label: short_bytes, ..Axis::new("to be compacted") };
        add("Compaction debt over time", seconds_axis(), y, debt);
    }
    for kind in kinds(summary, at).into_iter().take(CURVES_MAX) {
        let curve = |step: &Option<&Step>| -> Vec<(f64, f64)> {
            let Some(operation) = step.and_then(|step| step.operation(kind)) else { return Vec::new() };
            // A percentile of too few calls is that of the longest.
            let enough = |share: f64| share >= 1.0 || operation.calls as f64 * (1.0 - share) >= 0.999;
            let points = operation.curve.iter().filter(|&&(share, _)| operation.calls > 1 && enough(share));
            points.map(|&(share, us)| (nines(share), us)).collect()
        };
        let x = Axis { ticks: nine_ticks(), ..Axis::new(format!("percentile of the {kind} calls")) };
        let caption = format!("Response time of {kind}");
        add(&caption, x, Axis::time("response time (log)"), steps.iter().map(curve).collect());
    }
    text
}

/// The seconds of a step without the last one, which is seldom a whole one.
fn whole_seconds(step: &Step) -> &[Second] {
    let seconds = step.cost.map_or(0.0, |cost| cost.seconds);
    let whole = step.seconds.iter().enumerate().take_while(|(at, _)| *at as f64 + 1.0 <= seconds).count();
    &step.seconds[..whole]
}

/// A point for each group of seconds, at its end.
fn grouped(seconds: &[Second], group: usize, of: &dyn Fn(&[Second]) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |(at, group_of): (usize, &[Second])| Some(((at * group + group_of.len()) as f64, of(group_of)?));
    seconds.chunks(group).enumerate().filter_map(point).collect()
}

/// A share of calls as the number of nines in it; all calls stand where six nines would.
fn nines(share: f64) -> f64 {
    if share >= 1.0 { ALL } else { -(1.0 - share).log10() }
}

const ALL: f64 = 5.0;

fn nine_ticks() -> Vec<(f64, &'static str)> {
    let shares = [(0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (1.0, "max")];
    shares.map(|(share, label)| (nines(share), label)).to_vec()
}

/// A chart with its caption.
pub(super) fn figure(caption: &str, svg: &str) -> String {
    format!("<figure><figcaption>{}</figcaption>\n{svg}</figure>\n", escape(caption))
}

/// The names of all engines as charts have them.
pub(super) fn names(summary: &Summary<'_>) -> Vec<String> {
    summary.engines.iter().map(|engine| engine_label(engine)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Cost, fixture};

    #[test]
    fn a_broken_second_at_the_end_is_no_point() {
        let cost = Some(Cost { seconds: 2.5, ..Cost::default() });
        let step = Step { cost, seconds: vec![Second::default(); 3], ..Step::default() };
        assert_eq!(whole_seconds(&step).len(), 2);
    }

    #[test]
    fn many_seconds_are_taken_together() {
        let seconds: Vec<Second> = (0..7).map(|n| Second { operations: n, ..Second::default() }).collect();
        let points = grouped(&seconds, 3, &|group| Some(group.len() as f64));
        assert_eq!(points, [(3.0, 3.0), (6.0, 3.0), (7.0, 1.0)]);
    }

    /// A step of an hour has more than a point for each hundredth of it, and no stall is averaged away.
    #[test]
    fn an_hour_is_a_chart_of_rates_and_of_slowest_calls() {
        let seconds =
            |at: u64| Second { operations: at, max_us: if at == 1_800 { 9e6 } else { 5.0 }, ..Second::default() };
        let hour = Step {
            cost: Some(Cost { seconds: 3_600.0, operations: 1, rate: 1.0, ..Cost::default() }),
            seconds: (0..3_600).map(seconds).collect(),
            ..fixture::step("overwrite", 1.0)
        };
        let report = fixture::report(vec![fixture::run("lsm", 0, vec![hour])]);
        let summary = Summary::new(&report);
        let text = charts(&summary, 0, &names(&summary));
        // The heights of the points of a chart's line.
        let points = |caption: &str| -> Vec<&str> {
            let (_, chart) = text.split_once(&format!("<figcaption>{caption}")).unwrap();
            let lines = chart.split("</figure>").next().unwrap().split("<polyline points=\"").skip(1);
            let lines = lines.map(|line| line.split('"').next().unwrap().split_whitespace());
            let longest = lines.max_by_key(|line| line.clone().count()).unwrap();
            longest.map(|point| point.split(',').next_back().unwrap()).collect()
        };
        let slowest = points("Slowest call");
        assert!(points("Rate over time").len() == 300 && text.contains("12 s a point"), "{text}");
        assert!(
            slowest.len() == 300 && slowest.iter().filter(|&&height| height != slowest[0]).count() == 1,
            "{slowest:?}"
        );
    }

    #[test]
    fn percentiles_are_spread_by_their_nines() {
        let ticks = nine_ticks();
        assert!(ticks.is_sorted_by(|a, b| a.0 < b.0), "{ticks:?}");
        assert!((nines(0.99) - 2.0).abs() < 1e-9);
    }
}
