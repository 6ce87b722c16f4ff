//! The bytes of a connection, as they come from a socket or through TLS.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::auth::x509;
use crate::state::transport::Transport;

/// How long a client may take to agree on a key.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// A connection's bytes.
#[derive(Debug)]
pub enum Channel {
    /// As the socket has them.
    Plain(Arc<Transport>),
    /// Encrypted.
    Tls(Box<StreamOwned<ServerConnection, Shared>>),
}

/// A socket that another thread may close.
#[derive(Debug)]
pub struct Shared(Arc<Transport>);

impl Channel {
    /// Agrees with the client on a key.
    ///
    /// # Errors
    /// When the client speaks no TLS, takes too long or has no certificate that it should have; what the system says.
    pub fn secured(transport: Arc<Transport>, config: Arc<ServerConfig>) -> io::Result<Self> {
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        transport.set_read_timeout(Some(HANDSHAKE))?;
        let mut shared = Shared(transport);
        while connection.is_handshaking() {
            connection.complete_io(&mut shared)?;
        }
        shared.0.set_read_timeout(None)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(connection, shared))))
    }

    /// The subject of the certificate that the client has proved to have.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.conn.peer_certificates()?.first().and_then(|first| x509::subject(first)),
        }
    }

    /// How long a read waits.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Plain(transport) => transport.set_read_timeout(time),
            Self::Tls(stream) => stream.sock.0.set_read_timeout(time),
        }
    }
}

impl Read for Shared {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (&mut &*self.0).read(to)
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&mut &*self.0).write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&mut &*self.0).write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Channel {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(transport) => (&mut &**transport).read(to),
            Self::Tls(stream) => match stream.read(to) {
                // A client that hangs up without saying so has ended all the same: messages have their length.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(transport) => (&mut &**transport).write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(transport) => (&mut &**transport).write_vectored(parts),
            Self::Tls(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
