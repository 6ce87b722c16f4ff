//! The connection by which a primary sends entries to one member: requests go one behind the other, and the next does
//! not wait for the reply to the one before.
//!
//! A request that has no entries tells no more than how far the log is committed. It waits a moment for one that has,
//! which tells the same.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use openraft::raft::{AppendEntriesRequest, StreamAppendResult};
use spinney::base::codec::Malformed;
use tokio::time::{Instant, Sleep, sleep_until};

use super::types::Types;
use super::wire::{Request, decode_streamed};
use crate::base::pipe::Pipe;

/// How many requests may wait for their replies.
const REQUESTS_MAX: usize = 32;

/// No more requests are sent while so many bytes wait to be written.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// How long what is committed waits for entries that are sent with it.
const COMMIT_WAITS: Duration = Duration::from_millis(1);

/// A connection to a member, and when the requests were sent that have no reply yet.
#[derive(Debug)]
pub(super) struct Line {
    pipe: Box<dyn Pipe>,
    target: u64,
    sent: VecDeque<Instant>,
}

/// Sends the requests of a stream by a line.
pub(super) struct Sending<S> {
    requests: S,
    /// Whether no more requests come.
    ended: bool,
    /// A request without entries, and until when it waits.
    held: Option<AppendEntriesRequest<Types>>,
    held_until: Pin<Box<Sleep>>,
    /// When it is looked whether a reply is late.
    look_at: Pin<Box<Sleep>>,
    late_after: Duration,
}

impl Line {
    pub(super) fn new(pipe: Box<dyn Pipe>, target: u64) -> Self {
        Self { pipe, target, sent: VecDeque::new() }
    }

    /// Whether all requests have replies.
    pub(super) fn is_idle(&self) -> bool {
        self.sent.is_empty()
    }

    fn send(&mut self, request: AppendEntriesRequest<Types>) -> io::Result<()> {
        let (target, request) = (self.target, Request::Append(request));
        self.sent.push_back(Instant::now());
        self.pipe.send(&mut |out| {
            // Another copy of the log may be at the member's address: it must know whether it is meant.
            out.extend_from_slice(&target.to_le_bytes());
            request.encode(out);
        })
    }
}

impl<S: Stream<Item = AppendEntriesRequest<Types>> + Unpin> Sending<S> {
    /// A member may take `late_after` for a reply.
    pub(super) fn new(requests: S, late_after: Duration) -> Self {
        let now = Instant::now();
        let [held_until, look_at] = [now, now + late_after].map(|at| Box::pin(sleep_until(at)));
        Self { requests, ended: false, held: None, held_until, look_at, late_after }
    }

    /// Sends requests until there is a reply; nothing when all have one and no more come.
    ///
    /// # Errors
    /// When the connection fails; `TimedOut` when a reply is late; `InvalidData` when it makes no sense.
    pub(super) async fn next(&mut self, line: &mut Line) -> Option<io::Result<StreamAppendResult<Types>>> {
        poll_fn(|context| self.poll_next(line, context).map(Result::transpose)).await
    }

    fn poll_next(
        &mut self,
        line: &mut Line,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<StreamAppendResult<Types>>>> {
        self.send_requests(line, context)?;
        if !line.is_idle()
            && let Poll::Ready(reply) = line.pipe.poll_receive(context)
        {
            line.sent.pop_front();
            let senseless = |Malformed| io::Error::new(ErrorKind::InvalidData, "a reply of a member makes no sense");
            return Poll::Ready(decode_streamed(&reply?).map(Some).map_err(senseless));
        }
        if self.ended && line.is_idle() {
            return Poll::Ready(Ok(None));
        }
        while self.look_at.as_mut().poll(context).is_ready() {
            let oldest = line.sent.front().copied().unwrap_or_else(Instant::now);
            if oldest.elapsed() >= self.late_after {
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
            self.look_at.as_mut().reset(oldest + self.late_after);
        }
        Poll::Pending
    }

    /// Sends the requests that there are.
    fn send_requests(&mut self, line: &mut Line, context: &mut Context<'_>) -> io::Result<()> {
        // What is full is looked at again when a reply has come.
        while !self.ended && line.sent.len() < REQUESTS_MAX && line.pipe.waiting_bytes() < WAITING_BYTES_MAX {
            match self.requests.poll_next_unpin(context) {
                Poll::Ready(Some(request)) if request.entries.is_empty() => {
                    self.held = Some(request);
                    self.held_until.as_mut().reset(Instant::now() + COMMIT_WAITS);
                }
                Poll::Ready(Some(request)) => {
                    self.held = None;
                    line.send(request)?;
                }
                Poll::Ready(None) => self.ended = true,
                Poll::Pending => break,
            }
        }
        if self.held.is_some()
            && (self.ended || self.held_until.as_mut().poll(context).is_ready())
            && let Some(request) = self.held.take()
        {
            line.send(request)?;
        }
        Ok(())
    }
}
