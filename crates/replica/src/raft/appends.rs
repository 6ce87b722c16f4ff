//! Requests with entries that come by one connection: they are taken one behind the other, and answered in their order.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt, stream};
use openraft::errors::Fatal;
use openraft::raft::{AppendEntriesRequest, StreamAppendResult};
use spinney::base::codec::Malformed;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::convert::place;
use super::machine::Machine;
use super::types::Types;
use super::wire::{Request, encode_streamed};
use crate::base::error::{Error, Result};
use crate::storage::log::Log;

pub(super) type Raft = openraft::Raft<Types, Machine>;

type Replies = Pin<Box<dyn Stream<Item = std::result::Result<StreamAppendResult<Types>, Fatal<Types>>> + Send>>;

/// What answers the requests of a connection.
pub(crate) struct Appends {
    requests: UnboundedSender<AppendEntriesRequest<Types>>,
    replies: Replies,
    log: Log,
    /// How many requests have no reply yet.
    open: usize,
}

impl fmt::Debug for Appends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Appends").field("open", &self.open).finish_non_exhaustive()
    }
}

/// Checks that a primary has no other entries than this log where that is committed.
///
/// # Errors
/// That of [`Log::check_primary`].
pub(super) fn check_primary(log: &Log, request: &AppendEntriesRequest<Types>) -> Result<()> {
    let entries = request.entries.iter().map(|entry| place(&entry.log_id));
    let before = request.prev_log_id.as_ref().map(place);
    Ok(before.into_iter().chain(entries).try_for_each(|theirs| log.check_primary(theirs))?)
}

impl Appends {
    pub(super) fn new(raft: &Raft, log: Log) -> Self {
        let (requests, mut received) = unbounded_channel();
        let received = stream::poll_fn(move |context| received.poll_recv(context));
        Self { requests, replies: Box::pin(raft.stream_append(received)), log, open: 0 }
    }

    /// How many requests have no reply yet.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Takes a request.
    ///
    /// # Errors
    /// `Malformed` for one that makes no sense or has no entries to append; those of [`check_primary`]; `Ended`.
    pub(crate) fn push(&mut self, request: &[u8]) -> Result<()> {
        match Request::decode(request) {
            Ok(Request::Append(request)) => {
                check_primary(&self.log, &request)?;
                self.open += 1;
                self.requests.send(request).map_err(|_| Error::Ended("it was ended".to_owned()))
            }
            Ok(_) | Err(Malformed) => Err(Error::Malformed("a request to append entries")),
        }
    }

    /// Gives the reply to the first request that has none yet; nothing behind one that refuses what it was asked, and
    /// when the consensus has ended.
    pub(crate) fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.replies.poll_next_unpin(context).map(|reply| {
            self.open -= 1;
            Some(encode_streamed(&reply?.ok()?))
        })
    }
}
