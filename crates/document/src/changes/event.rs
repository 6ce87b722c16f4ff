//! Events as documents.

use std::sync::Arc;

use super::options::{FullDocument, StreamOptions};
use super::token::ResumeToken;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Timestamp, Value};
use crate::catalog::CollectionState;
use crate::notes::clock::millis;
use crate::notes::journal::id_of_key;
use crate::notes::{ChangeKind, ChangeNote, SessionNote};

/// A collection at the time of an event.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) number: u64,
    pub(super) database: String,
    pub(super) collection: String,
    pub(super) uuid: [u8; 16],
    /// The collection, if it is still there.
    pub(super) state: Option<Arc<CollectionState>>,
}

/// What all events of a commit share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'c> {
    pub(super) time: Timestamp,
    /// The newest time of the cluster, by which images of old changes are not shown any more.
    pub(super) now: Timestamp,
    pub(super) session: Option<&'c SessionNote>,
    pub(super) options: &'c StreamOptions,
}

/// A change of a document in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged<'c> {
    pub(super) key: &'c [u8],
    /// The document; empty when it was deleted.
    pub(super) document: Option<Document<'c>>,
    /// What the note says; an insert when it says nothing.
    pub(super) note: Option<&'c ChangeNote>,
}

impl Frame<'_> {
    /// The beginning that all events have.
    fn begin(&self, token: &ResumeToken, operation: &str, uuid: Option<[u8; 16]>) -> DocumentBuilder {
        let mut event = DocumentBuilder::with_buffer(Vec::with_capacity(512));
        event.append("_id", &token.document()).append("operationType", operation);
        event.append("clusterTime", Value::Timestamp(self.time));
        if let Some(uuid) = uuid.filter(|_| self.options.expanded) {
            event.append("collectionUUID", Value::Binary(4, &uuid));
        }
        event.append("wallTime", Value::DateTime(millis(self.time)));
        if let Some(session) = self.session.filter(|session| session.is_transaction) {
            event.append("txnNumber", session.txn_number);
            event.open_document("lsid").append("id", Value::Binary(4, &session.id)).close();
        }
        event
    }

    /// Whether the images of the commit are too old to be shown.
    fn is_old(&self) -> bool {
        let age = u64::from(self.now.time.saturating_sub(self.time.time));
        self.options.image_seconds.is_some_and(|seconds| age > seconds)
    }

    /// The event that ends a stream.
    pub(super) fn invalidate(&self, token: &ResumeToken) -> DocumentBuf {
        self.begin(token, "invalidate", None).finish()
    }

    /// The event of a change of a document. `lookup` finds the document as it is now.
    ///
    /// # Errors
    /// `NoMatchingDocument` (47) when a document is required that was not kept.
    pub(super) fn of_document(
        &self,
        token: &ResumeToken,
        named: &Named,
        logged: Logged<'_>,
        lookup: impl FnOnce() -> Result<Option<DocumentBuf>>,
    ) -> Result<DocumentBuf> {
        let kind = logged.note.map_or(ChangeKind::Insert, |note| note.kind);
        let operation = match kind {
            ChangeKind::Insert => "insert",
            ChangeKind::Replace => "replace",
            ChangeKind::Update => "update",
            ChangeKind::Delete => "delete",
        };
        let mut event = self.begin(token, operation, Some(named.uuid));
        let kept = logged.note.is_some_and(|note| note.before.is_some()) && !self.is_old();
        let available = logged.document.filter(|_| kept);
        match (kind, self.options.full_document) {
            (ChangeKind::Insert | ChangeKind::Replace, _) => {
                append_or_null(&mut event, "fullDocument", logged.document)
            }
            (ChangeKind::Delete, _) | (_, FullDocument::Off) => {}
            (ChangeKind::Update, FullDocument::Lookup) => {
                let found = lookup()?;
                append_or_null(&mut event, "fullDocument", found.as_ref().map(DocumentBuf::view));
            }
            (ChangeKind::Update, FullDocument::Required) if available.is_none() => return Err(no_image("post")),
            (ChangeKind::Update, _) => append_or_null(&mut event, "fullDocument", available),
        }
        append_namespace(&mut event, "ns", &named.database, Some(&named.collection));
        match logged.document.and_then(|document| document.element("_id")) {
            Some(id) => event.open_document("documentKey").append_element(&id).close(),
            None => {
                let told = logged.note.and_then(|note| note.detail.clone()).or_else(|| id_of_key(logged.key));
                event.append("documentKey", &told.unwrap_or_default())
            }
        };
        if let (ChangeKind::Update, Some(note)) = (kind, logged.note) {
            self.append_description(&mut event, note);
        }
        let before = logged.note.and_then(|note| note.before.as_ref()).filter(|_| !self.is_old());
        match (kind, self.options.before) {
            (ChangeKind::Insert, _) | (_, FullDocument::Off) => {}
            (_, FullDocument::Required) if before.is_none() => return Err(no_image("pre")),
            _ => append_or_null(&mut event, "fullDocumentBeforeChange", before.map(DocumentBuf::view)),
        }
        Ok(event.finish())
    }

    fn append_description(&self, event: &mut DocumentBuilder, note: &ChangeNote) {
        let empty = DocumentBuf::new();
        let detail = note.detail.as_ref().unwrap_or(&empty).view();
        let part = |name| detail.get(name);
        event.open_document("updateDescription");
        event.append("updatedFields", part("u").unwrap_or(Value::Document(Document::empty())));
        let none = Value::Array(crate::bson::Array::empty());
        event.append("removedFields", part("r").unwrap_or(none));
        event.append("truncatedArrays", part("t").unwrap_or(none));
        if self.options.expanded {
            event.append("disambiguatedPaths", part("d").unwrap_or(Value::Document(Document::empty())));
        }
        event.close();
    }

    /// The event of a change of a collection or a database; nothing for one that is not shown.
    pub(super) fn of_collection(&self, token: &ResumeToken, told: Document<'_>) -> Option<DocumentBuf> {
        let operation = told.get("op")?.as_str()?;
        let shown = matches!(operation, "drop" | "rename" | "dropDatabase");
        if !shown && !self.options.expanded {
            return None;
        }
        let uuid = match told.get("uuid") {
            Some(Value::Binary(_, bytes)) => bytes.first_chunk().copied(),
            _ => None,
        };
        let mut event = self.begin(token, operation, uuid);
        let namespace = told.get("ns")?.as_str()?;
        let (database, collection) = split(namespace);
        append_namespace(&mut event, "ns", database, collection);
        if let Some(to) = told.get("to").and_then(|to| to.as_str()) {
            let (database, collection) = split(to);
            append_namespace(&mut event, "to", database, collection);
            if self.options.expanded {
                event.open_document("operationDescription");
                append_namespace(&mut event, "to", database, collection);
                if let Some(target) = told.get("dropTarget") {
                    event.append("dropTarget", target);
                }
                event.close();
            }
        }
        let description = told.get("operationDescription");
        if operation == "create" {
            let options = description.and_then(|options| options.as_document()).unwrap_or(Document::empty());
            event.append("nsType", if options.get("viewOn").is_some() { "view" } else { "collection" });
        }
        if let Some(description) = description {
            event.append("operationDescription", description);
        }
        if let Some(before) = told.get("stateBeforeChange") {
            event.open_document("stateBeforeChange").append("collectionOptions", before).close();
        }
        Some(event.finish())
    }
}

/// The database and the collection of a namespace.
pub(super) fn split(namespace: &str) -> (&str, Option<&str>) {
    match namespace.split_once('.') {
        Some((database, collection)) => (database, Some(collection)),
        None => (namespace, None),
    }
}

fn append_namespace(event: &mut DocumentBuilder, field: &str, database: &str, collection: Option<&str>) {
    event.open_document(field).append("db", database);
    if let Some(collection) = collection {
        event.append("coll", collection);
    }
    event.close();
}

fn append_or_null(event: &mut DocumentBuilder, field: &str, document: Option<Document<'_>>) {
    match document {
        Some(document) => event.append(field, document),
        None => event.append(field, Value::Null),
    };
}

fn no_image(which: &str) -> Error {
    let what = format!(
        "Change stream was configured to require a {which}-image for all update, delete and replace events, but the \
         {which}-image was not found for one of them"
    );
    Error::new(ErrorCode::NO_MATCHING_DOCUMENT, what)
}
