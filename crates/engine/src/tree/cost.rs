//! What reads cost the trees.

/// What one or some reads looked at. (Kept by the reader, and added to shared counters once.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Of lookups: trees in which a key was looked for, but for those that a filter or view ruled out or could as well
    /// have.
    pub trees: u64,
    /// Those of them that are memtables which lie in the processor's cache.
    pub small: u64,
    /// Filters that were asked.
    pub filters: u64,
    /// Runs that a filter kept a lookup or a walk out of, or in which a lookup that did not ask it found nothing, in
    /// memory.
    pub filter_stops: u64,
    /// Filters that let a key pass which the run then had no version of that is seen.
    pub filter_misses: u64,
    /// Sorted views that were searched: each in place of several trees.
    pub views: u64,
    /// Blocks of indexes and leaves that were looked at, in the cache or not; filters are not among them.
    pub blocks: u64,
    /// Blocks of any kind that were read from files.
    pub blocks_read: u64,
}

impl Costs {
    /// The sum of two.
    #[inline]
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            trees: self.trees + other.trees,
            small: self.small + other.small,
            filters: self.filters + other.filters,
            filter_stops: self.filter_stops + other.filter_stops,
            filter_misses: self.filter_misses + other.filter_misses,
            views: self.views + other.views,
            blocks: self.blocks + other.blocks,
            blocks_read: self.blocks_read + other.blocks_read,
        }
    }
}
