//! `$out`: documents that replace a collection, at once.
//!
//! The documents go to a collection of their own, with the options and indexes of the old one, which then takes its
//! name. One that a crash leaves is dropped when the database is opened.

use super::collections::Collections;
use crate::aggregate::Rows;
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::{Document, DocumentBuf};
use crate::catalog::{CollectionOptions, Entry, IndexSpec, Namespace};
use crate::collection::Collection;

/// The most documents that are inserted at once.
const DOCUMENTS_MAX: usize = 1000;

/// The most bytes of documents that are inserted at once.
const BYTES_MAX: usize = 4 << 20;

/// Replaces a collection by documents. It is created when there is none.
///
/// # Errors
/// `CommandNotSupportedOnView` (166); those of the documents, with the old collection as it was.
pub(super) fn replace(collections: &Collections, namespace: &Namespace, rows: Rows) -> Result<()> {
    let catalog = &collections.parts.catalog;
    let (options, indexes) = match catalog.find(namespace) {
        Some(Entry::View(_)) => return Err(on_view(namespace)),
        Some(Entry::Damaged(damage)) => return Err(damage.error()),
        Some(Entry::Collection(state)) => {
            let schema = state.schema();
            schema.check_indexes()?;
            if state.capped.is_some() {
                let what = format!("namespace '{namespace}' is capped so it can't be used for $out");
                return Err(Error::new(ErrorCode::new(17152), what));
            }
            let indexes = schema.indexes.iter().map(|index| index.spec.clone()).collect();
            (schema.options.clone(), indexes)
        }
        None => (CollectionOptions::default(), Vec::new()),
    };
    let (temporary, state) = catalog.create_temporary(namespace.database(), options)?;
    let collection = collections.parts.collection(state);
    let done =
        fill(collections, &collection, &indexes, rows).and_then(|()| catalog.rename(&temporary, namespace, true));
    if done.is_err() {
        interrupt::shielded(|| catalog.drop_namespace(&temporary))?;
    }
    done
}

/// `CommandNotSupportedOnView` (166).
pub(super) fn on_view(namespace: &Namespace) -> Error {
    let what = format!("Namespace {namespace} is a view, not a collection");
    Error::new(ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW, what)
}

fn fill(collections: &Collections, collection: &Collection, indexes: &[IndexSpec], rows: Rows) -> Result<()> {
    let catalog = &collections.parts.catalog;
    let added = catalog.add_indexes(collection.state(), indexes)?;
    catalog.finish_indexes(collection.state(), &added.indexes)?;
    let (mut part, mut bytes): (Vec<DocumentBuf>, usize) = (Vec::new(), 0);
    for row in rows {
        let row = row?;
        bytes += row.as_bytes().len();
        part.push(row);
        if part.len() == DOCUMENTS_MAX || bytes >= BYTES_MAX {
            insert(collections, collection, &part)?;
            part.clear();
            bytes = 0;
        }
    }
    insert(collections, collection, &part)
}

fn insert(collections: &Collections, collection: &Collection, documents: &[DocumentBuf]) -> Result<()> {
    let views: Vec<Document<'_>> = documents.iter().map(DocumentBuf::view).collect();
    let inserted = collection.insert_many(views, true, collections.write)?;
    inserted.errors.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}
