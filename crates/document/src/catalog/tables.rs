//! The names and options of the engine's tables.

use spinney::{Layout, TableOptions};

use crate::aggregate::sorter::TABLE_PREFIX as SPILL_PREFIX;

/// The table of the catalog itself.
pub(super) const CATALOG: &str = "catalog";

/// The name of the engine's table of the catalog.
pub const CATALOG_TABLE: &str = CATALOG;

/// The table of the rows of the collections that a member of a replica set has for itself.
pub(super) const OWN_CATALOG: &str = "catalog-own";

/// Collections with this number and later ones are those that a member of a replica set has for itself, as are indexes.
pub(super) const FIRST_OWN: u64 = 1 << 62;

/// The name of the table of a collection's documents.
#[must_use]
pub fn collection_table(number: u64) -> String {
    match number.checked_sub(FIRST_OWN) {
        Some(number) => format!("oc-{number}"),
        None => format!("c-{number}"),
    }
}

/// The number of the collection whose documents a table of this name has.
#[must_use]
pub fn collection_number(table: &str) -> Option<u64> {
    table.strip_prefix("c-")?.parse().ok()
}

/// The name of the table of an index.
pub(super) fn index_table(number: u64) -> String {
    match number.checked_sub(FIRST_OWN) {
        Some(number) => format!("oi-{number}"),
        None => format!("i-{number}"),
    }
}

/// The number in a table's name, of a collection or an index.
pub(super) fn table_number(table: &str) -> Option<u64> {
    ["c-", "i-"].iter().find_map(|prefix| table.strip_prefix(prefix)?.parse().ok())
}

/// The options of the tables of collections and indexes.
pub(super) fn table_options(layout: Layout) -> TableOptions {
    TableOptions::default().layout(layout)
}

/// Whether a table of this name is a collection's or an index's.
pub(super) fn is_ours(name: &str) -> bool {
    ["c-", "i-"].iter().any(|prefix| is_numbered(name, prefix))
}

/// The number, less [`FIRST_OWN`], of a table of this name of a collection that a member of a replica set has for
/// itself.
pub(super) fn own_number(name: &str) -> Option<u64> {
    ["oc-", "oi-"].iter().find_map(|prefix| name.strip_prefix(prefix)?.parse().ok())
}

/// Whether a table of this name is one of what a pipeline did not keep in memory.
pub(super) fn is_spill(name: &str) -> bool {
    is_numbered(name, SPILL_PREFIX)
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u64>().is_ok())
}
