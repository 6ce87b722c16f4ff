//! The shape of a query: its paths and operators, its order, what it shows and its collation, without the values that
//! it compares with. Index filters are found by it, and `explain` shows hashes of it.

use std::fmt::Write as _;

use md5::{Digest, Md5};

use super::query::Query;
use crate::path::Path;
use crate::query::Predicate;
use crate::query::node::Node;
use crate::query::predicate::Comparison;

/// The shape of a query. Conditions that a filter joins by `$and`, `$or` and `$nor` have one order, whatever theirs.
#[must_use]
pub fn shape(query: &Query) -> String {
    let mut shape = of_node(query.filter.root());
    let mut add = |text: &str| shape.push_str(text);
    for (path, descending) in query.sort.iter().flat_map(|sort| sort.fields()) {
        add(if *descending { " -" } else { " +" });
        add(&text(path));
    }
    if let Some(projection) = query.kept() {
        let mut fields = Vec::new();
        projection.each_field(&mut |name, touch| fields.push(format!("{} {touch:?}", String::from_utf8_lossy(name))));
        fields.sort();
        add(&format!(" {:?} {fields:?}", projection.mode()));
    }
    if let Some(collation) = &query.collation {
        add(&format!(" {}", collation.document()));
    }
    shape
}

fn of_node(node: &Node) -> String {
    match node {
        Node::And(parts) => {
            let mut shapes = Vec::new();
            flatten(parts, &mut shapes);
            match &shapes[..] {
                [one] => one.clone(),
                _ => joined("and", shapes),
            }
        }
        Node::Or(parts) => joined("or", parts.iter().map(of_node).collect()),
        Node::Nor(parts) => joined("nor", parts.iter().map(of_node).collect()),
        Node::Not(part) => format!("not[{}]", of_node(part)),
        Node::Leaf { path, test } => format!("{}:{}", text(path), of_test(test)),
        Node::ElementDocument { path, node } => format!("{}:element[{}]", text(path), of_node(node)),
        Node::ElementValue { path, node } => format!("{}:value[{}]", text(path), of_node(node)),
        Node::Expression(_) => "expr".to_owned(),
        Node::Sample(..) => "sample".to_owned(),
        Node::Schema(schema) => format!("{schema:?}"),
        Node::Always(answer) => answer.to_string(),
    }
}

/// The shapes of conditions that all must match, those of an `$and` among them.
fn flatten(parts: &[Node], shapes: &mut Vec<String>) {
    for part in parts {
        match part {
            Node::And(inner) => flatten(inner, shapes),
            other => shapes.push(of_node(other)),
        }
    }
}

fn joined(name: &str, mut shapes: Vec<String>) -> String {
    shapes.sort();
    format!("{name}[{}]", shapes.join(","))
}

fn of_test(test: &Predicate) -> String {
    let name = match test {
        Predicate::Compare(comparison, _) | Predicate::Collated(comparison, ..) => match comparison {
            Comparison::Equal => "eq",
            Comparison::Greater => "gt",
            Comparison::GreaterOrEqual => "gte",
            Comparison::Less => "lt",
            Comparison::LessOrEqual => "lte",
        },
        Predicate::In(choices) => return format!("in{}+{}", choices.values().len(), choices.patterns().len()),
        Predicate::Regex(_) => "regex",
        Predicate::Exists => "exists",
        Predicate::Type(_) => "type",
        Predicate::Mod(..) => "mod",
        Predicate::Size(_) => "size",
        Predicate::Bits(_) => "bits",
    };
    name.to_owned()
}

/// A path as it is written.
fn text(path: &Path) -> String {
    let mut text = String::new();
    for (at, part) in path.parts().iter().enumerate() {
        let dot = if at == 0 { "" } else { "." };
        write!(text, "{dot}{}", String::from_utf8_lossy(part.name())).expect("a String takes any text");
    }
    text
}

/// The hash of a shape as a cache of plans has it, of 8 hexadecimal digits.
#[must_use]
pub fn short_hash(shape: &str) -> String {
    let hash = Md5::new_with_prefix("3").chain_update(shape).finalize();
    hash.iter().take(4).map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson::DocumentBuf;
    use crate::expr::Context;
    use crate::query::Filter;

    fn of(filter: &DocumentBuf) -> String {
        shape(&Query::new(Filter::parse(filter.view(), &Context::new(0)).unwrap()))
    }

    #[test]
    fn values_and_the_order_of_conditions_do_not_matter() {
        assert_eq!(of(&doc! {"a": 1}), of(&doc! {"a": &doc! {"$eq": "x"}}));
        assert_eq!(of(&doc! {"a": 1, "b.c": 2}), of(&doc! {"b.c": 3, "a": 4}));
        assert_eq!(of(&doc! {"a": &doc! {"$gt": 1}}), of(&doc! {"a": &doc! {"$gt": 2}}));
    }

    #[test]
    fn paths_and_operators_matter() {
        let shapes = [
            of(&doc! {}),
            of(&doc! {"a": 1}),
            of(&doc! {"b": 1}),
            of(&doc! {"a": &doc! {"$gt": 1}}),
            of(&doc! {"a": &doc! {"$lt": 1}}),
            of(&doc! {"a": &doc! {"$not": &doc! {"$lt": 1}}}),
            of(&doc! {"a": &doc! {"$exists": true}}),
            of(&doc! {"a": &doc! {"$exists": false}}),
            of(&doc! {"a": 1, "b": 1}),
        ];
        let different: std::collections::BTreeSet<_> = shapes.iter().collect();
        assert_eq!(different.len(), shapes.len(), "{shapes:?}");
    }
}
