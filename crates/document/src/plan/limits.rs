//! `min` and `max`: the keys of an index between which a query looks.

use std::ops::Bound;

use super::candidate::Candidate;
use super::query::Query;
use super::scan::Group;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Document;
use crate::keys::{Direction, TypeBits, append};
use crate::query::bounds::Bounds;

/// A scan from the query's `min` to its `max`, instead of that which the filter implies.
///
/// # Errors
/// 51174 and 51176 when they are not keys of the index; 51175 when the least is not below the greatest.
pub fn within_limits(query: &Query, candidates: Vec<Candidate>) -> Result<Vec<Candidate>> {
    let Some(mut candidate) = candidates.into_iter().next() else { return Ok(Vec::new()) };
    let fields: Vec<(String, Direction)> = match &candidate.scan.index {
        None => vec![("_id".to_owned(), Direction::Ascending)],
        Some(index) => {
            index.spec.pattern.fields().iter().map(|field| (field.path.clone(), field.direction())).collect()
        }
    };
    let low = query.min.as_ref().map(|min| key_of(min.view(), &fields)).transpose()?;
    let high = query.max.as_ref().map(|max| key_of(max.view(), &fields)).transpose()?;
    if let (Some(low), Some(high)) = (&low, &high)
        && low >= high
    {
        return Err(Error::new(ErrorCode::new(51175), "The value provided for min() is not less than that of max()"));
    }
    let range = (low.map_or(Bound::Unbounded, Bound::Included), high.map_or(Bound::Unbounded, Bound::Excluded));
    candidate.scan.groups = vec![Group { prefix: Vec::new(), ranges: vec![range] }];
    candidate.scan.filters.clear();
    candidate.scan.bounds = fields.iter().map(|_| Bounds::full()).collect();
    // The order was found for other bounds.
    candidate.sorted = query.sort.is_none();
    candidate.scan.reverse = false;
    candidate.scan.exact = false;
    Ok(vec![candidate])
}

fn key_of(document: Document<'_>, fields: &[(String, Direction)]) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    let mut elements = document.elements();
    for (path, direction) in fields {
        match elements.next() {
            Some(element) if element.name.as_bytes() == path.as_bytes() => {
                append(&mut key, &mut TypeBits::new(), &element.value, *direction);
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
