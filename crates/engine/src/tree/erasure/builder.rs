//! How a set of erasures is made: segment by segment, in the order of the keys.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::set::{Ends, Erasures};
use crate::base::SeqNum;

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many segments this thread has written, how many borders it has compared keys with, and at how many entries it
/// has looked under erasures: what the work over sets of erasures grows with.
#[cfg(test)]
pub(crate) fn steps() -> u64 {
    STEPS.get()
}

/// Counts a step, in tests.
#[inline]
pub(super) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// Keys one behind the other, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// How many keys `is_before` says of; it says so of a first part of them.
    #[inline]
    pub(super) fn partition_point(&self, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            step();
            let middle = low.midpoint(high);
            if self.get(middle).is_some_and(&is_before) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }
}

/// Makes a set of erasures from its segments.
pub(super) struct Builder {
    set: Erasures,
}

impl Builder {
    pub(super) fn new() -> Self {
        let mut set = Erasures::default();
        // Before the first border there is nothing.
        set.ends.push(0);
        Self { set }
    }

    /// Adds the segment that begins at `start`, behind all so far, with its seqnums, descending. One that has the same
    /// as the segment before goes on with that.
    pub(super) fn push(&mut self, start: &[u8], seqnums: &[SeqNum]) {
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

    pub(super) fn finish(self) -> Erasures {
        if self.set.borders.is_empty() { Erasures::default() } else { self.set }
    }
}

/// The set of erasures that cover ranges; of each key at most the `depth` newest.
pub(super) fn sweep<'a>(ranges: impl Iterator<Item = Ends<'a>>, depth: usize) -> Erasures {
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

/// The erasures of two sets. `keep` leaves out of the seqnums of a segment, descending, what is not needed.
pub(super) fn merge(a: &Erasures, b: &Erasures, keep: impl Fn(&mut Vec<SeqNum>)) -> Erasures {
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
