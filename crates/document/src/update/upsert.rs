//! What an upsert takes from its filter: the values that the filter says fields are equal to.

use crate::base::{Error, ErrorCode, Result};
use crate::bson::{DocumentBuf, ValueBuf};
use crate::path::{DisjointPaths, Path};
use crate::query::predicate::{Comparison, Predicate};
use crate::query::{Filter, Node};

use super::tree::{Fields, Tree};

/// The fields and values that a part of a filter demands.
fn collect<'n>(node: &'n Node, found: &mut Vec<(&'n Path, &'n ValueBuf)>) {
    match node {
        Node::And(nodes) => nodes.iter().for_each(|node| collect(node, found)),
        Node::Leaf {
            path,
            test: Predicate::Compare(Comparison::Equal, value) | Predicate::Collated(Comparison::Equal, value, _),
        } => found.push((path, value)),
        Node::Leaf { path, test: Predicate::In(choices) } => {
            if let ([value], []) = (choices.values(), choices.patterns()) {
                found.push((path, value));
            }
        }
        _ => {}
    }
}

/// The id that a filter demands.
pub(super) fn id_of(filter: &Filter) -> Option<ValueBuf> {
    let mut found = Vec::new();
    collect(filter.root(), &mut found);
    found.into_iter().find(|(path, _)| path.to_string() == "_id").map(|(_, value)| value.clone())
}

/// The document of the fields that a filter demands.
///
/// # Errors
/// `NotSingleValueField` (54) when it demands two values of one field, or of a field and one within.
pub(super) fn document_of(filter: &Filter) -> Result<DocumentBuf> {
    let mut found = Vec::new();
    collect(filter.root(), &mut found);
    let mut tree = Tree::Document(Fields::default());
    let mut paths = DisjointPaths::default();
    for (path, value) in &found {
        if paths.add(&path.to_string()).is_err() {
            let what = format!("cannot infer query fields to set, path '{path}' is matched twice");
            return Err(Error::new(ErrorCode::new(54), what));
        }
        let names: Vec<&[u8]> = path.parts().iter().map(crate::path::Part::name).collect();
        put(&mut tree, &names, value);
    }
    Ok(tree.to_document())
}

fn put(tree: &mut Tree<'_>, names: &[&[u8]], value: &ValueBuf) {
    let (Tree::Document(fields), Some((first, rest))) = (tree, names.split_first()) else { return };
    if rest.is_empty() {
        return fields.set((*first).into(), Some(Tree::Own(value.clone())));
    }
    if fields.place(first).is_none() {
        fields.push((*first).into(), Some(Tree::Document(Fields::default())));
    }
    let slot = fields.place(first).map(|place| fields.value_mut(place));
    slot.and_then(Option::as_mut).into_iter().for_each(|inner| put(inner, rest, value));
}
