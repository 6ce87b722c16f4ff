//! Compaction filters: what a program lets flushes and compactions do with the values that they write.
//!
//! A value that is not wanted any more, such as a session that is over, need not be found and deleted: the flush or
//! compaction that writes it the next time asks the table's filter first. The interface is RocksDB's
//! (`CompactionFilter`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What becomes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// It stays.
    Keep,
    /// The key has no value any more, as after a delete.
    Remove,
    /// The key has this value. (One that is too long to be stored, or that the table's merge operator refuses, is not
    /// taken, and the old one stays.)
    Change(Vec<u8>),
}

/// Decides what becomes of values when a flush or compaction writes them. Registered under a name with
/// [`DatabaseBuilder::compaction_filter`](crate::DatabaseBuilder::compaction_filter), and named by the tables that use
/// it ([`TableOptions::compaction_filter`](crate::TableOptions::compaction_filter)).
///
/// It is asked for values that every snapshot sees, when they are the newest of their key in the trees that are merged.
/// It may be asked about the same value many times, or never: it is not known when a value is written again, and what
/// was just committed is not asked about before a flush. So reads must be ready to meet what it would remove. What it
/// decides shows to all readers at once, also through a snapshot or transaction that began before: it must not touch
/// what one of these could still want. It is called in background threads and in those that flush or compact, with
/// latches held; it must not use the database, nor panic: in a background thread that ends the process, and elsewhere
/// it fails the flush or compaction. Nothing is lost by either.
///
/// A value that newer operands of a merge will change is asked about as it is, without them, when they are in other
/// trees.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use spinney::{Batch, CompactionFilter, Database, Decision, Durability, TableOptions};
///
/// /// Values begin with the second in which the session ends; `now` stands for a clock.
/// #[derive(Debug)]
/// struct DropSessions {
///     now: &'static AtomicU64,
/// }
///
/// impl CompactionFilter for DropSessions {
///     fn filter(&self, _key: &[u8], value: &[u8]) -> Decision {
///         match value.first_chunk::<8>() {
///             Some(end) if u64::from_le_bytes(*end) <= self.now.load(Ordering::Relaxed) => Decision::Remove,
///             _ => Decision::Keep,
///         }
///     }
/// }
///
/// static NOW: AtomicU64 = AtomicU64::new(1000);
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("db");
/// let db = Database::builder(&path).compaction_filter("drop-sessions", DropSessions { now: &NOW }).open()?;
/// let options = TableOptions::default().compaction_filter("drop-sessions");
/// let sessions = db.create_table("sessions", options)?;
/// let mut batch = Batch::new();
/// batch.put(&sessions, b"ann", &1060u64.to_le_bytes());
/// batch.put(&sessions, b"bob", &1090u64.to_le_bytes());
/// db.write_with(&batch, Durability::Buffered)?;
/// NOW.store(1070, Ordering::Relaxed);
/// sessions.compact()?;
/// assert!(db.snapshot().get(&sessions, b"ann")?.is_none());
/// assert!(db.snapshot().get(&sessions, b"bob")?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait CompactionFilter: Send + Sync + fmt::Debug {
    /// What becomes of `value`, which `key` has.
    fn filter(&self, key: &[u8], value: &[u8]) -> Decision;
}

/// The compaction filters that were registered, by name.
pub type CompactionFilters = BTreeMap<String, Arc<dyn CompactionFilter>>;

/// A table's compaction filter, if it names one that was registered.
#[derive(Clone, Debug, Default)]
pub struct TableFilter(Option<Arc<dyn CompactionFilter>>);

impl TableFilter {
    /// The compaction filter of a table whose options name it so.
    #[must_use]
    pub fn find(name: Option<&str>, filters: &CompactionFilters) -> Self {
        Self(name.and_then(|name| filters.get(name).cloned()))
    }

    /// Whether there is one.
    #[inline]
    #[must_use]
    pub const fn is_registered(&self) -> bool {
        self.0.is_some()
    }

    /// What becomes of `value`; it stays when no filter is registered.
    #[must_use]
    pub fn decide(&self, key: &[u8], value: &[u8]) -> Decision {
        self.0.as_ref().map_or(Decision::Keep, |filter| filter.filter(key, value))
    }
}
