//! `doc export`: documents of a collection to a file.

use super::args::{ExportArgs, FormatArg};
use super::query::{context, json_of, look_at};
use crate::failure::Usage;
use crate::out_file::OutFile;
use crate::output::Output;
use crate::store::{refuse_inside, show};
use crate::tables::Size;
use anyhow::{Result, bail};
use indicatif::ProgressDrawTarget;
use spinney_document::bson::{Document, DocumentBuf, Value};
use spinney_document::path::Path as FieldPath;
use spinney_document::plan::Query;
use spinney_document::query::Filter;
use spinney_lab::text::counted;
use spinney_lab::{progress, signals};
use std::io::Write;
use std::path::Path;

pub(super) fn run(args: &ExportArgs, out: &mut Output) -> Result<()> {
    let format = args.format.or_else(|| FormatArg::of(&args.file)).unwrap_or(FormatArg::Jsonl);
    if (format == FormatArg::Csv) == args.fields.is_empty() {
        bail!(Usage("--fields is for --format csv, which needs it".to_owned()));
    }
    if args.file == Path::new("-") {
        return write(args, format, out).map(drop);
    }
    refuse_inside(&args.file, &args.collection.db.path)?;
    let mut file = OutFile::create(&args.file)?;
    let count = write(args, format, &mut file)?;
    file.complete()?;
    Ok(writeln!(out, "exported {} to {}", counted(count, "document", "documents"), args.file.display())?)
}

fn write(args: &ExportArgs, format: FormatArg, to: &mut impl Write) -> Result<u64> {
    let stop = signals::stop()?;
    look_at(&args.collection, |db, collection| {
        let filter = Filter::parse(json_of("--filter", &args.filter)?.view(), &context(db, collection))?;
        let total = Size::of(&collection.state().table.shape()?);
        let bar = progress::bar(total.entries, "export", "documents");
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let mut writer = Writer::begin(args, format, to)?;
        let mut count = 0;
        for document in collection.find(Query::new(filter))? {
            writer.write(&document?, args, to)?;
            count += 1;
            if count % 1000 == 0 {
                stop.check()?;
                show(&bar, count, total.entries.max(count));
            }
        }
        bar.finish_and_clear();
        writer.end(to)?;
        Ok(count)
    })
}

/// Writes documents in a format.
struct Writer {
    format: FormatArg,
    fields: Vec<FieldPath>,
    written: u64,
}

impl Writer {
    fn begin(args: &ExportArgs, format: FormatArg, to: &mut impl Write) -> Result<Self> {
        match format {
            FormatArg::Json => to.write_all(b"[")?,
            FormatArg::Csv => {
                let header: Vec<String> = args.fields.iter().map(|field| quoted(field)).collect();
                writeln!(to, "{}", header.join(","))?;
            }
            FormatArg::Jsonl | FormatArg::Bson => {}
        }
        Ok(Self { format, fields: args.fields.iter().map(FieldPath::new).collect(), written: 0 })
    }

    fn write(&mut self, document: &DocumentBuf, args: &ExportArgs, to: &mut impl Write) -> Result<()> {
        let view = document.view();
        let json = || if args.canonical { view.to_canonical_json() } else { view.to_json() };
        match self.format {
            FormatArg::Json => write!(to, "{}\n{}", if self.written == 0 { "" } else { "," }, json())?,
            FormatArg::Jsonl => writeln!(to, "{}", json())?,
            FormatArg::Bson => to.write_all(document.as_bytes())?,
            FormatArg::Csv => {
                let fields: Vec<String> = self.fields.iter().map(|path| quoted(&text_of(view, path))).collect();
                writeln!(to, "{}", fields.join(","))?;
            }
        }
        self.written += 1;
        Ok(())
    }

    fn end(self, to: &mut impl Write) -> Result<()> {
        if self.format == FormatArg::Json {
            to.write_all(b"\n]\n")?;
        }
        Ok(())
    }
}

/// A field as CSV has it; nothing when it is missing.
fn text_of(document: Document<'_>, path: &FieldPath) -> String {
    let mut value = Some(Value::Document(document));
    for part in path.parts() {
        value = match value {
            Some(Value::Document(document)) => document.get(part.name()),
            Some(Value::Array(array)) => part.index().and_then(|index| array.get(index)),
            _ => None,
        };
    }
    match value {
        None | Some(Value::Null | Value::Undefined) => String::new(),
        Some(Value::String(text)) => text.to_str_lossy().into_owned(),
        Some(Value::ObjectId(id)) => id.to_string(),
        Some(Value::Decimal128(number)) => number.to_string(),
        Some(other) => other.to_json(),
    }
}

/// A field with quotes where it needs them (RFC 4180).
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
