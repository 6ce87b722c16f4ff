//! Numbers and tables for people.

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

/// A positive number with about three significant digits and separators: `0.012`, `1.23`, `45.6`, `1,234`.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, not negative, saturating")]
pub fn digits(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".to_owned(),
        v if v < 0.0005 => "0".to_owned(),
        v if v < 0.9995 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
    }
}

/// A table of text whose columns are as wide as their widest cell; the first column is flush left, the others right.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these titles.
    #[must_use]
    pub fn new(titles: &[&str]) -> Self {
        Self { rows: vec![titles.iter().map(|&title| title.to_owned()).collect()] }
    }

    /// Adds a row, which has as many cells as there are titles.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
        debug_assert_eq!(self.rows.last().map(Vec::len), self.rows.first().map(Vec::len));
    }

    /// The table, a line for each row.
    #[must_use]
    pub fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            text.push_str(&line(row, &widths));
            text.push('\n');
        }
        text
    }
}

/// One line of cells: the first flush left, the others flush right, two spaces between them.
#[must_use]
pub fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (at, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if at == 0 {
            text += &format!("{cell:<width$}");
        } else {
            text += &format!("  {cell:>width$}");
        }
    }
    text.truncate(text.trim_end().len());
    text
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
            [0.0, 0.0004, 0.0121, 0.9996, 1.234, 45.67, 99.96, 1234.5].map(digits),
            ["0", "0", "0.012", "1.00", "1.23", "45.7", "100", "1,235"]
        );
        assert_eq!(digits(f64::NAN), "-");
        assert_eq!(digits(f64::INFINITY), "-");
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
}
