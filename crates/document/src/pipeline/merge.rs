//! `$merge`: documents that are merged into a collection, in transactions of up to a thousand.

use std::sync::Arc;

use super::collections::Collections;
use super::replace::on_view;
use crate::aggregate::{Merge, Rows, WhenMatched, WhenNotMatched};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::catalog::{CollectionOptions, CollectionState, Entry, Namespace};
use crate::collation::Collation;
use crate::collection::prepare::prepare;
use crate::collection::{Collection, DocumentTransaction};
use crate::exec::{Execution, StoredDocument};
use crate::expr::{Context, Expression};
use crate::path::Path;
use crate::plan::Query;
use crate::query::{Filter, Node, Predicate};
use crate::update::Update;

/// The most documents of a transaction.
const DOCUMENTS_MAX: usize = 1000;

/// The most bytes of documents of a transaction.
const BYTES_MAX: usize = 4 << 20;

/// Merges documents into a collection, which is created when there is none.
///
/// # Errors
/// 51183 when no unique index has the fields of `on`; `CommandNotSupportedOnView` (166); those of the documents, with
/// all earlier transactions committed.
pub(super) fn merge(
    collections: &Collections,
    namespace: &Namespace,
    how: &Merge,
    rows: Rows,
    context: &Context,
) -> Result<()> {
    let catalog = &collections.parts.catalog;
    let mut rows = rows.peekable();
    let state = match catalog.find(namespace) {
        Some(Entry::View(_)) => return Err(on_view(namespace)),
        Some(Entry::Damaged(damage)) => return Err(damage.error()),
        Some(Entry::Collection(state)) => state,
        None if how.on != ["_id"] => return Err(no_index()),
        // Without a document to insert no collection is created.
        None if rows.peek().is_none() => return Ok(()),
        None => match how.not_matched {
            WhenNotMatched::Discard => return rows.try_for_each(|row| row.map(drop)),
            WhenNotMatched::Fail => return Err(not_matched()),
            WhenNotMatched::Insert => match catalog.create(namespace, CollectionOptions::default())? {
                Entry::Collection(state) => state,
                Entry::View(_) => return Err(on_view(namespace)),
                Entry::Damaged(damage) => return Err(damage.error()),
            },
        },
    };
    let takes_nulls = check_unique(&state, &how.on, context.collation.as_deref())?;
    let collection = collections.parts.collection(state);
    let merging = Merging::new(collection, how, takes_nulls, context)?;
    let (mut part, mut bytes): (Vec<DocumentBuf>, usize) = (Vec::new(), 0);
    for row in rows {
        let row = row?;
        bytes += row.as_bytes().len();
        part.push(merging.identified(row)?);
        if part.len() == DOCUMENTS_MAX || bytes >= BYTES_MAX {
            merging.write(&part, collections)?;
            part.clear();
            bytes = 0;
        }
    }
    merging.write(&part, collections)
}

/// Refuses fields that no unique index with this collation has. Whether the index has documents without the fields too.
fn check_unique(state: &CollectionState, on: &[String], collation: Option<&Collation>) -> Result<bool> {
    if on == ["_id"] {
        return if state.collation() == collation { Ok(true) } else { Err(no_index()) };
    }
    let schema = state.schema();
    let mut found = schema.indexes.iter().filter(|index| {
        let fields = index.spec.pattern.fields();
        index.ready
            && index.spec.unique
            && index.spec.partial.is_none()
            && index.spec.pattern.collation() == collation
            && fields.len() == on.len()
            && fields.iter().all(|field| on.contains(&field.path))
    });
    match found.clone().next() {
        Some(_) => Ok(found.any(|index| !index.spec.sparse)),
        None => Err(no_index()),
    }
}

fn no_index() -> Error {
    Error::new(ErrorCode::new(51183), "Cannot find index to verify that join fields will be unique")
}

fn not_matched() -> Error {
    let what = "$merge could not find a matching document in the target collection for at least one document in the source collection";
    Error::new(ErrorCode::new(13113), what)
}

/// A `$merge` that runs.
struct Merging<'m> {
    collection: Collection,
    how: &'m Merge,
    on: Vec<Path>,
    /// Whether the fields of `on` may be missing or null.
    takes_nulls: bool,
    context: &'m Context,
    /// The variables of `let`, compiled.
    variables: Vec<(String, Expression)>,
}

impl<'m> Merging<'m> {
    fn new(collection: Collection, how: &'m Merge, takes_nulls: bool, context: &'m Context) -> Result<Self> {
        let mut variables = Vec::new();
        if let Some(Value::Document(spec)) = how.variables.as_ref().map(ValueBuf::view) {
            for element in spec {
                let name = element.name.to_str_lossy().into_owned();
                variables.push((name, crate::expr::parse(element.value, context)?));
            }
        }
        let on = how.on.iter().map(Path::new).collect();
        Ok(Self { collection, how, on, takes_nulls, context, variables })
    }

    /// The document with an `_id`, when it needs one to be identified, and with values in all fields of `on`.
    fn identified(&self, document: DocumentBuf) -> Result<DocumentBuf> {
        let mut document = document;
        if document.view().get("_id").is_none() && self.how.on.iter().any(|name| name == "_id") {
            let mut builder = DocumentBuilder::new();
            builder.append("_id", self.collection.new_id()).append_all(document.view());
            document = builder.finish();
        }
        for (path, name) in self.on.iter().zip(&self.how.on) {
            match crate::expr::tree::follow(Value::Document(document.view()), path.parts()).view() {
                None | Some(Value::Null | Value::Undefined) if self.takes_nulls => {}
                None | Some(Value::Null | Value::Undefined) => {
                    let what = "$merge write error: 'on' field cannot be missing, null, undefined or an array";
                    return Err(Error::new(ErrorCode::new(51132), format!("{what}: {name}")));
                }
                Some(Value::Array(_)) => {
                    let what = "$merge write error: 'on' field cannot be missing, null, undefined or an array";
                    return Err(Error::new(ErrorCode::new(51185), format!("{what}: {name}")));
                }
                Some(_) => {}
            }
        }
        Ok(document)
    }

    fn write(&self, documents: &[DocumentBuf], collections: &Collections) -> Result<()> {
        if documents.is_empty() {
            return Ok(());
        }
        let failed = self.collection.transact(collections.write, |txn| {
            let mut failed = None;
            for document in documents {
                match self.write_one(txn, document.view()) {
                    Err(error) if error.is_conflict() => return Err(error),
                    // The other documents of the part are merged all the same.
                    done => failed = failed.or(done.err()),
                }
            }
            Ok(failed)
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn write_one(&self, txn: &mut DocumentTransaction, new: Document<'_>) -> Result<()> {
        match (self.existing(txn, new)?, &self.how.matched, self.how.not_matched) {
            (None, _, WhenNotMatched::Discard) => Ok(()),
            (None, _, WhenNotMatched::Fail) => Err(not_matched()),
            // These two are updates in MongoDB, which set the fields of a new document in the order of their names.
            (None, WhenMatched::Merge | WhenMatched::KeepExisting, WhenNotMatched::Insert) => {
                let ordered = in_order_of_names(new);
                let prepared = prepare(ordered.view(), || self.collection.new_id())?;
                txn.insert(self.collection.state(), prepared.view())
            }
            (None, _, WhenNotMatched::Insert) => {
                let prepared = prepare(new, || self.collection.new_id())?;
                txn.insert(self.collection.state(), prepared.view())
            }
            (Some(_), WhenMatched::KeepExisting, _) => Ok(()),
            // What is there is told by the constraint that it breaks.
            (Some(old), WhenMatched::Fail, _) => self.duplicate(txn, old.view(), new),
            (Some(old), WhenMatched::Replace, _) => self.replace(txn, old.view(), &replaced(old.view(), new)),
            (Some(old), WhenMatched::Merge, _) => self.replace(txn, old.view(), &merged(old.view(), new)),
            (Some(old), WhenMatched::Pipeline(stages), _) => {
                let mut context = self.context.clone();
                context.set("new", Value::Document(new).into());
                for (name, expression) in &self.variables {
                    // A variable without a value is none.
                    if let Some(value) = expression.of(new)?.into_buf() {
                        context.set(name, value);
                    }
                }
                let update = Update::parse(stages.view(), None, &context)?;
                let updated = update.apply(old.view(), None)?;
                self.replace(txn, old.view(), &updated.document)
            }
        }
    }

    /// The document of the collection that has the same values in the fields of `on`.
    fn existing(&self, txn: &DocumentTransaction, new: Document<'_>) -> Result<Option<StoredDocument>> {
        let state = self.collection.state();
        if self.how.on == ["_id"] {
            return txn.find_by_id(state, &new.get("_id").unwrap_or(Value::Null));
        }
        let nodes = self.on.iter().map(|path| {
            let value = crate::expr::tree::follow(Value::Document(new), path.parts()).into_buf();
            let value = value.unwrap_or_else(|| Value::Null.into());
            Node::Leaf { path: path.clone(), test: Predicate::equal(value.view(), self.context.collation.as_ref()) }
        });
        let mut query = Query::new(Filter::from_node(Node::And(nodes.collect())));
        query.limit = Some(1);
        let mut found = Execution::open(Box::new(txn.engine()), state, Arc::new(query))?;
        Ok(found.next_match()?.map(|found| found.document))
    }

    fn replace(&self, txn: &mut DocumentTransaction, old: Document<'_>, new: &DocumentBuf) -> Result<()> {
        let (was, is) = (old.get("_id"), new.view().get("_id"));
        if let (Some(was), Some(is)) = (was, is)
            && crate::bson::compare(&was, &is).is_ne()
        {
            let what = "$merge failed to update the matching document, did you attempt to modify the _id or the shard key? :: caused by :: Performing an update on the path '_id' would modify the immutable field '_id'";
            return Err(Error::new(ErrorCode::IMMUTABLE_FIELD, what));
        }
        let prepared = prepare(new.view(), || self.collection.new_id())?;
        txn.replace(self.collection.state(), old, prepared.view()).map(drop)
    }

    fn duplicate(&self, txn: &mut DocumentTransaction, old: Document<'_>, new: Document<'_>) -> Result<()> {
        if self.how.on == ["_id"] {
            return txn.insert(self.collection.state(), new);
        }
        // The document may have another `_id`, so that the constraint on the fields is the one that it breaks.
        let prepared = prepare(new, || self.collection.new_id())?;
        txn.insert(self.collection.state(), prepared.view())?;
        let what = format!("E11000 duplicate key error: a document matches {}", old.to_json());
        Err(Error::new(ErrorCode::DUPLICATE_KEY, what))
    }
}

/// The document with its fields in the order of their names.
fn in_order_of_names(document: Document<'_>) -> DocumentBuf {
    let mut fields: Vec<_> = document.elements().collect();
    fields.sort_by_key(|field| (field.name != "_id", field.name.as_bytes()));
    let mut builder = DocumentBuilder::new();
    fields.iter().for_each(|field| {
        builder.append_element(field);
    });
    builder.finish()
}

/// The new document, with the `_id` of the old one when it has none.
fn replaced(old: Document<'_>, new: Document<'_>) -> DocumentBuf {
    match (new.get("_id"), old.element("_id")) {
        (None, Some(id)) => {
            let mut builder = DocumentBuilder::new();
            builder.append_element(&id).append_all(new);
            builder.finish()
        }
        _ => new.into(),
    }
}

/// The old document with the fields of the new one.
fn merged(old: Document<'_>, new: Document<'_>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    for element in old {
        builder.append_element(&new.element(element.name).unwrap_or(element));
    }
    new.elements().filter(|element| old.element(element.name).is_none()).for_each(|element| {
        builder.append_element(&element);
    });
    builder.finish()
}
