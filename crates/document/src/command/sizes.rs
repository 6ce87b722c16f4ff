//! How much collections and indexes hold: counted where that is quick, estimated by the engine where it is not.

use std::ops::Bound;

use spinney::{Snapshot, Table};

use crate::base::Result;
use crate::base::num::u64_of;
use crate::catalog::{CollectionState, Entry, Schema};
use crate::database::Database;

/// Up to how many documents are counted; more of them are estimated.
const COUNTED_MAX: u64 = 20_000;

/// The size of a collection.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectionSizes {
    /// How many documents it has.
    pub(super) documents: u64,
    /// The bytes of the documents.
    pub(super) data_bytes: u64,
    /// About how many bytes they take, on disk and in memory.
    pub(super) bytes: u64,
    /// About how many bytes each index takes; that of `_id` is the collection itself, unless that is capped.
    pub(super) indexes: Vec<(String, u64)>,
}

/// The size of a database.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DatabaseSizes {
    /// How many collections there are.
    pub(super) collections: u64,
    /// How many views there are.
    pub(super) views: u64,
    /// How many documents there are.
    pub(super) documents: u64,
    /// The bytes of the documents.
    pub(super) data_bytes: u64,
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
pub(super) fn sizes_of_collection(
    schema: &Schema,
    database: &Database,
    state: &CollectionState,
) -> Result<CollectionSizes> {
    let snapshot = database.engine().snapshot();
    let estimated = estimate(&snapshot, &state.table)?;
    let mut sizes = CollectionSizes {
        documents: state.count(database.engine())?,
        data_bytes: estimated.bytes,
        bytes: estimated.bytes,
        indexes: Vec::new(),
    };
    if estimated.entries <= COUNTED_MAX {
        sizes.data_bytes = 0;
        let mut documents = snapshot.range(&state.table, ..);
        while let Some((_, document)) = documents.advance()? {
            sizes.data_bytes += u64_of(document.len());
        }
        sizes.bytes = sizes.bytes.max(sizes.documents);
    }
    for index in &schema.indexes {
        sizes.indexes.push((index.spec.name.clone(), estimate(&snapshot, &index.table)?.bytes));
    }
    Ok(sizes)
}

/// The size of a database.
pub(super) fn sizes_of_database(database: &Database, name: &str) -> Result<DatabaseSizes> {
    let mut sizes = DatabaseSizes::default();
    for (_, entry) in database.catalog().list(Some(name)) {
        let state = match entry {
            Entry::Collection(state) => state,
            Entry::View(_) => {
                sizes.views += 1;
                continue;
            }
            Entry::Damaged(_) => continue,
        };
        let schema = state.schema();
        // Its tables are gone.
        if schema.dropped {
            continue;
        }
        let collection = sizes_of_collection(&schema, database, &state)?;
        sizes.collections += 1;
        sizes.documents += collection.documents;
        sizes.data_bytes += collection.data_bytes;
        sizes.bytes += collection.bytes;
        sizes.indexes += u64_of(schema.index_count());
        sizes.index_bytes += collection.index_bytes();
    }
    Ok(sizes)
}

fn estimate(snapshot: &Snapshot, table: &Table) -> Result<spinney::Estimate> {
    Ok(snapshot.estimate(table, &(Bound::<Vec<u8>>::Unbounded, Bound::<Vec<u8>>::Unbounded))?)
}
