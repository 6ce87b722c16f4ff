//! The bytes of a connection, as they come from a socket.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::state::transport::Transport;

/// A connection's bytes.
#[derive(Debug)]
pub enum Channel {
    /// As the socket has them.
    Plain(Arc<Transport>),
}

impl Channel {
    /// How long a read waits.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Plain(transport) => transport.set_read_timeout(time),
        }
    }
}

impl Read for Channel {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(transport) => (&mut &**transport).read(to),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(transport) => (&mut &**transport).write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(transport) => (&mut &**transport).write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
        }
    }
}
