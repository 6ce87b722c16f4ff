//! The newest entries of the replicated log, in memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use spinney::base::num::usize_of;

use crate::entry::log_entry::{LogEntry, LogId};

/// The last entries of the log, without a gap.
#[derive(Debug, Default)]
pub(crate) struct CachedEntries {
    entries: VecDeque<Arc<LogEntry>>,
    bytes: usize,
}

impl CachedEntries {
    /// The index of the first entry that is cached.
    pub(crate) fn first(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.id.index)
    }

    /// The place of a cached entry.
    pub(crate) fn id(&self, index: u64) -> Option<LogId> {
        let at = index.checked_sub(self.first()?)?;
        Some(self.entries.get(usize_of(at))?.id)
    }

    /// The cached entries of `range`.
    pub(crate) fn range(&self, range: Range<u64>) -> impl Iterator<Item = &Arc<LogEntry>> {
        let first = self.first().unwrap_or(u64::MAX);
        let (skipped, end) = (range.start.saturating_sub(first), range.end.saturating_sub(first));
        self.entries.iter().take(usize_of(end)).skip(usize_of(skipped))
    }

    /// Adds an entry in the place of the one that has its index, and of all behind that. One that does not follow the
    /// last one has all others forgotten.
    pub(crate) fn push(&mut self, entry: Arc<LogEntry>) {
        self.truncate(entry.id.index);
        if self.entries.back().is_some_and(|last| last.id.index + 1 != entry.id.index) {
            *self = Self::default();
        }
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    /// Forgets the entries from `index` on.
    pub(crate) fn truncate(&mut self, index: u64) {
        while let Some(entry) = self.entries.pop_back_if(|entry| entry.id.index >= index) {
            self.bytes -= entry.bytes();
        }
    }

    /// Forgets the entries before `index`.
    pub(crate) fn purge(&mut self, index: u64) {
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.id.index < index) {
            self.bytes -= entry.bytes();
        }
    }

    /// Forgets the first entries, those before `end`, while all take more than `bytes_max`.
    pub(crate) fn evict(&mut self, bytes_max: usize, end: u64) {
        while self.bytes > bytes_max
            && let Some(entry) = self.entries.pop_front_if(|entry| entry.id.index < end)
        {
            self.bytes -= entry.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::log_entry::EntryKind;

    fn entry(term: u64, index: u64) -> Arc<LogEntry> {
        Arc::new(LogEntry { id: LogId { term, index }, kind: EntryKind::Blank, payload: Vec::new().into() })
    }

    fn places(cached: &CachedEntries, range: Range<u64>) -> Vec<(u64, u64)> {
        cached.range(range).map(|entry| (entry.id.term, entry.id.index)).collect()
    }

    #[test]
    fn entries_take_the_place_of_later_ones_and_stand_without_a_gap() {
        let mut cached = CachedEntries::default();
        (5..10).for_each(|index| cached.push(entry(1, index)));
        assert_eq!(places(&cached, 0..7), [(1, 5), (1, 6)]);
        assert_eq!(places(&cached, 8..100), [(1, 8), (1, 9)]);
        assert_eq!(places(&cached, 0..5), []);
        cached.push(entry(2, 7));
        assert_eq!((cached.id(7), cached.id(8)), (Some(LogId { term: 2, index: 7 }), None));
        cached.purge(6);
        assert_eq!(places(&cached, 0..100), [(1, 6), (2, 7)]);
        cached.push(entry(2, 9));
        assert_eq!(places(&cached, 0..100), [(2, 9)]);
    }

    #[test]
    fn what_may_not_be_forgotten_stays() {
        let mut cached = CachedEntries::default();
        (0..4).for_each(|index| cached.push(entry(1, index)));
        let bytes = entry(1, 0).bytes();
        cached.evict(3 * bytes, 4);
        assert_eq!(cached.first(), Some(1));
        cached.evict(0, 3);
        assert_eq!(places(&cached, 0..100), [(1, 3)]);
        cached.truncate(0);
        assert_eq!((cached.first(), cached.bytes), (None, 0));
    }
}
