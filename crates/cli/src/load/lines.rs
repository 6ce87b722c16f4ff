//! Lines of text, numbered from 1.

use anyhow::{Context as _, Result, bail};
use spinney::base::key::VALUE_BYTES_MAX;
use std::io::{BufRead as _, BufReader, Read};

/// Splits a text into lines.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    number: u64,
    line: Vec<u8>,
    /// Lines that come before those of the reader, and how many of their bytes have come.
    unread: Vec<u8>,
    unread_at: usize,
}

impl<R: Read> Lines<R> {
    /// The lines of `reader`.
    pub(crate) fn new(reader: R) -> Self {
        let reader = BufReader::with_capacity(256 << 10, reader);
        Self { reader, number: 0, line: Vec::new(), unread: Vec::new(), unread_at: 0 }
    }

    /// Goes to the next line that is not empty; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        while self.advance_any()? {
            if !self.line().trim_ascii().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes to the next line; false at the end.
    pub(crate) fn advance_any(&mut self) -> Result<bool> {
        self.number += 1;
        self.line.clear();
        if self.unread_at < self.unread.len() {
            let rest = &self.unread[self.unread_at..];
            let len = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            self.line.extend_from_slice(&rest[..len]);
            self.unread_at += len;
            return Ok(true);
        }
        let mut limited = self.reader.by_ref().take(VALUE_BYTES_MAX as u64 + 2);
        let read = limited.read_until(b'\n', &mut self.line).with_context(|| format!("line {}", self.number))?;
        if self.line().len() > VALUE_BYTES_MAX {
            bail!("line {}: longer than {VALUE_BYTES_MAX} bytes", self.number);
        }
        Ok(read > 0)
    }

    /// The line without its end (`\n` or `\r\n`).
    pub(crate) fn line(&self) -> &[u8] {
        without_end(&self.line)
    }

    /// The line with its end.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.line
    }

    /// The number of the line.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Has whole lines come again: the last ones that came, of which line `number` came before them.
    pub(crate) fn unread(&mut self, lines: &[u8], number: u64) {
        self.unread.drain(..self.unread_at);
        self.unread.splice(..0, lines.iter().copied());
        self.unread_at = 0;
        self.number = number;
    }
}

/// A line without its end.
pub(crate) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(u64, String)> {
        let mut lines = Lines::new(text.as_bytes());
        let mut all = Vec::new();
        while lines.advance().unwrap() {
            all.push((lines.number(), String::from_utf8(lines.line().to_vec()).unwrap()));
        }
        all
    }

    #[test]
    fn empty_lines_count_but_do_not_come() {
        assert_eq!(lines("a\n\n  \nb\n"), [(1, "a".to_owned()), (4, "b".to_owned())]);
        assert_eq!(lines(""), []);
    }

    #[test]
    fn lines_can_come_again() {
        let mut lines = Lines::new("a\nb\nc\nd".as_bytes());
        for _ in 0..3 {
            assert!(lines.advance_any().unwrap());
        }
        lines.unread(b"b\nc\n", 1);
        assert!(lines.advance_any().unwrap());
        assert_eq!((lines.number(), lines.line()), (2, &b"b"[..]));
        lines.unread(b"b\n", 1);
        for (number, line) in [(2, b"b"), (3, b"c"), (4, b"d")] {
            assert!(lines.advance_any().unwrap());
            assert_eq!((lines.number(), lines.line()), (number, &line[..]));
        }
        assert!(!lines.advance_any().unwrap());
    }

    #[test]
    fn both_line_ends_and_none_at_the_end_of_the_text_do() {
        assert_eq!(lines("a\r\nb"), [(1, "a".to_owned()), (2, "b".to_owned())]);
    }
}
