//! Bars that lie: a row for each engine, with its name at the left and its value at the end.

use super::scale::Scale;
use super::style::{FONT, WIDTH, short, short_bytes, text_width};
use super::svg::{Anchor, Sample, Svg};

/// A row.
#[derive(Clone, Debug, Default)]
pub(in crate::html) struct Bar {
    /// Its name.
    pub(in crate::html) label: String,
    /// The colour of its segments.
    pub(in crate::html) colour: &'static str,
    /// The parts of the bar from the left.
    pub(in crate::html) segments: Vec<Segment>,
    /// The smallest and the largest of repeated measurements.
    pub(in crate::html) range: Option<(f64, f64)>,
    /// What stands behind the bar.
    pub(in crate::html) text: String,
}

/// A part of a bar.
#[derive(Clone, Copy, Debug)]
pub(in crate::html) struct Segment {
    /// Its length.
    pub(in crate::html) value: f64,
    /// How strong its colour is, from 0 to 1.
    pub(in crate::html) opacity: f64,
}

/// Bars below each other.
#[derive(Clone, Debug, Default)]
pub(in crate::html) struct BarChart {
    /// What it shows.
    pub(in crate::html) title: String,
    /// What the axis shows, with the unit.
    pub(in crate::html) axis: String,
    /// Whether equal distances are equal ratios.
    pub(in crate::html) log: bool,
    /// What the opacities of segments mean.
    pub(in crate::html) legend: Vec<(&'static str, f64)>,
    /// The rows from the top.
    pub(in crate::html) bars: Vec<Bar>,
}

const ROW: f64 = 20.0;
const BAR: f64 = 14.0;
/// The colour of samples in a legend of opacities.
const NEUTRAL: &str = "#333333";

impl Bar {
    fn total(&self) -> f64 {
        self.segments.iter().map(|segment| segment.value).sum()
    }
}

impl BarChart {
    /// The picture.
    pub(in crate::html) fn draw(&self) -> String {
        let mut svg = Svg::new(&self.title, 0.0);
        let mut top = 4.0;
        if !self.legend.is_empty() {
            top =
                svg.legend(0.0, self.legend.iter().map(|&(name, opacity)| (name, Sample::Box(NEUTRAL, opacity)))) + 4.0;
        }
        let longest = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| text_width(text)).fold(0.0, f64::max);
        let left = longest(&mut self.bars.iter().map(|bar| &bar.label)) + 12.0;
        let right = (WIDTH - longest(&mut self.bars.iter().map(|bar| &bar.text)) - 12.0).max(left + 60.0);
        let bottom = top + ROW * self.bars.len() as f64;
        let scale = self.scale(left, right);
        let ticks = scale.ticks(((right - left) / 70.0).floor().max(2.0));
        for tick in ticks {
            svg.line((scale.at(tick), top), (scale.at(tick), bottom), "grid");
            let label = if self.log { short_bytes(tick) } else { short(tick) };
            svg.text((scale.at(tick), bottom + 15.0), Anchor::Middle, "tick", &label);
        }
        for (row, bar) in self.bars.iter().enumerate() {
            self.draw_bar(&mut svg, bar, top + ROW * row as f64, scale, left);
        }
        svg.line((left, top), (left, bottom), "edge");
        svg.text(((left + right) / 2.0, bottom + 32.0), Anchor::Middle, "axis", &self.axis);
        svg.set_height(bottom + 38.0);
        svg.finish()
    }

    fn draw_bar(&self, svg: &mut Svg, bar: &Bar, top: f64, scale: Scale, left: f64) {
        let baseline = top + ROW / 2.0 + FONT * 0.35;
        svg.text((left - 7.0, baseline), Anchor::End, "label", &bar.label);
        let mut sum = 0.0;
        let mut end = left;
        for segment in bar.segments.iter().filter(|segment| segment.value > 0.0) {
            sum += segment.value;
            let place = scale.at(sum);
            // A part that is there is seen.
            let width = (place - end).max(0.7);
            svg.rect((end, top + (ROW - BAR) / 2.0), (width, BAR), bar.colour, segment.opacity);
            end += width;
        }
        if let Some((min, max)) = bar.range.filter(|_| !self.log) {
            let y = top + ROW / 2.0;
            svg.line((scale.at(min), y), (scale.at(max), y), "range");
            for place in [scale.at(min), scale.at(max)] {
                svg.line((place, y - 4.0), (place, y + 4.0), "range");
            }
            end = end.max(scale.at(max));
        }
        svg.text((end + 6.0, baseline), Anchor::Start, "value", &bar.text);
    }

    fn scale(&self, left: f64, right: f64) -> Scale {
        let ends = self.bars.iter().map(|bar| bar.range.map_or(0.0, |(_, max)| max).max(bar.total()));
        let ends: Vec<f64> = ends.filter(|end| end.is_finite()).collect();
        let max = ends.iter().copied().fold(0.0, f64::max);
        if self.log {
            let min = ends.iter().copied().filter(|&end| end > 0.0).fold(f64::INFINITY, f64::min);
            // A decade less, so that the shortest bar has a length.
            Scale::log(min / 2.0, max, left, right)
        } else {
            Scale::linear(max, left, right)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, values: &[f64]) -> Bar {
        let segments = values.iter().map(|&value| Segment { value, opacity: 0.5 }).collect();
        Bar { label: label.to_owned(), colour: "#000000", segments, range: None, text: "1,234 <x>".to_owned() }
    }

    #[test]
    fn each_engine_has_a_row_also_one_without_a_value() {
        let bars = vec![bar("spinney-lsm", &[3.0, 1.0]), bar("a&b", &[])];
        let legend = vec![("log", 1.0), ("flush", 0.5)];
        let text = BarChart { title: "t".to_owned(), axis: "KiB".to_owned(), log: false, legend, bars }.draw();
        for wanted in [">spinney-lsm<", ">a&amp;b<", ">log<", ">flush<", ">KiB<", ">1,234 &lt;x&gt;<"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert_eq!(text.matches("<rect").count(), 4, "two segments and two samples");
    }

    #[test]
    fn nothing_and_nonsense_draw_no_nonsense() {
        for values in [vec![], vec![0.0], vec![f64::NAN], vec![f64::INFINITY, 1.0]] {
            for log in [false, true] {
                let bars = vec![Bar { range: Some((0.0, 1.0)), ..bar("x", &values) }];
                let text = BarChart { bars, log, ..BarChart::default() }.draw();
                assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            }
        }
    }
}
