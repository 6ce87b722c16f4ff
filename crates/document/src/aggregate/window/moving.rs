//! An output whose window moves over the rows of a partition.

use std::collections::VecDeque;
use std::sync::Arc;

use super::bounds::Bounds;
use super::covariance::{Covariance, Pair};
use super::deviation::RemovableDeviation;
use super::points::Points;
use super::ranked::RankedNumbers;
use super::spec::{Function, Output};
use crate::aggregate::accumulator::{Accumulator, Kind, State, array_of};
use crate::aggregate::memory::Held;
use crate::aggregate::ordered::{OrderKey, OrderedValues, key_of_value};
use crate::aggregate::stage::error;
use crate::base::{Result, interrupt};
use crate::bson::number::Number;
use crate::bson::{Document, DocumentBuf, Value, ValueBuf};
use crate::collation::compare;
use crate::expr::{Expression, RemovableSum, Val, count_of};
use crate::path::Sort;

/// The window of an output and what the function has of the rows in it.
pub(super) struct Windowed {
    bounds: Bounds,
    sort: Option<Sort>,
    /// The rows that were added and not removed.
    from: usize,
    to: usize,
    state: Moving,
    /// The result, when the window is the same for all rows.
    whole: Option<ValueBuf>,
    is_whole: bool,
    held: Held,
}

/// What a function has of the rows in its window.
enum Moving {
    /// Nothing ever leaves the window: what the accumulator gathers.
    Growing(Box<State>),
    /// `$first`, `$last`, `$firstN`, `$lastN`: nothing but the count, as they are read where the window begins or ends.
    Ends(usize),
    /// `$sum`, `$avg`: the numbers, and how many.
    Sum(Box<RemovableSum>, VecDeque<Option<Number>>, usize),
    Deviation(Box<RemovableDeviation>, VecDeque<Option<f64>>),
    /// `$min`, `$max`: the rows that are the best of all from them on, each better than the next.
    Extreme(VecDeque<(usize, ValueBuf)>),
    /// `$push`, `$concatArrays`: nothing for a missing value.
    Values(VecDeque<Option<ValueBuf>>),
    /// `$addToSet`, `$setUnion`, `$minN`, `$top` and others: the values, the keys that each row has among them, and how
    /// many are wanted.
    Ordered(OrderedValues, VecDeque<Vec<OrderKey>>, usize),
    /// `$median`, `$percentile`.
    Ranked(RankedNumbers),
    /// The pairs are kept where they leave the window again.
    Covariance(Box<Covariance>, Option<VecDeque<Pair>>),
    Points(Points),
}

impl Windowed {
    /// # Errors
    /// Those of the window, of a count of the function, and of its input where all of that is read at once; code 292
    /// when the limit of memory is exceeded.
    pub(super) fn new(output: &Output, sort: Option<&Sort>, rows: &[DocumentBuf], mut held: Held) -> Result<Self> {
        let bounds = Bounds::new(output.window, sort, rows)?;
        held.take(bounds.bytes())?;
        let state = match &output.function {
            Function::Accumulate(accumulator) => {
                Moving::accumulating(accumulator, output.window.moves(), rows, &mut held)?
            }
            Function::Covariance { .. } => {
                Moving::Covariance(Box::default(), output.window.moves().then(VecDeque::new))
            }
            _ => Moving::Points(Points::default()),
        };
        let is_whole = output.window.is_whole();
        Ok(Self { bounds, sort: sort.cloned(), from: 0, to: 0, state, whole: None, is_whole, held })
    }

    /// The value for a row, which is not before that of the last call.
    ///
    /// # Errors
    /// Those of the function's input; code 292 when the limit of memory is exceeded; those of the operation's end.
    pub(super) fn value(&mut self, function: &Function, rows: &[DocumentBuf], row: usize) -> Result<ValueBuf> {
        if let Some(whole) = &self.whole {
            interrupt::work(whole.payload().len() / 64)?;
            return Ok(whole.clone());
        }
        let (from, to) = self.bounds.at(row, rows.len());
        while self.from < from.min(self.to) {
            interrupt::work(1)?;
            let removed = self.state.remove(self.from);
            self.held.give(removed);
            self.from += 1;
        }
        // Rows that no window has are passed over.
        self.from = self.from.max(from);
        self.to = self.to.max(self.from);
        while self.to < to {
            interrupt::work(1)?;
            let added = self.state.add(self.to, &rows[self.to], function, self.sort.as_ref())?;
            self.held.give(added.dropped);
            self.held.take(added.kept)?;
            self.to += 1;
        }
        let value = self.state.value(function, &rows[self.from..self.to])?;
        interrupt::work(value.payload().len() / 64)?;
        if self.is_whole {
            self.held.take(value.payload().len())?;
            self.whole = Some(value.clone());
        }
        Ok(value)
    }
}

/// The bytes that are kept for a row that was added, and those of earlier ones that are kept no longer.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    kept: usize,
    dropped: usize,
}

impl From<usize> for Added {
    fn from(kept: usize) -> Self {
        Self { kept, dropped: 0 }
    }
}

fn null() -> ValueBuf {
    Value::Null.into()
}

fn own(value: Val<'_>) -> ValueBuf {
    value.into_buf().unwrap_or_else(null)
}

/// The bytes of a value, with its place in a queue.
fn bytes(value: &ValueBuf) -> usize {
    size_of::<(usize, ValueBuf)>() + value.payload().len()
}

/// Adds a value to those that are the best of all from them on.
fn add_to_extreme(
    best: &mut VecDeque<(usize, ValueBuf)>,
    row: usize,
    value: Val<'_>,
    accumulator: &Accumulator,
) -> Added {
    if value.is_nullish() {
        return Added::default();
    }
    let is_greatest = matches!(accumulator.kind, Kind::Extreme(true));
    let is_worse = |(_, other): &mut (usize, ValueBuf)| {
        let order = compare(accumulator.collation.as_deref(), &other.view(), &value.value());
        if is_greatest { order.is_lt() } else { order.is_gt() }
    };
    let mut dropped = 0;
    while let Some((_, worse)) = best.pop_back_if(is_worse) {
        dropped += bytes(&worse);
    }
    let value = own(value);
    let kept = bytes(&value);
    best.push_back((row, value));
    Added { kept, dropped }
}

fn pair(x: &Expression, y: &Expression, document: Document<'_>) -> Result<Pair> {
    let (x, y) = (x.of(document)?, y.of(document)?);
    Ok(x.value().as_number().zip(y.value().as_number()))
}

impl Moving {
    /// The state of an accumulator before the first row.
    fn accumulating(accumulator: &Accumulator, moves: bool, rows: &[DocumentBuf], held: &mut Held) -> Result<Self> {
        let count =
            |n: &Expression| count_of(&n.of(Document::empty())?).map_err(|wrong| error(7_548_606, wrong.message()));
        Ok(match &accumulator.kind {
            Kind::Percentile(..) => {
                held.take(rows.len() * RankedNumbers::ROW_BYTES)?;
                let number = |row: &DocumentBuf| {
                    interrupt::work(1)?;
                    Ok(accumulator.argument.of(row.view())?.value().as_f64())
                };
                Self::Ranked(RankedNumbers::new(&rows.iter().map(number).collect::<Result<Vec<_>>>()?))
            }
            _ if !moves => Self::Growing(Box::new(accumulator.start(Document::empty())?)),
            Kind::Sum | Kind::Average => Self::Sum(Box::default(), VecDeque::new(), 0),
            Kind::Deviation(_) => Self::Deviation(Box::default(), VecDeque::new()),
            Kind::Extreme(_) => Self::Extreme(VecDeque::new()),
            Kind::End(_) => Self::Ends(1),
            Kind::EndN(_, n) => Self::Ends(count(n)?),
            Kind::Push | Kind::Concat => Self::Values(VecDeque::new()),
            Kind::Set | Kind::Union => Self::Ordered(OrderedValues::default(), VecDeque::new(), usize::MAX),
            Kind::ExtremeN(_, n) | Kind::Top(_, _, Some(n)) => {
                Self::Ordered(OrderedValues::default(), VecDeque::new(), count(n)?)
            }
            Kind::Top(_, _, None) => Self::Ordered(OrderedValues::default(), VecDeque::new(), 1),
            Kind::Merge => {
                return Err(error(5_461_500, "Window function $mergeObjects is not supported with a removable window"));
            }
        })
    }

    /// Adds the next row.
    fn add(&mut self, row: usize, document: &DocumentBuf, function: &Function, sort: Option<&Sort>) -> Result<Added> {
        let view = document.view();
        match function {
            Function::Accumulate(accumulator) => self.add_to_accumulator(row, view, accumulator),
            Function::Covariance { x, y, .. } => {
                let Self::Covariance(covariance, pairs) = self else { return Ok(Added::default()) };
                let pair = pair(x, y, view)?;
                covariance.add(pair);
                Ok(pairs.as_mut().map_or_else(Added::default, |pairs| {
                    pairs.push_back(pair);
                    size_of::<Pair>().into()
                }))
            }
            Function::Derivative { input, unit } | Function::Integral { input, unit } => {
                let Self::Points(points) = self else { return Ok(Added::default()) };
                points.add(sort, row, document, (input, *unit))?;
                Ok(Points::ROW_BYTES.into())
            }
            _ => Ok(Added::default()),
        }
    }

    fn add_to_accumulator(&mut self, row: usize, document: Document<'_>, accumulator: &Accumulator) -> Result<Added> {
        let argument = || accumulator.argument.of(document);
        let collation = accumulator.collation.as_deref();
        let kept = match self {
            Self::Growing(state) => accumulator.add(state, document)?,
            Self::Ends(_) => 0,
            Self::Sum(sum, numbers, count) => {
                let number = argument()?.value().as_number();
                number.into_iter().for_each(|number| sum.add(number));
                *count += usize::from(number.is_some());
                numbers.push_back(number);
                size_of::<Option<Number>>()
            }
            Self::Deviation(deviation, numbers) => {
                let number = argument()?.value().as_f64();
                number.into_iter().for_each(|number| deviation.add(number));
                numbers.push_back(number);
                size_of::<Option<f64>>()
            }
            Self::Extreme(best) => return Ok(add_to_extreme(best, row, argument()?, accumulator)),
            Self::Values(values) => {
                let value = argument()?;
                if matches!(accumulator.kind, Kind::Concat) {
                    array_of("$concatArrays", &value)?;
                }
                let value = value.into_buf();
                let bytes = value.as_ref().map_or(size_of::<Option<ValueBuf>>(), bytes);
                values.push_back(value);
                bytes
            }
            Self::Ordered(values, keys, _) => {
                let mut bytes = size_of::<Vec<OrderKey>>();
                let mut of_row: Vec<OrderKey> = Vec::new();
                let mut add = |key: Vec<u8>, value: ValueBuf| {
                    let key: OrderKey = key.into();
                    of_row.push(Arc::clone(&key));
                    bytes += values.add(key, value);
                };
                let value = argument()?;
                match (&accumulator.kind, &value) {
                    (Kind::Top(sort, ..), _) => add(sort.encoded(document)?, own(value)),
                    (Kind::Union, _) => {
                        let array = array_of("$setUnion", &value)?;
                        array.iter().flat_map(|array| array.values()).for_each(|value| {
                            add(key_of_value(&value, collation), value.into());
                        });
                    }
                    (Kind::Set, Val::Missing) => {}
                    (Kind::ExtremeN(..), value) if value.is_nullish() => {}
                    _ => add(key_of_value(&value.value(), collation), own(value)),
                }
                keys.push_back(of_row);
                bytes
            }
            Self::Ranked(numbers) => {
                numbers.add(row);
                0
            }
            Self::Covariance(..) | Self::Points(_) => 0,
        };
        Ok(kept.into())
    }

    /// Removes the first row. The bytes that were kept for it.
    fn remove(&mut self, row: usize) -> usize {
        match self {
            Self::Growing(_) | Self::Ends(_) => 0,
            Self::Sum(sum, numbers, count) => {
                if let Some(number) = numbers.pop_front().flatten() {
                    sum.remove(number);
                    *count -= 1;
                }
                size_of::<Option<Number>>()
            }
            Self::Deviation(deviation, numbers) => {
                numbers.pop_front().flatten().into_iter().for_each(|number| deviation.remove(number));
                size_of::<Option<f64>>()
            }
            Self::Extreme(best) => best.pop_front_if(|(at, _)| *at == row).map_or(0, |(_, value)| bytes(&value)),
            Self::Values(values) => values.pop_front().flatten().as_ref().map_or(size_of::<Option<ValueBuf>>(), bytes),
            Self::Ordered(values, keys, _) => {
                let of_row = keys.pop_front().unwrap_or_default();
                size_of::<Vec<OrderKey>>() + of_row.iter().map(|key| values.remove(key)).sum::<usize>()
            }
            Self::Ranked(numbers) => {
                numbers.remove(row);
                0
            }
            Self::Covariance(covariance, pairs) => {
                covariance.remove(pairs.as_mut().and_then(VecDeque::pop_front).flatten());
                size_of::<Pair>()
            }
            Self::Points(points) => {
                points.remove(row);
                Points::ROW_BYTES
            }
        }
    }

    /// The result of the rows of the window.
    fn value(&self, function: &Function, window: &[DocumentBuf]) -> Result<ValueBuf> {
        Ok(match (self, function) {
            (Self::Covariance(covariance, _), Function::Covariance { sample, .. }) => covariance.result(*sample),
            (Self::Points(points), Function::Integral { .. }) => points.integral(),
            (Self::Points(points), _) => points.derivative(),
            (_, Function::Accumulate(accumulator)) => return self.of_accumulator(accumulator, window),
            _ => null(),
        })
    }

    fn of_accumulator(&self, accumulator: &Accumulator, window: &[DocumentBuf]) -> Result<ValueBuf> {
        let of = |row: &DocumentBuf| Ok(own(accumulator.argument.of(row.view())?));
        Ok(match (self, &accumulator.kind) {
            (Self::Growing(state), _) => accumulator.finish(State::clone(state)),
            (Self::Ends(_), Kind::End(last)) => {
                let row = if *last { window.last() } else { window.first() };
                row.map_or_else(|| Ok(null()), of)?
            }
            (Self::Ends(n), Kind::EndN(last, _)) => {
                let from = if *last { window.len().saturating_sub(*n) } else { 0 };
                let values: Vec<_> = window[from..].iter().take(*n).map(of).collect::<Result<_>>()?;
                ValueBuf::array(values.iter().map(ValueBuf::view))
            }
            (Self::Sum(_, _, 0), Kind::Average) => null(),
            (Self::Sum(sum, _, count), Kind::Average) => sum.mean(*count).into(),
            (Self::Sum(sum, ..), _) => sum.total().into(),
            (Self::Deviation(deviation, _), kind) => deviation.result(matches!(kind, Kind::Deviation(true))),
            (Self::Extreme(best), _) => best.front().map_or_else(null, |(_, value)| value.clone()),
            (Self::Values(values), Kind::Concat) => {
                let arrays = values.iter().flatten().filter_map(|value| value.view().as_array());
                ValueBuf::array(arrays.flat_map(|array| array.values()))
            }
            (Self::Values(values), _) => ValueBuf::array(values.iter().flatten().map(ValueBuf::view)),
            (Self::Ordered(values, _, n), kind) => kind.of_ordered(values, *n),
            (Self::Ranked(numbers), Kind::Percentile(shares, many)) => {
                let values = shares.iter().map(|share| numbers.percentile(*share).map_or(Value::Null, Value::Double));
                match many {
                    true => ValueBuf::array(values),
                    false => values.into_iter().next().unwrap_or(Value::Null).into(),
                }
            }
            _ => null(),
        })
    }
}
