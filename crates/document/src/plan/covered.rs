//! Whether the keys of an index have all that a query asks for.

use super::query::Query;
use super::scan::Scan;
use crate::catalog::Index;
use crate::path::{Part, Path};
use crate::projection::PlainPaths;
use crate::query::node::Node;

/// Whether a query's filter and projection need only the fields of an index, and the `_id` that it has, so that its
/// documents can be made of keys. Where a key has null, which may stand for a missing field, the document is fetched.
/// Other fields of the index may have arrays. An index with a collation has no strings, only their sort keys.
#[must_use]
pub fn covers(index: &Index, query: &Query, scan: &Scan) -> bool {
    if query.return_key || query.fetches || !super::fields::is_ordered(index) {
        return false;
    }
    // A number in a path may be a position of an array, which no key tells.
    if index.paths.iter().any(|path| path.parts().iter().any(Part::is_digits)) {
        return false;
    }
    let is_plain = |at: Option<usize>| at.is_some_and(|at| index.multikey_of(at) == 0);
    let has =
        |path: &Path| (index.has_ids && path.is_id()) || is_plain(index.paths.iter().position(|other| other == path));
    // The sort is the index's, or of its fields.
    let mut needed: Vec<&Path> = query.sort.iter().flat_map(|sort| sort.fields()).map(|(path, _)| path).collect();
    if !paths_of(query.filter.root(), &mut needed) || !needed.iter().all(|path| has(path)) {
        return false;
    }
    let shown = query.kept().and_then(|projection| projection.plain_paths());
    let Some(shown) = (if query.counts { Some(PlainPaths::new()) } else { shown }) else { return false };
    let fields = index.spec.pattern.fields();
    let has =
        |path: &str| (index.has_ids && path == "_id") || is_plain(fields.iter().position(|field| field.path == path));
    if !shown.iter().all(|path| has(path)) {
        return false;
    }
    if index.spec.pattern.collation().is_some() {
        // Sort keys do not give the strings back.
        let mut read: Vec<&Path> = query.sort.iter().flat_map(|sort| sort.fields()).map(|(path, _)| path).collect();
        if !scan.exact {
            paths_of(query.filter.root(), &mut read);
        }
        let is_read = |path: &Path| read.contains(&path) || shown.contains(&path.to_string().into());
        if index.paths.iter().zip(&scan.bounds).any(|(path, bounds)| is_read(path) && bounds.has_text()) {
            return false;
        }
    }
    // One field of the index within another would be shown twice.
    !index.paths.iter().enumerate().any(|(at, one)| index.paths[..at].iter().any(|other| one.overlaps(other)))
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
