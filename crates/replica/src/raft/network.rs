//! The other members as openraft calls them.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes};
use spinney::base::codec::Malformed;

use super::line::{Line, Sending};
use super::types::{Peer, RaftVote, Snapshot, Types};
use super::wire::{Request, decode_appended, decode_transferred, decode_voted};
use crate::base::caller::Caller;
use crate::base::config::Member;

/// How long a member may take for entries, which it makes durable, at the least.
const APPEND_TIMEOUT: Duration = Duration::from_secs(5);

/// How long it may take to connect to a member, at the least.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

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

/// Replies to requests with entries.
type Replies<'s> = BoxStream<'s, Result<StreamAppendResult<Types>, RPCError<Types>>>;

/// Makes what calls the other members.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) me: u64,
    pub(crate) caller: Arc<dyn Caller>,
    pub(crate) copies: Arc<dyn SendCopy>,
    /// Where messages take long, so does a connection.
    pub(crate) election_timeout: Duration,
}

/// Calls one member.
#[derive(Debug)]
pub(crate) struct Client {
    network: Network,
    target: u64,
    member: Member,
    /// The connection for entries.
    line: Option<Line>,
}

impl Network {
    fn append_timeout(&self) -> Duration {
        self.election_timeout.max(APPEND_TIMEOUT)
    }

    fn client(&self, target: u64, peer: &Peer) -> Client {
        Client { network: self.clone(), target, member: peer.member.clone(), line: None }
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Client;

    async fn new_client(&mut self, target: u64, node: &Peer) -> Client {
        self.client(target, node)
    }
}

impl Client {
    fn failed(&self, action: RPCTypes, error: &io::Error, timeout: Duration) -> RPCError<Types> {
        match error.kind() {
            io::ErrorKind::TimedOut => {
                RPCError::Timeout(Timeout { action, id: self.network.me, target: self.target, timeout })
            }
            _ => RPCError::Unreachable(Unreachable::new(error)),
        }
    }

    /// The next reply on the line for entries, which is given up when it fails or the member refuses what it was sent.
    async fn next_reply<S>(
        &mut self,
        sending: &mut Sending<S>,
    ) -> Option<Result<StreamAppendResult<Types>, RPCError<Types>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + Unpin,
    {
        let reply = sending.next(self.line.as_mut()?).await?;
        if !matches!(reply, Ok(Ok(_))) {
            self.line = None;
        }
        let timeout = self.network.append_timeout();
        Some(reply.map_err(|error| self.failed(RPCTypes::AppendEntries, &error, timeout)))
    }

    async fn ask<T>(
        &self,
        kind: RPCTypes,
        request: Request,
        timeout: Duration,
        decode: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, RPCError<Types>> {
        // Another copy of the log may be at the member's address: it must know whether it is meant.
        let mut message = self.target.to_le_bytes().to_vec();
        request.encode(&mut message);
        let reply = match self.network.caller.call(&self.member, message, timeout).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.failed(kind, &error, timeout)),
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
        self.ask(RPCTypes::AppendEntries, Request::Append(request), option.hard_ttl(), decode_appended).await
    }

    fn stream_append<'s, S>(
        &'s mut self,
        requests: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, Result<Replies<'s>, RPCError<Types>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move {
            // A stream that was given up leaves requests whose replies nobody waits for.
            if !self.line.as_ref().is_some_and(Line::is_idle) {
                self.line = None;
                let timeout = self.network.election_timeout.max(OPEN_TIMEOUT);
                let opened = self.network.caller.open(&self.member, timeout).await;
                let opened = opened.map_err(|error| self.failed(RPCTypes::AppendEntries, &error, timeout));
                self.line = Some(Line::new(opened?, self.target));
            }
            let sending = Sending::new(requests, self.network.append_timeout());
            let replies = stream::unfold((self, sending), |(client, mut sending)| async move {
                let reply = client.next_reply(&mut sending).await?;
                Some((reply, (client, sending)))
            });
            Ok(Box::pin(replies) as Replies<'s>)
        })
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
