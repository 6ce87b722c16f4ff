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
    /// Whether the branches lack the conditions beside them, which are too many.
    pub alone: bool,
    /// The first names of the paths of the filter and of the sort.
    tops: SmallVec<[&'q [u8]; 8]>,
}

/// The most conditions that stand beside the branches of an `$or`, counted for each branch. With more the branches are
/// planned for themselves, and the conditions beside them are asked of the documents that are found.
const BESIDE_MAX: usize = 100_000;

impl<'q> Asked<'q> {
    /// What a query asks.
    #[must_use]
    pub fn new(query: &'q Query) -> Self {
        let mut tops = SmallVec::new();
        collect_tops(query.filter.root(), &mut tops);
        if let Some((path, _)) = query.sort.as_ref().and_then(|sort| sort.fields().first()) {
            tops.push(path.top());
        }
        let (branches, alone) = branches(query.filter.root());
        Self { query, branches, alone, tops }
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

/// The branches of the first `$or` of a filter, and whether they lack the conditions beside it.
fn branches(filter: &Node) -> (Vec<Node>, bool) {
    let parts = match filter {
        Node::Or(nodes) => return (nodes.clone(), false),
        Node::And(parts) => parts,
        _ => return (Vec::new(), false),
    };
    let either = |part: &Node| matches!(part, Node::Or(_));
    let Some(at) = parts.iter().position(either) else { return (Vec::new(), false) };
    let Node::Or(nodes) = &parts[at] else { return (Vec::new(), false) };
    let others = || parts.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, part)| part);
    let beside = others().map(Node::weight).sum::<usize>();
    if nodes.len().saturating_mul(beside) > BESIDE_MAX {
        return (nodes.clone(), true);
    }
    let with_others = nodes.iter().map(|node| Node::And(std::iter::once(node).chain(others()).cloned().collect()));
    (with_others.collect(), false)
}
