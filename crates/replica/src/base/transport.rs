//! How a node's requests reach the other members.

use std::fmt::Debug;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use super::config::Member;

/// Carries requests to other members. Blocking: the node calls it from threads of its own.
pub trait Transport: Send + Sync + Debug + 'static {
    /// Sends `request` to a member, whose server hands it to [`Node::handle`](crate::Node::handle), and returns what
    /// that answered. A connection is kept for the next call. The bytes are opaque; a request is at most 48 MiB.
    ///
    /// # Errors
    /// `TimedOut` when there is no reply within `timeout`; any other kind when the member cannot be reached or does not
    /// know this one. The request may have been handled or not.
    fn call(&self, member: &Member, request: Vec<u8>, timeout: Duration) -> io::Result<Vec<u8>>;

    /// Opens a connection to a member, whose server hands its side to [`Node::serve`](crate::Node::serve). Entries go
    /// by it, one request behind the other.
    ///
    /// # Errors
    /// As [`Self::call`].
    fn open(&self, member: &Member, timeout: Duration) -> io::Result<Box<dyn Stream>>;
}

/// The bytes of a connection between two members, in both directions. The node makes the socket non-blocking: reads and
/// writes give `WouldBlock` then, and a flush hands on what a write has taken and the socket has not.
pub trait Stream: io::Read + io::Write + Send + Sync + Debug + 'static {
    /// Another handle of the socket that carries the bytes, for waiting until it can be read or written.
    ///
    /// # Errors
    /// What the system says; `Unsupported` when there is no such socket.
    fn socket(&self) -> io::Result<TcpStream>;
}

/// A connection without encryption.
impl Stream for TcpStream {
    fn socket(&self) -> io::Result<TcpStream> {
        self.try_clone()
    }
}
