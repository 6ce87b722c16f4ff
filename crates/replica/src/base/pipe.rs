//! A connection that carries messages, as the runtime uses it.

use std::fmt::Debug;
use std::io;
use std::task::{Context, Poll};

/// A connection that carries messages in their order. It cannot be used any more after an error.
pub(crate) trait Pipe: Send + Sync + Debug {
    /// Sends a message of the bytes that `encode` appends.
    ///
    /// # Errors
    /// When the connection failed.
    fn send(&mut self, encode: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<()>;

    /// Bytes that were sent and the connection has not taken yet.
    fn waiting_bytes(&self) -> usize;

    /// Gives the next message of the other side, and goes on to write what the connection has not taken yet.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>>;
}
