//! Accumulators: what `$group`, `$bucket` and window functions make of many values.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use crate::base::Result;
use crate::bson::{Document, Value, ValueBuf, equal, hash};
use crate::collation::{Collated, Collation, compare};
use crate::expr::{Context, Deviation, Expression, Sum, Val, count_of, percentile};
use crate::path::Sort;

use super::effect::Fields;
use super::ordered::{OrderedValues, key_of_value};
use super::stage::error;

/// An accumulator, and what it takes from each document.
#[derive(Clone, Debug)]
pub struct Accumulator {
    /// What it does.
    pub kind: Kind,
    /// What it takes.
    pub argument: Expression,
    /// How it compares strings.
    pub collation: Collated,
}

/// What an accumulator does.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `$sum`.
    Sum,
    /// `$avg`.
    Average,
    /// `$min` and `$max`: whether the greatest.
    Extreme(bool),
    /// `$first` and `$last`: whether the last.
    End(bool),
    /// `$push`.
    Push,
    /// `$addToSet`.
    Set,
    /// `$concatArrays`.
    Concat,
    /// `$setUnion`.
    Union,
    /// `$mergeObjects`.
    Merge,
    /// `$stdDevPop` and `$stdDevSamp`: whether of a sample.
    Deviation(bool),
    /// `$firstN` and `$lastN`: whether the last; the count is an expression of the group.
    EndN(bool, Expression),
    /// `$minN` and `$maxN`: whether the greatest.
    ExtremeN(bool, Expression),
    /// `$top`, `$bottom`, `$topN`, `$bottomN`: the order, whether the last ones, and the count if an array is given.
    Top(Sort, bool, Option<Expression>),
    /// `$median` and `$percentile`: the shares, and whether an array is given.
    Percentile(Vec<f64>, bool),
}

/// A value that is equal to others by MongoDB's equality; with a collation, sort keys are in the place of its strings.
#[derive(Clone, Debug)]
pub(super) struct Key(ValueBuf);

impl Key {
    pub(super) fn of(value: &ValueBuf, collation: Option<&Collation>) -> Self {
        Self(collation.and_then(|collation| collation.key_of(&value.view())).unwrap_or_else(|| value.clone()))
    }

    /// The key of a value, and the value when the key does not have it.
    pub(super) fn of_owned(value: ValueBuf, collation: Option<&Collation>) -> (Self, Option<ValueBuf>) {
        match collation.and_then(|collation| collation.key_of(&value.view())) {
            None => (Self(value), None),
            Some(key) => (Self(key), Some(value)),
        }
    }

    pub(super) const fn value(&self) -> &ValueBuf {
        &self.0
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        equal(&self.0.view(), &other.0.view())
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(&self.0.view(), state);
    }
}

/// What an accumulator has gathered.
#[derive(Clone, Debug)]
pub enum State {
    /// Of a sum.
    Sum(Sum),
    /// Of an average: the count of numbers as well.
    Average(Sum, usize),
    /// One value.
    One(Option<ValueBuf>),
    /// Many values.
    Many(Vec<ValueBuf>),
    /// Many values, each once.
    Set(Vec<ValueBuf>, SetOf),
    /// Fields of documents.
    Merge(Merged),
    /// Of a deviation; whether a number was not finite.
    Deviation(Deviation, bool),
    /// The first or last values, and how many.
    Some(VecDeque<ValueBuf>, usize),
    /// The first or last values of an order, and how many.
    Ordered(Ordered, usize),
    /// Numbers.
    Numbers(Vec<f64>),
}

/// The values of a set.
#[derive(Clone, Debug, Default)]
pub struct SetOf(HashSet<Key>);

/// The values of an order.
#[derive(Clone, Debug, Default)]
pub struct Ordered(OrderedValues);

/// Fields in the order in which they came first, and the places of their names.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    fields: Vec<(Vec<u8>, ValueBuf)>,
    places: HashMap<Vec<u8>, usize>,
}

impl Accumulator {
    /// An accumulator over the values of an expression.
    ///
    /// # Errors
    /// Those of the expression.
    pub fn new(kind: Kind, argument: Value<'_>, context: &Context) -> Result<Self> {
        Ok(Self { kind, argument: crate::expr::parse(argument, context)?, collation: context.collation.clone() })
    }

    /// The accumulator that counts documents.
    #[must_use]
    pub fn counting() -> Self {
        Self { kind: Kind::Sum, argument: Expression::constant(Value::Int32(1)), collation: None }
    }

    /// The state before the first document. `id` is the group's, for counts that depend on it.
    ///
    /// # Errors
    /// Those of a count that is none.
    pub fn start(&self, id: Document<'_>) -> Result<State> {
        let count =
            |expression: &Expression| count_of(&expression.of(id)?).map_err(|wrong| error(7_548_606, wrong.message()));
        Ok(match &self.kind {
            Kind::Sum => State::Sum(Sum::default()),
            Kind::Average => State::Average(Sum::default(), 0),
            Kind::Extreme(_) | Kind::End(_) => State::One(None),
            Kind::Push | Kind::Concat => State::Many(Vec::new()),
            Kind::Set | Kind::Union => State::Set(Vec::new(), SetOf::default()),
            Kind::Merge => State::Merge(Merged::default()),
            Kind::Deviation(_) => State::Deviation(Deviation::default(), false),
            Kind::EndN(_, n) => State::Some(VecDeque::new(), count(n)?),
            Kind::ExtremeN(_, n) => State::Ordered(Ordered::default(), count(n)?),
            Kind::Top(_, _, n) => State::Ordered(Ordered::default(), n.as_ref().map_or(Ok(1), count)?),
            Kind::Percentile(..) => State::Numbers(Vec::new()),
        })
    }

    /// Adds the fields that the accumulator reads.
    pub fn add_fields(&self, to: &mut Fields) {
        to.add_expression(&self.argument);
        match &self.kind {
            Kind::EndN(_, n) | Kind::ExtremeN(_, n) => to.add_expression(n),
            Kind::Top(sort, _, n) => {
                sort.fields().iter().for_each(|(path, _)| to.add(path));
                n.iter().for_each(|n| to.add_expression(n));
            }
            _ => {}
        }
    }

    /// Adds what the accumulator takes from a document. The bytes that are kept for it.
    ///
    /// # Errors
    /// Those of the expression, and of values of a wrong type.
    pub fn add(&self, state: &mut State, document: Document<'_>) -> Result<usize> {
        if let (Kind::Top(sort, last, _), State::Ordered(kept, n)) = (&self.kind, &mut *state) {
            let (key, value) = (sort.encoded(document)?, self.argument.of(document)?);
            let value = || value.into_buf().unwrap_or_else(|| Value::Null.into());
            return Ok(match last {
                true => kept.0.add_to_greatest(*n, false, key, value),
                false => kept.0.add_to_least(*n, key, value),
            });
        }
        let value = self.argument.of(document)?;
        self.add_value(state, value)
    }

    /// Adds a value.
    ///
    /// # Errors
    /// As [`Self::add`].
    #[inline]
    pub fn add_value(&self, state: &mut State, value: Val<'_>) -> Result<usize> {
        let State::Sum(sum) = state else { return self.add_to_other(state, value) };
        if let Some(number) = value.value().as_number() {
            sum.add(number, value.value().kind());
        }
        Ok(0)
    }

    /// Adds a value to a state that is no sum.
    fn add_to_other(&self, state: &mut State, value: Val<'_>) -> Result<usize> {
        Ok(match (&self.kind, state) {
            (_, State::Average(sum, count)) => {
                if let Some(number) = value.value().as_number() {
                    sum.add_for_mean(number, value.value().kind());
                    *count += 1;
                }
                0
            }
            (Kind::Extreme(greatest), State::One(best)) => {
                let better = best.as_ref().is_none_or(|best| {
                    let order = compare(self.collation.as_deref(), &value.value(), &best.view());
                    if *greatest { order.is_gt() } else { order.is_lt() }
                });
                if !better || value.is_nullish() {
                    return Ok(0);
                }
                let before = best.as_ref().map_or(0, bytes);
                *best = value.into_buf();
                best.as_ref().map_or(0, bytes).saturating_sub(before)
            }
            (Kind::End(last), State::One(end)) => {
                if !*last && end.is_some() {
                    return Ok(0);
                }
                let before = end.as_ref().map_or(0, bytes);
                *end = Some(value.into_buf().unwrap_or_else(|| Value::Null.into()));
                end.as_ref().map_or(0, bytes).saturating_sub(before)
            }
            (Kind::Push, State::Many(values)) => value.into_buf().map_or(0, |value| {
                let size = bytes(&value);
                values.push(value);
                size
            }),
            (Kind::Concat, State::Many(values)) => match array_of("$concatArrays", &value)? {
                Some(array) => {
                    let before = values.len();
                    values.extend(array.values().map(ValueBuf::from));
                    array.as_bytes().len() + (values.len() - before) * size_of::<ValueBuf>()
                }
                None => 0,
            },
            (Kind::Set, State::Set(values, set)) => {
                value.into_buf().map_or(0, |value| self.add_to_set(values, set, value))
            }
            (Kind::Union, State::Set(values, set)) => match array_of("$setUnion", &value)? {
                Some(array) => array.values().map(|value| self.add_to_set(values, set, value.into())).sum(),
                None => 0,
            },
            (_, state) => self.add_to_some(state, value)?,
        })
    }

    fn add_to_set(&self, values: &mut Vec<ValueBuf>, set: &mut SetOf, value: ValueBuf) -> usize {
        if !set.0.insert(Key::of(&value, self.collation.as_deref())) {
            return 0;
        }
        let size = 2 * (size_of::<ValueBuf>() + value.payload().len());
        values.push(value);
        size
    }

    /// Adds a value to states that are kept in an order or merged.
    fn add_to_some(&self, state: &mut State, value: Val<'_>) -> Result<usize> {
        Ok(match (&self.kind, state) {
            (_, State::Merge(fields)) => merge(fields, &value)?,
            (_, State::Deviation(deviation, infinite)) => {
                if let Some(number) = value.value().as_f64() {
                    *infinite |= !number.is_finite();
                    deviation.add(number);
                }
                0
            }
            (Kind::EndN(last, _), State::Some(values, n)) => {
                let is_full = values.len() == *n;
                if is_full && (!*last || *n == 0) {
                    return Ok(0);
                }
                let dropped = if is_full { values.pop_front().as_ref().map_or(0, bytes) } else { 0 };
                let value = value.into_buf().unwrap_or_else(|| Value::Null.into());
                let added = bytes(&value);
                values.push_back(value);
                added.saturating_sub(dropped)
            }
            (Kind::ExtremeN(greatest, _), State::Ordered(kept, n)) => {
                if value.is_nullish() {
                    return Ok(0);
                }
                let key = key_of_value(&value.value(), self.collation.as_deref());
                let value = || value.into_buf().unwrap_or_else(|| Value::Null.into());
                match greatest {
                    true => kept.0.add_to_greatest(*n, true, key, value),
                    false => kept.0.add_to_least(*n, key, value),
                }
            }
            (_, State::Numbers(numbers)) => {
                numbers.extend(value.value().as_f64());
                size_of::<f64>()
            }
            _ => 0,
        })
    }

    /// The result of all that was added.
    #[must_use]
    pub fn finish(&self, state: State) -> ValueBuf {
        let null = || ValueBuf::from(Value::Null);
        let array = |values: &[ValueBuf]| ValueBuf::array(values.iter().map(ValueBuf::view));
        match (&self.kind, state) {
            (_, State::Sum(sum)) => sum.total().into(),
            (_, State::Average(sum, count)) => {
                if count == 0 {
                    null()
                } else {
                    sum.mean(count).into()
                }
            }
            (_, State::One(value)) => value.unwrap_or_else(null),
            (_, State::Many(values) | State::Set(values, _)) => array(&values),
            (_, State::Some(values, _)) => ValueBuf::array(values.iter().map(ValueBuf::view)),
            (_, State::Merge(merged)) => {
                let mut builder = crate::bson::DocumentBuilder::new();
                for (name, value) in &merged.fields {
                    builder.append(name, value.view());
                }
                builder.finish().into()
            }
            (Kind::Deviation(sample), State::Deviation(deviation, infinite)) => match deviation.result(*sample) {
                Some(_) if infinite => Value::Double(f64::NAN).into(),
                Some(result) => Value::Double(result).into(),
                None => null(),
            },
            (kind, State::Ordered(Ordered(values), n)) => kind.of_ordered(&values, n),
            (Kind::Percentile(shares, many), State::Numbers(mut numbers)) => {
                numbers.sort_by(f64::total_cmp);
                let of =
                    |share: &f64| percentile(&numbers, *share).map_or_else(null, |number| Value::Double(number).into());
                let results: Vec<ValueBuf> = shares.iter().map(of).collect();
                if *many { array(&results) } else { results.into_iter().next().unwrap_or_else(null) }
            }
            _ => null(),
        }
    }
}

impl Kind {
    /// The result of values in an order, of which there may be more than `n`.
    pub(super) fn of_ordered(&self, values: &OrderedValues, n: usize) -> ValueBuf {
        let array = |values: &mut dyn Iterator<Item = &ValueBuf>| ValueBuf::array(values.map(ValueBuf::view));
        let one = |value: Option<&ValueBuf>| value.cloned().unwrap_or_else(|| Value::Null.into());
        match self {
            Self::Set | Self::Union => array(&mut values.distinct()),
            Self::ExtremeN(true, _) => array(&mut values.descending().take(n)),
            Self::Top(_, false, None) => one(values.ascending().next()),
            Self::Top(_, true, None) => one(values.ascending().next_back()),
            Self::Top(_, true, Some(_)) => {
                let mut last: Vec<&ValueBuf> = values.ascending().rev().take(n).collect();
                last.reverse();
                array(&mut last.into_iter())
            }
            _ => array(&mut values.ascending().take(n)),
        }
    }
}

pub(super) fn array_of<'v>(name: &str, value: &'v Val<'_>) -> Result<Option<crate::bson::Array<'v>>> {
    match value.view() {
        None => Ok(None),
        Some(Value::Array(array)) => Ok(Some(array)),
        Some(other) => {
            let what = format!(
                "{name} requires array inputs, but input {} is of type {}",
                other.to_json(),
                other.kind().name()
            );
            Err(crate::base::Error::new(crate::base::ErrorCode::TYPE_MISMATCH, what))
        }
    }
}

fn merge(merged: &mut Merged, value: &Val<'_>) -> Result<usize> {
    match value.value() {
        Value::Document(document) => {
            for element in document {
                let name = element.name.as_bytes();
                match merged.places.get(name) {
                    Some(place) => merged.fields[*place].1 = element.value.into(),
                    None => {
                        merged.places.insert(name.to_vec(), merged.fields.len());
                        merged.fields.push((name.to_vec(), element.value.into()));
                    }
                }
            }
            Ok(document.as_bytes().len())
        }
        value if value.is_nullish() => Ok(0),
        other => Err(error(
            5_911_200,
            format!(
                "$mergeObjects requires object inputs, but input {} is of type {}",
                other.to_json(),
                other.kind().name()
            ),
        )),
    }
}

/// The bytes that a kept value takes.
fn bytes(value: &ValueBuf) -> usize {
    size_of::<ValueBuf>() + value.payload().len()
}
