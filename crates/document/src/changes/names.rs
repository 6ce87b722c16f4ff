//! The collections of tables, as of a commit.

use std::sync::Arc;

use spinney::TableId;

use super::event::{Named, split};
use crate::base::Result;
use crate::bson::{Document, DocumentBuf, Timestamp};
use crate::catalog::tables::collection_number;
use crate::catalog::{Catalog, CollectionState, Entry, Namespace};

/// What a collection was called at a time.
pub(super) fn find_name(catalog: &Catalog, name: Option<&str>, table: TableId, time: Timestamp) -> Option<Named> {
    let of = |namespace: &str, number, uuid, state| {
        let (database, collection) = split(namespace);
        Some(Named { number, database: database.to_owned(), collection: collection?.to_owned(), uuid, state })
    };
    if let Some(past) = catalog.recorder().past(table, time) {
        let state = state_of(catalog, past.number).map(|(_, state)| state);
        return of(&past.namespace, past.number, past.uuid, state);
    }
    let number = collection_number(name?)?;
    let (namespace, state) = state_of(catalog, number).or_else(|| {
        // The commit that creates it may not have told its name yet.
        catalog.wait_for_arrivals();
        state_of(catalog, number)
    })?;
    let uuid = state.schema().uuid;
    of(namespace.as_str(), number, uuid, Some(state))
}

/// The collection with a number, if it is still there.
fn state_of(catalog: &Catalog, number: u64) -> Option<(Namespace, Arc<CollectionState>)> {
    catalog.list(None).into_iter().find_map(|(namespace, entry)| match entry {
        Entry::Collection(state) if state.number == number => Some((namespace, state)),
        _ => None,
    })
}

/// The document of a key as it is now.
pub(super) fn look_up(catalog: &Catalog, named: &Named, key: &[u8]) -> Result<Option<DocumentBuf>> {
    let found = match &named.state {
        Some(state) if !state.schema().dropped => state.table.get(key),
        _ => return Ok(None),
    };
    match found {
        Ok(found) => Ok(found.as_deref().and_then(Document::from_checked_bytes).map(DocumentBuf::from)),
        // Dropped since.
        Err(_) if state_of(catalog, named.number).is_none() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
