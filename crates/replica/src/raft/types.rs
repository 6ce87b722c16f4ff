//! The types of openraft as this crate uses it.

use std::fmt;
use std::sync::Arc;

use openraft::impls::leader_id_std;

use super::runtime::Runtime;
use crate::base::config::{Member, Times};

openraft::declare_raft_types!(
    /// The types of a member's consensus. The leader's term alone identifies it: there is one in a term.
    pub(crate) Types:
        D = Payload,
        R = (),
        NodeId = u64,
        Node = Peer,
        LeaderId = leader_id_std::LeaderId<Self::Term, Self::NodeId>,
        AsyncRuntime = Runtime,
);

pub(crate) type RaftLogId = openraft::type_config::alias::LogIdOf<Types>;
pub(crate) type RaftEntry = openraft::type_config::alias::EntryOf<Types>;
pub(crate) type RaftVote = openraft::type_config::alias::VoteOf<Types>;
pub(crate) type StoredMembers = openraft::type_config::alias::StoredMembershipOf<Types>;
pub(crate) type Members = openraft::Membership<u64, Peer>;
pub(crate) type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<Types>;

/// A change of the database, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) Arc<[u8]>);

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// What the consensus keeps of a member. Its own number for it is the identity of the member's copy of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) member: Member,
    /// The version of the configuration, the same in all members.
    pub(crate) version: u64,
    /// The identity of the set, the same in all members.
    pub(crate) set_id: [u8; 12],
    /// The times of the set, the same in all members.
    pub(crate) times: Option<Times>,
}

impl Default for Peer {
    fn default() -> Self {
        Self { member: Member::new(0, "localhost"), version: 1, set_id: [0; 12], times: None }
    }
}

/// A snapshot, which is no more than its place: the database itself is durable.
pub(crate) type Snapshot = openraft::type_config::alias::SnapshotOf<Types, ()>;
