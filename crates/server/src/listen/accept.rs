//! Taking connections in, each to a thread of its own.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::address::Listening;
use super::tls::Tls;
use crate::base::clock::monotonic;
use crate::command::{Session, open_transaction};
use crate::connection::conversation::End;
use crate::connection::serve;
use crate::socket::Channel;
use crate::socket::transport::Transport;
use crate::state::Server;
use crate::state::connections::Seat;

/// The stack of a connection's thread. Only what was used of it takes memory. The deepest filters, expressions and
/// documents use 250 KiB (`opt-level` 1, x86-64).
pub const STACK_BYTES: usize = 2 << 20;

/// How long a reply waits for a client that does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(600);

/// The pause after a connection that could not be taken in, such as when there are no more descriptors.
const PAUSE: Duration = Duration::from_millis(20);

/// How often it is told that connections are refused: a client that tries again at once must not fill the log.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Connections that could not be taken in.
#[derive(Debug, Default)]
struct Refusals {
    told: Option<Instant>,
    /// How many there were since.
    since: u64,
}

impl Refusals {
    /// Counts one, and tells why and how many there were, unless others were told just now.
    fn add(&mut self, server: &Server, why: &str) {
        self.since += 1;
        let now = monotonic();
        if self.told.is_none_or(|told| now.duration_since(told) >= TOLD_EVERY) {
            let fields = [("why", why), ("refused", &self.since.to_string())];
            server.log.warning("connections cannot be taken in", &fields);
            *self = Self { told: Some(now), since: 0 };
        }
    }
}

/// Takes connections in until the server ends.
pub(super) fn accept_all(server: &Arc<Server>, listening: &Listening) {
    let mut refusals = Refusals::default();
    while !server.topology.is_ending() {
        match listening.accept() {
            Ok((transport, address, local)) => match server.connections.admit(Arc::clone(&transport)) {
                Some(seat) => {
                    if let Err(error) = begin(server, transport, seat, listening.tls().cloned(), address, local) {
                        refusals.add(server, &format!("no thread for a connection: {error}"));
                    }
                }
                None if server.topology.is_ending() => {}
                None => {
                    let max = server.settings.connections_max;
                    refusals.add(server, &format!("there are as many as the server takes, {max} (--connections)"));
                }
            },
            Err(error) => {
                refusals.add(server, &reason(&error));
                server.ending.wait(PAUSE);
            }
        }
    }
}

/// What an operator is told of a connection that the system did not give.
fn reason(error: &io::Error) -> String {
    // EMFILE and ENFILE, for which the standard library has no kind.
    match error.raw_os_error() {
        Some(24) if cfg!(unix) => format!("{error}: raise the limit of open files (ulimit -n) or lower --connections"),
        Some(23) if cfg!(unix) => format!("{error}: the whole machine has no more open files (fs.file-max)"),
        _ => error.to_string(),
    }
}

/// Starts the thread of a connection.
fn begin(
    server: &Arc<Server>,
    transport: Arc<Transport>,
    seat: Seat,
    tls: Option<Tls>,
    address: String,
    local: bool,
) -> io::Result<()> {
    let shared = Arc::clone(server);
    let thread = Builder::new().name(format!("client {}", seat.number)).stack_size(STACK_BYTES);
    thread.spawn(move || run(&shared, transport, tls.as_ref(), &seat, address, local)).map(drop)
}

/// The whole life of a connection.
fn run(server: &Server, transport: Arc<Transport>, tls: Option<&Tls>, seat: &Seat, address: String, local: bool) {
    let number = seat.number.to_string();
    server.log.info("connection accepted", &[("connection", &number), ("address", &address)]);
    let channel = transport.set_write_timeout(Some(WRITE_TIMEOUT)).and_then(|()| match tls {
        None => Ok(Channel::Plain(transport)),
        Some(tls) => Channel::secured(transport, tls.config()),
    });
    let channel = match channel {
        Ok(channel) => channel,
        Err(error) => {
            let fields = [("connection", &*number), ("address", &address), ("error", &error.to_string())];
            server.log.warning("a connection failed", &fields);
            return;
        }
    };
    let mut session = Session::new(seat.number, address, local);
    session.client.keeps_clock = server.settings.auth;
    session.subject = channel.subject();
    let network = &server.service.state().network;
    network.connections.fetch_add(1, Ordering::Relaxed);
    network.connections_created.fetch_add(1, Ordering::Relaxed);
    let end = guarded(|| serve(server, &mut session, channel));
    session.client.caller = None;
    open_transaction::end(&server.service, &mut session);
    network.connections.fetch_sub(1, Ordering::Relaxed);
    match end {
        End::Closed => server.log.info("connection ended", &[("connection", &number)]),
        End::Failed(error) => {
            server.log.info("connection ended", &[("connection", &number), ("error", &error.to_string())]);
        }
        End::Panicked => server.log.warning("a command panicked", &[("connection", &number)]),
        End::Protocol(error) => {
            server.counters.protocol_errors.add(1);
            let fields = [("connection", number.as_str()), ("error", error.message())];
            server.log.warning("a client broke the protocol", &fields);
        }
    }
}

/// The end of a connection whose commands may panic, by a bug, so that only this connection ends. The panic's message
/// is on standard error.
fn guarded(serve: impl FnOnce() -> End) -> End {
    // What a command changes is a transaction, which ends with it; what connections share is changed in single steps.
    catch_unwind(AssertUnwindSafe(serve)).unwrap_or(End::Panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_its_connection_only() {
        assert!(matches!(guarded(|| panic!("a bug")), End::Panicked));
        assert!(matches!(guarded(|| End::Closed), End::Closed));
    }
}
