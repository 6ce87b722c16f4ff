//! Messages on a connection between members, read and written by the thread of the runtime.
//!
//! # Format
//! The length of a message, 4 bytes, then its bytes.

use std::io::{self, ErrorKind};
use std::task::{Context, Poll, ready};

use spinney::base::num::{u32_of, usize_of};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::pipe::Pipe;
use super::transport::Stream;

/// The longest message: as [`Transport::call`](super::transport::Transport::call) has it.
const MESSAGE_BYTES_MAX: usize = 48 << 20;

/// Bytes that one read asks for.
const READ_BYTES: usize = 64 << 10;

/// Buffers of more bytes are given back when they are empty.
const KEPT_BYTES: usize = 1 << 20;

/// A connection that carries messages.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Tells when the socket can be read and written.
    socket: TcpStream,
    stream: Box<dyn Stream>,
    chunk: Box<[u8]>,
    /// What came; the bytes up to `taken` were given out.
    input: Vec<u8>,
    taken: usize,
    /// What is to be written; the bytes up to `written` are.
    output: Vec<u8>,
    written: usize,
    /// Whether the stream may hold bytes that the socket has not taken.
    unflushed: bool,
}

impl Frames {
    /// Messages on a stream. Called in the runtime.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(stream: Box<dyn Stream>) -> io::Result<Self> {
        let socket = stream.socket()?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: TcpStream::from_std(socket)?,
            stream,
            chunk: vec![0; READ_BYTES].into(),
            input: Vec::new(),
            taken: 0,
            output: Vec::new(),
            written: 0,
            unflushed: false,
        })
    }

    fn is_written(&self) -> bool {
        self.written == self.output.len() && !self.unflushed
    }

    /// Writes what the socket takes without waiting.
    fn write(&mut self) -> io::Result<()> {
        while !self.is_written() {
            let (stream, left) = (&mut self.stream, &self.output[self.written..]);
            let flushes = left.is_empty();
            let step = || match if flushes { 0 } else { stream.write(left)? } {
                // Also a stream that encrypts, and takes no more bytes before that.
                0 => stream.flush().map(|()| 0),
                count => Ok(count),
            };
            match self.socket.try_io(Interest::WRITABLE, step) {
                Ok(count) => {
                    self.unflushed = !flushes;
                    self.written += count;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.output.shrink_to(KEPT_BYTES);
        self.written = 0;
        Ok(())
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_written() {
            ready!(self.socket.poll_write_ready(context))?;
            match self.write() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// A message that is there as a whole.
    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let there = &self.input[self.taken..];
        let Some((len, rest)) = there.split_first_chunk() else { return Ok(None) };
        let len = usize_of(u64::from(u32::from_le_bytes(*len)));
        if len > MESSAGE_BYTES_MAX {
            let what = format!("a message of a member promises {len} bytes");
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        let Some(message) = rest.get(..len) else { return Ok(None) };
        let message = message.to_vec();
        self.taken += 4 + len;
        if self.taken == self.input.len() {
            self.input.clear();
            self.input.shrink_to(KEPT_BYTES);
            self.taken = 0;
        }
        Ok(Some(message))
    }

    /// Reads what is there without waiting.
    fn read(&mut self) -> io::Result<()> {
        let (stream, chunk) = (&mut self.stream, &mut self.chunk);
        let count = self.socket.try_io(Interest::READABLE, || stream.read(chunk))?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.input.drain(..self.taken);
        self.taken = 0;
        self.input.extend_from_slice(&self.chunk[..count]);
        Ok(())
    }
}

impl Pipe for Frames {
    fn send(&mut self, encode: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<()> {
        let at = self.output.len();
        self.output.extend_from_slice(&[0; 4]);
        encode(&mut self.output);
        let len = self.output.len() - at - 4;
        if len > MESSAGE_BYTES_MAX {
            let what = format!("a message of {len} bytes to a member is too long");
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        self.output[at..at + 4].copy_from_slice(&u32_of(len).to_le_bytes());
        match self.write() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            written => written,
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.output.len() - self.written
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        if let Poll::Ready(Err(error)) = self.poll_write(context) {
            return Poll::Ready(Err(error));
        }
        loop {
            if let Some(message) = self.take()? {
                return Poll::Ready(Ok(message));
            }
            ready!(self.socket.poll_read_ready(context))?;
            match self.read() {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn messages_come_whole_and_in_order_and_a_length_that_lies_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let mut liar = one.try_clone().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async move {
            let (mut one, mut other) = (Frames::new(Box::new(one)).unwrap(), Frames::new(Box::new(other)).unwrap());
            // More than the socket takes at once.
            let lens = [0, 1, 100_000, 20 << 20, 3];
            for len in lens {
                one.send(&mut |out| out.extend(std::iter::repeat_n(7, len))).unwrap();
            }
            for len in lens {
                let message = poll_fn(|context| {
                    assert!(one.poll_receive(context).is_pending());
                    other.poll_receive(context)
                });
                assert!(message.await.unwrap() == vec![7; len]);
            }
            assert!(one.is_written() && one.output.capacity() <= KEPT_BYTES);
            liar.write_all(&u32::MAX.to_le_bytes()).unwrap();
            assert_eq!(
                poll_fn(|context| other.poll_receive(context)).await.unwrap_err().kind(),
                ErrorKind::InvalidData
            );
        });
    }
}
