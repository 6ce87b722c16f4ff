//! Numbers and tables for people.

use std::ops::RangeInclusive;

/// A count with separators: `1,234,567`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and what is counted: `1 run`, `2,000 runs`.
#[must_use]
pub fn counted(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// A size with a binary unit and three digits: `512 B`, `1.50 KiB`, `23.4 MiB`.
#[must_use]
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if value < 1024 {
        return format!("{value} B");
    }
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    // 999.5 and not 1024, so that the number never takes a fourth digit.
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", digits(scaled), UNITS[unit])
}

/// A number with about three significant digits and separators: `0.012`, `1.23`, `45.6`, `1,234`; `3e-4` where these
/// would be nothing but zeros, and `0` for nothing but zero itself.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, not negative, saturating")]
pub fn digits(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".to_owned(),
        v if v < 0.0 => format!("-{}", digits(-v)),
        0.0 => "0".to_owned(),
        v if v < 0.000_95 => format!("{v:.0e}"),
        v if v < 0.9995 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
    }
}

/// A number with three significant digits and a unit, for a place where there is little room: `435K`, `1.27M`, `12.5`.
#[must_use]
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v < 999.5 => (v, ""),
        v if v < 999.5e3 => (v / 1e3, "K"),
        v if v < 999.5e6 => (v / 1e6, "M"),
        v => (v / 1e9, "G"),
    };
    format!("{}{unit}", digits(scaled))
}

/// How many characters a line may have: as many as `COLUMNS` says, if it is set; else as many as the terminal has that
/// stdout is; 80 where it is none.
#[must_use]
pub fn terminal_width() -> usize {
    let wanted = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse::<usize>().ok());
    let real = || terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    wanted.filter(|&columns| columns > 0).or_else(real).unwrap_or(80).max(40)
}

/// Words in lines of at most `width` characters, if each fits, with `indent` before each line but the first.
#[must_use]
pub fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut wrapped = String::new();
    let mut room = width;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let len = word.chars().count();
        if !wrapped.is_empty() && len + 1 > room {
            wrapped += &format!("\n{:indent$}", "");
            room = width.saturating_sub(indent);
        } else if !wrapped.is_empty() {
            wrapped.push(' ');
            room -= 1;
        }
        wrapped += word;
        room = room.saturating_sub(len);
    }
    wrapped
}

/// A table of text whose columns are as wide as their widest cell; the first columns are flush left, the others right.
#[derive(Debug, Default)]
pub struct Table {
    left: usize,
    rows: Vec<Line>,
}

#[derive(Debug)]
enum Line {
    /// A title of the rows after it, over all columns.
    Group(String),
    Cells(Vec<String>),
}

impl Table {
    /// A table with these titles, whose first column is flush left.
    #[must_use]
    pub fn new<S: AsRef<str>>(titles: &[S]) -> Self {
        Self { left: 1, rows: vec![Line::Cells(titles.iter().map(|title| title.as_ref().to_owned()).collect())] }
    }

    /// The same with so many columns flush left.
    #[must_use]
    pub fn left(self, left: usize) -> Self {
        Self { left, ..self }
    }

    /// Adds a row, which has as many cells as there are titles.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns());
        self.rows.push(Line::Cells(cells));
    }

    /// Adds a title for the rows that follow.
    pub fn group(&mut self, title: &str) {
        self.rows.push(Line::Group(title.to_owned()));
    }

    /// Whether it has nothing but titles.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns() <= self.left || !self.rows.iter().skip(1).any(|row| matches!(row, Line::Cells(_)))
    }

    /// The table without the columns that say nothing: those of dashes only go, and those of zeros (and dashes) are
    /// named instead.
    #[must_use]
    pub fn without_empty_columns(self) -> (Self, Vec<String>) {
        let rows = || self.rows.iter().filter_map(|row| if let Line::Cells(cells) = row { Some(cells) } else { None });
        let Some(titles) = rows().next() else { return (self, Vec::new()) };
        let (mut kept, mut zeros): (Vec<usize>, Vec<String>) = ((0..self.left).collect(), Vec::new());
        for (column, title) in titles.iter().enumerate().skip(self.left) {
            let cells = || rows().skip(1).map(|cells| cells[column].trim());
            if cells().any(|cell| !matches!(cell, "" | "-" | "0")) {
                kept.push(column);
            } else if cells().any(|cell| cell == "0") {
                zeros.push(title.clone());
            }
        }
        let of_kept = |row: &Line| match row {
            Line::Group(title) => Line::Group(title.clone()),
            Line::Cells(cells) => Line::Cells(kept.iter().map(|&column| cells[column].clone()).collect()),
        };
        (Self { left: self.left, rows: self.rows.iter().map(of_kept).collect() }, zeros)
    }

    /// The table in Markdown, with a row in bold for each group.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = match row {
                Line::Group(title) => {
                    let title = format!("**{}**", title.trim_start_matches("-- "));
                    std::iter::once(title).chain((1..self.columns()).map(|_| String::new())).collect()
                }
                Line::Cells(cells) => cells.clone(),
            };
            let cells: Vec<String> = cells.iter().map(|cell| cell.trim().replace('|', "\\|")).collect();
            text += &format!("| {} |\n", cells.join(" | "));
            if at == 0 {
                let rule = (0..self.columns()).map(|column| if column < self.left { "---" } else { "---:" });
                text += &format!("| {} |\n", rule.collect::<Vec<_>>().join(" | "));
            }
        }
        text
    }

    /// The table, a line for each row.
    #[must_use]
    pub fn render(&self) -> String {
        self.block(&(0..self.columns()).collect::<Vec<_>>(), &self.rows.iter().collect::<Vec<_>>())
    }

    /// The table in as many blocks below each other as lines of `width` characters need, each with the columns that are
    /// flush left.
    #[must_use]
    pub fn render_within(&self, width: usize) -> String {
        let widths = self.widths();
        let kept: Vec<usize> = (0..self.left).collect();
        let kept_width: usize = widths[..self.left].iter().map(|width| width + 2).sum();
        let mut blocks = Vec::new();
        let (mut block, mut used) = (kept.clone(), kept_width);
        for (column, column_width) in widths.iter().enumerate().skip(self.left) {
            if used + column_width > width && block.len() > kept.len() {
                blocks.push(self.block(&block, &self.lines_of(&block)));
                (block, used) = (kept.clone(), kept_width);
            }
            block.push(column);
            used += column_width + 2;
        }
        blocks.push(self.block(&block, &self.lines_of(&block)));
        blocks.join("\n")
    }

    fn columns(&self) -> usize {
        if let Some(Line::Cells(titles)) = self.rows.first() { titles.len() } else { 0 }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.columns()];
        for row in &self.rows {
            if let Line::Cells(cells) = row {
                for (width, cell) in widths.iter_mut().zip(cells) {
                    *width = cell.chars().count().max(*width);
                }
            }
        }
        widths
    }

    /// The lines of a block with these columns: without the rows that say nothing in it, and titles of no rows.
    fn lines_of(&self, columns: &[usize]) -> Vec<&Line> {
        let says_something = |cells: &[String]| {
            let mut own = columns.iter().filter(|&&column| column >= self.left).peekable();
            own.peek().is_none() || own.any(|&column| !matches!(cells[column].trim(), "" | "-"))
        };
        let mut lines: Vec<&Line> = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            match row {
                Line::Cells(cells) if at > 0 && !says_something(cells) => {}
                Line::Group(_) if matches!(lines.last(), Some(Line::Group(_))) => {
                    lines.pop();
                    lines.push(row);
                }
                _ => lines.push(row),
            }
        }
        if let Some(Line::Group(_)) = lines.last() {
            lines.pop();
        }
        lines
    }

    fn block(&self, columns: &[usize], lines: &[&Line]) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for row in lines {
            let mut line = String::new();
            match row {
                Line::Group(title) => line.push_str(title),
                Line::Cells(cells) => {
                    for (at, &column) in columns.iter().enumerate() {
                        let (cell, width) = (&cells[column], widths[column]);
                        let gap = if at == 0 { "" } else { "  " };
                        if column < self.left {
                            line += &format!("{gap}{cell:<width$}");
                        } else {
                            line += &format!("{gap}{cell:>width$}");
                        }
                    }
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Bytes from a number with an optional unit: `K`, `M`, `G`, `T` alone or with `iB` count in 1024s, with `B` in 1000s.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("`{text}` is not a size: expected a number and a unit, as in 256MiB");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let power = match unit.chars().next() {
        None | Some('b') => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some(_) => return Err(wrong()),
    };
    let base: u64 = match (&unit[unit.len().min(1)..], power) {
        ("", _) | ("ib", 1..) => 1024,
        ("b", 1..) => 1000,
        _ => return Err(wrong()),
    };
    number.checked_mul(base.pow(power)).ok_or_else(|| format!("`{text}` is too large"))
}

/// The largest count that arguments take, so that sizes made of counts stay within 64 bits.
pub const COUNT_MAX: u64 = 1 << 40;

/// A count from a number with an optional unit: `K`, `M`, `G` stand for thousands, millions and thousands of millions.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a count: expected a whole number, as in 500000, 500K or 10M");
    let (number, factor) = match text.chars().next_back().map(|unit| unit.to_ascii_lowercase()) {
        Some('k') => (&text[..text.len() - 1], 1_000),
        Some('m') => (&text[..text.len() - 1], 1_000_000),
        Some('g') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number = Some(number).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let number: u64 = number.ok_or_else(wrong)?.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large"))
}

/// A parser of counts in a range, for an argument.
pub fn counts<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let value = parse_count(text)?;
        let value = Some(value).filter(|value| range.contains(value)).and_then(|value| T::try_from(value).ok());
        value.ok_or_else(|| format!("`{text}` is not in the range {} to {}", range.start(), range.end()))
    }
}

/// A parser of sizes in a range, for an argument.
pub fn sizes<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let value = parse_size(text)?;
        let value = Some(value).filter(|value| range.contains(value)).and_then(|value| T::try_from(value).ok());
        value
            .ok_or_else(|| format!("`{text}` is not in the range {} to {}", bytes(*range.start()), bytes(*range.end())))
    }
}

/// Memory of a database: what our own engine takes.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_memory_size(text: &str) -> Result<u64, String> {
    sizes(1 << 20..=1 << 40)(text)
}

/// Seconds above 0 and up to ten million.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e7 => Ok(seconds),
        _ => Err(format!("`{text}` is not a number of seconds: expected a number above 0 and up to 10000000")),
    }
}

/// A number of milliseconds, above 0 and up to ten minutes.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ms) if ms > 0.0 && ms <= 600_000.0 => Ok(ms),
        _ => Err(format!("`{text}` is not a number of milliseconds: expected a number above 0 and up to 600000")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn one_is_told_from_many() {
        assert_eq!([0, 1, 2000].map(|value| counted(value, "leaf", "leaves")), ["0 leaves", "1 leaf", "2,000 leaves"]);
    }

    #[test]
    fn sizes_have_three_digits() {
        assert_eq!(
            [0, 1023, 1024, 1536, 24 << 20, 1023 << 20].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "1.50 KiB", "24.0 MiB", "0.999 GiB"]
        );
    }

    #[test]
    fn numbers_have_about_three_digits() {
        assert_eq!(
            [0.0, 0.0121, 0.9996, 1.234, 45.67, 99.96, 1234.5, -1.234].map(digits),
            ["0", "0.012", "1.00", "1.23", "45.7", "100", "1,235", "-1.23"]
        );
        assert_eq!(digits(f64::NAN), "-");
        assert_eq!(digits(f64::INFINITY), "-");
    }

    #[test]
    fn what_is_not_zero_does_not_print_as_zero() {
        assert_eq!([0.0003, 0.00096, 1e-12].map(digits), ["3e-4", "0.001", "1e-12"]);
    }

    #[test]
    fn words_wrap_at_the_width() {
        assert_eq!(wrap("one two three four", 8, 2), "one two\n  three\n  four");
        assert_eq!(wrap("", 8, 2), "");
    }

    #[test]
    fn a_table_that_is_too_wide_goes_on_below() {
        let mut table = Table::new(&["engine", "ops", "rss"]);
        table.group("load");
        table.row(["lsm", "1,000", "12"].map(str::to_owned));
        assert_eq!(table.render_within(14), "engine    ops\nload\nlsm     1,000\n\nengine  rss\nload\nlsm      12\n");
        assert_eq!(table.render_within(80), table.render());
        table.group("wait");
        table.row(["lsm", "5", "-"].map(str::to_owned));
        let below = "engine    ops\nload\nlsm     1,000\nwait\nlsm         5\n\nengine  rss\nload\nlsm      12\n";
        assert_eq!(table.render_within(14), below, "no row of dashes in a block");
    }

    #[test]
    fn columns_that_say_nothing_go_and_those_of_zeros_are_named() {
        let mut table = Table::new(&["step", "ops", "reads", "stalls", "hits"]);
        table.row(["load", "5", "-", "0", "0"].map(str::to_owned));
        table.group("-- more");
        table.row(["read", "7", "-", "-", "1"].map(str::to_owned));
        let (table, zeros) = table.without_empty_columns();
        assert_eq!((table.columns(), zeros), (3, vec!["stalls".to_owned()]));
        assert!(!table.is_empty());
        assert_eq!(
            table.markdown(),
            "| step | ops | hits |\n| --- | ---: | ---: |\n| load | 5 | 0 |\n| **more** |  |  |\n| read | 7 | 1 |\n"
        );
        let mut dashes = Table::new(&["step", "ops"]);
        dashes.row(["load", "-"].map(str::to_owned));
        assert!(dashes.without_empty_columns().0.is_empty());
    }

    #[test]
    fn short_numbers_have_three_digits_and_a_unit() {
        assert_eq!([12.54, 999.4, 434_962.9, 1_269_874.0].map(short), ["12.5", "999", "435K", "1.27M"]);
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["layout", "rows/s"]);
        table.row(["lsm".to_owned(), "1,000,000".to_owned()]);
        assert_eq!(table.render(), "layout     rows/s\nlsm     1,000,000\n");
    }

    #[test]
    fn sizes_count_in_1024s_unless_decimal() {
        let sizes =
            [("0", 0), ("4096", 4096), ("4096b", 4096), ("64k", 65536), ("64 KiB", 65536), ("256MiB", 268_435_456)];
        assert!(sizes.iter().all(|&(text, bytes)| parse_size(text) == Ok(bytes)));
        assert_eq!((parse_size("1GB"), parse_size("2T")), (Ok(1_000_000_000), Ok(2 << 40)));
    }

    #[test]
    fn other_texts_are_no_sizes() {
        for text in ["", "MiB", "-1", "1.5G", "1X", "1MiBs", "1bib", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_take_units_and_stay_in_their_range() {
        for (text, value) in [("0", 0), ("1M", 1_000_000), ("200k", 200_000), ("2G", 2_000_000_000), ("7", 7)] {
            assert_eq!(parse_count(text), Ok(value));
        }
        for text in ["", "K", "-1", "+1", "1.5M", "1T", "1 K", "99999999999999M"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
        assert_eq!((counts::<u16>(1..=256)("256"), sizes::<u32>(64..=1 << 20)("1KiB")), (Ok(256), Ok(1024)));
        let error = counts::<u16>(1..=256)("1K").unwrap_err();
        assert_eq!(error, "`1K` is not in the range 1 to 256");
        assert!(counts::<u8>(0..=1_000)("256").is_err());
        assert_eq!(sizes::<u32>(64..=1 << 20)("63").unwrap_err(), "`63` is not in the range 64 B to 1.00 MiB");
    }

    #[test]
    fn seconds_are_above_zero() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        assert!(["0", "-1", "inf", "NaN", "x", "1e9"].iter().all(|text| parse_seconds(text).is_err()));
    }
}
