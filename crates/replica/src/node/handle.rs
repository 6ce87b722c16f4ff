//! A member of a replica set, as the server uses it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::config::{Config, Member};
use crate::base::error::{Error, Result};
use crate::base::settings::Settings;
use crate::base::status::Status;
use crate::base::transport::Transport;

/// How many members must have an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// A majority of the members that vote. Every write that was answered has it already.
    Majority,
    /// So many members, the primary included.
    Count(usize),
}

/// A member of a replica set: a cheap handle. All methods block; none may be called in the node's own threads.
#[derive(Clone, Debug)]
pub struct Node {
    settings: Arc<Settings>,
    transport: Arc<dyn Transport>,
}

impl Node {
    /// A node on an open database of the engine. It takes no part in the set before [`Node::run`].
    ///
    /// # Errors
    /// Those of the engine; `InvalidConfig` for settings out of range, and when the database is part of another set.
    pub fn open(engine: &spinney::Database, settings: Settings, transport: Arc<dyn Transport>) -> Result<Self> {
        let _ = engine;
        Ok(Self { settings: Arc::new(settings), transport })
    }

    /// Lets the node take part in its set, and apply what the set agrees on to a document database that was opened on
    /// the same database of the engine.
    ///
    /// # Errors
    /// Those of the engine; `Ended` when it runs already.
    pub fn run(&self, database: &spinney_document::Database) -> Result<()> {
        let _ = database;
        Err(self.unbuilt())
    }

    /// Makes a set of the members, of which this node is one. The others must be running and have no configuration;
    /// they learn it from this node. Returns when this node knows it; a primary is elected soon after.
    ///
    /// # Errors
    /// `AlreadyInitiated`; `InvalidConfig` when no member has this node's address, ids or addresses are not unique,
    /// none may become primary, or there are more than 50 members or 7 that vote.
    pub fn initiate(&self, members: Vec<Member>) -> Result<()> {
        let _ = members;
        Err(self.unbuilt())
    }

    /// Answers a request that another member's [`Transport`] carried here. Only requests of members may come here: the
    /// caller has checked that.
    ///
    /// # Errors
    /// `Malformed`, `Ended`. The caller closes the connection or answers with the error.
    pub fn handle(&self, request: &[u8]) -> Result<Vec<u8>> {
        let _ = request;
        Err(self.unbuilt())
    }

    /// Waits until this node is known to be primary at a moment after the call, and has applied all that was
    /// acknowledged before it: what is read afterwards is linearizable.
    ///
    /// # Errors
    /// `NotPrimary`, `TimedOut`, `Ended`.
    pub fn linearizable(&self, timeout: Duration) -> Result<()> {
        let _ = timeout;
        Err(self.unbuilt())
    }

    /// Waits until this node has applied the entry with an index (for `afterClusterTime`).
    ///
    /// # Errors
    /// `TimedOut`, `Ended`.
    pub fn wait_applied(&self, index: u64, timeout: Duration) -> Result<()> {
        let _ = (index, timeout);
        Err(self.unbuilt())
    }

    /// Waits until enough members have the log up to an index durably. Called on the primary.
    ///
    /// # Errors
    /// `TimedOut`; `NotPrimary` when it is not, or no longer, primary; `Ended`.
    pub fn wait_replicated(&self, index: u64, wanted: Acknowledgement, timeout: Duration) -> Result<()> {
        let _ = (index, wanted, timeout);
        Err(self.unbuilt())
    }

    /// Changes the configuration: members added (they first catch up, and then vote), removed, or with other data. At
    /// most one member that votes may be added or removed at a time, and no address or id may change hands. Called on
    /// the primary; returns when a majority knows the configuration.
    ///
    /// # Errors
    /// `NotPrimary`; `InvalidConfig`; `ConfigInProgress`; `TimedOut` when a new member does not catch up (it stays
    /// a member without a vote); `Ended`.
    pub fn change_members(&self, config: Config, timeout: Duration) -> Result<()> {
        let _ = (config, timeout);
        Err(self.unbuilt())
    }

    /// Hands the primary's role to a member that has caught up, and does not take it again for `period`. Waits for one
    /// to catch up for at most `catch_up`; with `force`, it steps down even if none does.
    ///
    /// # Errors
    /// `NotPrimary`; `NoSuccessor`; `Ended`.
    pub fn step_down(&self, period: Duration, catch_up: Duration, force: bool) -> Result<()> {
        let _ = (period, catch_up, force);
        Err(self.unbuilt())
    }

    /// Keeps this node from becoming primary for `period`; zero lets it again.
    ///
    /// # Errors
    /// `Ended`.
    pub fn freeze(&self, period: Duration) -> Result<()> {
        let _ = period;
        Err(self.unbuilt())
    }

    /// What the node is and knows now. Cheap.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::uninitiated()
    }

    /// Waits until [`Status::change`] is greater than `seen`, at most for `timeout`, and returns the status.
    #[must_use]
    pub fn wait_for_change(&self, seen: u64, timeout: Duration) -> Status {
        let _ = (seen, timeout);
        self.status()
    }

    /// Ends the node's part in the set: a primary hands over first, if that takes at most `timeout`. Calls that wait
    /// are ended with `Ended`.
    pub fn end(&self, timeout: Duration) {
        let _ = timeout;
    }

    /// The settings that it was opened with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn unbuilt(&self) -> Error {
        Error::Ended(format!("{:?} leads nowhere", self.transport))
    }
}

/// Puts a copy of the primary's database that was received into `DIR/incoming` in the place of the database in `DIR`,
/// which must not be open; whether there was one that is complete. A copy that is not complete is removed. Call it
/// before every open of a database that is, or was, part of a set. A crash meanwhile is harmless: call it again.
///
/// # Errors
/// Those of the file system.
pub fn install_copy(dir: &Path) -> Result<bool> {
    let _ = dir;
    Ok(false)
}
