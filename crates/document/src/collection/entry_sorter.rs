//! Entries of an index that is built, sorted by their keys: in memory up to a limit, then in runs of a table.

use crate::aggregate::sorter::TemporaryTable;
use crate::base::Result;

/// Sorts entries, whose keys are different ones.
#[derive(Debug)]
pub(super) struct EntrySorter {
    engine: spinney::Database,
    bytes_max: usize,
    /// Keys and values, one behind the other.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// The entries that did not fit, each time a sorted part of them.
    spilled: Option<TemporaryTable>,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The first bytes of the key, so that most comparisons look at no key.
    head: u64,
    key: usize,
    value: usize,
    end: usize,
}

impl EntrySorter {
    /// A sorter that keeps up to some bytes in memory.
    pub(super) const fn new(engine: spinney::Database, bytes_max: usize) -> Self {
        Self { engine, bytes_max, bytes: Vec::new(), entries: Vec::new(), spilled: None }
    }

    /// Keeps only its part of the memory when there are `count` sorters.
    pub(super) const fn share(&mut self, count: usize) {
        self.bytes_max /= if count == 0 { 1 } else { count };
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        let (value, end) = (start + key.len(), self.bytes.len());
        let mut head = [0; 8];
        let len = key.len().min(8);
        head[..len].copy_from_slice(&key[..len]);
        self.entries.push(Entry { head: u64::from_be_bytes(head), key: start, value, end });
        if self.bytes.len() + self.entries.len() * size_of::<Entry>() >= self.bytes_max { self.spill() } else { Ok(()) }
    }

    /// Gives all entries to `take`, in the order of their keys.
    pub(super) fn finish(mut self, mut take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        if self.spilled.is_none() {
            return self.each_sorted(take);
        }
        self.spill()?;
        (self.bytes, self.entries) = (Vec::new(), Vec::new());
        let Some(spilled) = &self.spilled else { return Ok(()) };
        let mut range = spilled.table().range(..);
        while let Some((key, value)) = range.advance()? {
            take(key, value)?;
        }
        Ok(())
    }

    fn each_sorted(&mut self, mut take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let bytes = &self.bytes;
        self.entries.sort_unstable_by(|a, b| {
            a.head.cmp(&b.head).then_with(|| bytes[a.key..a.value].cmp(&bytes[b.key..b.value]))
        });
        self.entries.iter().try_for_each(|entry| take(&bytes[entry.key..entry.value], &bytes[entry.value..entry.end]))
    }

    /// Moves what is in memory to the table, as a sorted part.
    fn spill(&mut self) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let spilled = match self.spilled.take() {
            Some(spilled) => spilled,
            None => TemporaryTable::create(&self.engine)?,
        };
        let mut load = spilled.table().bulk_load()?;
        self.each_sorted(|key, value| Ok(load.push(key, value)?))?;
        load.finish()?;
        self.spilled = Some(spilled);
        self.bytes.clear();
        self.entries.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use spinney::Database;
    use spinney::env::sim::SimEnv;

    use super::*;

    #[test]
    fn entries_come_sorted_in_memory_and_out_of_it() {
        let engine = Database::builder("/db").env(SimEnv::new(1).env()).open().unwrap();
        for bytes_max in [1 << 20, 2000, 1] {
            let mut sorter = EntrySorter::new(engine.clone(), bytes_max);
            let keys: Vec<Vec<u8>> =
                (0..500_u32).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes().repeat(3)).collect();
            keys.iter().for_each(|key| sorter.push(key, &key[..2]).unwrap());
            assert_eq!(sorter.spilled.is_some(), bytes_max < 1 << 20);
            let mut sorted = keys.clone();
            sorted.sort();
            let mut found = Vec::new();
            let take = |key: &[u8], value: &[u8]| {
                assert_eq!(value, &key[..2]);
                found.push(key.to_vec());
                Ok(())
            };
            sorter.finish(take).unwrap();
            assert_eq!(found, sorted);
            assert!(engine.tables().unwrap().is_empty());
        }
    }
}
