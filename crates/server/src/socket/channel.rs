//! The bytes of a connection, as they come from a socket or through TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use spinney_document::base::interrupt::Caller;

use crate::auth::x509;
use crate::socket::transport::Transport;

/// How long the other side may take to agree on a key.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// A connection's bytes.
#[derive(Debug)]
pub enum Channel {
    /// As the socket has them.
    Plain(Arc<Transport>),
    /// Encrypted, of a client.
    Tls(Box<StreamOwned<ServerConnection, Shared>>),
    /// Encrypted, to a server.
    TlsToServer(Box<StreamOwned<ClientConnection, Shared>>),
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

    /// Agrees with a server on a key, and checks that its certificate is of `name`.
    ///
    /// # Errors
    /// When the server speaks no TLS, takes too long or has another certificate; what the system says.
    pub fn secured_to(
        transport: Arc<Transport>,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        transport.set_read_timeout(Some(HANDSHAKE))?;
        let mut shared = Shared(transport);
        while connection.is_handshaking() {
            connection.complete_io(&mut shared)?;
        }
        shared.0.set_read_timeout(None)?;
        Ok(Self::TlsToServer(Box::new(StreamOwned::new(connection, shared))))
    }

    /// The subject of the certificate that the client has proved to have.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        match self {
            Self::Plain(_) | Self::TlsToServer(_) => None,
            Self::Tls(stream) => stream.conn.peer_certificates()?.first().and_then(|first| x509::subject(first)),
        }
    }

    /// How long a read waits.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.transport().set_read_timeout(time)
    }

    /// How long a write waits.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.transport().set_write_timeout(time)
    }

    /// Whether the other side has closed the connection: see [`Transport::is_closed`].
    pub fn is_closed(&self) -> bool {
        self.transport().is_closed()
    }

    /// Who waits for replies at the other side.
    pub fn caller(&self) -> Arc<dyn Caller> {
        Arc::clone(self.transport()) as _
    }

    fn transport(&self) -> &Arc<Transport> {
        match self {
            Self::Plain(transport) => transport,
            Self::Tls(stream) => &stream.sock.0,
            Self::TlsToServer(stream) => &stream.sock.0,
        }
    }
}

impl spinney_replica::Stream for Channel {
    fn socket(&self) -> io::Result<TcpStream> {
        match &**self.transport() {
            Transport::Tcp(stream) => stream.try_clone(),
            #[cfg(unix)]
            Transport::Unix(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "members connect by TCP")),
        }
    }
}

/// What a read of an encrypted stream gave: a peer that hangs up without saying so has ended all the same, as messages
/// have their length.
fn ended(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
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
            Self::Tls(stream) => ended(stream.read(to)),
            Self::TlsToServer(stream) => ended(stream.read(to)),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(transport) => (&mut &**transport).write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::TlsToServer(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(transport) => (&mut &**transport).write_vectored(parts),
            Self::Tls(stream) => stream.write_vectored(parts),
            Self::TlsToServer(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
            Self::TlsToServer(stream) => stream.flush(),
        }
    }
}
