//! What a database must hold: ordered maps in memory.

use super::batch::{Batch, Change};
use super::client::{Direction, Scan};
use super::config::TableId;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The tables of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model(Vec<BTreeMap<Vec<u8>, Vec<u8>>>);

/// What a key had before a change, so that the change can be taken back.
#[derive(Debug)]
pub(super) struct Undo {
    table: TableId,
    key: Vec<u8>,
    before: Option<Vec<u8>>,
}

impl Model {
    /// So many empty tables.
    pub(super) fn new(tables: usize) -> Self {
        Self(vec![BTreeMap::new(); tables])
    }

    /// Applies the changes in their order, and notes in `undo` what was there before.
    pub(super) fn apply(&mut self, batch: &Batch, undo: &mut Vec<Undo>) {
        for change in batch.iter() {
            let (table, key, value) = match change {
                Change::Put(table, key, value) => (table, key, Some(value.to_vec())),
                Change::Delete(table, key) => (table, key, None),
            };
            let before = self.set(table, key.to_vec(), value);
            undo.push(Undo { table, key: key.to_vec(), before });
        }
    }

    /// Takes changes back, the last first.
    pub(super) fn take_back(&mut self, undo: &mut Vec<Undo>) {
        while let Some(Undo { table, key, before }) = undo.pop() {
            self.set(table, key, before);
        }
    }

    /// Gives a key a value, or none; returns the value that it had.
    pub(super) fn set(&mut self, table: TableId, key: Vec<u8>, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let entries = &mut self.0[table.0];
        match value {
            Some(value) => entries.insert(key, value),
            None => entries.remove(&key),
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, table: TableId, key: &[u8]) -> Option<&[u8]> {
        self.0[table.0].get(key).map(Vec::as_slice)
    }

    /// The entries that a scan visits, in its order.
    pub(super) fn scan<'m>(&'m self, scan: &Scan<'_>) -> Box<dyn Iterator<Item = (&'m [u8], &'m [u8])> + 'm> {
        let from = scan.from.map_or(Bound::Unbounded, Bound::Included);
        let until = scan.until.map_or(Bound::Unbounded, Bound::Excluded);
        let forward = scan.direction == Direction::Forward;
        let bounds = if forward { (from, until) } else { (until, from) };
        if let (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) = bounds
            && low >= high
        {
            // Only a range that includes both its ends may begin and end with one key, and a scan excludes its end.
            return Box::new(std::iter::empty());
        }
        let entries = self.0[scan.table.0].range::<[u8], _>(bounds);
        let entries = entries.map(|(key, value)| (key.as_slice(), value.as_slice()));
        let limit = usize::try_from(scan.limit).unwrap_or(usize::MAX);
        if forward { Box::new(entries.take(limit)) } else { Box::new(entries.rev().take(limit)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(model: &Model, direction: Direction, from: Option<&str>, until: Option<&str>, limit: u64) -> String {
        let (from, until) = (from.map(str::as_bytes), until.map(str::as_bytes));
        let scan = Scan { table: TableId(0), from, until, direction, limit };
        model.scan(&scan).map(|(key, _)| std::str::from_utf8(key).unwrap()).collect()
    }

    #[test]
    fn a_scan_includes_its_from_and_excludes_its_until() {
        let mut model = Model::new(1);
        for key in ["a", "b", "c", "d"] {
            model.set(TableId(0), key.into(), Some(Vec::new()));
        }
        let (forward, backward) = (Direction::Forward, Direction::Backward);
        assert_eq!(keys(&model, forward, Some("b"), Some("d"), 9), "bc");
        assert_eq!(keys(&model, backward, Some("d"), Some("b"), 9), "dc");
        assert_eq!(keys(&model, backward, Some("c"), None, 2), "cb");
        assert_eq!(keys(&model, forward, None, None, u64::MAX), "abcd");
        assert_eq!(keys(&model, forward, Some("c"), Some("c"), 9), "");
        assert_eq!(keys(&model, backward, Some("a"), Some("c"), 9), "");
    }

    #[test]
    fn changes_are_taken_back_last_first() {
        let mut model = Model::new(2);
        let mut batch = Batch::new();
        batch.put(TableId(0), b"k", b"1");
        model.apply(&batch, &mut Vec::new());
        let before = model.clone();
        batch.clear();
        batch.put(TableId(0), b"k", b"2");
        batch.delete(TableId(0), b"k");
        batch.put(TableId(1), b"k", b"3");
        let mut undo = Vec::new();
        model.apply(&batch, &mut undo);
        assert_eq!((model.get(TableId(0), b"k"), model.get(TableId(1), b"k")), (None, Some(&b"3"[..])));
        model.take_back(&mut undo);
        assert_eq!(model, before);
    }
}
