//! The right of a transaction to write to a capped collection.

use std::fmt;
use std::sync::Arc;

use crate::base::Result;
use crate::catalog::{CappedLock, CollectionState, Holdings};

/// What a transaction changes in a capped collection. It has the lock of the collection until it ends.
pub(super) struct CappedWrite {
    collection: Arc<CollectionState>,
    lock: CappedLock,
    /// What the collection holds with the changes of the transaction, once it has made some.
    now: Option<Holdings>,
}

impl fmt::Debug for CappedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CappedWrite").field("collection", &self.collection.number).field("now", &self.now).finish()
    }
}

impl CappedWrite {
    /// Waits for the lock of a collection that is capped.
    ///
    /// # Errors
    /// Those of [`Capped::lock`](crate::catalog::Capped::lock).
    pub(super) fn begin(collection: &Arc<CollectionState>) -> Result<Option<Self>> {
        let Some(capped) = &collection.capped else { return Ok(None) };
        Ok(Some(Self { collection: Arc::clone(collection), lock: capped.lock()?, now: None }))
    }

    pub(super) fn is_of(&self, collection: &CollectionState) -> bool {
        self.collection.number == collection.number
    }

    /// The changes are committed: others see them before the lock is free.
    pub(super) fn committed(mut self) {
        if let Some(now) = self.now {
            *self.lock = Some(now);
        }
        drop(self.lock);
        self.collection.capped.iter().for_each(|capped| capped.committed());
    }

    /// What the collection holds with the changes.
    pub(super) fn holdings(&mut self) -> Result<&mut Holdings> {
        let before = match *self.lock {
            Some(before) => before,
            None => *self.lock.insert(Holdings::count(&self.collection.table)?),
        };
        Ok(self.now.get_or_insert(before))
    }
}
