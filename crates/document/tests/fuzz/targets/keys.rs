//! Keys: any bytes are refused or read, the order of keys is the order of values, and an index has the keys that its
//! pattern promises.

use spinney_document::bson::{Document, Value, compare, equal};
use spinney_document::keys::{
    Direction, FieldKind, KeyPattern, KeySet, TypeBits, TypeReader, append, decode_field, extract, field_len,
};

const DIRECTIONS: [Direction; 2] = [Direction::Ascending, Direction::Descending];

/// The input: how many bytes of type bits, those, a key.
pub(super) fn bytes(input: &[u8]) -> bool {
    let Some((count, rest)) = input.split_first() else { return false };
    let (types, key) = rest.split_at(usize::from(*count).min(rest.len()));
    let mut read = false;
    for direction in DIRECTIONS {
        let len = field_len(key, direction);
        assert!(len.is_none_or(|len| len <= key.len()));
        let Some((value, rest)) = decode_field(key, direction, &mut TypeReader::new(types)) else { continue };
        assert_eq!(len, Some(key.len() - rest.len()), "both find the end of a field");
        let (again, types) = encoded(&value.view(), direction);
        let same = decode_field(&again, direction, &mut TypeReader::new(&types));
        let (same, _) = same.unwrap_or_else(|| panic!("a key of {value:?}: {again:x?}"));
        assert!(equal(&value.view(), &same.view()), "{value:?} {same:?}");
        read = true;
    }
    read
}

fn encoded(value: &Value<'_>, direction: Direction) -> (Vec<u8>, Vec<u8>) {
    let (mut key, mut types) = (Vec::new(), TypeBits::new());
    append(&mut key, &mut types, value, direction);
    (key, types.as_bytes().to_vec())
}

/// The input: documents, whose values are compared with each other.
pub(super) fn order(input: &[u8]) -> bool {
    let (documents, all) = super::split(input);
    let mut values: Vec<Value<'_>> =
        documents.iter().flat_map(|document| document.elements()).map(|e| e.value).collect();
    values.truncate(12);
    for direction in DIRECTIONS {
        let keys: Vec<_> = values.iter().map(|value| encoded(value, direction)).collect();
        for (value, (key, types)) in values.iter().zip(&keys) {
            assert_eq!(field_len(key, direction), Some(key.len()), "{value:?}");
            let (read, rest) = decode_field(key, direction, &mut TypeReader::new(types)).expect("a key");
            assert!(rest.is_empty() && read.kind() == value.kind() && equal(&read.view(), value), "{value:?} {read:?}");
        }
        for (a, (one, _)) in values.iter().zip(&keys) {
            for (b, (other, _)) in values.iter().zip(&keys) {
                let order = compare(a, b);
                let order = if direction == Direction::Ascending { order } else { order.reverse() };
                // Whatever follows.
                for (x, y) in [(0x08, 0xF0), (0xF0, 0x08), (0x14, 0x14)] {
                    let (mut one, mut other) = (one.clone(), other.clone());
                    one.push(x);
                    other.push(y);
                    assert_eq!(one.cmp(&other), order.then(x.cmp(&y)), "{a:?} {b:?}");
                }
            }
        }
    }
    all && !values.is_empty()
}

/// The input: a pattern of an index, and documents.
pub(super) fn of_index(input: &[u8]) -> bool {
    let (documents, all) = super::split(input);
    let Some((pattern, documents)) = documents.split_first() else { return false };
    let Ok(pattern) = KeyPattern::parse(*pattern) else { return false };
    let mut keys = KeySet::new();
    for document in documents {
        for sparse in [false, true] {
            if extract(&pattern, sparse, None, *document, &mut keys).is_ok() {
                check_keys(&pattern, *document, &keys);
            }
        }
    }
    all
}

fn check_keys(pattern: &KeyPattern, document: Document<'_>, keys: &KeySet) {
    let fields: Vec<_> = keys.iter().map(|key| key.fields).collect();
    assert!(fields.is_sorted_by(|a, b| a < b), "keys are in order, and each is there once");
    for key in keys.iter() {
        let (mut rest, mut types) = (key.fields, TypeReader::new(key.types));
        for field in pattern.fields() {
            let direction = match field.kind {
                FieldKind::Ordered(_) | FieldKind::Hashed => field.direction(),
                FieldKind::Wildcard(direction) => {
                    // The path comes before the value.
                    let (path, after) = decode_field(rest, Direction::Ascending, &mut types).expect("a path");
                    // A document without a leaf has the least value in its place, beside other fields.
                    let none = pattern.fields().len() > 1 && matches!(path.view(), Value::MinKey);
                    assert!(none || path.view().as_text().is_some());
                    rest = after;
                    direction
                }
            };
            let read = decode_field(rest, direction, &mut types);
            rest = read.unwrap_or_else(|| panic!("{pattern:?} {document:?}")).1;
        }
        assert!(rest.is_empty());
    }
}
