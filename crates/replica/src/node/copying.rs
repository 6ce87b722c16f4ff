//! A copy of the primary's database for a member whose log ends before the primary's begins.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use spinney::base::codec::Malformed;
use spinney::base::num::{u64_of, usize_of};
use spinney_document::base::{Environment, System};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::core::Core;
use super::messages::{self, COPY, HELLO};
use super::receiving::{Receiving, wait_for};
use crate::base::blocking::spawn_blocking;
use crate::base::caller::Caller;
use crate::base::config::Member;
use crate::base::error::{Error, Result};
use crate::entry::copying::{CopiedFile, CopyStep};
use crate::entry::hello::Hello;
use crate::raft::network::{SendCopy, Sent};
use crate::storage::applier::Target;
use crate::storage::copies::Outgoing;
use crate::storage::rows::Rows;

/// Bytes of a file in one message: more would keep the thread of the consensus from commits for longer, fewer would
/// make the copy slower.
const PART_BYTES: u64 = 256 << 10;

/// How long a member may take for a step; the last one makes all files durable.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a member may take to open its new database.
const OPEN_TIMEOUT: Duration = Duration::from_secs(300);

/// How often it is asked whether it has.
const ASK_PERIOD: Duration = Duration::from_millis(200);

/// Sends copies of this node's database.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) rows: Rows,
    pub(crate) caller: Arc<dyn Caller>,
    pub(crate) database: Arc<dyn Target>,
}

impl SendCopy for Copies {
    fn send(&self, member: &Member, target: u64, term: u64) -> Sent {
        let (rows, database) = (self.rows.clone(), Arc::clone(&self.database));
        Box::pin(send_copy((rows, database), Arc::clone(&self.caller), member.clone(), target, term))
    }
}

/// Sends a copy of this node's database to a member, and waits until it has opened it.
///
/// # Errors
/// What the member answers, and `TimedOut`.
async fn send_copy(
    (rows, database): (Rows, Arc<dyn Target>),
    caller: Arc<dyn Caller>,
    member: Member,
    target: u64,
    term: u64,
) -> io::Result<()> {
    let copy = System.random();
    let applied =
        rows.applied().map_err(|error| io::Error::other(error.to_string()))?.ok_or(io::ErrorKind::NotFound)?;
    let made =
        spawn_blocking(move || Outgoing::make(rows.engine(), copy, |dir| database.checkpoint(rows.engine(), dir)));
    let outgoing = Arc::new(made.await.map_err(io::Error::other)??);
    let message = move |step: CopyStep| messages::addressed(target, COPY, &step.encode());
    let send = |message| caller.call(&member, message, STEP_TIMEOUT);
    send(message(CopyStep::Begin { copy, term, applied, files: outgoing.files.clone() })).await?;
    let parts = |(file, copied): (usize, &CopiedFile)| {
        let offsets = (0..copied.bytes).step_by(usize_of(PART_BYTES));
        offsets.map(move |offset| (file, offset))
    };
    // A part is read while the one before is on its way.
    let mut reading = None;
    for (file, offset) in outgoing.files.iter().enumerate().flat_map(parts) {
        let source = Arc::clone(&outgoing);
        let next = spawn_blocking(move || {
            let bytes = source.read(file, offset, PART_BYTES)?;
            Ok(message(CopyStep::Part { copy, file: u64_of(file), offset, bytes }))
        });
        if let Some(read) = reading.replace(next) {
            send(part_of(read).await?).await?;
        }
    }
    if let Some(read) = reading {
        send(part_of(read).await?).await?;
    }
    send(message(CopyStep::End { copy })).await?;
    let begun = Instant::now();
    while begun.elapsed() < OPEN_TIMEOUT {
        sleep(ASK_PERIOD).await;
        let asked = caller.call(&member, messages::control(HELLO, &[]), STEP_TIMEOUT).await;
        let hello = asked.ok().and_then(|reply| Hello::decode(&reply).ok());
        if hello.is_some_and(|hello| hello.identity == target && hello.applied >= Some(applied.index)) {
            return Ok(());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

async fn part_of(read: JoinHandle<io::Result<Vec<u8>>>) -> io::Result<Vec<u8>> {
    read.await.map_err(io::Error::other)?
}

impl Core {
    /// Takes a step of a copy that another member sends.
    pub(crate) async fn take_copy_step(self: &Arc<Self>, step: &[u8]) -> Result<Vec<u8>> {
        let step = CopyStep::decode(step).map_err(|Malformed| Error::Malformed("a part of a copy"))?;
        let refuse = |error: io::Error| Error::Ended(format!("a copy cannot be received: {error}"));
        {
            let mut intent = self.intent.lock();
            if intent.copy_received {
                return Err(Error::Ended("a copy is about to be opened".to_owned()));
            }
            intent.copy_heard = intent.copy_heard.map(|_| Instant::now());
        }
        match step {
            CopyStep::Begin { copy, term, applied, files } => {
                if term < self.consensus()?.view().term {
                    return Err(Error::Malformed("a copy from a primary of the past"));
                }
                let dir = self.applier.rows().engine().path().to_owned();
                let receiving = Receiving::begin(&dir, copy, applied, files).map_err(refuse)?;
                *self.incoming.lock() = Some(receiving);
            }
            CopyStep::Part { copy, file, offset, bytes } => {
                let synced = {
                    let mut receiving = self.incoming.lock();
                    let known = receiving.as_mut().filter(|receiving| receiving.copy() == copy);
                    let receiving = known.ok_or(Error::Malformed("a part of a copy that did not begin"))?;
                    receiving.write(file, offset, &bytes).map_err(refuse)?
                };
                wait_for(synced).await.map_err(refuse)?;
            }
            CopyStep::End { copy } => {
                let taken = self.incoming.lock().take().filter(|receiving| receiving.copy() == copy);
                let taken = taken.ok_or(Error::Malformed("the end of a copy that did not begin"))?;
                let Some((incoming, applied)) = taken.end().await.map_err(refuse)? else {
                    return Err(Error::Malformed("the end of a copy that lacks parts"));
                };
                // From here on nothing is acknowledged that the copy lacks.
                self.consensus()?.end().await;
                if self.log.ends().1 <= Some(applied) {
                    let vote = self.applier.rows().vote()?.unwrap_or_default();
                    incoming.complete(self.identity, &vote).map_err(refuse)?;
                }
                self.intent.lock().copy_received = true;
                self.refresh();
            }
        }
        Ok(Vec::new())
    }
}
