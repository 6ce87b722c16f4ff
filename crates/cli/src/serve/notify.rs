//! Tells the service manager of the system how the server is, as `sd_notify` does: a datagram to the socket that
//! `NOTIFY_SOCKET` names.

use anyhow::{Context as _, Result};
use std::ffi::OsString;

/// Where the service manager listens; nothing when there is none.
#[derive(Debug)]
pub(super) struct Notify(Option<OsString>);

impl Notify {
    /// The service manager that started the process.
    pub(super) fn of_process() -> Self {
        Self(std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()))
    }

    /// The server takes connections.
    pub(super) fn ready(&self, status: &str) -> Result<()> {
        self.send(&format!("READY=1\nSTATUS={status}"))
    }

    /// The server ends.
    pub(super) fn stopping(&self) -> Result<()> {
        self.send("STOPPING=1\nSTATUS=ending")
    }

    fn send(&self, message: &str) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(path) => send(path, message).with_context(|| format!("cannot notify {}", path.to_string_lossy())),
        }
    }
}

#[cfg(target_os = "linux")]
fn send(path: &OsString, message: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let socket = UnixDatagram::unbound()?;
    // A name that begins with an at sign is not of a file.
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(not(target_os = "linux"))]
fn send(_path: &OsString, _message: &str) -> std::io::Result<()> {
    Err(std::io::Error::other("there are service managers of this kind on Linux only"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn the_manager_is_told_by_one_datagram() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notify = Notify(Some(path.into()));
        notify.ready("listening").unwrap();
        let mut bytes = [0; 100];
        let len = manager.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"READY=1\nSTATUS=listening");
        notify.stopping().unwrap();
        let len = manager.recv(&mut bytes).unwrap();
        assert!(bytes[..len].starts_with(b"STOPPING=1\n"));
        assert!(Notify(Some("/none/there".into())).stopping().is_err());
        Notify(None).stopping().unwrap();
    }
}
