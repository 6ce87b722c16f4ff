//! The consensus of a member: openraft behind calls in the terms of this crate.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use openraft::errors::{ChangeMembershipError, ClientWriteError, InitializeError, LinearizableReadError, RaftError};
use openraft::impls::ProgressResponder;
use openraft::impls::leader_id_std::LeaderId;
use openraft::raft::VoteRequest;
use openraft::type_config::async_runtime::watch::WatchReceiver;
use openraft::vote::RaftLeaderId;
use openraft::{ChangeMembers, Config, ReadPolicy, SnapshotPolicy};
use spinney::base::codec::Malformed;

use super::appends::{Appends, Raft, check_primary};
use super::convert::raft_place;
use super::log_store::LogStore;
use super::machine::Machine;
use super::network::{Network, SendCopy};
use super::types::{Payload, Peer, RaftVote, Types};
use super::view::{State, View};
use super::wire::{APPEND, BALLOTS, KINDS, Request, encode_appended, encode_transferred, encode_voted};
use crate::base::caller::Caller;
use crate::base::error::{Error, Result};
use crate::base::settings::Settings;
use crate::entry::log_entry::LogId;
use crate::storage::applier::Applier;
use crate::storage::log::Log;

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A majority has it, and it is applied here.
    Applied,
    /// It is in no log: this member did not lead in the term.
    Refused,
    /// It may be applied, or was, or will never be.
    Unknown,
}

/// What tells what became of a proposal.
pub(crate) type Fate = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The identity that no member has.
const NOBODY: u64 = 0;

/// The consensus of a member. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Consensus {
    raft: Raft,
    log: Log,
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consensus").field("identity", self.raft.node_id()).finish_non_exhaustive()
    }
}

impl Consensus {
    /// Starts the consensus of a member whose copy of the log is `identity`. It asks for no election before
    /// [`Self::allow_elections`].
    pub(crate) async fn start(
        identity: u64,
        settings: &Settings,
        (caller, copies): (Arc<dyn Caller>, Arc<dyn SendCopy>),
        log: Log,
        applier: Applier,
    ) -> Result<Self> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let config = Config {
            cluster_name: settings.set_name.clone(),
            heartbeat_interval: millis(settings.heartbeat),
            election_timeout_min: millis(settings.election_timeout),
            election_timeout_max: millis(settings.election_timeout).saturating_mul(2),
            max_payload_entries: 1024,
            snapshot_policy: SnapshotPolicy::Never,
            // Of the entries that were applied, the node says which are given up.
            max_in_snapshot_log_to_keep: u64::MAX,
            enable_elect: false,
            enable_pre_vote: Some(true),
            broadcast_submitted_on_append: Some(true),
            // Entries of its term that were not durable may be elsewhere: it must not lead in that term again.
            enable_leader_restore: Some(false),
            // One that was put back from an older copy of its files is filled again: see `Membership::fallen_back`.
            allow_log_reversion: Some(true),
            install_snapshot_timeout: 600_000,
            ..Config::default()
        };
        let config = Arc::new(config.validate().map_err(|error| Error::InvalidConfig(error.to_string()))?);
        let network = Network { me: identity, caller, copies, election_timeout: settings.election_timeout };
        let machine = Machine::new(applier, log.clone());
        let raft = Raft::new(identity, config, network, LogStore(log.clone()), machine);
        Ok(Self { raft: raft.await.map_err(ended)?, log })
    }

    /// What it knows now.
    pub(crate) fn view(&self) -> View {
        View::of(&self.raft.metrics().borrow_watched())
    }

    /// Waits until `wanted` is true of what it knows, which is looked at after each change.
    pub(crate) async fn wait(&self, mut wanted: impl FnMut(&View) -> bool) -> Result<View> {
        let mut metrics = self.raft.metrics();
        loop {
            let view = View::of(&metrics.borrow_and_update());
            if wanted(&view) {
                return Ok(view);
            }
            if view.failure.is_some() || metrics.changed().await.is_err() {
                return Err(Error::Ended(view.failure.unwrap_or_else(|| "it was ended".to_owned())));
            }
        }
    }

    /// Waits until state, term, leader or members change.
    pub(crate) async fn role_changed(&self, seen: &mut RoleChanges) -> Result<()> {
        let changes = seen.0.get_or_insert_with(|| self.raft.server_metrics());
        changes.changed().await.map_err(|_| Error::Ended("it was ended".to_owned()))
    }

    /// Makes the first members known. All of them vote.
    pub(crate) async fn initialize(&self, peers: BTreeMap<u64, Peer>) -> Result<()> {
        self.raft.initialize(peers).await.map_err(|error| match error {
            RaftError::APIError(InitializeError::NotAllowed(_)) => Error::AlreadyInitiated,
            RaftError::APIError(error) => Error::InvalidConfig(error.to_string()),
            RaftError::Fatal(error) => ended(error),
        })
    }

    /// Whether a message is for the consensus.
    pub(crate) fn is_request(message: &[u8]) -> bool {
        message.first().is_some_and(|kind| KINDS.contains(kind))
    }

    /// Whether a message is one by which a primary sends entries or tells that it leads.
    pub(crate) fn is_append(message: &[u8]) -> bool {
        message.first() == Some(&APPEND)
    }

    /// Whether a message is one by which a candidate asks for a vote, or whether it would get it.
    pub(crate) fn is_ballot(message: &[u8]) -> bool {
        message.first().is_some_and(|kind| BALLOTS.contains(kind))
    }

    /// Answers another member.
    pub(crate) async fn handle(&self, request: &[u8]) -> Result<Vec<u8>> {
        let request = Request::decode(request).map_err(|Malformed| Error::Malformed("a request of the consensus"))?;
        Ok(match request {
            Request::Append(request) => {
                check_primary(&self.log, &request)?;
                encode_appended(&self.raft.append_entries(request).await.map_err(ended)?)
            }
            Request::Vote(request) => encode_voted(&self.raft.vote(request).await.map_err(ended)?),
            Request::PreVote(request) => encode_voted(&self.raft.pre_vote(request).await.map_err(ended)?),
            Request::TransferLeader(request) => {
                encode_transferred(&self.raft.handle_transfer_leader(request).await.map_err(ended)?)
            }
        })
    }

    /// What answers the requests that come by a connection for entries.
    pub(crate) fn appends(&self) -> Appends {
        Appends::new(&self.raft, self.log.clone())
    }

    /// Proposes an entry, if this member leads in the term, and returns when it has its place behind those that were
    /// proposed before; then what tells its fate, when that is known, or will not be known here.
    pub(crate) async fn propose(&self, term: u64, payload: Vec<u8>) -> Result<Fate> {
        let (responder, complete) = ProgressResponder::complete_only();
        let expected = LeaderId::<u64, u64>::new(term, 0).to_committed();
        let write = self.raft.write(Payload(payload.into())).responder(responder).with_leader(expected);
        write.await.map_err(ended)?;
        Ok(Box::pin(async {
            match complete.await {
                Ok(Ok(_)) => Outcome::Applied,
                Ok(Err(ClientWriteError::ForwardToLeader(_) | ClientWriteError::PreconditionFailed(_))) => {
                    Outcome::Refused
                }
                Ok(Err(_)) | Err(_) => Outcome::Unknown,
            }
        }))
    }

    /// Waits until this member is known to lead, and has applied what was committed before.
    pub(crate) async fn linearizable(&self) -> Result<()> {
        match self.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_))) => Err(Error::NotPrimary(None)),
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => Err(Error::TimedOut),
            Err(RaftError::Fatal(error)) => Err(ended(error)),
        }
    }

    /// Adds a member without a vote.
    pub(crate) async fn add_learner(&self, identity: u64, peer: Peer) -> Result<()> {
        self.change(ChangeMembers::AddNodes(BTreeMap::from([(identity, peer)]))).await
    }

    /// Sets the data of members and the set of those that vote; the others stay without a vote.
    pub(crate) async fn set_members(&self, peers: BTreeMap<u64, Peer>, voters: BTreeSet<u64>) -> Result<()> {
        let changes = vec![ChangeMembers::SetNodes(peers), ChangeMembers::ReplaceAllVoters(voters)];
        self.change(ChangeMembers::Batch(changes)).await
    }

    /// Removes members without a vote.
    pub(crate) async fn remove(&self, identities: BTreeSet<u64>) -> Result<()> {
        self.change(ChangeMembers::RemoveNodes(identities)).await
    }

    async fn change(&self, change: ChangeMembers<u64, Peer>) -> Result<()> {
        match self.raft.change_membership(change, true).await {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_)))) => {
                Err(Error::ConfigInProgress)
            }
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
                Err(Error::InvalidConfig(error.to_string()))
            }
            Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_))) => Err(Error::Interrupted),
            Err(RaftError::APIError(_)) => Err(Error::NotPrimary(None)),
            Err(RaftError::Fatal(error)) => Err(ended(error)),
        }
    }

    /// Hands leadership to a member.
    pub(crate) async fn transfer(&self, to: u64) -> Result<()> {
        self.raft.trigger().transfer_leader(to).await.map_err(ended)
    }

    /// Ends this member's lead in a term: it takes part in the next term, in which it votes for nobody who has not a
    /// log as long as its own. Nothing when it leads no more.
    pub(crate) async fn resign(&self, term: u64) -> Result<()> {
        let view = self.view();
        if view.state != State::Leader || view.term != term {
            return Ok(());
        }
        // A vote for nobody: whoever asks for one in that term is looked at as if there had been none.
        let vote = RaftVote::new(term + 1, NOBODY);
        let last = raft_place(LogId { term: u64::MAX, index: u64::MAX });
        let mut request = VoteRequest::new(vote, Some(last));
        request.leadership_transfer = true;
        self.raft.vote(request).await.map(drop).map_err(ended)
    }

    /// Whether this member asks for an election when it hears of no leader.
    pub(crate) fn allow_elections(&self, allowed: bool) {
        self.raft.runtime_config().elect(allowed);
    }

    /// Whether this member tells the others that it leads, when it does.
    pub(crate) fn allow_heartbeats(&self, allowed: bool) {
        self.raft.runtime_config().heartbeat(allowed);
    }

    /// Gives up entries up to an index that were applied.
    pub(crate) async fn purge(&self, index: u64) -> Result<()> {
        self.raft.trigger().snapshot().await.map_err(ended)?;
        self.raft.trigger().purge_log(index).await.map_err(ended)
    }

    /// Ends it: it answers no member any more.
    pub(crate) async fn end(&self) {
        // The task of the core may have panicked, which was reported.
        drop(self.raft.shutdown().await);
    }
}

/// Which changes of the role were seen.
#[derive(Default)]
pub(crate) struct RoleChanges(
    Option<openraft::type_config::alias::WatchReceiverOf<Types, openraft::metrics::RaftServerMetrics<Types>>>,
);

fn ended(error: impl ToString) -> Error {
    Error::Ended(error.to_string())
}
