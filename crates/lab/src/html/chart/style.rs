//! What all charts share: their size, how engines are drawn, and numbers as axes have them.

/// Width of every chart, in the units of its own picture.
pub(super) const WIDTH: f64 = 540.0;
/// Size of the letters in charts.
pub(super) const FONT: f64 = 12.0;

/// How an engine is drawn, in every chart of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::html) struct Style {
    /// A colour.
    pub(in crate::html) colour: &'static str,
    /// Dashes of its lines; empty for none.
    pub(in crate::html) dashes: &'static str,
}

/// Colours that people with any kind of sight tell apart (Okabe and Ito, 2008, without the yellow that paper swallows).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"];
const DASHES: [&str; 3] = ["", "6 3", "2 2"];

impl Style {
    /// The style of the engine at this place: colours first, then the same with dashes.
    pub(in crate::html) fn of(place: usize) -> Self {
        let round = place / COLOURS.len();
        Self { colour: COLOURS[place % COLOURS.len()], dashes: DASHES[round % DASHES.len()] }
    }
}

/// About how wide a text is: letters of the fonts that browsers take are 0.6 of their size wide, or less.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * FONT * 0.58
}

/// A number for an axis: `0`, `0.5`, `20k`, `1.5M`.
pub(in crate::html) fn short(value: f64) -> String {
    let plain = |value: f64| {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value.abs() {
        v if v >= 1e9 => plain(value / 1e9) + "G",
        v if v >= 1e6 => plain(value / 1e6) + "M",
        v if v >= 1e3 => plain(value / 1e3) + "k",
        v if v > 0.0 && v < 1e-3 => format!("{value:.0e}"),
        _ => plain(value),
    }
}

/// Bytes with a decimal unit, as sizes in GB are elsewhere: `34.6 MB`.
pub(in crate::html) fn short_bytes(bytes: f64) -> String {
    let (scaled, unit) = match bytes {
        v if v >= 1e12 => (v / 1e12, "TB"),
        v if v >= 1e9 => (v / 1e9, "GB"),
        v if v >= 1e6 => (v / 1e6, "MB"),
        v if v >= 1e3 => (v / 1e3, "kB"),
        v => (v, "B"),
    };
    format!("{scaled:.0$} {unit}", usize::from(scaled < 99.95 && scaled.fract() > 0.0))
}

/// Microseconds for an axis: `100 ns`, `10 us`, `1 ms`, `2 s`.
pub(in crate::html) fn short_time(us: f64) -> String {
    match us {
        v if v >= 1e6 => format!("{} s", short(v / 1e6)),
        v if v >= 1e3 => format!("{} ms", short(v / 1e3)),
        v if v >= 1.0 => format!("{} \u{b5}s", short(v)),
        v => format!("{} ns", short(v * 1e3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        assert_eq!([0.0, 0.5, 20_000.0, 1.5e6, 2e9, 2e-5].map(short), ["0", "0.5", "20k", "1.5M", "2G", "2e-5"]);
        assert_eq!([0.1, 10.0, 1e3, 2e6].map(short_time), ["100 ns", "10 \u{b5}s", "1 ms", "2 s"]);
    }

    #[test]
    fn sizes_are_decimal() {
        assert_eq!([0.0, 512.0, 34.6e6, 1e9, 123.4e9].map(short_bytes), ["0 B", "512 B", "34.6 MB", "1 GB", "123 GB"]);
    }

    #[test]
    fn twenty_engines_have_styles_of_their_own() {
        let styles: Vec<Style> = (0..20).map(Style::of).collect();
        for (at, style) in styles.iter().enumerate() {
            assert!(!styles[..at].contains(style), "{at}");
        }
    }
}
