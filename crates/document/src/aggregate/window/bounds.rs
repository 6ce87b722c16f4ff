//! Where the window of each document begins and ends among the rows of a partition.

use super::spec::{Bound, Window};
use crate::aggregate::stage::error;
use crate::base::Result;
use crate::base::num::{nearest_f64, trunc_to_i64};
use crate::bson::{DocumentBuf, Value};
use crate::path::Sort;

/// The windows of the rows of a partition, one after the other. Neither end ever moves back.
pub(super) struct Bounds {
    kind: BoundsKind,
    from: usize,
    to: usize,
}

enum BoundsKind {
    All,
    /// By how many documents the ends are apart from the row.
    Documents(Option<i64>, Option<i64>),
    /// By how much the values of the ends are apart from that of the row.
    Range {
        values: Vec<f64>,
        low: Option<f64>,
        high: Option<f64>,
    },
}

impl Bounds {
    /// # Errors
    /// 5429414, 5429513 for a sort field by which there is no range.
    pub(super) fn new(window: Window, sort: Option<&Sort>, rows: &[DocumentBuf]) -> Result<Self> {
        let kind = match window {
            Window::All => BoundsKind::All,
            Window::Documents(low, high) => {
                let offset = |bound| match bound {
                    Bound::Unbounded => None,
                    Bound::Offset(offset) => {
                        let most = if offset < 0.0 { i64::MIN } else { i64::MAX };
                        Some(trunc_to_i64(offset).unwrap_or(most))
                    }
                };
                BoundsKind::Documents(offset(low), offset(high))
            }
            Window::Range(low, high, unit) => {
                let scale = nearest_f64(unit.unwrap_or(1));
                let offset = |bound| match bound {
                    Bound::Unbounded => None,
                    Bound::Offset(offset) => Some(offset * scale),
                };
                let value = |row: &DocumentBuf| range_value(sort, row, unit.is_some());
                let values = rows.iter().map(value).collect::<Result<_>>()?;
                BoundsKind::Range { values, low: offset(low), high: offset(high) }
            }
        };
        Ok(Self { kind, from: 0, to: 0 })
    }

    /// The bytes that this takes.
    pub(super) fn bytes(&self) -> usize {
        match &self.kind {
            BoundsKind::Range { values, .. } => values.len() * size_of::<f64>(),
            BoundsKind::All | BoundsKind::Documents(..) => 0,
        }
    }

    /// The window of a row, which is not before the row of the last call; of `count` rows.
    pub(super) fn at(&mut self, row: usize, count: usize) -> (usize, usize) {
        match &self.kind {
            BoundsKind::All => (self.from, self.to) = (0, count),
            BoundsKind::Documents(low, high) => {
                let here = i64::try_from(row).unwrap_or(i64::MAX);
                let end = |at: i64| usize::try_from(at.max(0)).unwrap_or(usize::MAX).min(count);
                self.from = low.map_or(0, |low| end(here.saturating_add(low)));
                self.to = high.map_or(count, |high| end(here.saturating_add(high).saturating_add(1)));
            }
            BoundsKind::Range { values, low, high } => {
                let here = values[row];
                let is_below = |at: usize, end: f64| values.get(at).is_some_and(|value| is_less(*value, end));
                let is_above = |at: usize, end: f64| values.get(at).is_none_or(|value| is_less(end, *value));
                while low.is_some_and(|low| is_below(self.from, here + low)) {
                    self.from += 1;
                }
                match high {
                    None => self.to = count,
                    Some(high) => {
                        while !is_above(self.to, here + high) {
                            self.to += 1;
                        }
                    }
                }
            }
        }
        (self.from.min(self.to), self.to)
    }
}

/// Whether a value of the sort field is before another; NaN is before all others.
fn is_less(a: f64, b: f64) -> bool {
    a < b || a.is_nan() && !b.is_nan()
}

/// The number by which a document is in a range; milliseconds of a date.
fn range_value(sort: Option<&Sort>, document: &DocumentBuf, has_unit: bool) -> Result<f64> {
    sort_value(sort, document, |value| match (value, has_unit) {
        (Some(Value::DateTime(millis)), true) => Ok(nearest_f64(millis)),
        (Some(value), false) if value.kind().is_number() => Ok(value.as_f64().unwrap_or_default()),
        (Some(Value::DateTime(_)), false) => {
            Err(error(5_429_414, "For range-based windows over dates a unit is required"))
        }
        (Some(_), true) => Err(error(5_429_513, "Invalid range: expected the sortBy field to be a date")),
        _ => Err(error(5_429_414, "Invalid range: expected the sortBy field to be a number")),
    })
}

/// What `read` makes of the value by which a document is sorted first.
///
/// # Errors
/// Those of the sort and of `read`.
pub(super) fn sort_value<T>(
    sort: Option<&Sort>,
    document: &DocumentBuf,
    read: impl FnOnce(Option<Value<'_>>) -> Result<T>,
) -> Result<T> {
    let key = sort.map_or(Ok(Vec::new()), |sort| sort.key(document.view()))?;
    read(key.first().map(|value| value.view()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson::DocumentBuf;

    fn windows(window: Window, values: &[f64]) -> Vec<(usize, usize)> {
        let sort = DocumentBuf::from_json("{\"x\":1}").unwrap();
        let sort = Sort::parse(sort.view(), None).unwrap();
        let rows: Vec<_> = values.iter().map(|x| crate::doc! {"x": *x}).collect();
        let mut bounds = Bounds::new(window, Some(&sort), &rows).unwrap();
        (0..rows.len()).map(|row| bounds.at(row, rows.len())).collect()
    }

    #[test]
    fn windows_of_documents_end_at_the_partition() {
        let of = |low, high| windows(Window::Documents(low, high), &[0.0; 4]);
        let by = |low, high| of(Bound::Offset(low), Bound::Offset(high));
        assert_eq!(by(-1.0, 1.0), [(0, 2), (0, 3), (1, 4), (2, 4)]);
        assert_eq!(by(-9.0, -2.0), [(0, 0), (0, 0), (0, 1), (0, 2)]);
        assert_eq!(by(2.0, 9e99), [(2, 4), (3, 4), (4, 4), (4, 4)]);
        assert_eq!(of(Bound::Offset(1.0), Bound::Unbounded), [(1, 4), (2, 4), (3, 4), (4, 4)]);
        assert_eq!(of(Bound::Unbounded, Bound::Offset(-9e99)), [(0, 0); 4]);
    }

    #[test]
    fn windows_of_ranges_have_all_equal_values_and_those_of_nan_no_others() {
        let of = |low, high, values: &[f64]| windows(Window::Range(low, high, None), values);
        let by = |low, high, values: &[f64]| of(Bound::Offset(low), Bound::Offset(high), values);
        assert_eq!(by(0.0, 0.0, &[1.0, 1.0, 2.0]), [(0, 2), (0, 2), (2, 3)]);
        assert_eq!(by(-1.0, 1.5, &[1.0, 2.0, 3.5, 9.0]), [(0, 2), (0, 3), (2, 3), (3, 4)]);
        assert_eq!(by(1.0, 2.0, &[1.0, 4.0, 5.0]), [(1, 1), (2, 3), (3, 3)]);
        assert_eq!(by(-1.0, 1.0, &[f64::NAN, f64::NAN, 1.0, 2.0]), [(0, 2), (0, 2), (2, 4), (2, 4)]);
        assert_eq!(of(Bound::Unbounded, Bound::Offset(0.0), &[1.0, 1.0, 2.0]), [(0, 2), (0, 2), (0, 3)]);
    }
}
