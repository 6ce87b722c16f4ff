//! Documents made of the keys of an index.

use super::operator::{Operator, Run};
use super::row::Row;
use super::stored::StoredDocument;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::catalog::Index;
use crate::keys::{Direction, TypeReader, decode_field};

/// The rows of an index with documents that have the fields of the index and `_id`, those that match. Where a key has
/// null, which may stand for a missing field, the document is fetched.
#[derive(Debug)]
pub(super) struct Covered {
    input: Box<dyn Operator>,
    fields: Vec<(String, Direction)>,
}

impl Covered {
    pub(super) fn new(input: Box<dyn Operator>, index: &Index) -> Self {
        let fields = index.spec.pattern.fields().iter().map(|field| (field.path.clone(), field.direction()));
        Self { input, fields: fields.collect() }
    }

    /// The document of a row's key, unless the key does not tell.
    fn document(&self, row: &Row) -> Result<Option<DocumentBuf>> {
        let mut values: Vec<(&str, ValueBuf)> = Vec::with_capacity(self.fields.len() + 1);
        let (mut rest, mut types) = (&row.key[..], TypeReader::new(&row.types));
        let (id, _) =
            decode_field(&row.id, Direction::Ascending, &mut TypeReader::new(&row.id_types)).ok_or_else(broken)?;
        values.push(("_id", id));
        for (path, direction) in &self.fields {
            let (value, behind) = decode_field(rest, *direction, &mut types).ok_or_else(broken)?;
            if matches!(value.view(), Value::Null | Value::Undefined) {
                return Ok(None);
            }
            if path != "_id" {
                values.push((path, value));
            }
            rest = behind;
        }
        let mut builder = DocumentBuilder::new();
        nest(&mut builder, &values, 0);
        Ok(Some(builder.finish()))
    }
}

/// Appends values by their paths from the byte `from` on; those that share a field go into one document.
fn nest(builder: &mut DocumentBuilder, values: &[(&str, ValueBuf)], from: usize) {
    let head = |path: &str| path[from..].find('.').map(|at| from + at);
    for (at, (path, value)) in values.iter().enumerate() {
        let Some(dot) = head(path) else {
            builder.append(&path[from..], value.view());
            continue;
        };
        let shared = |other: &str| other.len() > dot && other.as_bytes()[..=dot] == path.as_bytes()[..=dot];
        if values[..at].iter().any(|(other, _)| shared(other)) {
            continue;
        }
        builder.open_document(&path[from..dot]);
        let within: Vec<_> = values[at..].iter().filter(|(other, _)| shared(other)).cloned().collect();
        nest(builder, &within, dot + 1);
        builder.close();
    }
}

fn broken() -> Error {
    Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, "a key of an index is malformed")
}

impl Operator for Covered {
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool> {
        while self.input.next(run, row)? {
            match self.document(row)? {
                Some(document) => {
                    let (matched, position) = run.query.filter.matches_at(document.view())?;
                    if matched {
                        row.document = Some(StoredDocument::built(document));
                        row.position = position;
                        return Ok(true);
                    }
                }
                None => {
                    row.document = run.reader.get(run.table, &row.id)?.map(StoredDocument::new);
                    if run.matches(row)? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}
