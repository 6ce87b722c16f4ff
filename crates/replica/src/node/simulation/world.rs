//! The simulated machines, their members, and which links are cut between them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spinney::env::sim::SimEnv;
use spinney_testkit::rng::Rng;

use super::member::{Running, Virtual};

/// The machines and the network.
pub(super) struct World {
    pub(super) machines: Vec<SimEnv>,
    pub(super) clocks: Vec<Arc<Virtual>>,
    /// Bytes of entries that members keep in memory.
    pub(super) log_cache_bytes: usize,
    /// The memory of each member's engine.
    pub(super) memory_bytes: u64,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) random: Rng,
    pub(super) members: Vec<Option<Running>>,
    /// The directions of links that are cut: from, to.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Of a thousand messages, how many are lost.
    pub(super) lost: u64,
    /// Messages with more bytes are lost, with the connection that they are on: those that carry entries.
    pub(super) bytes_max: usize,
}

impl World {
    /// A number below `end`.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.state.lock().random.number() % end
    }

    pub(super) fn millis(&self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }

    pub(super) fn member(&self, at: usize) -> Option<Running> {
        self.state.lock().members[at].clone()
    }

    /// How many members the set has.
    pub(super) fn count(&self) -> usize {
        self.machines.len()
    }

    /// One of the members.
    pub(super) fn any(&self) -> usize {
        usize::try_from(self.below(self.count() as u64)).unwrap()
    }

    pub(super) fn reaches(&self, from: usize, to: usize) -> bool {
        !self.state.lock().cut.contains(&(from, to))
    }

    /// Cuts all directions of links that are `wanted`.
    pub(super) fn cut(&self, wanted: impl Fn(usize, usize) -> bool) {
        let all = (0..self.count()).flat_map(|from| (0..self.count()).map(move |to| (from, to)));
        self.state.lock().cut.extend(all.filter(|(from, to)| from != to && wanted(*from, *to)));
    }

    /// Cuts a member off.
    pub(super) fn isolate(&self, at: usize) {
        self.cut(|from, to| from == at || to == at);
    }

    pub(super) fn heal(&self) {
        self.state.lock().cut.clear();
    }

    /// The member that takes writes, if there is one.
    pub(super) fn primary(&self) -> Option<(usize, Running)> {
        let all = (0..self.count()).filter_map(|at| Some((at, self.member(at)?)));
        all.into_iter().find(|(_, member)| member.is_writable())
    }
}
