//! The proof that a collection and its indexes agree.

use std::fmt::Write as _;
use std::sync::Arc;

use smallvec::SmallVec;
use spinney::Snapshot;

use super::duplicate::write_value;
use super::write::find;
use crate::base::Result;
use crate::bson::{Checks, Document};
use crate::catalog::index_entry::{EncodedId, EntryParts, IndexEntry};
use crate::catalog::state::COUNT_WAIT;
use crate::catalog::{AtRest, Catalog, CollectionState, Index};
use crate::keys::{Direction, KeySet, TypeReader, decode_field};

/// The most problems whose texts are kept.
const PROBLEMS_MAX: usize = 100;

/// After so many documents or entries the progress is reported.
const REPORTED: u64 = 1 << 10;

/// Gets the number of documents and entries that were read so far, and ends the check with an error.
pub type OnValidated<'a> = dyn FnMut(u64) -> Result<()> + 'a;

/// What was found in a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// The documents.
    pub documents: u64,
    /// The entries of each index, by its name, in the order of the indexes.
    pub entries: Vec<(String, u64)>,
    /// What is wrong, a sentence each, the first hundred.
    pub problems: Vec<String>,
    /// How many problems there are.
    pub problem_count: u64,
    /// What may be meant and may be a fault, a sentence each.
    pub warnings: Vec<String>,
    /// The names of the indexes that disagree with the documents.
    pub damaged_indexes: Vec<String>,
    /// The stored number of documents, if it is wrong.
    pub wrong_count: Option<i64>,
    /// Documents that are no BSON, or have no `_id`, or several, or are stored under another one.
    pub malformed_documents: u64,
    /// Entries that documents must have and indexes do not have.
    pub missing_entries: u64,
    /// Entries that no document has.
    pub extra_entries: u64,
}

impl Validation {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.problem_count == 0
    }

    fn report(&mut self, problem: impl FnOnce() -> String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem());
        }
    }

    fn report_index(&mut self, index: &Index, problem: impl FnOnce() -> String) {
        let name = &index.spec.name;
        if !self.damaged_indexes.contains(name) {
            self.damaged_indexes.push(name.clone());
        }
        self.report(|| format!("index {name} {}", problem()));
    }
}

/// Checks all documents and all entries of the indexes that are ready, in one snapshot, and changes nothing: every
/// document is well-formed, has one `_id` and is stored under it, every entry that it must have is there with its
/// types, there are no others, the paths that are arrays are known, and the stored number of documents is right.
///
/// # Errors
/// Those of the engine, and those of `told`.
pub fn validate(catalog: &Catalog, collection: &CollectionState, told: &mut OnValidated<'_>) -> Result<Validation> {
    let (snapshot, schema, count) = match collection.at_rest(catalog.engine(), COUNT_WAIT)? {
        Some(AtRest { count, snapshot, schema }) => (snapshot, schema, count),
        None => {
            // No transaction may commit between the two.
            let held = collection.hold()?;
            (catalog.engine().snapshot(), Arc::clone(held.schema()), None)
        }
    };
    let indexes: Vec<_> = schema.indexes.iter().filter(|index| index.ready).collect();
    let mut check = Check {
        collection,
        snapshot: &snapshot,
        expected: vec![0; indexes.len()],
        indexes,
        keys: KeySet::new(),
        entry: IndexEntry::default(),
        id: EncodedId::default(),
        read: 0,
        told,
        found: Validation::default(),
    };
    check.documents()?;
    check.count(count);
    check.entries()?;
    let mut found = check.found;
    if let Err(damaged) = schema.check_indexes() {
        found.report(|| damaged.message().to_owned());
    }
    found.warnings = zero_expiries(&schema);
    Ok(found)
}

/// A document as messages name it.
fn named(document: Document<'_>) -> String {
    let mut text = "the document with _id ".to_owned();
    match document.get("_id") {
        Some(id) => write_value(&mut text, &id),
        None => text = format!("the document {document}, which has no _id"),
    }
    text
}

/// The text of an encoded `_id`; the bytes where the value cannot be read back.
#[must_use]
pub fn id_text(key: &[u8], types: &[u8], is_collated: bool) -> String {
    let mut types = TypeReader::new(types);
    let mut text = String::new();
    match decode_field(key, Direction::Ascending, &mut types).filter(|(_, rest)| rest.is_empty()) {
        Some((value, _)) if !is_collated || value.view().as_text().is_none() => write_value(&mut text, &value.view()),
        _ => {
            text.push_str("with the key 0x");
            key.iter().for_each(|byte| write!(text, "{byte:02x}").expect("a String takes any text"));
        }
    }
    text
}

/// Warnings of times to live of 0: `collMod` of earlier versions stored 0 where it was given NaN.
fn zero_expiries(schema: &crate::catalog::Schema) -> Vec<String> {
    let stands_for = "every document expires at its date; earlier versions stored 0 for NaN: if that is not meant, set the seconds \
         with collMod";
    let mut warnings = Vec::new();
    if schema.options.expire_after_seconds == Some(0) {
        warnings.push(format!("expireAfterSeconds of the collection is 0: {stands_for}"));
    }
    for index in schema.indexes.iter().filter(|index| index.spec.expire_after_seconds == Some(0)) {
        warnings.push(format!("index {}: expireAfterSeconds is 0: {stands_for}", index.spec.name));
    }
    warnings
}

/// A check under way.
struct Check<'c, 't> {
    collection: &'c CollectionState,
    snapshot: &'c Snapshot,
    indexes: Vec<&'c Arc<Index>>,
    /// Of each index, the entries that the documents must have.
    expected: Vec<u64>,
    keys: KeySet,
    entry: IndexEntry,
    id: EncodedId,
    read: u64,
    told: &'c mut OnValidated<'t>,
    found: Validation,
}

impl Check<'_, '_> {
    /// Counts a document or an entry.
    fn step(&mut self) -> Result<()> {
        self.read += 1;
        if self.read.is_multiple_of(REPORTED) { (self.told)(self.read) } else { Ok(()) }
    }

    fn documents(&mut self) -> Result<()> {
        let mut documents = self.snapshot.range(&self.collection.table, ..);
        while let Some((key, bytes)) = documents.advance()? {
            self.step()?;
            self.found.documents += 1;
            let position = self.found.documents;
            match Document::parse_with(bytes, Checks { utf8: false, ..Checks::default() }) {
                Ok(document) => self.document(key, document)?,
                Err(error) => {
                    self.found.malformed_documents += 1;
                    self.found.report(|| format!("document {position} in the order of _id: {error}"));
                }
            }
        }
        Ok(())
    }

    fn document(&mut self, key: &[u8], document: Document<'_>) -> Result<()> {
        let ids = document.elements().filter(|element| element.name == "_id").count();
        if ids != 1 {
            self.found.malformed_documents += 1;
            let what = match ids {
                0 => "has no _id: delete it".to_owned(),
                _ => format!("has {ids} fields _id, of which the first counts: replace it by one that has one _id"),
            };
            self.found.report(|| format!("{} {what}", named(document)));
        }
        match self.collection.capped {
            None => {
                let first = document.first();
                first.into_iter().for_each(|first| self.id.set(&first.value, self.collection.collation()));
            }
            Some(_) => self.id.set_record(key),
        }
        if self.id.key() != key {
            self.found.malformed_documents += 1;
            self.found.report(|| format!("{} is stored under another _id", named(document)));
        }
        for at in 0..self.indexes.len() {
            self.entries_of(at, document)?;
        }
        Ok(())
    }

    /// Looks for the entries that a document must have in an index.
    fn entries_of(&mut self, at: usize, document: Document<'_>) -> Result<()> {
        let index = self.indexes[at];
        if let Err(error) = find(index, Some(document), &mut self.keys) {
            self.found.report_index(index, || format!("cannot take {}: {error}", named(document)));
            return Ok(());
        }
        let multikey: SmallVec<[u64; 4]> = self.keys.multikey().into();
        if multikey.iter().enumerate().any(|(field, found)| found & !index.multikey_of(field) != 0) {
            self.found.report_index(index, || format!("does not record which paths are arrays in {}", named(document)));
        }
        for key in self.keys.iter() {
            self.expected[at] += 1;
            if let Err(error) = self.entry.set(index, key, &self.id) {
                self.found.report_index(index, || format!("cannot have an entry for {}: {error}", named(document)));
                continue;
            }
            let there = self.snapshot.get(&index.table, self.entry.key())?;
            if there.as_deref() == Some(self.entry.value()) {
                continue;
            }
            self.found.missing_entries += 1;
            let what = match &there {
                None => "no entry".to_owned(),
                Some(other) => other_entry(index, self.entry.key(), other, self.id.key()),
            };
            self.found.report_index(index, || format!("has {what} for {}", named(document)));
        }
        Ok(())
    }

    /// Compares the stored number of documents.
    fn count(&mut self, count: Option<i64>) {
        let there = i64::try_from(self.found.documents).unwrap_or(i64::MAX);
        if let Some(count) = count.filter(|count| *count != there) {
            self.found.wrong_count = Some(count);
            self.found.report(|| format!("there are {there} documents, and the stored count says {count}"));
        }
    }

    /// Counts the entries of each index. Where these are as many as the documents must have, and all of those were
    /// found, there are no others; else each entry is compared with its document.
    fn entries(&mut self) -> Result<()> {
        for at in 0..self.indexes.len() {
            let (index, expected) = (self.indexes[at], self.expected[at]);
            let (mut entries, mut count) = (self.snapshot.range(&index.table, ..), 0);
            while entries.advance_key()?.is_some() {
                self.step()?;
                count += 1;
            }
            drop(entries);
            if count != expected || self.found.damaged_indexes.contains(&index.spec.name) {
                self.extra(index)?;
            }
            if count != expected {
                self.found.report_index(index, || format!("has {count} entries, the documents {expected}"));
            }
            self.found.entries.push((index.spec.name.clone(), count));
        }
        Ok(())
    }

    /// Finds the entries that no document has.
    fn extra(&mut self, index: &Index) -> Result<()> {
        let directions: SmallVec<[Direction; 4]> = index.spec.pattern.directions().collect();
        let is_collated = self.collection.collation().is_some();
        let mut entries = self.snapshot.range(&index.table, ..);
        while let Some((key, value)) = entries.advance()? {
            self.step()?;
            let Some(parts) = EntryParts::of(&directions, index.spec.unique, key, value) else {
                self.found.extra_entries += 1;
                self.found.report_index(index, || "has an entry that is malformed".to_owned());
                continue;
            };
            let document = self.snapshot.get(&self.collection.table, parts.id)?;
            let of = || id_text(parts.id, parts.id_types, is_collated);
            match document.as_deref().and_then(Document::from_checked_bytes) {
                None => {
                    self.found.extra_entries += 1;
                    self.found
                        .report_index(index, || format!("has an entry of a document that does not exist: {}", of()));
                }
                // Of another type, it was reported as one that is missing.
                Some(document) => {
                    if find(index, Some(document), &mut self.keys).is_ok()
                        && !self.keys.iter().any(|own| own.fields == parts.fields)
                    {
                        self.found.extra_entries += 1;
                        let named = named(document);
                        self.found.report_index(index, || format!("has an entry that is not of {named}"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// What an index has under the key of an entry that a document must have.
fn other_entry(index: &Index, key: &[u8], other: &[u8], id: &[u8]) -> String {
    let directions: SmallVec<[Direction; 4]> = index.spec.pattern.directions().collect();
    match EntryParts::of(&directions, index.spec.unique, key, other) {
        Some(parts) if parts.id == id => "an entry of other types".to_owned(),
        Some(_) => "the entry of another document with the same key".to_owned(),
        None => "a malformed entry".to_owned(),
    }
}
