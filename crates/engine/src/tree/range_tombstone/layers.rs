//! The range tombstones of a table in few sets: those that are on disk in one, those in memory in others, each at least
//! twice as large as the next.
//!
//! A batch adds a set of its own. When there are too many sets, pairs of them are merged in the background, while
//! commits and readers go on: a range tombstone is copied a logarithmic number of times until it is in the largest set,
//! and a reader searches a logarithmic number of sets. This is the logarithmic method of Bentley and Saxe
//! ("Decomposable searching problems", 1980).

use std::ops::Bound;
use std::sync::Arc;

use super::set::RangeTombstones;
use crate::base::SeqNum;

/// Sets of range tombstones. A range tombstone hides the same in each of them.
#[derive(Clone, Debug, Default)]
pub struct TombstoneLayers {
    on_disk: Arc<RangeTombstones>,
    /// Oldest first, none of them empty.
    in_memory: Vec<Arc<RangeTombstones>>,
    /// How many range tombstones there are.
    len: usize,
}

impl TombstoneLayers {
    /// Range tombstones that are on disk.
    #[must_use]
    pub fn of_disk(on_disk: &Arc<RangeTombstones>) -> Self {
        Self::new(Arc::clone(on_disk), Vec::new())
    }

    fn new(on_disk: Arc<RangeTombstones>, in_memory: Vec<Arc<RangeTombstones>>) -> Self {
        let len = on_disk.len() + in_memory.iter().map(|set| set.len()).sum::<usize>();
        Self { on_disk, in_memory, len }
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// About how many range tombstones there are: neighbours of one seqnum in a set count as one.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// How many sets are in memory.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        self.in_memory.len()
    }

    /// The sets, oldest first.
    pub(super) fn sets(&self) -> impl Iterator<Item = &Arc<RangeTombstones>> {
        Some(&self.on_disk).filter(|set| !set.is_empty()).into_iter().chain(&self.in_memory)
    }

    /// The seqnum below which `snapshot` does not see entries of `key`; zero when nothing covers it.
    #[must_use]
    pub fn floor(&self, key: &[u8], snapshot: SeqNum) -> SeqNum {
        self.sets().map(|set| set.floor(key, snapshot)).max().unwrap_or_default()
    }

    /// Whether any of them covers `key`.
    #[must_use]
    pub fn cover(&self, key: &[u8]) -> bool {
        self.sets().any(|set| !set.covering(key).is_empty())
    }

    /// As [`RangeTombstones::touch`].
    #[must_use]
    pub fn touch(&self, low: &[u8], high: Bound<&[u8]>, span: (SeqNum, SeqNum)) -> bool {
        self.sets().any(|set| set.touch(low, high, span))
    }

    /// These and another set in memory, newer than all.
    #[must_use]
    pub fn with(&self, set: &Arc<RangeTombstones>) -> Self {
        let set = Some(set).filter(|set| !set.is_empty());
        Self::new(Arc::clone(&self.on_disk), self.in_memory.iter().chain(set).cloned().collect())
    }

    /// These and another set in memory, as few sets. All that see any of them see all.
    #[must_use]
    pub fn with_joined(&self, set: RangeTombstones) -> Self {
        let mut all = self.with(&Arc::new(set));
        while let Some(pair) = all.pair_to_join(|_, _| true) {
            let as_one = Arc::new(pair[0].and_told(&pair[1], &[SeqNum::MAX]));
            all = all.joined(&pair, &as_one).unwrap_or(all);
        }
        all
    }

    /// Two neighbours in memory that should be one set, if `may_join` says that they may.
    #[must_use]
    pub fn pair_to_join(
        &self,
        may_join: impl Fn(&RangeTombstones, &RangeTombstones) -> bool,
    ) -> Option<[Arc<RangeTombstones>; 2]> {
        let is_due = |pair: &&[Arc<RangeTombstones>]| {
            pair[0].segments() < 2 * pair[1].segments() && may_join(&pair[0], &pair[1])
        };
        let pair = self.in_memory.windows(2).rfind(is_due)?;
        Some([Arc::clone(&pair[0]), Arc::clone(&pair[1])])
    }

    /// With two neighbours as one set; none when they are not here any more.
    #[must_use]
    pub fn joined(&self, pair: &[Arc<RangeTombstones>; 2], as_one: &Arc<RangeTombstones>) -> Option<Self> {
        let is_pair =
            |here: &[Arc<RangeTombstones>]| Arc::ptr_eq(&here[0], &pair[0]) && Arc::ptr_eq(&here[1], &pair[1]);
        let at = self.in_memory.windows(2).position(is_pair)?;
        let mut in_memory = self.in_memory.clone();
        in_memory.splice(at..at + 2, [Arc::clone(as_one)]);
        Some(Self::new(Arc::clone(&self.on_disk), in_memory))
    }

    /// Those in memory of which all are older than `seqnum`, in one set.
    #[must_use]
    pub fn before(&self, seqnum: SeqNum) -> Arc<RangeTombstones> {
        let older = self.in_memory.iter().filter(|set| set.newest() < seqnum);
        // The smallest first.
        older.rev().cloned().reduce(|all, set| Arc::new(set.and(&all))).unwrap_or_default()
    }

    /// All in one set.
    #[must_use]
    pub fn all(&self) -> Arc<RangeTombstones> {
        Arc::new(self.on_disk.and(&self.before(SeqNum(u64::MAX))))
    }

    /// The same, where those that [`Self::before`] tells of are on disk now, among `on_disk`.
    #[must_use]
    pub fn flushed(&self, on_disk: &Arc<RangeTombstones>, before: SeqNum) -> Self {
        let newer = self.in_memory.iter().filter(|set| set.newest() >= before);
        Self::new(Arc::clone(on_disk), newer.cloned().collect())
    }
}
