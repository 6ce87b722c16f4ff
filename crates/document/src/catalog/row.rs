//! The bytes of the catalog's rows.
//!
//! # Format
//! The value under the key `#` is the next number, u64 little-endian. The value under a namespace is a BSON document:
//!
//! | field | content |
//! |---|---|
//! | `n` | the number of the collection, int64; a view has none |
//! | `uuid` | binary of subtype 4 |
//! | `options` | the options as they were given |
//! | `indexes` | array of documents, see below; a view has none |
//! | `sortKeys` | the version of the rules of sort keys, where there are such; `ICU4X 2.4` where it is missing |
//!
//! An index has `n`, its number, int64; `spec`, the specification; `ready`, bool; `multikey`, an int64 of bits for each
//! field.

use super::damage::DamagedIndex;
use super::index_spec::IndexSpec;
use super::options::CollectionOptions;
use super::state::{Index, Schema};
use super::tables::index_table;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Checks, Document, DocumentBuf, DocumentBuilder, Value};
use crate::collation::SORT_KEYS;

/// The key of the next number.
pub(super) const NUMBER_KEY: &[u8] = b"#";

/// The version of the sort keys of rows that do not tell it.
const SORT_KEYS_FIRST: &str = "ICU4X 2.4";

/// A row, read.
#[derive(Debug)]
pub(super) struct Row {
    /// Nothing for a view.
    pub(super) number: Option<u64>,
    pub(super) uuid: [u8; 16],
    pub(super) options: CollectionOptions,
    pub(super) indexes: Vec<IndexRow>,
    /// Those that cannot be read.
    pub(super) damaged: Vec<DamagedIndex>,
}

#[derive(Debug)]
pub(super) struct IndexRow {
    pub(super) number: u64,
    pub(super) spec: IndexSpec,
    pub(super) ready: bool,
    pub(super) multikey: Vec<u64>,
    /// The same as it is in the row.
    row: DocumentBuf,
}

impl IndexRow {
    /// The index when its table is missing.
    pub(super) fn without_table(self) -> DamagedIndex {
        let why = format!("its table {} is missing", index_table(self.number));
        DamagedIndex { number: self.number, name: self.spec.name, why, row: self.row }
    }
}

/// What a row must be, so that it may be changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected<'e> {
    /// That of a collection: its number and its UUID.
    Collection(u64, &'e [u8; 16]),
    /// That of a view.
    View,
    /// Any row: of a collection that is damaged.
    Any,
}

impl Expected<'_> {
    /// Whether a row is the expected one.
    pub(super) fn is(self, row: Document<'_>) -> bool {
        let number = row.get("n");
        match self {
            Self::Collection(expected, uuid) => {
                number.and_then(|number| number.as_exact_i64()) == Some(expected.cast_signed())
                    && row.get("uuid") == Some(Value::Binary(4, uuid))
            }
            Self::View => number.is_none(),
            Self::Any => true,
        }
    }
}

pub(super) fn corrupt(namespace: &str, what: &str) -> Error {
    Error::new(
        ErrorCode::DATA_CORRUPTION_DETECTED,
        format!("the catalog's row of '{namespace}' has no usable '{what}'"),
    )
}

/// The row of a collection.
pub(super) fn encode(number: u64, schema: &Schema) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append("n", number.cast_signed());
    builder.append("uuid", Value::Binary(4, &schema.uuid)).append("options", schema.options.document());
    builder.open_array("indexes");
    for index in &schema.indexes {
        encode_index(&mut builder, index);
    }
    schema.damaged.iter().for_each(|index| {
        builder.push(&index.row);
    });
    builder.close();
    if has_sort_keys(&schema.options, schema.indexes.iter().map(|index| &index.spec)) {
        builder.append("sortKeys", SORT_KEYS);
    }
    builder.finish()
}

/// Whether the keys of a collection, or of one of its indexes, have sort keys in the place of strings.
fn has_sort_keys<'s>(options: &CollectionOptions, mut indexes: impl Iterator<Item = &'s IndexSpec>) -> bool {
    options.collation.is_some() || indexes.any(|index| index.pattern.collation().is_some())
}

fn encode_index(builder: &mut DocumentBuilder, index: &Index) {
    builder.push_document().append("n", index.number.cast_signed()).append("spec", index.spec.document());
    builder.append("ready", index.ready).open_array("multikey");
    for bits in index.multikey() {
        builder.push(bits.cast_signed());
    }
    builder.close().close();
}

/// The row of a view.
pub(super) fn encode_view(uuid: [u8; 16], options: &CollectionOptions) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append("uuid", Value::Binary(4, &uuid)).append("options", options.document());
    builder.finish()
}

/// The row of a collection with bits added to an index's multikey paths.
pub(super) fn with_multikey(namespace: &str, row: Document<'_>, number: u64, found: &[u64]) -> Result<DocumentBuf> {
    let wrong = |what: &str| corrupt(namespace, what);
    let mut builder = DocumentBuilder::new();
    for element in row {
        if element.name != "indexes" {
            builder.append_element(&element);
            continue;
        }
        builder.open_array("indexes");
        for index in element.value.as_array().ok_or_else(|| wrong("indexes"))? {
            let index = index.as_document().ok_or_else(|| wrong("indexes"))?;
            builder.push_document();
            let this = index.get("n").and_then(|n| n.as_exact_i64()) == Some(number.cast_signed());
            for element in index {
                match element.value.as_array().filter(|_| this && element.name == "multikey") {
                    None => {
                        builder.append_element(&element);
                    }
                    Some(bits) => {
                        builder.open_array("multikey");
                        for (bits, found) in bits.values().zip(found) {
                            builder.push(bits.as_exact_i64().unwrap_or_default() | found.cast_signed());
                        }
                        builder.close();
                    }
                }
            }
            builder.close();
        }
        builder.close();
    }
    Ok(builder.finish())
}

pub(super) fn decode(namespace: &str, row: &[u8]) -> Result<Row> {
    let wrong = |what: &str| corrupt(namespace, what);
    let row = Document::parse_with(row, Checks::STORED)?;
    let number = match row.get("n") {
        None => None,
        Some(n) => Some(n.as_exact_i64().ok_or_else(|| wrong("n"))?.cast_unsigned()),
    };
    let uuid = match row.get("uuid") {
        Some(Value::Binary(4, bytes)) => *bytes.first_chunk().ok_or_else(|| wrong("uuid"))?,
        _ => return Err(wrong("uuid")),
    };
    let options = row.get("options").and_then(|options| options.as_document()).ok_or_else(|| wrong("options"))?;
    let options = CollectionOptions::parse(options)?;
    let (mut indexes, mut damaged) = (Vec::new(), Vec::new());
    for index in row.get("indexes").and_then(|indexes| indexes.as_array()).into_iter().flatten() {
        let index = index.as_document().ok_or_else(|| wrong("indexes"))?;
        match decode_index(namespace, index) {
            Ok(index) => indexes.push(index),
            Err(error) => damaged.push(damaged_index(index, &error).ok_or(error)?),
        }
    }
    let by = match row.get("sortKeys") {
        None => SORT_KEYS_FIRST.into(),
        Some(Value::String(by)) => by.to_str_lossy(),
        Some(_) => return Err(wrong("sortKeys")),
    };
    if by != SORT_KEYS && number.is_some() && has_sort_keys(&options, indexes.iter().map(|index| &index.spec)) {
        let what = format!(
            "'{namespace}' has a collation, and its keys are of version '{by}' of the rules of collations, where this \
             program has '{SORT_KEYS}': dump it with the program that wrote it, and restore it with this one"
        );
        return Err(Error::new(ErrorCode::INCOMPATIBLE_COLLATION_VERSION, what));
    }
    Ok(Row { number, uuid, options, indexes, damaged })
}

fn decode_index(namespace: &str, index: Document<'_>) -> Result<IndexRow> {
    let wrong = |what: &str| corrupt(namespace, what);
    let spec = index.get("spec").and_then(|spec| spec.as_document()).ok_or_else(|| wrong("spec"))?;
    let multikey = index.get("multikey").and_then(|bits| bits.as_array()).ok_or_else(|| wrong("multikey"))?;
    Ok(IndexRow {
        number: index.get("n").and_then(|n| n.as_exact_i64()).ok_or_else(|| wrong("n"))?.cast_unsigned(),
        spec: IndexSpec::parse(spec)?,
        ready: matches!(index.get("ready"), Some(Value::Bool(true))),
        multikey: multikey.values().map(|bits| bits.as_exact_i64().unwrap_or_default().cast_unsigned()).collect(),
        row: index.into(),
    })
}

/// An index that cannot be used, when its number and its name can be read.
fn damaged_index(index: Document<'_>, error: &Error) -> Option<DamagedIndex> {
    let number = index.get("n")?.as_exact_i64()?.cast_unsigned();
    let name = index.get("spec")?.as_document()?.get("name")?.as_str()?.to_owned();
    Some(DamagedIndex { number, name, why: error.message().to_owned(), row: index.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_the_longest_options_of_a_message_comes_back() {
        // A member of a replica set failed on such a row, and a database with one was not opened again.
        let name = "x".repeat(crate::bson::DOCUMENT_BYTES_MAX);
        let options = doc! {"clusteredIndex": &doc! {"key": &doc! {"_id": 1}, "unique": true, "name": &name}};
        let options = CollectionOptions::parse(options.view()).unwrap();
        let row = decode("app.c", encode_view([7; 16], &options).as_bytes()).unwrap();
        assert_eq!(row.uuid, [7; 16]);
    }

    #[test]
    fn sort_keys_of_another_version_are_refused() {
        let row = |options: &DocumentBuf, version: Option<&str>| {
            let mut builder = DocumentBuilder::new();
            builder.append("n", 1_i64).append("uuid", Value::Binary(4, &[7; 16])).append("options", options);
            builder.open_array("indexes").close();
            version.into_iter().for_each(|version| {
                builder.append("sortKeys", version);
            });
            decode("app.c", builder.finish().as_bytes()).map(|_| ()).map_err(|error| error.code().number())
        };
        let collated = doc! {"collation": &doc! {"locale": "en"}};
        assert_eq!(row(&collated, Some(SORT_KEYS)), Ok(()));
        assert_eq!(row(&collated, None), Ok(()));
        assert_eq!(row(&collated, Some("ICU4X 9.9")), Err(161));
        assert_eq!(row(&doc! {}, Some("ICU4X 9.9")), Ok(()));
    }
}
