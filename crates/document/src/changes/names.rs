//! The collections of tables, as of a commit.

use spinney::TableId;

use super::event::{Named, split};
use crate::base::Result;
use crate::bson::{Document, DocumentBuf, Timestamp};
use crate::catalog::Catalog;
use crate::catalog::tables::collection_number;

/// What a collection was called at a time; nothing when the table is of none.
///
/// # Errors
/// `Interrupted` (11601) and the like, when the thread's operation is to end.
pub(super) fn find_name(
    catalog: &Catalog,
    name: Option<&str>,
    table: TableId,
    time: Timestamp,
) -> Result<Option<Named>> {
    let of = |namespace: &str, number, uuid, state| {
        let (database, collection) = split(namespace);
        Some(Named { number, database: database.to_owned(), collection: collection?.to_owned(), uuid, state })
    };
    if let Some(past) = catalog.recorder().past(table, time) {
        return Ok(of(&past.namespace, past.number, past.uuid, catalog.by_number(past.number)));
    }
    let Some(number) = name.and_then(collection_number) else { return Ok(None) };
    let mut state = catalog.by_number(number);
    if state.is_none() {
        // The commit that creates it may not have told its name yet.
        catalog.wait_for_arrivals()?;
        state = catalog.by_number(number);
    }
    let Some(state) = state else { return Ok(None) };
    let schema = state.schema();
    Ok(of(schema.namespace.as_str(), number, schema.uuid, Some(state)))
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
        Err(_) if catalog.by_number(named.number).is_none() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
