//! The indexes of collections in the catalog: how they are added, marked as built, and dropped.
//!
//! # Concurrency
//! As in the file `registry.rs`: each change holds the lock of all changes, and then that of the collection's schema.

use std::sync::Arc;

use spinney::Snapshot;

use super::index_spec::IndexSpec;
use super::own::refuse_own;
use super::record::event;
use super::registry::Catalog;
use super::same_index::is_there;
use super::state::{CollectionState, Index, IndexBuild, Schema};
use super::tables::index_table;
use crate::base::{Error, ErrorCode, Result, interrupt};

/// The most indexes of a collection, with that of `_id`.
const INDEXES_MAX: usize = 64;

/// Indexes that are still to be built.
#[derive(Debug)]
pub struct Added {
    /// The indexes.
    pub indexes: Vec<Arc<Index>>,
    /// What there was just before: all that is written later is written to the indexes too.
    pub snapshot: Snapshot,
    /// Held until they are ready, or dropped.
    pub builds: Vec<IndexBuild>,
}

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
    /// Adds indexes that are still to be built, and returns them. Those that are there already are left out: another
    /// thread may still build them.
    ///
    /// # Errors
    /// `IndexOptionsConflict` (85) and `IndexKeySpecsConflict` (86) for an index that differs from one that is there;
    /// `CannotCreateIndex` (67) beyond 64 indexes with that of `_id`; those of [`CollectionState::change`] and of the
    /// engine.
    pub fn add_indexes(&self, state: &CollectionState, specs: &[IndexSpec]) -> Result<Added> {
        refuse_own(state, "an index")?;
        self.change(state, |schema| {
            let snapshot = self.engine().snapshot();
            let (mut changed, mut indexes, mut builds) = (schema.clone(), Vec::new(), Vec::new());
            for spec in specs {
                if !is_there(&changed, spec)? {
                    check_index_count(&changed)?;
                    let index = self.add_index(state, &mut changed, spec, false)?;
                    builds.push(index.begin_build());
                    indexes.push(index);
                }
            }
            if !indexes.is_empty() {
                self.put_row(state.number, (schema, &changed), None)?;
            }
            Ok((changed, Added { indexes, snapshot, builds }))
        })
    }

    /// Adds an index that is still to be built, although there may be one like it, whose place it is to take.
    ///
    /// # Errors
    /// As [`Self::add_indexes`].
    pub fn add_again(&self, state: &CollectionState, spec: &IndexSpec) -> Result<Added> {
        refuse_own(state, "an index")?;
        self.change(state, |schema| {
            let snapshot = self.engine().snapshot();
            let mut changed = schema.clone();
            let index = self.add_index(state, &mut changed, spec, false)?;
            let builds = vec![index.begin_build()];
            self.put_row(state.number, (schema, &changed), None)?;
            Ok((changed, Added { indexes: vec![index], snapshot, builds }))
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
        let replaced = state.change(self.change_wait(), |schema| {
            let Some(at) = schema.indexes.iter().position(|index| index.spec.is_id()) else {
                return Ok((schema.clone(), None));
            };
            let (mut changed, old) = (schema.clone(), Arc::clone(&schema.indexes[at]));
            let new = {
                let _changing = self.begin_change()?;
                self.add_index(state, &mut changed, &old.spec, true)?
            };
            let give_up = || interrupt::shielded(|| self.drop_table(&index_table(new.number)));
            let filled = fill(&new).inspect_err(|_| drop(give_up()))?;
            changed.indexes.pop();
            changed.indexes[at] = new;
            let _changing = self.begin_change()?;
            self.put_row(state.number, (schema, &changed), None)?;
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
        spec: &IndexSpec,
        ready: bool,
    ) -> Result<Arc<Index>> {
        if changed.damaged(&spec.name).is_some() {
            changed.check_indexes()?;
        }
        let number = self.take_number()?;
        let table = self.create_table(&index_table(number), spec.storage)?;
        let index = Arc::new(Index::new(number, table, spec.clone(), state.capped.is_none(), ready, &[]));
        changed.indexes.push(Arc::clone(&index));
        Ok(index)
    }

    /// Marks indexes that were built to their end.
    ///
    /// # Errors
    /// `IndexNotFound` (27) when one was dropped meanwhile; those of [`CollectionState::change`] and of the engine.
    pub fn finish_indexes(&self, state: &CollectionState, built: &[Arc<Index>]) -> Result<()> {
        self.change(state, |schema| {
            let mut changed = schema.clone();
            if let Some(gone) =
                built.iter().find(|built| !schema.indexes.iter().any(|index| index.number == built.number))
            {
                let what = format!("index {} of {} was dropped while it was built", gone.spec.name, schema.namespace);
                return Err(Error::new(ErrorCode::INDEX_NOT_FOUND, what));
            }
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
            self.put_row(state.number, (schema, &changed), Some(told.finish()))?;
            Ok((changed, ()))
        })
    }

    /// Drops indexes by their numbers: those that are there. Those of a collection that was dropped are gone.
    ///
    /// # Errors
    /// Those of [`CollectionState::change`] and of the engine.
    pub fn drop_indexes(&self, state: &CollectionState, numbers: &[u64]) -> Result<()> {
        let dropped = self.change(state, |schema| {
            let mut changed = schema.clone();
            let is_gone = |number: u64| numbers.contains(&number);
            changed.indexes.retain(|index| !is_gone(index.number));
            changed.damaged.retain(|index| !is_gone(index.number));
            let there = schema.indexes.iter().map(|index| index.number);
            let there = there.chain(schema.damaged.iter().map(|index| index.number));
            let gone: Vec<u64> = there.filter(|number| is_gone(*number)).collect();
            if gone.is_empty() {
                return Ok((changed, gone));
            }
            let mut told = event("dropIndexes", schema.namespace.as_str(), schema.uuid);
            told.open_document("operationDescription").open_array("indexes");
            let mut were_ready = false;
            schema.indexes.iter().filter(|index| is_gone(index.number)).for_each(|index| {
                were_ready |= index.ready;
                told.push(index.spec.document());
            });
            told.close().close();
            let told = were_ready.then(|| told.finish());
            self.commit(told, |txn, _| self.change_row(txn.makes_room(), state.number, (schema, &changed)))?;
            Ok((changed, gone))
        });
        match dropped {
            Err(error) if error.code() == ErrorCode::NAMESPACE_NOT_FOUND => Ok(()),
            dropped => dropped?.into_iter().try_for_each(|number| self.drop_table(&index_table(number))),
        }
    }
}
