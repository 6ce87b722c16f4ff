//! `$setWindowFields`: values computed from the documents around each document.

use std::sync::Arc;

use super::accumulator::Accumulator;
use super::covariance::Covariance;
use super::memory::Held;
use super::sorter::{Sorted, Sorter};
use super::stage::{Rows, Run, Stage, deferred, error};
use super::unwind::set;
use crate::base::num::nearest_f64;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, Value, ValueBuf};
use crate::collation::Collated;
use crate::expr::{Expression, Val};
use crate::keys;
use crate::path::{Path, Sort, SortKey};

/// `$setWindowFields`, and `$fill`, which computes in the same way.
#[derive(Debug)]
pub(super) struct WindowFields {
    pub(super) name: &'static str,
    pub(super) partition: Option<Expression>,
    pub(super) sort: Option<Sort>,
    pub(super) outputs: Vec<Output>,
    /// How partitions are compared.
    pub(super) collation: Collated,
}

/// A field and how it is computed.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) path: Path,
    pub(super) function: Function,
    pub(super) window: Window,
}

/// What is computed.
#[derive(Debug)]
pub(super) enum Function {
    Accumulate(Accumulator),
    Rank {
        dense: bool,
    },
    Number,
    Shift {
        output: Expression,
        by: i64,
        default: ValueBuf,
    },
    /// The input, and the milliseconds of the unit for dates.
    Derivative {
        input: Expression,
        unit: Option<i64>,
    },
    Integral {
        input: Expression,
        unit: Option<i64>,
    },
    MovingAverage {
        input: Expression,
        alpha: f64,
    },
    Covariance {
        x: Expression,
        y: Expression,
        sample: bool,
    },
    LinearFill(Expression),
    CarriedForward(Expression),
}

/// The documents that a function sees.
#[derive(Clone, Copy, Debug)]
pub(super) enum Window {
    All,
    Documents(Bound, Bound),
    /// By the value of the sort field; the milliseconds of the unit for dates.
    Range(Bound, Bound, Option<i64>),
}

impl Window {
    /// Whether documents leave the window as it moves on.
    const fn moves(self) -> bool {
        matches!(self, Self::Documents(Bound::Offset(_), _) | Self::Range(Bound::Offset(_), ..))
    }
}

/// An end of a window.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Unbounded,
    Offset(f64),
}

/// A document with what it is ordered by.
struct Row {
    key: SortKey,
    document: DocumentBuf,
}

impl Stage for WindowFields {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let run = run.clone();
        Ok(deferred(move || {
            let mut partitions = Partitions { rows: self.sorted(input, &run)?, next: None };
            let mut partition: Option<Computed> = None;
            Ok(std::iter::from_fn(move || {
                loop {
                    if let Some(document) = partition.as_mut().and_then(|partition| partition.next(&self.outputs)) {
                        return Some(Ok(document));
                    }
                    // Its memory is given back before the next one is read.
                    partition = None;
                    match partitions.computed(&self, &run).transpose()? {
                        Ok(computed) => partition = Some(computed),
                        Err(wrong) => return Some(Err(wrong)),
                    }
                }
            }))
        }))
    }
}

/// The rows in the order of their partitions and, within one, of the sort.
struct Partitions {
    rows: Sorted,
    /// The row that begins the next partition, with the key of that.
    next: Option<(Vec<u8>, DocumentBuf)>,
}

impl Partitions {
    /// The next partition, with the values of the fields that are computed.
    fn computed(&mut self, stage: &WindowFields, run: &Run) -> Result<Option<Computed>> {
        let mut rows: Vec<Row> = Vec::new();
        let (mut this, mut held) = (None, Held::new(&run.memory, stage.name));
        loop {
            let (partition, document) = match self.next.take() {
                Some(next) => next,
                None => match self.rows.next().transpose()? {
                    Some((_, document)) => (stage.partition_key(document.view())?, document),
                    None => break,
                },
            };
            if this.as_ref().is_some_and(|this| *this != partition) {
                self.next = Some((partition, document));
                break;
            }
            this = Some(partition);
            held.take(document.as_bytes().len() + size_of::<Row>())?;
            let key = stage.sort.as_ref().map_or(Ok(Vec::new()), |sort| sort.key(document.view()))?;
            rows.push(Row { key, document });
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let values = stage.outputs.iter().map(|output| stage.values(output, &rows, &mut held).map(Vec::into_iter));
        let values = values.collect::<Result<_>>()?;
        Ok(Some(Computed { rows: rows.into_iter(), values, _held: held }))
    }
}

/// A partition whose fields are computed.
struct Computed {
    rows: std::vec::IntoIter<Row>,
    /// The values of each output, for each row.
    values: Vec<std::vec::IntoIter<Option<ValueBuf>>>,
    /// What the rows and values take.
    _held: Held,
}

impl Computed {
    /// The next document, with its fields.
    fn next(&mut self, outputs: &[Output]) -> Option<DocumentBuf> {
        let mut document = self.rows.next()?.document;
        for (output, values) in outputs.iter().zip(&mut self.values) {
            if let Some(value) = values.next().flatten() {
                document = set(document.view(), output.path.parts(), value.view());
            }
        }
        Some(document)
    }
}

impl WindowFields {
    /// The partition of a document as bytes.
    fn partition_key(&self, document: Document<'_>) -> Result<Vec<u8>> {
        let mut key = Vec::with_capacity(16);
        let Some(expression) = &self.partition else { return Ok(key) };
        let partition = expression.of(document)?;
        if partition.value().as_array().is_some() {
            let what = "An expression used to partition cannot evaluate to value of type array";
            return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
        }
        keys::encode_id(&mut key, &partition.value(), self.collation.as_deref());
        Ok(key)
    }

    fn sorted(&self, input: Rows, run: &Run) -> Result<Sorted> {
        let mut sorter = Sorter::new(self.name, Arc::clone(&run.memory), None);
        for row in input {
            let document = row?;
            let mut key = self.partition_key(document.view())?;
            if let Some(sort) = &self.sort {
                key.extend(sort.encoded(document.view())?);
            }
            sorter.push(key, document)?;
        }
        sorter.finish()
    }

    /// The value of an output for each row of a partition; nothing where the field is not set.
    fn values(&self, output: &Output, rows: &[Row], held: &mut Held) -> Result<Vec<Option<ValueBuf>>> {
        held.take(rows.len() * size_of::<Option<ValueBuf>>())?;
        let null = || ValueBuf::from(Value::Null);
        let own = |value: Val<'_>| value.into_buf().unwrap_or_else(null);
        match &output.function {
            Function::Accumulate(accumulator) => self.accumulated(accumulator, output.window, rows, held),
            Function::Rank { dense } => Ok(self.ranks(rows, *dense)),
            Function::Number => {
                Ok((1..).zip(rows).map(|(number, _)| Some(crate::expr::value::int(number).into())).collect())
            }
            Function::Shift { output, by, default } => (0_i64..)
                .zip(rows)
                .map(|(at, _)| {
                    let other = at.checked_add(*by).and_then(|at| usize::try_from(at).ok()).and_then(|at| rows.get(at));
                    let value = match other {
                        Some(row) => own(output.of(row.document.view())?),
                        None => default.clone(),
                    };
                    held.take(value.payload().len())?;
                    Ok(Some(value))
                })
                .collect(),
            Function::Covariance { x, y, sample } => self.covariances((x, y), *sample, output.window, rows),
            Function::Derivative { input, unit } | Function::Integral { input, unit } => {
                let integral = matches!(output.function, Function::Integral { .. });
                (0..rows.len())
                    .map(|at| {
                        let (from, to) = self.window(output.window, rows, at)?;
                        let points = points(&rows[from..to], input, *unit)?;
                        Ok(Some(if integral { area(&points) } else { slope(&points) }))
                    })
                    .collect()
            }
            Function::MovingAverage { input, alpha } => {
                let mut average: Option<f64> = None;
                rows.iter()
                    .map(|row| {
                        if let Some(number) = input.of(row.document.view())?.value().as_f64() {
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
                        let value = input.of(row.document.view())?;
                        if !value.is_nullish() {
                            last = own(value);
                        }
                        held.take(last.payload().len())?;
                        Ok(Some(last.clone()))
                    })
                    .collect()
            }
            Function::LinearFill(input) => linear(rows, input),
        }
    }

    /// What an accumulator makes of the window of each row.
    fn accumulated(
        &self,
        accumulator: &Accumulator,
        window: Window,
        rows: &[Row],
        held: &mut Held,
    ) -> Result<Vec<Option<ValueBuf>>> {
        let of_row = |at| {
            let (from, to) = self.window(window, rows, at)?;
            let (mut state, mut gathered) = (accumulator.start(Document::empty())?, held.empty());
            for row in &rows[from..to] {
                let bytes = accumulator.add(&mut state, row.document.view())?;
                if bytes > 0 {
                    gathered.take(bytes)?;
                }
            }
            let moves = window.moves();
            let value = if moves { accumulator.finish_moving(state) } else { accumulator.finish(state) };
            drop(gathered);
            held.take(value.payload().len())?;
            Ok(Some(value))
        };
        (0..rows.len()).map(of_row).collect()
    }

    fn covariances(
        &self,
        (x, y): (&Expression, &Expression),
        sample: bool,
        window: Window,
        rows: &[Row],
    ) -> Result<Vec<Option<ValueBuf>>> {
        let of_row = |at| {
            let (from, to) = self.window(window, rows, at)?;
            let mut covariance = Covariance::default();
            for row in &rows[from..to] {
                let document = row.document.view();
                covariance.add(&x.of(document)?.value(), &y.of(document)?.value());
            }
            Ok(Some(covariance.result(sample)))
        };
        (0..rows.len()).map(of_row).collect()
    }

    fn ranks(&self, rows: &[Row], dense: bool) -> Vec<Option<ValueBuf>> {
        let (mut rank, mut ranks) = (0, Vec::with_capacity(rows.len()));
        for (at, row) in rows.iter().enumerate() {
            let same =
                at > 0 && self.sort.as_ref().is_some_and(|sort| sort.compare(&rows[at - 1].key, &row.key).is_eq());
            if !same {
                rank = if dense { rank + 1 } else { i64::try_from(at).unwrap_or(i64::MAX) + 1 };
            }
            ranks.push(Some(crate::expr::value::int(rank).into()));
        }
        ranks
    }

    /// The rows that a window has around the row at a position.
    fn window(&self, window: Window, rows: &[Row], at: usize) -> Result<(usize, usize)> {
        match window {
            Window::All => Ok((0, rows.len())),
            Window::Documents(low, high) => {
                let here = nearest_f64(i64::try_from(at).unwrap_or(i64::MAX));
                let end = |offset: f64| {
                    crate::base::num::trunc_to_i64((here + offset).max(0.0)).and_then(|at| usize::try_from(at).ok())
                };
                let from = match low {
                    Bound::Unbounded => 0,
                    Bound::Offset(offset) => end(offset).unwrap_or(rows.len()).min(rows.len()),
                };
                let to = match high {
                    Bound::Unbounded => rows.len(),
                    Bound::Offset(offset) if here + offset < 0.0 => 0,
                    Bound::Offset(offset) => end(offset).map_or(rows.len(), |at| at + 1).min(rows.len()),
                };
                Ok((from.min(to), to))
            }
            Window::Range(low, high, unit) => {
                let value = |row: &Row| -> Result<f64> {
                    match (row.key.first().map(ValueBuf::view), unit) {
                        (Some(Value::DateTime(millis)), Some(_)) => Ok(nearest_f64(millis)),
                        (Some(value), None) if value.kind().is_number() => Ok(value.as_f64().unwrap_or_default()),
                        (Some(Value::DateTime(_)), None) => {
                            Err(error(5_429_414, "For range-based windows over dates a unit is required"))
                        }
                        (Some(_), Some(_)) => {
                            Err(error(5_429_513, "Invalid range: expected the sortBy field to be a date"))
                        }
                        _ => Err(error(5_429_414, "Invalid range: expected the sortBy field to be a number")),
                    }
                };
                let (here, scale) = (value(&rows[at])?, nearest_f64(unit.unwrap_or(1)));
                let values = rows.iter().map(value).collect::<Result<Vec<_>>>()?;
                let from = match low {
                    Bound::Unbounded => 0,
                    Bound::Offset(offset) => values.partition_point(|other| *other < here + offset * scale),
                };
                let to = match high {
                    Bound::Unbounded => rows.len(),
                    Bound::Offset(offset) => values.partition_point(|other| *other <= here + offset * scale),
                };
                Ok((from.min(to), to))
            }
        }
    }
}

/// The points of a window: the sort field, in units for dates, and the input.
fn points(rows: &[Row], input: &Expression, unit: Option<i64>) -> Result<Vec<(f64, f64)>> {
    let mut points = Vec::with_capacity(rows.len());
    for row in rows {
        let x = match (row.key.first().map(ValueBuf::view), unit) {
            (Some(Value::DateTime(millis)), Some(unit)) => nearest_f64(millis) / nearest_f64(unit),
            (Some(value), None) if value.kind().is_number() => value.as_f64().unwrap_or_default(),
            (_, Some(_)) => {
                return Err(error(5_624_900, "$derivative with 'unit' expects the sortBy field to be a Date"));
            }
            _ => return Err(error(5_624_901, "$derivative where the sortBy is a Date requires a 'unit'")),
        };
        if let Some(y) = input.of(row.document.view())?.value().as_f64() {
            points.push((x, y));
        }
    }
    Ok(points)
}

fn slope(points: &[(f64, f64)]) -> ValueBuf {
    match (points.first(), points.last()) {
        (Some(first), Some(last)) if points.len() > 1 && last.0 != first.0 => {
            Value::Double((last.1 - first.1) / (last.0 - first.0)).into()
        }
        _ => Value::Null.into(),
    }
}

fn area(points: &[(f64, f64)]) -> ValueBuf {
    if points.is_empty() {
        return Value::Null.into();
    }
    let areas = points.windows(2).map(|pair| (pair[0].1 + pair[1].1) * (pair[1].0 - pair[0].0) / 2.0);
    Value::Double(areas.fold(0.0, |sum, area| sum + area)).into()
}

/// The values of the input, with those that are missing between two others on a line between them.
fn linear(rows: &[Row], input: &Expression) -> Result<Vec<Option<ValueBuf>>> {
    let mut values = Vec::with_capacity(rows.len());
    for row in rows {
        let value = input.of(row.document.view())?;
        if !value.is_nullish() && value.value().as_number().is_none() {
            return Err(Error::new(
                ErrorCode::TYPE_MISMATCH,
                format!("Value to be filled must be numeric or nullish, but found {}", value.type_name()),
            ));
        }
        values.push(value.into_buf().unwrap_or_else(|| Value::Null.into()));
    }
    let at = |row: &Row| match row.key.first().map(ValueBuf::view) {
        Some(Value::DateTime(millis)) => Some(nearest_f64(millis)),
        Some(value) => value.as_f64(),
        None => None,
    };
    let mut filled = values.clone();
    let known: Vec<usize> = (0..values.len()).filter(|at| values[*at].kind().is_number()).collect();
    for pair in known.windows(2) {
        let (Some(x0), Some(x1)) = (at(&rows[pair[0]]), at(&rows[pair[1]])) else {
            return Err(Error::new(ErrorCode::TYPE_MISMATCH, "$linearFill needs a sort field of numbers or dates"));
        };
        let (Some(y0), Some(y1)) = (values[pair[0]].view().as_f64(), values[pair[1]].view().as_f64()) else { continue };
        for between in pair[0] + 1..pair[1] {
            if let Some(x) = at(&rows[between]) {
                filled[between] = Value::Double(y0 + (y1 - y0) * (x - x0) / (x1 - x0)).into();
            }
        }
    }
    Ok(filled.into_iter().map(Some).collect())
}
