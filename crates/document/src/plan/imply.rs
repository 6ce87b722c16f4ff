//! Whether a filter implies another: a query may use a partial index only when every document that it matches is in it.

use crate::bson::{Kind, Value, ValueBuf};
use crate::collation::{Collation, compare, has_text};
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
    if let (Some(by), Some(other)) = (comparison_of_texts(test), comparison_of_texts(wanted))
        && by != other
    {
        return false;
    }
    match (test, wanted) {
        (_, Predicate::Exists) => return is_of_present(test),
        (Predicate::In(choices), _) => {
            let equal = |value: &ValueBuf| Predicate::equal(value.view(), choices.collation().as_ref());
            return choices.patterns().is_empty()
                && choices.values().iter().all(|value| test_implies(&equal(value), wanted));
        }
        (Predicate::Type(types), Predicate::Type(wanted)) => return types.iter().all(|kind| wanted.contains(kind)),
        _ => {}
    }
    let Some((comparison, operand, _)) = test.as_comparison() else { return false };
    // Whole arrays are equal to an array, or have it as a value: what that says of values is left out.
    let is_array = |value: Value<'_>| matches!(value, Value::Array(_));
    if is_array(operand) || wanted.as_comparison().is_some_and(|(_, limit, _)| is_array(limit)) {
        return false;
    }
    match (comparison, wanted.as_comparison(), wanted) {
        (Comparison::Equal, ..) => {
            let plain = !matches!(operand, Value::Null | Value::Undefined | Value::Regex(_));
            plain && wanted.matches(Some(operand)).unwrap_or(false)
        }
        (_, Some((wanted, limit, by)), _) => ordered_implies((comparison, &operand), (wanted, &limit), by),
        (_, None, Predicate::Type(types)) => {
            let kind = operand.kind();
            let numbers = [Kind::Double, Kind::Int32, Kind::Int64, Kind::Decimal128];
            if numbers.contains(&kind) {
                numbers.iter().all(|kind| types.contains(*kind))
            } else {
                !matches!(kind, Kind::String | Kind::Symbol | Kind::Null | Kind::MinKey | Kind::MaxKey)
                    && types.contains(kind)
            }
        }
        _ => false,
    }
}

/// How a condition compares strings, when its operands have some: by a collation or by bytes. A regular expression
/// sees their bytes.
fn comparison_of_texts(test: &Predicate) -> Option<Option<&Collation>> {
    match test {
        Predicate::In(choices) => choices.has_texts().then_some(choices.collation().as_deref()),
        Predicate::Regex(_) => Some(None),
        test => test.as_comparison().filter(|(_, operand, _)| has_text(operand)).map(|(.., by)| by),
    }
}

/// Whether only a field that is there meets a condition.
#[must_use]
pub fn is_of_present(test: &Predicate) -> bool {
    match test {
        Predicate::Compare(_, operand) | Predicate::Collated(_, operand, _) => {
            !matches!(operand.view(), Value::Null | Value::MinKey | Value::MaxKey)
        }
        Predicate::In(choices) => !choices.values().iter().any(|value| matches!(value.view(), Value::Null)),
        Predicate::Regex(_)
        | Predicate::Exists
        | Predicate::Type(_)
        | Predicate::Mod(..)
        | Predicate::Size(_)
        | Predicate::Bits(_) => true,
    }
}

fn ordered_implies(
    (comparison, operand): (Comparison, &Value<'_>),
    (wanted, limit): (Comparison, &Value<'_>),
    by: Option<&Collation>,
) -> bool {
    use Comparison::{Greater, GreaterOrEqual, Less, LessOrEqual};
    let special = |value: &Value<'_>| {
        matches!(value, Value::MinKey | Value::MaxKey | Value::Null)
            || value.as_number().is_some_and(|number| number.is_nan())
    };
    if operand.class() != limit.class() || special(operand) || special(limit) {
        return false;
    }
    let order = compare(by, operand, limit);
    match (comparison, wanted) {
        (Greater, Greater | GreaterOrEqual) | (GreaterOrEqual, GreaterOrEqual) => order.is_ge(),
        (GreaterOrEqual, Greater) => order.is_gt(),
        (Less, Less | LessOrEqual) | (LessOrEqual, LessOrEqual) => order.is_le(),
        (LessOrEqual, Less) => order.is_lt(),
        _ => false,
    }
}
