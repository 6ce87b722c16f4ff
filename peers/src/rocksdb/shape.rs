//! The shape of a table's tree.

use super::native::{Db, LiveFile, TableHandle};
use spinney_lab::driver::{LevelShape, TableShape};
use std::collections::BTreeSet;

/// RocksDB's numbers of the levels: of L0, if it holds anything, then of each level below it that does. With dynamic
/// levels the first of them may well be L5.
pub(super) fn numbers(files: &[LiveFile]) -> Vec<Option<i32>> {
    let held: BTreeSet<_> = files.iter().map(|file| file.level).collect();
    let first = held.contains(&0).then_some(0);
    std::iter::once(first).chain(held.into_iter().filter(|&level| level > 0).map(Some)).collect()
}

/// The shape of a table with these files.
pub(super) fn of(db: &Db, table: TableHandle<'_>, name: &str, files: &[LiveFile]) -> TableShape {
    let number = |property| db.number(table, property);
    let levels: Vec<_> =
        (0..).zip(numbers(files)).filter_map(|(at, level)| Some(level_shape(at, level?, files))).collect();
    let immutable_memtables = number("rocksdb.num-immutable-mem-table");
    let runs: u64 = levels.iter().map(|level| level.sorted_runs).sum();
    TableShape {
        table: name.to_owned(),
        memtable_entries: number("rocksdb.num-entries-active-mem-table"),
        memtable_bytes: number("rocksdb.cur-size-active-mem-table"),
        immutable_memtables,
        // The memtable that takes writes is always searched.
        trees: Some(1 + immutable_memtables.unwrap_or(0) + runs),
        levels,
        ..TableShape::default()
    }
}

/// The files of the level that RocksDB numbers `level`.
fn level_shape(at: u64, level: i32, files: &[LiveFile]) -> LevelShape {
    let files: Vec<_> = files.iter().filter(|file| file.level == level).collect();
    LevelShape {
        level: at,
        sorted_runs: if level == 0 { files.len() as u64 } else { 1 },
        files: files.len() as u64,
        bytes: files.iter().map(|file| file.bytes).sum(),
        entries: Some(files.iter().map(|file| file.entries).sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(level: i32) -> LiveFile {
        LiveFile { table: String::new(), name: String::new(), level, bytes: 1, entries: 1 }
    }

    #[test]
    fn levels_are_numbered_by_what_they_hold() {
        assert_eq!(numbers(&[file(6), file(0), file(4), file(6)]), [Some(0), Some(4), Some(6)]);
        assert_eq!(numbers(&[file(6)]), [None, Some(6)]);
        assert_eq!(numbers(&[]), [None]);
    }
}
