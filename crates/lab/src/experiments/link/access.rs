//! Which nodes the requests are for, by kind of request.

use super::distributions::Zipf;
use super::graph::{DEGREE_SEED, happens};
use super::shuffle::Shuffle;
use crate::random::Random;

/// Seeds of the permutations that say which nodes are popular: with links unrelated to how many they have, and of
/// themselves.
const UNRELATED_SEED: u64 = 53_238_253_823_453;
const NODE_SEED: u64 = 4_766_565_305_853_767_165;

/// The share of requests for links whose popular nodes are unrelated to the best linked ones.
///
/// For writes the configuration of the original says 0.95, and a shape of 0.741, and its code reads those of reads; so
/// do we.
const UNRELATED: f64 = 0.995;

/// The distributions of requests over nodes.
#[derive(Clone, Debug)]
pub(super) struct Access {
    nodes: u64,
    link_reads: Zipf,
    link_writes: Zipf,
    node_reads: Zipf,
    node_updates: Zipf,
    by_degree: Shuffle,
    unrelated: Shuffle,
    by_node: Shuffle,
}

impl Access {
    /// The distributions over the nodes `1..=nodes`.
    pub(super) fn new(nodes: u64) -> Self {
        Self {
            nodes,
            link_reads: Zipf::new(nodes, 0.8),
            link_writes: Zipf::new(nodes, 0.741),
            node_reads: Zipf::new(nodes, 0.625),
            node_updates: Zipf::new(nodes, 0.606),
            by_degree: Shuffle::new(DEGREE_SEED, nodes),
            unrelated: Shuffle::new(UNRELATED_SEED, nodes),
            by_node: Shuffle::new(NODE_SEED, nodes),
        }
    }

    /// The node whose links are read.
    pub(super) fn link_read(&self, random: &mut Random) -> u64 {
        self.link(random, &self.link_reads)
    }

    /// The node whose links are changed.
    pub(super) fn link_write(&self, random: &mut Random) -> u64 {
        self.link(random, &self.link_writes)
    }

    fn link(&self, random: &mut Random, related: &Zipf) -> u64 {
        if happens(random, UNRELATED) {
            1 + self.unrelated.permute(self.link_reads.choose(random))
        } else {
            1 + self.by_degree.permute(related.choose(random))
        }
    }

    /// The node that is read.
    pub(super) fn node_read(&self, random: &mut Random) -> u64 {
        1 + self.by_node.permute(self.node_reads.choose(random))
    }

    /// The node that is changed.
    pub(super) fn node_update(&self, random: &mut Random) -> u64 {
        1 + self.by_node.permute(self.node_updates.choose(random))
    }

    /// The node that is deleted: any, for a popular one would soon be gone.
    pub(super) fn node_delete(&self, random: &mut Random) -> u64 {
        1 + random.below(self.nodes)
    }
}
