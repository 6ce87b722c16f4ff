//! Query settings: for the queries of a shape, which indexes are considered, and whether they are refused. They are
//! documents of `config.querySettings`, each under the hash of its shape, so that they are as durable as documents are,
//! and the members of a replica set share them.
//!
//! # Concurrency
//! The settings in memory are those of a generation, which each change raises: one of a command here, and one that
//! another member of a replica set has made. Where there are none a query reads two atomics.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::catalog::{NamedIndex, Namespace};
use crate::database::Database;
use crate::plan::{AllowedIndexes, IndexHints};

/// Where they are kept.
pub(super) const COLLECTION: &str = "config.querySettings";

/// The query settings.
#[derive(Debug)]
pub struct QuerySettings {
    /// How often they may have changed.
    generation: Arc<AtomicU64>,
    /// The generation in which there were none.
    none_in: AtomicU64,
    known: RwLock<Known>,
    /// Held by a change.
    changing: Mutex<()>,
}

/// What was read.
#[derive(Debug, Default)]
struct Known {
    /// In which generation; 0 for never.
    generation: u64,
    settings: HashMap<String, Arc<QuerySetting>>,
}

/// The settings of the queries of a shape.
#[derive(Clone, Debug)]
pub struct QuerySetting {
    /// The hash of the shape.
    pub hash: String,
    /// A query of the shape, unless the hash alone was given.
    pub query: Option<DocumentBuf>,
    /// The settings as they were given.
    pub document: DocumentBuf,
    /// The indexes that are considered, if that is limited.
    pub hints: Option<Arc<IndexHints>>,
    /// Whether the queries are refused.
    pub rejects: bool,
}

impl QuerySettings {
    /// The settings in a database.
    #[must_use]
    pub fn new(database: &Database) -> Self {
        let generation = database.catalog().generation_of(&[COLLECTION]);
        Self { generation, none_in: AtomicU64::new(0), known: RwLock::default(), changing: Mutex::default() }
    }

    /// The settings of the shape with a hash, which is only asked for when there are settings.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn of(&self, database: &Database, hash: impl FnOnce() -> String) -> Result<Option<Arc<QuerySetting>>> {
        // A query that begins while settings change may run by the old ones.
        let generation = self.generation.load(Ordering::Acquire);
        if self.none_in.load(Ordering::Acquire) == generation {
            return Ok(None);
        }
        self.refresh(database, generation)?;
        Ok(self.known.read().settings.get(&hash()).cloned())
    }

    /// All settings, by their hashes.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn list(&self, database: &Database) -> Result<Vec<Arc<QuerySetting>>> {
        self.refresh(database, self.generation.load(Ordering::Acquire))?;
        let mut all: Vec<_> = self.known.read().settings.values().cloned().collect();
        all.sort_by(|a, b| a.hash.cmp(&b.hash));
        Ok(all)
    }

    /// Changes the settings of a shape: `change` is given those of now and returns those to come, or nothing for none.
    ///
    /// # Errors
    /// What `change` says; those of writes.
    pub fn change(
        &self,
        database: &Database,
        hash: &str,
        change: impl FnOnce(Option<&QuerySetting>) -> Result<Option<QuerySetting>>,
    ) -> Result<()> {
        let _changing = interrupt::wait(|nap| self.changing.try_lock_for(nap))?;
        let collection = database.collection(COLLECTION)?;
        let stored = collection.as_ref().map(|collection| collection.find_by_id(hash)).transpose()?.flatten();
        // One that is malformed is replaced, or removed.
        let before = stored.as_ref().and_then(|stored| QuerySetting::parse(stored.view()).ok());
        match (change(before.as_ref())?, stored.is_some()) {
            (Some(setting), true) => _ = existing(collection)?.replace_by_id(hash, setting.stored().view())?,
            (Some(setting), false) => {
                _ = database.collection_or_create(COLLECTION)?.insert_one(setting.stored().view())?;
            }
            (None, true) => _ = existing(collection)?.delete_by_id(hash)?,
            (None, false) => {}
        }
        // Released to queries, which read the settings when they see another number.
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn refresh(&self, database: &Database, generation: u64) -> Result<()> {
        if self.known.read().generation == generation {
            return Ok(());
        }
        let mut known = self.known.write();
        let mut settings = HashMap::new();
        if let Some(collection) = database.collection(COLLECTION)? {
            for stored in collection.documents() {
                // One that is malformed is none, so that it fails no query.
                if let Ok(setting) = QuerySetting::parse(stored?.view()) {
                    settings.insert(setting.hash.clone(), Arc::new(setting));
                }
            }
        }
        if settings.is_empty() {
            self.none_in.store(generation, Ordering::Release);
        }
        *known = Known { generation, settings };
        Ok(())
    }
}

fn existing<T>(collection: Option<T>) -> Result<T> {
    collection.ok_or_else(|| Error::new(ErrorCode::NAMESPACE_NOT_FOUND, format!("{COLLECTION} was dropped")))
}

impl QuerySetting {
    /// The indexes of a collection that are considered, if that is limited.
    #[must_use]
    pub fn allowed(&self, namespace: &Namespace) -> Option<Arc<AllowedIndexes>> {
        self.hints.as_ref()?.of(namespace)
    }

    /// Settings as they are kept.
    fn parse(stored: Document<'_>) -> Result<Self> {
        let corrupt = |field: &str| {
            let what = format!("a document of {COLLECTION} has no usable '{field}'");
            Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, what)
        };
        let hash = stored.get("_id").and_then(|hash| hash.as_str().map(str::to_owned)).ok_or_else(|| corrupt("_id"))?;
        let settings = stored.get("settings").and_then(|settings| settings.as_document());
        let settings = settings.ok_or_else(|| corrupt("settings"))?;
        let query = match stored.get("query") {
            None => None,
            // As bytes, since its fields may have any name.
            Some(Value::Binary(_, bytes)) => Some(Document::parse(bytes)?.into()),
            Some(_) => return Err(corrupt("query")),
        };
        Self::new(hash, query, settings).map_err(|_| corrupt("settings"))
    }

    /// The settings in a document whose fields were checked.
    ///
    /// # Errors
    /// `InvalidNamespace` (73).
    pub fn new(hash: String, query: Option<DocumentBuf>, document: Document<'_>) -> Result<Self> {
        let mut hints = Vec::new();
        for hint in document.get("indexHints").and_then(|hints| hints.as_array()).into_iter().flatten() {
            hints.extend(hint.as_document().map(allowed).transpose()?);
        }
        let hints = (!hints.is_empty()).then(|| Arc::new(IndexHints(hints)));
        let rejects = document.get("reject") == Some(Value::Bool(true));
        Ok(Self { hash, query, document: document.into(), hints, rejects })
    }

    /// The document that is kept.
    fn stored(&self) -> DocumentBuf {
        let mut stored = DocumentBuilder::new();
        stored.append("_id", &self.hash);
        if let Some(query) = &self.query {
            stored.append("query", Value::Binary(0, query.as_bytes()));
        }
        stored.append("settings", &self.document);
        stored.finish()
    }
}

/// The indexes that a hint allows.
fn allowed(hint: Document<'_>) -> Result<Arc<AllowedIndexes>> {
    let namespace = hint.get("ns").and_then(|ns| ns.as_document()).unwrap_or(Document::empty());
    let text = |field: &str| namespace.get(field).and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    let namespace = Namespace::new(&text("db"), &text("coll"))?;
    let (mut indexes, mut natural) = (Vec::new(), false);
    for index in hint.get("allowedIndexes").and_then(|indexes| indexes.as_array()).into_iter().flatten() {
        match index {
            Value::String(name) if name == "$natural" => natural = true,
            Value::String(name) => indexes.push(NamedIndex::Name(name.to_str_lossy().into_owned())),
            Value::Document(pattern) if pattern.get("$natural").is_some() => natural = true,
            Value::Document(pattern) => indexes.push(NamedIndex::Pattern(pattern.into())),
            _ => {}
        }
    }
    Ok(Arc::new(AllowedIndexes { namespace, indexes, natural }))
}
