//! Building an index over documents that are there already, while writers go on.
//!
//! Writers maintain the index from the moment at which the catalog has it. The build walks over the collection in the
//! order of `_id`, a transaction for some documents at a time, and puts the entries that are not there yet. A writer
//! that changes one of these documents meanwhile writes the same entries, so that one of the two fails with a conflict
//! and begins again with a newer snapshot.

use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

use super::duplicate::duplicate_key;
use super::write::find;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Document;
use crate::catalog::index_entry::{EncodedId, IndexEntry};
use crate::catalog::{Catalog, CollectionState, Index};
use crate::keys::KeySet;

/// The most documents of one transaction of a build.
const DOCUMENTS_MAX: usize = 1000;

/// The most bytes of documents of one transaction of a build.
const BYTES_MAX: usize = 4 << 20;

/// Builds indexes that the catalog has as not ready, by one walk over the collection.
///
/// # Errors
/// `DuplicateKey` (11000) for a unique index, those of the keys (171, 16766, 16746, 17280), those of the engine. The
/// indexes are then of no use and are to be dropped.
pub fn build(catalog: &Catalog, collection: &CollectionState, indexes: &[Arc<Index>]) -> Result<()> {
    let mut last: Option<Vec<u8>> = None;
    loop {
        match build_part(catalog, collection, indexes, last.as_deref()) {
            Ok(Some(id)) => last = Some(id),
            Ok(None) => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Adds the entries of the documents behind one `_id`; the last `_id` that was reached, or nothing at the end.
fn build_part(
    catalog: &Catalog,
    collection: &CollectionState,
    indexes: &[Arc<Index>],
    behind: Option<&[u8]>,
) -> Result<Option<Vec<u8>>> {
    // The collection keeps its name, and is not dropped, until this part is committed.
    let held = collection.hold();
    let (mut txn, schema) = (catalog.engine().begin(), held.schema());
    if catalog.committer().is_some() {
        let is_there = |index: &Arc<Index>| schema.indexes.iter().any(|known| known.number == index.number);
        if !indexes.iter().all(is_there) {
            let what = format!("an index of {} was dropped while it was built", schema.namespace);
            return Err(Error::new(ErrorCode::INDEX_NOT_FOUND, what));
        }
    }
    let (mut keys, mut entry, mut encoded) = (KeySet::new(), IndexEntry::default(), EncodedId::default());
    let (mut count, mut bytes, mut last) = (0, 0, None);
    let mut lacking: Vec<(&Arc<Index>, SmallVec<[u64; 4]>)> = Vec::new();
    let start = behind.map_or(Bound::Unbounded, Bound::Excluded);
    let mut documents = txn.range(&collection.table, (start, Bound::<&[u8]>::Unbounded));
    while let Some((id, document)) = documents.advance()? {
        (count, bytes) = (count + 1, bytes + document.len());
        let view = Document::from_checked_bytes(document).ok_or_else(|| {
            Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, format!("{}: a document is no BSON", schema.namespace))
        })?;
        match collection.capped {
            None => view.first().into_iter().for_each(|first| encoded.set(&first.value, collection.collation())),
            Some(_) => encoded.set_record(id),
        }
        for index in indexes {
            find(index, Some(view), &mut keys)?;
            for key in keys.iter() {
                entry.set(index, key, &encoded)?;
                match txn.get(&index.table, entry.key())? {
                    None => txn.put(&index.table, entry.key(), entry.value())?,
                    Some(there) if index.spec.unique && !there.starts_with(id) => {
                        return Err(duplicate_key(schema, index, key));
                    }
                    Some(_) => {}
                }
            }
            if index.see_multikey(keys.multikey()) {
                lacking.push((index, keys.multikey().into()));
            }
        }
        if count == DOCUMENTS_MAX || bytes >= BYTES_MAX {
            last = Some(id.to_vec());
            break;
        }
    }
    drop(documents);
    for (index, found) in &lacking {
        catalog.add_multikey(&mut txn, schema, index, found)?;
    }
    // The guard of the collection stays with this thread.
    catalog.commit_transaction(txn, None, None)?;
    lacking.iter().for_each(|(index, found)| index.stored_multikey(found));
    Ok(last)
}
