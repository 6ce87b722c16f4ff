//! The bytes of a connection, as they come from a socket or through TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::DerefMut;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ConnectionCommon, ServerConfig, ServerConnection, StreamOwned};
use spinney_document::base::interrupt::Caller;

use crate::auth::x509;
use crate::base::clock::monotonic;
use crate::socket::transport::Transport;

/// How long the other side may take to agree on a key, from the first byte to the last.
const HANDSHAKE: Duration = Duration::from_secs(10);

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
        let mut shared = Shared(transport);
        shake_hands(&mut connection, &mut shared).map_err(of_client)?;
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
        let mut shared = Shared(transport);
        shake_hands(&mut connection, &mut shared)?;
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

/// Agrees on a key within [`HANDSHAKE`]: each read waits for what is left of it, so that a peer that sends a byte now
/// and then does not stay.
fn shake_hands<Data>(
    connection: &mut impl DerefMut<Target = ConnectionCommon<Data>>,
    shared: &mut Shared,
) -> io::Result<()> {
    let until = monotonic() + HANDSHAKE;
    while connection.is_handshaking() {
        while connection.wants_write() {
            connection.write_tls(shared)?;
        }
        if !connection.is_handshaking() {
            break;
        }
        let left = until.saturating_duration_since(monotonic());
        if left.is_zero() {
            return Err(too_slow());
        }
        shared.0.set_read_timeout(Some(left))?;
        match connection.read_tls(shared) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(too_slow());
            }
            Err(error) => return Err(error),
        }
        if let Err(error) = connection.process_new_packets() {
            // The peer gets the alert, if it still listens.
            drop(connection.write_tls(shared));
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
    }
    while connection.wants_write() {
        connection.write_tls(shared)?;
    }
    shared.0.set_read_timeout(None)
}

fn too_slow() -> io::Error {
    let what = format!("the TLS handshake took longer than {} s", HANDSHAKE.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, what)
}

/// Why no key was agreed on with a client, in words for an operator.
fn of_client(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let what = match inner {
        Some(rustls::Error::InvalidMessage(_)) => "the client does not speak TLS: it must connect with tls=true",
        Some(rustls::Error::NoCertificatesPresented) => "the client has shown no certificate, which --tls-ca asks for",
        _ => return error,
    };
    io::Error::new(error.kind(), what)
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
