//! Comma-separated values as RFC 4180 has them, and tab-separated ones: records of fields, in columns with names.
//!
//! A field of comma-separated values that begins with a quote ends with one; between them a quote is doubled, and lines
//! may end. Tab-separated values know no quotes. Empty lines are no records.

use super::lines::{Lines, without_end};
use super::step::Step;
use crate::escape::unescape;
use anyhow::{Result, anyhow, bail};
use std::io::Read;

/// The bytes of lines over which a record goes, unless it is in one line. So a quote that is missing is found soon.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// With commas.
    Csv,
    /// With tabs; fields may have escapes.
    Tsv { escapes: bool },
}

/// Records that are being read.
pub(crate) struct Delimited<R> {
    lines: Lines<R>,
    form: Form,
    columns: Vec<String>,
    /// The lines of the record, and the number of the first.
    text: Vec<u8>,
    number: u64,
    /// The fields one behind the other, and where each ends.
    fields: Vec<u8>,
    ends: Vec<usize>,
}

impl<R: Read> Delimited<R> {
    /// The records of a text, whose first one has the names of the columns unless they are given.
    pub(crate) fn new(lines: Lines<R>, form: Form, columns: Option<&[String]>) -> Result<Self> {
        let (text, fields, ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut records = Self { lines, form, columns: Vec::new(), text, number: 0, fields, ends };
        match columns {
            Some(columns) => records.columns = columns.to_vec(),
            None => match records.read()? {
                Step::Row => {
                    let number = records.number;
                    let name = |at| String::from_utf8(records.field(at).to_vec());
                    let names = (0..records.ends.len()).map(name).collect::<Result<_, _>>();
                    records.columns = names.map_err(|_| anyhow!("line {number}: the header is not UTF-8 text"))?;
                }
                Step::Bad(why) => return Err(why.context(format!("line {}", records.number))),
                Step::End => {}
            },
        }
        let is_twice = |(at, name)| records.columns[..at].contains(name);
        if let Some((_, name)) = records.columns.iter().enumerate().find(|column| is_twice(*column)) {
            bail!("column `{name}` is there twice");
        }
        Ok(records)
    }

    /// Goes to the next record.
    pub(crate) fn advance(&mut self) -> Result<Step> {
        let step = self.read()?;
        let (fields, columns) = (self.ends.len(), self.columns.len());
        if matches!(step, Step::Row) && fields != columns {
            let text = |count| if count == 1 { "1 field".to_owned() } else { format!("{count} fields") };
            return Ok(Step::Bad(anyhow!("the row has {}, and there are {columns} columns", text(fields))));
        }
        Ok(step)
    }

    /// The names of the columns; none in a text without records.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// A field of the record.
    pub(crate) fn field(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.fields[from..self.ends[at]]
    }

    /// The number of the record's first line.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The record as it is written, without the end of its line; of one whose quotes are wrong the first line.
    pub(crate) fn text(&self) -> &[u8] {
        without_end(&self.text)
    }

    /// Reads a record with any number of fields.
    fn read(&mut self) -> Result<Step> {
        loop {
            if !self.lines.advance_any()? {
                return Ok(Step::End);
            }
            if !self.lines.line().is_empty() {
                break;
            }
        }
        self.number = self.lines.number();
        self.text.clear();
        self.text.extend_from_slice(self.lines.whole());
        self.fields.clear();
        self.ends.clear();
        let first_line = self.text.len();
        let read = match self.form {
            Form::Csv => self.read_csv()?,
            Form::Tsv { escapes } => self.split_tabs(escapes),
        };
        match read {
            Ok(()) => Ok(Step::Row),
            Err(why) => {
                // The lines behind the first may be records of their own.
                self.lines.unread(&self.text[first_line..], self.number);
                self.text.truncate(first_line);
                Ok(Step::Bad(why))
            }
        }
    }

    fn split_tabs(&mut self, escapes: bool) -> Result<()> {
        for field in without_end(&self.text).split(|byte| *byte == b'\t') {
            if !escapes {
                self.fields.extend_from_slice(field);
            } else if !unescape(field, &mut self.fields) {
                bail!("a backslash begins none of \\n \\r \\t \\\\ \\xNN");
            }
            self.ends.push(self.fields.len());
        }
        Ok(())
    }

    /// The outer error is one of reading, the inner one of the record.
    fn read_csv(&mut self) -> Result<Result<()>> {
        let mut at = 0;
        loop {
            if self.text.get(at) == Some(&b'"') {
                match self.read_quoted(at + 1)? {
                    Ok(end) => at = end,
                    Err(why) => return Ok(Err(why)),
                }
            } else {
                let rest = without_end(&self.text[at..]);
                let len = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
                self.fields.extend_from_slice(&rest[..len]);
                at += len;
            }
            self.ends.push(self.fields.len());
            match without_end(&self.text[at..]).first() {
                None => return Ok(Ok(())),
                Some(b',') => at += 1,
                Some(_) => return Ok(Err(anyhow!("field {}: there is more behind its quotes", self.ends.len()))),
            }
        }
    }

    /// Reads a field from behind its first quote on; says where its last one ended.
    fn read_quoted(&mut self, mut at: usize) -> Result<Result<usize>> {
        loop {
            let rest = &self.text[at..];
            if let Some(len) = rest.iter().position(|byte| *byte == b'"') {
                self.fields.extend_from_slice(&rest[..len]);
                at += len + 1;
                if self.text.get(at) != Some(&b'"') {
                    return Ok(Ok(at));
                }
                self.fields.push(b'"');
                at += 1;
                continue;
            }
            self.fields.extend_from_slice(rest);
            at = self.text.len();
            let field = self.ends.len() + 1;
            if self.text.len() > RECORD_BYTES_MAX {
                return Ok(Err(anyhow!("field {field}: its quotes do not end within {RECORD_BYTES_MAX} bytes")));
            }
            if !self.lines.advance_any()? {
                return Ok(Err(anyhow!("field {field}: its quotes do not end")));
            }
            self.text.extend_from_slice(self.lines.whole());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_testkit::fuzz::Inputs;

    /// All records with the lines where they begin, or what is wrong with them.
    fn records(text: &[u8], form: Form, columns: &[&str]) -> Vec<(u64, Result<Vec<String>, String>)> {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let mut records = Delimited::new(Lines::new(text), form, Some(&columns)).unwrap();
        let mut all = Vec::new();
        loop {
            let record = match records.advance().unwrap() {
                Step::End => return all,
                Step::Bad(why) => Err(why.to_string()),
                Step::Row => {
                    let field = |at| String::from_utf8_lossy(records.field(at)).into_owned();
                    Ok((0..records.columns().len()).map(field).collect())
                }
            };
            all.push((records.number(), record));
        }
    }

    fn row(fields: &[&str]) -> Result<Vec<String>, String> {
        Ok(fields.iter().map(|field| (*field).to_owned()).collect())
    }

    #[test]
    fn fields_are_read_as_rfc_4180_has_them() {
        let text = b"a,b\r\n\r\n\"x,y\",\"two\r\nlines\"\n,\n\"say \"\"hi\"\"\",5\" disk\nlast,\"\"";
        let expected = [
            (1, row(&["a", "b"])),
            (3, row(&["x,y", "two\r\nlines"])),
            (5, row(&["", ""])),
            (6, row(&["say \"hi\"", "5\" disk"])),
            (7, row(&["last", ""])),
        ];
        assert_eq!(records(text, Form::Csv, &["k", "v"]), expected);
    }

    #[test]
    fn what_is_wrong_is_told_and_the_next_line_is_read_again() {
        let text = b"1,2\n3\n\"4\"x,5\n6,\"open\n7,8\n9,10,11\n12,13\n";
        let wrong = |why: &str| Err(why.to_owned());
        let expected = [
            (1, row(&["1", "2"])),
            (2, wrong("the row has 1 field, and there are 2 columns")),
            (3, wrong("field 1: there is more behind its quotes")),
            (4, wrong("field 2: its quotes do not end")),
            (5, row(&["7", "8"])),
            (6, wrong("the row has 3 fields, and there are 2 columns")),
            (7, row(&["12", "13"])),
        ];
        assert_eq!(records(text, Form::Csv, &["k", "v"]), expected);
        let long = [&b"\""[..], &b"line\n".repeat(RECORD_BYTES_MAX / 4), b"1,2\n"].concat();
        let all = records(&long, Form::Csv, &["k", "v"]);
        assert!(all[0].1.as_ref().unwrap_err().contains("do not end within 1048576 bytes"));
        assert_eq!(*all.last().unwrap(), (u64::try_from(RECORD_BYTES_MAX / 4 + 1).unwrap(), row(&["1", "2"])));
    }

    #[test]
    fn tabs_separate_fields_that_know_no_quotes() {
        let text = b"\"a\tb\"\nC:\\new\t\n\t\n";
        let expected = [(1, row(&["\"a", "b\""])), (2, row(&["C:\\new", ""])), (3, row(&["", ""]))];
        assert_eq!(records(text, Form::Tsv { escapes: false }, &["k", "v"]), expected);
        let text = b"a\\tb\t\\x00\\\\\nC:\\q\t1\n";
        let wrong = Err("a backslash begins none of \\n \\r \\t \\\\ \\xNN".to_owned());
        let expected = [(1, row(&["a\tb", "\0\\"])), (2, wrong)];
        assert_eq!(records(text, Form::Tsv { escapes: true }, &["k", "v"]), expected);
    }

    #[test]
    fn the_first_row_names_the_columns() {
        let read = |text: &str| Delimited::new(Lines::new(text.as_bytes().to_vec().leak() as &[u8]), Form::Csv, None);
        assert_eq!(read("\nid,\"a,b\"\n1,2\n").unwrap().columns(), ["id", "a,b"]);
        assert!(read("").unwrap().columns().is_empty());
        assert_eq!(read("a,b,a\n").err().unwrap().to_string(), "column `a` is there twice");
        assert_eq!(format!("{:#}", read("a,\"b\n").err().unwrap()), "line 1: field 2: its quotes do not end");
    }

    #[test]
    fn any_bytes_are_records_or_told() {
        let seeds: [&[u8]; 3] =
            [b"a,b\n\"x,\"\"y\",\"two\r\nlines\"\n", b"1\t2\n\\x00\t\\n\n", b"\"\n\"\n,\"\n\",\n\"\"\"\n"];
        let seeds = seeds.map(<[u8]>::to_vec);
        let inputs = Inputs::new(&seeds);
        for number in 0..5000 {
            let input = inputs.input(number);
            for form in [Form::Csv, Form::Tsv { escapes: true }] {
                let all = records(&input, form, &["k", "v"]);
                assert!(all.is_sorted_by(|one, next| one.0 < next.0), "input {number}");
            }
        }
    }
}
