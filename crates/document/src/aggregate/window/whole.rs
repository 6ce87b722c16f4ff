//! Outputs that are computed for all documents of a partition at once.

use super::bounds::sort_value;
use super::spec::{Function, Output};
use crate::aggregate::memory::Held;
use crate::base::num::nearest_f64;
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::{DocumentBuf, Value, ValueBuf};
use crate::expr::{Expression, Val};
use crate::path::{Sort, SortKey};

/// The value of an output for each row of a partition, nothing where the field is not set; nothing for an output with a
/// window.
///
/// # Errors
/// Those of the function; code 292 when the limit of memory is exceeded.
pub(super) fn column(
    output: &Output,
    sort: Option<&Sort>,
    rows: &[DocumentBuf],
    held: &mut Held,
) -> Result<Option<Vec<Option<ValueBuf>>>> {
    let null = || ValueBuf::from(Value::Null);
    let own = |value: Val<'_>| value.into_buf().unwrap_or_else(null);
    let column = match &output.function {
        Function::Accumulate(_)
        | Function::Covariance { .. }
        | Function::Derivative { .. }
        | Function::Integral { .. } => return Ok(None),
        Function::Rank { dense } => ranks(sort, rows, *dense),
        Function::Number => {
            Ok((1..).zip(rows).map(|(number, _)| Some(crate::expr::value::int(number).into())).collect())
        }
        Function::Shift { output, by, default } => (0_i64..)
            .zip(rows)
            .map(|(at, _)| {
                let other = at.checked_add(*by).and_then(|at| usize::try_from(at).ok()).and_then(|at| rows.get(at));
                let value = match other {
                    Some(row) => own(output.of(row.view())?),
                    None => default.clone(),
                };
                held.take(value.payload().len())?;
                Ok(Some(value))
            })
            .collect(),
        Function::MovingAverage { input, alpha } => {
            let mut average: Option<f64> = None;
            rows.iter()
                .map(|row| {
                    if let Some(number) = input.of(row.view())?.value().as_f64() {
                        average = Some(average.map_or(number, |before| number * alpha + before * (1.0 - alpha)));
                    }
                    Ok(Some(average.map_or_else(null, |average| Value::Double(average).into())))
                })
                .collect()
        }
        Function::CarriedForward(input) => {
            let mut last = null();
            rows.iter()
                .map(|row| {
                    let value = input.of(row.view())?;
                    if !value.is_nullish() {
                        last = own(value);
                    }
                    held.take(last.payload().len())?;
                    Ok(Some(last.clone()))
                })
                .collect()
        }
        Function::LinearFill(input) => linear(sort, rows, input, held),
    };
    held.take(rows.len() * size_of::<Option<ValueBuf>>())?;
    interrupt::work(rows.len())?;
    column.map(Some)
}

fn ranks(sort: Option<&Sort>, rows: &[DocumentBuf], dense: bool) -> Result<Vec<Option<ValueBuf>>> {
    let (mut rank, mut ranks) = (0, Vec::with_capacity(rows.len()));
    let mut before: Option<SortKey> = None;
    for (at, row) in rows.iter().enumerate() {
        let key = sort.map(|sort| sort.key(row.view())).transpose()?;
        let is_same = match (sort, &before, &key) {
            (Some(sort), Some(before), Some(key)) => sort.compare(before, key).is_eq(),
            _ => false,
        };
        if !is_same {
            rank = if dense { rank + 1 } else { i64::try_from(at).unwrap_or(i64::MAX) + 1 };
        }
        before = key;
        ranks.push(Some(crate::expr::value::int(rank).into()));
    }
    Ok(ranks)
}

/// The values of the input, with those that are missing between two others on a line between them.
fn linear(
    sort: Option<&Sort>,
    rows: &[DocumentBuf],
    input: &Expression,
    held: &mut Held,
) -> Result<Vec<Option<ValueBuf>>> {
    let mut values = Vec::with_capacity(rows.len());
    for row in rows {
        let value = input.of(row.view())?;
        if !value.is_nullish() && value.value().as_number().is_none() {
            return Err(Error::new(
                ErrorCode::TYPE_MISMATCH,
                format!("Value to be filled must be numeric or nullish, but found {}", value.type_name()),
            ));
        }
        values.push(value.into_buf().unwrap_or_else(|| Value::Null.into()));
    }
    let at = |row: &DocumentBuf| {
        sort_value(sort, row, |value| {
            Ok(match value {
                Some(Value::DateTime(millis)) => Some(nearest_f64(millis)),
                Some(value) => value.as_f64(),
                None => None,
            })
        })
    };
    held.take(values.len() * size_of::<ValueBuf>())?;
    let mut filled = values.clone();
    let known: Vec<usize> = (0..values.len()).filter(|at| values[*at].kind().is_number()).collect();
    for pair in known.windows(2) {
        let (Some(x0), Some(x1)) = (at(&rows[pair[0]])?, at(&rows[pair[1]])?) else {
            return Err(Error::new(ErrorCode::TYPE_MISMATCH, "$linearFill needs a sort field of numbers or dates"));
        };
        let (Some(y0), Some(y1)) = (values[pair[0]].view().as_f64(), values[pair[1]].view().as_f64()) else { continue };
        for between in pair[0] + 1..pair[1] {
            if let Some(x) = at(&rows[between])? {
                filled[between] = Value::Double(y0 + (y1 - y0) * (x - x0) / (x1 - x0)).into();
            }
        }
    }
    Ok(filled.into_iter().map(Some).collect())
}
