//! The other members of the set, with connections to them that are kept for the next request.
//!
//! # Concurrency
//!
//! The latch guards the list of idle connections only; a request runs on a connection that is out of the list.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::Duration;

use parking_lot::Mutex;
use spinney_document::bson::{DocumentBuf, DocumentBuilder, Value};
use spinney_replica::{Member, Stream, Transport};
use spinney_wire::Failure;

use super::connection::{Connection, Link, part};

/// The name of the command by which members talk to each other.
pub const COMMAND: &str = "_replicaRequest";

/// The name of the command by which a connection begins to carry entries.
pub const STREAM: &str = "_replicaStream";

/// The section of [`COMMAND`] in which the payload is, as documents with a part of it each.
pub const PAYLOAD: &str = "payload";

/// The name of the command that tells up to which entry a member has to apply the log.
pub const READ_INDEX_COMMAND: &str = "_replicaReadIndex";

/// The field of it with a time of the cluster that the entries are to reach.
pub const READ_TIME: &str = "time";

/// The field of its reply.
pub const READ_INDEX: &str = "index";

/// The longest payload of a request.
pub const PAYLOAD_BYTES_MAX: usize = 45 << 20;

/// The longest part of a payload.
const PART_BYTES_MAX: usize = 8 << 20;

/// How many idle connections to a member are kept.
const IDLE_MAX: usize = 8;

/// The other members of the set.
#[derive(Debug, Default)]
pub struct Members {
    link: Link,
    idle: Mutex<BTreeMap<String, Vec<Connection>>>,
}

impl Members {
    /// Members that are connected to in a way.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self { link, idle: Mutex::default() }
    }

    /// Runs a command of the database `admin` at an address.
    ///
    /// # Errors
    /// `TimedOut` when there is no reply in time; what the system or the other side says.
    pub fn run(&self, address: &str, command: DocumentBuilder, time: Duration) -> Result<DocumentBuf, Failure> {
        self.on_a_connection(address, time, |connection| connection.run("admin", command, &[], time))
    }

    fn on_a_connection<R>(
        &self,
        address: &str,
        time: Duration,
        run: impl FnOnce(&mut Connection) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let kept = loop {
            let kept = self.idle.lock().get_mut(address).and_then(Vec::pop);
            let Some(connection) = kept else { break None };
            if !connection.is_closed() {
                break Some(connection);
            }
        };
        let mut connection = match kept {
            Some(connection) => connection,
            None => Connection::open(address, &self.link, time)?,
        };
        let done = run(&mut connection);
        let mut idle = self.idle.lock();
        if let Err(Failure::Connection(_)) = &done {
            // The others were opened to the same process, which may have ended.
            idle.remove(address);
        } else {
            let kept = idle.entry(address.to_owned()).or_default();
            if kept.len() < IDLE_MAX {
                kept.push(connection);
            }
        }
        done
    }
}

impl Transport for Members {
    fn call(&self, member: &Member, request: Vec<u8>, timeout: Duration) -> io::Result<Vec<u8>> {
        if request.len() > PAYLOAD_BYTES_MAX {
            let what = format!("a request of {} bytes to a member is too long", request.len());
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        let parts: Vec<DocumentBuf> = request.chunks(PART_BYTES_MAX).map(part).collect();
        let sequences = [(PAYLOAD, parts.iter().map(DocumentBuf::view).collect())];
        let mut command = DocumentBuilder::new();
        command.append(COMMAND, 1);
        let reply = self.on_a_connection(&member.host, timeout, |connection| {
            connection.run("admin", command, &sequences, timeout)
        })?;
        match reply.view().get(PAYLOAD) {
            Some(Value::Binary(0, bytes)) => Ok(bytes.to_vec()),
            _ => Err(io::Error::new(ErrorKind::InvalidData, "the reply has no payload")),
        }
    }

    fn open(&self, member: &Member, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        let mut connection = Connection::open(&member.host, &self.link, timeout)?;
        let mut command = DocumentBuilder::new();
        command.append(STREAM, 1);
        connection.run("admin", command, &[], timeout)?;
        Ok(Box::new(connection.into_channel()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use spinney_document::doc;
    use spinney_wire::Message;

    use super::*;

    /// Takes a connection, answers a request, and closes the connection.
    fn answer(listener: &TcpListener) {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 8];
        stream.read_exact(&mut head).unwrap();
        let number = |at: usize| i32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        stream.read_exact(&mut vec![0; usize::try_from(number(0)).unwrap() - head.len()]).unwrap();
        let (reply, sequences) = (doc! {"ok": 1.0}, Vec::new());
        let reply =
            Message { more_to_come: false, exhaust_allowed: false, checksum: false, body: reply.view(), sequences };
        stream.write_all(&reply.to_bytes(1, number(4))).unwrap();
    }

    #[test]
    fn a_member_that_was_started_again_is_connected_to_anew() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, members) = (listener.local_addr().unwrap().to_string(), Members::default());
        thread::scope(|scope| {
            for _ in 0..3 {
                let answering = scope.spawn(|| answer(&listener));
                let mut ping = DocumentBuilder::new();
                ping.append("ping", 1);
                assert!(members.run(&address, ping, Duration::from_secs(10)).is_ok());
                answering.join().unwrap();
            }
        });
    }
}
