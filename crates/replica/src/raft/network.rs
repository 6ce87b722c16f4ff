//! The other members as openraft calls them.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes};
use spinney::base::codec::Malformed;

use super::types::{Peer, RaftVote, Snapshot, Types};
use super::wire::{Request, decode_appended, decode_transferred, decode_voted};
use crate::base::caller::Caller;
use crate::base::config::Member;

/// How long a member may take for entries, which it makes durable.
const APPEND_TIMEOUT: Duration = Duration::from_secs(5);

/// The pauses before an unreachable member is called again.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Sends copies of this node's database.
pub(crate) trait SendCopy: Send + Sync + fmt::Debug {
    /// Sends one to a member whose copy of the log is `target`, and waits until the member has opened it.
    fn send(&self, member: &Member, target: u64, term: u64) -> Sent;
}

/// A copy that is on its way.
pub(crate) type Sent = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Makes what calls the other members.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) me: u64,
    pub(crate) caller: Arc<dyn Caller>,
    pub(crate) copies: Arc<dyn SendCopy>,
}

/// Calls one member.
#[derive(Debug)]
pub(crate) struct Client {
    network: Network,
    target: u64,
    member: Member,
    /// Whether it carries entries, and not heartbeats and votes alone.
    carries_entries: bool,
}

impl Network {
    fn client(&self, target: u64, peer: &Peer, carries_entries: bool) -> Client {
        Client { network: self.clone(), target, member: peer.member.clone(), carries_entries }
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Client;

    async fn new_client(&mut self, target: u64, node: &Peer) -> Client {
        self.client(target, node, true)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Peer) -> Client {
        self.client(target, node, false)
    }
}

impl Client {
    async fn ask<T>(
        &self,
        kind: RPCTypes,
        request: Request,
        timeout: Duration,
        decode: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, RPCError<Types>> {
        // Another copy of the log may be at the member's address: it must know whether it is meant.
        let mut message = self.target.to_le_bytes().to_vec();
        message.extend_from_slice(&request.encode());
        let reply = match self.network.caller.call(&self.member, message, timeout).await {
            Ok(reply) => reply,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let (id, target) = (self.network.me, self.target);
                return Err(RPCError::Timeout(Timeout { action: kind, id, target, timeout }));
            }
            Err(error) => return Err(RPCError::Unreachable(Unreachable::new(&error))),
        };
        decode(&reply).map_err(|Malformed| {
            let error = io::Error::new(io::ErrorKind::InvalidData, "a reply of another member makes no sense");
            RPCError::Network(NetworkError::new(&error))
        })
    }
}

impl RaftNetworkV2<Types> for Client {
    type SnapshotData = ();

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let timeout = if self.carries_entries { APPEND_TIMEOUT } else { option.hard_ttl() };
        self.ask(RPCTypes::AppendEntries, Request::Append(request), timeout, decode_appended).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ask(RPCTypes::Vote, Request::Vote(request), option.hard_ttl(), decode_voted).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ask(RPCTypes::Vote, Request::PreVote(request), option.hard_ttl(), decode_voted).await
    }

    async fn full_snapshot(
        &mut self,
        vote: RaftVote,
        _snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        // What is sent is newer than the snapshot that openraft knows.
        let sent = self.network.copies.send(&self.member, self.target, vote.leader_id.term);
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = sent => match sent {
                Ok(()) => Ok(SnapshotResponse::new(vote)),
                Err(error) => Err(StreamingError::Unreachable(Unreachable::new(&error))),
            },
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let request = Request::TransferLeader(request);
        self.ask(RPCTypes::TransferLeader, request, option.hard_ttl(), decode_transferred).await
    }

    fn backoff(&self) -> Option<Backoff> {
        let pauses = std::iter::successors(Some(PAUSE_MIN), |pause| Some((*pause * 2).min(PAUSE_MAX)));
        Some(Backoff::new(pauses))
    }
}
