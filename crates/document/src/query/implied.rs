//! Conditions on fields that an expression implies, so that an index can find the documents of `$expr`.

use std::sync::Arc;

use super::node::Node;
use super::predicate::Predicate;
use crate::bson::{Kind, Value};
use crate::collation::Collation;
use crate::expr::Expression;
use crate::path::Path;

/// Conditions that every document meets for which an expression is true: those of `{$eq: ["$field", constant]}`, alone
/// or within `$and`. A document may meet them for which it is not true.
///
/// A constant that is an array, null or a regular expression implies nothing here: a filter sees these in another way
/// than an expression does.
#[must_use]
pub fn equalities(expression: &Expression) -> Vec<Node> {
    match expression {
        Expression::Collated(collation, expression) => equalities_by(Some(collation), expression),
        expression => equalities_by(None, expression),
    }
}

fn equalities_by(collation: Option<&Arc<Collation>>, expression: &Expression) -> Vec<Node> {
    let Expression::Call(call) = expression else { return Vec::new() };
    match (call.name, &call.arguments[..]) {
        ("$and", arguments) => arguments.iter().flat_map(|part| equalities_by(collation, part)).collect(),
        ("$eq", [Expression::Field(path) | Expression::Root(path), constant])
        | ("$eq", [constant, Expression::Field(path) | Expression::Root(path)]) => {
            let constant = constant.as_constant().filter(|constant| !path.parts().is_empty() && is_plain(constant));
            constant.map(|constant| equality(path, constant, collation)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn equality(path: &Path, constant: Value<'_>, collation: Option<&Arc<Collation>>) -> Node {
    Node::Leaf { path: path.clone(), test: Predicate::equal(constant, collation) }
}

fn is_plain(constant: &Value<'_>) -> bool {
    constant.kind().is_number()
        || matches!(
            constant.kind(),
            Kind::String | Kind::ObjectId | Kind::Bool | Kind::DateTime | Kind::Timestamp | Kind::Binary
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson::DocumentBuf;
    use crate::expr::{self, Context};

    #[test]
    fn equalities_with_constants_are_implied() {
        let paths = |text: &str| {
            let document = DocumentBuf::from_json(text).unwrap();
            let expression = expr::parse(document.view().get("e").unwrap(), &Context::default()).unwrap();
            let paths = equalities(&expression).into_iter().map(|node| match node {
                Node::Leaf { path, .. } => path.to_string(),
                other => panic!("{other:?}"),
            });
            paths.collect::<Vec<_>>().join(" ")
        };
        for (text, expected) in [
            (r#"{"e":{"$eq":["$a",5]}}"#, "a"),
            (r#"{"e":{"$and":[{"$eq":["x","$a.b"]},{"$gt":["$c",1]},{"$and":[{"$eq":["$$ROOT.d",true]}]}]}}"#, "a.b d"),
            (r#"{"e":{"$or":[{"$eq":["$a",5]}]}}"#, ""),
            (r#"{"e":{"$eq":["$a",[1]]}}"#, ""),
            (r#"{"e":{"$eq":["$a",null]}}"#, ""),
            (r#"{"e":{"$eq":["$a","$b"]}}"#, ""),
            (r#"{"e":{"$eq":["$$ROOT",5]}}"#, ""),
        ] {
            assert_eq!(paths(text), expected, "{text}");
        }
    }
}
