//! The handle of a table, as other handles use it; `table.rs` has what users call.

use std::sync::Arc;

use arc_swap::Guard;

use crate::base::debug::debug_by;
use crate::base::{Error, Result};
use crate::db::open::core::Core;
use crate::db::state::table::TableState;
use crate::table::Version;

use super::handle::DatabaseHandle;

/// What a read needs of a table.
pub(crate) type Reader<'a> = (&'a Arc<TableState>, Guard<Arc<Version>>);

/// A table of an open database. Cheap to clone; keeps the database open.
#[derive(Clone)]
pub struct Table(Arc<Handle>);

/// One for all clones of a handle.
struct Handle {
    db: DatabaseHandle,
    state: Arc<TableState>,
}

impl Table {
    pub(crate) fn new(db: DatabaseHandle, state: Arc<TableState>) -> Self {
        Self(Arc::new(Handle { db, state }))
    }

    /// The table's state, if it belongs to this database and was not dropped.
    #[inline]
    pub(crate) fn state_in(&self, core: &Arc<Core>) -> Result<&Arc<TableState>> {
        if !Arc::ptr_eq(self.0.db.core(), core) {
            return Err(self.is_of_another());
        }
        self.0.state.check()?;
        Ok(&self.0.state)
    }

    #[cold]
    fn is_of_another(&self) -> Error {
        Error::invalid(format!("table '{}' belongs to another open database", self.0.state.name))
    }

    /// The table's state and what a reader sees of it, if it belongs to this database, which is open, and was not
    /// dropped.
    #[inline]
    pub(crate) fn reader_in(&self, core: &Arc<Core>) -> Result<Reader<'_>> {
        let version = self.0.state.version.load();
        // In this order: a table that is dropped meanwhile, or whose database is closed, is empty only after it says
        // so.
        core.state.health.check_open()?;
        Ok((self.state_in(core)?, version))
    }

    pub(crate) fn db(&self) -> &DatabaseHandle {
        &self.0.db
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.0.db.core()
    }

    pub(crate) fn state(&self) -> &Arc<TableState> {
        &self.0.state
    }

    pub(crate) fn open_state(&self) -> Result<&Arc<TableState>> {
        self.0.db.core().state.health.check_open()?;
        self.0.state.check()?;
        Ok(&self.0.state)
    }
}

debug_by!(Table, self => name: self.0.state.name, layout: self.0.state.options.layout);
