//! `$derivative` and `$integral`: the points of a window.

use std::collections::VecDeque;

use super::bounds::sort_value;
use crate::aggregate::stage::error;
use crate::base::Result;
use crate::base::num::nearest_f64;
use crate::bson::number::Number;
use crate::bson::{DocumentBuf, Value, ValueBuf};
use crate::expr::{Expression, RemovableSum};
use crate::path::Sort;

/// The points of a window, each the value of the sort field, in units for dates, and the input; and the area below.
#[derive(Debug, Default)]
pub(super) struct Points {
    points: VecDeque<Point>,
    area: RemovableSum,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    row: usize,
    x: f64,
    y: f64,
}

/// The area below the line between two points.
fn area(from: Point, to: Point) -> Number {
    Number::Double((from.y + to.y) * (to.x - from.x) / 2.0)
}

impl Points {
    /// The bytes that a row takes.
    pub(super) const ROW_BYTES: usize = size_of::<Point>();

    /// Adds the point of a row, if its input is a number.
    ///
    /// # Errors
    /// 5624900, 5624901 for a sort field that is no date, or no number; those of the input.
    pub(super) fn add(
        &mut self,
        sort: Option<&Sort>,
        row: usize,
        document: &DocumentBuf,
        (input, unit): (&Expression, Option<i64>),
    ) -> Result<()> {
        let x = sort_value(sort, document, |value| match (value, unit) {
            (Some(Value::DateTime(millis)), Some(unit)) => Ok(nearest_f64(millis) / nearest_f64(unit)),
            (Some(value), None) if value.kind().is_number() => Ok(value.as_f64().unwrap_or_default()),
            (_, Some(_)) => Err(error(5_624_900, "$derivative with 'unit' expects the sortBy field to be a Date")),
            _ => Err(error(5_624_901, "$derivative where the sortBy is a Date requires a 'unit'")),
        })?;
        let Some(y) = input.of(document.view())?.value().as_f64() else { return Ok(()) };
        let new = Point { row, x, y };
        if let Some(last) = self.points.back() {
            self.area.add(area(*last, new));
        }
        self.points.push_back(new);
        Ok(())
    }

    /// Removes the point of a row, which is the first, if it has one.
    pub(super) fn remove(&mut self, row: usize) {
        let Some(first) = self.points.pop_front_if(|point| point.row == row) else { return };
        if let Some(next) = self.points.front() {
            self.area.remove(area(first, *next));
        }
    }

    /// The area below the points; null of none.
    pub(super) fn integral(&self) -> ValueBuf {
        if self.points.is_empty() { Value::Null.into() } else { Value::Double(self.area.to_f64()).into() }
    }

    /// The slope from the first point to the last; null where there is none.
    pub(super) fn derivative(&self) -> ValueBuf {
        match (self.points.front(), self.points.back()) {
            (Some(first), Some(last)) if self.points.len() > 1 && last.x != first.x => {
                Value::Double((last.y - first.y) / (last.x - first.x)).into()
            }
            _ => Value::Null.into(),
        }
    }
}
