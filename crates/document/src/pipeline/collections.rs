//! The collections that a pipeline may read and write, and what it reads them from.

use std::fmt;
use std::sync::Arc;

use super::rewrites::Rewrites;
use crate::aggregate::{self, Report, Rows};
use crate::base::{Environment, Result};
use crate::bson::{DocumentBuilder, ObjectIds};
use crate::catalog::{Catalog, CollectionState, Namespace};
use crate::collection::{Collection, WriteOptions};
use crate::exec::Reader;
use crate::plan::{AllowedIndexes, IndexHints};

/// What a database is made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The collections.
    pub catalog: Arc<Catalog>,
    /// Where new `_id`s come from.
    pub ids: Arc<ObjectIds>,
    /// Time and randomness.
    pub environment: Arc<dyn Environment>,
}

impl Parts {
    /// The handle of a collection.
    #[must_use]
    pub fn collection(&self, state: Arc<CollectionState>) -> Collection {
        Collection::new(Arc::clone(&self.catalog), state, Arc::clone(&self.ids), Arc::clone(&self.environment))
    }
}

/// What `$currentOp`, `$listLocalSessions` and others ask.
pub trait Server: fmt::Debug + Send + Sync {
    /// What a stage tells.
    ///
    /// # Errors
    /// `NotImplemented` (238) for what the server does not tell.
    fn report(&self, report: &Report) -> Result<Rows>;

    /// Appends how long commands on a collection took: a document for each kind of command, with a histogram when it is
    /// asked for.
    fn append_latencies(&self, namespace: &str, histograms: bool, builder: &mut DocumentBuilder);

    /// The name and port that clients reach the server by.
    fn host(&self) -> String;
}

/// All collections, as one reader sees them.
#[derive(Clone, Debug)]
pub struct Collections {
    /// The database that is read.
    pub parts: Parts,
    /// The snapshot or transaction that everything is read from.
    pub reader: Arc<dyn Reader>,
    /// The name of the database that names without one belong to.
    pub database: String,
    /// How `$out` and `$merge` commit.
    pub write: WriteOptions,
    /// What `$currentOp` and others ask, if there is a server.
    pub server: Option<Arc<dyn Server>>,
    /// The only indexes that are considered, where that is limited.
    pub index_hints: Option<Arc<IndexHints>>,
    /// The short cuts that are taken.
    pub rewrites: Rewrites,
}

impl Collections {
    /// The only indexes of a collection that are considered, if that is limited.
    #[must_use]
    pub fn allowed(&self, namespace: &Namespace) -> Option<Arc<AllowedIndexes>> {
        self.index_hints.as_ref()?.of(namespace)
    }

    /// The full name of a collection.
    ///
    /// # Errors
    /// `InvalidNamespace` (73).
    pub fn full_name(&self, namespace: &aggregate::Namespace) -> Result<Namespace> {
        Namespace::new(namespace.database.as_deref().unwrap_or(&self.database), &namespace.collection)
    }
}
