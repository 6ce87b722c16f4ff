//! A scan of one index.

use std::ops::Bound;
use std::sync::Arc;

use crate::catalog::Index;
use crate::query::bounds::Bounds;

/// A range of keys.
pub type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A part of a scan whose keys begin with the same values.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The bytes of these values.
    pub prefix: Vec<u8>,
    /// The ranges, ascending and apart.
    pub ranges: Arc<[KeyBounds]>,
}

/// Bounds of a field that are asked of each entry.
#[derive(Clone, Debug)]
pub struct KeyFilter {
    /// Which field.
    pub field: usize,
    /// The ranges of its bytes, ascending and apart.
    pub ranges: Arc<[KeyBounds]>,
}

/// A scan of the entries of an index, or of a collection by `_id`.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The index; nothing for the collection itself.
    pub index: Option<Arc<Index>>,
    /// The bounds of each field.
    pub bounds: Vec<Bounds>,
    /// The ranges; those of several groups are merged by what follows their prefixes.
    pub groups: Vec<Group>,
    /// Bounds that the ranges do not have.
    pub filters: Vec<KeyFilter>,
    /// Whether the last key comes first.
    pub reverse: bool,
    /// Whether a document may be met several times.
    pub multikey: bool,
    /// Whether every entry that is met is of a document that matches, so that the filter need not be asked.
    pub exact: bool,
}

impl KeyFilter {
    /// Whether the bytes of the field are within.
    #[must_use]
    pub fn takes(&self, field: &[u8]) -> bool {
        let is_below = |(low, _): &KeyBounds| match low {
            Bound::Unbounded => true,
            Bound::Included(low) => field >= low.as_slice(),
            Bound::Excluded(low) => field > low.as_slice(),
        };
        let below = self.ranges.partition_point(is_below);
        self.ranges[..below].last().is_some_and(|(_, high)| match high {
            Bound::Unbounded => true,
            Bound::Included(high) => field <= high.as_slice(),
            Bound::Excluded(high) => field < high.as_slice(),
        })
    }
}

impl Scan {
    /// Whether all entries are scanned.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let [group] = &self.groups[..] else { return false };
        matches!(&group.ranges[..], [(Bound::Unbounded, Bound::Unbounded)])
    }

    /// The scan in a line: its kind, and the pattern of its index.
    #[must_use]
    pub fn summary(&self) -> String {
        match &self.index {
            Some(index) => format!("IXSCAN {}", index.spec.pattern.document().to_json()),
            None if self.is_whole() => "COLLSCAN".to_owned(),
            None => "CLUSTERED_IXSCAN".to_owned(),
        }
    }
}
