//! The beginning and the end of a server.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use spinney_document::command::Service;

use super::accept::accept_all;
use super::address::{Listening, wake};
use super::follow::{follow, form};
use super::http::{self, MoreMetrics};
use super::warnings::{self, Warning};
use crate::base::clock::monotonic;
use crate::base::log::Log;
use crate::command::spec::Command;
use crate::command::table;
use crate::state::history::STEP_MS;
use crate::state::{Server, Settings, Standing};

/// How long commands that run may go on when the server ends, before they are interrupted: from the beginning of the
/// end, of which a primary's wait for its successor is a part.
const GRACE: Duration = Duration::from_secs(3);

/// How long the end of a server waits for them then. What still waits, such as for the lock of a document, ends with
/// the database, which commits nothing more for it.
const ENDING: Duration = Duration::from_millis(1500);

/// How long a primary that ends waits for another member to take over.
const HANDOVER: Duration = Duration::from_secs(2);

/// How often cursors that are not used are closed, and what was done is noted.
const SWEEP: Duration = Duration::from_millis(STEP_MS.cast_unsigned());

/// How often it is looked whether expired documents are to be removed.
const EXPIRY_STEP: Duration = Duration::from_secs(1);

/// A server that runs. It ends when it is dropped.
#[derive(Debug)]
pub struct Running {
    server: Arc<Server>,
    listening: Vec<Arc<Listening>>,
    /// What its log warned of when it began.
    warnings: Vec<Warning>,
    threads: Vec<JoinHandle<()>>,
    /// Where metrics are told.
    metrics: Option<SocketAddr>,
}

/// Starts a server on sockets.
///
/// # Errors
/// When the system has no more threads.
pub fn start(service: Service, settings: Settings, log: Log, sockets: Vec<Listening>) -> io::Result<Running> {
    let commands = table::all(settings.test_commands).map(Command::declaration).collect();
    // A service that several servers have lists the commands of the first.
    drop(service.state().others.set(commands));
    let server = Arc::new(Server::new(service, settings, log));
    let listening: Vec<_> = sockets.into_iter().map(Arc::new).collect();
    let warnings = warnings::all(&server, listening.iter().map(|socket| &**socket));
    for Warning { what, field: (name, value) } in &warnings {
        server.log.startup_warning(what, &[(*name, value.as_str())]);
    }
    if let Some(first) = listening.first() {
        server.topology.set_address(first.address());
    }
    // Dumps look for it: a database whose users are older has it before the first client connects.
    let stored = server.topology.standing() == Standing::Primary && stores_schema(&server);
    let mut running = Running {
        server: Arc::clone(&server),
        listening: listening.clone(),
        warnings,
        threads: Vec::new(),
        metrics: None,
    };
    for socket in listening {
        let server = Arc::clone(&server);
        running.begin("accept", move || accept_all(&server, &socket))?;
    }
    if let Some(replica) = server.settings.replica.clone() {
        server.topology.set_address(replica.node.settings().host.clone());
        running.begin("member", {
            let (server, replica) = (Arc::clone(&server), Arc::clone(&replica));
            move || follow(&server, &replica)
        })?;
        if !replica.first_members.is_empty() {
            let server = Arc::clone(&server);
            running.begin("forming", move || form(&server, &replica))?;
        }
    }
    running.begin("expiry", {
        let server = Arc::clone(&server);
        move || expire(&server)
    })?;
    running.begin("housekeeping", move || keep_house(&server, stored))?;
    Ok(running)
}

/// Closes cursors that are not used and notes what was done, until the server ends.
fn keep_house(server: &Server, mut schema_stored: bool) {
    server.history.take(server.service.state());
    while !server.ending.wait(SWEEP) {
        server.service.sweep();
        server.history.take(server.service.state());
        if server.topology.standing() != Standing::Primary {
            // What the primary changed of users and roles came by the log.
            server.accounts.touch();
        } else if !schema_stored {
            schema_stored = stores_schema(server);
        }
    }
}

/// Stores the version of the form of users and roles, if there are any; whether it is stored.
fn stores_schema(server: &Server) -> bool {
    match server.accounts.store_schema(server.service.database()) {
        Ok(there) => there,
        Err(error) => {
            server.log.warning("the version of users and roles cannot be stored", &[("error", error.message())]);
            false
        }
    }
}

/// Removes expired documents every so often, until the server ends.
fn expire(server: &Server) {
    let state = server.service.state();
    let mut steps = 0;
    while !server.ending.wait(EXPIRY_STEP) {
        steps += 1;
        if steps < state.settings.expiry_seconds.load(Ordering::Relaxed) {
            continue;
        }
        steps = 0;
        if server.topology.standing() == Standing::Primary
            && state.settings.expiry_enabled.load(Ordering::Relaxed)
            && let Err(error) = server.service.expire()
        {
            server.log.warning("expired documents cannot be removed", &[("error", error.message())]);
        }
    }
}

impl Running {
    /// Starts a thread of the server.
    fn begin(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }

    /// Answers the page, `/status.json`, `/metrics` and `/health` over HTTP on a socket, with `more` text in
    /// `/metrics` behind the server's own.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn serve_metrics(&mut self, listener: TcpListener, more: MoreMetrics) -> io::Result<()> {
        let (server, address) = (Arc::clone(&self.server), listener.local_addr()?);
        self.begin("metrics", move || http::serve(&server, &listener, &more))?;
        self.metrics = Some(address);
        Ok(())
    }

    /// The parts of the server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where it listens.
    pub fn listening(&self) -> impl Iterator<Item = &Listening> {
        self.listening.iter().map(|socket| &**socket)
    }

    /// What its log warned of when it began.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Waits until a client or [`Running::ask_to_end`] asks the server to end, at most for `time`; whether one did.
    #[must_use]
    pub fn wait(&self, time: Duration) -> bool {
        self.server.ending.wait(time)
    }

    /// Asks the server to end, as the command `shutdown` does.
    pub fn ask_to_end(&self) {
        self.server.ending.ask();
    }

    /// Takes no more connections, lets the commands that run end for three seconds, then interrupts them and closes the
    /// connections whose clients do not read their replies, and waits for that up to one and a half.
    pub fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        self.server.ending.ask();
        let grace = monotonic() + GRACE;
        if let Some(replica) = self.server.replica() {
            replica.node.end(HANDOVER);
        }
        self.server.topology.end();
        self.listening.iter().for_each(|socket| socket.wake());
        if let Some(address) = self.metrics {
            wake(address);
        }
        if self.server.connections.end(grace.saturating_duration_since(monotonic())) > 0 {
            let interrupted = self.server.service.state().operations.shut_down();
            self.server.log.info("commands interrupted at the end", &[("commands", &interrupted.to_string())]);
        }
        let left = self.server.connections.break_off(ENDING);
        if left > 0 {
            self.server.log.warning("commands still run at the end", &[("connections", &left.to_string())]);
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.server.log.warning("a thread of the server panicked", &[]);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.finish();
    }
}
