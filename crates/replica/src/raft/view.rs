//! What openraft tells of itself, in the terms of this crate.

use std::collections::BTreeMap;
use std::time::Duration;

use openraft::{Instant, RaftMetrics, ServerState};

use super::convert::place;
use super::types::{Peer, Types};
use crate::entry::log_entry::LogId;

/// What a member's consensus does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has no vote.
    Learner,
    Follower,
    Candidate,
    Leader,
    /// It has ended.
    Ended,
}

/// What a member's consensus knows at a moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) state: State,
    pub(crate) term: u64,
    /// The identity of the leader.
    pub(crate) leader: Option<u64>,
    pub(crate) last: Option<u64>,
    pub(crate) committed: Option<u64>,
    /// Up to where a leader that was heard of since the start says that entries are committed; they need not be here.
    pub(crate) told: Option<u64>,
    pub(crate) applied: Option<LogId>,
    pub(crate) purged: Option<u64>,
    /// All members by their identities, and whether they vote.
    pub(crate) peers: BTreeMap<u64, (Peer, bool)>,
    /// The place of these members in the log.
    pub(crate) members_at: Option<LogId>,
    /// Whether a majority has them.
    pub(crate) members_committed: bool,
    /// Whether voters are being exchanged.
    pub(crate) joint: bool,
    /// Of the leader: the index up to which each member has its log.
    pub(crate) matched: BTreeMap<u64, Option<u64>>,
    /// Of the leader: the time since each member answered.
    pub(crate) answered: BTreeMap<u64, Option<Duration>>,
    /// Of the leader: the time since a majority answered.
    pub(crate) quorum_age: Option<Duration>,
    /// Why the consensus failed.
    pub(crate) failure: Option<String>,
}

impl View {
    /// The version of the configuration, which all have that are in it. A member that is removed keeps an older one.
    fn version(&self) -> u64 {
        let voters = self.peers.values().filter(|(_, votes)| *votes);
        voters.map(|(peer, _)| peer.version).max().unwrap_or_default()
    }

    /// The members of the configuration by their identities, and whether they vote: not those that are being removed.
    pub(crate) fn current_peers(&self) -> impl Iterator<Item = (&u64, &(Peer, bool))> {
        let version = self.version();
        self.peers.iter().filter(move |(_, (peer, votes))| *votes || peer.version >= version)
    }

    /// How long a leader has heard of no majority. None has to be heard where no other member votes; before the first
    /// time a majority has just voted for it.
    pub(crate) fn silence(&self) -> Duration {
        let alone = self.peers.values().filter(|(_, votes)| *votes).count() <= 1;
        self.quorum_age.filter(|_| !alone).unwrap_or_default()
    }

    pub(super) fn of(metrics: &RaftMetrics<Types>) -> Self {
        let membership = metrics.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let peers = membership.nodes().map(|(id, peer)| (*id, (peer.clone(), voters.contains(id))));
        let index = |id: &Option<super::types::RaftLogId>| id.as_ref().map(|id| id.index);
        Self {
            state: match metrics.state {
                ServerState::Learner => State::Learner,
                ServerState::Follower => State::Follower,
                ServerState::Candidate => State::Candidate,
                ServerState::Leader => State::Leader,
                ServerState::Shutdown => State::Ended,
            },
            term: metrics.current_term,
            leader: metrics.current_leader,
            last: metrics.last_log_index,
            committed: index(&metrics.cluster_committed)
                .min(metrics.last_log_index)
                .max(index(&metrics.local_committed)),
            told: index(&metrics.cluster_committed),
            applied: metrics.last_applied.as_ref().map(place),
            purged: index(&metrics.purged),
            peers: peers.collect(),
            members_at: metrics.membership_config.log_id().as_ref().map(place),
            members_committed: metrics.membership_config == metrics.committed_membership_config,
            joint: membership.get_joint_config().len() > 1,
            matched: metrics.replication.iter().flatten().map(|(id, matched)| (*id, index(matched))).collect(),
            answered: metrics.heartbeat.iter().flatten().map(|(id, at)| (*id, at.map(|at| at.elapsed()))).collect(),
            quorum_age: metrics.last_quorum_acked.map(|at| at.elapsed()),
            failure: metrics.running_state.as_ref().err().map(ToString::to_string),
        }
    }
}
