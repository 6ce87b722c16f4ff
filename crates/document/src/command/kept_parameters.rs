//! The values of parameters that are kept in the database, in `config.clusterParameters`, and those that commands act
//! on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::Result;
use crate::bson::{Document, DocumentBuf, Value, long_of};
use crate::database::Database;

/// Where the values are kept.
pub(super) const COLLECTION: &str = "config.clusterParameters";

/// The seconds for which images before a change are shown that are not limited.
const OFF: u64 = u64::MAX;

/// The names.
pub(super) const NAMES: [&str; 4] =
    ["changeStreamOptions", "changeStreams", "defaultMaxTimeMS", "pauseMigrationsDuringMultiUpdates"];

/// The values that commands act on, as they are kept.
#[derive(Debug)]
pub struct ClusterParameters {
    /// How often they may have changed: by a command here, and by another member of a replica set.
    generation: Arc<AtomicU64>,
    /// In which generation they were read; 0 for never.
    read: AtomicU64,
    image_seconds: AtomicU64,
    read_ms: AtomicU64,
}

impl ClusterParameters {
    /// The parameters that are kept in a database.
    #[must_use]
    pub fn new(database: &Database) -> Self {
        let generation = database.catalog().generation_of(&[COLLECTION]);
        Self { generation, read: AtomicU64::new(0), image_seconds: AtomicU64::new(OFF), read_ms: AtomicU64::new(0) }
    }

    /// For how many seconds change streams show the documents before a change; for as long as they are there when
    /// nothing is set.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn image_seconds(&self, database: &Database) -> Result<Option<u64>> {
        self.read(database)?;
        Ok(Some(self.image_seconds.load(Ordering::Relaxed)).filter(|seconds| *seconds != OFF))
    }

    /// How long a command that reads may take in milliseconds when it does not say; 0 for no limit.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn read_ms(&self, database: &Database) -> Result<u64> {
        self.read(database)?;
        Ok(self.read_ms.load(Ordering::Relaxed))
    }

    fn read(&self, database: &Database) -> Result<()> {
        let generation = self.generation.load(Ordering::Acquire);
        if self.read.load(Ordering::Acquire) == generation {
            return Ok(());
        }
        for name in NAMES {
            self.take(name, value_of(database, name)?.view());
        }
        // Another thread that was here meanwhile has read the same, or is going to read again.
        self.read.store(generation, Ordering::Release);
        Ok(())
    }

    /// A value was changed. Commands that begin meanwhile see the old or the new one.
    pub(super) fn changed(&self) {
        // Released to commands, which read the values when they see another number.
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn take(&self, name: &str, value: Document<'_>) {
        let number = |value: Option<Value<'_>>| value.and_then(|value| long_of(&value)).map(i64::unsigned_abs);
        match name {
            "changeStreamOptions" => {
                let images = value.get("preAndPostImages").and_then(|images| images.as_document());
                let seconds = number(images.and_then(|images| images.get("expireAfterSeconds")));
                self.image_seconds.store(seconds.unwrap_or(OFF), Ordering::Relaxed);
            }
            "defaultMaxTimeMS" => {
                self.read_ms.store(number(value.get("readOperations")).unwrap_or_default(), Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// The value of a parameter as it is kept, or its default, without its name and time.
pub(super) fn value_of(database: &Database, name: &str) -> Result<DocumentBuf> {
    let kept = match database.collection(COLLECTION)? {
        Some(collection) => collection.find_by_id(name)?,
        None => None,
    };
    Ok(match kept {
        Some(kept) => DocumentBuf::from(kept.view()),
        None => match name {
            "changeStreamOptions" => doc! {"preAndPostImages": &doc! {"expireAfterSeconds": "off"}},
            "changeStreams" => doc! {"expireAfterSeconds": 3600_i64},
            "defaultMaxTimeMS" => doc! {"readOperations": 0_i64},
            _ => doc! {"enabled": false},
        },
    })
}
