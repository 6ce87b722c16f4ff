//! The messages that come by a connection, cut from its bytes.
//!
//! # Invariants
//!
//! 1. A message's length sizes the buffer only as its bytes arrive: a client that promises much and sends little takes
//!    little.
//! 2. A connection that is idle holds a buffer of [`KEPT_BYTES`] at most.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

use spinney_document::Error;

use crate::socket::Channel;
use spinney_wire::{HEADER_BYTES, Header};

/// What an idle connection keeps.
pub const KEPT_BYTES: usize = 8 << 10;

/// How much the buffer grows for bytes that are promised but not there yet.
const AHEAD_BYTES: usize = 1 << 20;

/// How long a large buffer waits for the next request before it is given back.
const LARGE_KEPT_FOR: Duration = Duration::from_millis(500);

/// Why no message could be read.
#[derive(Debug)]
pub enum Broken {
    /// The connection failed.
    Io(io::Error),
    /// The bytes are no message.
    Protocol(Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The bytes that came and were not consumed yet.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    /// Where the bytes begin that were not consumed.
    start: usize,
    /// Where they end; the buffer may be longer.
    end: usize,
}

impl Frames {
    /// Waits for the next message: its header and its body; nothing when the client has closed the connection between
    /// two messages. The message before is consumed.
    ///
    /// # Errors
    /// When the connection fails or ends within a message, and when the header makes no sense or promises more than
    /// `bytes_max`.
    pub fn next(&mut self, channel: &mut Channel, bytes_max: usize) -> Result<Option<(Header, &[u8])>, Broken> {
        if !self.fill(channel, HEADER_BYTES)? {
            return Ok(None);
        }
        let head = self.buffer[self.start..].first_chunk().ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
        let header = Header::parse(head).map_err(Broken::Protocol)?;
        if header.len > bytes_max {
            let what = format!("a message of {} bytes is too long for now", header.len);
            return Err(Broken::Protocol(Error::new(spinney_document::ErrorCode::PROTOCOL_ERROR, what)));
        }
        if !self.fill(channel, header.len)? {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        let (from, to) = (self.start + HEADER_BYTES, self.start + header.len);
        self.start = to;
        Ok(Some((header, &self.buffer[from..to])))
    }

    /// Reads until `len` bytes are there; whether they are, or the client closed the connection before the first.
    fn fill(&mut self, channel: &mut Channel, len: usize) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.give_back_when_idle(channel)?;
        }
        while self.end - self.start < len {
            self.make_room(len);
            match channel.read(&mut self.buffer[self.end..]) {
                Ok(0) if self.end == self.start => return Ok(false),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Moves the bytes to the front and makes the buffer long enough for a read.
    fn make_room(&mut self, len: usize) {
        if self.start + len > self.buffer.len() && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let wanted = len.min(self.end - self.start + AHEAD_BYTES).max(KEPT_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
    }

    /// Waits a moment for the next request with a large buffer, and gives the buffer back when none comes.
    fn give_back_when_idle(&mut self, channel: &mut Channel) -> io::Result<()> {
        if self.buffer.len() <= KEPT_BYTES {
            return Ok(());
        }
        channel.set_read_timeout(Some(LARGE_KEPT_FOR))?;
        let read = channel.read(&mut self.buffer);
        channel.set_read_timeout(None)?;
        match read {
            Ok(count) => self.end = count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                self.buffer = Vec::new();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::socket::transport::Transport;
    use spinney_wire::{MESSAGE_BYTES_MAX, OpCode};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    fn pair() -> (UnixStream, Channel) {
        let (client, server) = UnixStream::pair().unwrap();
        (client, Channel::Plain(Arc::new(Transport::Unix(server))))
    }

    fn message(len: usize) -> Vec<u8> {
        let header = Header { len, request_id: 1, response_to: 0, opcode: OpCode::Message };
        let mut bytes = header.to_bytes().to_vec();
        bytes.resize(len, 7);
        bytes
    }

    #[test]
    fn messages_are_cut_wherever_reads_end() {
        let (mut client, mut channel) = pair();
        let lens = [16, 17, 8192, 8193, 100_000, 16, 3_000_000, 20];
        let writer = std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let all: Vec<u8> = lens.iter().flat_map(|len| message(*len)).collect();
                all.chunks(7919).for_each(|chunk| client.write_all(chunk).unwrap());
            });
            let mut frames = Frames::default();
            for len in lens {
                let (header, body) = frames.next(&mut channel, MESSAGE_BYTES_MAX).unwrap().unwrap();
                assert_eq!((header.len, body.len()), (len, len - 16));
                assert!(body.iter().all(|byte| *byte == 7));
            }
            assert!(frames.next(&mut channel, MESSAGE_BYTES_MAX).unwrap().is_none());
            writer.join()
        });
        writer.unwrap();
    }

    #[test]
    fn half_a_message_is_an_error() {
        for len in [1, 15, 16, 99] {
            let (mut client, mut channel) = pair();
            client.write_all(&message(100)[..len]).unwrap();
            drop(client);
            let error = Frames::default().next(&mut channel, MESSAGE_BYTES_MAX).unwrap_err();
            assert!(matches!(error, Broken::Io(error) if error.kind() == ErrorKind::UnexpectedEof));
        }
    }

    #[test]
    fn a_length_that_lies_takes_little_memory() {
        let (mut client, mut channel) = pair();
        client.write_all(&message(100)[..16]).unwrap();
        let mut lying = message(MESSAGE_BYTES_MAX);
        lying.truncate(100);
        let mut frames = Frames::default();
        client.write_all(&[0; 84]).unwrap();
        frames.next(&mut channel, MESSAGE_BYTES_MAX).unwrap().unwrap();
        client.write_all(&lying).unwrap();
        drop(client);
        assert!(frames.next(&mut channel, MESSAGE_BYTES_MAX).is_err());
        assert!(frames.buffer.capacity() <= 2 * AHEAD_BYTES, "{}", frames.buffer.capacity());
    }

    #[test]
    fn a_large_buffer_is_given_back_when_no_request_comes() {
        let (mut client, mut channel) = pair();
        let mut frames = Frames::default();
        std::thread::scope(|scope| {
            scope.spawn(|| client.write_all(&message(1_000_000)).unwrap());
            frames.next(&mut channel, MESSAGE_BYTES_MAX).unwrap().unwrap();
        });
        assert!(frames.buffer.capacity() >= 1_000_000);
        frames.end = frames.start;
        (frames.start, frames.end) = (0, 0);
        frames.give_back_when_idle(&mut channel).unwrap();
        assert_eq!(frames.buffer.capacity(), 0);
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_it_is_read() {
        let (mut client, mut channel) = pair();
        client.write_all(&message(200)[..16]).unwrap();
        assert!(matches!(Frames::default().next(&mut channel, 199), Err(Broken::Protocol(_))));
    }
}
