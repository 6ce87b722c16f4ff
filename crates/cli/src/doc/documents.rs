//! Documents of files: read one after the other.

use super::args::FormatArg;
use crate::failure::Usage;
use crate::input::Input;
use crate::load::delimited::{Delimited, Form};
use crate::load::lines::Lines;
use crate::load::step::Step;
use anyhow::{Context as _, Result, anyhow, bail};
use spinney_document::bson::{DOCUMENT_BYTES_MAX, Document, DocumentBuf, DocumentBuilder, Value};
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

/// The most bytes of the text of a document.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Documents that are read from a file.
pub(super) enum Documents {
    Json(Objects),
    Csv(Box<Delimited<Input>>, Vec<Column>),
    Bson(BufReader<Input>, u64),
}

/// The texts of JSON objects.
pub(super) struct Objects {
    bytes: std::io::Bytes<BufReader<Input>>,
    line: u64,
    /// The line where the array begins that has not ended.
    array: Option<u64>,
}

/// A field that comes from columns: from one, or from those whose names begin with its name and a dot.
pub(super) struct Column {
    name: String,
    from: Source,
}

enum Source {
    Column(usize),
    Columns(Vec<Column>),
}

impl Documents {
    /// The documents of a file.
    pub(super) fn open(path: &Path, format: Option<FormatArg>, input: Input) -> Result<Self> {
        let Some(format) = format else {
            bail!(Usage(format!("{}: give --format, which its name does not tell", path.display())));
        };
        Ok(match format {
            FormatArg::Json | FormatArg::Jsonl => {
                let bytes = BufReader::with_capacity(256 << 10, input).bytes();
                Self::Json(Objects { bytes, line: 1, array: None })
            }
            FormatArg::Csv => {
                let records = Delimited::new(Lines::new(input), Form::Csv, None);
                let read = records.and_then(|records| Ok((columns(records.columns())?, records)));
                let (columns, records) = read.with_context(|| path.display().to_string())?;
                Self::Csv(Box::new(records), columns)
            }
            FormatArg::Bson => Self::Bson(BufReader::with_capacity(256 << 10, input), 0),
        })
    }

    /// The next document, or nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<DocumentBuf>> {
        match self {
            Self::Json(objects) => objects.next(),
            Self::Csv(records, columns) => match records.advance()? {
                Step::End => Ok(None),
                Step::Row => {
                    document_of(records, columns).with_context(|| format!("line {}", records.number())).map(Some)
                }
                Step::Bad(why) => Err(why.context(format!("line {}", records.number()))),
            },
            Self::Bson(reader, number) => {
                *number += 1;
                read_bson(reader).with_context(|| format!("document {number}"))
            }
        }
    }
}

/// The fields that columns with these names make.
fn columns(names: &[String]) -> Result<Vec<Column>> {
    let mut fields = Vec::new();
    for (at, name) in names.iter().enumerate() {
        place(&mut fields, name, at).with_context(|| format!("column `{name}`"))?;
    }
    Ok(fields)
}

/// Gives a column its place among the fields by what is left of its name.
fn place(fields: &mut Vec<Column>, name: &str, at: usize) -> Result<()> {
    let (name, below) = name.split_once('.').map_or((name, None), |(name, below)| (name, Some(below)));
    if below.is_some_and(|below| name.is_empty() || below.is_empty()) {
        bail!("a name beside a dot is empty");
    }
    let there = fields.iter_mut().find(|field| field.name == name);
    let from = match (there, below) {
        (Some(Column { from: Source::Columns(fields), .. }), Some(below)) => return place(fields, below, at),
        (Some(_), _) => bail!("another column is the same field, or a part of it"),
        (None, None) => Source::Column(at),
        (None, Some(below)) => {
            let mut parts = Vec::new();
            place(&mut parts, below, at)?;
            Source::Columns(parts)
        }
    };
    fields.push(Column { name: name.to_owned(), from });
    Ok(())
}

/// The document that a record is, without fields that are empty.
fn document_of(record: &Delimited<Input>, columns: &[Column]) -> Result<DocumentBuf> {
    let mut builder = DocumentBuilder::new();
    for Column { name, from } in columns {
        match from {
            Source::Column(at) => {
                let field =
                    std::str::from_utf8(record.field(*at)).map_err(|_| anyhow!("column `{name}`: not UTF-8"))?;
                if !field.is_empty() {
                    builder.append(name, value_of(field));
                }
            }
            Source::Columns(columns) => {
                let part = document_of(record, columns)?;
                if part.view().first().is_some() {
                    builder.append(name, part.view());
                }
            }
        }
    }
    Ok(builder.finish())
}

/// A field of a CSV as a number where it is written as one, and no number is told differently: texts such as `007`,
/// `+49`, and whole numbers of more than 64 bits stay what they are.
fn value_of(field: &str) -> Value<'_> {
    let plain = field.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'));
    let leading = field.trim_start_matches('-');
    if !plain || field.starts_with('+') || leading.len() > 1 && leading.starts_with('0') && !leading.starts_with("0.") {
        return Value::from(field);
    }
    if let Ok(number) = field.parse::<i32>() {
        return Value::Int32(number);
    }
    if let Ok(number) = field.parse::<i64>() {
        return Value::Int64(number);
    }
    let is_whole = leading.bytes().all(|byte| byte.is_ascii_digit());
    let number = field.parse::<f64>().ok().filter(|number| number.is_finite() && !is_whole);
    number.map_or_else(|| Value::from(field), Value::Double)
}

fn read_bson(reader: &mut impl Read) -> Result<Option<DocumentBuf>> {
    let mut bytes = vec![0; 4];
    match reader.read(&mut bytes[..1])? {
        0 => return Ok(None),
        _ => read_whole(reader, &mut bytes[1..])?,
    }
    let len = bytes.first_chunk().map_or(0, |len| u32::from_le_bytes(*len));
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if !(5..=DOCUMENT_BYTES_MAX + (16 << 10)).contains(&len) {
        bail!("its length is {len} bytes: the file is no BSON");
    }
    bytes.resize(len, 0);
    read_whole(reader, &mut bytes[4..])?;
    Ok(Some(DocumentBuf::from(Document::parse(&bytes)?)))
}

fn read_whole(reader: &mut impl Read, bytes: &mut [u8]) -> Result<()> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => anyhow!("it is cut off"),
        _ => error.into(),
    })
}

impl Objects {
    fn next(&mut self) -> Result<Option<DocumentBuf>> {
        let (mut text, mut depth, mut quoted, mut escaped, mut begun) = (Vec::new(), 0_usize, false, false, 1);
        for byte in self.bytes.by_ref() {
            let byte = byte?;
            self.line += u64::from(byte == b'\n');
            if depth == 0 {
                match byte {
                    b'{' => (depth, begun) = (1, self.line),
                    // Between objects, also of an array.
                    b'[' if self.array.is_none() => {
                        self.array = Some(self.line);
                        continue;
                    }
                    b']' if self.array.is_some() => {
                        self.array = None;
                        continue;
                    }
                    b',' => continue,
                    space if space.is_ascii_whitespace() => continue,
                    _ => bail!("line {}: expected a JSON object", self.line),
                }
                text.push(byte);
                continue;
            }
            text.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b'{' if !quoted => depth += 1,
                b'}' if !quoted => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let text = std::str::from_utf8(&text).map_err(|_| anyhow!("line {begun}: not UTF-8"))?;
                return DocumentBuf::from_json(text).map(Some).with_context(|| format!("line {begun}"));
            }
            if text.len() > TEXT_BYTES_MAX {
                bail!("line {begun}: an object of more than {TEXT_BYTES_MAX} bytes");
            }
        }
        if depth > 0 {
            bail!("line {begun}: the object has no end");
        }
        if let Some(line) = self.array {
            bail!("line {line}: the array has no end: the file may be cut off");
        }
        Ok(None)
    }
}
