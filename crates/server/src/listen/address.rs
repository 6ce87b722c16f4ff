//! Where a server listens.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use super::tls::Tls;
use crate::socket::transport::Transport;

/// A socket that is listened on.
#[derive(Debug)]
pub enum Listening {
    /// TCP, encrypted or not.
    Tcp(TcpListener, Option<Tls>),
    /// A Unix domain socket at a path, which is removed at the end.
    #[cfg(unix)]
    Unix(UnixListener, PathBuf),
}

impl Listening {
    /// Listens on an address such as `127.0.0.1:27017`; with port 0 the system chooses one.
    ///
    /// # Errors
    /// What the system says.
    pub fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        TcpListener::bind(address).map(|listener| Self::Tcp(listener, None))
    }

    /// Listens on a Unix domain socket. A socket that nobody listens on is replaced.
    ///
    /// # Errors
    /// What the system says; `AddrInUse` when another process listens there or the path is no socket.
    #[cfg(unix)]
    pub fn unix(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt as _;
        let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
            fs::remove_file(path)?;
        }
        Ok(Self::Unix(UnixListener::bind(path)?, path.to_owned()))
    }

    /// Listens on an address for connections that are encrypted.
    ///
    /// # Errors
    /// What the system says.
    pub fn tcp_with_tls(address: impl ToSocketAddrs, tls: Tls) -> io::Result<Self> {
        TcpListener::bind(address).map(|listener| Self::Tcp(listener, Some(tls)))
    }

    /// How connections are encrypted, if they are.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        match self {
            Self::Tcp(_, tls) => tls.as_ref(),
            #[cfg(unix)]
            Self::Unix(..) => None,
        }
    }

    /// Whether other machines can reach it.
    pub(crate) fn is_public(&self) -> bool {
        match self {
            Self::Tcp(listener, _) => listener.local_addr().is_ok_and(|at| !at.ip().to_canonical().is_loopback()),
            #[cfg(unix)]
            Self::Unix(..) => false,
        }
    }

    /// Waits for a connection: its socket, the client's address, and whether it is of this machine.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn accept(&self) -> io::Result<(Arc<Transport>, String, bool)> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, address) = listener.accept()?;
                // A reply is written in one call; it must not wait for more.
                stream.set_nodelay(true)?;
                let local = address.ip().to_canonical().is_loopback();
                Ok((Arc::new(Transport::Tcp(stream)), address.to_string(), local))
            }
            #[cfg(unix)]
            Self::Unix(listener, path) => {
                let (stream, _) = listener.accept()?;
                Ok((Arc::new(Transport::Unix(stream)), format!("{}:27017", path.display()), true))
            }
        }
    }

    /// Connects to it and hangs up, so that [`Self::accept`] returns.
    pub(crate) fn wake(&self) {
        match self {
            Self::Tcp(listener, _) => {
                if let Ok(address) = listener.local_addr() {
                    wake(address);
                }
            }
            #[cfg(unix)]
            Self::Unix(_, path) => drop(std::os::unix::net::UnixStream::connect(path)),
        }
    }

    /// The address as clients write it: `127.0.0.1:27017`, or the path of a socket.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::Tcp(listener, _) => listener.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string()),
            #[cfg(unix)]
            Self::Unix(_, path) => path.display().to_string(),
        }
    }

    /// The connection string of clients.
    #[must_use]
    pub fn connection_string(&self) -> String {
        match self {
            Self::Tcp(listener, tls) => {
                let at = match listener.local_addr() {
                    Ok(at) if at.ip().is_unspecified() => format!("mongodb://localhost:{}", at.port()),
                    _ => format!("mongodb://{}", self.address()),
                };
                if tls.is_some() { at + "/?tls=true" } else { at }
            }
            #[cfg(unix)]
            Self::Unix(_, path) => {
                let plain = path.display().to_string();
                let escaped: String = plain
                    .bytes()
                    .map(|byte| match byte {
                        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                            char::from(byte).to_string()
                        }
                        _ => format!("%{byte:02X}"),
                    })
                    .collect();
                format!("mongodb://{escaped}")
            }
        }
    }
}

/// Connects to an address of this machine and hangs up.
pub(super) fn wake(mut address: SocketAddr) {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    drop(TcpStream::connect(address));
}

impl Drop for Listening {
    fn drop(&mut self) {
        match self {
            Self::Tcp(..) => {}
            #[cfg(unix)]
            Self::Unix(_, path) => drop(fs::remove_file(path)),
        }
    }
}
