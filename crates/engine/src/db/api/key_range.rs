//! Ranges of keys as callers write them.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::tree::Limits;

/// A range of keys: `..`, `low..high`, `low..`, `..high`, their inclusive forms, or a pair of [`Bound`]s, of anything
/// that is bytes: slices, arrays, vectors, strings.
///
/// An empty or inverted range holds no keys. Keys are compared bytewise; integers are in order when they are written
/// big-endian.
///
/// ```
/// # use spinney::{Database, Options, TableOptions};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// let days = db.open_or_create_table("days", TableOptions::default())?;
/// days.put("2025-01-01", "New Year")?;
/// days.put("2025-12-25", "Christmas")?;
/// assert_eq!(days.range("2025-06".."2026").count(), 1);
/// assert_eq!(days.range(..="2025-12-25").count(), 2);
/// assert_eq!(days.range([b'3']..).count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyRange {
    /// The two ends of the range.
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyRange for RangeFull {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for Range<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(self.start.as_ref()), Bound::Excluded(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeInclusive<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(self.start().as_ref()), Bound::Included(self.end().as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeFrom<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(self.start.as_ref()), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeTo<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Excluded(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeToInclusive<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Included(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.0.as_ref().map(AsRef::as_ref), self.1.as_ref().map(AsRef::as_ref))
    }
}

impl<R: KeyRange> KeyRange for &R {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (*self).bounds()
    }
}

/// The first key behind all that begin with `prefix`, if there is any: without trailing 0xff, the last byte one more.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}

/// The range of the keys that begin with a prefix; of all keys when it is empty.
///
/// ```
/// # use spinney::{Database, Options, TableOptions, prefix_range};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// let days = db.open_or_create_table("days", TableOptions::default())?;
/// days.put("2024-12-31", "")?;
/// days.put("2025-01-01", "")?;
/// days.delete_range(prefix_range("2024-"))?;
/// assert_eq!(days.range(..).count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn prefix_range(prefix: impl AsRef<[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let prefix = prefix.as_ref();
    (Bound::Included(prefix.to_vec()), prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded))
}

/// The two ends of a key range.
pub(crate) type Bounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// The keys of a range, if there can be any.
pub(crate) fn limits(range: &impl KeyRange) -> Option<Limits> {
    Some(Limits::between(range.bounds(), None)).filter(|limits| !limits.is_empty())
}

/// The keys of several ranges, without those that can have none.
pub(crate) fn all_limits<R: KeyRange>(ranges: impl IntoIterator<Item = R>) -> Vec<Limits> {
    ranges.into_iter().filter_map(|range| limits(&range)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_prefix_of_its_length() {
        assert_eq!(prefix_end(b"a"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
