//! Collections and indexes that cannot be used, because their rows in the catalog do not agree with what is there.
//!
//! Each is one damaged collection, or one damaged index: it answers `DataCorruptionDetected` (374) and can be dropped,
//! and everything else opens.

use super::namespace::Namespace;
use super::tables::{collection_table, index_table};
use crate::base::{Error, ErrorCode};
use crate::bson::{Checks, Document, DocumentBuf};

/// A collection or view whose row cannot be used.
#[derive(Clone, Debug)]
pub struct Damage {
    /// What answers each command that needs the collection.
    pub(super) error: Error,
    /// The tables that the row names; nothing when that cannot be read.
    tables: Option<Vec<String>>,
    /// Whether the row is one that a member of a replica set has for itself.
    pub(super) is_own: bool,
}

/// An index whose entries are not there, or whose row cannot be read.
#[derive(Clone, Debug)]
pub struct DamagedIndex {
    /// The number in the name of its table.
    pub number: u64,
    /// The name.
    pub name: String,
    /// Why it cannot be used.
    pub why: String,
    /// What the row of the collection has of it.
    pub(super) row: DocumentBuf,
}

impl Damage {
    pub(super) fn new(namespace: &str, row: &[u8], cause: &Error, is_own: bool) -> Self {
        let error = match cause.code() {
            ErrorCode::INCOMPATIBLE_COLLATION_VERSION => cause.clone(),
            _ => {
                let what = format!("{namespace} is damaged: {}. Drop the collection", cause.message());
                Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, what)
            }
        };
        Self { error, tables: tables_in(row), is_own }
    }

    /// The error of what needs the collection.
    #[must_use]
    pub fn error(&self) -> Error {
        self.error.clone()
    }

    /// The tables that the row names; nothing when that cannot be read.
    pub(super) const fn tables(&self) -> Option<&Vec<String>> {
        self.tables.as_ref()
    }
}

impl DamagedIndex {
    /// The specification, as the row has it.
    #[must_use]
    pub fn spec(&self) -> Document<'_> {
        self.row.view().get("spec").and_then(|spec| spec.as_document()).unwrap_or(Document::empty())
    }

    /// What answers what would need the index, and what to do.
    pub(super) fn sentence(&self, namespace: &Namespace) -> String {
        let Self { name, why, .. } = self;
        format!("the index '{name}' of {namespace} is damaged: {why}. Drop the index, or run reIndex")
    }
}

/// The names of the tables that a row names, if it can be read so far.
fn tables_in(row: &[u8]) -> Option<Vec<String>> {
    let row = Document::parse_with(row, Checks::STORED).ok()?;
    let number = |row: Document<'_>| Some(row.get("n")?.as_exact_i64()?.cast_unsigned());
    let mut tables = vec![collection_table(number(row)?)];
    for index in row.get("indexes")?.as_array()? {
        tables.push(index_table(number(index.as_document()?)?));
    }
    Some(tables)
}
