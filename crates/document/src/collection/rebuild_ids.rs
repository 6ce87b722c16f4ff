//! Building the index of `_id` of a capped collection again, of which its documents are not the order.

use spinney::Transaction;

use super::write::find;
use crate::base::Result;
use crate::bson::{Document, DocumentBuf};
use crate::catalog::index_entry::{EncodedId, EntryParts, IndexEntry};
use crate::catalog::{Catalog, CollectionState, Index};
use crate::keys::{Direction, KeySet};

/// The most documents of one transaction.
const DOCUMENTS_MAX: usize = 1000;

/// Builds the index of `_id` of a capped collection again, while writers wait. Of two documents with one `_id`, of
/// which the older one was removed and came back with a salvage, the newer one stays; returns the others.
///
/// # Errors
/// `LockTimeout` (24) while a transaction writes to the collection; those of the keys and of the engine.
pub fn rebuild_ids(catalog: &Catalog, collection: &CollectionState) -> Result<Vec<DocumentBuf>> {
    let Some(capped) = &collection.capped else { return Ok(Vec::new()) };
    let mut holdings = capped.lock()?;
    let removed = catalog.replace_id_index(collection, |index| fill(catalog, collection, index))?.unwrap_or_default();
    // What was counted before may have been wrong.
    *holdings = None;
    let gone = i64::try_from(removed.len()).unwrap_or(i64::MAX);
    collection.documents.add(-gone);
    collection.documents.change();
    Ok(removed)
}

fn fill(catalog: &Catalog, collection: &CollectionState, index: &Index) -> Result<Vec<DocumentBuf>> {
    let engine = catalog.engine();
    let snapshot = engine.snapshot();
    let (mut txn, mut count, mut removed) = (engine.begin(), 0, Vec::new());
    let (mut keys, mut entry, mut id) = (KeySet::new(), IndexEntry::default(), EncodedId::default());
    let mut documents = snapshot.range(&collection.table, ..);
    while let Some((record, document)) = documents.advance()? {
        let Some(document) = Document::from_checked_bytes(document) else { continue };
        id.set_record(record);
        find(index, Some(document), &mut keys)?;
        for key in keys.iter() {
            entry.set(index, key, &id)?;
            removed.extend(remove_older(&mut txn, collection, index, &entry)?);
            txn.put(&index.table, entry.key(), entry.value())?;
        }
        count += 1;
        if count % DOCUMENTS_MAX == 0 {
            std::mem::replace(&mut txn, engine.begin()).commit()?;
            // It sees what the one before has written.
            txn = engine.begin();
        }
    }
    txn.commit()?;
    Ok(removed)
}

/// Removes the document that the index has under the key of an entry, and returns it.
fn remove_older(
    txn: &mut Transaction,
    collection: &CollectionState,
    index: &Index,
    entry: &IndexEntry,
) -> Result<Option<DocumentBuf>> {
    let Some(there) = txn.get(&index.table, entry.key())? else { return Ok(None) };
    let directions = [Direction::Ascending];
    let Some(older) = EntryParts::of(&directions, index.spec.unique, entry.key(), &there) else { return Ok(None) };
    let document = txn.get(&collection.table, older.id)?;
    txn.delete(&collection.table, older.id)?;
    Ok(document.and_then(|bytes| Document::from_checked_bytes(&bytes).map(DocumentBuf::from)))
}
