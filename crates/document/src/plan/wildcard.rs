//! Scans of wildcard indexes, whose keys are the path of a leaf and its value.

use std::sync::Arc;

use super::candidate::{Asked, Candidate};
use super::covered::paths_of;
use super::ranges::compose;
use super::scan::Scan;
use crate::bson::{Document, Kind, Value};
use crate::catalog::Index;
use crate::keys::{Direction, KeyField, wildcard_takes};
use crate::path::Path;
use crate::query::bounds::{Bounds, Held, Interval};
use crate::query::node::Node;

/// The most paths of a filter that are considered: the bounds of each are found by a walk over the whole filter.
const PATHS_MAX: usize = 64;

/// The scans for each path of the filter of which the index has the values, and one by the fields before the wildcard.
/// With `forced`, when the query must use the index, one of the whole index when there is no other and each document
/// that the filter matches is in it.
#[must_use]
pub fn candidates(asked: &Asked<'_>, index: &Arc<Index>, forced: bool) -> Vec<Candidate> {
    let fields = index.spec.pattern.fields();
    let Some((at, field)) = index.spec.pattern.wildcard().and_then(|at| Some((at, fields.get(at)?))) else {
        return Vec::new();
    };
    let filter = asked.query.filter.root();
    let mut paths: Vec<&Path> = Vec::new();
    conjuncts(filter, &mut paths);
    paths.sort();
    paths.dedup();
    let taken = paths.into_iter().filter(|path| {
        let numbered = path.parts().iter().any(|part| part.is_digits());
        !numbered && wildcard_takes(field, index.projection().map(|projection| projection.view()), &path.to_string())
    });
    let taken = taken.take(PATHS_MAX);
    // The fields beside the wildcard have no arrays.
    let beside: Vec<Bounds> = {
        let held = Held { multikey: false, collation: index.spec.pattern.collation() };
        index.paths.iter().map(|path| Bounds::of(filter, path, held)).collect()
    };
    let with = |path: Bounds, value: Bounds| {
        let (before, after) = (beside.get(..at), beside.get(at + 1..));
        let before = before.into_iter().flatten().cloned();
        before.chain([path, value]).chain(after.into_iter().flatten().cloned()).collect::<Vec<_>>()
    };
    let scans = taken.filter_map(|path| {
        let held = Held { multikey: index.is_multikey(), collation: index.spec.pattern.collation() };
        let value = Bounds::of(filter, path, held);
        if !value.intervals.iter().all(is_of_leaves) {
            return None;
        }
        let name = path.to_string();
        let path = Bounds { intervals: vec![Interval::point(Value::from(&*name))], exact: true };
        Some(candidate(asked, index, with(path, value)))
    });
    let mut found: Vec<Candidate> = scans.collect();
    if beside.iter().take(at).any(|bounds| !bounds.is_full())
        || (forced && found.is_empty() && has_all(filter, field, index))
    {
        found.push(candidate(asked, index, with(Bounds::full(), Bounds::full())));
    }
    found
}

/// Whether each document that a filter matches has a key: it has some value at a path of which the index has all
/// values.
fn has_all(filter: &Node, field: &KeyField, index: &Index) -> bool {
    if index.projection().is_some() {
        return false;
    }
    let taken = |path: &Path| wildcard_takes(field, None, &path.to_string());
    match filter {
        Node::And(parts) => parts.iter().any(|part| has_all(part, field, index)),
        Node::Or(parts) => !parts.is_empty() && parts.iter().all(|part| has_all(part, field, index)),
        Node::Leaf { path, test } => taken(path) && matches!(test.matches(None), Ok(false)),
        Node::Not(part) => match &**part {
            Node::Leaf { path, test } => taken(path) && matches!(test.matches(None), Ok(true)),
            _ => false,
        },
        Node::ElementDocument { path, .. } | Node::ElementValue { path, .. } => taken(path),
        _ => false,
    }
}

fn candidate(asked: &Asked<'_>, index: &Arc<Index>, bounds: Vec<Bounds>) -> Candidate {
    let directions: Vec<Direction> = index.spec.pattern.directions().collect();
    let composed = compose(&directions, &bounds, 0);
    // The path counts for nothing beside its value.
    let path = index.spec.pattern.wildcard();
    let bound = bounds.iter().enumerate().filter(|(at, bounds)| Some(*at) != path && !bounds.is_full()).count();
    Candidate {
        bound: bound.max(1),
        scan: Scan {
            index: Some(Arc::clone(index)),
            bounds,
            groups: composed.groups,
            filters: composed.filters,
            reverse: false,
            multikey: true,
            exact: false,
        },
        sorted: asked.query.sort.is_none(),
        covered: false,
        single: false,
    }
}

/// The paths of the conditions that all must be met.
fn conjuncts<'n>(node: &'n Node, paths: &mut Vec<&'n Path>) {
    match node {
        Node::And(nodes) => nodes.iter().for_each(|node| conjuncts(node, paths)),
        Node::Leaf { path, .. } | Node::ElementValue { path, .. } => paths.push(path),
        Node::Or(_) => {
            let mut all = Vec::new();
            if paths_of(node, &mut all) {
                paths.extend(all);
            }
        }
        _ => {}
    }
}

/// Whether a wildcard index has all values of an interval: missing fields, documents and arrays have no keys as such.
fn is_of_leaves(interval: &Interval) -> bool {
    let whole = |value: Value<'_>| matches!(value.kind(), Kind::Document | Kind::Array);
    let empty = Document::empty();
    let absent = [Value::Null, Value::Undefined, Value::Document(empty), Value::Array(crate::bson::Array::empty())];
    let begins_whole = whole(interval.low.value.view());
    let ends_whole = interval.high.inclusive && whole(interval.high.value.view());
    let has_absent = absent.iter().any(|value| interval.contains(value));
    !(begins_whole || ends_whole || has_absent)
}
