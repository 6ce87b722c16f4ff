//! Stdout, and bytes as text.

use crate::escape::{unescape, write_escaped};
use crate::failure::Usage;
use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::{Value as Json, json};
use spinney::Table;
use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write};

/// A terminal that is narrower gets lines of this length.
const COLUMNS_MIN: usize = 40;

/// How bytes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Plain,
    /// As text on one line, with escapes.
    Escaped,
    /// As hexadecimal digits.
    Hex,
}

impl Form {
    /// What the flags `--escape` and `--hex` ask for.
    pub(crate) fn of(escape: bool, hex: bool) -> Self {
        match (escape, hex) {
            (_, true) => Self::Hex,
            (true, false) => Self::Escaped,
            (false, false) => Self::Plain,
        }
    }
}

/// Buffered stdout.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    terminal: bool,
    /// Every result ends with a line end, whatever it is.
    lines_only: bool,
}

impl Output {
    /// The process's stdout.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self { stdout: BufWriter::with_capacity(64 << 10, stdout.lock()), terminal, lines_only: terminal }
    }

    /// Has every result end with a line end, as on a terminal.
    pub(crate) fn set_lines_only(&mut self) {
        self.lines_only = true;
    }

    /// Whether every result ends with a line end, whatever it is: on a terminal, and where several results come.
    pub(crate) fn has_lines_only(&self) -> bool {
        self.lines_only
    }

    /// The columns that a line may take; none when nothing but a terminal would cut or wrap it.
    pub(crate) fn columns(&self) -> Option<usize> {
        let size = terminal_size::terminal_size_of(io::stdout()).filter(|_| self.terminal);
        size.map(|(width, _)| usize::from(width.0).max(COLUMNS_MIN))
    }

    /// Prints bytes in the form asked for, and with escapes where a terminal would take them for commands.
    pub(crate) fn bytes(&mut self, bytes: &[u8], form: Form) -> io::Result<()> {
        match form {
            Form::Hex => self.write_all(hex(bytes).as_bytes()),
            Form::Plain if !self.terminal => self.write_all(bytes),
            Form::Plain | Form::Escaped => write_escaped(bytes, self),
        }
    }

    /// Prints a value as indented JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer_pretty(&mut *self, value).map_err(io::Error::from)?;
        Ok(writeln!(self)?)
    }

    /// Prints a value as one line of JSON.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut *self, value).map_err(io::Error::from)?;
        Ok(writeln!(self)?)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stdout.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush().map_err(named)
    }
}

/// An error of stdout that says so; its kind stays.
fn named(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to stdout: {error}"))
}

/// How the values of a table are shown: in the form asked for, but those of 8 bytes in a table whose merge operator is
/// `add` as signed numbers, unless their bytes are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    numbers: bool,
    form: Form,
}

impl Values {
    /// The values of this table.
    pub(crate) fn of(table: &Table, form: Form) -> Self {
        Self { numbers: form == Form::Plain && table.options().merge.as_deref() == Some("add"), form }
    }

    /// Prints one.
    pub(crate) fn print(self, value: &[u8], out: &mut Output) -> io::Result<()> {
        match self.number(value) {
            Some(number) => write!(out, "{number}"),
            None => out.bytes(value, self.form),
        }
    }

    /// Whether one is printed as text, not as its bytes.
    pub(crate) fn is_text(self, value: &[u8]) -> bool {
        self.form != Form::Plain || self.number(value).is_some()
    }

    /// One as JSON: a number, or as [`json_of`] has it.
    pub(crate) fn json(self, value: &[u8]) -> Json {
        self.number(value).map_or_else(|| self.json_key(value), Json::from)
    }

    /// A key as JSON.
    pub(crate) fn json_key(self, key: &[u8]) -> Json {
        if self.form == Form::Hex { json!({ "hex": hex(key) }) } else { json_of(key) }
    }

    /// The number that a value is shown as.
    pub(crate) fn number(self, value: &[u8]) -> Option<i64> {
        value.try_into().ok().filter(|_| self.numbers).map(i64::from_le_bytes)
    }
}

/// Bytes as JSON: a string when they are UTF-8, else `{"hex": "…"}`.
pub(crate) fn json_of(bytes: &[u8]) -> Json {
    std::str::from_utf8(bytes).map_or_else(|_| json!({ "hex": hex(bytes) }), Json::from)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of an argument: with `escapes` those that [`write_escaped`] writes are understood, without them the text
/// is meant as it is.
pub(crate) fn argument(text: &str, escapes: bool) -> Result<Vec<u8>> {
    if escapes { unescaped(text) } else { Ok(text.as_bytes().to_vec()) }
}

fn unescaped(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    if !unescape(text.as_bytes(), &mut bytes) {
        bail!(Usage(format!("`{text}` has a backslash that begins none of \\n \\r \\t \\\\ \\xNN")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::escape;

    #[test]
    fn any_bytes_come_back_from_their_escapes() {
        let all: Vec<u8> = (0..=255).chain("pâté\u{85}\\x00\n".bytes()).collect();
        let text = escape(&all);
        assert!(!text.contains(char::is_control), "{text}");
        assert_eq!(unescaped(&text).unwrap(), all);
    }

    #[test]
    fn plain_text_is_not_changed() {
        assert_eq!(escape("{\"a\": 1, \"é\": 2}".as_bytes()), "{\"a\": 1, \"é\": 2}");
        assert_eq!(argument("C:\\new", false).unwrap(), b"C:\\new");
    }

    #[test]
    fn hexadecimal_digits_of_both_cases_count() {
        assert_eq!(unescaped("\\x0a\\xFf").unwrap(), [0x0a, 0xff]);
    }

    #[test]
    fn a_wrong_escape_is_an_error() {
        for text in ["\\", "a\\", "\\q", "\\x", "\\x4", "\\xg0"] {
            assert!(unescaped(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_hexadecimal_in_json() {
        assert_eq!(json_of(b"text"), "text");
        assert_eq!(json_of(&[0xff, 0x00]), json!({ "hex": "ff00" }));
    }
}
