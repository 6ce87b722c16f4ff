//! The proof that a collection and its indexes agree.

use std::sync::Arc;

use spinney::Snapshot;

use super::write::find;
use crate::base::Result;
use crate::bson::{Checks, Document};
use crate::catalog::index_entry::{EncodedId, IndexEntry};
use crate::catalog::state::COUNT_WAIT;
use crate::catalog::{AtRest, Catalog, CollectionState, Index};
use crate::keys::KeySet;

/// The most problems that are told.
const PROBLEMS_MAX: usize = 100;

/// What was found in a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// The documents.
    pub documents: u64,
    /// The entries of each index, by its name, in the order of the indexes.
    pub entries: Vec<(String, u64)>,
    /// What is wrong, a sentence each, the first hundred.
    pub problems: Vec<String>,
}

impl Validation {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    fn tell(&mut self, problem: impl FnOnce() -> String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem());
        }
    }
}

/// Checks all documents and all entries of the indexes that are ready, in one snapshot: every document is well-formed
/// and stored under its `_id`, every entry that it must have is there, and there are no others. A count of the
/// documents that is wrong is told and put right.
///
/// # Errors
/// Those of the engine.
pub fn validate(catalog: &Catalog, collection: &CollectionState) -> Result<Validation> {
    let (snapshot, schema, count) = match collection.at_rest(catalog.engine(), COUNT_WAIT) {
        Some(AtRest { count, snapshot, schema }) => (snapshot, schema, count),
        None => {
            // No transaction may commit between the two.
            let held = collection.hold();
            (catalog.engine().snapshot(), Arc::clone(held.schema()), None)
        }
    };
    let mut found = Validation::default();
    if let Err(damaged) = schema.check_indexes() {
        found.tell(|| damaged.message().to_owned());
    }
    let indexes: Vec<_> = schema.indexes.iter().filter(|index| index.ready).collect();
    let mut expected = vec![0_u64; indexes.len()];
    let (mut keys, mut entry, mut id) = (KeySet::new(), IndexEntry::default(), EncodedId::default());
    let mut documents = snapshot.range(&collection.table, ..);
    while let Some((key, bytes)) = documents.advance()? {
        found.documents += 1;
        let document = match Document::parse_with(bytes, Checks { utf8: false, ..Checks::default() }) {
            Ok(document) => document,
            Err(error) => {
                let position = found.documents;
                found.tell(|| format!("document {position} in the order of _id: {error}"));
                continue;
            }
        };
        match collection.capped {
            None => document.first().into_iter().for_each(|first| id.set(&first.value, collection.collation())),
            Some(_) => id.set_record(key),
        }
        if id.key() != key {
            found.tell(|| format!("a document is not stored under its _id: {document}"));
        }
        for (index, expected) in indexes.iter().zip(&mut expected) {
            if let Err(error) = find(index, Some(document), &mut keys) {
                found.tell(|| format!("index {}: {error}", index.spec.name));
                continue;
            }
            for key in keys.iter() {
                *expected += 1;
                entry.set(index, key, &id)?;
                let there = snapshot.get(&index.table, entry.key())?;
                if there.as_deref() != Some(entry.value()) {
                    let what = if there.is_some() { "another entry" } else { "no entry" };
                    found.tell(|| format!("index {} has {what} for {document}", index.spec.name));
                }
            }
        }
    }
    drop(documents);
    let there = i64::try_from(found.documents).unwrap_or(i64::MAX);
    if let Some(count) = count.filter(|count| *count != there) {
        found.tell(|| format!("there are {there} documents, and the count said {count}; it is right now"));
        collection.documents.add(there - count);
        collection.documents.change();
    }
    for (index, expected) in indexes.iter().zip(expected) {
        let count = count_entries(&snapshot, index)?;
        if count != expected {
            found.tell(|| format!("index {} has {count} entries, the documents {expected}", index.spec.name));
        }
        found.entries.push((index.spec.name.clone(), count));
    }
    Ok(found)
}

fn count_entries(snapshot: &Snapshot, index: &Index) -> Result<u64> {
    let (mut entries, mut count) = (snapshot.range(&index.table, ..), 0);
    while entries.advance_key()?.is_some() {
        count += 1;
    }
    Ok(count)
}
