//! Writes to capped collections: record ids, and the removal of the oldest documents.

use std::ops::Bound;

use super::transaction::DocumentTransaction;
use crate::base::num::u64_of;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf};
use crate::catalog::capped::{record_key, record_number};
use crate::catalog::{CollectionState, Schema};

impl DocumentTransaction {
    /// Refuses a write to a capped collection whose lock the transaction does not have.
    ///
    /// # Errors
    /// `OperationNotSupportedInTransaction` (263).
    pub(super) fn check_capped(&self, collection: &CollectionState, schema: &Schema) -> Result<()> {
        let has_lock = || self.capped.as_ref().is_some_and(|write| write.is_of(collection));
        if collection.capped.is_none() || has_lock() {
            return Ok(());
        }
        let name = &schema.namespace;
        let what = format!(
            "Collection '{name}' is a capped collection. Writes in transactions are not allowed on capped collections."
        );
        Err(Error::new(ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, what))
    }

    /// Puts the record id of the next document in the place of the `_id` that is encoded.
    pub(super) fn take_next_record(&mut self) -> Result<()> {
        let Some(write) = &mut self.capped else { return Ok(()) };
        let holdings = write.holdings()?;
        self.buffers.id.set_record(&record_key(holdings.next));
        holdings.next += 1;
        Ok(())
    }

    /// Puts the record id of the document with the `_id` that is encoded in its place.
    pub(super) fn take_record(&mut self, collection: &CollectionState) -> Result<()> {
        if collection.capped.is_none() {
            return Ok(());
        }
        let key = collection.key_of(self.buffers.id.key(), |table, id| self.txn.get(table, id))?.ok_or_else(|| {
            Error::new(
                ErrorCode::DATA_CORRUPTION_DETECTED,
                "a document has no entry in the index of _id: reIndex builds it again",
            )
        })?;
        self.buffers.id.set_record(&key);
        Ok(())
    }

    /// Takes note that a document of a capped collection has come, gone, or become another.
    pub(super) fn resize(&mut self, old: Option<Document<'_>>, new: Option<Document<'_>>) -> Result<()> {
        let Some(write) = &mut self.capped else { return Ok(()) };
        let holdings = write.holdings()?;
        let bytes = |document: Option<Document<'_>>| document.map_or(0, |document| u64_of(document.as_bytes().len()));
        holdings.bytes = (holdings.bytes + bytes(new)).saturating_sub(bytes(old));
        holdings.documents = (holdings.documents + u64::from(new.is_some())).saturating_sub(u64::from(old.is_some()));
        Ok(())
    }

    /// Removes the oldest documents of a capped collection while it is beyond its limits; the newest one stays.
    pub(super) fn evict(&mut self, collection: &CollectionState, schema: &Schema) -> Result<()> {
        let Some(limits) = schema.options.capped else { return Ok(()) };
        loop {
            let Some(write) = &mut self.capped else { return Ok(()) };
            let holdings = *write.holdings()?;
            if !limits.are_passed(holdings) || holdings.documents < 2 {
                return Ok(());
            }
            // Not from the start, where the engine may still have to pass those that were removed.
            let low = record_key(holdings.oldest);
            let bounds = (Bound::Included(low.as_slice()), Bound::<&[u8]>::Unbounded);
            let oldest = self.txn.range(&collection.table, bounds).advance()?.map(|(key, document)| {
                (key.to_vec(), Document::from_checked_bytes(document).map(DocumentBuf::from).unwrap_or_default())
            });
            let Some((key, document)) = oldest else { return Ok(()) };
            self.buffers.id.set_record(&key);
            self.remove(collection, schema, document.view())?;
            if let Some(write) = &mut self.capped {
                write.holdings()?.oldest = record_number(&key).map_or(holdings.oldest, |number| number + 1);
            }
        }
    }
}
