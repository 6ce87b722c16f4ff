//! What a query asks of indexes, and the scans that could answer it.

use super::query::Query;
use super::scan::Scan;
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
}

/// The most branches of an `$or` that get ranges of their own.
const BRANCHES_MAX: usize = 50;

impl<'q> Asked<'q> {
    /// What a query asks.
    #[must_use]
    pub fn new(query: &'q Query) -> Self {
        Self { query, branches: branches(query.filter.root()) }
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
