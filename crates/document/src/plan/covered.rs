//! Whether the keys of an index have all that a query asks for.

use super::query::Query;
use crate::catalog::Index;
use crate::path::Path;
use crate::query::node::Node;

/// Whether a query's filter and projection need only the fields of an index, and `_id`, so that its documents can be
/// made of keys. Where a key has null, which may stand for a missing field, the document is fetched.
#[must_use]
pub fn covers(index: &Index, query: &Query) -> bool {
    if index.is_multikey() || query.return_key || !super::fields::is_ordered(index) {
        return false;
    }
    let fields = index.spec.pattern.fields();
    let below = |path: &str, above: &str| path.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'));
    if fields.iter().any(|one| fields.iter().any(|other| below(&one.path, &other.path))) {
        return false;
    }
    let has = |path: &str| path == "_id" || fields.iter().any(|field| field.path == path);
    let shown = query.projection.as_ref().and_then(|projection| projection.plain_paths());
    let Some(paths) = (if query.counts { Some(Vec::new()) } else { shown }) else { return false };
    if !paths.iter().all(|path| has(path)) {
        return false;
    }
    // The sort is the index's, or of its fields.
    let sorted = query.sort.iter().flat_map(|sort| sort.fields());
    let mut needed: Vec<&Path> = sorted.map(|(path, _)| path).collect();
    paths_of(query.filter.root(), &mut needed) && needed.iter().all(|path| has(&path.to_string()))
}

/// Collects the paths of a filter; false when it has other conditions than on paths.
pub fn paths_of<'n>(node: &'n Node, paths: &mut Vec<&'n Path>) -> bool {
    match node {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => nodes.iter().all(|node| paths_of(node, paths)),
        Node::Not(node) => paths_of(node, paths),
        Node::Leaf { path, .. } => {
            paths.push(path);
            true
        }
        Node::Always(_) => true,
        _ => false,
    }
}
