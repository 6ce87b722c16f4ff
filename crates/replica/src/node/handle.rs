//! A member of a replica set, as the server uses it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spinney::env::Env;
use spinney_document::Committer;
use spinney_document::base::{Environment, System};
use tokio::time::{sleep, timeout};

use super::committer::Agreement;
use super::core::Core;
use super::driver::{Drive, Driver};
use super::start::take_part;
use crate::base::caller::BlockingCaller;
use crate::base::config::{Config, Member, Times};
use crate::base::error::{Error, Result};
use crate::base::frames::Frames;
use crate::base::settings::Settings;
use crate::base::status::Status;
use crate::base::transport::{Stream, Transport};
use crate::raft::convert::stored_peers;
use crate::raft::view::State;
use crate::storage::applier::Applier;
use crate::storage::copies::adopt_copy;
use crate::storage::identity::{identity, new_token};
use crate::storage::log::Log;
use crate::storage::rows::Rows;

/// How many times the node's thread looks in the time between heartbeats whether commits still drive the runtime:
/// heartbeats are late by a tenth of that time at the most.
const DRIVER_PERIODS: u32 = 20;

/// How many members must have an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// A majority of the members that vote. Every write that was answered has it already.
    Majority,
    /// So many members, the primary included.
    Count(usize),
}

/// A member of a replica set: a cheap handle. All methods block; none may be called in the node's own threads.
#[derive(Clone)]
pub struct Node {
    core: Arc<Core>,
    agreement: Arc<Agreement>,
    runtime: Arc<Owned>,
}

/// The runtime of a node. It ends with the last handle of the node, so that no call finds it gone.
struct Owned {
    driver: Arc<Driver>,
    /// Whether the node has ended, or ends. Nothing is published by it.
    ended: AtomicBool,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.driver.end();
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("core", &self.core).finish_non_exhaustive()
    }
}

/// Refuses the directory of a member that has another address in its set.
fn check_address(rows: &Rows, identity: u64, host: &str) -> Result<()> {
    match stored_peers(rows.members()?)?.get(&identity).map(|peer| &peer.member.host) {
        Some(own) if own != host => Err(Error::InvalidConfig(format!(
            "the database is that of the member {own}, and this one is {host}: start it under its own address, or this \
             member with an empty directory"
        ))),
        _ => Ok(()),
    }
}

impl Node {
    /// A node on an open database of the engine. It takes no part in the set before [`Node::run`].
    ///
    /// # Errors
    /// Those of the engine; `InvalidConfig` for settings out of range, and when the database is part of another set or
    /// that of a member with another address.
    pub fn open(engine: &spinney::Database, settings: Settings, transport: Arc<dyn Transport>) -> Result<Self> {
        let rows = Rows::open(engine)?;
        adopt_copy(&rows, |dir| new_token(dir, System.random()))?;
        // What is stored was checked before it was agreed on.
        let times = stored_peers(rows.members()?)?.values().max_by_key(|peer| peer.version).and_then(|peer| peer.times);
        let settings = settings.with_times(times);
        settings.check()?;
        let threads = Env::os().threads;
        let driver = Driver::start(&*threads, settings.heartbeat / DRIVER_PERIODS);
        let driver = driver.map_err(|error| Error::Ended(format!("no thread for replication: {error}")))?;
        let runtime = Arc::new(Owned { driver: Arc::clone(&driver), ended: AtomicBool::new(false) });
        let known = rows.set_name(&settings.set_name)?;
        if known != settings.set_name {
            let what = format!("the database is part of the replica set '{known}', not of '{}'", settings.set_name);
            return Err(Error::InvalidConfig(what));
        }
        let identity = identity(&rows, || System.random())?;
        check_address(&rows, identity, &settings.host)?;
        let log = Log::open(rows.clone(), settings.log_cache_bytes, &*threads)?;
        let applier = Applier::new(rows, log.stored(), &*threads)?;
        let core = Arc::new(Core::new(settings, identity, log, applier, Arc::new(BlockingCaller(transport))));
        let agreement = Arc::new(Agreement::new(&core, driver, engine.clone(), System.random()));
        Ok(Self { core, agreement, runtime })
    }

    fn driver(&self) -> &Driver {
        &self.runtime.driver
    }

    /// What commits the writes of the document database, for [`spinney_document::Database::with_committer`]. It refuses
    /// all when this node is not primary.
    #[must_use]
    pub fn committer(&self) -> Arc<dyn Committer> {
        Arc::clone(&self.agreement) as _
    }

    /// Lets the node take part in its set, and apply what the set agrees on to a document database that was opened on
    /// the same database of the engine with [`Node::committer`].
    ///
    /// # Errors
    /// Those of the engine; `Ended` when it runs already.
    pub fn run(&self, database: &spinney_document::Database) -> Result<()> {
        self.driver().wait(take_part(&self.core, &self.agreement, database))
    }

    /// Makes a set of the members, of which this node is one. The others must be running and have neither data nor a
    /// configuration; they learn it from this node. Returns when this node knows it; a primary is elected soon after.
    ///
    /// # Errors
    /// `AlreadyInitiated`; `InvalidConfig` when no member has this node's address, ids or addresses are not unique,
    /// none may become primary, a member cannot be reached, or there are more than 50 members or 7 that vote.
    pub fn initiate(&self, members: Vec<Member>) -> Result<()> {
        self.initiate_with_times(members, None)
    }

    /// As [`Node::initiate`], with times that all members have: see [`Status::times_changed`].
    ///
    /// # Errors
    /// As [`Node::initiate`]; `InvalidConfig` for times out of range.
    pub fn initiate_with_times(&self, members: Vec<Member>, times: Option<Times>) -> Result<()> {
        self.driver().wait(self.core.initiate(members, times))
    }

    /// Answers a request that another member's [`Transport`] carried here. Only requests of members may come here: the
    /// caller has checked that.
    ///
    /// # Errors
    /// `Malformed`, `Ended`. The caller closes the connection or answers with the error.
    pub fn handle(&self, request: &[u8]) -> Result<Vec<u8>> {
        self.driver().wait(self.core.handle(request))
    }

    /// Answers the requests with entries that come by a connection, which another member's [`Transport::open`] has
    /// opened, until it ends. As with [`Self::handle`], only members may come here.
    ///
    /// # Errors
    /// `Malformed`; `Ended`, also when the connection fails. The connection is closed.
    pub fn serve(&self, stream: Box<dyn Stream>) -> Result<()> {
        let core = Arc::clone(&self.core);
        // In the thread of the consensus, which then needs no other one to answer.
        let served = self.driver().handle().spawn(async move {
            let frames = Frames::new(stream).map_err(|error| Error::Ended(format!("no such connection: {error}")))?;
            core.serve(Box::new(frames)).await
        });
        self.driver().wait(served).map_err(|error| Error::Ended(error.to_string()))?
    }

    /// Waits until this node is known to be primary at a moment after the call, and has applied all that was
    /// acknowledged before it: what is read afterwards is linearizable.
    ///
    /// # Errors
    /// `NotPrimary`, `TimedOut`, `Ended`.
    pub fn linearizable(&self, within: Duration) -> Result<()> {
        let consensus = self.core.consensus()?;
        let mut standing = self.core.watch();
        let asked = async {
            loop {
                match consensus.linearizable().await {
                    // No majority answers now.
                    Err(Error::TimedOut) => sleep(self.core.settings.heartbeat).await,
                    done => return done,
                }
            }
        };
        let asked = async {
            tokio::select! {
                biased;
                done = asked => done,
                // Also when no other one is known yet: no majority answers this one any more.
                _ = standing.wait_for(|standing| standing.leading.is_none()) => Err(Error::NotPrimary(None)),
            }
        };
        match self.driver().wait(async { timeout(within, asked).await }) {
            Err(_) => Err(Error::TimedOut),
            Ok(Err(Error::NotPrimary(_))) => Err(self.core.not_primary()),
            Ok(done) => done,
        }
    }

    /// Waits until this node has applied the entry with an index (for `afterClusterTime`).
    ///
    /// # Errors
    /// `TimedOut`, `Ended`.
    pub fn wait_applied(&self, index: u64, within: Duration) -> Result<()> {
        self.core.consensus()?;
        let mut applied = self.core.applier.applied();
        let waited = async { timeout(within, applied.wait_for(|at| at.is_some_and(|at| at.index >= index))).await };
        self.driver().wait(waited).map(drop).map_err(|_| Error::TimedOut)
    }

    /// The index of an entry that holds the writes which were answered here, or follows them. Cheap.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.core.applier.begun()
    }

    /// Waits until enough members have the log up to an index durably. Called on the primary.
    ///
    /// # Errors
    /// `TimedOut`; `NotPrimary` when it is not, or no longer, primary; `Ended`.
    pub fn wait_replicated(&self, index: u64, wanted: Acknowledgement, within: Duration) -> Result<()> {
        let consensus = self.core.consensus()?;
        let enough = consensus.wait(|view| {
            let have = view.matched.values().filter(|matched| matched.is_some_and(|matched| matched >= index));
            view.state != State::Leader
                || match wanted {
                    Acknowledgement::Majority => view.committed.is_some_and(|committed| committed >= index),
                    Acknowledgement::Count(count) => have.count() >= count,
                }
        });
        let view = self.driver().wait(async { timeout(within, enough).await }).map_err(|_| Error::TimedOut)??;
        if view.state == State::Leader { Ok(()) } else { Err(self.core.not_primary()) }
    }

    /// Changes the configuration: members added (they first catch up, and then vote), removed, or with other data. At
    /// most one member that votes may be added or removed at a time, and no address or id may change hands. The version
    /// must be greater than the one in force. Called on the primary; returns when a majority knows the configuration.
    ///
    /// # Errors
    /// `NotPrimary`; `InvalidConfig`; `ConfigInProgress`; `TimedOut` when a new member does not catch up (it stays
    /// a member without a vote); `Ended`.
    pub fn change_members(&self, config: Config, within: Duration) -> Result<()> {
        self.driver().wait(self.core.change_members(config, within))
    }

    /// Hands the primary's role to a member that has caught up, and does not take it again for `period`. Waits for one
    /// to catch up for at most `catch_up`; with `force`, it steps down even if none does.
    ///
    /// # Errors
    /// `NotPrimary`; `NoSuccessor`; `Ended`.
    pub fn step_down(&self, period: Duration, catch_up: Duration, force: bool) -> Result<()> {
        self.driver().wait(self.core.step_down(period, catch_up, force))
    }

    /// Keeps this node from becoming primary for `period`; zero lets it again.
    ///
    /// # Errors
    /// `Ended`.
    pub fn freeze(&self, period: Duration) -> Result<()> {
        self.core.consensus()?;
        self.core.freeze(period);
        Ok(())
    }

    /// What the node is and knows now. Cheap.
    #[must_use]
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// Waits until [`Status::change`] is greater than `seen`, at most for `within`, and returns the status.
    #[must_use]
    pub fn wait_for_change(&self, seen: u64, within: Duration) -> Status {
        let mut standing = self.core.watch();
        // Nobody waits for the moment in which it hears of it.
        self.driver().handle().block_on(async {
            // The time is over: the status is as it was.
            drop(timeout(within, standing.wait_for(|standing| standing.change > seen)).await);
        });
        self.status()
    }

    /// Ends the node's part in the set: a primary hands over first, if that takes at most `within`. Calls that wait are
    /// ended.
    pub fn end(&self, within: Duration) {
        if self.runtime.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        self.driver().wait(self.core.end(within));
        self.agreement.end();
    }

    /// The settings that it was opened with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.core.settings
    }
}
