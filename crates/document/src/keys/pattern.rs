//! Key patterns: the fields of an index, such as `{a: 1, "b.c": -1}`.

use crate::base::{Error, ErrorCode, Result};
use crate::bson::number::Number;
use crate::bson::{Document, DocumentBuf, Text, Value, is_reference_field};
use crate::collation::{Collated, Collation};

/// The most fields of an index.
pub const FIELDS_MAX: usize = 32;

/// The order of a field's values in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the least value.
    Ascending,
    /// From the greatest value.
    Descending,
}

/// What an index keeps of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Its values in their order.
    Ordered(Direction),
    /// A hash of its value.
    Hashed,
    /// The path and value of each leaf below it; at the root for `$**`.
    Wildcard(Direction),
}

/// A field of an index.
#[derive(Clone, Debug)]
pub struct KeyField {
    /// The path; for a wildcard, the path above `$**`, which is empty for the root.
    pub path: String,
    /// What the index keeps of it.
    pub kind: FieldKind,
    pub(super) components: Vec<Component>,
}

/// A part of a path between dots.
#[derive(Clone, Debug)]
pub(super) struct Component {
    pub(super) name: String,
    /// The position in an array that the name may mean.
    pub(super) index: Option<usize>,
}

/// The fields of an index in their order.
#[derive(Clone, Debug)]
pub struct KeyPattern {
    fields: Vec<KeyField>,
    document: DocumentBuf,
    collation: Collated,
}

impl KeyField {
    /// The order in which the field's bytes are written.
    #[must_use]
    pub fn direction(&self) -> Direction {
        match self.kind {
            FieldKind::Ordered(direction) | FieldKind::Wildcard(direction) => direction,
            FieldKind::Hashed => Direction::Ascending,
        }
    }
}

impl KeyPattern {
    /// The pattern that a document describes.
    ///
    /// # Errors
    /// `CannotCreateIndex` (67) when the pattern is malformed or of a kind that does not exist here, which text and geo
    /// indexes are; 13103 for more than [`FIELDS_MAX`] fields.
    pub fn parse(document: Document<'_>) -> Result<Self> {
        let mut fields: Vec<KeyField> = Vec::new();
        for element in document {
            let name =
                element.name.as_str().ok_or_else(|| refuse("a field name in the index key pattern is not UTF-8"))?;
            let kind = parse_kind(document, name, &element.value)?;
            let path = match kind {
                FieldKind::Wildcard(_) => name.strip_suffix("$**").unwrap_or(name).trim_end_matches('.'),
                _ => name,
            };
            check_path(document, path, matches!(kind, FieldKind::Wildcard(_)))?;
            if fields.iter().any(|field| field.path == path) {
                return Err(refuse(&format!("the index key pattern names the field '{path}' twice")));
            }
            fields.push(KeyField { path: path.to_owned(), kind, components: components_of(path) });
        }
        if fields.is_empty() {
            return Err(refuse("Index keys cannot be empty."));
        }
        if fields.len() > FIELDS_MAX {
            return Err(Error::new(ErrorCode::new(13103), format!("too many compound keys: more than {FIELDS_MAX}")));
        }
        let count = |is: fn(&FieldKind) -> bool| fields.iter().filter(|field| is(&field.kind)).count();
        let wildcards = count(|kind| matches!(kind, FieldKind::Wildcard(_)));
        if wildcards > 1 {
            let what = "wildcard indexes do not allow more than one wildcard field";
            return Err(Error::new(ErrorCode::new(7_246_201), what));
        }
        if wildcards > 0 {
            check_wildcard(document, &fields)?;
        }
        if count(|kind| *kind == FieldKind::Hashed) > 1 {
            return Err(Error::new(
                ErrorCode::new(31303),
                "A maximum of one index field is allowed to be hashed but found more than one",
            ));
        }
        Ok(Self { fields, document: DocumentBuf::from(document), collation: None })
    }

    /// The same pattern with the collation of its strings.
    #[must_use]
    pub fn collated(self, collation: Collated) -> Self {
        Self { collation, ..self }
    }

    /// How strings are compared: with a collation, keys have sort keys in the place of strings.
    #[must_use]
    pub fn collation(&self) -> Option<&Collation> {
        self.collation.as_deref()
    }

    /// The fields.
    #[must_use]
    pub fn fields(&self) -> &[KeyField] {
        &self.fields
    }

    /// The pattern as it was given.
    #[must_use]
    pub fn document(&self) -> Document<'_> {
        self.document.view()
    }

    /// Whether a field is hashed.
    #[must_use]
    pub fn is_hashed(&self) -> bool {
        self.fields.iter().any(|field| field.kind == FieldKind::Hashed)
    }

    /// Whether the index is a wildcard index.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.wildcard().is_some()
    }

    /// Which of the fields is the wildcard, of a wildcard index.
    #[must_use]
    pub fn wildcard(&self) -> Option<usize> {
        self.fields.iter().position(|field| matches!(field.kind, FieldKind::Wildcard(_)))
    }

    /// The order of each part of a key: of each field, and before a wildcard's that of the path.
    pub fn directions(&self) -> impl Iterator<Item = Direction> {
        self.fields.iter().flat_map(|field| {
            let path = matches!(field.kind, FieldKind::Wildcard(_)).then_some(Direction::Ascending);
            path.into_iter().chain([field.direction()])
        })
    }

    /// The name that an index of this pattern gets when it is given none, such as `a_1_b_-1`.
    #[must_use]
    pub fn default_name(&self) -> String {
        let parts = self.document.view().elements().map(|element| {
            let value = match element.value {
                Value::String(text) => text.to_string(),
                other => match other.as_number().and_then(Number::trunc_to_i64) {
                    Some(number) => number.to_string(),
                    None => other.to_json(),
                },
            };
            format!("{}_{value}", element.name)
        });
        parts.collect::<Vec<_>>().join("_")
    }
}

fn refuse(what: &str) -> Error {
    Error::new(ErrorCode::CANNOT_CREATE_INDEX, what)
}

fn parse_kind(pattern: Document<'_>, name: &str, value: &Value<'_>) -> Result<FieldKind> {
    let json = || pattern.to_json();
    if let Some(number) = value.as_number() {
        let number = number.to_f64();
        if number == 0.0 || number.is_nan() {
            let what = format!("Values in the index key pattern {} cannot be 0 or NaN.", json());
            return Err(refuse(&what));
        }
        let direction = if number > 0.0 { Direction::Ascending } else { Direction::Descending };
        let wildcard = name == "$**" || name.ends_with(".$**");
        return Ok(if wildcard { FieldKind::Wildcard(direction) } else { FieldKind::Ordered(direction) });
    }
    match value {
        Value::String(kind) if *kind == "hashed" => Ok(FieldKind::Hashed),
        Value::String(kind) if ["text", "2dsphere", "2d"].iter().any(|known| kind == known) => {
            Err(refuse(&format!("index key pattern {}: {kind} indexes are not supported", json())))
        }
        Value::String(kind) if *kind == "wildcard" => {
            let what = "the index type 'wildcard' is written as a field '$**'";
            Err(Error::new(ErrorCode::new(7_246_202), what))
        }
        Value::String(kind) => Err(refuse(&format!("Unknown index plugin '{kind}'. Index key pattern: {}", json()))),
        other => Err(refuse(&format!(
            "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and strings are allowed.",
            other.kind().name()
        ))),
    }
}

/// Refuses hashed fields beside a wildcard, and fields that the wildcard has as well.
fn check_wildcard(pattern: Document<'_>, fields: &[KeyField]) -> Result<()> {
    let is_wildcard = |field: &&KeyField| matches!(field.kind, FieldKind::Wildcard(_));
    let Some(wildcard) = fields.iter().find(is_wildcard) else { return Ok(()) };
    let within = |path: &str, other: &str| path == other || path.starts_with(&format!("{other}."));
    for field in fields.iter().filter(|field| !is_wildcard(field)) {
        if field.kind == FieldKind::Hashed {
            return Err(refuse(&format!("wildcard indexes do not allow hashed fields: {}", pattern.to_json())));
        }
        let overlaps = within(&field.path, &wildcard.path) || within(&wildcard.path, &field.path);
        if !wildcard.path.is_empty() && overlaps {
            let what = format!("the field '{}' is also one of the wildcard's: {}", field.path, pattern.to_json());
            return Err(refuse(&what));
        }
    }
    Ok(())
}

/// Refuses empty components and names that begin with a dollar sign, except for those of references.
fn check_path(pattern: Document<'_>, path: &str, wildcard: bool) -> Result<()> {
    if wildcard && path.is_empty() {
        return Ok(());
    }
    for component in path.split('.') {
        if component.is_empty() {
            return Err(refuse(&format!("Index keys cannot contain an empty field: {}", pattern.to_json())));
        }
        if component.starts_with('$') && !is_reference_field(component.as_bytes()) {
            let what = format!("Index key contains an illegal field name: {}", pattern.to_json());
            return Err(refuse(&what));
        }
    }
    Ok(())
}

/// The parts of a path. A number without zeros before it may mean a position.
pub(super) fn components_of(path: &str) -> Vec<Component> {
    let index = |name: &str| {
        let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        name.parse().ok().filter(|_| digits && (name == "0" || !name.starts_with('0')))
    };
    let parts = path.split('.').filter(|_| !path.is_empty());
    parts.map(|name| Component { name: name.to_owned(), index: index(name) }).collect()
}

/// Whether a field name in a document is this text.
pub(super) fn is_named(name: Text<'_>, text: &str) -> bool {
    name.as_bytes() == text.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<KeyPattern> {
        KeyPattern::parse(DocumentBuf::from_json(json)?.view())
    }

    #[test]
    fn names_are_made_of_fields_and_directions() {
        assert_eq!(parse(r#"{"a":1,"b.c":-1.0,"d":"hashed"}"#).unwrap().default_name(), "a_1_b.c_-1_d_hashed");
        assert_eq!(parse(r#"{"$**":1}"#).unwrap().default_name(), "$**_1");
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for json in [
            "{}",
            r#"{"a":0}"#,
            r#"{"a":true}"#,
            r#"{"a":"foo"}"#,
            r#"{"a":"text"}"#,
            r#"{"":1}"#,
            r#"{"a.":1}"#,
            r#"{"$a":1}"#,
            r#"{"a":1,"a":1}"#,
            r#"{"a":{}}"#,
            r#"{"a":"hashed","$**":1}"#,
            r#"{"a.b":1,"a.$**":1}"#,
            r#"{"a":1,"a.b.$**":1}"#,
        ] {
            assert_eq!(parse(json).unwrap_err().code(), ErrorCode::CANNOT_CREATE_INDEX, "{json}");
        }
        assert_eq!(parse(r#"{"$**":1,"a.$**":1}"#).unwrap_err().code().number(), 7_246_201);
    }
}
