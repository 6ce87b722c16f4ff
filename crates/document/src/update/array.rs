//! The array operators: `$push` with its modifiers, `$addToSet`, `$pull`, `$pullAll`, `$pop`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::outcome::{Outcome, Told};
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::{DocumentBuilder, Value, ValueBuf};
use crate::collation::{Collation, compare, equal};
use crate::path::Sort;
use crate::query::Node;

/// The name under which a value is put in a document to match it, so that arrays within are looked into.
pub(super) const WRAPPED: &str = "v";

/// The most values that are looked for one by one.
const FEW: usize = 8;

/// A value in the order by which values are equal.
#[derive(Clone, Copy)]
struct Ordered<'v> {
    value: Value<'v>,
    collation: Option<&'v Collation>,
}

impl Ord for Ordered<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.collation, &self.value, &other.value)
    }
}

impl PartialOrd for Ordered<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered<'_> {}

/// `$push` and its modifiers.
#[derive(Clone, Debug)]
pub(super) struct Push {
    pub(super) values: Vec<ValueBuf>,
    /// Where the values go: from the end when negative.
    pub(super) position: Option<i64>,
    /// How many values are kept: the last ones when negative.
    pub(super) slice: Option<i64>,
    pub(super) sort: Option<Order>,
}

/// `$sort` of `$push`.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// By the values themselves; whether descending.
    Values(bool),
    /// By their fields.
    Fields(Sort),
}

/// The values that `$pull` and `$pullAll` take out.
#[derive(Clone, Debug)]
pub(super) enum Pull {
    /// Those that are equal to one of these.
    Values(Vec<ValueBuf>),
    /// Those that meet conditions.
    Matching(Box<Node>),
    /// Documents that match.
    Documents(Box<Node>),
}

impl Push {
    pub(super) fn on(&self, value: Option<Value<'_>>, path: &str, told: &Told<'_>) -> Result<Outcome> {
        let Told { document, collation } = *told;
        let mut values: Vec<ValueBuf> = match value {
            None => Vec::new(),
            Some(Value::Array(array)) => array.values().map(ValueBuf::from).collect(),
            Some(other) => {
                let id = document.get("_id").map_or_else(|| "null".to_owned(), |id| id.to_json());
                let what = format!(
                    "The field '{path}' must be an array but is of type {} in document {{_id: {id}}}",
                    other.kind().name()
                );
                return Err(Error::bad_value(what));
            }
        };
        let len = i64::try_from(values.len()).unwrap_or(i64::MAX);
        let at = match self.position {
            None => len,
            Some(position) if position < 0 => (len + position).max(0),
            Some(position) => position.min(len),
        };
        let at = usize::try_from(at).unwrap_or_default();
        values.splice(at..at, self.values.iter().cloned());
        match &self.sort {
            None => {}
            Some(Order::Values(descending)) => values.sort_by(|a, b| {
                let order = compare(collation, &a.view(), &b.view());
                if *descending { order.reverse() } else { order }
            }),
            Some(Order::Fields(sort)) => {
                values.sort_by(|a, b| sort.compare_values(collation, &a.view(), &b.view()));
            }
        }
        if let Some(slice) = self.slice {
            let keep = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX);
            if slice >= 0 {
                values.truncate(keep);
            } else if values.len() > keep {
                values.drain(..values.len() - keep);
            }
        }
        Ok(Outcome::New(array_of(&values)))
    }
}

fn array_of(values: &[ValueBuf]) -> ValueBuf {
    ValueBuf::array(values.iter().map(ValueBuf::view))
}

pub(super) fn added_to_set(
    new: &[ValueBuf],
    value: Option<Value<'_>>,
    path: &str,
    collation: Option<&Collation>,
) -> Result<Outcome> {
    let mut values: Vec<Value<'_>> = match value {
        None => Vec::new(),
        Some(Value::Array(array)) => array.values().collect(),
        Some(other) => {
            let what = format!(
                "Cannot apply $addToSet to non-array field. Field named '{path}' has non-array type {}",
                other.kind().name()
            );
            return Err(Error::bad_value(what));
        }
    };
    let before = values.len();
    if new.len() <= FEW {
        for value in new {
            if !values.iter().any(|other| equal(collation, other, &value.view())) {
                values.push(value.view());
            }
        }
    } else {
        let mut there: BTreeSet<_> = values.iter().map(|value| Ordered { value: *value, collation }).collect();
        let new = new.iter().map(ValueBuf::view);
        values.extend(new.filter(|value| there.insert(Ordered { value: *value, collation })));
    }
    Ok(if values.len() == before && value.is_some() { Outcome::Keep } else { Outcome::New(ValueBuf::array(values)) })
}

pub(super) fn popped(first: bool, value: Value<'_>, path: &str) -> Result<Outcome> {
    let Value::Array(array) = value else {
        let what = format!("Path '{path}' contains an element of non-array type '{}'", value.kind().name());
        return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
    };
    let mut values: Vec<_> = array.values().collect();
    if values.is_empty() {
        return Ok(Outcome::Keep);
    }
    if first {
        values.remove(0);
    } else {
        values.pop();
    }
    Ok(Outcome::New(ValueBuf::array(values)))
}

impl Pull {
    pub(super) fn on(&self, value: Value<'_>, collation: Option<&Collation>) -> Result<Outcome> {
        let Value::Array(array) = value else {
            return Err(Error::bad_value("Cannot apply $pull to a non-array value"));
        };
        let (mut kept, mut any) = (Vec::new(), false);
        let many = self.many(collation);
        for value in array {
            interrupt::work(1)?;
            let is_taken = match &many {
                Some(many) => many.contains(&Ordered { value, collation }),
                None => self.takes(&value, collation)?,
            };
            if is_taken {
                any = true;
            } else {
                kept.push(value);
            }
        }
        Ok(if any { Outcome::New(ValueBuf::array(kept)) } else { Outcome::Keep })
    }

    /// The values that are taken out, when they are more than are compared one by one.
    fn many<'v>(&'v self, collation: Option<&'v Collation>) -> Option<BTreeSet<Ordered<'v>>> {
        match self {
            Self::Values(values) if values.len() > FEW => {
                Some(values.iter().map(|value| Ordered { value: value.view(), collation }).collect())
            }
            _ => None,
        }
    }

    fn takes(&self, value: &Value<'_>, collation: Option<&Collation>) -> Result<bool> {
        match (self, value) {
            (Self::Values(values), value) => Ok(values.iter().any(|other| equal(collation, &other.view(), value))),
            (Self::Matching(node), value) => {
                let mut builder = DocumentBuilder::new();
                builder.append(WRAPPED, *value);
                node.matches(builder.finish().view(), None)
            }
            (Self::Documents(node), Value::Document(document)) => node.matches(*document, None),
            (Self::Documents(_), _) => Ok(false),
        }
    }
}
