//! Sort patterns such as `{a: 1, "b.c": -1}`, the keys that documents have by them, and their order.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use super::collect::collect;
use super::dotted::Path;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuilder, Value, ValueBuf, compare, may_be_in_path};
use crate::collation::{self, Collated, Collation};
use crate::keys::{self, Direction, KeyPattern, KeySet, TypeBits, TypeReader, decode_field, extract};

/// A compiled sort pattern.
#[derive(Clone, Debug, Default)]
pub struct Sort {
    fields: Vec<(Path, bool)>,
    /// Of several fields, the same as the fields of an index.
    joint: Option<Arc<KeyPattern>>,
    /// How strings are compared.
    collation: Collated,
}

/// The most fields of a sort pattern.
const FIELDS_MAX: usize = 32;

/// The values that a document is sorted by, one a field of the pattern; with a collation, the sort keys of strings are
/// in their place.
pub type SortKey = Vec<ValueBuf>;

impl Sort {
    /// Reads a sort pattern. Strings are compared by `collation`.
    ///
    /// # Errors
    /// 15974 and 15975 for a direction that is not 1 or -1, 17312 for an unknown `$meta`, 15998 and others for a path
    /// that is none, 7472500 for a path that is there twice.
    pub fn parse(pattern: Document<'_>, collation: Option<&Arc<Collation>>) -> Result<Self> {
        let mut fields: Vec<(Path, bool)> = Vec::new();
        let mut seen: HashSet<&[u8]> = HashSet::new();
        for element in pattern {
            let name = element.name.to_str_lossy();
            check(&name)?;
            let path = Path::new(element.name);
            if !seen.insert(element.name.as_bytes()) {
                return Err(numbered(
                    7_472_500,
                    format!("$sort key must not contain duplicate keys (field: '{name}')"),
                ));
            }
            fields.push((path, descends(element.value)?));
        }
        if fields.len() > FIELDS_MAX {
            return Err(numbered(13103, "too many compound keys"));
        }
        let joint = if fields.len() > 1 { Some(Arc::new(joint(&fields)?.collated(collation.cloned()))) } else { None };
        Ok(Self { fields, joint, collation: collation.cloned() })
    }

    /// The pattern of one field.
    #[must_use]
    pub fn by(path: &str, descending: bool, collation: Collated) -> Self {
        Self { fields: vec![(Path::new(path), descending)], joint: None, collation }
    }

    /// How strings are compared.
    #[must_use]
    pub const fn collation(&self) -> &Collated {
        &self.collation
    }

    /// The paths, and whether each is descending.
    #[must_use]
    pub fn fields(&self) -> &[(Path, bool)] {
        &self.fields
    }

    /// The values that a document is sorted by: the least of an array when ascending, the greatest when descending;
    /// null for a missing field, undefined for an empty array. Paths through one array take their values from the same
    /// element of it, the one with the least key.
    ///
    /// # Errors
    /// `BadValue` (2) when two of the paths go through different arrays.
    pub fn key(&self, document: Document<'_>) -> Result<SortKey> {
        if let Some(joint) = &self.joint
            && self.share_array(document)?
        {
            return least_key(joint, document);
        }
        Ok(self.fields.iter().map(|(path, descending)| self.keyed(document, path, *descending)).collect())
    }

    /// The same values as bytes, whose order is that of the documents.
    ///
    /// # Errors
    /// As [`Self::key`].
    pub fn encoded(&self, document: Document<'_>) -> Result<Vec<u8>> {
        let (mut key, mut types) = (Vec::with_capacity(16 * self.fields.len()), TypeBits::new());
        let shared = match &self.joint {
            Some(joint) if self.share_array(document)? => Some(least_key(joint, document)?),
            _ => None,
        };
        for (at, (path, descending)) in self.fields.iter().enumerate() {
            let direction = if *descending { Direction::Descending } else { Direction::Ascending };
            match (&shared, &self.collation) {
                (Some(values), _) => {
                    let value = values.get(at).map_or(Value::Null, ValueBuf::view);
                    keys::append(&mut key, &mut types, &value, direction);
                }
                (None, None) => {
                    keys::append(&mut key, &mut types, &extreme(document, path, *descending, None), direction);
                }
                (None, Some(_)) => {
                    keys::append(&mut key, &mut types, &self.keyed(document, path, *descending).view(), direction);
                }
            }
        }
        Ok(key)
    }

    /// The value that a document is sorted by of one path.
    fn keyed(&self, document: Document<'_>, path: &Path, descending: bool) -> ValueBuf {
        let value = extreme(document, path, descending, self.collation.as_deref());
        let key = self.collation.as_deref().and_then(|collation| collation.key_of(&value));
        key.unwrap_or_else(|| value.into())
    }

    /// The order of two keys.
    #[must_use]
    pub fn compare(&self, a: &[ValueBuf], b: &[ValueBuf]) -> Ordering {
        for ((_, descending), (a, b)) in self.fields.iter().zip(a.iter().zip(b)) {
            let order = compare(&a.view(), &b.view());
            if order.is_ne() {
                return if *descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }

    /// The order of two documents, or of other values, whose fields all count as missing. Strings are compared by
    /// `by`.
    #[must_use]
    pub fn compare_values(&self, by: Option<&Collation>, a: &Value<'_>, b: &Value<'_>) -> Ordering {
        let document = |value: &Value<'_>| match value {
            Value::Document(document) => document.as_bytes().to_vec(),
            _ => Document::empty().as_bytes().to_vec(),
        };
        let (a, b) = (document(a), document(b));
        let view = |bytes| Document::from_checked_bytes(bytes).unwrap_or(Document::empty());
        for (path, descending) in &self.fields {
            let (a, b) = (extreme(view(&a), path, *descending, by), extreme(view(&b), path, *descending, by));
            let order = collation::compare(by, &a, &b);
            if order.is_ne() {
                return if *descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }

    /// Whether two paths pass through an array. Refuses a document in which these are different arrays.
    fn share_array(&self, document: Document<'_>) -> Result<bool> {
        let (mut first, mut shared): (Option<Vec<&[u8]>>, bool) = (None, false);
        for (path, _) in &self.fields {
            let Some(array) = array_on(document, path) else { continue };
            match &first {
                None => first = Some(array),
                Some(other) if *other == array => shared = true,
                Some(_) => return Err(parallel()),
            }
        }
        Ok(shared)
    }
}

fn parallel() -> Error {
    Error::bad_value("cannot sort with keys that are parallel arrays")
}

/// The pattern of an index with the fields of a sort.
fn joint(fields: &[(Path, bool)]) -> Result<KeyPattern> {
    let mut pattern = DocumentBuilder::new();
    for (path, descending) in fields {
        pattern.append(path.to_string(), if *descending { -1 } else { 1 });
    }
    KeyPattern::parse(pattern.finish().view())
}

/// The first of the keys that an index would have of a document.
fn least_key(pattern: &KeyPattern, document: Document<'_>) -> Result<SortKey> {
    let mut keys = KeySet::new();
    extract(pattern, false, None, document, &mut keys).map_err(|error| match error.code() {
        ErrorCode::CANNOT_INDEX_PARALLEL_ARRAYS => parallel(),
        _ => error,
    })?;
    let Some(key) = keys.iter().next() else { return Ok(Vec::new()) };
    let (mut rest, mut types) = (key.fields, TypeReader::new(key.types));
    let mut values = SortKey::with_capacity(pattern.fields().len());
    for field in pattern.fields() {
        let Some((value, behind)) = decode_field(rest, field.direction(), &mut types) else { break };
        values.push(value);
        rest = behind;
    }
    Ok(values)
}

/// The components up to the first array on a path, if there is one.
fn array_on<'p>(document: Document<'_>, path: &'p Path) -> Option<Vec<&'p [u8]>> {
    let (mut names, mut here) = (Vec::new(), document);
    for part in path.parts() {
        names.push(part.name());
        match here.get(part.name())? {
            Value::Document(inner) => here = inner,
            Value::Array(_) => return Some(names),
            _ => return None,
        }
    }
    None
}

fn extreme<'a>(document: Document<'a>, path: &Path, greatest: bool, by: Option<&Collation>) -> Value<'a> {
    let mut found: Option<Value<'a>> = None;
    collect(document, path.parts(), &mut |value| {
        let better = found.is_none_or(|other| {
            let order = collation::compare(by, &value, &other);
            if greatest { order.is_gt() } else { order.is_lt() }
        });
        if better {
            found = Some(value);
        }
    });
    found.unwrap_or(Value::Null)
}

fn descends(direction: Value<'_>) -> Result<bool> {
    if let Value::Document(meta) = direction {
        let Some(first) = meta.first().filter(|first| first.name == "$meta") else {
            return Err(numbered(17312, "$meta is the only expression supported by $sort right now"));
        };
        if meta.elements().nth(1).is_some() {
            let what = "Cannot have additional keys in a $meta sort specification";
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
        return Err(match first.value {
            Value::String(name) if name == "textScore" => {
                numbered(40218, "query requires text score metadata, but it is not available")
            }
            Value::String(name) if name == "randVal" => {
                Error::new(ErrorCode::NOT_IMPLEMENTED, "sorting by {$meta: 'randVal'} is not supported")
            }
            other => numbered(31138, format!("Illegal $meta sort: $meta: {}", other.to_json())),
        });
    }
    let Some(number) = direction.as_number() else {
        let kind = direction.kind().name();
        return Err(numbered(
            15974,
            format!("Illegal key in $sort specification: the order must be a number, found {kind}"),
        ));
    };
    let whole = match direction {
        Value::Decimal128(decimal) => {
            let rounded = decimal.to_integral(crate::bson::decimal::Rounding::HalfEven);
            crate::bson::number::Number::Decimal(rounded).to_exact_i64()
        }
        _ => number.trunc_to_i64(),
    };
    match whole {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => Err(numbered(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)")),
    }
}

fn numbered(code: i32, message: impl Into<String>) -> Error {
    Error::new(ErrorCode::new(code), message)
}

/// Checks the path of a field.
fn check(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(numbered(40352, "FieldPath cannot be constructed with empty string"));
    }
    if name.ends_with('.') {
        return Err(numbered(40353, "FieldPath must not end with a '.'."));
    }
    for part in name.split('.') {
        if part.is_empty() {
            return Err(numbered(15998, "FieldPath field names may not be empty strings."));
        }
        if !may_be_in_path(part.as_bytes()) {
            return Err(numbered(16410, format!("FieldPath field names may not start with '$'. Found '{part}'")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson::DocumentBuf;

    #[test]
    fn arrays_sort_by_their_least_or_greatest_value() {
        let json = |text: &str| DocumentBuf::from_json(text).unwrap();
        let sorted = |pattern: &str| {
            let sort = Sort::parse(json(pattern).view(), None).unwrap();
            let texts = [r#"{"a":[5,1]}"#, r#"{"a":3}"#, r#"{"a":[]}"#, "{}", r#"{"a":"x"}"#];
            let mut documents: Vec<_> =
                texts.iter().map(|text| (sort.key(json(text).view()).unwrap(), *text)).collect();
            documents.sort_by(|a, b| sort.compare(&a.0, &b.0));
            documents.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(sorted(r#"{"a":1}"#), r#"{"a":[]} {} {"a":[5,1]} {"a":3} {"a":"x"}"#);
        assert_eq!(sorted(r#"{"a":-1}"#), r#"{"a":"x"} {"a":[5,1]} {"a":3} {} {"a":[]}"#);
        let sort = Sort::parse(json(r#"{"a":1,"b":1}"#).view(), None).unwrap();
        assert_eq!(sort.key(json(r#"{"a":[1],"b":[2]}"#).view()).unwrap_err().code().number(), 2);
        let pair = sort.key(json(r#"{"a":[{"x":1}],"b":2}"#).view()).unwrap();
        assert_eq!(pair.len(), 2);
        let inner = Sort::parse(json(r#"{"a.b":1,"a.c":1}"#).view(), None).unwrap();
        let key = inner.key(json(r#"{"a":[{"b":2,"c":1},{"b":1,"c":5}]}"#).view()).unwrap();
        assert_eq!(key.iter().map(|value| value.view().to_json()).collect::<Vec<_>>(), ["1", "5"]);
        for (pattern, code) in
            [(r#"{"a":2}"#, 15975), (r#"{"a":"x"}"#, 15974), (r#"{"$a":1}"#, 16410), (r#"{"a":0.5}"#, 15975)]
        {
            assert_eq!(Sort::parse(json(pattern).view(), None).unwrap_err().code().number(), code, "{pattern}");
        }
    }
}
