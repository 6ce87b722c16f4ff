//! The collections that a pipeline may read and write, and what it reads them from.

use std::fmt;
use std::sync::Arc;

use crate::aggregate::{self, Report, Rows};
use crate::base::{Environment, Result};
use crate::bson::ObjectIds;
use crate::catalog::{Catalog, CollectionState, Namespace};
use crate::collection::{Collection, WriteOptions};
use crate::exec::Reader;

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
}

impl Collections {
    /// The full name of a collection.
    ///
    /// # Errors
    /// `InvalidNamespace` (73).
    pub fn full_name(&self, namespace: &aggregate::Namespace) -> Result<Namespace> {
        Namespace::new(namespace.database.as_deref().unwrap_or(&self.database), &namespace.collection)
    }
}
