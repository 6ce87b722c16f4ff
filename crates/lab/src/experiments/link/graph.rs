//! Which links each node has: the degrees as measured, the types, and the nodes that links point to.
//!
//! # Format
//! `degrees.txt` has a line for each point of the distribution of degrees that was measured at Facebook: a number of
//! links, and the percentage of nodes that have at most that many. All points up to 100 links are there (99.83% of
//! nodes) and a choice of those above; between two points of it the share of nodes with more links falls as a power of
//! the number of links.

use super::distributions::unit;
use super::shuffle::Shuffle;
use crate::random::Random;
use spinney::base::num::usize_of;
use std::sync::LazyLock;

/// Types of links. A node's links are divided among them.
pub(super) const LINK_TYPES: u64 = 2;

/// The first type; the others follow.
const LINK_TYPE_FIRST: u64 = 123_456_789;

/// The seed of the permutation that says which nodes have many links.
pub(super) const DEGREE_SEED: u64 = 20_343_988_438_726_021;

/// A point of the table of degrees.
#[derive(Clone, Copy, Debug)]
struct Point {
    links: u64,
    /// The share of nodes that have more.
    above: f64,
}

static POINTS: LazyLock<Vec<Point>> = LazyLock::new(|| {
    let lines = include_str!("degrees.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| Point::parse(line).expect("our own table is well formed")).collect()
});

impl Point {
    fn parse(line: &str) -> Option<Self> {
        let (links, percent) = line.split_once(' ')?;
        Some(Self { links: links.parse().ok()?, above: 1.0 - percent.parse::<f64>().ok()? / 100.0 })
    }
}

/// A graph with the nodes `1..=nodes`.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    nodes: u64,
    shuffle: Shuffle,
}

impl Graph {
    /// The graph with so many nodes, at least one.
    pub(super) fn new(nodes: u64) -> Self {
        Self { nodes, shuffle: Shuffle::new(DEGREE_SEED, nodes) }
    }

    /// How many nodes there are after the load.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// How many links of a type node `id` has after the load.
    ///
    /// The original means to divide the links evenly, and counts those that are left over wrong, so that a node with
    /// two links or more gets up to two more; so do we, for otherwise the graph would be smaller than that of the
    /// articles.
    pub(super) fn links(&self, id: u64, link_type: u64) -> u64 {
        let all = self.degree(id);
        let each = all / LINK_TYPES;
        each + u64::from(link_type - LINK_TYPE_FIRST < all - each)
    }

    /// The links of node `id` by the table. No node has more than there are nodes: it matters in small graphs only,
    /// where the few best linked nodes of the table would have most of all links.
    fn degree(&self, id: u64) -> u64 {
        degree(self.shuffle.invert(id - 1), self.nodes).min(self.nodes)
    }

    /// A node that a link of `id` points to, which is linked already with a probability of about `linked`.
    pub(super) fn choose_id2(&self, random: &mut Random, id: u64, link_type: u64, linked: f64) -> u64 {
        id + random.below(self.range(id, link_type, linked))
    }

    /// So many nodes, all different, as [`Graph::choose_id2`] chooses one.
    pub(super) fn choose_id2s(
        &self,
        random: &mut Random,
        id: u64,
        link_type: u64,
        linked: f64,
        wanted: u64,
    ) -> Vec<u64> {
        /// After so many draws in vain one node fewer is asked for.
        const DRAWS_MAX: usize = 101;
        let range = self.range(id, link_type, linked);
        if range <= wanted {
            return (id..id + wanted).collect();
        }
        let mut chosen = Vec::with_capacity(usize_of(wanted));
        for _ in 0..wanted {
            let mut draws = (0..DRAWS_MAX).map(|_| id + random.below(range));
            if let Some(id2) = draws.find(|id2| !chosen.contains(id2)) {
                chosen.push(id2);
            }
        }
        chosen
    }

    /// The first nodes from `id` on, of which about a share of `linked` are linked.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number of nodes")]
    fn range(&self, id: u64, link_type: u64, linked: f64) -> u64 {
        ((self.links(id, link_type) as f64 / linked).ceil() as u64).max(1)
    }
}

/// The types of links.
pub(super) fn link_types() -> impl Iterator<Item = u64> {
    LINK_TYPE_FIRST..LINK_TYPE_FIRST + LINK_TYPES
}

/// Each type with equal probability.
pub(super) fn choose_link_type(random: &mut Random) -> u64 {
    LINK_TYPE_FIRST + random.below(LINK_TYPES)
}

/// Whether something of this probability comes to pass.
pub(super) fn happens(random: &mut Random, probability: f64) -> bool {
    unit(random) < probability
}

/// The links of the node that `rank` of `nodes` nodes have more links than.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two positive whole numbers")]
fn degree(rank: u64, nodes: u64) -> u64 {
    let above = rank as f64 / nodes as f64;
    let at = POINTS.partition_point(|point| point.above > above).min(POINTS.len() - 1);
    let upper = POINTS[at];
    let Some(&lower) = at.checked_sub(1).map(|at| &POINTS[at]) else { return upper.links };
    if upper.links == lower.links + 1 || above <= 0.0 || upper.above <= 0.0 {
        return upper.links;
    }
    let share = (lower.above / above).ln() / (lower.above / upper.above).ln();
    let links = lower.links as f64 * (upper.links as f64 / lower.links as f64).powf(share);
    (links.ceil() as u64).min(upper.links)
}
