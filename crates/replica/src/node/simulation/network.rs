//! The network between the simulated machines: messages are late and lost, links are cut by direction.

use std::io;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};

use super::world::World;
use crate::base::caller::{Caller, Opened, Reply};
use crate::base::config::Member;
use crate::base::pipe::Pipe;

/// The network as a member sees it.
pub(super) struct Link {
    pub(super) world: Weak<World>,
    pub(super) from: usize,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("from", &self.from).finish_non_exhaustive()
    }
}

impl Caller for Link {
    fn call(&self, member: &Member, request: Vec<u8>, timeout: Duration) -> Reply {
        let (world, from, bytes) = (self.world.clone(), self.from, request.len());
        let to = usize::try_from(member.id).unwrap_or(usize::MAX);
        Box::pin(async move {
            let begun = Instant::now();
            let late = || io::Error::from(io::ErrorKind::TimedOut);
            let pass = async |world: &Arc<World>, from: usize, to: usize| {
                let slow = world.below(50) == 0;
                sleep(world.millis(if slow { 400 } else { 8 })).await;
                let lost = world.below(1000) < world.state.lock().lost || bytes > world.state.lock().bytes_max;
                if lost || !world.reaches(from, to) || begun.elapsed() > timeout {
                    sleep(timeout.saturating_sub(begun.elapsed())).await;
                    return Err(late());
                }
                Ok(())
            };
            let world = world.upgrade().ok_or_else(late)?;
            pass(&world, from, to).await?;
            let member = world.member(to).ok_or(io::ErrorKind::ConnectionRefused)?;
            let reply = member.core.handle(&request).await.map_err(|error| io::Error::other(error.to_string()))?;
            pass(&world, to, from).await?;
            Ok(reply)
        })
    }

    fn open(&self, member: &Member, timeout: Duration) -> Opened {
        let (world, from) = (self.world.clone(), self.from);
        let to = usize::try_from(member.id).unwrap_or(usize::MAX);
        Box::pin(async move {
            let known = world.upgrade().ok_or(io::ErrorKind::TimedOut)?;
            sleep(known.millis(8)).await;
            if !known.reaches(from, to) || !known.reaches(to, from) {
                sleep(timeout).await;
                return Err(io::ErrorKind::TimedOut.into());
            }
            let member = known.member(to).ok_or(io::ErrorKind::ConnectionRefused)?;
            let (requests, sent) = unbounded_channel();
            let (received, taken) = unbounded_channel();
            tokio::spawn(carry(world.clone(), (from, to), sent, received));
            let (replies, sent) = unbounded_channel();
            let (received, answers) = unbounded_channel();
            tokio::spawn(carry(world, (to, from), sent, received));
            let side = Box::new(Side { to: replies, from: taken });
            tokio::spawn(async move { drop(member.core.serve(side).await) });
            Ok(Box::new(Side { to: requests, from: answers }) as Box<dyn Pipe>)
        })
    }
}

/// A connection as one side sees it.
#[derive(Debug)]
struct Side {
    to: UnboundedSender<Vec<u8>>,
    from: UnboundedReceiver<Vec<u8>>,
}

impl Pipe for Side {
    fn send(&mut self, encode: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<()> {
        let mut message = Vec::new();
        encode(&mut message);
        self.to.send(message).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn waiting_bytes(&self) -> usize {
        0
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        self.from.poll_recv(context).map(|message| message.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }
}

/// Carries the messages of one direction of a connection in their order, until the connection breaks.
async fn carry(
    world: Weak<World>,
    (from, to): (usize, usize),
    mut sent: UnboundedReceiver<Vec<u8>>,
    received: UnboundedSender<Vec<u8>>,
) {
    while let Some(message) = sent.recv().await {
        let Some(world) = world.upgrade() else { return };
        let slow = world.below(50) == 0;
        sleep(world.millis(if slow { 400 } else { 8 })).await;
        if world.below(1000) < world.state.lock().lost {
            if world.below(2) == 0 {
                return;
            }
            // It is sent again.
            sleep(Duration::from_millis(200)).await;
        }
        if message.len() > world.state.lock().bytes_max {
            sleep(world.millis(2000)).await;
            return;
        }
        // It is sent again until it arrives, or one side gives up.
        let patience = world.millis(4000);
        let begun = Instant::now();
        while !world.reaches(from, to) {
            if begun.elapsed() > patience {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        if received.send(message).is_err() {
            return;
        }
    }
}
