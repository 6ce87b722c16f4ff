//! The batch memtable: a large batch becomes a memtable of its own, complete and sealed. Its entries are sorted where
//! they are, and neither copied nor inserted one by one.
//!
//! The batch goes to the redo log like any other, so that recovery has it and a change feed tells of it. From memory it
//! goes to disk as a run, together with what else waits for its flush.

use std::sync::Arc;

use crate::base::Kind;
use crate::base::num::u64_of;
use crate::db::state::table::{TableFinder, TableState};
use crate::tree::memtable::{BatchSorter, SortedBatch};
use crate::txn::batch::Changes;

/// How much a batch changes of a table.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Bytes of keys and values.
    bytes: usize,
    count: usize,
}

/// Sorts the changes of those of the tables that have many; for each of the tables whether it is one.
pub(super) fn sort_large(
    changes: &Arc<Changes>,
    tables: &[Arc<TableState>],
    large_bytes: u64,
) -> Vec<Option<SortedBatch>> {
    let (mut sizes, mut finder) = (vec![Size::default(); tables.len()], TableFinder::new(tables));
    for change in changes.iter() {
        if change.kind == Kind::RangeDelete {
            continue;
        }
        let size = &mut sizes[finder.find(change.table)];
        size.bytes += change.key.len() + change.value.len();
        size.count += 1;
    }
    sizes.iter_mut().filter(|size| u64_of(size.bytes) < large_bytes).for_each(|size| *size = Size::default());
    let sorter = |size: &Size| (size.bytes > 0).then(|| BatchSorter::new(size.count));
    let mut sorters: Vec<_> = sizes.iter().map(sorter).collect();
    for (table, spot) in changes.entry_offsets() {
        if let Some(sorter) = &mut sorters[finder.find(table)] {
            sorter.push(&spot);
        }
    }
    // They keep all of the batch.
    let rest = changes.bytes() - sizes.iter().map(|size| size.bytes).sum::<usize>();
    let large = sorters.iter().flatten().count();
    let sort = |(sorter, size): (Option<BatchSorter>, Size)| {
        sorter.map(|sorter| sorter.sort(Arc::<Changes>::clone(changes), size.bytes + rest / large))
    };
    sorters.into_iter().zip(sizes).map(sort).collect()
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use super::*;
    use crate::base::ErrorKind;
    use crate::db::state::options::Options;
    use crate::env::sim::{CrashProfile, SimEnv};
    use crate::table::{Layout, TableOptions};
    use crate::{Batch, Database, Durability, Range, Snapshot, Table};

    const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

    /// Changes of three quarters of a mebibyte are large.
    fn open(sim: &SimEnv) -> Database {
        let options = Options { memory_bytes: 8 << 20, log_segment_bytes: 64 << 10, ..Options::default() };
        Database::builder("/db").env(sim.env()).options(options).open().unwrap()
    }

    fn key(number: u32) -> Vec<u8> {
        format!("key{:06}", number.wrapping_mul(7919) % 100_000).into_bytes()
    }

    /// A value that does not shrink.
    fn value(number: u32) -> Vec<u8> {
        let mixed = (0..25u32).map(|at| (number + at).wrapping_mul(0x9e37_79b1) ^ number << 7);
        mixed.flat_map(u32::to_le_bytes).collect()
    }

    /// Puts keys of the table in no order, deletes every tenth of them, and erases a range in the middle.
    fn fill(batch: &mut Batch, table: &Table) {
        for number in 0..8000 {
            batch.put(table, key(number), value(number));
            if number % 10 == 0 {
                batch.delete(table, key(number));
            }
            if number == 4000 {
                batch.delete_range(table, (Bound::Included(&b"key02"[..]), Bound::Excluded(&b"key03"[..])));
            }
        }
    }

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    /// What a table holds, walked to in both directions and got key by key.
    fn pairs(snapshot: &Snapshot, table: &Table) -> Pairs {
        let owned = |range: Range| range.map(|entry| entry.map(|(key, value)| (key, value.to_vec())).unwrap());
        let pairs: Pairs = owned(snapshot.range(table, ..)).collect();
        let mut back: Pairs = owned(snapshot.range_rev(table, ..)).collect();
        back.reverse();
        assert!(pairs == back);
        let keys: Vec<_> = (0..8000).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        let many = snapshot.multi_get(table, &keys).unwrap();
        for (key, found) in keys.iter().zip(many) {
            let there = pairs.binary_search_by(|pair| (*pair.0).cmp(key)).ok().map(|at| &*pairs[at].1);
            assert_eq!(snapshot.get(table, key).unwrap().as_deref(), there);
            assert_eq!(found.as_deref(), there);
        }
        pairs
    }

    /// The same in a database where it is inserted entry by entry.
    fn expected() -> Pairs {
        let sim = SimEnv::new(1);
        let options = Options { memory_bytes: 256 << 20, ..Options::default() };
        let db = Database::builder("/db").env(sim.env()).options(options).open().unwrap();
        let table = db.create_table("t", TableOptions::default()).unwrap();
        let mut batch = Batch::new();
        fill(&mut batch, &table);
        assert!(u64_of(batch.bytes()) < db.core().commits.large_bytes());
        db.write_with(&batch, Durability::Sync).unwrap();
        pairs(&db.snapshot(), &table)
    }

    #[test]
    fn a_large_batch_is_found_as_if_it_had_been_inserted() {
        let wanted = expected();
        for layout in LAYOUTS {
            let sim = SimEnv::new(1);
            sim.set_lazy_workers(true);
            let db = open(&sim);
            let create = |name, logged| {
                db.create_table(name, TableOptions { layout, logged, ..TableOptions::default() }).unwrap()
            };
            let (large, small, unlogged) = (create("large", true), create("small", true), create("unlogged", false));
            let mut batch = Batch::new();
            batch.put(&large, key(1), b"old");
            db.write_with(&batch, Durability::Sync).unwrap();
            let (before, feed) = (db.snapshot(), db.log_end());
            let mut batch = Batch::new();
            batch.put(&small, b"small", b"value");
            fill(&mut batch, &unlogged);
            fill(&mut batch, &large);
            db.write_with(&batch, Durability::Sync).unwrap();
            for table in [&large, &unlogged] {
                let shape = table.shape().unwrap();
                assert_eq!((shape.memtable_entries, shape.l0.len()), (0, 0), "{layout:?}");
                assert!(shape.immutable_memtables >= 1 && shape.immutable_bytes > 800_000, "{shape:?}");
                assert!(pairs(&db.snapshot(), table) == wanted, "{layout:?}");
            }
            assert_eq!(small.shape().unwrap().memtable_entries, 1);
            assert!(pairs(&before, &large) == [(key(1), b"old".to_vec())], "{layout:?}");
            // What comes later is newer.
            let mut batch = Batch::new();
            batch.put(&large, key(1), b"new");
            db.write_with(&batch, Durability::Sync).unwrap();
            assert_eq!(db.snapshot().get(&large, key(1)).unwrap().as_deref(), Some(&b"new"[..]));
            let mut feed = db.changes(feed).unwrap();
            assert_eq!(feed.poll().unwrap().unwrap().count, 8000 + 800 + 1 + 1);
            // All of it goes to disk, and a crash takes nothing of what was logged.
            for name in ["large", "unlogged", "small"] {
                db.table(name).unwrap().unwrap().flush().unwrap();
            }
            assert_eq!(db.core().throttle.budget.memtable_bytes(), 0);
            assert!(pairs(&db.snapshot(), &unlogged) == wanted, "{layout:?}, flushed");
            assert!(pairs(&before, &large) == [(key(1), b"old".to_vec())], "{layout:?}, flushed");
        }
    }

    #[test]
    fn a_crash_keeps_all_of_a_large_batch_or_nothing() {
        let (wanted, mut outcomes) = (expected(), [0, 0]);
        for at in 0..30 {
            let sim = SimEnv::new(at);
            let db = open(&sim);
            let table = db.create_table("t", TableOptions::default()).unwrap();
            sim.crash_at(sim.write_and_sync_count() + 5 * at);
            let mut batch = Batch::new();
            fill(&mut batch, &table);
            let written = db.write_with(&batch, Durability::Sync).is_ok();
            drop((table, db));
            sim.power_crash(CrashProfile::EVERY[usize::try_from(at).unwrap() % CrashProfile::EVERY.len()]);
            let db = open(&sim);
            let found = pairs(&db.snapshot(), &db.table("t").unwrap().unwrap());
            assert!(found == wanted || found.is_empty() && !written, "at {at}");
            outcomes[usize::from(written)] += 1;
        }
        assert!(outcomes.iter().all(|count| *count > 2), "{outcomes:?}");
    }

    #[test]
    fn transactions_conflict_with_the_keys_of_a_large_batch() {
        let sim = SimEnv::new(1);
        sim.set_lazy_workers(true);
        let db = open(&sim);
        let table = db.create_table("t", TableOptions::default()).unwrap();
        let (mut touches, mut erases, mut misses) = (db.begin(), db.begin(), db.begin());
        touches.put(&table, key(5), b"mine").unwrap();
        erases.delete_range(&table, (Bound::Included(&key(6)[..]), Bound::Included(&key(6)[..]))).unwrap();
        misses.put(&table, b"no key of it", b"mine").unwrap();
        let mut large = db.begin();
        for number in 1..8000 {
            large.put(&table, key(number), [7; 100]).unwrap();
        }
        large.commit().unwrap();
        assert_eq!(table.shape().unwrap().memtable_entries, 0);
        for txn in [touches, erases] {
            assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
        }
        misses.commit().unwrap();
        assert_eq!(db.snapshot().get(&table, key(5)).unwrap().as_deref(), Some(&[7; 100][..]));
    }

    /// A member of a replica set ended with less memory than its primary had.
    #[test]
    fn a_batch_that_cannot_be_split_and_a_note_may_be_larger_than_memory_allows() {
        for layout in LAYOUTS {
            let sim = SimEnv::new(3);
            let db = open(&sim);
            let table = db.create_table("t", TableOptions { layout, ..TableOptions::default() }).unwrap();
            let fill = |value: u8| {
                let mut batch = Batch::new();
                (0..120).for_each(|number| batch.put(&table, key(number), [value; 100_000]));
                batch
            };
            let mut batch = fill(1);
            let refused = db.write_with(&batch, Durability::Sync).unwrap_err();
            assert!(refused.kind() == ErrorKind::TooLarge && refused.to_string().contains("memory_bytes"), "{refused}");
            batch.exceeds_memory();
            db.write_with(&batch, Durability::Sync).unwrap();
            db.write_with(fill(2).exceeds_memory(), Durability::Sync).unwrap();
            let mut batch = Batch::new();
            batch.put(&table, b"a", b"1");
            batch.note(vec![7; 12 << 20]);
            db.write_with(&batch, Durability::Sync).unwrap();
            let has_all = |table: &Table| {
                let found: Vec<_> = table.range(..).map(Result::unwrap).collect();
                found.len() == 121 && found[1..].iter().all(|(_, value)| value.iter().all(|byte| *byte == 2))
            };
            assert!(has_all(&table), "{layout:?}");
            drop((table, batch, db));
            sim.power_crash(CrashProfile::Strict);
            assert!(has_all(&open(&sim).table("t").unwrap().unwrap()), "{layout:?}, opened again");
        }
    }

    /// It poisoned the database, in the middle of the log's record.
    #[test]
    fn a_large_batch_without_room_in_the_log_is_refused_and_harms_nothing() {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = db.create_table("t", TableOptions::default()).unwrap();
        let mut batch = Batch::new();
        batch.put(&table, b"before", b"value");
        db.write_with(&batch, Durability::Sync).unwrap();
        let write = |value: u8| {
            let mut batch = Batch::new();
            for number in 0..19 {
                batch.put(&table, key(number), [value; 100_000]);
            }
            db.write_with(&batch, Durability::Sync)
        };
        sim.set_free(0);
        let refused = (0..5).find_map(|value| write(value).err()).unwrap();
        assert!(refused.kind() == ErrorKind::Full && refused.to_string().contains("redo log"), "{refused}");
        db.core().state.health.check_writable().unwrap();
        assert_eq!(db.snapshot().get(&table, b"before").unwrap().as_deref(), Some(&b"value"[..]));
        sim.set_space(u64::MAX);
        write(9).unwrap();
        assert_eq!(db.snapshot().get(&table, key(3)).unwrap().as_deref(), Some(&[9; 100_000][..]));
    }
}
