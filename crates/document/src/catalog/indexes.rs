//! The indexes of collections in the catalog: how they are added, marked as built, and dropped.
//!
//! # Concurrency
//! As in the file `registry.rs`: each change holds the lock of all changes, and then that of the collection's schema.

use std::sync::Arc;

use spinney::{Snapshot, Transaction};

use super::index_spec::IndexSpec;
use super::own::refuse_own;
use super::record::event;
use super::registry::{Catalog, not_found};
use super::row;
use super::same_index::is_there;
use super::state::{CollectionState, Index, Schema};
use super::tables::index_table;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Document;

/// The most indexes of a collection, with that of `_id`.
const INDEXES_MAX: usize = 64;

/// Refuses one more index of a collection that has the most. One that takes the place of another is no more.
///
/// # Errors
/// `CannotCreateIndex` (67).
pub(super) fn check_index_count(schema: &Schema) -> Result<()> {
    if schema.index_count() < INDEXES_MAX {
        return Ok(());
    }
    let what = format!("add index fails, too many indexes for {}", schema.namespace);
    Err(Error::new(ErrorCode::CANNOT_CREATE_INDEX, what))
}

impl Catalog {
    /// Adds indexes that are still to be built, and returns them, with a snapshot of what there was just before: all
    /// that is written later is written to them too. Those that are there already are left out.
    ///
    /// # Errors
    /// `IndexOptionsConflict` (85) and `IndexKeySpecsConflict` (86) for an index that differs from one that is there;
    /// `CannotCreateIndex` (67) beyond 64 indexes with that of `_id`; those of [`CollectionState::change`] and of the
    /// engine.
    pub fn add_indexes(&self, state: &CollectionState, specs: &[IndexSpec]) -> Result<(Vec<Arc<Index>>, Snapshot)> {
        refuse_own(state, "an index")?;
        let mut next = self.changing.lock();
        state.change(self.change_wait(), |schema| {
            let snapshot = self.engine().snapshot();
            if schema.dropped {
                return Err(not_found(&format!("collection {} was dropped", schema.namespace)));
            }
            let (mut changed, mut added) = (schema.clone(), Vec::new());
            for spec in specs {
                if !is_there(&changed, spec)? {
                    check_index_count(&changed)?;
                    added.push(self.add_index(state, &mut changed, &mut next, spec, false)?);
                }
            }
            if !added.is_empty() {
                self.put_row(state.number, &changed, None)?;
            }
            Ok((changed, (added, snapshot)))
        })
    }

    /// Adds an index that is still to be built, although there may be one like it, whose place it is to take; and a
    /// snapshot, as [`Self::add_indexes`] does.
    ///
    /// # Errors
    /// As [`Self::add_indexes`].
    pub fn add_again(&self, state: &CollectionState, spec: &IndexSpec) -> Result<(Arc<Index>, Snapshot)> {
        refuse_own(state, "an index")?;
        let mut next = self.changing.lock();
        state.change(self.change_wait(), |schema| {
            let snapshot = self.engine().snapshot();
            if schema.dropped {
                return Err(not_found(&format!("collection {} was dropped", schema.namespace)));
            }
            let mut changed = schema.clone();
            let added = self.add_index(state, &mut changed, &mut next, spec, false)?;
            self.put_row(state.number, &changed, None)?;
            Ok((changed, (added, snapshot)))
        })
    }

    /// Puts a new index of `_id` in the place of that of a capped collection: `fill` puts its entries, while no
    /// transaction writes to the collection.
    ///
    /// # Errors
    /// What `fill` says; those of [`CollectionState::change`] and of the engine.
    pub fn replace_id_index<T>(
        &self,
        state: &CollectionState,
        fill: impl FnOnce(&Index) -> Result<T>,
    ) -> Result<Option<T>> {
        refuse_own(state, "a repair")?;
        let mut next = self.changing.lock();
        let replaced = state.change(self.change_wait(), |schema| {
            let Some(at) = schema.indexes.iter().position(|index| index.spec.is_id()) else {
                return Ok((schema.clone(), None));
            };
            let (mut changed, old) = (schema.clone(), Arc::clone(&schema.indexes[at]));
            let new = self.add_index(state, &mut changed, &mut next, &old.spec, true)?;
            let filled = fill(&new).inspect_err(|_| drop(self.drop_table(&index_table(new.number))))?;
            changed.indexes.pop();
            changed.indexes[at] = new;
            self.put_row(state.number, &changed, None)?;
            Ok((changed, Some((old.number, filled))))
        })?;
        let Some((old, filled)) = replaced else { return Ok(None) };
        self.drop_table(&index_table(old))?;
        Ok(Some(filled))
    }

    /// Adds an index to a schema, with a table of its own; `ready` when there is nothing to build.
    pub(super) fn add_index(
        &self,
        state: &CollectionState,
        changed: &mut Schema,
        next: &mut u64,
        spec: &IndexSpec,
        ready: bool,
    ) -> Result<Arc<Index>> {
        let number = self.take_number(next)?;
        let table = self.create_table(&index_table(number), spec.storage)?;
        let index = Arc::new(Index::new(number, table, spec.clone(), state.capped.is_none(), ready, &[]));
        changed.indexes.push(Arc::clone(&index));
        Ok(index)
    }

    /// Marks indexes that were built to their end.
    ///
    /// # Errors
    /// Those of [`CollectionState::change`] and of the engine.
    pub fn finish_indexes(&self, state: &CollectionState, built: &[Arc<Index>]) -> Result<()> {
        let _changing = self.changing.lock();
        state.change(self.change_wait(), |schema| {
            let mut changed = schema.clone();
            let now = self.engine().snapshot().seqnum();
            for index in &mut changed.indexes {
                if built.iter().any(|built| built.number == index.number) {
                    *index = Arc::new(index.to_ready(now));
                }
            }
            let mut told = event("createIndexes", schema.namespace.as_str(), schema.uuid);
            told.open_document("operationDescription").open_array("indexes");
            built.iter().for_each(|index| {
                told.push(index.spec.document());
            });
            told.close().close();
            self.put_row(state.number, &changed, Some(told.finish()))?;
            Ok((changed, ()))
        })
    }

    /// Drops indexes by their numbers.
    ///
    /// # Errors
    /// Those of [`CollectionState::change`] and of the engine.
    pub fn drop_indexes(&self, state: &CollectionState, numbers: &[u64]) -> Result<()> {
        let _changing = self.changing.lock();
        let dropped = state.change(self.change_wait(), |schema| {
            let mut changed = schema.clone();
            changed.indexes.retain(|index| !numbers.contains(&index.number));
            if !changed.dropped {
                let gone = schema.indexes.iter().filter(|index| numbers.contains(&index.number));
                let mut told = event("dropIndexes", schema.namespace.as_str(), schema.uuid);
                told.open_document("operationDescription").open_array("indexes");
                let mut were_ready = false;
                gone.for_each(|index| {
                    were_ready |= index.ready;
                    told.push(index.spec.document());
                });
                told.close().close();
                let told = were_ready.then(|| told.finish());
                self.put_row_by(state.number, &changed, told, |txn| _ = txn.makes_room())?;
            }
            Ok((changed, !schema.dropped))
        })?;
        for number in numbers.iter().filter(|_| dropped) {
            self.drop_table(&index_table(*number))?;
        }
        Ok(())
    }

    /// Adds, within a transaction, paths that were arrays to the row of an index.
    ///
    /// # Errors
    /// `WriteConflict` (112) when the collection was renamed after the transaction began; those of the engine.
    pub fn add_multikey(&self, txn: &mut Transaction, schema: &Schema, index: &Index, found: &[u64]) -> Result<()> {
        let name = schema.namespace.as_str();
        // A transaction that began before the collection had its name sees no row of it.
        let row = txn
            .get(&self.table, name)?
            .ok_or_else(|| Error::new(ErrorCode::WRITE_CONFLICT, format!("collection {name} was renamed meanwhile")))?;
        let row = Document::from_checked_bytes(&row).ok_or_else(|| row::corrupt(name, "row"))?;
        let row = row::with_multikey(name, row, index.number, found)?;
        txn.put(&self.table, name, row.as_bytes())?;
        Ok(())
    }
}
