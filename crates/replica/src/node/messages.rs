//! Messages between members: whom they are for, and what answers them.
//!
//! # Format
//! The identity of the copy of the log that is meant, 8 bytes, 0 for any; then the request, whose first byte says
//! whether it is one of the consensus.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use spinney::base::codec::Decoder;

use super::core::Core;
use crate::base::error::{Error, Result};
use crate::base::pipe::Pipe;
use crate::entry::hello::{Hello, Program};
use crate::raft::appends::Appends;
use crate::raft::consensus::Consensus;

/// A member is asked what it is.
pub(crate) const HELLO: u8 = 16;

/// A step of a copy of the database.
pub(crate) const COPY: u8 = 17;

/// A member whose data disagrees with the log asks for a copy.
pub(crate) const RESYNC: u8 = 18;

/// A member tells another one that it takes it for a member of its set.
pub(crate) const INTRODUCE: u8 = 19;

/// How many requests of a connection may wait for their replies.
const REQUESTS_MAX: usize = 64;

/// A request that is not one of the consensus, for whoever is at an address.
pub(crate) fn control(kind: u8, fields: &[u8]) -> Vec<u8> {
    addressed(0, kind, fields)
}

/// A request for a copy of the log.
pub(crate) fn addressed(identity: u64, kind: u8, fields: &[u8]) -> Vec<u8> {
    let mut message = identity.to_le_bytes().to_vec();
    message.push(kind);
    message.extend_from_slice(fields);
    message
}

impl Core {
    /// Answers a message of another member.
    pub(crate) async fn handle(self: &Arc<Self>, message: &[u8]) -> Result<Vec<u8>> {
        let mut input = Decoder::new(message);
        let meant = input.u64().map_err(|_| Error::Malformed("a message without a receiver"))?;
        let request = input.rest();
        let is_hello = request.first() == Some(&HELLO);
        if self.membership.is_excluded() && !is_hello {
            return Err(Error::Ended("this member takes no part in its set any more".to_owned()));
        }
        if Consensus::is_request(request) {
            if meant != self.identity {
                return Err(Error::Malformed("a message for another copy of the log"));
            }
            if Consensus::is_ballot(request) && self.membership.owes(self.log.ends().1.map(|last| last.index)) {
                return Err(Error::Ended("this member has lost entries that it had acknowledged".to_owned()));
            }
            if Consensus::is_append(request) {
                self.hear();
            }
            return self.consensus()?.handle(request).await;
        }
        match request.split_first() {
            Some((&HELLO, [])) => Ok(self.hello().encode()),
            Some((&INTRODUCE, introduction)) => self.answer_introduction(introduction),
            Some((&COPY, step)) if meant == self.identity => self.take_copy_step(step).await,
            Some((&RESYNC, request)) if meant == self.identity => self.answer_resync(request),
            _ => Err(Error::Malformed("an unknown request")),
        }
    }

    /// Answers the requests with entries that come by a connection, until it ends.
    ///
    /// # Errors
    /// `Malformed`; `Ended`, also when the connection fails.
    pub(crate) async fn serve(&self, mut pipe: Box<dyn Pipe>) -> Result<()> {
        if self.membership.is_excluded() {
            return Err(Error::Ended("this member takes no part in its set any more".to_owned()));
        }
        let mut appends = self.consensus()?.appends();
        poll_fn(|context| self.poll_serve(&mut *pipe, &mut appends, context)).await
    }

    fn poll_serve(&self, pipe: &mut dyn Pipe, appends: &mut Appends, context: &mut Context<'_>) -> Poll<Result<()>> {
        let failed = |error: io::Error| Error::Ended(format!("the connection failed: {error}"));
        loop {
            while appends.open() > 0
                && let Poll::Ready(reply) = appends.poll_reply(context)
            {
                let Some(reply) = reply else { return Poll::Ready(Ok(())) };
                pipe.send(&mut |out| out.extend_from_slice(&reply)).map_err(failed)?;
            }
            if appends.open() >= REQUESTS_MAX {
                return Poll::Pending;
            }
            let message = ready!(pipe.poll_receive(context)).map_err(failed)?;
            let mut input = Decoder::new(&message);
            if input.u64().ok() != Some(self.identity) {
                return Poll::Ready(Err(Error::Malformed("a message for another copy of the log")));
            }
            self.hear();
            appends.push(input.rest())?;
        }
    }

    fn hello(&self) -> Hello {
        Hello {
            program: Program::this(),
            identity: self.identity,
            initiated: self.config().is_some() || self.log.ends().1.is_some(),
            has_data: self.has_data(),
            copied: self.membership.copied().is_some(),
            applied: self.applier.applied().borrow().map(|at| at.index),
            set_name: self.settings.set_name.clone(),
            set_id: self.config().map(|config| config.set_id).or_else(|| self.membership.copied()).unwrap_or_default(),
            process: self.membership.process(),
        }
    }
}
