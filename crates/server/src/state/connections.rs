//! The connections that are open.
//!
//! # Concurrency
//!
//! The latch is held for a moment; nothing is read or written under it but the closing of a socket's reading side.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use spinney_document::base::num::u64_of;

use crate::base::clock::monotonic;
use crate::socket::transport::Transport;

/// The connections of a server.
#[derive(Debug)]
pub struct Connections {
    max: usize,
    open: Mutex<Open>,
    /// A connection was closed.
    closed: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    sockets: BTreeMap<u64, Arc<Transport>>,
    /// The number of the last connection; also how many there were.
    last: u64,
    /// How many were closed at once because there were too many.
    refused: u64,
    /// No more are taken.
    ending: bool,
}

/// The place of a connection, given back when it is dropped.
#[derive(Debug)]
pub struct Seat {
    /// The connection's number, from 1.
    pub number: u64,
    connections: Arc<Connections>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.sockets.remove(&self.number);
        self.connections.closed.notify_all();
    }
}

impl Connections {
    /// Room for `max` connections.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default(), closed: Condvar::new() })
    }

    /// Takes a connection in, unless there are too many or the server ends.
    pub fn admit(self: &Arc<Self>, transport: Arc<Transport>) -> Option<Seat> {
        let mut open = self.open.lock();
        if open.ending || open.sockets.len() >= self.max {
            open.refused += 1;
            return None;
        }
        open.last += 1;
        let number = open.last;
        open.sockets.insert(number, transport);
        Some(Seat { number, connections: Arc::clone(self) })
    }

    /// How many are open.
    #[must_use]
    pub fn current(&self) -> usize {
        self.open.lock().sockets.len()
    }

    /// How many more may be opened now.
    #[must_use]
    pub fn available(&self) -> usize {
        self.max - self.open.lock().sockets.len().min(self.max)
    }

    /// How many were opened, and how many were refused.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        let open = self.open.lock();
        (open.last, open.refused)
    }

    /// Takes no more, lets each connection end after the command that it runs, and waits for them at most for `time`;
    /// how many are left.
    pub fn end(&self, time: Duration) -> u64 {
        let until = monotonic() + time;
        let mut open = self.open.lock();
        open.ending = true;
        for transport in open.sockets.values() {
            transport.close_reading();
        }
        while !open.sockets.is_empty() && !self.closed.wait_until(&mut open, until).timed_out() {}
        u64_of(open.sockets.len())
    }

    /// Closes the connections that are left, so that a reply ends whose client does not read it, and waits for them at
    /// most for `time`; how many are left.
    pub fn break_off(&self, time: Duration) -> u64 {
        let until = monotonic() + time;
        // A command that was interrupted writes its reply first.
        let reply = until.checked_sub(time / 2).unwrap_or(until);
        let mut open = self.open.lock();
        while !open.sockets.is_empty() && !self.closed.wait_until(&mut open, reply).timed_out() {}
        open.sockets.values().for_each(|transport| transport.close());
        while !open.sockets.is_empty() && !self.closed.wait_until(&mut open, until).timed_out() {}
        u64_of(open.sockets.len())
    }
}
