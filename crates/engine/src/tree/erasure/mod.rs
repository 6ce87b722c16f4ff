//! Erasures: ranges of keys that were deleted at once, and which of them cover a key.
//!
//! An erasure is no entry of a tree. It stands in the redo log, and from its commit on in what readers of the table see; it hides every
//! entry in its range with a smaller seqnum, from snapshots that see it. A flush or compaction drops what an erasure hides from all
//! snapshots; what it wrote is then *clean* up to that erasure, which need not be looked at again there.
//!
//! # Invariants
//! 1. A tree that is clean up to a seqnum holds no entry that an erasure up to there hides. Its entries count as having at least that
//!    seqnum: so the seqnum zero, which stands for "seen by all", is never taken for one before an erasure.
//! 2. Every live snapshot sees all that any tree is clean up to.

mod cursor;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::Limits;
use crate::base::SeqNum;

pub use cursor::Unerased;

/// A range of keys that was deleted at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// The keys.
    pub range: Limits,
    /// When the deletion became visible.
    pub seqnum: SeqNum,
}

/// Keys that a tree may hold, and the erasures that were applied to it.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// The first key.
    pub smallest: &'a [u8],
    /// The last key; none when it is not known.
    pub largest: Option<&'a [u8]>,
    /// The tree is clean up to here.
    pub clean_to: SeqNum,
}

/// A set of erasures.
///
/// Their borders cut the keys into segments, of which each has the seqnums of the erasures that cover it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasures {
    /// Keys, ascending, at which segments end and the next begin.
    borders: Vec<Arc<[u8]>>,
    /// The seqnums of each segment, descending: one segment more than borders. None at all without erasures.
    segments: Vec<Arc<[SeqNum]>>,
    newest: SeqNum,
}

impl FromIterator<Erasure> for Erasures {
    fn from_iter<I: IntoIterator<Item = Erasure>>(erasures: I) -> Self {
        let mut all = Self::default();
        erasures.into_iter().for_each(|erasure| all.add(&erasure));
        all.tidied()
    }
}

impl Erasures {
    /// The erasure of all keys.
    #[must_use]
    pub fn of_all(seqnum: SeqNum) -> Self {
        Erasures::from_iter([Erasure { range: Limits::default(), seqnum }])
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The largest seqnum of any.
    #[must_use]
    pub const fn newest(&self) -> SeqNum {
        self.newest
    }

    /// About how many there are: neighbours of one seqnum count as one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Adds an erasure. One of an empty range changes nothing.
    pub fn add(&mut self, erasure: &Erasure) {
        let Limits { low, high, .. } = &erasure.range;
        if high.as_ref().is_some_and(|high| high <= low) {
            return;
        }
        if self.segments.is_empty() {
            self.segments.push(Arc::default());
        }
        let from = self.split(low);
        let to = high.as_ref().map_or(self.segments.len(), |high| self.split(high));
        for seqnums in &mut self.segments[from..to] {
            let at = seqnums.partition_point(|seqnum| *seqnum > erasure.seqnum);
            if seqnums.get(at) != Some(&erasure.seqnum) {
                let (newer, older) = seqnums.split_at(at);
                *seqnums = newer.iter().chain([&erasure.seqnum]).chain(older).copied().collect();
            }
        }
        self.newest = self.newest.max(erasure.seqnum);
    }

    /// These and another one.
    #[must_use]
    pub fn with(&self, erasure: &Erasure) -> Self {
        let mut all = self.clone();
        all.add(erasure);
        all
    }

    /// These and others.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        let mut all = self.clone();
        others.iter().for_each(|erasure| all.add(&erasure));
        all.tidied()
    }

    /// Those with a seqnum that `stays` says.
    #[must_use]
    pub fn filtered(&self, stays: impl Fn(SeqNum) -> bool) -> Self {
        self.iter().filter(|erasure| stays(erasure.seqnum)).collect()
    }

    /// Makes `key` a border; the segment that begins with it.
    fn split(&mut self, key: &[u8]) -> usize {
        let at = self.borders.partition_point(|border| **border < *key);
        if self.borders.get(at).is_none_or(|border| **border != *key) {
            self.borders.insert(at, key.into());
            let seqnums = Arc::clone(&self.segments[at]);
            self.segments.insert(at, seqnums);
        }
        at + 1
    }

    /// The segment that `key` lies in.
    #[inline]
    fn segment_of(&self, key: &[u8]) -> usize {
        self.borders.partition_point(|border| **border <= *key)
    }

    /// The first key of a segment, if it has one before which there are others.
    #[inline]
    fn start(&self, segment: usize) -> Option<&[u8]> {
        segment.checked_sub(1).map(|before| &*self.borders[before]).filter(|start| !start.is_empty())
    }

    /// The key with which the next segment begins.
    #[inline]
    fn end(&self, segment: usize) -> Option<&[u8]> {
        self.borders.get(segment).map(|border| &**border)
    }

    /// The seqnums of the erasures that cover `key`, descending.
    #[inline]
    #[must_use]
    pub fn covering(&self, key: &[u8]) -> &Arc<[SeqNum]> {
        static NONE: std::sync::LazyLock<Arc<[SeqNum]>> = std::sync::LazyLock::new(Arc::default);
        self.segments.get(self.segment_of(key)).unwrap_or(&NONE)
    }

    /// The seqnum below which `snapshot` does not see entries of `key`; zero when nothing covers it.
    #[must_use]
    pub fn floor(&self, key: &[u8], snapshot: SeqNum) -> SeqNum {
        floor(self.covering(key), snapshot)
    }

    /// The seqnums of the segments that touch the keys from `low` to `high`.
    fn touching(&self, low: &[u8], high: Bound<&[u8]>) -> &[Arc<[SeqNum]>] {
        if self.is_empty() {
            return &[];
        }
        let to = match high {
            Bound::Unbounded => self.segments.len(),
            Bound::Included(high) => self.segment_of(high) + 1,
            Bound::Excluded(high) => self.borders.partition_point(|border| **border < *high) + 1,
        };
        self.segments.get(self.segment_of(low)..to).unwrap_or_default()
    }

    /// Whether any erasure after `after` and up to `to` covers a key from `low` to `high`.
    #[must_use]
    pub fn touch(&self, low: &[u8], high: Bound<&[u8]>, (after, to): (SeqNum, SeqNum)) -> bool {
        self.touching(low, high).iter().any(|seqnums| floor(seqnums, to) > after)
    }

    /// Whether erasures after `after` and up to `to` cover all keys from `low` to `high`, both included.
    #[must_use]
    pub fn cover(&self, low: &[u8], high: &[u8], (after, to): (SeqNum, SeqNum)) -> bool {
        !self.is_empty() && self.touching(low, Bound::Included(high)).iter().all(|seqnums| floor(seqnums, to) > after)
    }

    /// What of them must stay, where `snapshots` are all that are live and the least that may come, ascending, and `trees` all trees
    /// that hold entries older than the erasures. An erasure goes where no snapshot tells it from a newer one, and where all snapshots see
    /// it and every tree is clean up to it.
    #[must_use]
    pub fn needed(&self, snapshots: &[SeqNum], trees: &[Held<'_>]) -> Self {
        let (oldest, published) = match snapshots {
            [oldest, .., published] => (*oldest, *published),
            [only] => (*only, *only),
            [] => (SeqNum::ZERO, SeqNum::ZERO),
        };
        let mut needed = Self { borders: self.borders.clone(), ..Self::default() };
        for (segment, seqnums) in self.segments.iter().enumerate() {
            let (low, high) = (self.start(segment).unwrap_or_default(), self.end(segment));
            let touches = |held: &&Held<'_>| {
                held.largest.is_none_or(|largest| low <= largest) && high.is_none_or(|high| held.smallest < high)
            };
            let clean_to = trees.iter().filter(touches).map(|held| held.clean_to).min().unwrap_or(SeqNum::MAX);
            let tells = |seqnum: SeqNum| snapshots.iter().any(|snapshot| floor(seqnums, *snapshot) == seqnum);
            let stays =
                |seqnum: SeqNum| (seqnum > published || tells(seqnum)) && (seqnum > oldest || seqnum > clean_to);
            needed.segments.push(seqnums.iter().copied().filter(|seqnum| stays(*seqnum)).collect());
        }
        needed.tidied()
    }

    /// The same erasures, without borders between segments that have the same.
    fn tidied(self) -> Self {
        let mut tidied = Self::default();
        let borders = std::iter::once(None).chain(self.borders.into_iter().map(Some));
        for (border, seqnums) in borders.zip(self.segments) {
            if tidied.segments.last() != Some(&seqnums) {
                tidied.borders.extend(border.filter(|_| !tidied.segments.is_empty()));
                tidied.newest = seqnums.first().map_or(tidied.newest, |newest| tidied.newest.max(*newest));
                tidied.segments.push(seqnums);
            }
        }
        if tidied.borders.is_empty() { Self::default() } else { tidied }
    }

    /// The erasures, each as large as it can be, by where they end.
    pub fn iter(&self) -> impl Iterator<Item = Erasure> + '_ {
        let mut open: BTreeMap<SeqNum, usize> = BTreeMap::new();
        let mut found = Vec::new();
        for segment in 0..=self.segments.len() {
            let here: &[SeqNum] = self.segments.get(segment).map_or(&[], |seqnums| seqnums);
            open.retain(|seqnum, from| {
                let goes_on = here.contains(seqnum);
                if !goes_on {
                    let low = self.start(*from).unwrap_or_default().to_vec();
                    let high = segment.checked_sub(1).and_then(|last| self.end(last)).map(<[u8]>::to_vec);
                    found.push(Erasure { range: Limits::new(low, high, None), seqnum: *seqnum });
                }
                goes_on
            });
            for seqnum in here {
                open.entry(*seqnum).or_insert(segment);
            }
        }
        found.into_iter()
    }
}

/// The largest of descending seqnums that is up to `snapshot`; zero when there is none.
#[inline]
fn floor(seqnums: &[SeqNum], snapshot: SeqNum) -> SeqNum {
    seqnums.iter().copied().find(|seqnum| *seqnum <= snapshot).unwrap_or(SeqNum::ZERO)
}
