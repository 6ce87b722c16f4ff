//! Collections that a member of a replica set has for itself: the profiles of its databases. The set does not agree on
//! them, and no other member hears of them.
//!
//! # Format
//! The engine's table `catalog-own` has a row for each, as the table of the catalog has: see the file `row.rs`. Their
//! documents and the index of their `_id` are in tables `oc-<n>` and `oi-<n>`, where the number of the row is `n` and
//! 2^62. Their commits have no notes.
//!
//! # Recovery
//! As in the catalog: tables are created before the row that names them, and dropped after it is gone; at open, tables
//! that no row names are dropped. A member that begins with a copy of another one's database drops the table of the
//! rows first (`adopt` in the file `copy.rs`).
//!
//! # Concurrency
//! A lock of their own is held by each change. Within it nothing else is waited for than the engine, so that the thread
//! that applies commits may take it.

use spinney::{Durability, Layout, Table, TableOptions};

use super::namespace::Namespace;
use super::row;
use super::state::{CollectionState, Schema};
use super::tables::{FIRST_OWN, OWN_CATALOG};
use crate::base::{Error, ErrorCode, Result};

/// The collection that each database and each member has for itself.
pub const PROFILE: &str = "system.profile";

/// Whether a collection is the profile of its database.
#[must_use]
pub fn is_profile(namespace: &Namespace) -> bool {
    namespace.collection() == PROFILE
}

/// Forgets the collections that another member had for itself, of whose database this is a copy. The database of
/// documents must not be open.
///
/// # Errors
/// Those of the engine.
pub(super) fn forget_own(engine: &spinney::Database) -> spinney::Result<()> {
    if engine.table(OWN_CATALOG)?.is_some() { engine.drop_table(OWN_CATALOG) } else { Ok(()) }
}

/// The collections that this member has for itself.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Nothing before the first is created.
    pub(super) rows: Option<Table>,
    /// How many numbers were given to tables.
    pub(super) numbers: u64,
}

/// Whether a member of a replica set has the collection with a number for itself.
#[must_use]
pub const fn is_own_number(number: u64) -> bool {
    number >= FIRST_OWN
}

impl Own {
    /// A number that no table has.
    pub(super) fn take_number(&mut self) -> u64 {
        self.numbers += 1;
        FIRST_OWN + self.numbers
    }

    /// The table of the rows, which is created when there is none.
    pub(super) fn rows(&mut self, engine: &spinney::Database) -> Result<&Table> {
        Ok(match &mut self.rows {
            Some(rows) => rows,
            none => {
                let options = TableOptions::default().layout(Layout::BTree);
                none.insert(engine.open_or_create_table(OWN_CATALOG, options)?)
            }
        })
    }

    pub(super) fn put_row(
        &mut self,
        engine: &spinney::Database,
        state: &CollectionState,
        schema: &Schema,
    ) -> Result<()> {
        let row = row::encode(state.number, schema);
        let mut txn = engine.begin();
        txn.put(self.rows(engine)?, schema.namespace.as_str(), row.as_bytes())?;
        Ok(txn.commit_with(Durability::Sync)?)
    }
}

/// Refuses what collections that a member has for itself are not part of.
pub(super) fn refuse_own(state: &CollectionState, what: &str) -> Result<()> {
    if !is_own_number(state.number) {
        return Ok(());
    }
    let what = format!("{what} is not possible for {}, which each member has for itself", state.schema().namespace);
    Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what))
}
