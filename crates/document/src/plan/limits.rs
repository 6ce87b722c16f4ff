//! `min` and `max`: the keys of an index between which a query looks.

use std::ops::Bound;

use super::candidate::Candidate;
use super::query::Query;
use super::scan::Group;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, ValueBuf};
use crate::collation::{Collation, has_text};
use crate::keys::{Direction, TypeBits, append};
use crate::query::bounds::Bounds;

/// A scan from the query's `min` to its `max`, instead of that which the filter implies.
///
/// # Errors
/// 51174 and 51176 when they are not keys of the index; 51175 when the least is not below the greatest.
pub fn within_limits(
    query: &Query,
    candidates: Vec<Candidate>,
    of_collection: Option<&Collation>,
) -> Result<Vec<Candidate>> {
    let Some(mut candidate) = candidates.into_iter().next() else { return Ok(Vec::new()) };
    let fields: Vec<(String, Direction)> = match &candidate.scan.index {
        None => vec![("_id".to_owned(), Direction::Ascending)],
        Some(index) => {
            index.spec.pattern.fields().iter().map(|field| (field.path.clone(), field.direction())).collect()
        }
    };
    let held = candidate.scan.index.as_ref().map_or(of_collection, |index| index.spec.pattern.collation());
    let fits = held == query.collation.as_deref();
    let key = |limit: &DocumentBuf| key_of(limit.view(), &fields, held, fits);
    let low = query.min.as_ref().map(key).transpose()?;
    let high = query.max.as_ref().map(key).transpose()?;
    if let (Some(low), Some(high)) = (&low, &high)
        && low >= high
    {
        return Err(Error::new(ErrorCode::new(51175), "The value provided for min() is not less than that of max()"));
    }
    let range = (low.map_or(Bound::Unbounded, Bound::Included), high.map_or(Bound::Unbounded, Bound::Excluded));
    candidate.scan.groups = vec![Group { prefix: Vec::new(), ranges: [range].into() }];
    candidate.scan.filters.clear();
    candidate.scan.bounds = fields.iter().map(|_| Bounds::full()).collect();
    // The order was found for other bounds.
    candidate.sorted = query.sort.is_none();
    candidate.scan.reverse = false;
    candidate.scan.exact = false;
    Ok(vec![candidate])
}

/// The key of a limit, in an index with the collation `held`; whether it `fits` the query's.
fn key_of(
    document: Document<'_>,
    fields: &[(String, Direction)],
    held: Option<&Collation>,
    fits: bool,
) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    let mut elements = document.elements();
    for (path, direction) in fields {
        match elements.next() {
            Some(element) if element.name.as_bytes() == path.as_bytes() => {
                if !fits && has_text(&element.value) {
                    let what = "The index bounds have strings, which the hinted index compares by another collation";
                    return Err(Error::new(ErrorCode::new(51174), what));
                }
                let collated = held.and_then(|collation| collation.key_of(&element.value));
                let value = collated.as_ref().map_or(element.value, ValueBuf::view);
                append(&mut key, &mut TypeBits::new(), &value, *direction);
            }
            _ => {
                return Err(Error::new(
                    ErrorCode::new(51174),
                    "The index bounds must have the fields of the hinted index",
                ));
            }
        }
    }
    if elements.next().is_some() {
        return Err(Error::new(ErrorCode::new(51176), "The index bounds have more fields than the hinted index"));
    }
    Ok(key)
}
