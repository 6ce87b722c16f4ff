//! The rows of a file: the key and the value of each, whatever the file is written in.

use super::args::LoadArgs;
use super::delimited::{Delimited, Form};
use super::fields::{self, KeyFields, Path};
use super::lines::Lines;
use super::step::Step;
use crate::entries::number;
use crate::escape::one_line;
use anyhow::{Result, anyhow, bail};
use std::io::Read;

/// Rows that are being read.
pub(super) struct Rows<R> {
    source: Source<R>,
    row: Row,
    /// The row is wanted once more.
    again: bool,
}

/// What is taken of each row.
struct Row {
    key_fields: KeyFields,
    separator: Vec<u8>,
    value_field: Option<Path>,
    /// Values are counters.
    counts: bool,
    key: Vec<u8>,
    /// Not that of a row which is its own value.
    value: Vec<u8>,
}

enum Source<R> {
    Json(Lines<R>),
    Delimited(Records<R>),
}

/// Records, and which of their columns are wanted.
struct Records<R> {
    records: Delimited<R>,
    key: Vec<usize>,
    value: Option<usize>,
}

impl<R: Read> Rows<R> {
    /// The rows of a text as the arguments have it, with what is between the fields of keys; of a table of counters
    /// if `counts`.
    pub(super) fn new(text: R, args: &LoadArgs, separator: Vec<u8>, counts: bool) -> Result<Self> {
        let lines = Lines::new(text);
        let form = match &args.input.tsv {
            Some(_) => Form::Tsv { escapes: args.escape },
            None => Form::Csv,
        };
        let source = match &args.input.jsonl {
            Some(_) => Source::Json(lines),
            None => Source::Delimited(Records::new(Delimited::new(lines, form, args.columns.as_deref())?, args)?),
        };
        let row = Row {
            key_fields: args.key.clone(),
            separator,
            value_field: args.value.clone(),
            counts,
            key: Vec::new(),
            value: Vec::new(),
        };
        Ok(Self { source, row, again: false })
    }

    /// Has [`Self::advance`] come to the row once more where it is.
    pub(super) fn again(&mut self) {
        self.again = true;
    }

    /// Goes to the next row.
    pub(super) fn advance(&mut self) -> Result<Step> {
        if std::mem::take(&mut self.again) {
            return Ok(Step::Row);
        }
        let step = match &mut self.source {
            Source::Json(lines) => {
                if lines.advance()? {
                    Step::Row
                } else {
                    Step::End
                }
            }
            Source::Delimited(records) => records.records.advance()?,
        };
        if !matches!(step, Step::Row) {
            return Ok(step);
        }
        let taken = match &self.source {
            Source::Json(lines) => self.row.take_json(lines.line()),
            Source::Delimited(records) => self.row.take_record(records),
        };
        Ok(taken.map_or_else(Step::Bad, |()| Step::Row))
    }

    /// The row's key.
    pub(super) fn key(&self) -> &[u8] {
        &self.row.key
    }

    /// The row's value.
    pub(super) fn value(&self) -> &[u8] {
        match &self.source {
            Source::Json(lines) if self.row.value_field.is_none() => lines.line(),
            _ => &self.row.value,
        }
    }

    /// The number of the row's line.
    pub(super) fn line_number(&self) -> u64 {
        match &self.source {
            Source::Json(lines) => lines.number(),
            Source::Delimited(records) => records.records.number(),
        }
    }

    /// The row as it is written.
    pub(super) fn text(&self) -> &[u8] {
        match &self.source {
            Source::Json(lines) => lines.line(),
            Source::Delimited(records) => records.records.text(),
        }
    }
}

impl Row {
    fn take_json(&mut self, line: &[u8]) -> Result<()> {
        let wanted: Vec<&Path> = self.key_fields.iter().chain(&self.value_field).collect();
        let mut found = fields::of_json(line, &wanted)?;
        let value = if self.value_field.is_some() { found.pop().flatten() } else { None };
        let texts = self.key_fields.iter().zip(found).map(|(field, raw)| fields::key_text(raw, field));
        fields::join(&self.key_fields, &self.separator, texts, &mut self.key)?;
        match &self.value_field {
            Some(field) => set(&mut self.value, fields::value_text(value, field)?.as_bytes(), self.counts),
            None => Ok(()),
        }
    }

    fn take_record<R: Read>(&mut self, Records { records, key, value }: &Records<R>) -> Result<()> {
        let texts = key.iter().map(|at| Ok(records.field(*at)));
        fields::join(&self.key_fields, &self.separator, texts, &mut self.key)?;
        match value {
            Some(at) => set(&mut self.value, records.field(*at), self.counts),
            None => object(records, &mut self.value),
        }
    }
}

impl<R: Read> Records<R> {
    fn new(records: Delimited<R>, args: &LoadArgs) -> Result<Self> {
        let columns = records.columns();
        if columns.is_empty() {
            // Not even a header: there are no rows.
            return Ok(Self { records, key: Vec::new(), value: None });
        }
        let column = |field: &Path| {
            columns.iter().position(|name| *name == field.text).ok_or_else(|| {
                let names: Vec<String> = columns.iter().map(|name| format!("`{}`", one_line(name))).collect();
                anyhow!("there is no column `{}`, only {}", one_line(&field.text), names.join(", "))
            })
        };
        let key = args.key.iter().map(column).collect::<Result<_>>()?;
        let value = args.value.as_ref().map(column).transpose()?;
        Ok(Self { records, key, value })
    }
}

/// Sets a value from the text of its field.
fn set(value: &mut Vec<u8>, text: &[u8], counts: bool) -> Result<()> {
    value.clear();
    if counts {
        value.extend_from_slice(&number(&String::from_utf8_lossy(text))?);
    } else {
        value.extend_from_slice(text);
    }
    Ok(())
}

/// Sets a value to the JSON object of a record.
fn object<R: Read>(records: &Delimited<R>, value: &mut Vec<u8>) -> Result<()> {
    value.clear();
    for (at, name) in records.columns().iter().enumerate() {
        let Ok(text) = std::str::from_utf8(records.field(at)) else {
            bail!("the field `{}` is not UTF-8 text", one_line(name))
        };
        value.push(if at == 0 { b'{' } else { b',' });
        serde_json::to_writer(&mut *value, name)?;
        value.push(b':');
        serde_json::to_writer(&mut *value, text)?;
    }
    value.push(b'}');
    Ok(())
}
