//! The changes of the catalog's rows: nothing else writes the row of a collection or view.
//!
//! # Invariants
//! 1. A row is read, checked and written in one transaction of the engine, so that of two changes of a row one fails
//!    with a conflict.
//! 2. The row that is changed or removed is that of the collection in hand: it has its number and its UUID. A row that
//!    was removed is not written again from memory, and one that another collection has by now is not touched.

use spinney::Transaction;

use super::namespace::Namespace;
use super::registry::{Catalog, not_found};
use super::row::{self, Expected, encode, with_multikey};
use super::state::{Index, Schema};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf};

impl Catalog {
    /// The row of a namespace, which must be the expected one.
    fn read_row(&self, txn: &Transaction, namespace: &str, expected: Expected<'_>) -> Result<Option<DocumentBuf>> {
        let Some(row) = txn.get(&self.table, namespace)? else { return Ok(None) };
        if matches!(expected, Expected::Any) {
            return Ok(Some(DocumentBuf::default()));
        }
        let row = Document::from_checked_bytes(&row).ok_or_else(|| row::corrupt(namespace, "row"))?;
        Ok(expected.is(row).then(|| row.into()))
    }

    /// # Errors
    /// `NamespaceNotFound` (26) when the row is that of another collection, or is gone.
    fn check_row(&self, txn: &Transaction, namespace: &str, expected: Expected<'_>) -> Result<()> {
        match self.read_row(txn, namespace, expected)? {
            Some(_) => Ok(()),
            None => Err(not_found(&format!("collection {namespace} was dropped or renamed"))),
        }
    }

    /// Adds a row, within a transaction.
    ///
    /// # Errors
    /// `NamespaceExists` (48) when there is one.
    pub(super) fn add_row(&self, txn: &mut Transaction, namespace: &Namespace, row: &DocumentBuf) -> Result<()> {
        self.check_no_row(txn, namespace)?;
        Ok(txn.put(&self.table, namespace.as_str(), row.as_bytes())?)
    }

    /// # Errors
    /// `NamespaceExists` (48) when there is a row of the name.
    pub(super) fn check_no_row(&self, txn: &Transaction, namespace: &Namespace) -> Result<()> {
        if txn.get(&self.table, namespace.as_str())?.is_some() {
            let what = format!("Collection {namespace} already exists.");
            return Err(Error::new(ErrorCode::NAMESPACE_EXISTS, what));
        }
        Ok(())
    }

    /// Makes the row of a collection that of `after`, within a transaction. It may have another name there.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26) when the row is that of another collection, or is gone.
    pub(super) fn change_row(
        &self,
        txn: &mut Transaction,
        number: u64,
        (before, after): (&Schema, &Schema),
    ) -> Result<()> {
        self.check_row(txn, before.namespace.as_str(), Expected::Collection(number, &before.uuid))?;
        if after.namespace != before.namespace {
            txn.delete(&self.table, before.namespace.as_str())?;
        }
        Ok(txn.put(&self.table, after.namespace.as_str(), encode(number, after).as_bytes())?)
    }

    /// Puts a row in the place of that of a view.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26) when there is no view of the name.
    pub(super) fn change_view_row(&self, txn: &mut Transaction, view: &Namespace, row: &DocumentBuf) -> Result<()> {
        self.check_row(txn, view.as_str(), Expected::View)?;
        Ok(txn.put(&self.table, view.as_str(), row.as_bytes())?)
    }

    /// Removes a row, within a transaction.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26) when the row is another one than expected, or is gone.
    pub(super) fn remove_row(
        &self,
        txn: &mut Transaction,
        namespace: &Namespace,
        expected: Expected<'_>,
    ) -> Result<()> {
        self.check_row(txn, namespace.as_str(), expected)?;
        Ok(txn.delete(&self.table, namespace.as_str())?)
    }

    /// Adds, within a transaction, paths that were arrays to the row of an index of a collection that is held.
    ///
    /// # Errors
    /// `WriteConflict` (112) when the collection was renamed or dropped after the transaction began; those of the
    /// engine.
    pub fn add_multikey(
        &self,
        txn: &mut Transaction,
        (number, schema): (u64, &Schema),
        index: &Index,
        found: &[u64],
    ) -> Result<()> {
        let name = schema.namespace.as_str();
        // A transaction that began before the collection had its name sees no row of it.
        let row = self.read_row(txn, name, Expected::Collection(number, &schema.uuid))?.ok_or_else(|| {
            Error::new(ErrorCode::WRITE_CONFLICT, format!("collection {name} was renamed or dropped meanwhile"))
        })?;
        let row = with_multikey(name, row.view(), index.number, found)?;
        Ok(txn.put(&self.table, name, row.as_bytes())?)
    }
}
