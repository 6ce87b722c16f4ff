//! Documents made of the keys of an index.

use std::sync::Arc;

use smallvec::SmallVec;

use super::merge::MergeByKey;
use super::operator::{Operator, Run, count_rows};
use super::row::Row;
use super::scan::IndexScan;
use super::stored::StoredDocument;
use crate::aggregate::lend::Take;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::catalog::Index;
use crate::collation::has_text;
use crate::keys::{Direction, TypeReader, decode_field, decode_number, skip_field};
use crate::path::Path;
use crate::plan::covered::paths_of;
use crate::projection::Projection;

/// The rows of an index with documents of those of its fields, and `_id`, that the filter or the projection names,
/// those that match. Where such a field is null, which may stand for a missing one, the document is fetched.
#[derive(Debug)]
pub(super) struct Covered {
    input: Input,
    shape: Shape,
    /// Whether all rows match.
    exact: bool,
}

/// Where the keys come from.
#[derive(Debug)]
pub(super) enum Input {
    /// From one scan, as they are stored.
    Scan(Box<IndexScan>),
    /// From several, in an order of their own.
    Merged(MergeByKey),
}

/// What is made of a key.
#[derive(Debug)]
struct Shape {
    index: Arc<Index>,
    /// What the fields are needed for, up to the last that is needed.
    needs: SmallVec<[Need; 4]>,
    id: Need,
    /// Whether no path has a dot, so that fields go into the document one after the other.
    flat: bool,
    /// Whether the documents have nothing that the projection does not show.
    projected: bool,
    /// Whether the keys of `_id`s have sort keys in the place of strings.
    collated_id: bool,
}

/// What a field is needed for.
#[derive(Clone, Copy, Debug, Default)]
struct Need {
    filter: bool,
    shown: bool,
}

impl Need {
    const fn any(self) -> bool {
        self.filter || self.shown
    }
}

impl Covered {
    pub(super) fn new(input: Input, index: &Arc<Index>, run: &Run<'_>, exact: bool) -> Self {
        let query = run.query;
        let shown = query.kept().and_then(Projection::plain_paths).unwrap_or_default();
        let mut asked: Vec<&Path> = Vec::new();
        if !exact {
            paths_of(query.filter.root(), &mut asked);
        }
        asked.extend(query.sort.iter().flat_map(|sort| sort.fields()).map(|(path, _)| path));
        let fields = index.spec.pattern.fields();
        let need = |field: &str, is_it: &dyn Fn(&Path) -> bool| Need {
            filter: asked.iter().any(|asked| is_it(asked)),
            shown: shown.iter().any(|shown| shown == field),
        };
        let mut needs: SmallVec<[Need; 4]> =
            fields.iter().zip(&index.paths).map(|(field, path)| need(&field.path, &|asked| asked == path)).collect();
        let id = if index.has_ids { need("_id", &Path::is_id) } else { Need::default() };
        let projected = needs.iter().chain([&id]).all(|need| need.shown || !need.filter);
        needs.truncate(needs.iter().rposition(|need| need.any()).map_or(0, |last| last + 1));
        let flat = fields.iter().all(|field| !field.path.contains('.'));
        let shape = Shape { index: Arc::clone(index), needs, id, flat, projected, collated_id: run.collated };
        Self { input, shape, exact }
    }
}

impl Shape {
    /// The document of a key that begins with the index's fields, unless the key does not tell; `id` gives the `_id`'s
    /// key and type bits.
    #[inline]
    fn document<'c, 'k>(
        &'c self,
        fields: &[u8],
        types: &[u8],
        id: impl FnOnce() -> Result<(&'k [u8], &'k [u8])>,
    ) -> Result<Option<DocumentBuf>> {
        let mut builder = DocumentBuilder::new();
        let mut values: SmallVec<[(&str, ValueBuf); 6]> = SmallVec::new();
        let (mut rest, mut types) = (fields, TypeReader::new(types));
        if self.id.any() {
            let (id, types) = id()?;
            let mut types = TypeReader::new(types);
            let (id, _) = decode_field(id, Direction::Ascending, &mut types).ok_or_else(broken)?;
            if self.collated_id && has_text(&id.view()) {
                return Ok(None);
            }
            self.add(&mut builder, &mut values, "_id", id);
        }
        for (field, need) in self.index.spec.pattern.fields().iter().zip(&self.needs) {
            let (path, direction) = (&field.path, field.direction());
            let needed = need.any() && !(path == "_id" && self.id.any());
            if !needed {
                rest = skip_field(rest, direction, &mut types).ok_or_else(broken)?;
                continue;
            }
            if self.flat
                && let Some((number, behind)) = decode_number(rest, direction, &mut types)
            {
                builder.append(path, number);
                rest = behind;
                continue;
            }
            let (value, behind) = decode_field(rest, direction, &mut types).ok_or_else(broken)?;
            rest = behind;
            if matches!(value.view(), Value::Null | Value::Undefined) {
                return Ok(None);
            }
            self.add(&mut builder, &mut values, path, value);
        }
        nest(&mut builder, &values, 0);
        Ok(Some(builder.finish()))
    }

    /// Adds a value to the document, or to those that are put into it when all are there.
    fn add<'c>(
        &self,
        builder: &mut DocumentBuilder,
        values: &mut SmallVec<[(&'c str, ValueBuf); 6]>,
        path: &'c str,
        value: ValueBuf,
    ) {
        if self.flat {
            builder.append(path, value.view());
        } else {
            values.push((path, value));
        }
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

impl Input {
    /// Goes to the next row, and makes its document: the row has that, or its keys when these do not tell.
    fn next(&mut self, run: &Run<'_>, shape: &Shape, row: &mut Row) -> Result<bool> {
        match self {
            Self::Scan(scan) => scan.each(run, |entry| {
                row.reset();
                let id = || entry.parts().map(|parts| (parts.id, parts.id_types));
                match shape.document(entry.key, entry.types()?, id)? {
                    Some(document) => row.document = Some(StoredDocument::built(document)),
                    None => row.set(&entry.parts()?),
                }
                Ok(false)
            }),
            Self::Merged(merged) => {
                let found = merged.next(run, row)?;
                if found {
                    let document = shape.document(&row.key, &row.types, || Ok((&row.id, &row.id_types)))?;
                    row.document = document.map(StoredDocument::built);
                }
                Ok(found)
            }
        }
    }
}

impl Operator for Covered {
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool> {
        while self.input.next(run, &self.shape, row)? {
            if let Some(document) = &row.document {
                let (matched, position) =
                    if self.exact { (true, None) } else { run.query.filter.matches_at(document.view())? };
                if matched {
                    (row.position, row.projected) = (position, self.shape.projected);
                    return Ok(true);
                }
            } else {
                row.document = run.reader.get(run.table, &row.id)?.map(StoredDocument::new);
                if run.matches(row)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn lend_keys(&mut self, run: &Run<'_>, row: &mut Row, take: &mut Take<'_>) -> Result<bool> {
        match &mut self.input {
            Input::Scan(scan) if self.exact => scan.lend(run, row, take),
            _ => self.lend(run, row, take),
        }
    }

    /// Rows that all match need no documents.
    fn count(&mut self, run: &Run<'_>, row: &mut Row, most: u64) -> Result<u64> {
        match &mut self.input {
            Input::Scan(scan) if self.exact => scan.count(run, row, most),
            Input::Merged(merged) if self.exact => merged.count(run, row, most),
            _ => count_rows(self, run, row, most),
        }
    }
}
