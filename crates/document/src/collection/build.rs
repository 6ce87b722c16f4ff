//! Building an index over documents that are there already, while writers go on.
//!
//! Writers maintain the index from the moment at which the catalog has it.
//!
//! The entries of the documents of that moment are sorted and loaded below what writers do to the index, unless it is
//! unique: then keys must be compared with those that writers put. So the build of a unique index walks over the
//! collection in the order of `_id`, a transaction for some documents at a time, and puts the entries that are not
//! there yet. A writer that changes one of these documents meanwhile writes the same entries, so that one of the two
//! fails with a conflict and begins again with a newer snapshot. A member of a replica set builds all indexes so, by
//! commits that the other members get.

use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;
use spinney::{BulkLoad, Snapshot};

use super::duplicate::duplicate_key;
use super::entry_sorter::EntrySorter;
use super::write::find;
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::Document;
use crate::catalog::index_entry::{EncodedId, IndexEntry};
use crate::catalog::{Catalog, CollectionState, Index, Schema};
use crate::keys::KeySet;

/// The most documents of one transaction of a build.
const DOCUMENTS_MAX: usize = 1000;

/// The most bytes of documents of one transaction of a build.
const BYTES_MAX: usize = 4 << 20;

/// The bytes of entries that the build of indexes keeps in memory.
const SORTED_BYTES_MAX: usize = 128 << 20;

/// Builds indexes that the catalog has as not ready, and has had since `snapshot`.
///
/// # Errors
/// `DuplicateKey` (11000) for a unique index, those of the keys (171, 16766, 16746, 17280), those of the engine. The
/// indexes are then of no use and are to be dropped.
pub fn build(
    catalog: &Catalog,
    collection: &CollectionState,
    indexes: &[Arc<Index>],
    snapshot: &Snapshot,
) -> Result<()> {
    let (mut loaded, mut put) = (Vec::new(), Vec::new());
    for index in indexes {
        // What is loaded is in no commit, so that other members of a replica set would not get it.
        if index.spec.unique || catalog.committer().is_some() {
            put.push(Arc::clone(index));
            continue;
        }
        match index.table.bulk_load_below(snapshot) {
            Ok(load) => loaded.push(Loaded::new(catalog, index, load)),
            // Writers were so many that the index was flushed in the meantime.
            Err(error) if error.kind() == spinney::ErrorKind::Invalid => put.push(Arc::clone(index)),
            Err(error) => return Err(error.into()),
        }
    }
    if !loaded.is_empty() {
        load(catalog, collection, loaded, snapshot)?;
    }
    if put.is_empty() { Ok(()) } else { build_by_parts(catalog, collection, &put) }
}

/// An index that is loaded.
struct Loaded<'i> {
    index: &'i Arc<Index>,
    load: BulkLoad<'i>,
    entries: EntrySorter,
    multikey: SmallVec<[u64; 4]>,
}

impl<'i> Loaded<'i> {
    fn new(catalog: &Catalog, index: &'i Arc<Index>, load: BulkLoad<'i>) -> Self {
        let entries = EntrySorter::new(catalog.engine().clone(), SORTED_BYTES_MAX);
        Self { index, load, entries, multikey: SmallVec::new() }
    }
}

/// Loads the entries of the documents of a snapshot, by one walk over the collection.
fn load(
    catalog: &Catalog,
    collection: &CollectionState,
    mut indexes: Vec<Loaded<'_>>,
    snapshot: &Snapshot,
) -> Result<()> {
    let count = indexes.len();
    indexes.iter_mut().for_each(|loaded| loaded.entries.share(count));
    let (mut keys, mut entry, mut encoded) = (KeySet::new(), IndexEntry::default(), EncodedId::default());
    let mut documents = snapshot.range(&collection.table, ..);
    while let Some((id, document)) = documents.advance()? {
        let view = Document::from_checked_bytes(document).ok_or_else(|| no_bson(collection))?;
        encode(&mut encoded, collection, id, view);
        for loaded in &mut indexes {
            find(loaded.index, Some(view), &mut keys)?;
            for key in keys.iter() {
                entry.set(loaded.index, key, &encoded)?;
                loaded.entries.push(entry.key(), entry.value())?;
            }
            loaded.multikey.resize(loaded.multikey.len().max(keys.multikey().len()), 0);
            loaded.multikey.iter_mut().zip(keys.multikey()).for_each(|(all, found)| *all |= found);
        }
    }
    drop(documents);
    for loaded in indexes {
        // Before the entries are seen.
        store_multikey(catalog, collection, loaded.index, &loaded.multikey)?;
        let mut load = loaded.load;
        loaded.entries.finish(|key, value| Ok(load.push(key, value)?))?;
        load.finish()?;
    }
    Ok(())
}

/// Refuses to go on with a build of indexes that were dropped, by themselves or with their collection. Their tables are
/// gone, or will be.
fn check_there(schema: &Schema, indexes: &[Arc<Index>]) -> Result<()> {
    if schema.dropped {
        let what = format!("collection {} was dropped while an index was built", schema.namespace);
        return Err(Error::new(ErrorCode::NAMESPACE_NOT_FOUND, what));
    }
    let is_there = |index: &Arc<Index>| schema.indexes.iter().any(|known| known.number == index.number);
    if indexes.iter().all(is_there) {
        return Ok(());
    }
    let what = format!("an index of {} was dropped while it was built", schema.namespace);
    Err(Error::new(ErrorCode::INDEX_NOT_FOUND, what))
}

/// Notes the paths of an index that were arrays.
fn store_multikey(catalog: &Catalog, collection: &CollectionState, index: &Arc<Index>, found: &[u64]) -> Result<()> {
    while index.see_multikey(found) {
        let held = collection.hold()?;
        check_there(held.schema(), std::slice::from_ref(index))?;
        let mut txn = catalog.begin();
        let row = (collection.number, &**held.schema());
        let stored = catalog.add_multikey(&mut txn, row, index, found).and_then(|()| Ok(txn.commit()?));
        match stored {
            Ok(()) => index.stored_multikey(found),
            Err(error) if error.is_conflict() => interrupt::check()?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn no_bson(collection: &CollectionState) -> Error {
    let what = format!("{}: a document is no BSON", collection.schema().namespace);
    Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, what)
}

/// Encodes the `_id` of a document that is stored under a key.
fn encode(encoded: &mut EncodedId, collection: &CollectionState, key: &[u8], document: Document<'_>) {
    match collection.capped {
        None => document.first().into_iter().for_each(|first| encoded.set(&first.value, collection.collation())),
        Some(_) => encoded.set_record(key),
    }
}

/// Builds indexes by transactions that each put a part of the entries.
fn build_by_parts(catalog: &Catalog, collection: &CollectionState, indexes: &[Arc<Index>]) -> Result<()> {
    let mut last: Option<Vec<u8>> = None;
    loop {
        match build_part(catalog, collection, indexes, last.as_deref()) {
            Ok(Some(id)) => last = Some(id),
            Ok(None) => return Ok(()),
            Err(error) if error.is_conflict() => interrupt::check()?,
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
    let held = collection.hold()?;
    let (mut txn, schema) = (catalog.begin(), held.schema());
    check_there(schema, indexes)?;
    let (mut keys, mut entry, mut encoded) = (KeySet::new(), IndexEntry::default(), EncodedId::default());
    let (mut count, mut bytes, mut last) = (0, 0, None);
    let mut lacking: Vec<(&Arc<Index>, SmallVec<[u64; 4]>)> = Vec::new();
    let start = behind.map_or(Bound::Unbounded, Bound::Excluded);
    let mut documents = txn.range(&collection.table, (start, Bound::<&[u8]>::Unbounded));
    while let Some((id, document)) = documents.advance()? {
        (count, bytes) = (count + 1, bytes + document.len());
        let view = Document::from_checked_bytes(document).ok_or_else(|| no_bson(collection))?;
        encode(&mut encoded, collection, id, view);
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
        catalog.add_multikey(&mut txn, (collection.number, schema), index, found)?;
    }
    // The guard of the collection stays with this thread.
    catalog.commit_transaction(txn, None, None)?;
    lacking.iter().for_each(|(index, found)| index.stored_multikey(found));
    Ok(last)
}
