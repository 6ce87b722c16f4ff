//! The graph of dependencies, and the search for cycles in it.
//!
//! A cycle without two `rw` next to each other is a cycle of another graph, which has two nodes for each of this one:
//! reached by an `rw`, from where no `rw` leads on, and reached otherwise.

use super::history::Txn;
use std::collections::VecDeque;

/// A dependency, with the key that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Ww(u64),
    Wr(u64),
    Rw(u64),
    /// One ended before the other began.
    Rt,
}

/// What a cycle may be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    reads: bool,
    /// How many `rw`: none, any that are not next to each other, or any.
    anti: Anti,
    real_time: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anti {
    None,
    Apart,
    Any,
}

const fn allowed(reads: bool, anti: Anti, real_time: bool) -> Allowed {
    Allowed { reads, anti, real_time }
}

/// The cycles that snapshot isolation excludes, each with what those before it do not have.
pub(super) const FORBIDDEN: [(&str, Allowed); 5] = [
    ("G0, dirty write", allowed(false, Anti::None, false)),
    ("G1c, circular information flow", allowed(true, Anti::None, false)),
    ("G1c with real time", allowed(true, Anti::None, true)),
    ("G-single, or a longer cycle without two rw next to each other", allowed(true, Anti::Apart, false)),
    ("G-single with real time", allowed(true, Anti::Apart, true)),
];

/// What serializable isolation excludes beyond that.
pub(super) const NOT_SERIALIZABLE: (&str, Allowed) = ("G2, write skew", allowed(true, Anti::Any, true));

/// Transactions, and what makes them depend on each other. Nodes behind those of transactions are moments.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    out: Vec<Vec<(usize, Edge)>>,
}

impl Graph {
    pub(super) fn new(nodes: usize) -> Self {
        Self { out: vec![Vec::new(); nodes] }
    }

    pub(super) fn add(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to {
            self.out[from].push((to, edge));
        }
    }

    /// Adds that transactions began after others had ended: by way of a row of moments, so that it does not take an
    /// edge for each pair.
    pub(super) fn real_time(&mut self, history: &[Txn]) {
        let mut by_end: Vec<_> = (0..history.len()).collect();
        by_end.sort_unstable_by_key(|txn| history[*txn].ended);
        let first = self.out.len();
        self.out.resize(first + by_end.len(), Vec::new());
        for (moment, txn) in (first..).zip(&by_end) {
            self.add(*txn, moment, Edge::Rt);
            if moment > first {
                self.add(moment - 1, moment, Edge::Rt);
            }
        }
        for (number, txn) in history.iter().enumerate() {
            let before = by_end.partition_point(|other| history[*other].ended < txn.begun);
            if before > 0 {
                self.add(first + before - 1, number, Edge::Rt);
            }
        }
    }

    pub(super) fn edges(&self) -> u64 {
        count(self.out.iter().map(Vec::len).sum())
    }

    /// How many groups of nodes reach each other.
    pub(super) fn circles(&self) -> u64 {
        let groups = self.groups(allowed(true, Anti::Any, false));
        let mut sizes = vec![0u64; groups.len()];
        groups.iter().for_each(|group| sizes[*group] += 1);
        count(sizes.iter().filter(|size| **size > 1).count())
    }

    /// The nodes of a shortest cycle through some node, if there is any.
    pub(super) fn cycle(&self, allowed: Allowed) -> Option<Vec<usize>> {
        let groups = self.groups(allowed);
        let mut sizes = vec![0u64; groups.len()];
        groups.iter().for_each(|group| sizes[*group] += 1);
        let start = groups.iter().position(|group| sizes[*group] > 1)?;
        let mut from = vec![None; groups.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for next in self.steps(node, allowed).filter(|next| groups[*next] == groups[start]) {
                if from[next].is_none() {
                    from[next] = Some(node);
                    queue.push_back(next);
                }
            }
        }
        let mut cycle = vec![start / 2];
        let mut at = from[start]?;
        while at != start {
            cycle.push(at / 2);
            at = from[at]?;
        }
        cycle.reverse();
        Some(cycle)
    }

    /// What the edges are between the nodes of a cycle.
    pub(super) fn explain(&self, cycle: &[usize]) -> String {
        let next = cycle.iter().cycle().skip(1);
        let edges = cycle.iter().zip(next).flat_map(|(from, to)| {
            let out = self.out.get(*from).into_iter().flatten().filter(move |(other, _)| other == to);
            out.map(move |(to, edge)| format!("  {from} {edge:?} {to}\n"))
        });
        edges.collect()
    }

    /// Where an edge leads from a node of the doubled graph: `2 * node`, plus one when it was reached by an `rw`.
    fn steps(&self, node: usize, allowed: Allowed) -> impl Iterator<Item = usize> + '_ {
        let after_rw = node % 2 == 1;
        self.out[node / 2].iter().filter_map(move |(to, edge)| match edge {
            Edge::Ww(_) => Some(2 * to),
            Edge::Wr(_) => allowed.reads.then_some(2 * to),
            Edge::Rt => allowed.real_time.then_some(2 * to),
            Edge::Rw(_) => match allowed.anti {
                Anti::None => None,
                Anti::Apart => (!after_rw).then_some(2 * to + 1),
                Anti::Any => Some(2 * to),
            },
        })
    }

    /// For each node of the doubled graph the number of its strongly connected component (Tarjan, Depth-First Search
    /// and Linear Graph Algorithms, 1972; without recursion).
    fn groups(&self, allowed: Allowed) -> Vec<usize> {
        let count = 2 * self.out.len();
        let (mut index, mut low, mut group) = (vec![usize::MAX; count], vec![0; count], vec![usize::MAX; count]);
        let (mut open, mut next_index, mut next_group) = (Vec::new(), 0, 0);
        for root in 0..count {
            let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
            if index[root] == usize::MAX {
                path.push((root, self.steps(root, allowed).collect()));
            }
            while let Some((node, steps)) = path.last_mut() {
                let node = *node;
                if index[node] == usize::MAX {
                    (index[node], low[node]) = (next_index, next_index);
                    next_index += 1;
                    open.push(node);
                }
                if let Some(next) = steps.pop() {
                    if index[next] == usize::MAX {
                        path.push((next, self.steps(next, allowed).collect()));
                    } else if group[next] == usize::MAX {
                        low[node] = low[node].min(index[next]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent] = low[*parent].min(low[node]);
                }
                if low[node] == index[node] {
                    while let Some(member) = open.pop() {
                        group[member] = next_group;
                        if member == node {
                            break;
                        }
                    }
                    next_group += 1;
                }
            }
        }
        group
    }
}

pub(super) fn count(len: usize) -> u64 {
    u64::try_from(len).expect("usize has at most 64 bits")
}
