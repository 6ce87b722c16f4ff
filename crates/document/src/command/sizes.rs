//! How much collections and indexes hold, as the engine estimates it.

use std::ops::Bound;

use spinney::{Snapshot, Table};

use crate::base::Result;
use crate::catalog::{CollectionState, Entry};
use crate::database::Database;

/// The size of a collection.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectionSizes {
    /// About how many documents it has.
    pub(super) documents: u64,
    /// About how many bytes they take, on disk and in memory.
    pub(super) bytes: u64,
    /// The bytes of each index but that of `_id`, which is the collection itself.
    pub(super) indexes: Vec<(String, u64)>,
}

/// The size of a database.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DatabaseSizes {
    /// How many collections there are.
    pub(super) collections: u64,
    /// How many views there are.
    pub(super) views: u64,
    /// About how many documents there are.
    pub(super) documents: u64,
    /// About how many bytes they take.
    pub(super) bytes: u64,
    /// How many indexes there are, those of `_id` included.
    pub(super) indexes: u64,
    /// About how many bytes they take.
    pub(super) index_bytes: u64,
}

impl DatabaseSizes {
    /// The bytes of documents and indexes.
    pub(super) const fn on_disk(self) -> u64 {
        self.bytes + self.index_bytes
    }
}

impl CollectionSizes {
    /// The bytes of all indexes.
    pub(super) fn index_bytes(&self) -> u64 {
        self.indexes.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The size of a collection.
pub(super) fn sizes_of_collection(database: &Database, state: &CollectionState) -> Result<CollectionSizes> {
    let snapshot = database.engine().snapshot();
    let documents = estimate(&snapshot, &state.table)?;
    let mut sizes = CollectionSizes { documents: documents.entries, bytes: documents.bytes, indexes: Vec::new() };
    for index in &state.schema().indexes {
        sizes.indexes.push((index.spec.name.clone(), estimate(&snapshot, &index.table)?.bytes));
    }
    Ok(sizes)
}

/// The size of a database.
pub(super) fn sizes_of_database(database: &Database, name: &str) -> Result<DatabaseSizes> {
    let mut sizes = DatabaseSizes::default();
    for (_, entry) in database.catalog().list(Some(name)) {
        let Entry::Collection(state) = entry else {
            sizes.views += 1;
            continue;
        };
        // A collection that was dropped meanwhile has no size.
        let Ok(collection) = sizes_of_collection(database, &state) else { continue };
        sizes.collections += 1;
        sizes.documents += collection.documents;
        sizes.bytes += collection.bytes;
        sizes.indexes += 1 + crate::base::num::u64_of(collection.indexes.len());
        sizes.index_bytes += collection.index_bytes();
    }
    Ok(sizes)
}

fn estimate(snapshot: &Snapshot, table: &Table) -> Result<spinney::Estimate> {
    Ok(snapshot.estimate(table, &(Bound::<Vec<u8>>::Unbounded, Bound::<Vec<u8>>::Unbounded))?)
}
