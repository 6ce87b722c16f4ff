//! The documents that a search has met, where it may meet one several times.

use std::collections::HashSet;
use std::sync::Arc;

use spinney::{Batch, Durability};

use crate::aggregate::Memory;
use crate::aggregate::sorter::TemporaryTable;
use crate::base::Result;

/// The bytes of keys that go to a table together.
const PART_BYTES: usize = 1 << 20;

/// The keys of documents that were met: in memory up to the limit of the query, then in a table of the engine, or
/// refused where there is none.
#[derive(Debug)]
pub(super) struct Met {
    memory: Arc<Memory>,
    keys: HashSet<Vec<u8>>,
    /// What `keys` takes, as the memory has it counted.
    bytes: usize,
    table: Option<TemporaryTable>,
}

impl Met {
    pub(super) fn new(memory: Arc<Memory>) -> Self {
        Self { memory, keys: HashSet::new(), bytes: 0, table: None }
    }

    /// Adds a document; whether it was not met before.
    ///
    /// # Errors
    /// Code 292 when the limit of memory is exceeded and there is no database for the rest; those of the engine.
    pub(super) fn insert(&mut self, key: &[u8]) -> Result<bool> {
        if self.keys.contains(key) {
            return Ok(false);
        }
        if let Some(table) = &self.table
            && table.table().get(key)?.is_some()
        {
            return Ok(false);
        }
        // Of a set a part is empty, and each key has an allocation.
        let bytes = key.len() + 2 * size_of::<Vec<u8>>();
        self.bytes += bytes;
        let fits = self.memory.try_take(bytes);
        self.keys.insert(key.to_vec());
        if !fits && (self.table.is_none() || self.bytes >= PART_BYTES) {
            self.spill()?;
        }
        Ok(true)
    }

    /// Moves the keys to the table.
    fn spill(&mut self) -> Result<()> {
        let Some(engine) = self.memory.spill() else { return Err(self.memory.exceeded("the search of an index")) };
        let table = match &self.table {
            Some(table) => table,
            None => self.table.insert(TemporaryTable::create(engine)?),
        };
        let (mut batch, mut bytes) = (Batch::new(), 0);
        for key in self.keys.drain() {
            batch.put(table.table(), &key, b"");
            bytes += key.len();
            if bytes >= PART_BYTES {
                engine.write_with(&std::mem::replace(&mut batch, Batch::new()), Durability::Buffered)?;
                bytes = 0;
            }
        }
        engine.write_with(&batch, Durability::Buffered)?;
        self.keys.shrink_to_fit();
        self.memory.give(std::mem::take(&mut self.bytes));
        Ok(())
    }
}

impl Drop for Met {
    fn drop(&mut self) {
        self.memory.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that a search over an index with arrays had met were counted nowhere, so that one search took any
    /// memory.
    #[test]
    fn what_was_met_is_counted_and_goes_to_a_table_or_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let engine = spinney::Database::open(dir.path().join("db"), spinney::Options::default()).unwrap();
        let keys = || (0..50_000_u32).map(u32::to_be_bytes);
        let mut small = Met::new(Arc::new(Memory::new(100_000)));
        let refused = keys().find_map(|key| small.insert(&key).err());
        assert_eq!(refused.map(|error| error.code().number()), Some(292));
        let memory = Arc::new(Memory::new(100_000).with_spill(engine.clone()));
        let mut met = Met::new(Arc::clone(&memory));
        for key in keys() {
            assert!(met.insert(&key).unwrap());
            assert!(met.bytes <= 100_000 + 2 * PART_BYTES, "{}", met.bytes);
        }
        assert_eq!(engine.tables().unwrap().len(), 1);
        assert!(keys().step_by(7).all(|key| !met.insert(&key).unwrap()));
        drop(met);
        assert!(memory.has_room() && engine.tables().unwrap().is_empty());
    }
}
