//! Lines of text, numbered from 1.

use anyhow::{Context as _, Result, bail};
use spinney::base::key::VALUE_BYTES_MAX;
use std::io::{BufRead as _, BufReader, Read};

/// Splits a text into lines without their ends (`\n` or `\r\n`), leaving out empty ones.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    number: u64,
    line: Vec<u8>,
    /// The last line is wanted once more.
    again: bool,
}

impl<R: Read> Lines<R> {
    /// The lines of `reader`.
    pub(super) fn new(reader: R) -> Self {
        Self { reader: BufReader::with_capacity(256 << 10, reader), number: 0, line: Vec::new(), again: false }
    }

    /// Has [`Self::next`] give the line once more that it just gave.
    pub(super) fn again(&mut self) {
        self.again = true;
    }

    /// The next line that is not empty, with its number; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if std::mem::take(&mut self.again) {
            return Ok(Some((self.number, &self.line)));
        }
        loop {
            self.number += 1;
            self.line.clear();
            let mut limited = self.reader.by_ref().take(VALUE_BYTES_MAX as u64 + 2);
            let read = limited.read_until(b'\n', &mut self.line).with_context(|| format!("line {}", self.number))?;
            if read == 0 {
                return Ok(None);
            }
            let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            let len = line.strip_suffix(b"\r").unwrap_or(line).len();
            if len > VALUE_BYTES_MAX {
                bail!("line {}: longer than {VALUE_BYTES_MAX} bytes", self.number);
            }
            self.line.truncate(len);
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some((self.number, &self.line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(u64, String)> {
        let mut lines = Lines::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            all.push((number, String::from_utf8(line.to_vec()).unwrap()));
        }
        all
    }

    #[test]
    fn empty_lines_count_but_do_not_come() {
        assert_eq!(lines("a\n\n  \nb\n"), [(1, "a".to_owned()), (4, "b".to_owned())]);
        assert_eq!(lines(""), []);
    }

    #[test]
    fn a_line_can_be_had_once_more() {
        let mut lines = Lines::new("a\nb\n".as_bytes());
        for (again, expected) in [(true, b"a"), (false, b"a"), (false, b"b")] {
            assert_eq!(lines.next().unwrap().unwrap().1, expected);
            if again {
                lines.again();
            }
        }
    }

    #[test]
    fn both_line_ends_and_none_at_the_end_of_the_text_do() {
        assert_eq!(lines("a\r\nb"), [(1, "a".to_owned()), (2, "b".to_owned())]);
    }
}
