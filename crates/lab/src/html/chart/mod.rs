//! Charts as SVG, drawn without a library: what a report needs is lines, bars and axes.

mod bars;
mod lines;
mod scale;
mod style;
mod svg;

pub(super) use bars::{Bar, BarChart, Segment};
pub(super) use lines::{Axis, LineChart, Series};
pub(super) use style::{Style, short_bytes};
pub(super) use svg::escape;
