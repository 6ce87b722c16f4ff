//! Where in the redo log the entries are stored that wait to be applied: their commits repeat them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use spinney::StoredNote;

use crate::entry::log_entry::{EntryKind, LogEntry, LogId};

/// Bytes of entries that are remembered, more or less, where the memory of the engine allows for as many. Entries that
/// come while there are more are written again by the commits that apply them, as are those of an earlier open and
/// those of a segment of the redo log that is full.
const BYTES_MAX: usize = 16 << 20;

/// Entries with their notes. Cheap to clone: what is written and what applies share them.
#[derive(Clone, Debug)]
pub(crate) struct StoredEntries {
    bytes_max: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<u64, (LogId, Stored, usize)>,
    bytes: usize,
}

/// Where an entry is stored.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) note: Arc<StoredNote>,
    /// Where its payload begins in the note.
    pub(crate) payload_at: usize,
}

impl StoredEntries {
    /// None yet, and at most so many bytes of them.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max: bytes_max.min(BYTES_MAX), state: Arc::default() }
    }

    /// Notes that a note holds entries, each with where its payload begins. They take the place of those that had their
    /// indexes, and of all behind.
    pub(crate) fn add<'a>(&self, note: &Arc<StoredNote>, entries: impl Iterator<Item = (&'a LogEntry, usize)>) {
        let mut state = self.state.lock();
        for (entry, payload_at) in entries {
            let replaced = state.entries.split_off(&entry.id.index);
            state.bytes -= replaced.values().map(|(_, _, bytes)| bytes).sum::<usize>();
            if entry.kind == EntryKind::Change && state.bytes < self.bytes_max {
                let stored = Stored { note: Arc::clone(note), payload_at };
                state.bytes += entry.bytes();
                state.entries.insert(entry.id.index, (entry.id, stored, entry.bytes()));
            }
        }
    }

    /// Takes an entry, if it is known where it is stored, and forgets those before it.
    pub(crate) fn take(&self, id: LogId) -> Option<Stored> {
        let mut state = self.state.lock();
        let behind = state.entries.split_off(&(id.index + 1));
        let mut taken = std::mem::replace(&mut state.entries, behind);
        state.bytes -= taken.values().map(|(_, _, bytes)| bytes).sum::<usize>();
        taken.remove(&id.index).filter(|(stored, ..)| *stored == id).map(|(_, stored, _)| stored)
    }
}

#[cfg(test)]
mod tests {
    use spinney::env::sim::SimEnv;
    use spinney::{Batch, Database, Durability};

    use super::*;

    #[test]
    fn replaced_entries_are_not_found_and_applied_ones_are_forgotten() {
        let database = Database::builder("/db").env(SimEnv::new(1).env()).open().unwrap();
        let mut batch = Batch::new();
        batch.note("entries");
        let note = Arc::new(database.write_note(&batch, Durability::Buffered).unwrap());
        let entry = |term, index, kind, bytes| {
            let payload = vec![7; bytes].into();
            LogEntry { id: LogId { term, index }, kind, payload }
        };
        let change = |term, index| entry(term, index, EntryKind::Change, 5);
        let stored = StoredEntries::new(usize::MAX);
        let add = |entries: &[LogEntry]| stored.add(&note, entries.iter().zip([10, 20, 30]));
        add(&[change(1, 4), entry(1, 5, EntryKind::Blank, 0), change(1, 6)]);
        add(&[change(2, 6)]);
        assert!(stored.take(LogId { term: 1, index: 5 }).is_none(), "nothing is made of it");
        assert!(stored.take(LogId { term: 1, index: 4 }).is_none(), "it is forgotten with the next one");
        assert_eq!(stored.take(LogId { term: 2, index: 6 }).map(|stored| stored.payload_at), Some(10));
        add(&[change(2, 7)]);
        assert!(stored.take(LogId { term: 1, index: 7 }).is_none(), "another entry");
        assert_eq!(stored.state.lock().bytes, 0);
        add(&[entry(2, 8, EntryKind::Change, BYTES_MAX), change(2, 9)]);
        assert!(
            stored.take(LogId { term: 2, index: 8 }).is_some() && stored.take(LogId { term: 2, index: 9 }).is_none()
        );
    }
}
