//! Expiry of documents by the indexes that have a time to live, and by the `_id` of clustered collections.

use std::ops::Bound;

use super::handle::{Collection, WriteOptions};
use super::transaction::DocumentTransaction;
use crate::base::Result;
use crate::bson::Value;
use crate::catalog::Index;
use crate::catalog::index_entry::EntryParts;
use crate::exec::stored::StoredDocument;
use crate::keys::encode_id;
use crate::plan::ranges::range;
use crate::query::bounds::{End, Interval};

/// The most documents of one transaction.
const DOCUMENTS_MAX: usize = 500;

impl Collection {
    /// Removes the documents that have expired at `now_ms`, in milliseconds since 1970: those whose date in the field
    /// of an index with `expireAfterSeconds` (of an array, the least date) is that much older. Documents without a date
    /// do not expire. In a collection with `clusteredIndex` and `expireAfterSeconds` those with a date as `_id` do.
    /// Returns how many were removed.
    ///
    /// # Errors
    /// Those of the engine; what was removed before stays removed.
    pub fn expire(&self, now_ms: i64) -> Result<u64> {
        let mut expired = 0;
        let newest = |seconds: i64| now_ms.saturating_sub(seconds.saturating_mul(1000));
        if let Some(seconds) = self.schema().options.expire_after_seconds {
            expired += self.expire_all(|txn| self.expire_ids(txn, newest(seconds)))?;
        }
        for index in &self.schema().indexes {
            if let Some(seconds) = index.spec.expire_after_seconds.filter(|_| index.ready) {
                expired += self.expire_all(|txn| self.expire_some(txn, index, newest(i64::from(seconds))))?;
            }
        }
        Ok(expired)
    }

    /// Removes documents in transactions of some, until none is left.
    fn expire_all(&self, some: impl Fn(&mut DocumentTransaction) -> Result<u64>) -> Result<u64> {
        let mut total = 0;
        loop {
            let expired = self.transact(WriteOptions::default(), &some)?;
            total += expired;
            if expired == 0 {
                return Ok(total);
            }
        }
    }

    /// Removes some of the documents whose `_id` is a date up to `newest`; none when there are none left.
    fn expire_ids(&self, txn: &mut DocumentTransaction, newest: i64) -> Result<u64> {
        let bound = |millis| {
            let mut key = Vec::new();
            encode_id(&mut key, &Value::DateTime(millis), None);
            Bound::Included(key)
        };
        let mut entries = txn.engine().range(&self.state().table, (bound(i64::MIN), bound(newest)));
        let mut ids = Vec::new();
        while ids.len() < DOCUMENTS_MAX
            && let Some((key, _)) = entries.advance()?
        {
            ids.push(key.to_vec());
        }
        drop(entries);
        self.remove_all(txn, ids)
    }

    /// Removes some of the documents whose dates are up to `newest`; none when there are none left.
    fn expire_some(&self, txn: &mut DocumentTransaction, index: &Index, newest: i64) -> Result<u64> {
        let Some(field) = index.spec.pattern.fields().first() else { return Ok(0) };
        let direction = field.direction();
        let end = |millis| End { value: Value::DateTime(millis).into(), inclusive: true };
        let bounds = range(&[], &Interval { low: end(i64::MIN), high: end(newest) }, direction);
        let mut ids = Vec::new();
        let mut entries = txn.engine().range(&index.table, bounds);
        while let Some((key, value)) = entries.advance()? {
            let entry = EntryParts::of(&[direction], index.spec.unique, key, value);
            ids.extend(entry.map(|entry| entry.id.to_vec()));
            if ids.len() == DOCUMENTS_MAX {
                break;
            }
        }
        drop(entries);
        self.remove_all(txn, ids)
    }

    fn remove_all(&self, txn: &mut DocumentTransaction, ids: Vec<Vec<u8>>) -> Result<u64> {
        let mut expired = 0;
        for id in ids {
            // A document with several dates is met several times.
            if let Some(document) = txn.engine().get(&self.state().table, &id)?.map(StoredDocument::new) {
                txn.delete(self.state(), document.view())?;
                expired += 1;
            }
        }
        Ok(expired)
    }
}
