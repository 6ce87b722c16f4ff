//! A picture of lines, boxes and text.

use super::style::{FONT, Style, WIDTH, text_width};
use std::fmt::Write as _;

/// A picture in the making.
#[derive(Debug)]
pub(super) struct Svg {
    title: String,
    height: f64,
    body: String,
}

/// Which part of a text stands at its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty picture; the title is read out and shown as a hint.
    pub(super) fn new(title: &str, height: f64) -> Self {
        Self { title: title.to_owned(), height, body: String::new() }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let (x1, y1, x2, y2) = (place(from.0), place(from.1), place(to.0), place(to.1));
        self.add(&format!(r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{class}"/>"#));
    }

    /// A box filled with a colour of this opacity.
    pub(super) fn rect(&mut self, corner: (f64, f64), size: (f64, f64), colour: &str, opacity: f64) {
        let (x, y, width, height) = (place(corner.0), place(corner.1), place(size.0), place(size.1));
        self.add(&format!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}" fill-opacity="{opacity}"/>"#
        ));
    }

    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = (place(at.0), place(at.1));
        self.add(&format!(r#"<text x="{x}" y="{y}" text-anchor="{anchor}" class="{class}">{}</text>"#, escape(text)));
    }

    /// A line through points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], style: Style) {
        let points: Vec<String> = points.iter().map(|&(x, y)| format!("{},{}", place(x), place(y))).collect();
        let Style { colour, dashes } = style;
        let dashes = if dashes.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dashes}""#) };
        self.add(&format!(r#"<polyline points="{}" class="series" stroke="{colour}"{dashes}/>"#, points.join(" ")));
    }

    /// Names with samples from `top` on, in as many rows as they need; returns where the last row ends.
    pub(super) fn legend<'n>(&mut self, top: f64, items: impl Iterator<Item = (&'n str, Sample)>) -> f64 {
        const SAMPLE: f64 = 22.0;
        const ROW: f64 = 17.0;
        let (mut x, mut y) = (2.0, top + FONT);
        for (name, sample) in items {
            let width = SAMPLE + text_width(name) + 12.0;
            if x + width > WIDTH && x > 2.0 {
                (x, y) = (2.0, y + ROW);
            }
            match sample {
                Sample::Line(style) => self.path(&[(x, y - 4.0), (x + SAMPLE - 5.0, y - 4.0)], style),
                Sample::Box(colour, opacity) => self.rect((x + 3.0, y - 10.0), (12.0, 11.0), colour, opacity),
            }
            self.text((x + SAMPLE, y), Anchor::Start, "label", name);
            x += width;
        }
        y + 6.0
    }

    pub(super) fn set_height(&mut self, height: f64) {
        self.height = height;
    }

    /// The picture as an element.
    pub(super) fn finish(self) -> String {
        let (title, height) = (escape(&self.title), place(self.height));
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\" xmlns=\"http://www.w3.org/2000/svg\">\
             <title>{title}</title>\n{}</svg>\n",
            self.body
        )
    }

    fn add(&mut self, element: &str) {
        writeln!(self.body, "{element}").expect("a string takes all text");
    }
}

/// What stands before a name in a legend.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sample {
    Line(Style),
    Box(&'static str, f64),
}

/// A place with one digit after the point: a tenth of a dot is less than eyes see.
fn place(value: f64) -> String {
    debug_assert!(value.is_finite(), "a place is a number");
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Text with the characters that mean something to a browser written out.
#[must_use]
pub(in crate::html) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_wherever_it_stands() {
        let mut svg = Svg::new("a \"title\" <b>", 10.0);
        svg.text((1.0, 2.25), Anchor::Middle, "label", "R&D <'x'>");
        let text = svg.finish();
        assert!(text.contains("aria-label=\"a &quot;title&quot; &lt;b&gt;\""), "{text}");
        assert!(
            text.contains("x=\"1\" y=\"2.2\" text-anchor=\"middle\" class=\"label\">R&amp;D &lt;&#39;x&#39;&gt;<"),
            "{text}"
        );
    }

    #[test]
    fn a_long_legend_goes_on_in_the_next_row() {
        let mut svg = Svg::new("", 10.0);
        let names = ["spinney-btree", "spinney-lsm", "spinney-lsm-tiered", "rocksdb-leveled", "wiredtiger-btree"];
        let end = svg.legend(0.0, names.iter().map(|&name| (name, Sample::Box("#000", 1.0))));
        assert!(end > 30.0 && end < 60.0, "{end}");
        let text = svg.finish();
        assert!(names.iter().all(|name| text.contains(name)));
    }
}
