//! What a transaction has read: single keys and the parts of ranges that it walked, which must be unchanged when it
//! commits (backward validation of optimistic concurrency control, Kung and Robinson 1981; ranges keep phantoms out).
//!
//! # Invariants
//! 1. The set covers all that was read, and perhaps more: beyond `BYTES_MAX` keys and ranges that are neighbours
//!    become one range, and a range that is still being walked counts as a whole. So a change that matters is never
//!    missed, and one that does not may be taken for one.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use crate::base::TableId;
use crate::base::num::u64_of;
use crate::tree::Limits;
use crate::tree::cursor::after;

/// Memory that the set takes at most.
const BYTES_MAX: u64 = 1 << 20;
/// Memory that a key or a range takes beside its bytes.
const ITEM_BYTES: u64 = 64;

/// The reads of a transaction.
#[derive(Debug, Default)]
pub struct ReadSet {
    tables: BTreeMap<TableId, TableReads>,
    /// Ranges that are being walked, by the number of the walk.
    walks: BTreeMap<u64, (TableId, Limits)>,
    next_walk: u64,
    bytes: u64,
}

/// The reads of a table.
#[derive(Debug, Default)]
struct TableReads {
    keys: HashSet<Vec<u8>>,
    /// Disjoint ranges that do not touch: where each ends, by where it begins. `None` is the end of the table.
    ranges: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: u64,
}

impl ReadSet {
    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.walks.is_empty()
    }

    /// A key was read.
    pub fn add_key(&mut self, table: TableId, key: &[u8]) {
        let reads = self.tables.entry(table).or_default();
        if reads.keys.contains(key) || reads.ranges_cover(key) {
            return;
        }
        reads.keys.insert(key.to_vec());
        reads.bytes += item_bytes(key, None);
        self.settle();
    }

    /// A range was walked.
    pub fn add_range(&mut self, table: TableId, range: &Limits) {
        if !range.is_empty() {
            self.tables.entry(table).or_default().add_range(range.low.clone(), range.high.clone());
            self.settle();
        }
    }

    /// A walk of a range begins, which counts as a whole until the walk ends; the number of the walk.
    pub fn begin_walk(&mut self, table: TableId, range: Limits) -> u64 {
        let number = self.next_walk;
        self.next_walk += 1;
        self.walks.insert(number, (table, range));
        number
    }

    /// A walk ends that has come over these parts of its range; over all of it, if none are told.
    pub fn end_walk(&mut self, number: u64, walked: Option<&[Limits]>) {
        let Some((table, whole)) = self.walks.remove(&number) else { return };
        for part in walked.unwrap_or(&[whole]) {
            self.add_range(table, part);
        }
    }

    /// Whether a change of a key is one of what was read.
    #[must_use]
    pub fn has_key(&self, table: TableId, key: &[u8]) -> bool {
        let is_walked = |(of, range): &(TableId, Limits)| *of == table && range.contain(key);
        self.tables.get(&table).is_some_and(|reads| reads.keys.contains(key) || reads.ranges_cover(key))
            || self.walks.values().any(is_walked)
    }

    /// Whether a change of all keys from `low` on, up to `high`, is one of what was read.
    #[must_use]
    pub fn meets(&self, table: TableId, low: &[u8], high: Option<&[u8]>) -> bool {
        self.each()
            .any(|(of, from, to)| of == table && high.is_none_or(|high| from < high) && to.is_none_or(|to| low < to))
            || self.tables.get(&table).is_some_and(|reads| {
                reads.keys.iter().any(|key| low <= &**key && high.is_none_or(|high| &**key < high))
            })
    }

    /// The single keys that were read.
    pub fn keys(&self) -> impl Iterator<Item = (TableId, &[u8])> {
        self.tables.iter().flat_map(|(table, reads)| reads.keys.iter().map(|key| (*table, &**key)))
    }

    /// The ranges that were walked.
    pub fn ranges(&self) -> impl Iterator<Item = (TableId, Limits)> {
        self.each().map(|(table, low, high)| (table, Limits::new(low.to_vec(), high.map(<[u8]>::to_vec), None)))
    }

    fn each(&self) -> impl Iterator<Item = (TableId, &[u8], Option<&[u8]>)> {
        let settled = self
            .tables
            .iter()
            .flat_map(|(table, reads)| reads.ranges.iter().map(|(low, high)| (*table, &**low, high.as_deref())));
        settled.chain(self.walks.values().map(|(table, range)| (*table, &*range.low, range.high.as_deref())))
    }

    /// Counts the memory, and makes the set coarser when it is too much.
    fn settle(&mut self) {
        self.bytes = self.tables.values().map(|reads| reads.bytes).sum();
        while self.bytes > BYTES_MAX
            && let Some(largest) = self.tables.values_mut().max_by_key(|reads| reads.bytes)
        {
            largest.coarsen();
            self.bytes = self.tables.values().map(|reads| reads.bytes).sum();
        }
    }
}

impl TableReads {
    fn ranges_cover(&self, key: &[u8]) -> bool {
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        before.is_some_and(|(_, high)| high.as_deref().is_none_or(|high| key < high))
    }

    /// Adds a range, joined with those that it meets or touches.
    fn add_range(&mut self, mut low: Vec<u8>, mut high: Option<Vec<u8>>) {
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(&*low))).next_back();
        if let Some((from, to)) = before.filter(|(_, to)| to.as_ref().is_none_or(|to| low <= *to)) {
            if to.is_none() || high.is_some() && *to >= high {
                return;
            }
            low = from.clone();
        }
        while let Some((from, to)) = self.ranges.range(low.clone()..).next()
            && high.as_ref().is_none_or(|high| from <= high)
        {
            let (from, to) = (from.clone(), to.clone());
            self.ranges.remove(&from);
            self.bytes -= item_bytes(&from, to.as_deref());
            high = high.zip(to).map(|(high, to)| high.max(to));
        }
        self.bytes += item_bytes(&low, high.as_deref());
        self.ranges.insert(low, high);
    }

    /// Makes one range of every two neighbours, keys and ranges alike.
    fn coarsen(&mut self) {
        let keys = std::mem::take(&mut self.keys).into_iter().map(|key| (key.clone(), Some(after(key))));
        let mut items: Vec<_> = keys.chain(std::mem::take(&mut self.ranges)).collect();
        items.sort_unstable();
        self.bytes = 0;
        for pair in items.chunks(2) {
            let (first, last) = (&pair[0], &pair[pair.len() - 1]);
            // The first may reach behind the last, which it holds then.
            let high = first.1.clone().zip(last.1.clone()).map(|(first, last)| first.max(last));
            self.add_range(first.0.clone(), high);
        }
    }
}

fn item_bytes(low: &[u8], high: Option<&[u8]>) -> u64 {
    u64_of(low.len() + high.map_or(0, <[u8]>::len)) + ITEM_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TableId = TableId(1);

    fn range(low: &str, high: Option<&str>) -> Limits {
        Limits::new(low.into(), high.map(Into::into), None)
    }

    fn ranges(reads: &ReadSet) -> Vec<(String, Option<String>)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        reads.ranges().map(|(_, range)| (text(range.low), range.high.map(text))).collect()
    }

    #[test]
    fn ranges_that_meet_or_touch_become_one() {
        let mut reads = ReadSet::default();
        for (low, high) in [("d", "f"), ("a", "b"), ("k", "m"), ("b", "c"), ("e", "l"), ("d", "e"), ("x", "x")] {
            reads.add_range(T, &range(low, Some(high)));
        }
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(ranges(&reads), [("a".to_owned(), some("c")), ("d".to_owned(), some("m"))]);
        reads.add_range(T, &range("l", None));
        assert_eq!(ranges(&reads), [("a".to_owned(), some("c")), ("d".to_owned(), None)]);
        reads.add_range(T, &range("z", Some("zz")));
        assert_eq!(ranges(&reads).len(), 2);
        for (key, is_read) in [("", false), ("a", true), ("bz", true), ("c", false), ("d", true), ("zzz", true)] {
            assert_eq!(reads.has_key(T, key.as_bytes()), is_read, "{key}");
        }
        assert!(!reads.has_key(TableId(2), b"a"));
    }

    #[test]
    fn a_range_of_changes_meets_keys_and_ranges_at_their_ends() {
        let mut reads = ReadSet::default();
        reads.add_key(T, b"c");
        reads.add_range(T, &range("f", Some("h")));
        for (low, high, meets) in [
            ("a", Some("c"), false),
            ("a", Some("cc"), true),
            ("c", Some("d"), true),
            ("cc", Some("f"), false),
            ("cc", Some("ff"), true),
            ("h", None, false),
            ("gg", None, true),
        ] {
            assert_eq!(reads.meets(T, low.as_bytes(), high.map(str::as_bytes)), meets, "{low}..{high:?}");
        }
    }

    /// Until it ends, nobody knows how far the walk goes.
    #[test]
    fn a_walk_counts_as_a_whole_until_it_ends() {
        let mut reads = ReadSet::default();
        let (first, second) = (reads.begin_walk(T, range("a", None)), reads.begin_walk(T, range("p", Some("q"))));
        assert!(reads.has_key(T, b"z"));
        reads.end_walk(first, Some(&[range("a", Some("b")), range("y", None)]));
        assert!(reads.has_key(T, b"a") && !reads.has_key(T, b"b") && reads.has_key(T, b"z"));
        reads.end_walk(second, None);
        assert!(reads.has_key(T, b"p") && !reads.has_key(T, b"q"));
    }

    #[test]
    fn many_reads_become_coarse_and_forget_none() {
        let mut reads = ReadSet::default();
        let key = |number: u32| (number.wrapping_mul(2_654_435_761)).to_be_bytes();
        (0..50_000).for_each(|number| reads.add_key(T, &key(number)));
        for number in 0..5000_u32 {
            let low = [&[7], &key(number)[..]].concat();
            reads.add_range(T, &Limits::new(low.clone(), Some(after(low)), None));
        }
        assert!(reads.bytes <= BYTES_MAX, "{}", reads.bytes);
        assert!((0..50_000).all(|number| reads.has_key(T, &key(number))));
        assert!((0..5000).all(|number| reads.has_key(T, &[&[7], &key(number)[..]].concat())));
        let others = (0..1000_u32).filter(|number| reads.has_key(T, &[&[9], &key(*number)[..]].concat())).count();
        assert!(others < 1000, "what is far from all that was read is not read");
    }
}
