//! What all clients share.

use super::access::Access;
use super::form::Form;
use super::graph::Graph;
use super::payload::Payload;

/// What all clients share.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) form: Form,
    pub(super) seed: u64,
    pub(super) graph: Graph,
    pub(super) access: Access,
    pub(super) loaded_nodes: Payload,
    pub(super) node_data: Payload,
    pub(super) link_data: Payload,
    /// Milliseconds since 1970 at which the load ended: a fixed moment, so that the seed decides all.
    pub(super) loaded_at: u64,
}

impl Setting {
    pub(super) fn new(form: Form, nodes: u64, seed: u64) -> Self {
        Self {
            form,
            seed,
            graph: Graph::new(nodes),
            access: Access::new(nodes),
            loaded_nodes: Payload::of_nodes(seed ^ 3, 1),
            node_data: Payload::of_nodes(seed ^ 3, 0),
            link_data: Payload::of_links(seed ^ 4),
            loaded_at: 1_446_336_000_000,
        }
    }
}
