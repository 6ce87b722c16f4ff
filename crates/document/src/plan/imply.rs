//! Whether a filter implies another: a query may use a partial index only when every document that it matches is in it.

use crate::bson::{Kind, Value, compare};
use crate::query::node::Node;
use crate::query::predicate::{Comparison, Predicate};

/// Whether every document that matches `filter` surely matches `wanted`.
#[must_use]
pub fn implies(filter: &Node, wanted: &Node) -> bool {
    match (filter, wanted) {
        (_, Node::And(parts)) => parts.iter().all(|part| implies(filter, part)),
        (_, Node::Always(true)) | (Node::Always(false), _) => true,
        (Node::Or(branches), _) => branches.iter().all(|branch| implies(branch, wanted)),
        (_, Node::Or(branches)) if branches.iter().any(|branch| implies(filter, branch)) => true,
        (Node::And(parts), _) => parts.iter().any(|part| implies(part, wanted)),
        (Node::Leaf { path, test }, Node::Leaf { path: other, test: wanted }) => {
            path == other && test_implies(test, wanted)
        }
        _ => false,
    }
}

/// Whether a value that meets `test` surely meets `wanted`, which is asked of the same path.
fn test_implies(test: &Predicate, wanted: &Predicate) -> bool {
    match (test, wanted) {
        (_, Predicate::Exists) => is_of_present(test),
        (Predicate::In(choices), _) => {
            choices.patterns().is_empty()
                && choices
                    .values()
                    .iter()
                    .all(|value| test_implies(&Predicate::Compare(Comparison::Equal, value.clone()), wanted))
        }
        // Whole arrays are equal to an array, or have it as a value: what that says of values is left out.
        (Predicate::Compare(_, operand), _) | (_, Predicate::Compare(_, operand))
            if matches!(operand.view(), Value::Array(_)) =>
        {
            false
        }
        (Predicate::Compare(Comparison::Equal, operand), wanted) => {
            let operand = operand.view();
            let plain = !matches!(operand, Value::Null | Value::Undefined | Value::Regex(_));
            plain && wanted.matches(Some(operand)).unwrap_or(false)
        }
        (Predicate::Compare(comparison, operand), Predicate::Compare(wanted, limit)) => {
            ordered_implies(*comparison, &operand.view(), *wanted, &limit.view())
        }
        (Predicate::Compare(_, operand), Predicate::Type(types)) => {
            let kind = operand.kind();
            let numbers = [Kind::Double, Kind::Int32, Kind::Int64, Kind::Decimal128];
            if numbers.contains(&kind) {
                numbers.iter().all(|kind| types.contains(*kind))
            } else {
                !matches!(kind, Kind::String | Kind::Symbol | Kind::Null | Kind::MinKey | Kind::MaxKey)
                    && types.contains(kind)
            }
        }
        (Predicate::Type(types), Predicate::Type(wanted)) => types.iter().all(|kind| wanted.contains(kind)),
        _ => false,
    }
}

/// Whether only a field that is there meets a condition.
#[must_use]
pub fn is_of_present(test: &Predicate) -> bool {
    match test {
        Predicate::Compare(_, operand) => !matches!(operand.view(), Value::Null | Value::MinKey | Value::MaxKey),
        Predicate::In(choices) => !choices.values().iter().any(|value| matches!(value.view(), Value::Null)),
        Predicate::Regex(_)
        | Predicate::Exists
        | Predicate::Type(_)
        | Predicate::Mod(..)
        | Predicate::Size(_)
        | Predicate::Bits(_) => true,
    }
}

fn ordered_implies(comparison: Comparison, operand: &Value<'_>, wanted: Comparison, limit: &Value<'_>) -> bool {
    use Comparison::{Greater, GreaterOrEqual, Less, LessOrEqual};
    let special = |value: &Value<'_>| {
        matches!(value, Value::MinKey | Value::MaxKey | Value::Null)
            || value.as_number().is_some_and(|number| number.is_nan())
    };
    if operand.class() != limit.class() || special(operand) || special(limit) {
        return false;
    }
    let order = compare(operand, limit);
    match (comparison, wanted) {
        (Greater, Greater | GreaterOrEqual) | (GreaterOrEqual, GreaterOrEqual) => order.is_ge(),
        (GreaterOrEqual, Greater) => order.is_gt(),
        (Less, Less | LessOrEqual) | (LessOrEqual, LessOrEqual) => order.is_le(),
        (LessOrEqual, Less) => order.is_lt(),
        _ => false,
    }
}
