//! What a query asks of indexes, and the scans that could answer it.

use smallvec::SmallVec;

use super::query::Query;
use super::scan::Scan;
use crate::path::Path;
use crate::query::node::Node;

/// A scan that could answer a query, and what it is good for.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The scan.
    pub scan: Scan,
    /// Whether its documents come in the order that the query asks for.
    pub sorted: bool,
    /// Whether its keys have all that the query asks for.
    pub covered: bool,
    /// The fields that have bounds.
    pub bound: usize,
    /// Whether it finds at most one entry.
    pub single: bool,
}

impl Candidate {
    /// Whether the filter implies no bounds at all.
    #[must_use]
    pub const fn is_unbounded(&self) -> bool {
        self.bound == 0
    }
}

/// What a filter says, taken apart once for all indexes.
#[derive(Debug)]
pub struct Asked<'q> {
    /// The query.
    pub query: &'q Query,
    /// When the filter is, or has, an `$or`: its branches, each with the conditions beside it.
    pub branches: Vec<Node>,
    /// The first names of the paths of the filter and of the sort.
    tops: SmallVec<[&'q [u8]; 8]>,
}

/// The most branches of an `$or` that get ranges of their own.
const BRANCHES_MAX: usize = 50;

impl<'q> Asked<'q> {
    /// What a query asks.
    #[must_use]
    pub fn new(query: &'q Query) -> Self {
        let mut tops = SmallVec::new();
        collect_tops(query.filter.root(), &mut tops);
        if let Some((path, _)) = query.sort.as_ref().and_then(|sort| sort.fields().first()) {
            tops.push(path.top());
        }
        Self { query, branches: branches(query.filter.root()), tops }
    }

    /// Whether the filter or the sort is about `_id`.
    #[must_use]
    pub fn mentions_id(&self) -> bool {
        self.tops.contains(&&b"_id"[..])
    }

    /// Whether the filter or the sort is about a path, or one that begins with the same name.
    #[must_use]
    pub fn mentions(&self, path: &Path) -> bool {
        self.tops.contains(&path.top()) || self.query.filter.is_empty()
    }
}

fn collect_tops<'n>(node: &'n Node, tops: &mut SmallVec<[&'n [u8]; 8]>) {
    match node {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
            nodes.iter().for_each(|node| collect_tops(node, tops));
        }
        Node::Not(node) => collect_tops(node, tops),
        Node::Leaf { path, .. } | Node::ElementDocument { path, .. } | Node::ElementValue { path, .. } => {
            tops.push(path.top());
        }
        Node::Expression(_) | Node::Sample(..) | Node::Schema(_) | Node::Always(_) => {}
    }
}

fn branches(filter: &Node) -> Vec<Node> {
    let few = |nodes: &[Node]| nodes.len() <= BRANCHES_MAX;
    match filter {
        Node::Or(nodes) if few(nodes) => nodes.clone(),
        Node::And(parts) => {
            let Some(at) = parts.iter().position(|part| matches!(part, Node::Or(nodes) if few(nodes))) else {
                return Vec::new();
            };
            let Node::Or(nodes) = &parts[at] else { return Vec::new() };
            let others: Vec<_> =
                parts.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, part)| part.clone()).collect();
            let with = |node: &Node| Node::And(std::iter::once(node.clone()).chain(others.iter().cloned()).collect());
            nodes.iter().map(with).collect()
        }
        _ => Vec::new(),
    }
}
