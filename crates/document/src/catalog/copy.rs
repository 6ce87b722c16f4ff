//! Copies of the database for other members of a replica set. A copy has no log, which tells what sessions have done
//! and what was added to the counts of collections: both go with it.

use std::path::Path;
use std::sync::Arc;

use super::count_recovery::StoredCounts;
use super::counts::{COUNTS, CopiedCounts, Mark, key_of, pair};
use super::own::forget_own;
use super::registry::Catalog;
use super::tables::CATALOG;
use crate::base::Result;

/// A copy of the database that is being made. Until it is, or is dropped, commits store what sessions do.
#[derive(Debug)]
pub struct Copying {
    sessions: StoredSessions,
    counts: StoredCounts,
}

#[derive(Debug)]
struct StoredSessions(Arc<Catalog>);

impl Drop for StoredSessions {
    fn drop(&mut self) {
        self.0.recorder().end_copy();
    }
}

impl Catalog {
    /// Has what sessions have done, and counts, stored in the database, for a checkpoint that another member can begin
    /// with: it must know the writes that must not be done again.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn begin_copy(self: &Arc<Self>) -> Result<Copying> {
        let sessions = StoredSessions(Arc::clone(self));
        self.recorder().begin_copy(self.engine(), &self.table)?;
        Ok(Copying { sessions, counts: self.store_counts_for_copy()? })
    }
}

impl Copying {
    /// Makes the checkpoint in the new directory `dir`. What is returned goes with it, to [`adopt`].
    ///
    /// # Errors
    /// Those of [`spinney::Database::checkpoint`].
    pub fn checkpoint(self, dir: impl AsRef<Path>) -> Result<CopiedCounts> {
        let catalog = &self.sessions.0;
        let newest = catalog.engine().checkpoint(dir)?.newest;
        catalog.counts_at(newest, self.counts)
    }
}

/// Makes a copy of another member's database this member's own: it forgets the collections that the other member had
/// for itself, and knows how many documents the others have. The database of documents must not be open.
///
/// # Errors
/// Those of the engine.
pub fn adopt(engine: &spinney::Database, copied: &CopiedCounts) -> spinney::Result<()> {
    forget_own(engine)?;
    let Some(table) = engine.table(CATALOG)? else { return Ok(()) };
    let mut batch = spinney::Batch::new();
    batch.delete_range(&table, spinney::prefix_range(COUNTS));
    let newest = engine.snapshot().seqnum();
    for (number, count) in &copied.counts {
        batch.put(&table, key_of(*number), pair(*count, newest.0));
    }
    let mark = Mark { position: spinney::Lsn(0), random: 0, next: copied.next, is_last: true };
    batch.put(&table, COUNTS, mark.encode());
    engine.write(&batch)
}
