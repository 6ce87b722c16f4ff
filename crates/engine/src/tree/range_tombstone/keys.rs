//! The borders of a set of range tombstones, in one piece of memory.

use crate::base::steps::step;

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

    pub(super) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }
}
