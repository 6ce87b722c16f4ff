//! Documents of files: read one after the other.

use super::args::FormatArg;
use crate::failure::Usage;
use crate::input::Input;
use anyhow::{Context as _, Result, anyhow, bail};
use spinney_document::bson::{DOCUMENT_BYTES_MAX, Document, DocumentBuf, DocumentBuilder, Value};
use std::io::{BufReader, Read};
use std::path::Path;

/// The most bytes of the text of a document.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Documents that are read from a file.
pub(super) enum Documents {
    Json(Objects),
    Csv(Box<csv::Reader<Input>>, csv::StringRecord),
    Bson(BufReader<Input>, u64),
}

/// The texts of JSON objects.
pub(super) struct Objects {
    bytes: std::io::Bytes<BufReader<Input>>,
    line: u64,
}

impl Documents {
    /// The documents of a file.
    pub(super) fn open(path: &Path, format: Option<FormatArg>, input: Input) -> Result<Self> {
        let Some(format) = format else {
            bail!(Usage(format!("{}: give --format, which its name does not tell", path.display())));
        };
        Ok(match format {
            FormatArg::Json | FormatArg::Jsonl => {
                Self::Json(Objects { bytes: BufReader::with_capacity(256 << 10, input).bytes(), line: 1 })
            }
            FormatArg::Csv => {
                let mut reader = csv::ReaderBuilder::new().from_reader(input);
                let header = reader.headers()?.clone();
                Self::Csv(Box::new(reader), header)
            }
            FormatArg::Bson => Self::Bson(BufReader::with_capacity(256 << 10, input), 0),
        })
    }

    /// The next document, or nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<DocumentBuf>> {
        match self {
            Self::Json(objects) => objects.next(),
            Self::Csv(reader, header) => {
                let mut record = csv::StringRecord::new();
                if !reader.read_record(&mut record)? {
                    return Ok(None);
                }
                let mut builder = DocumentBuilder::new();
                for (name, field) in header.iter().zip(&record).filter(|(_, field)| !field.is_empty()) {
                    builder.append(name, value_of(field));
                }
                Ok(Some(builder.finish()))
            }
            Self::Bson(reader, number) => {
                *number += 1;
                read_bson(reader).with_context(|| format!("document {number}"))
            }
        }
    }
}

/// A field of a CSV as a number where it is written as one.
fn value_of(field: &str) -> Value<'_> {
    let plain = field.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'));
    let leading = field.trim_start_matches('-');
    if !plain || leading.len() > 1 && leading.starts_with('0') && !leading.starts_with("0.") {
        return Value::from(field);
    }
    if let Ok(number) = field.parse::<i32>() {
        return Value::Int32(number);
    }
    if let Ok(number) = field.parse::<i64>() {
        return Value::Int64(number);
    }
    field.parse::<f64>().map_or_else(|_| Value::from(field), Value::Double)
}

fn read_bson(reader: &mut impl Read) -> Result<Option<DocumentBuf>> {
    let mut bytes = vec![0; 4];
    match reader.read(&mut bytes[..1])? {
        0 => return Ok(None),
        _ => reader.read_exact(&mut bytes[1..])?,
    }
    let len = bytes.first_chunk().map_or(0, |len| u32::from_le_bytes(*len));
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if !(5..=DOCUMENT_BYTES_MAX + (16 << 10)).contains(&len) {
        bail!("its length is {len} bytes: the file is no BSON");
    }
    bytes.resize(len, 0);
    reader.read_exact(&mut bytes[4..]).context("it is cut off")?;
    Ok(Some(DocumentBuf::from(Document::parse(&bytes)?)))
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
                    b'[' | b']' | b',' => continue,
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
        Ok(None)
    }
}
