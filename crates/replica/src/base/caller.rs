//! Requests to other members, as the runtime sends them.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::config::Member;
use super::frames::Frames;
use super::pipe::Pipe;
use super::transport::Transport;

/// A reply that is waited for.
pub(crate) type Reply = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>> + Send>>;

/// A connection that is opened.
pub(crate) type Opened = Pin<Box<dyn Future<Output = io::Result<Box<dyn Pipe>>> + Send>>;

/// Sends requests to other members.
pub(crate) trait Caller: Send + Sync + Debug + 'static {
    /// Sends a request, and gives the reply as [`Transport::call`] does.
    fn call(&self, member: &Member, request: Vec<u8>, timeout: Duration) -> Reply;

    /// Opens a connection for messages in both directions.
    fn open(&self, member: &Member, timeout: Duration) -> Opened;
}

/// Calls a transport in threads of the runtime that may block.
#[derive(Debug)]
pub(crate) struct BlockingCaller(pub(crate) Arc<dyn Transport>);

impl Caller for BlockingCaller {
    fn call(&self, member: &Member, request: Vec<u8>, timeout: Duration) -> Reply {
        let (transport, member) = (Arc::clone(&self.0), member.clone());
        let called = tokio::task::spawn_blocking(move || transport.call(&member, request, timeout));
        Box::pin(async move { called.await.map_err(io::Error::other)? })
    }

    fn open(&self, member: &Member, timeout: Duration) -> Opened {
        let (transport, member) = (Arc::clone(&self.0), member.clone());
        let opened = tokio::task::spawn_blocking(move || transport.open(&member, timeout));
        Box::pin(async move {
            let stream = opened.await.map_err(io::Error::other)??;
            Ok(Box::new(Frames::new(stream)?) as Box<dyn Pipe>)
        })
    }
}
