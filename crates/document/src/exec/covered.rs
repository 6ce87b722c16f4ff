//! Documents made of the keys of an index.

use smallvec::SmallVec;

use super::operator::{Operator, Run, count_rows};
use super::row::Row;
use super::stored::StoredDocument;
use crate::aggregate::lend::Take;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::catalog::Index;
use crate::collation::has_text;
use crate::keys::{Direction, TypeReader, decode_field};
use crate::plan::covered::paths_of;
use crate::projection::Projection;

/// The rows of an index with documents of those of its fields, and `_id`, that the filter or the projection names,
/// those that match. Where such a field is null, which may stand for a missing one, the document is fetched.
#[derive(Debug)]
pub(super) struct Covered {
    input: Box<dyn Operator>,
    fields: Vec<(String, Direction, Need)>,
    id: Need,
    /// How many of the fields are before the last that is needed, that included.
    decoded: usize,
    /// Whether no path has a dot, so that fields go into the document one after the other.
    flat: bool,
    /// Whether the documents have nothing that the projection does not show.
    projected: bool,
    /// Whether all rows match.
    exact: bool,
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
    pub(super) fn new(input: Box<dyn Operator>, index: &Index, run: &Run<'_>, exact: bool) -> Self {
        let query = run.query;
        let shown = query.projection.as_ref().and_then(Projection::plain_paths).unwrap_or_default();
        let mut asked = Vec::new();
        if !exact {
            paths_of(query.filter.root(), &mut asked);
        }
        let sorted = query.sort.iter().flat_map(|sort| sort.fields()).map(|(path, _)| path);
        asked.extend(sorted);
        let asked: Vec<String> = asked.into_iter().map(ToString::to_string).collect();
        let need = |path: &str| Need {
            filter: asked.iter().any(|asked| asked == path),
            shown: shown.iter().any(|shown| shown == path),
        };
        let fields = index.spec.pattern.fields().iter();
        let fields: Vec<(String, Direction, Need)> =
            fields.map(|field| (field.path.clone(), field.direction(), need(&field.path))).collect();
        let id = if index.has_ids { need("_id") } else { Need::default() };
        let decoded = fields.iter().rposition(|(_, _, need)| need.any()).map_or(0, |last| last + 1);
        let flat = fields.iter().all(|(path, _, _)| !path.contains('.'));
        let projected = fields.iter().map(|(_, _, need)| need).chain([&id]).all(|need| need.shown || !need.filter);
        Self { input, fields, id, decoded, flat, projected, exact, collated_id: run.collated }
    }

    /// The document of a row's key, unless the key does not tell.
    fn document<'c>(&'c self, row: &Row) -> Result<Option<DocumentBuf>> {
        let mut builder = DocumentBuilder::new();
        let mut values: SmallVec<[(&str, ValueBuf); 6]> = SmallVec::new();
        let mut add = |path: &'c str, value: ValueBuf| {
            if self.flat {
                builder.append(path, value.view());
            } else {
                values.push((path, value));
            }
        };
        let (mut rest, mut types) = (&row.key[..], TypeReader::new(&row.types));
        if self.id.any() {
            let mut types = TypeReader::new(&row.id_types);
            let (id, _) = decode_field(&row.id, Direction::Ascending, &mut types).ok_or_else(broken)?;
            if self.collated_id && has_text(&id.view()) {
                return Ok(None);
            }
            add("_id", id);
        }
        for (path, direction, need) in &self.fields[..self.decoded] {
            let (value, behind) = decode_field(rest, *direction, &mut types).ok_or_else(broken)?;
            rest = behind;
            if need.any() && !(path == "_id" && self.id.any()) {
                if matches!(value.view(), Value::Null | Value::Undefined) {
                    return Ok(None);
                }
                add(path, value);
            }
        }
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
                    let (matched, position) =
                        if self.exact { (true, None) } else { run.query.filter.matches_at(document.view())? };
                    if matched {
                        row.document = Some(StoredDocument::built(document));
                        row.position = position;
                        row.projected = self.projected;
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

    fn lend_keys(&mut self, run: &Run<'_>, row: &mut Row, take: &mut Take<'_>) -> Result<bool> {
        if self.exact { self.input.lend(run, row, take) } else { self.lend(run, row, take) }
    }

    /// Rows that all match need no documents.
    fn count(&mut self, run: &Run<'_>, row: &mut Row, most: u64) -> Result<u64> {
        if self.exact { self.input.count(run, row, most) } else { count_rows(self, run, row, most) }
    }
}
