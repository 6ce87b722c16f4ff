//! A server's parts, wired and without logic.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use spinney_document::bson::Timestamp;
use spinney_document::command::Service;

use super::accounts::Accounts;
use super::catch_up::Follower;
use super::connections::Connections;
use super::counters::Counters;
use super::ending::Ending;
use super::fail_points::FailPoints;
use super::history::History;
use super::message_memory::MessageMemory;
use super::replica::Replica;
use super::settings::Settings;
use super::topology::Topology;

use crate::base::clock::monotonic;
use crate::base::log::Log;

/// How long a message may take beside the time of its bytes while others wait for memory.
const MESSAGE_GRACE: Duration = Duration::from_secs(10);

/// What the connections of a server share.
#[derive(Debug)]
pub struct Server {
    /// Runs commands about data.
    pub service: Service,
    /// What the server was started with.
    pub settings: Settings,
    /// What handshakes tell of the server.
    pub topology: Topology,
    /// The connections that are open.
    pub connections: Arc<Connections>,
    /// The memory of the messages that clients send.
    pub messages: MessageMemory,
    /// Counters of the network.
    pub counters: Counters,
    /// Whether the server is to end.
    pub ending: Ending,
    /// Commands that fail on purpose.
    pub fail_points: FailPoints,
    /// The users, and the roles that clients define.
    pub accounts: Accounts,
    /// What was done over the last hour.
    pub history: History,
    /// The log.
    pub log: Arc<Log>,
    /// When the server was started.
    pub started: Instant,
}

impl Server {
    /// The parts of a server that does not listen yet.
    #[must_use]
    pub fn new(service: Service, settings: Settings, log: Log) -> Self {
        let connections_max = i64::try_from(settings.connections_max).unwrap_or(i64::MAX);
        let log = Arc::new(log);
        let slow = Arc::clone(&log);
        service.state().slow.listen(Box::new(move |told| match told {
            Ok(command) => slow.slow(command.view()),
            Err(error) => slow.warning("a command cannot be profiled", &[("error", error.message())]),
        }));
        let state = service.state();
        log.keep_in(Arc::clone(&state.lines), Arc::clone(&state.startup_warnings));
        let status = settings.replica.as_ref().map(|replica| replica.node.status());
        if let Some(replica) = &settings.replica {
            let follower = Follower::new(Arc::clone(replica), service.database().clone());
            // A service that several servers have is of one member.
            drop(service.state().catch_up.set(Box::new(follower)));
        }
        service.state().network.connections_max.store(connections_max, Ordering::Relaxed);
        Self {
            topology: Topology::new(settings.replica_set.clone(), status.map(Arc::new)),
            connections: Connections::new(settings.connections_max),
            messages: MessageMemory::new(settings.message_memory, MESSAGE_GRACE),
            counters: Counters::default(),
            ending: Ending::default(),
            accounts: Accounts::new(service.database().clone(), settings.key.as_ref()),
            fail_points: FailPoints::default(),
            history: History::default(),
            started: monotonic(),
            service,
            settings,
            log,
        }
    }

    /// The member of a replica set that the server is, when there may be others.
    #[must_use]
    pub fn replica(&self) -> Option<&Replica> {
        self.settings.replica.as_deref()
    }

    /// The time that replies of a replica set carry: all commits up to it are visible, and no later one gets it.
    #[must_use]
    pub fn cluster_time(&self) -> Timestamp {
        let database = self.service.database();
        database.catalog().recorder().clock().visible(database.engine()).0
    }
}
