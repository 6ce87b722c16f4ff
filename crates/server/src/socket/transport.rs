//! A socket: TCP, or Unix where there is such.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spinney_document::base::interrupt::Caller;

/// A connected socket. Shared: one thread reads and writes, another may close its reading side.
#[derive(Debug)]
pub enum Transport {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix domain socket.
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Transport {
    /// Lets reads end as if the client had closed the connection; what is being written is not hurt.
    pub fn close_reading(&self) {
        // A socket that is closed already is what was wanted.
        drop(match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Read),
            #[cfg(unix)]
            Self::Unix(stream) => stream.shutdown(Shutdown::Read),
        });
    }

    /// Ends reads and writes.
    pub fn close(&self) {
        // As above.
        drop(match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            #[cfg(unix)]
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        });
    }

    /// Whether the other side has closed the connection, as far as is known here. Only while nobody reads or writes.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Tcp(stream) => {
                let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
                let is_open = match peeked {
                    Ok(bytes) => bytes > 0,
                    Err(error) => error.kind() == io::ErrorKind::WouldBlock,
                };
                stream.set_nonblocking(false).is_err() || !is_open
            }
            // A read will tell.
            #[cfg(unix)]
            Self::Unix(_) => false,
        }
    }

    /// How long a read waits.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(time),
            #[cfg(unix)]
            Self::Unix(stream) => stream.set_read_timeout(time),
        }
    }

    /// How long a write waits for a client that does not read.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(time),
            #[cfg(unix)]
            Self::Unix(stream) => stream.set_write_timeout(time),
        }
    }
}

impl Caller for Transport {
    #[cfg(unix)]
    fn has_left(&self) -> bool {
        // The end of what the client sends, also behind bytes that nobody has read.
        #[cfg(target_os = "linux")]
        let end = PollFlags::RDHUP;
        #[cfg(not(target_os = "linux"))]
        let end = PollFlags::empty();
        let mut polled = match self {
            Self::Tcp(stream) => [PollFd::new(stream, end)],
            Self::Unix(stream) => [PollFd::new(stream, end)],
        };
        let at_once = Timespec::default();
        poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    #[cfg(not(unix))]
    fn has_left(&self) -> bool {
        self.is_closed()
    }
}

impl Read for &Transport {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Tcp(stream) => (&mut &*stream).read(to),
            #[cfg(unix)]
            Transport::Unix(stream) => (&mut &*stream).read(to),
        }
    }
}

impl Write for &Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Tcp(stream) => (&mut &*stream).write(bytes),
            #[cfg(unix)]
            Transport::Unix(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Transport::Tcp(stream) => (&mut &*stream).write_vectored(parts),
            #[cfg(unix)]
            Transport::Unix(stream) => (&mut &*stream).write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
