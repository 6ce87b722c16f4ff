//! How a set of range tombstones is made: segment by segment, in the order of the keys.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::range::{RangeEnds, RangeTombstone};
use super::set::RangeTombstones;
use crate::base::SeqNum;
use crate::base::steps::step;

/// Keys that a tree may hold, and the range tombstones that were applied to it.
#[derive(Clone, Copy, Debug)]
pub struct TreeExtent<'a> {
    /// The first key.
    pub smallest: &'a [u8],
    /// The last key; none when it is not known.
    pub largest: Option<&'a [u8]>,
    /// The tree is clean up to here.
    pub clean_to: SeqNum,
}

impl FromIterator<RangeTombstone> for RangeTombstones {
    fn from_iter<I: IntoIterator<Item = RangeTombstone>>(range_tombstones: I) -> Self {
        let range_tombstones = Vec::from_iter(range_tombstones);
        sweep(range_tombstones.iter().map(RangeTombstone::ends), usize::MAX)
    }
}

impl RangeTombstones {
    /// The newest range tombstone of each key. This is what all see that see the newest of the range tombstones.
    #[must_use]
    pub fn newest_of<'a>(ranges: impl Iterator<Item = RangeEnds<'a>>) -> Self {
        sweep(ranges, 1)
    }

    /// The range tombstone of all keys.
    #[must_use]
    pub fn of_all(seqnum: SeqNum) -> Self {
        Self::newest_of([(&b""[..], None, seqnum)].into_iter())
    }

    /// These and others.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        merge(self, others, |_| ())
    }

    /// These and others, but for those that none of `snapshots`, ascending, which has the least that may come as its
    /// last, tells from a newer one.
    #[must_use]
    pub fn and_told(&self, others: &Self, snapshots: &[SeqNum]) -> Self {
        merge(self, others, |seqnums| keep_told(seqnums, snapshots))
    }

    /// Those with a seqnum that `stays` says.
    #[must_use]
    pub fn filtered(&self, stays: impl Fn(SeqNum) -> bool) -> Self {
        let mut builder = Builder::new();
        let mut seqnums = Vec::new();
        for segment in 1..self.segments() {
            seqnums.clear();
            seqnums.extend(self.list(segment).iter().copied().filter(|seqnum| stays(*seqnum)));
            builder.push(self.border(segment), &seqnums);
        }
        builder.finish()
    }

    /// What of them must stay, where `snapshots` are all that are live and the least that may come, ascending, and
    /// `trees` all trees that hold entries older than the range tombstones. A range tombstone goes where no snapshot
    /// tells it from a newer one, and where all snapshots see it and every tree is clean up to it.
    #[must_use]
    pub fn needed(&self, snapshots: &[SeqNum], trees: &[TreeExtent<'_>]) -> Self {
        let oldest = snapshots.first().copied().unwrap_or_default();
        let mut trees: Vec<_> = trees.iter().collect();
        trees.sort_unstable_by(|a, b| a.smallest.cmp(b.smallest));
        let mut trees = trees.into_iter().peekable();
        // Trees that begin before the end of the segment, the least clean first; some may have ended before it.
        let mut begun: BinaryHeap<(Reverse<SeqNum>, Option<&[u8]>)> = BinaryHeap::new();
        let (mut builder, mut seqnums) = (Builder::new(), Vec::new());
        for segment in 1..self.segments() {
            let (low, high) = (self.border(segment), self.end(segment));
            while let Some(held) = trees.next_if(|held| high.is_none_or(|high| held.smallest < high)) {
                begun.push((Reverse(held.clean_to), held.largest));
            }
            while begun.peek().is_some_and(|(_, largest)| largest.is_some_and(|largest| largest < low)) {
                begun.pop();
            }
            let clean_to = begun.peek().map_or(SeqNum::MAX, |(clean_to, _)| clean_to.0);
            seqnums.clear();
            seqnums.extend_from_slice(self.list(segment));
            keep_told(&mut seqnums, snapshots);
            seqnums.retain(|seqnum| *seqnum > oldest || *seqnum > clean_to);
            builder.push(low, &seqnums);
        }
        builder.finish()
    }
}

/// Makes a set of range tombstones from its segments.
struct Builder {
    set: RangeTombstones,
}

impl Builder {
    fn new() -> Self {
        let mut set = RangeTombstones::default();
        // Before the first border there is nothing.
        set.ends.push(0);
        Self { set }
    }

    /// Adds the segment that begins at `start`, behind all so far, with its seqnums, descending. One that has the same
    /// as the segment before goes on with that.
    fn push(&mut self, start: &[u8], seqnums: &[SeqNum]) {
        step();
        let set = &mut self.set;
        let last = set.list(set.borders.len());
        if last == seqnums {
            return;
        }
        set.count += seqnums.iter().filter(|seqnum| !last.contains(seqnum)).count();
        set.newest = seqnums.first().map_or(set.newest, |newest| set.newest.max(*newest));
        set.borders.push(start);
        set.seqnums.extend_from_slice(seqnums);
        set.ends.push(set.seqnums.len());
    }

    fn finish(self) -> RangeTombstones {
        if self.set.borders.is_empty() { RangeTombstones::default() } else { self.set }
    }
}

/// The set of range tombstones that cover ranges; of each key at most the `depth` newest.
fn sweep<'a>(ranges: impl Iterator<Item = RangeEnds<'a>>, depth: usize) -> RangeTombstones {
    let mut ends = Vec::with_capacity(2 * ranges.size_hint().0);
    for (low, high, seqnum) in ranges.filter(|(low, high, _)| high.is_none_or(|high| high > *low)) {
        ends.push((low, true, seqnum));
        ends.extend(high.map(|high| (high, false, seqnum)));
    }
    ends.sort_unstable_by(|a, b| {
        step();
        a.0.cmp(b.0)
    });
    let mut builder = Builder::new();
    // The seqnums that cover the keys here, each as often as it does.
    let (mut open, mut seqnums) = (BTreeMap::<Reverse<SeqNum>, usize>::new(), Vec::new());
    for here in ends.chunk_by(|a, b| a.0 == b.0) {
        for (_, begins, seqnum) in here {
            let count = open.entry(Reverse(*seqnum)).or_default();
            *count = if *begins { *count + 1 } else { *count - 1 };
            if *count == 0 {
                open.remove(&Reverse(*seqnum));
            }
        }
        seqnums.clear();
        seqnums.extend(open.keys().take(depth).map(|seqnum| seqnum.0));
        builder.push(here[0].0, &seqnums);
    }
    builder.finish()
}

/// The range tombstones of two sets. `keep` leaves out of the seqnums of a segment, descending, what is not needed.
fn merge(a: &RangeTombstones, b: &RangeTombstones, keep: impl Fn(&mut Vec<SeqNum>)) -> RangeTombstones {
    let mut builder = Builder::new();
    let (mut in_a, mut in_b) = (0, 0);
    let mut seqnums = Vec::new();
    loop {
        let border = match (a.borders.get(in_a), b.borders.get(in_b)) {
            (None, None) => return builder.finish(),
            (Some(border), None) => {
                in_a += 1;
                border
            }
            (None, Some(border)) => {
                in_b += 1;
                border
            }
            (Some(one), Some(other)) => {
                let order = one.cmp(other);
                in_a += usize::from(order.is_le());
                in_b += usize::from(order.is_ge());
                if order.is_le() { one } else { other }
            }
        };
        seqnums.clear();
        unite(a.list(in_a), b.list(in_b), &mut seqnums);
        keep(&mut seqnums);
        builder.push(border, &seqnums);
    }
}

/// Adds the numbers of two descending lists, each once, descending.
fn unite(mut a: &[SeqNum], mut b: &[SeqNum], out: &mut Vec<SeqNum>) {
    while let (Some(one), Some(other)) = (a.first(), b.first()) {
        out.push(*one.max(other));
        if one >= other {
            a = &a[1..];
        }
        if out.last() == Some(other) {
            b = &b[1..];
        }
    }
    out.extend_from_slice(a);
    out.extend_from_slice(b);
}

/// Leaves out of descending seqnums those that no snapshot tells from a newer one, where `snapshots` are all,
/// ascending, the last of them the least that may come.
fn keep_told(seqnums: &mut Vec<SeqNum>, snapshots: &[SeqNum]) {
    let may_come = snapshots.last().copied().unwrap_or_default();
    let mut newer = None;
    seqnums.retain(|seqnum| {
        let sees = snapshots.partition_point(|snapshot| *snapshot < *seqnum);
        let tells = snapshots.get(sees).is_some_and(|snapshot| newer.is_none_or(|newer| *snapshot < newer));
        newer = Some(*seqnum);
        tells || *seqnum > may_come
    });
}
