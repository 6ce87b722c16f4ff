//! Capped collections that are made of others.

use std::ops::Bound;
use std::sync::Arc;

use super::handle::{Collection, WriteOptions};
use crate::base::num::u64_of;
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::{Document, DocumentBuf, Value};
use crate::catalog::{CollectionOptions, CollectionState, Entry, Namespace, Schema};

/// The most documents that are inserted at once.
const DOCUMENTS_MAX: usize = 1000;

/// The most bytes of documents that are inserted at once.
const BYTES_MAX: usize = 4 << 20;

impl Collection {
    /// Creates a capped collection of up to `size` bytes with the newest documents of this one, in the order in which
    /// this one has them.
    ///
    /// # Errors
    /// `NamespaceExists` (48), `BadValue` (2) for a size that is none; those of the engine, with no collection created.
    pub fn clone_as_capped(&self, to: &Namespace, size: i64) -> Result<()> {
        let (catalog, _, _) = self.parts();
        if catalog.find(to).is_some() {
            let what = format!("cloneCollectionAsCapped: the collection {to} exists already");
            return Err(Error::new(ErrorCode::NAMESPACE_EXISTS, what));
        }
        let options = capped_options(&self.schema(), size)?;
        let Entry::Collection(state) = catalog.create(to, options)? else {
            return Err(Error::new(ErrorCode::INTERNAL_ERROR, "a capped collection is a view"));
        };
        let copied = self.copy_to(&self.other(state));
        if copied.is_err() {
            catalog.drop_namespace(to)?;
        }
        copied
    }

    /// Puts a capped collection of up to `size` bytes with the newest documents of this one in its place. It has no
    /// indexes but that of `_id`, and another UUID. Writers wait meanwhile, and this handle is then of a collection
    /// that was dropped.
    ///
    /// # Errors
    /// `BadValue` (2) for a size that is none; those of the engine, with the collection as it was.
    pub fn convert_to_capped(&self, size: i64) -> Result<()> {
        let (catalog, _, _) = self.parts();
        let (schema, name) = (self.schema(), self.namespace());
        schema.check_indexes()?;
        let (temporary, state) = catalog.create_temporary(name.database(), capped_options(&schema, size)?)?;
        let target = self.other(state);
        let done = catalog.replace(&temporary, &name, || self.copy_to(&target));
        if done.is_err() {
            interrupt::shielded(|| catalog.drop_namespace(&temporary))?;
        }
        done
    }

    /// A handle of another collection of the same database.
    fn other(&self, state: Arc<CollectionState>) -> Self {
        let (catalog, ids, environment) = self.parts();
        Self::new(catalog, state, ids, environment)
    }

    /// Copies the newest documents to a capped collection, as far as that takes them.
    fn copy_to(&self, to: &Self) -> Result<()> {
        let Some(limits) = to.schema().options.capped else { return Ok(()) };
        let limit = u64::try_from(limits.bytes_max).unwrap_or_default();
        let (snapshot, table) = (self.snapshot(), &self.state().table);
        let (mut first, mut bytes, mut older) = (None, 0, snapshot.range_rev(table, ..));
        while let Some((key, document)) = older.advance()? {
            bytes += u64_of(document.len());
            if bytes > limit && first.is_some() {
                break;
            }
            first = Some(key.to_vec());
        }
        let Some(first) = first else { return Ok(()) };
        let bounds = (Bound::Included(first.as_slice()), Bound::<&[u8]>::Unbounded);
        let mut documents = snapshot.range(table, bounds);
        let (mut part, mut bytes): (Vec<DocumentBuf>, usize) = (Vec::new(), 0);
        loop {
            let next = documents.advance()?.and_then(|(_, bytes)| Document::from_checked_bytes(bytes));
            if let Some(document) = next {
                bytes += document.as_bytes().len();
                part.push(document.into());
            }
            if next.is_none() || part.len() == DOCUMENTS_MAX || bytes >= BYTES_MAX {
                insert(to, &part)?;
                part.clear();
                bytes = 0;
            }
            if next.is_none() {
                return Ok(());
            }
        }
    }
}

fn insert(to: &Collection, documents: &[DocumentBuf]) -> Result<()> {
    let options = WriteOptions { bypass_validation: true, ..WriteOptions::default() };
    let inserted = to.insert_many(documents.iter().map(DocumentBuf::view), true, options)?;
    inserted.errors.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}

/// The options of a collection with those of a capped one.
fn capped_options(schema: &Arc<Schema>, size: i64) -> Result<CollectionOptions> {
    let changes = doc! {"capped": true, "size": size, "max": Value::Null, "clusteredIndex": Value::Null};
    schema.options.with(changes.view())
}
