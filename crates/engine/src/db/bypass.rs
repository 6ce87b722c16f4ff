//! The bypass: a large batch becomes a memtable of its own, complete and frozen. Its entries are sorted where they are, and neither copied nor
//! inserted one by one.
//!
//! The batch goes to the redo log like any other, so that recovery has it and a change feed tells of it. From memory it goes to disk as a run,
//! together with what else waits for its flush.

use std::ops::Range;
use std::sync::Arc;

use crate::base::Reached;
use crate::base::num::u64_of;
use crate::table::version::{Mem, Moment};
use crate::tree::memtable::{Memtable, SortedBatch};
use crate::txn::batch::Changes;

use super::core::Core;
use super::table::Table;
use super::write::position;

/// Changes of a table are large from such a part on of what active memtables may take: flushed by themselves, they are no small run.
const LARGE_PART: u64 = 4;

/// How much a batch changes of a table.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Bytes of keys and values.
    bytes: usize,
    count: usize,
}

impl Core {
    /// From so many bytes on changes of a table have a memtable of their own.
    pub(super) fn large_bytes(&self) -> u64 {
        let part = self.memory.active_max() / LARGE_PART;
        if self.options.memtable_bytes == 0 { part } else { part.min(self.options.memtable_bytes) }
    }

    /// Sorts the changes of those of the tables that have many; for each of the tables whether it is one.
    pub(super) fn sort_large(&self, changes: &Arc<Changes>, tables: &[Table]) -> Vec<Option<SortedBatch>> {
        let (mut sizes, mut at) = (vec![Size::default(); tables.len()], 0);
        for change in changes.iter() {
            if tables[at].state().id != change.table {
                at = position(tables, change.table);
            }
            sizes[at].bytes += change.key.len() + change.value.len();
            sizes[at].count += 1;
        }
        let is_large = |size: &Size| u64_of(size.bytes) >= self.large_bytes();
        let large: usize = sizes.iter().filter(|size| is_large(size)).map(|size| size.bytes).sum();
        let sorted = |(table, size): (&Table, Size)| {
            is_large(&size).then(|| {
                // They keep all of the batch.
                let rest = (changes.bytes() - large) / large.div_ceil(size.bytes);
                let spots = changes.spots(table.state().id);
                SortedBatch::new(Arc::<Changes>::clone(changes), (spots, size.count), size.bytes + rest)
            })
        };
        tables.iter().zip(sizes).map(sorted).collect()
    }

    /// Shows readers the sorted changes of a batch that stands in the log at `place`, where nobody sees them before they are published. The
    /// caller holds the commit latch.
    pub(super) fn bypass(&self, tables: &[Table], sorted: &[Option<SortedBatch>], place: &Range<Moment>) {
        for (table, batch) in tables.iter().zip(sorted) {
            let Some(batch) = batch else { continue };
            let mem = Mem::of_batch(Memtable::of_batch(batch.clone(), place.start.next_seqnum), place);
            self.memory.count(&mem);
            self.memory.froze(&mem);
            self.freeze(table.state(), place.start, Some(&mem));
            Reached::Bypass.mark();
        }
    }
}
