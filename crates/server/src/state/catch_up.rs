//! How a member catches up with a time of the cluster that a read is to see.
//!
//! A time that any member showed is that of a commit, and reaches this member by itself. When it does not within a
//! moment, this member asks the primary up to which entry it has to apply the log; where that does not reach the time
//! either, no commit has it. The primary is asked then to commit nothing at a later time.

use std::sync::Arc;
use std::time::Duration;

use spinney_document::bson::{DocumentBuilder, Timestamp, Value};
use spinney_document::command::catch_up::{CatchUp, ahead};
use spinney_document::{Database, Error, ErrorCode, Result};
use spinney_replica::{Error as Refused, Node};

use super::replica::{Replica, millis};
use crate::base::clock::monotonic;
use crate::base::fields::whole;
use crate::peer::members::{READ_INDEX, READ_INDEX_COMMAND, READ_TIME};

/// How long a member waits for commits that are on their way before it asks the primary.
const ON_THEIR_WAY: Duration = Duration::from_millis(50);

/// How long a step of a wait is, behind which it is looked whether the read is to end.
const STEP: Duration = Duration::from_millis(50);

/// How long the primary may take to answer.
const ANSWER: Duration = Duration::from_millis(500);

/// How long a read waits whose limit of time is none or later.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A member of a replica set with its database.
#[derive(Debug)]
pub struct Follower {
    replica: Arc<Replica>,
    database: Database,
}

/// The index of the entry up to which a member must have applied the log so that its reads see all that was
/// acknowledged before, and all up to a time. Called on the primary, which commits nothing at a later time where no
/// commit has the time.
///
/// # Errors
/// `NotWritablePrimary` (10107); `ExceededTimeLimit` (262); `InvalidOptions` (72) for a time that is too far ahead.
pub fn read_index(node: &Node, database: &Database, time: Option<Timestamp>, within: Duration) -> Result<u64> {
    node.linearizable(within)?;
    if let Some(time) = time.filter(|time| visible(database) < *time) {
        database.catalog().pass(time)?;
    }
    Ok(node.written())
}

fn visible(database: &Database) -> Timestamp {
    database.catalog().recorder().clock().visible(database.engine()).0
}

impl Follower {
    /// The member of a replica set.
    #[must_use]
    pub fn new(replica: Arc<Replica>, database: Database) -> Self {
        Self { replica, database }
    }

    /// Waits until something was applied that makes it so; whether it is.
    fn wait(&self, within: Duration, check: &dyn Fn() -> Result<()>, is_so: impl Fn(u64) -> bool) -> Result<bool> {
        let (node, until) = (&self.replica.node, monotonic() + within);
        loop {
            let applied = node.status().applied;
            if is_so(applied) {
                return Ok(true);
            }
            check()?;
            let left = until.saturating_duration_since(monotonic());
            if left.is_zero() {
                return Ok(false);
            }
            match node.wait_applied(applied + 1, left.min(STEP)) {
                Ok(()) | Err(Refused::TimedOut) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Asks the primary up to which entry the log is to be applied; nothing when no primary answers.
    fn ask(&self, time: Option<Timestamp>) -> Option<u64> {
        let Replica { node, members, .. } = &*self.replica;
        let status = node.status();
        let index = match status.primary_host() {
            Some(_) if status.primary == status.me => read_index(node, &self.database, time, ANSWER).ok(),
            Some(primary) => {
                let mut command = DocumentBuilder::new();
                command.append(READ_INDEX_COMMAND, 1).append("maxTimeMS", millis(ANSWER));
                time.into_iter().for_each(|time| {
                    command.append(READ_TIME, Value::Timestamp(time));
                });
                let reply = members.run(primary, command, ANSWER).ok();
                let index = reply.and_then(|reply| reply.view().get(READ_INDEX).as_ref().and_then(whole));
                index.and_then(|index| u64::try_from(index).ok())
            }
            None => None,
        };
        if index.is_none() {
            // Until another primary is known.
            drop(node.wait_for_change(status.change, STEP));
        }
        index
    }
}

impl CatchUp for Follower {
    fn catch_up(&self, to: Timestamp, is_known: bool, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let until = monotonic() + WAIT_MAX;
        let is_reached = || visible(&self.database) >= to;
        if self.wait(ON_THEIR_WAY, check, |_| is_reached())? {
            return Ok(());
        }
        let mut passes = None;
        loop {
            let left = until.saturating_duration_since(monotonic());
            if left.is_zero() {
                let what =
                    "this member does not reach the time of the cluster: no primary answers, or it is far behind";
                return Err(Error::new(ErrorCode::MAX_TIME_MS_EXPIRED, what));
            }
            check()?;
            let Some(index) = self.ask(passes) else { continue };
            if self.wait(left, check, |applied| applied >= index || is_reached())? && !is_reached() {
                // All is applied that was acknowledged, and no commit has the time.
                passes = Some(to).filter(|_| is_known);
                passes.ok_or_else(ahead)?;
            } else if is_reached() {
                return Ok(());
            }
        }
    }
}
