//! The intervals of values that a filter implies for one path, as an index on that path holds them.
//!
//! An index holds for each document the values that [`collect`](crate::path::collect::collect) gives. A document that
//! matches has at least one of them within the bounds; bounds are *exact* when every document with such a value
//! matches. Where the path passes through arrays, conditions may be met by different values, so only one of several is
//! used; exactness of a complement is lost as well.
//!
//! An index with a collation holds sort keys in the place of strings, and so do its bounds. A condition on strings says
//! nothing about an index with another collation than its own.

use std::cmp::Ordering;
use std::collections::VecDeque;

use smallvec::SmallVec;

use super::node::Node;
use super::predicate::{Comparison, Predicate};
use super::types::Types;
use crate::bson::{Class, Kind, ObjectId, Value, ValueBuf, compare};
use crate::collation::{Collation, has_text};
use crate::path::{Part, Path};
use crate::pattern::Pattern;

/// One end of an interval.
#[derive(Clone, Debug)]
pub struct End {
    /// The value.
    pub value: ValueBuf,
    /// Whether the value itself is within.
    pub inclusive: bool,
}

/// Values from one end to another.
#[derive(Clone, Debug)]
pub struct Interval {
    /// The lower end.
    pub low: End,
    /// The upper end.
    pub high: End,
}

/// The intervals of a path, in order and apart from each other.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The intervals.
    pub intervals: Vec<Interval>,
    /// Whether every document with a value within the intervals matches the conditions that gave them. Parts of a
    /// conjunction that are on other paths give none.
    pub exact: bool,
}

impl Interval {
    /// The interval of one value.
    #[must_use]
    pub fn point(value: Value<'_>) -> Self {
        let end = End { value: value.into(), inclusive: true };
        Self { low: end.clone(), high: end }
    }

    /// Whether it has only one value.
    #[must_use]
    pub fn is_point(&self) -> bool {
        self.low.inclusive && self.high.inclusive && compare(&self.low.value.view(), &self.high.value.view()).is_eq()
    }

    fn new(low: (Value<'_>, bool), high: (Value<'_>, bool)) -> Self {
        let end = |(value, inclusive): (Value<'_>, bool)| End { value: value.into(), inclusive };
        Self { low: end(low), high: end(high) }
    }

    /// Whether a value is within.
    #[must_use]
    pub fn contains(&self, value: &Value<'_>) -> bool {
        let above = match compare(value, &self.low.value.view()) {
            Ordering::Less => false,
            Ordering::Equal => self.low.inclusive,
            Ordering::Greater => true,
        };
        above
            && match compare(value, &self.high.value.view()) {
                Ordering::Less => true,
                Ordering::Equal => self.high.inclusive,
                Ordering::Greater => false,
            }
    }

    fn is_empty(&self) -> bool {
        match compare(&self.low.value.view(), &self.high.value.view()) {
            Ordering::Less => false,
            Ordering::Equal => !(self.low.inclusive && self.high.inclusive),
            Ordering::Greater => true,
        }
    }
}

/// The order of lower ends.
fn low_order(a: &End, b: &End) -> Ordering {
    compare(&a.value.view(), &b.value.view()).then_with(|| b.inclusive.cmp(&a.inclusive))
}

/// The order of upper ends.
fn high_order(a: &End, b: &End) -> Ordering {
    compare(&a.value.view(), &b.value.view()).then_with(|| a.inclusive.cmp(&b.inclusive))
}

impl Bounds {
    /// All values.
    #[must_use]
    pub fn full() -> Self {
        Self { intervals: vec![Interval::new((Value::MinKey, true), (Value::MaxKey, true))], exact: false }
    }

    /// No values.
    #[must_use]
    pub const fn none() -> Self {
        Self { intervals: Vec::new(), exact: true }
    }

    /// Whether all values are within.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(&self.intervals[..], [only] if matches!(only.low.value.view(), Value::MinKey)
            && matches!(only.high.value.view(), Value::MaxKey) && only.low.inclusive && only.high.inclusive)
    }

    /// Whether there is only one value.
    #[must_use]
    pub fn is_point(&self) -> bool {
        matches!(&self.intervals[..], [only] if only.is_point())
    }

    /// Whether a value is within.
    #[must_use]
    pub fn contains(&self, value: &Value<'_>) -> bool {
        let next = self.intervals.partition_point(|interval| compare(&interval.high.value.view(), value).is_lt());
        // Two intervals may end and begin at a value that neither has.
        self.intervals[next..].iter().take(2).any(|interval| interval.contains(value))
    }

    /// The bounds that a filter implies for a path of an index.
    #[must_use]
    pub fn of(node: &Node, path: &Path, held: Held<'_>) -> Self {
        let bounds = of_node(node, path, held).unwrap_or_else(Self::full);
        // A number is a position for the index. For a filter it is a field of the array's documents too, and null where
        // they lack that, whatever is at the position.
        if path.parts().iter().any(Part::is_digits) && bounds.contains(&Value::Null) {
            return Self::full();
        }
        bounds
    }

    /// Whether a string may be within, or a document or an array, which may have strings.
    #[must_use]
    pub fn has_text(&self) -> bool {
        let (first, behind) = (class(Class::String).low, class(Class::Array).high);
        let texts = Interval { low: first, high: behind };
        let within = |interval: &Interval| {
            let low = if low_order(&interval.low, &texts.low).is_ge() { &interval.low } else { &texts.low };
            let high = if high_order(&interval.high, &texts.high).is_le() { &interval.high } else { &texts.high };
            !Interval { low: low.clone(), high: high.clone() }.is_empty()
        };
        self.intervals.iter().any(within)
    }

    /// The values of either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self::union_of([Some(self), Some(other)]).unwrap_or_else(Self::full)
    }

    /// The values of any, in n log n of the intervals of all; nothing when one of the bounds is not known.
    #[must_use]
    pub fn union_of(all: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        let mut joined = Self::none();
        for bounds in all {
            let Self { intervals, exact } = bounds?;
            joined.intervals.extend(intervals);
            joined.exact &= exact;
        }
        Some(joined.normalized())
    }

    /// The values of both, by one walk over the intervals of each.
    #[must_use]
    pub fn intersection(self, other: &Self) -> Self {
        let mut intervals = Vec::new();
        let (mut left, mut right) = (self.intervals.iter().peekable(), other.intervals.iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            let low = if low_order(&a.low, &b.low).is_ge() { &a.low } else { &b.low };
            let a_ends_first = high_order(&a.high, &b.high).is_le();
            let high = if a_ends_first { &a.high } else { &b.high };
            let both = Interval { low: low.clone(), high: high.clone() };
            if !both.is_empty() {
                intervals.push(both);
            }
            if a_ends_first {
                left.next()
            } else {
                right.next()
            };
        }
        Self { intervals, exact: self.exact && other.exact }
    }

    /// The values of all, or nothing when there are none. The bounds are intersected by pairs, the pairs by pairs, and
    /// so on, so that n conditions cost n log n.
    fn intersection_of(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all: VecDeque<_> = all.into_iter().collect();
        while all.len() > 1 {
            let (first, second) = (all.pop_front()?, all.pop_front()?);
            all.push_back(first.intersection(&second));
        }
        all.pop_front()
    }

    /// The values that are not within.
    #[must_use]
    pub fn complement(self) -> Self {
        let mut intervals = Vec::new();
        let mut low = End { value: Value::MinKey.into(), inclusive: true };
        for Interval { low: from, high: to } in self.intervals {
            let gap = Interval { low, high: End { value: from.value, inclusive: !from.inclusive } };
            if !gap.is_empty() {
                intervals.push(gap);
            }
            low = End { value: to.value, inclusive: !to.inclusive };
        }
        let rest = Interval { low, high: End { value: Value::MaxKey.into(), inclusive: true } };
        if !rest.is_empty() {
            intervals.push(rest);
        }
        Self { intervals, exact: self.exact }
    }

    /// The same values with the intervals in order and those that touch joined.
    fn normalized(mut self) -> Self {
        self.intervals.sort_by(|a, b| low_order(&a.low, &b.low));
        let mut joined: Vec<Interval> = Vec::with_capacity(self.intervals.len());
        for next in self.intervals {
            if let Some(last) = joined.last_mut() {
                let order = compare(&next.low.value.view(), &last.high.value.view());
                if order.is_lt() || order.is_eq() && (next.low.inclusive || last.high.inclusive) {
                    if high_order(&next.high, &last.high).is_gt() {
                        last.high = next.high;
                    }
                    continue;
                }
            }
            joined.push(next);
        }
        self.intervals = joined;
        self
    }
}

/// How an index holds the values of a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held<'i> {
    /// Whether the path passes through an array in any document of the index.
    pub multikey: bool,
    /// The collation of the index.
    pub collation: Option<&'i Collation>,
}

/// The bounds of a part, or nothing when it says nothing about the path.
fn of_node(node: &Node, path: &Path, held: Held<'_>) -> Option<Bounds> {
    let multikey = held.multikey;
    match node {
        Node::And(nodes) => and(nodes, path, held),
        Node::Or(nodes) => {
            Bounds::union_of(nodes.iter().map(|node| of_node(node, path, held))).filter(|_| !nodes.is_empty())
        }
        Node::Leaf { path: other, test } if other == path => of_predicate(test, held),
        Node::Not(inner) => match &**inner {
            Node::Leaf { path: other, .. } if other == path => {
                let bounds = of_node(inner, path, held)?;
                (bounds.exact && !multikey).then(|| bounds.complement())
            }
            _ => None,
        },
        // Of one value: it is an array, of which no index has the values.
        Node::ElementValue { path: other, .. } | Node::ElementDocument { path: other, .. }
            if other == path && path.parts().is_empty() =>
        {
            Some(inexact(class(Class::Array)))
        }
        Node::ElementValue { path: other, node } if other == path => {
            // All conditions are on one value of the array, so they may be intersected.
            let mut bounds = of_node(node, &Path::itself(), Held { multikey: false, ..held })?;
            bounds.exact = false;
            Some(bounds)
        }
        Node::Always(false) => Some(Bounds::none()),
        _ => None,
    }
}

fn and(nodes: &[Node], path: &Path, held: Held<'_>) -> Option<Bounds> {
    let multikey = held.multikey;
    // A condition on another path says nothing of these values; one on this path may not be told by them.
    let elsewhere = |node: &&Node| matches!(node, Node::Leaf { path: other, .. } if other != path);
    let (mut known, mut complete) = (SmallVec::<[Bounds; 4]>::new(), true);
    for node in nodes.iter().filter(|node| !elsewhere(node)) {
        match of_node(node, path, held) {
            Some(bounds) => known.push(bounds),
            None => complete = false,
        }
    }
    if multikey && known.len() > 1 {
        // Different values may meet the conditions: the narrowest one is used.
        known.sort_by_cached_key(|bounds| (bounds.is_full(), !bounds.intervals.iter().all(Interval::is_point)));
        known.truncate(1);
        known[0].exact = false;
    }
    let mut both = Bounds::intersection_of(known)?;
    both.exact &= complete;
    Some(both)
}

fn of_predicate(test: &Predicate, held: Held<'_>) -> Option<Bounds> {
    // Sort keys do not begin as their strings do.
    let prefix = |pattern: &Pattern| of_pattern(pattern.prefix().filter(|_| held.collation.is_none()));
    Some(match test {
        Predicate::Compare(comparison, operand) => of_operand(*comparison, operand.view(), None, held)?,
        Predicate::Collated(comparison, operand, by) => of_operand(*comparison, operand.view(), Some(by), held)?,
        Predicate::In(choices) => {
            let by = choices.collation().as_deref();
            let values = choices.values().iter().map(|value| of_operand(Comparison::Equal, value.view(), by, held));
            Bounds::union_of(values.chain(choices.patterns().iter().map(|pattern| Some(prefix(pattern)))))?
        }
        Predicate::Regex(pattern) => prefix(pattern),
        Predicate::Type(types) => of_types(*types),
        Predicate::Mod(..) => inexact(class(Class::Number)),
        Predicate::Bits(_) => inexact(class(Class::Number)).union(inexact(class(Class::Binary))),
        Predicate::Exists | Predicate::Size(_) => Bounds::full(),
    })
}

/// The bounds of a comparison with an operand as an index holds it; nothing when the index compares its strings in
/// another way.
fn of_operand(comparison: Comparison, operand: Value<'_>, by: Option<&Collation>, held: Held<'_>) -> Option<Bounds> {
    if by.is_none() && held.collation.is_none() || !has_text(&operand) {
        return Some(of_comparison(comparison, operand, held.multikey));
    }
    let key = by.filter(|by| held.collation == Some(*by)).and_then(|by| by.key_of(&operand))?;
    Some(of_comparison(comparison, key.view(), held.multikey))
}

fn inexact(interval: Interval) -> Bounds {
    Bounds { intervals: vec![interval], exact: false }
}

fn of_comparison(comparison: Comparison, operand: Value<'_>, multikey: bool) -> Bounds {
    let nan = operand.as_number().is_some_and(|number| number.is_nan());
    let equal = |value: Value<'_>, exact| Bounds { intervals: vec![Interval::point(value)], exact };
    match (comparison, operand) {
        (Comparison::Greater | Comparison::Less, Value::Null) => Bounds::none(),
        (Comparison::Greater | Comparison::Less, _) if nan => Bounds::none(),
        (_, Value::Null) => {
            let null = equal(Value::Null, false);
            if multikey { null.union(equal(Value::Undefined, false)) } else { null }
        }
        (Comparison::Equal, Value::Array(array)) => {
            let first = array.values().next().unwrap_or(Value::Undefined);
            equal(operand, false).union(equal(first, false))
        }
        (_, Value::Array(_)) => Bounds::full(),
        (Comparison::Greater | Comparison::GreaterOrEqual, Value::MinKey)
        | (Comparison::Less | Comparison::LessOrEqual, Value::MaxKey) => {
            if multikey {
                // An array of such a key only lies within by itself.
                return Bounds::full();
            }
            let (low, high) = match (comparison, operand) {
                (Comparison::Greater, _) => (false, true),
                (Comparison::Less, _) => (true, false),
                _ => (true, true),
            };
            Bounds { intervals: vec![Interval::new((Value::MinKey, low), (Value::MaxKey, high))], exact: false }
        }
        (Comparison::Equal, _) => equal(operand, !(multikey && matches!(operand, Value::Document(_)))),
        (_, _) if nan => equal(operand, true),
        (comparison, operand) => {
            let whole = class(operand.class());
            let (least, most) =
                ((whole.low.value.view(), whole.low.inclusive), (whole.high.value.view(), whole.high.inclusive));
            // NaN lies below all numbers, and no comparison but equality meets it.
            let least = if operand.kind().is_number() { (Value::Double(f64::NEG_INFINITY), true) } else { least };
            let interval = match comparison {
                Comparison::Greater => Interval::new((operand, false), most),
                Comparison::GreaterOrEqual => Interval::new((operand, true), most),
                Comparison::Less => Interval::new(least, (operand, false)),
                _ => Interval::new(least, (operand, true)),
            };
            let exact = !matches!(operand, Value::Document(_)) || !multikey;
            let mut bounds = Bounds { intervals: vec![interval], exact };
            bounds.intervals.retain(|interval| !interval.is_empty());
            bounds
        }
    }
}

/// The strings that begin with a literal, if the pattern has one, and all regular expressions, which may be equal.
fn of_pattern(prefix: Option<(String, bool)>) -> Bounds {
    let strings = match &prefix {
        Some((prefix, _)) => {
            let mut above = prefix.clone().into_bytes();
            // A byte of UTF-8 is never the greatest byte.
            if let Some(last) = above.last_mut() {
                *last += 1;
            }
            let above = Value::String(crate::bson::Text::from_bytes(&above));
            Interval::new((Value::from(prefix), true), (above, false))
        }
        None => class(Class::String),
    };
    inexact(strings).union(inexact(class(Class::Regex)))
}

fn of_types(types: Types) -> Bounds {
    if types.contains(Kind::Array) {
        return Bounds::full();
    }
    Bounds::union_of(types.iter().map(|kind| Some(inexact(class(kind.class()))))).unwrap_or_else(Bounds::full)
}

/// All values of a class.
fn class(class: Class) -> Interval {
    let empty_document = Value::Document(crate::bson::Document::empty());
    let empty_array = Value::Array(crate::bson::Array::empty());
    let from_regex = |to| Interval::new((ValueBuf::regex("", "").view(), true), (to, false));
    match class {
        Class::MinKey => Interval::point(Value::MinKey),
        Class::Undefined => Interval::point(Value::Undefined),
        Class::Null => Interval::point(Value::Null),
        Class::Number => Interval::new((Value::Double(f64::NAN), true), (Value::Double(f64::INFINITY), true)),
        Class::String => Interval::new((Value::from(""), true), (empty_document, false)),
        Class::Document => Interval::new((empty_document, true), (empty_array, false)),
        Class::Array => Interval::new((empty_array, true), (Value::Binary(0, &[]), false)),
        Class::Binary => {
            Interval::new((Value::Binary(0, &[]), true), (Value::ObjectId(ObjectId::from_bytes([0; 12])), false))
        }
        Class::ObjectId => {
            let id = |byte| Value::ObjectId(ObjectId::from_bytes([byte; 12]));
            Interval::new((id(0), true), (id(0xFF), true))
        }
        Class::Bool => Interval::new((Value::Bool(false), true), (Value::Bool(true), true)),
        Class::DateTime => Interval::new((Value::DateTime(i64::MIN), true), (Value::DateTime(i64::MAX), true)),
        Class::Timestamp => {
            let timestamp = |bits| Value::Timestamp(crate::bson::Timestamp::from_bits(bits));
            Interval::new((timestamp(0), true), (timestamp(u64::MAX), true))
        }
        Class::Regex => {
            // Pointers to documents lie between the two; they do no harm, as the bounds are not exact.
            from_regex(Value::Code(crate::bson::Text::default()))
        }
        Class::DbPointer | Class::Code | Class::CodeWithScope => from_regex(Value::MaxKey),
        Class::MaxKey => Interval::point(Value::MaxKey),
    }
}
