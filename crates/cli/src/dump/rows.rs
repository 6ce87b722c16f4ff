//! Entries as JSON lines and as comma-separated values, for other programs.

use super::args::DumpFormat;
use crate::escape::{escape, one_line};
use crate::output::{Form, Values, hex};
use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::Value as Json;
use spinney::Table;
use std::io::{self, Write};

/// Entries that are being written.
pub(super) struct RowWriter<W> {
    out: W,
    csv: bool,
    hex: bool,
    /// Rows begin with the name of their table.
    with_table: bool,
}

/// A line of JSON.
#[derive(Serialize)]
struct JsonRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'a str>,
    key: Json,
    value: Json,
}

impl<W: Write> RowWriter<W> {
    /// Begins rows.
    pub(super) fn begin(mut out: W, format: DumpFormat, hex: bool, with_table: bool) -> io::Result<Self> {
        let csv = format == DumpFormat::Csv;
        if csv {
            let table = if with_table { "table," } else { "" };
            out.write_all(format!("{table}key,value\r\n").as_bytes())?;
        }
        Ok(Self { out, csv, hex, with_table })
    }

    /// Writes an entry of a table.
    pub(super) fn entry(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        let values = Values::of(table, if self.hex { Form::Hex } else { Form::Plain });
        if !self.csv {
            let table = self.with_table.then(|| table.name());
            let row = JsonRow { table, key: values.json_key(key), value: values.json(value) };
            serde_json::to_writer(&mut self.out, &row).map_err(io::Error::from)?;
            return Ok(self.out.write_all(b"\n")?);
        }
        if self.with_table {
            self.field(table.name())?;
            self.out.write_all(b",")?;
        }
        let key_text = self.text(table, "key", key, key)?;
        self.field(&key_text)?;
        self.out.write_all(b",")?;
        let value_text = match values.number(value) {
            Some(number) => number.to_string(),
            None => self.text(table, "value of", key, value)?,
        };
        self.field(&value_text)?;
        Ok(self.out.write_all(b"\r\n")?)
    }

    /// Gives back what it was written to.
    pub(super) fn done(self) -> W {
        self.out
    }

    /// Bytes as the text of a field.
    fn text(&self, table: &Table, what: &str, key: &[u8], bytes: &[u8]) -> Result<String> {
        if self.hex {
            return Ok(hex(bytes));
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            let (key, table) = (escape(key), one_line(table.name()));
            bail!("table `{table}`: the {what} `{key}` is not UTF-8: use --hex, or --format jsonl");
        };
        Ok(text.to_owned())
    }

    /// Writes a field as RFC 4180 has it.
    fn field(&mut self, text: &str) -> io::Result<()> {
        if !text.contains([',', '"', '\r', '\n']) {
            return self.out.write_all(text.as_bytes());
        }
        write!(self.out, "\"{}\"", text.replace('"', "\"\""))
    }
}
