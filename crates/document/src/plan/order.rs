//! Whether a scan gives its documents in the order that a query asks for.

use super::fields::{Field, share_array};
use crate::keys::Direction;
use crate::path::{Path, Sort};
use crate::query::bounds::{Bounds, Interval};

/// How a scan gives a sort order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Whether the last key comes first.
    pub reverse: bool,
    /// The first fields, which have points only: their combinations are scanned beside each other and merged.
    pub grouped: usize,
}

/// The most scans that are merged.
const GROUPS_MAX: usize = 200;

/// How a scan with these bounds gives a sort order, if it does. With `id`, keys end with `_id`.
#[must_use]
pub fn order_of(
    sort: &Sort,
    fields: &[Field<'_>],
    directions: &[Direction],
    bounds: &[Bounds],
    hashed: Option<usize>,
    id: bool,
) -> Option<Order> {
    let single = |at: usize| fields[at].arrays == 0 && Some(at) != hashed && bounds[at].is_point();
    // A field with one value takes no part in the order.
    let fixed = |path: &Path| (0..fields.len()).any(|at| fields[at].path == path && single(at));
    let mut wanted = sort.fields().iter().filter(|(path, _)| !fixed(path)).peekable();
    let (mut reverse, mut grouped, mut combinations) = (None, 0, 1_usize);
    for (at, field) in fields.iter().enumerate() {
        let Some((path, descending)) = wanted.peek() else { break };
        if *field.path == *path && Some(at) != hashed {
            if field.arrays != 0 && !is_order_of_array(at, fields, bounds, sort) {
                return None;
            }
            let backward = *descending != (directions[at] == Direction::Descending);
            if *reverse.get_or_insert(backward) != backward {
                return None;
            }
            wanted.next();
        } else if bounds[at].is_point() {
            // All keys have the same value here, or hash.
        } else if reverse.is_none() && bounds[at].intervals.iter().all(Interval::is_point) {
            combinations = combinations.saturating_mul(bounds[at].intervals.len());
            grouped = at + 1;
        } else {
            return None;
        }
    }
    if combinations > GROUPS_MAX {
        return None;
    }
    if let Some((path, descending)) = wanted.peek()
        && id
        && *path == Path::new("_id")
        && *reverse.get_or_insert(*descending) == *descending
    {
        wanted.next();
    }
    wanted.next().is_none().then_some(Order { reverse: reverse.unwrap_or(false), grouped })
}

/// Whether a field that has arrays is in the order of a sort: the sort takes the least or greatest of all values, so
/// all must be in the scan, and no other field may take the array apart.
fn is_order_of_array(at: usize, fields: &[Field<'_>], bounds: &[Bounds], sort: &Sort) -> bool {
    let sorts = |path: &Path| sort.fields().iter().any(|(other, _)| other == path);
    bounds[at].is_full()
        && fields.iter().enumerate().filter(|(other, _)| *other != at).all(|(other, field)| {
            let apart = !share_array(field, &fields[at]) || bounds[other].is_full();
            apart && !(field.arrays != 0 && sorts(field.path))
        })
}
