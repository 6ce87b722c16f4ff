//! Bounds of the fields of an index as ranges of its keys.
//!
//! Every tag of the encoding lies above 00 and below FF, complemented or not: a key with FF behind some fields is above
//! all keys that go on behind these fields.

use std::ops::Bound;

use super::scan::{Group, KeyBounds, KeyFilter, Scan};
use crate::bson::Value;
use crate::keys::{Direction, TypeBits, append};
use crate::query::bounds::{Bounds, Interval};

/// The most ranges that fields multiply to. With more, the last fields' bounds are asked of each entry instead. The
/// bounds of one field have as many ranges as the filter gives them.
const PRODUCT_MAX: usize = 1000;

/// The ranges that the bounds of an index's fields come to.
#[derive(Clone, Debug, Default)]
pub struct Composed {
    /// One group, or, when the first fields have several values each, one for each combination of theirs.
    pub groups: Vec<Group>,
    /// Bounds that the ranges do not have, to be asked of each entry.
    pub filters: Vec<KeyFilter>,
}

/// Composes the bounds of fields. The values of the first `grouped` fields, which have only points, get groups of their
/// own.
#[must_use]
pub fn compose(directions: &[Direction], bounds: &[Bounds], grouped: usize) -> Composed {
    let fields = || directions.iter().copied().zip(bounds);
    let prefixes = with_points(vec![Vec::new()], fields().take(grouped));
    let (mut points, mut product) = (grouped, prefixes.len());
    let fits =
        |product: usize, count: usize| product == 1 || count <= 1 || product.saturating_mul(count) <= PRODUCT_MAX;
    // The following fields with points, while they do not become too many.
    while let Some(next) = bounds.get(points) {
        let count = next.intervals.len();
        if !next.intervals.iter().all(Interval::is_point) || !fits(product, count) {
            break;
        }
        product *= count;
        points += 1;
    }
    let last = bounds.get(points).filter(|last| fits(product, last.intervals.len()));
    let groups = prefixes.into_iter().map(|prefix| {
        let heads = with_points(vec![prefix.clone()], fields().take(points).skip(grouped));
        let ranges = match last {
            Some(last) if !last.is_full() => {
                let mut ranges = Vec::with_capacity(heads.len() * last.intervals.len());
                for head in &heads {
                    let intervals = in_order(&last.intervals, directions[points]);
                    ranges.extend(intervals.map(|interval| range(head, interval, directions[points])));
                }
                ranges
            }
            _ => heads.iter().map(|head| whole(head)).collect(),
        };
        Group { prefix, ranges: ranges.into() }
    });
    let groups = groups.collect();
    let in_ranges = points + usize::from(last.is_some());
    let filters = (in_ranges..bounds.len()).filter(|field| !bounds[*field].is_full());
    let filters = filters.map(|field| KeyFilter {
        field,
        ranges: in_order(&bounds[field].intervals, directions[field])
            .map(|interval| range(&[], interval, directions[field]))
            .collect(),
    });
    Composed { groups, filters: filters.collect() }
}

/// Joins the ranges of several scans of one index to ranges that ascend and are apart.
#[must_use]
pub fn union(mut ranges: Vec<KeyBounds>) -> Vec<KeyBounds> {
    let low = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Unbounded => (Vec::new(), false),
        Bound::Included(key) => (key.clone(), false),
        Bound::Excluded(key) => (key.clone(), true),
    };
    ranges.sort_by_cached_key(|range| low(&range.0));
    let mut joined: Vec<KeyBounds> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if touches(&last.1, &range.0) => {
                if is_above(&range.1, &last.1) {
                    last.1 = range.1;
                }
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// One scan over all that scans of one index find; nothing when there are none.
#[must_use]
pub fn joined(mut scans: Vec<Scan>) -> Option<Scan> {
    if scans.len() < 2 {
        return scans.pop();
    }
    let (index, multikey) = (scans[0].index.clone(), scans.iter().any(|scan| scan.multikey));
    let mut bounds = vec![Vec::with_capacity(scans.len()); scans[0].bounds.len()];
    let mut ranges = Vec::with_capacity(scans.len());
    for scan in scans {
        ranges.extend(scan.groups.iter().flat_map(|group| group.ranges.iter().cloned()));
        bounds.iter_mut().zip(scan.bounds).for_each(|(all, bounds)| all.push(Some(bounds)));
    }
    let groups = vec![Group { prefix: Vec::new(), ranges: union(ranges).into() }];
    let bounds = bounds.into_iter().filter_map(Bounds::union_of).collect();
    Some(Scan { index, bounds, groups, multikey, ..Scan::default() })
}

/// Whether a range that begins at `low` begins before another's end, or right behind it.
fn touches(high: &Bound<Vec<u8>>, low: &Bound<Vec<u8>>) -> bool {
    match (high, low) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(high), Bound::Excluded(low)) => low < high,
        (Bound::Included(high) | Bound::Excluded(high), Bound::Included(low) | Bound::Excluded(low)) => low <= high,
    }
}

/// Whether the upper end `a` is above `b`.
fn is_above(a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> bool {
    match (a, b) {
        (_, Bound::Unbounded) => false,
        (Bound::Unbounded, _) => true,
        (Bound::Included(a), Bound::Excluded(b)) => a >= b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a > b,
    }
}

/// Intervals in the order of an index's keys.
fn in_order(intervals: &[Interval], direction: Direction) -> impl Iterator<Item = &Interval> {
    let last = intervals.len();
    (0..last).map(move |at| match direction {
        Direction::Ascending => &intervals[at],
        Direction::Descending => &intervals[last - 1 - at],
    })
}

/// Keys with every combination of the values of fields that have only points.
fn with_points<'b>(keys: Vec<Vec<u8>>, fields: impl Iterator<Item = (Direction, &'b Bounds)>) -> Vec<Vec<u8>> {
    fields.fold(keys, |mut keys, (direction, bounds)| {
        if let ([key], [point]) = (&mut *keys, &*bounds.intervals) {
            append(key, &mut TypeBits::new(), &point.low.value.view(), direction);
            return keys;
        }
        let points = || in_order(&bounds.intervals, direction).map(|point| point.low.value.view());
        keys.iter().flat_map(|key| points().map(move |point| with(key, &point, direction))).collect()
    })
}

fn with(prefix: &[u8], value: &Value<'_>, direction: Direction) -> Vec<u8> {
    let mut key = Vec::with_capacity(prefix.len() + 24);
    key.extend_from_slice(prefix);
    append(&mut key, &mut TypeBits::new(), value, direction);
    key
}

/// The range of all keys that begin with some fields.
#[must_use]
pub fn whole(prefix: &[u8]) -> KeyBounds {
    if prefix.is_empty() {
        return (Bound::Unbounded, Bound::Unbounded);
    }
    (Bound::Included(prefix.to_vec()), Bound::Excluded(behind(prefix.to_vec())))
}

/// A key above all that begin with these fields.
fn behind(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0xFF);
    key
}

/// The range of the keys whose next field behind `prefix` is in an interval.
#[must_use]
pub fn range(prefix: &[u8], interval: &Interval, direction: Direction) -> KeyBounds {
    let (first, last) = match direction {
        Direction::Ascending => (&interval.low, &interval.high),
        Direction::Descending => (&interval.high, &interval.low),
    };
    let (low, high) = (with(prefix, &first.value.view(), direction), with(prefix, &last.value.view(), direction));
    let low = if first.inclusive { Bound::Included(low) } else { Bound::Excluded(behind(low)) };
    let high = if last.inclusive { Bound::Excluded(behind(high)) } else { Bound::Excluded(high) };
    (low, high)
}
