//! The tables of an open database, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::sync::{RwLock, RwLockWriteGuard};
use crate::base::{FileId, SeqNum, TableId};
use crate::table::seqnum_to_time::SeqnumToTime;
use crate::table::{TableOptions, Trees};
use crate::tree::btree::BTree;
use crate::tree::memtable::ChunkPool;

use super::registered::Registered;
use super::table::TableState;
use super::wakers::Wakers;

/// The tables by name.
pub(crate) type Tables = BTreeMap<String, Arc<TableState>>;

/// The tables of an open database.
#[derive(Debug)]
pub(crate) struct TableSet {
    registered: Registered,
    wakers: Arc<Wakers>,
    /// Where the memtables of all tables take their memory from.
    memtable_chunks: Arc<ChunkPool>,
    tables: RwLock<Tables>,
}

impl TableSet {
    pub(crate) fn new(registered: Registered, wakers: Arc<Wakers>) -> Self {
        Self { registered, wakers, memtable_chunks: Arc::default(), tables: RwLock::default() }
    }

    /// The memory that memtables have given back and that others will take.
    pub(crate) fn memtable_chunks(&self) -> &Arc<ChunkPool> {
        &self.memtable_chunks
    }

    /// What the program has registered.
    pub(crate) fn registered(&self) -> &Registered {
        &self.registered
    }

    /// The table of a name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<TableState>> {
        self.tables.read().get(name).cloned()
    }

    /// All tables, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<TableState>> {
        self.tables.read().values().cloned().collect()
    }

    /// The tables, locked: none is created or dropped.
    pub(crate) fn lock(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write()
    }

    /// A table with these trees on disk and nothing in memory, which is not in the set yet. No commit before
    /// `created_at` could change it.
    pub(crate) fn table(
        &self,
        (id, name, options): (TableId, String, TableOptions),
        created_at: SeqNum,
        trees: Trees,
        btree: Option<(FileId, Arc<BTree>)>,
        seqnum_to_time: SeqnumToTime,
    ) -> TableState {
        let shared = (&self.registered, Arc::clone(&self.wakers), Arc::clone(&self.memtable_chunks));
        TableState::new((id, name, options), created_at, shared, trees, btree, seqnum_to_time)
    }
}
