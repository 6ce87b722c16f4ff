//! Lines over an axis: what happened in time, and how many calls took how long.

use super::scale::Scale;
use super::style::{FONT, Style, WIDTH, short, short_time};
use super::svg::{Anchor, Sample, Svg};

/// One line.
#[derive(Clone, Debug)]
pub(in crate::html) struct Series<'a> {
    /// Whose it is.
    pub(in crate::html) name: &'a str,
    /// How it is drawn.
    pub(in crate::html) style: Style,
    /// Its points from left to right.
    pub(in crate::html) points: Vec<(f64, f64)>,
}

/// An axis.
#[derive(Clone, Debug)]
pub(in crate::html) struct Axis {
    /// What is on it, with the unit.
    pub(in crate::html) title: String,
    /// Whether equal distances are equal ratios.
    pub(in crate::html) log: bool,
    /// A value as its ticks show it.
    pub(in crate::html) label: fn(f64) -> String,
    /// Ticks at these values with these labels, instead of at round numbers.
    pub(in crate::html) ticks: Vec<(f64, &'static str)>,
}

/// Lines in one frame.
#[derive(Clone, Debug)]
pub(in crate::html) struct LineChart<'a> {
    /// What it shows.
    pub(in crate::html) title: String,
    /// The axis below.
    pub(in crate::html) x: Axis,
    /// The axis at the left.
    pub(in crate::html) y: Axis,
    /// The lines.
    pub(in crate::html) series: Vec<Series<'a>>,
}

const PLOT_HEIGHT: f64 = 160.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 16.0;

impl Axis {
    /// An even axis with plain numbers.
    pub(in crate::html) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), log: false, label: short, ticks: Vec::new() }
    }

    /// A logarithmic axis of microseconds.
    pub(in crate::html) fn time(title: impl Into<String>) -> Self {
        Self { log: true, label: short_time, ..Self::new(title) }
    }

    fn scale(&self, values: impl Iterator<Item = f64>, start: f64, end: f64) -> Scale {
        let (mut min, mut max) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| value.is_finite()) {
            if value > 0.0 {
                min = min.min(value);
            }
            max = max.max(value);
        }
        match self.ticks.last() {
            Some(&(last, _)) => Scale::exact(self.ticks[0].0, last, start, end),
            None if self.log => Scale::log(min, max, start, end),
            None => Scale::linear(max, start, end),
        }
    }

    fn labels(&self, scale: Scale, count: f64) -> Vec<(f64, String)> {
        if self.ticks.is_empty() {
            scale.ticks(count).into_iter().map(|tick| (tick, (self.label)(tick))).collect()
        } else {
            self.ticks.iter().map(|&(tick, label)| (tick, label.to_owned())).collect()
        }
    }
}

impl LineChart<'_> {
    /// The picture.
    pub(in crate::html) fn draw(&self) -> String {
        let mut svg = Svg::new(&self.title, 0.0);
        let legend_end = svg.legend(0.0, self.series.iter().map(|line| (line.name, Sample::Line(line.style))));
        svg.text((2.0, legend_end + FONT + 2.0), Anchor::Start, "axis", &self.y.title);
        let top = legend_end + FONT + 12.0;
        let bottom = top + PLOT_HEIGHT;
        let right = WIDTH - RIGHT;
        let points = || self.series.iter().flat_map(|line| &line.points);
        let x = if self.x.ticks.is_empty() && !self.x.log {
            // To the last point, round or not: time does not go on.
            Scale::exact(0.0, points().map(|&(x, _)| x).fold(0.0, f64::max), LEFT, right)
        } else {
            self.x.scale(points().map(|&(x, _)| x), LEFT, right)
        };
        let y = self.y.scale(points().map(|&(_, y)| y), bottom, top);
        for (tick, label) in self.y.labels(y, 5.0) {
            svg.line((LEFT, y.at(tick)), (right, y.at(tick)), "grid");
            svg.text((LEFT - 6.0, y.at(tick) + 4.0), Anchor::End, "tick", &label);
        }
        for (tick, label) in self.x.labels(x, 8.0) {
            svg.line((x.at(tick), bottom), (x.at(tick), bottom + 4.0), "edge");
            svg.text((x.at(tick), bottom + 16.0), Anchor::Middle, "tick", &label);
        }
        svg.line((LEFT, bottom), (right, bottom), "edge");
        svg.text(((LEFT + right) / 2.0, bottom + 33.0), Anchor::Middle, "axis", &self.x.title);
        for line in &self.series {
            let finite =
                line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite() && (!self.y.log || *y > 0.0));
            let points: Vec<(f64, f64)> = finite.map(|&(px, py)| (x.at(px), y.at(py))).collect();
            svg.path(&points, line.style);
        }
        svg.set_height(bottom + 38.0);
        svg.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, log: bool) -> String {
        let y = if log { Axis::time("slowest") } else { Axis::new("rows/s") };
        let series = ["lsm", "a <b>"].iter().enumerate().map(|(at, name)| Series {
            name,
            style: Style::of(at),
            points: points.clone(),
        });
        LineChart { title: "rate".to_owned(), x: Axis::new("seconds"), y, series: series.collect() }.draw()
    }

    #[test]
    fn every_line_is_in_the_legend_and_both_axes_have_titles() {
        let text = chart(vec![(0.0, 10.0), (1.0, 20.0)], false);
        for wanted in [">lsm<", ">a &lt;b&gt;<", ">seconds<", ">rows/s<", "<title>rate</title>"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert_eq!(text.matches("<polyline").count(), 4, "two lines and their samples");
    }

    #[test]
    fn whatever_the_points_are_all_places_are_numbers() {
        for log in [false, true] {
            for points in
                [vec![], vec![(0.0, 0.0)], vec![(0.0, 5.0), (0.0, f64::NAN)], vec![(1.0, 0.0), (2.0, f64::INFINITY)]]
            {
                let text = chart(points, log);
                assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            }
        }
    }
}
