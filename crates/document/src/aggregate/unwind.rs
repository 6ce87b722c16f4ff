//! `$unwind`: a document for each value of an array.

use std::sync::Arc;

use super::effect::{Effect, Fields, Passes};
use super::stage::{Parser, Rows, Run, Stage, Stages, error};
use crate::base::{Error, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::path::{Part, Path};

/// `$unwind`.
#[derive(Debug)]
struct Unwind {
    path: Path,
    /// Whether documents without a value in the array are kept.
    preserve: bool,
    /// Where the position of the value goes.
    index: Option<Path>,
}

impl Stage for Unwind {
    fn name(&self) -> &'static str {
        "$unwind"
    }

    fn run(self: Arc<Self>, input: Rows, _: &Run) -> Result<Rows> {
        Ok(Box::new(input.flat_map(move |row| match row {
            Ok(document) => Unwound::new(Arc::clone(&self), document),
            Err(wrong) => Unwound::failed(Arc::clone(&self), wrong),
        })))
    }

    fn effect(&self) -> Option<Effect> {
        let mut reads = Fields::none();
        reads.add(&self.path);
        self.index.iter().for_each(|path| reads.add(path));
        let passes = Passes::all_but(std::iter::once(&self.path).chain(&self.index));
        Some(Effect { reads, passes, placed: Passes::all(), lets_filters_pass: true })
    }
}

/// The documents for the values of one document's array, made one at a time: each has a copy of all other fields.
struct Unwound {
    stage: Arc<Unwind>,
    /// What comes first: an error, or the document of one that has no array with values.
    first: Option<Result<DocumentBuf>>,
    document: DocumentBuf,
    /// The bytes of the array's values that were not unwound yet.
    left: usize,
    position: i64,
}

impl Unwound {
    fn new(stage: Arc<Unwind>, document: DocumentBuf) -> Self {
        let (mut first, mut left) = (None, 0);
        match get(document.view(), stage.path.parts()) {
            Some(Value::Array(array)) if array.is_empty() => {
                first = stage.preserve.then(|| without(document.view(), stage.path.parts()));
            }
            Some(Value::Array(array)) => left = array.values().bytes(),
            None | Some(Value::Null | Value::Undefined) => first = stage.preserve.then(|| document.clone()),
            Some(_) => first = Some(document.clone()),
        }
        let first = first.map(|document| Ok(stage.with_index(&document, Value::Null)));
        Self { stage, first, document, left, position: 0 }
    }

    fn failed(stage: Arc<Unwind>, wrong: Error) -> Self {
        Self { stage, first: Some(Err(wrong)), document: DocumentBuf::new(), left: 0, position: 0 }
    }
}

impl Iterator for Unwound {
    type Item = Result<DocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.first.is_some() || self.left == 0 {
            return self.first.take();
        }
        let array = get(self.document.view(), self.stage.path.parts())?.as_array()?;
        let mut values = array.last_values(self.left);
        let value = values.next()?;
        self.left = values.bytes();
        let single = set(self.document.view(), self.stage.path.parts(), value);
        let position = self.position;
        self.position += 1;
        Some(Ok(self.stage.with_index(&single, Value::Int64(position))))
    }
}

impl Unwind {
    fn with_index(&self, document: &DocumentBuf, at: Value<'_>) -> DocumentBuf {
        match &self.index {
            Some(path) => set(document.view(), path.parts(), at),
            None => document.clone(),
        }
    }
}

/// The value at a path of documents; arrays are not entered.
pub(super) fn get<'a>(document: Document<'a>, parts: &[Part]) -> Option<Value<'a>> {
    let (first, rest) = parts.split_first()?;
    let value = document.get(first.name())?;
    if rest.is_empty() {
        return Some(value);
    }
    get(value.as_document()?, rest)
}

/// The document with a value at a path; what stands in the way is replaced.
pub(super) fn set(document: Document<'_>, parts: &[Part], value: Value<'_>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    let Some((first, rest)) = parts.split_first() else { return document.into() };
    let inner =
        |old: Option<Value<'_>>| set(old.and_then(|old| old.as_document()).unwrap_or(Document::empty()), rest, value);
    let mut there = false;
    for element in document {
        if there || element.name.as_bytes() != first.name() {
            builder.append_element(&element);
            continue;
        }
        there = true;
        if rest.is_empty() {
            builder.append(first.name(), value);
        } else {
            builder.append(first.name(), &inner(Some(element.value)));
        }
    }
    if !there {
        if rest.is_empty() {
            builder.append(first.name(), value);
        } else {
            builder.append(first.name(), &inner(None));
        }
    }
    builder.finish()
}

fn without(document: Document<'_>, parts: &[Part]) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    let Some((first, rest)) = parts.split_first() else { return document.into() };
    for element in document {
        match element.value {
            _ if element.name.as_bytes() != first.name() => {
                builder.append_element(&element);
            }
            _ if rest.is_empty() => {}
            Value::Document(inner) => {
                builder.append(first.name(), &without(inner, rest));
            }
            _ => {
                builder.append_element(&element);
            }
        }
    }
    builder.finish()
}

pub(super) fn read(_: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let (mut path, mut preserve, mut index) = (None, false, None);
    match value {
        Value::String(text) => path = Some(text.to_str_lossy().into_owned()),
        Value::Document(spec) => {
            for element in spec {
                match (element.name.as_bytes(), element.value) {
                    (b"path", Value::String(text)) => path = Some(text.to_str_lossy().into_owned()),
                    (b"path", other) => {
                        return Err(error(
                            28808,
                            format!("expected a string as the path for $unwind stage, got {}", other.kind().name()),
                        ));
                    }
                    (b"preserveNullAndEmptyArrays", Value::Bool(is)) => preserve = is,
                    (b"preserveNullAndEmptyArrays", other) => {
                        return Err(error(
                            28809,
                            format!(
                                "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got {}",
                                other.kind().name()
                            ),
                        ));
                    }
                    (b"includeArrayIndex", Value::String(text)) if !text.is_empty() => {
                        let text = text.to_str_lossy();
                        if text.starts_with('$') {
                            return Err(error(
                                28822,
                                format!(
                                    "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {text}"
                                ),
                            ));
                        }
                        crate::expr::parser::check_path(&text)?;
                        index = Some(Path::new(&*text));
                    }
                    (b"includeArrayIndex", other) => {
                        return Err(error(
                            28810,
                            format!(
                                "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got {}",
                                other.kind().name()
                            ),
                        ));
                    }
                    _ => return Err(error(28811, format!("unrecognized option to $unwind stage: {}", element.name))),
                }
            }
        }
        other => {
            return Err(error(
                15981,
                format!(
                    "expected either a string or an object as specification for $unwind stage, got {}",
                    other.kind().name()
                ),
            ));
        }
    }
    let path =
        path.filter(|path| !path.is_empty()).ok_or_else(|| error(28812, "no path specified to $unwind stage"))?;
    let Some(path) = path.strip_prefix('$') else {
        return Err(error(28818, format!("path option to $unwind stage should be prefixed with a '$': {path}")));
    };
    if path.is_empty() {
        return Err(error(40352, "FieldPath cannot be constructed with empty string"));
    }
    crate::expr::parser::check_path(path)?;
    Ok(vec![Arc::new(Unwind { path: Path::new(path), preserve, index })])
}
