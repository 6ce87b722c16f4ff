//! The messages that come by a connection, cut from its bytes.
//!
//! # Invariants
//!
//! 1. A message's length sizes the buffer only as its bytes arrive: a client that promises much and sends little takes
//!    little.
//! 2. A connection that is idle holds a buffer of [`KEPT_BYTES`] at most.
//! 3. A buffer is longer than that only while it holds memory of all connections for its message.

use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

use spinney_document::{Error, ErrorCode};

use crate::base::clock::monotonic;
use crate::socket::Channel;
use crate::state::MessageMemory;
use crate::state::message_memory::Hold;
use spinney_wire::compress::{COMPRESSED_HEAD_BYTES, promised_bytes};
use spinney_wire::{HEADER_BYTES, Header, OpCode};

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

/// How long a read waits, while a message comes, without a look at whether others wait for memory.
const STEP: Duration = Duration::from_millis(200);

/// The bytes that came and were not consumed yet.
#[derive(Debug)]
pub struct Frames<'m> {
    buffer: Vec<u8>,
    /// Where the bytes begin that were not consumed.
    start: usize,
    /// Where they end; the buffer may be longer.
    end: usize,
    memory: &'m MessageMemory,
    /// What the buffer was given when it is longer than [`KEPT_BYTES`].
    hold: Option<Hold<'m>>,
    /// Until when the next message must have come, if there is such a limit.
    until: Option<Instant>,
}

impl<'m> Frames<'m> {
    /// A buffer without bytes, whose messages take the memory of all connections.
    #[must_use]
    pub const fn new(memory: &'m MessageMemory) -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, memory, hold: None, until: None }
    }

    /// Lets the next message take this long, from now to its last byte; nothing for as long as it takes.
    pub fn limit_wait(&mut self, patience: Option<Duration>) {
        self.until = patience.map(|patience| monotonic() + patience);
    }

    /// Waits for the next message: its header and its body; nothing when the client has closed the connection between
    /// two messages. The message before is consumed.
    ///
    /// # Errors
    /// When the connection fails or ends within a message, when its bytes come too slowly while others wait for memory,
    /// and when the header makes no sense or promises more than `bytes_max`.
    pub fn next(&mut self, channel: &mut Channel, bytes_max: usize) -> Result<Option<(Header, &[u8])>, Broken> {
        if !self.fill(channel, HEADER_BYTES)? {
            return Ok(None);
        }
        let head = self.buffer[self.start..].first_chunk().ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
        let header = Header::parse(head).map_err(Broken::Protocol)?;
        if header.len > bytes_max {
            return Err(too_long(header.len));
        }
        let mut wanted = header.len;
        if header.opcode == OpCode::Compressed {
            let head = header.len.min(HEADER_BYTES + COMPRESSED_HEAD_BYTES);
            self.fill_whole(channel, head)?;
            let promised = promised_bytes(&self.buffer[self.start + HEADER_BYTES..self.start + head]);
            if promised > bytes_max {
                return Err(too_long(promised));
            }
            wanted += promised;
        }
        self.take_memory(wanted);
        self.fill_whole(channel, header.len)?;
        if self.until.take().is_some() {
            channel.set_read_timeout(None).map_err(Broken::Io)?;
        }
        let (from, to) = (self.start + HEADER_BYTES, self.start + header.len);
        self.start = to;
        Ok(Some((header, &self.buffer[from..to])))
    }

    /// Takes memory for a message, unless it is small or what is held is enough. Nothing is held during the wait: what
    /// was read of the message fits into a small buffer.
    fn take_memory(&mut self, wanted: usize) {
        if wanted <= KEPT_BYTES || self.hold.as_ref().is_some_and(|hold| hold.wanted() >= wanted) {
            return;
        }
        let mut small = vec![0; KEPT_BYTES.max(self.end - self.start)];
        small[..self.end - self.start].copy_from_slice(&self.buffer[self.start..self.end]);
        (self.start, self.end) = (0, self.end - self.start);
        self.buffer = small;
        self.hold = None;
        self.hold = Some(self.memory.take(wanted));
    }

    /// Reads until `len` bytes are there, within a message.
    fn fill_whole(&mut self, channel: &mut Channel, len: usize) -> io::Result<()> {
        if self.fill(channel, len)? { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads until `len` bytes are there; whether they are, or the client closed the connection before the first.
    fn fill(&mut self, channel: &mut Channel, len: usize) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.give_back_when_idle(channel)?;
        }
        if len <= KEPT_BYTES || self.end - self.start >= len {
            return self.read(channel, len, None);
        }
        channel.set_read_timeout(Some(STEP))?;
        let read = self.read(channel, len, Some(monotonic() + self.memory.time_of(len)));
        channel.set_read_timeout(None)?;
        read
    }

    /// Reads until `len` bytes are there, and behind a deadline only while nobody waits for memory. It reads little
    /// ahead, so that what is held is for one message.
    fn read(&mut self, channel: &mut Channel, len: usize, deadline: Option<Instant>) -> io::Result<bool> {
        while self.end - self.start < len {
            self.make_room(len);
            let until = self.buffer.len().min(self.start + len.max(KEPT_BYTES));
            if let Some(last) = self.until {
                let left = last.saturating_duration_since(monotonic());
                if left.is_zero() {
                    return Err(io::Error::new(
                        ErrorKind::TimedOut,
                        "no message came in time and nobody has logged in",
                    ));
                }
                channel.set_read_timeout(Some(if deadline.is_some() { left.min(STEP) } else { left }))?;
            }
            match channel.read(&mut self.buffer[self.end..until]) {
                Ok(0) if self.end == self.start => return Ok(false),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if (deadline.is_some() || self.until.is_some()) && is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
            if deadline.is_some_and(|deadline| monotonic() > deadline) && self.memory.is_short() {
                let what = "the bytes of a message come too slowly while other clients wait for memory";
                return Err(io::Error::new(ErrorKind::TimedOut, what));
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

    /// Waits a moment for the next request with a large buffer, and gives the buffer back when none comes; at once
    /// when others wait for its memory.
    fn give_back_when_idle(&mut self, channel: &mut Channel) -> io::Result<()> {
        if self.hold.is_none() {
            return Ok(());
        }
        if self.memory.is_short() {
            self.give_back();
            return Ok(());
        }
        channel.set_read_timeout(Some(LARGE_KEPT_FOR))?;
        let until = self.buffer.len().min(KEPT_BYTES);
        let read = channel.read(&mut self.buffer[..until]);
        channel.set_read_timeout(None)?;
        match read {
            Ok(count) => self.end = count,
            Err(error) if is_timeout(&error) => self.give_back(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn give_back(&mut self) {
        self.buffer = Vec::new();
        self.hold = None;
    }
}

fn too_long(bytes: usize) -> Broken {
    let what = format!("a message of {bytes} bytes is too long for now");
    Broken::Protocol(Error::new(ErrorCode::PROTOCOL_ERROR, what))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::socket::transport::Transport;
    use spinney_wire::MESSAGE_BYTES_MAX;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    fn pair() -> (UnixStream, Channel) {
        let (client, server) = UnixStream::pair().unwrap();
        (client, Channel::Plain(Arc::new(Transport::Unix(server))))
    }

    fn memory() -> MessageMemory {
        MessageMemory::new(1 << 30, Duration::from_secs(10))
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
            let memory = memory();
            let mut frames = Frames::new(&memory);
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
            let error = Frames::new(&memory()).next(&mut channel, MESSAGE_BYTES_MAX).unwrap_err();
            assert!(matches!(error, Broken::Io(error) if error.kind() == ErrorKind::UnexpectedEof));
        }
    }

    #[test]
    fn a_length_that_lies_takes_little_memory() {
        let (mut client, mut channel) = pair();
        client.write_all(&message(100)[..16]).unwrap();
        let mut lying = message(MESSAGE_BYTES_MAX);
        lying.truncate(100);
        let memory = memory();
        let mut frames = Frames::new(&memory);
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
        let memory = memory();
        let mut frames = Frames::new(&memory);
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
        assert!(matches!(Frames::new(&memory()).next(&mut channel, 199), Err(Broken::Protocol(_))));
    }

    /// Clients promise large messages, send a part and wait, until there is no memory left: those that came first are
    /// closed, and the message of a client that sends is read.
    #[test]
    fn clients_that_promise_and_do_not_send_keep_no_memory_from_others() {
        let memory = MessageMemory::new(100_000, Duration::from_millis(300));
        let hostile: Vec<_> = (0..4).map(|_| pair()).collect();
        let (mut client, mut channel) = pair();
        std::thread::scope(|scope| {
            let memory = &memory;
            let ends: Vec<_> = hostile
                .into_iter()
                .map(|(mut client, mut channel)| {
                    client.write_all(&message(50_000)[..20_000]).unwrap();
                    scope.spawn(move || {
                        let error = Frames::new(memory).next(&mut channel, MESSAGE_BYTES_MAX).map(drop).unwrap_err();
                        // The client does not go before that.
                        drop(client);
                        error
                    })
                })
                .collect();
            // Two of them hold all of it, as long as no others wait.
            while memory.held() < 100_000 {
                std::thread::yield_now();
            }
            client.write_all(&message(90_000)).unwrap();
            let mut frames = Frames::new(memory);
            let (header, _) = frames.next(&mut channel, MESSAGE_BYTES_MAX).unwrap().unwrap();
            assert_eq!((header.len, memory.held()), (90_000, 90_000));
            drop(frames);
            // Without others that wait the last ones would be let alone.
            while !ends.iter().all(|end| end.is_finished()) {
                drop(memory.take(100_000));
            }
            for end in ends {
                let error = end.join().unwrap();
                assert!(matches!(error, Broken::Io(error) if error.kind() == ErrorKind::TimedOut));
            }
        });
        assert_eq!(memory.held(), 0);
    }

    /// 39 KB that unpack to 40 MB were read of sixty clients without a login at once.
    #[test]
    fn what_a_compressed_message_promises_is_limited_too() {
        let (mut client, mut channel) = pair();
        let header = Header { len: 100, request_id: 1, response_to: 0, opcode: OpCode::Compressed };
        client.write_all(&header.to_bytes()).unwrap();
        client.write_all(&2013_i32.to_le_bytes()).unwrap();
        client.write_all(&70_000_i32.to_le_bytes()).unwrap();
        client.write_all(&[0; 76]).unwrap();
        assert!(matches!(Frames::new(&memory()).next(&mut channel, 65_536), Err(Broken::Protocol(_))));
    }

    #[test]
    fn a_message_that_does_not_come_in_time_ends_the_wait() {
        for sent in [0, 10, 100] {
            let (mut client, mut channel) = pair();
            let memory = memory();
            let mut frames = Frames::new(&memory);
            frames.limit_wait(Some(Duration::from_millis(30)));
            client.write_all(&message(20_000)[..sent]).unwrap();
            let error = frames.next(&mut channel, MESSAGE_BYTES_MAX).unwrap_err();
            assert!(matches!(error, Broken::Io(error) if error.kind() == ErrorKind::TimedOut));
        }
    }

    #[test]
    fn a_compressed_message_takes_memory_for_what_it_promises_too() {
        let (mut client, mut channel) = pair();
        let memory = memory();
        let header = Header { len: 100, request_id: 1, response_to: 0, opcode: OpCode::Compressed };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend_from_slice(&2013_i32.to_le_bytes());
        bytes.extend_from_slice(&40_000_000_i32.to_le_bytes());
        bytes.resize(100, 0);
        client.write_all(&bytes).unwrap();
        let mut frames = Frames::new(&memory);
        frames.next(&mut channel, MESSAGE_BYTES_MAX).unwrap().unwrap();
        assert_eq!(memory.held(), 40_000_100);
        drop(frames);
        assert_eq!(memory.held(), 0);
    }
}
