//! Collections that a transaction creates: it alone sees them until it commits, and they go when it does not.
//!
//! Their tables are created at once, and are empty and without a row for all others, as those are that a crash leaves
//! behind. Their rows are writes of the transaction, and so are as durable as its documents, in the same commit.
//!
//! # Concurrency
//! Two that create a collection of one name write the same row, so that one of their commits fails with a conflict. A
//! commit holds [`Arrivals`] until the names in memory are as the rows are, so that whoever takes that knows them all.

use std::sync::Arc;

use parking_lot::MutexGuard;
use spinney::Transaction;

use super::index_spec::IndexSpec;
use super::indexes::check_index_count;
use super::names::Entry;
use super::namespace::Namespace;
use super::options::CollectionOptions;
use super::record::event;
use super::registry::Catalog;
use super::row;
use super::same_index::is_there;
use super::state::{CollectionState, Schema};
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::DocumentBuf;

/// Held from before the rows of collections are committed to when all sessions see these.
pub type Arrivals<'c> = MutexGuard<'c, ()>;

impl Catalog {
    /// Creates a collection in a transaction, and tells what readers of the log are to be told of it. Nothing of the
    /// name may be there, in what is committed or in the transaction.
    ///
    /// # Errors
    /// `NamespaceExists` (48), `DatabaseDifferCase` (13297); `OperationNotSupportedInTransaction` (263) for a view;
    /// those of the engine.
    pub fn create_uncommitted(
        &self,
        txn: &mut Transaction,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<(Arc<CollectionState>, DocumentBuf)> {
        if options.view.is_some() {
            return Err(not_in_transactions("Cannot create a view in a multi-document transaction.".to_owned()));
        }
        let _changing = self.begin_change()?;
        self.check_new(namespace)?;
        let (state, created) = self.make(namespace, options)?;
        self.add_row(txn, namespace, &row::encode(state.number, &state.schema()))?;
        Ok((state, created))
    }

    /// Whether a collection has all of some indexes.
    ///
    /// # Errors
    /// `IndexOptionsConflict` (85) and `IndexKeySpecsConflict` (86) for an index that differs from one that is there.
    pub fn has_indexes(&self, state: &CollectionState, specs: &[IndexSpec]) -> Result<bool> {
        let schema = state.schema();
        specs.iter().try_fold(true, |all, spec| Ok(is_there(&schema, spec)? && all))
    }

    /// Adds indexes to a collection that the transaction has created and that has no documents: the collection with
    /// them, and what readers of the log are to be told. Nothing when all are there already.
    ///
    /// # Errors
    /// As [`Self::add_indexes`].
    pub fn add_uncommitted_indexes(
        &self,
        txn: &mut Transaction,
        state: &CollectionState,
        specs: &[IndexSpec],
    ) -> Result<Option<(Arc<CollectionState>, DocumentBuf)>> {
        let _changing = self.begin_change()?;
        let before = state.schema();
        let mut changed = Schema::clone(&before);
        for spec in specs {
            if !is_there(&changed, spec)? {
                check_index_count(&changed)?;
                self.add_index(state, &mut changed, spec, true)?;
            }
        }
        let added = &changed.indexes[before.indexes.len()..];
        if added.is_empty() {
            return Ok(None);
        }
        let mut told = event("createIndexes", changed.namespace.as_str(), changed.uuid);
        told.open_document("operationDescription").open_array("indexes");
        added.iter().for_each(|index| {
            told.push(index.spec.document());
        });
        told.close().close();
        self.change_row(txn, state.number, (&before, &changed))?;
        let state = CollectionState::new(state.number, state.table.clone(), changed);
        state.documents.start_empty();
        Ok(Some((Arc::new(state), told.finish())))
    }

    /// Waits for commits that create collections, and has others wait: all collections that are committed have their
    /// names then.
    ///
    /// # Errors
    /// `Interrupted` (11601) and the like, when the thread's operation is to end.
    pub fn arrivals(&self) -> Result<Arrivals<'_>> {
        interrupt::wait(|nap| self.arrivals.try_lock_for(nap))
    }

    /// Waits for the commit that creates a collection now, if one does.
    ///
    /// # Errors
    /// As [`Self::arrivals`].
    pub fn wait_for_arrivals(&self) -> Result<()> {
        self.arrivals().map(drop)
    }

    /// Collections that a transaction has created are committed: all sessions see them.
    pub fn arrive(&self, created: &[Arc<CollectionState>], _arrivals: &Arrivals<'_>) {
        let mut names = self.names.write();
        for state in created {
            names.insert(state.schema().namespace.clone(), Entry::Collection(Arc::clone(state)));
        }
    }

    /// Drops the tables of collections that a transaction has created, which was not committed.
    ///
    /// # Errors
    /// Those of the engine; the tables that are left are dropped at the next open.
    pub fn drop_uncommitted(&self, created: &[Arc<CollectionState>]) -> Result<()> {
        let tables = created.iter().flat_map(|state| super::registry::tables_of(state, &state.schema()));
        self.drop_tables(&tables.collect::<Vec<_>>())
    }
}

/// `OperationNotSupportedInTransaction` (263).
fn not_in_transactions(what: String) -> Error {
    Error::new(ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, what)
}
