//! The writes of a transaction: a document and its entries in all indexes.
//!
//! Each write first finds the keys and checks every constraint, and writes only then: one that fails leaves nothing.

use std::sync::Arc;

use spinney::Transaction;

use super::claims::Claims;
use super::duplicate::{duplicate_id, duplicate_key};
use super::entries::{Change as KeyChange, differences};
use super::prepare::{check_id, check_one_id};
use super::transaction::{DocumentTransaction, ReadsBack};
use crate::base::num::u64_of;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuilder, Value, equal};
use crate::catalog::index_entry::{ENTRY_KEY_BYTES_MAX, IndexEntry};
use crate::catalog::options::{ValidationAction, ValidationLevel};
use crate::catalog::{CollectionState, Index, Schema};
use crate::expr::Context;
use crate::keys::{Key, KeySet, extract};
use crate::notes::journal::Change;
use crate::query::failure::details;
use crate::update::Updated;

impl DocumentTransaction {
    /// Inserts a document whose first field is `_id`, as [`prepare`](super::prepare::prepare) makes it.
    ///
    /// # Errors
    /// `DuplicateKey` (11000), `DocumentValidationFailure` (121), those of the keys (171, 16766, 16746, 17280), those
    /// of the engine. The document is then not there; earlier writes of the transaction are.
    pub fn insert(&mut self, collection: &CollectionState, document: Document<'_>) -> Result<()> {
        let schema = self.hold(collection)?;
        let id = self.take_id(collection, document)?;
        check_one_id(document)?;
        if !self.bypass_validation {
            check_valid(&schema, None, document)?;
        }
        if collection.capped.is_some() {
            self.take_next_record()?;
        } else {
            self.claims.claim(&mut self.txn, &collection.table, self.buffers.id.key())?;
            if self.txn.contains(&collection.table, self.buffers.id.key())? {
                return Err(duplicate_id(&schema, &id));
            }
        }
        self.find_keys(&schema, None, Some(document), None)?;
        self.check_unique(&schema)?;
        self.write_entries(collection, &schema)?;
        self.put_document(collection, document)?;
        self.count(collection, 1);
        self.record(collection, &schema, (None, Some(document)), false)?;
        self.evict(collection, &schema)
    }

    /// Puts `new` in the place of `old`, which is in the collection; whether there was a difference.
    ///
    /// # Errors
    /// `ImmutableField` (66) when the documents have different `_id`s; else as [`Self::insert`].
    pub fn replace(&mut self, collection: &CollectionState, old: Document<'_>, new: Document<'_>) -> Result<bool> {
        self.put_over(collection, old, new, None, false)
    }

    /// As [`Self::replace`], by an update that tells which paths it changed, and that keeps the document or does not.
    pub(super) fn put_over(
        &mut self,
        collection: &CollectionState,
        old: Document<'_>,
        new: Document<'_>,
        updated: Option<&Updated>,
        is_update: bool,
    ) -> Result<bool> {
        let schema = self.hold(collection)?;
        let (old_id, id) = (id_of(old)?, self.take_id(collection, new)?);
        if !equal(&old_id, &id) {
            let what = "Performing an update on the path '_id' would modify the immutable field '_id'";
            return Err(Error::new(ErrorCode::IMMUTABLE_FIELD, what));
        }
        if old.as_bytes() == new.as_bytes() {
            return Ok(false);
        }
        // The old one may have several, by an earlier version of the program, and then it can be replaced or removed.
        check_one_id(new)?;
        if !self.bypass_validation {
            check_valid(&schema, Some(old), new)?;
        }
        self.take_record(collection)?;
        self.claims.claim(&mut self.txn, &collection.table, self.buffers.id.key())?;
        self.find_keys(&schema, Some(old), Some(new), updated)?;
        self.check_unique(&schema)?;
        self.write_entries(collection, &schema)?;
        self.put_document(collection, new)?;
        self.record(collection, &schema, (Some(old), Some(new)), is_update)?;
        Ok(true)
    }

    /// Removes a document, which is in the collection.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn delete(&mut self, collection: &CollectionState, document: Document<'_>) -> Result<()> {
        let schema = self.hold(collection)?;
        self.take_id(collection, document)?;
        self.take_record(collection)?;
        self.remove(collection, &schema, document)
    }

    /// Removes the document whose key is in the buffer.
    pub(super) fn remove(
        &mut self,
        collection: &CollectionState,
        schema: &Schema,
        document: Document<'_>,
    ) -> Result<()> {
        self.claims.claim(&mut self.txn, &collection.table, self.buffers.id.key())?;
        self.find_keys(schema, Some(document), None, None)?;
        self.write_entries(collection, schema)?;
        self.txn.delete(&collection.table, self.buffers.id.key())?;
        self.count(collection, -1);
        self.record(collection, schema, (Some(document), None), false)
    }

    /// Puts a document under the key in the buffer.
    fn put_document(&mut self, collection: &CollectionState, document: Document<'_>) -> Result<()> {
        let (table, key) = (&collection.table, self.buffers.id.key());
        match self.reads_back {
            ReadsBack::Nothing => self.txn.put_unseen(table, key, document.as_bytes())?,
            ReadsBack::All | ReadsBack::Unique => self.txn.put(table, key, document.as_bytes())?,
        }
        Ok(())
    }

    /// Takes note of a change, for readers of the log and for the limits of a capped collection.
    fn record(
        &mut self,
        collection: &CollectionState,
        schema: &Schema,
        (old, new): (Option<Document<'_>>, Option<Document<'_>>),
        is_update: bool,
    ) -> Result<()> {
        self.has_written = true;
        if let Some(journal) = &mut self.journal {
            let keeps_before = schema.options.keeps_images;
            let key = self.buffers.id.key();
            journal.add(Change { collection: collection.number, key, old, new, is_update, keeps_before });
            let most = self.catalog.engine().options().memory_bytes;
            if u64_of(journal.bytes()) > most {
                let what = format!(
                    "the documents that the transaction changes are larger than memory_bytes allows ({most} bytes): \
                     commit in parts"
                );
                return Err(Error::too_large(&what));
            }
        }
        if collection.capped.is_some() { self.resize(old, new) } else { Ok(()) }
    }

    /// Encodes a document's `_id` into the buffer, and returns it.
    fn take_id<'d>(&mut self, collection: &CollectionState, document: Document<'d>) -> Result<Value<'d>> {
        let id = id_of(document)?;
        self.buffers.id.set(&id, collection.collation());
        let len = self.buffers.id.key().len();
        if len > ENTRY_KEY_BYTES_MAX {
            let what = format!("the _id has {len} bytes as a key");
            return Err(Error::new(ErrorCode::KEY_TOO_LONG, what));
        }
        Ok(id)
    }

    /// Finds the keys that each index has of the document that goes and of the one that comes.
    fn find_keys(
        &mut self,
        schema: &Schema,
        old: Option<Document<'_>>,
        new: Option<Document<'_>>,
        updated: Option<&Updated>,
    ) -> Result<()> {
        let (id, keys) = (&self.buffers.id, &mut self.buffers.keys);
        keys.resize_with(keys.len().max(schema.indexes.len()), Default::default);
        for (index, (before, after)) in schema.indexes.iter().zip(keys) {
            if let (Some(old), Some(new)) = (old, new)
                && is_untouched(index, old, new, updated)
            {
                before.reset();
                after.reset();
                continue;
            }
            find(index, old, before)?;
            find(index, new, after)?;
            after.iter().try_for_each(|key| IndexEntry::check(index, key, id))?;
        }
        Ok(())
    }

    /// Refuses keys of unique indexes that other documents have.
    fn check_unique(&mut self, schema: &Schema) -> Result<()> {
        for (index, (before, after)) in schema.indexes.iter().zip(&self.buffers.keys) {
            if !index.spec.unique && !index.spec.prepare_unique {
                continue;
            }
            for change in differences(before, after) {
                if let KeyChange::Added(key) = change {
                    if index.spec.prepare_unique {
                        refuse_shared(&mut self.txn, &self.claims, schema, index, key)?;
                        continue;
                    }
                    self.claims.claim(&mut self.txn, &index.table, key.fields)?;
                    if self.txn.contains(&index.table, key.fields)? {
                        return Err(duplicate_key(schema, index, key));
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the differences of the keys.
    fn write_entries(&mut self, collection: &CollectionState, schema: &Schema) -> Result<()> {
        let (txn, buffers) = (&mut self.txn, &mut self.buffers);
        let mut lacking: Vec<(&Arc<Index>, &KeySet)> = Vec::new();
        for (index, (before, after)) in schema.indexes.iter().zip(&buffers.keys) {
            for change in differences(before, after) {
                let (KeyChange::Removed(key) | KeyChange::Added(key) | KeyChange::Retyped(key)) = change;
                buffers.entry.set(index, key, &buffers.id)?;
                if matches!(change, KeyChange::Removed(_) | KeyChange::Retyped(_)) {
                    txn.single_delete(&index.table, buffers.entry.key())?;
                }
                if matches!(change, KeyChange::Added(_) | KeyChange::Retyped(_)) {
                    let (key, value) = (buffers.entry.key(), buffers.entry.value());
                    // The keys of a unique index are looked up by later inserts.
                    let is_read = match self.reads_back {
                        ReadsBack::All => true,
                        ReadsBack::Unique => index.spec.unique,
                        ReadsBack::Nothing => false,
                    };
                    if is_read {
                        txn.put(&index.table, key, value)?;
                    } else {
                        txn.put_unseen(&index.table, key, value)?;
                    }
                }
            }
            if index.see_multikey(after.multikey()) {
                lacking.push((index, after));
            }
        }
        for (index, keys) in lacking {
            self.catalog.add_multikey(txn, (collection.number, schema), index, keys.multikey())?;
            self.multikey.push((Arc::clone(index), keys.multikey().into()));
        }
        Ok(())
    }
}

/// Refuses a key that another document has, in an index that is to become unique: its entries have the keys of
/// documents behind the fields, so that two transactions which add the same fields write different entries. Both
/// write, as a delete, the fields alone, which no entry has, and one of them fails.
fn refuse_shared(txn: &mut Transaction, claims: &Claims, schema: &Schema, index: &Index, key: Key<'_>) -> Result<()> {
    claims.claim(txn, &index.table, key.fields)?;
    let has = {
        let mut entries = txn.range(&index.table, key.fields..);
        entries.advance()?.is_some_and(|(entry, _)| entry.starts_with(key.fields))
    };
    if has {
        return Err(duplicate_key(schema, index, key));
    }
    txn.delete(&index.table, key.fields)?;
    Ok(())
}

/// The keys that an index has of a document; none when it does not take it.
pub(super) fn find(index: &Index, document: Option<Document<'_>>, keys: &mut KeySet) -> Result<()> {
    match document {
        Some(document) if index.takes(document)? => {
            extract(&index.spec.pattern, index.spec.sparse, index.projection(), document, keys)
        }
        _ => {
            keys.reset();
            Ok(())
        }
    }
}

/// The `_id` of a document that can be stored.
fn id_of(document: Document<'_>) -> Result<Value<'_>> {
    match document.first() {
        Some(first) if first.name == "_id" => {
            check_id(&first.value)?;
            Ok(first.value)
        }
        _ => Err(Error::new(ErrorCode::INVALID_ID_FIELD, "a document to store begins with the field '_id'")),
    }
}

/// Whether an index cannot tell two documents from each other: by the paths that an update changed, or by the bytes of
/// the fields that the index's paths begin with.
fn is_untouched(index: &Index, old: Document<'_>, new: Document<'_>, updated: Option<&Updated>) -> bool {
    let pattern = &index.spec.pattern;

    if index.spec.filter.is_some() || pattern.is_wildcard() {
        return false;
    }
    let changed = updated.filter(|updated| updated.changed.is_some());
    pattern.fields().iter().all(|field| match changed {
        Some(updated) => !updated.touches(&field.path),
        None => {
            let name = field.path.split('.').next().unwrap_or_default();
            old.element(name).map(|element| element.raw()) == new.element(name).map(|element| element.raw())
        }
    })
}

fn check_valid(schema: &Schema, old: Option<Document<'_>>, new: Document<'_>) -> Result<()> {
    let options = &schema.options;
    let Some(validator) = &options.validator else { return Ok(()) };
    let checked = match options.validation_level {
        ValidationLevel::Off => false,
        ValidationLevel::Strict => true,
        ValidationLevel::Moderate => old.map_or(Ok(true), |old| validator.matches(old))?,
    };
    if !checked || options.validation_action == ValidationAction::Warn || validator.matches(new)? {
        return Ok(());
    }
    let mut info = DocumentBuilder::new();
    if let Some(id) = new.get("_id") {
        info.append("failingDocumentId", id);
    }
    if let Some(expression) = &options.validator_expression {
        let context = Context::default().collated(options.collation.clone());
        info.append("details", &details(expression.view(), new, &context)?);
    }
    let error = Error::new(ErrorCode::DOCUMENT_VALIDATION_FAILURE, "Document failed validation");
    Err(error.with_err_info(info.finish().into_bytes()))
}
